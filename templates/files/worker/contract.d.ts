// What the Durable Object class of a sandbox answers: made of `core/src/contract.rs` by a test.

/** The answer of every method. */
export type Reply<T> = { ok: true; value: T } | { ok: false; error: Failure };

/** What a class of sandboxes answers. */
export interface Contract {
  /**
   * Makes the sandbox of this object, unless it is there: until then every method but `kozeStatus`,
   * `kozeCancel` and `kozeDestroy` answers `unopened`, and does nothing.
   */
  kozeOpen(input: Open): Promise<Reply<Opened>>;
  /**
   * Runs a program to its end, or for as long as it may. It starts in `workingDir` with a fresh environment
   * of the sandbox's own and nothing on its standard input; what it leaves in the background lives on.
   *
   * `waiting` is called at most once, when the program has run for a while. What it promises comes when the
   * caller waits no longer: then, and where the caller is gone and the promise broken, the program is killed
   * with all it started, and the answer is `unavailable`.
   */
  kozeExec(input: Exec, waiting?: () => Promise<unknown>): Promise<Reply<Output>>;
  /**
   * Gives up the calls of `kozeExec` and `kozeUnpack` with this name: their programs are killed as above, and what
   * they have made goes away. One that has not come yet is given up when it comes. It starts nothing, and done is also what has ended.
   */
  kozeCancel(input: Cancel): Promise<Reply<Done>>;
  /**
   * A piece of a file: at most `limit` bytes from `offset`, fewer only at the end.
   */
  kozeRead(input: Read): Promise<Reply<Piece>>;
  /**
   * Writes a file, directories above it made where they are missing. It is replaced or appended to in one
   * step, keeps its permission bits, and stays as it was where writing fails.
   */
  kozeWrite(input: Write): Promise<Reply<Written>>;
  /**
   * What is in a directory, in no order, `.` and `..` left out.
   */
  kozeList(input: Path): Promise<Reply<Entries>>;
  /**
   * What is at a path; of a symbolic link at its end, the link itself.
   */
  kozeStat(input: Path): Promise<Reply<Stat>>;
  /**
   * Makes a directory, and those above it; one that is there is as good.
   */
  kozeMakeDir(input: Path): Promise<Reply<Done>>;
  /**
   * Makes a symbolic link.
   */
  kozeMakeLink(input: MakeLink): Promise<Reply<Done>>;
  /**
   * Sets the permission bits of a file or directory.
   */
  kozeSetMode(input: SetMode): Promise<Reply<Done>>;
  /**
   * Takes away what is at a path, a directory with all that is in it; of a symbolic link the link itself.
   */
  kozeRemove(input: Path): Promise<Reply<Done>>;
  /**
   * Moves a file or directory; a file at `to` is replaced in one step.
   */
  kozeRename(input: Rename): Promise<Reply<Done>>;
  /**
   * Starts to read a file or directory, with all that is in it, and gives its stream. Only a class whose
   * sandboxes are of the same kind can read what is in the stream, for `kozeUnpack`. One that ends early says why
   * in itself.
   *
   * A class that has no streams answers `unstreamed`, or lacks this method and the next.
   */
  kozePack(input: Pack): Promise<Reply<Packed>>;
  /**
   * Makes what a stream holds, at a path where nothing is; directories above it are made where they are missing.
   * It comes to be whole or not at all, modes, links and empty directories as they were. The stream is read to
   * its end, or given up.
   *
   * `waiting` is as for `kozeExec`. When it ends, the stream and its sender end as well.
   */
  kozeUnpack(input: Unpack, stream: ReadableStream<Uint8Array>, waiting?: () => Promise<unknown>): Promise<Reply<Unpacked>>;
  /**
   * Opens a port: the object's `fetch` then takes requests to it, by the headers `koze-port` and `koze-nonce`,
   * and no others. One that is open stays as it is.
   */
  kozeExpose(input: Expose): Promise<Reply<Exposed>>;
  /**
   * Whether the sandbox was opened, and runs. It starts nothing.
   */
  kozeStatus(input: Nothing): Promise<Reply<State>>;
  /**
   * Ends it, and takes away its files and all that the object remembers. Done is also what was not there.
   */
  kozeDestroy(input: Nothing): Promise<Reply<Done>>;
}

/**
 * Which calls to give up.
 */
export type Cancel = { 
/**
 * Their name, as [`Exec`] has it.
 */
call: string, };

/**
 * The kind of an error. Every tool family, provider and protocol uses the same codes.
 */
export type Code = "invalid_input" | "not_found" | "already_exists" | "is_directory" | "not_a_directory" | "permission_denied" | "path_escape" | "too_large" | "unsupported" | "unavailable" | "internal" | "unknown_tool" | "edit_conflict" | "binary" | "timeout";

/**
 * What a method gives of which nothing but that it was done is to be said.
 */
export type Done = Record<symbol, never>;

/**
 * What is in a directory.
 */
export type Entries = { 
/**
 * It.
 */
entries: Array<Entry>, };

/**
 * An entry of a directory.
 */
export type Entry = { 
/**
 * Its name. Bytes that are not UTF-8 are replaced by U+FFFD; such an entry cannot be addressed.
 */
name: string, 
/**
 * Its metadata, without following a symbolic link.
 */
stat: Stat, };

/**
 * A program to run.
 */
export type Exec = { 
/**
 * The program and its arguments; the program is looked for on the sandbox's `PATH`.
 */
argv: Array<string>, 
/**
 * The directory it starts in, absolute.
 */
workingDir: string, 
/**
 * Variables beside the sandbox's own.
 */
env: Array<[string, string]>, 
/**
 * How long it may run; then its whole process group is killed, and what it had printed is kept.
 */
timeoutMs: number, 
/**
 * How many bytes of each stream are kept: the first and the last, with a mark between, and the mark counts.
 */
maxOutput: number, 
/**
 * The name of the call, by which it can be given up; `null` where nobody will.
 */
call: string | null, };

/**
 * A port to let requests through to.
 */
export type Expose = { 
/**
 * 1024 to 65535, and none that the class needs for itself.
 */
port: number, };

/**
 * A port that is open.
 */
export type Exposed = { 
/**
 * Ten characters of lower-case base32, made at random when the port was opened and kept while the sandbox is there,
 * also while it sleeps: URLs of a sandbox that was destroyed are of no use for one that is made with its name.
 */
nonce: string, };

/**
 * Why something was not done.
 */
export type Failure = { 
/**
 * What went wrong, in one word.
 */
code: Reason, 
/**
 * The same in a sentence, without a path of the host, a secret or a stack.
 */
message: string, 
/**
 * Whether nothing was done, so that the same call may be made again.
 */
retryable: boolean, };

/**
 * The kind of a directory entry.
 */
export type Kind = "file" | "directory" | "link" | "other";

/**
 * A symbolic link to make.
 */
export type MakeLink = { 
/**
 * As in [`Path`].
 */
root: string, 
/**
 * As in [`Path`].
 */
path: string, 
/**
 * Where it leads, which may be anything.
 */
target: string, };

/**
 * What a method takes that needs nothing.
 */
export type Nothing = Record<symbol, never>;

/**
 * How a sandbox is made.
 */
export type Open = { 
/**
 * How long it may idle before it sleeps; `null` leaves it to the class.
 */
sleepAfterMs: number | null, };

/**
 * A sandbox that is there.
 */
export type Opened = { 
/**
 * Whether it was made now.
 */
created: boolean, };

/**
 * What came of a program.
 */
export type Output = { 
/**
 * Its standard output.
 */
stdout: Uint8Array, 
/**
 * Its standard error.
 */
stderr: Uint8Array, 
/**
 * Its exit code; 128 + n after the signal n, 124 where the time was up.
 */
exitCode: number, 
/**
 * Whether the time was up.
 */
timedOut: boolean, };

/**
 * A file or directory to read as a stream.
 */
export type Pack = { 
/**
 * As in [`Path`].
 */
root: string, 
/**
 * As in [`Path`]. A link that it leads to is followed; links in a directory stay links.
 */
path: string, 
/**
 * A name that is left out wherever it is, for a directory that is copied into itself.
 */
except: string, };

/**
 * A file or directory as a stream. Each host has its own type for it.
 */
export type Packed = { 
/**
 * Its bytes.
 */
stream: ReadableStream<Uint8Array>, };

/**
 * A path and the directory that it is confined to. The path, with symbolic links resolved, must be inside the directory.
 */
export type Path = { 
/**
 * The directory. `/` stands for the whole sandbox.
 */
root: string, 
/**
 * The absolute path.
 */
path: string, };

/**
 * A piece of a file.
 */
export type Piece = { 
/**
 * The bytes.
 */
bytes: Uint8Array, 
/**
 * The size of the whole file.
 */
size: number, };

/**
 * Which piece of a file to read.
 */
export type Read = { 
/**
 * As in [`Path`].
 */
root: string, 
/**
 * As in [`Path`].
 */
path: string, 
/**
 * Where it begins.
 */
offset: number, 
/**
 * How long it may be; at most [`LARGEST_PIECE`].
 */
limit: number, };

/**
 * What went wrong, in one word.
 */
export type Reason = Code | Unopened | Unstreamed;

/**
 * A file or directory to move.
 */
export type Rename = { 
/**
 * From here.
 */
from: Path, 
/**
 * To there.
 */
to: Path, };

/**
 * Permission bits to set.
 */
export type SetMode = { 
/**
 * As in [`Path`].
 */
root: string, 
/**
 * As in [`Path`].
 */
path: string, 
/**
 * The bits.
 */
mode: number, };

/**
 * The metadata of a path.
 */
export type Stat = { 
/**
 * Its kind.
 */
kind: Kind, 
/**
 * The target of a symbolic link, or `null`.
 */
target: string | null, 
/**
 * Its size in bytes.
 */
size: number, 
/**
 * Its permission bits.
 */
mode: number, };

/**
 * How a sandbox is.
 */
export type State = { 
/**
 * Whether it was opened.
 */
opened: boolean, 
/**
 * Whether it runs.
 */
status: Status, };

/**
 * Whether a sandbox is running or asleep.
 */
export type Status = "running" | "sleeping";

/**
 * The word `unopened`.
 */
export type Unopened = "unopened";

/**
 * Where what a stream holds is to be.
 */
export type Unpack = { 
/**
 * As in [`Path`].
 */
root: string, 
/**
 * As in [`Path`].
 */
path: string, 
/**
 * As in [`Exec`].
 */
call: string | null, };

/**
 * What a stream held, as files.
 */
export type Unpacked = { 
/**
 * The bytes of all its files.
 */
bytes: number, };

/**
 * The word `unstreamed`.
 */
export type Unstreamed = "unstreamed";

/**
 * What to write into a file.
 */
export type Write = { 
/**
 * As in [`Path`].
 */
root: string, 
/**
 * As in [`Path`].
 */
path: string, 
/**
 * The bytes; at most [`LARGEST_PIECE`].
 */
bytes: Uint8Array, 
/**
 * Whether they come behind those that are there.
 */
append: boolean, };

/**
 * A file that was written.
 */
export type Written = { 
/**
 * Its size now.
 */
size: number, };
