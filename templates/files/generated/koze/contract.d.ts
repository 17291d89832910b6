// The contract of a sandbox's Durable Object class: generated from `core/src/contract.rs` by a test.

/** The return value of every method. */
export type Reply<T> = { ok: true; value: T } | { ok: false; error: Failure };

/** Is called at most once, after a while. Its promise settles when the caller stops waiting. */
export type Waiting = () => PromiseLike<unknown>;

/** The operations that a class answers, with their inputs and results. */
export interface Operations {
  /**
   * Creates the sandbox of this object, unless it exists. Before that, every operation but
   * `status`, `cancel` and `destroy` returns `unopened` and does nothing.
   */
  open: { input: Open; value: Opened };
  /**
   * Runs a program until it exits or times out. It starts in `workingDir` with a fresh environment of the
   * sandbox and an empty standard input. Background processes that it starts keep running.
   *
   * `waiting` is called at most once, after the program has run for a while. Its promise resolves when the
   * caller stops waiting, and rejects when the caller is gone. In both cases the program and its descendants
   * are killed, and the result is `unavailable`.
   */
  exec: { input: Exec; value: Output };
  /**
   * Cancels the calls of `exec`, `search`, `unpack` and `extract` with this name: their programs are
   * killed as above, and what `unpack` has created is removed. A call that arrives later is canceled on arrival.
   * Canceling starts nothing, and succeeds for finished calls.
   */
  cancel: { input: Cancel; value: Done };
  /**
   * Starts a program that keeps running after the call, and returns its ID. The program is started as by `exec`,
   * with pipes or a terminal, and its output is kept in a buffer. It ends when the sandbox sleeps or is destroyed.
   * A process that has exited is kept until others need its space.
   *
   * The next operations return `not_found` if the process does not exist, and do not start the container.
   */
  start: { input: Start; value: Started };
  /**
   * Returns a process that is running or kept.
   */
  process: { input: OneProcess; value: ProcessInfo };
  /**
   * Lists the processes that are running or kept, the oldest first.
   */
  processes: { input: Nothing; value: Processes };
  /**
   * Returns the output of a process from a cursor on. Waits until there is output, the process has ended, or the
   * time is up. A cursor beyond the output is `invalid_input`. If the buffer blocks the program, output before the
   * cursor is discarded to make room.
   *
   * `waiting` is as for `exec`, but nothing is killed.
   */
  read_process: { input: ReadProcess; value: ProcessOutput };
  /**
   * Writes to the standard input of a process, or types on its terminal, until everything is written or the time is
   * up. Returns `invalid_input` if the input is closed. `waiting` is as above.
   */
  write_process: { input: WriteProcess; value: Taken };
  /**
   * Closes the standard input of a process, or types the end-of-file character. Succeeds if it is already closed.
   */
  close_process: { input: OneProcess; value: Done };
  /**
   * Sends a signal to the process group of a process; KILL also goes to all its descendants. Does nothing if the
   * process has ended.
   */
  signal_process: { input: SignalProcess; value: Done };
  /**
   * Sets the size of the terminal of a process.
   */
  resize_process: { input: ResizeProcess; value: Done };
  /**
   * Waits until a process has ended, or the time is up. `waiting` is as above.
   */
  wait_process: { input: WaitProcess; value: Ended };
  /**
   * Reads part of a file: at most `limit` bytes from `offset`, fewer only at the end of the file.
   */
  read: { input: Read; value: Piece };
  /**
   * Writes a file, and creates missing parent directories. The file is replaced or appended to atomically,
   * keeps its permission bits, and is unchanged if writing fails.
   */
  write: { input: Write; value: Written };
  /**
   * Replaces text in a file atomically, serialized with every other write, append and edit of the same path. The
   * file keeps its permission bits and all other bytes, and is unchanged if the edit fails.
   */
  edit: { input: Edit; value: Edited };
  /**
   * Reads lines of a text file, from its start to the end of the range and no further.
   */
  read_lines: { input: ReadLines; value: Lines };
  /**
   * Searches the lines of a file, or of the files of a directory, without following links below it.
   *
   * `waiting` is as for `exec`: the search ends with its caller. A class that cannot search returns
   * `unstreamed`, or lacks this operation.
   */
  search: { input: SearchFiles; value: Searched };
  /**
   * Lists a directory in no particular order, without `.` and `..`.
   */
  list: { input: Path; value: Entries };
  /**
   * Describes a path; a final symbolic link is not followed.
   */
  stat: { input: Path; value: Stat };
  /**
   * Changes the files.
   */
  change: { input: Change; value: Done };
  /**
   * Starts to serialize a file, or a directory with its content, and returns the stream. Only `unpack`
   * of a class of the same backend can read it. A stream that ends early contains the reason.
   *
   * A class without streams returns `unstreamed`, or lacks this operation and the next.
   */
  pack: { input: Pack; value: Packed };
  /**
   * Starts to archive a directory, and returns the stream: the tar archive in pieces of at most 64 KiB, each preceded by
   * its length (four bytes, little-endian). It ends with a length of 0 and a last piece, which is JSON: `{"ok":
   * {"entries", "bytes", "skipped"}}`, or `{"failed": {"why", "text"}}` with a code. Without `ok`, the archive is
   * incomplete. Sockets, pipes and devices are left out, and counted as `skipped`. Canceling the stream stops the work.
   *
   * A class without archives returns `unstreamed`, or lacks this operation and the next. One that returns a stream
   * here also has the next.
   */
  archive: { input: Path; value: Packed };
  /**
   * Opens a port. The object's `fetch` then accepts requests to it that carry the headers `koze-port` and
   * `koze-nonce`, and no others. An open port stays as it is.
   */
  expose: { input: Expose; value: Exposed };
  /**
   * Returns whether the sandbox was opened and whether it runs. Starts nothing.
   */
  status: { input: Nothing; value: State };
  /**
   * Returns the programs that ended when the sandbox slept or restarted, and forgets them. Starts nothing.
   */
  take_ended: { input: Nothing; value: TakenEnded };
  /**
   * Destroys the sandbox, its files and everything that the object stores. Succeeds if it does not exist.
   */
  destroy: { input: Nothing; value: Done };
}

/** An operation and its input, such as `{ stat: { root: "/", path: "/tmp" } }`. */
export type Request = { [N in keyof Operations]: { [K in N]: Operations[N]["input"] } }[keyof Operations];

/** The result of a request. */
export type Result<R extends Request> =
  { [N in keyof Operations]: R extends { [K in N]: unknown } ? Operations[N]["value"] : never }[keyof Operations];

/** The methods of a sandbox class. */
export interface Contract {
  /** Answers a request. */
  koze<R extends Request>(request: R, waiting?: Waiting): Promise<Reply<Result<R>>>;
  /**
   * Creates the files of a stream at a path that does not exist, with missing parent directories. They are
   * created completely or not at all, including permission bits, links and empty directories. The stream is
   * read to its end, or canceled.
   *
   * `waiting` is as for `exec`. When its promise settles, the stream and its sender end as well.
   */
  kozeUnpack(input: Unpack, stream: ReadableStream<Uint8Array>, waiting?: Waiting): Promise<Reply<Unpacked>>;
  /**
   * Creates the files of a tar archive, which is sent without lengths, in an existing directory. A failed call may
   * leave some of them. Nothing is created outside the directory, and an incomplete archive is `unavailable`. The
   * stream is read to its end, or canceled.
   *
   * `waiting` is as for `unpack`.
   */
  kozeExtract(input: Unpack, stream: ReadableStream<Uint8Array>, waiting?: Waiting): Promise<Reply<Extracted>>;
}

/**
 * The calls to cancel.
 */
export type Cancel = { 
/**
 * Their name, as in [`Exec`].
 */
call: string, };

/**
 * A change of the files of a sandbox, which has no result.
 */
export type Change = { "make_dir": Path } | { "make_link": { 
/**
 * As in [`Place`].
 */
root: string, 
/**
 * As in [`Place`].
 */
path: string, 
/**
 * Its target, which may be any text and need not exist.
 */
target: string, } } | { "set_mode": { 
/**
 * As in [`Place`].
 */
root: string, 
/**
 * As in [`Place`].
 */
path: string, 
/**
 * The bits, at most 7777 in octal.
 */
mode: number, } } | { "remove": Path } | { "rename": { 
/**
 * The current path.
 */
from: Path, 
/**
 * The new path.
 */
to: Path, } };

/**
 * A chunk of output.
 */
export type Chunk = { 
/**
 * The stream that it was written to.
 */
stream: OutputStream, 
/**
 * The number of its bytes.
 */
length: number, };

/**
 * The kind of an error. Every tool family, provider and protocol uses the same codes.
 */
export type Code = "invalid_input" | "not_found" | "already_exists" | "is_directory" | "not_a_directory" | "permission_denied" | "path_escape" | "too_large" | "unsupported" | "unavailable" | "internal" | "unknown_tool" | "edit_conflict" | "binary" | "timeout";

/**
 * The result of an operation that has none.
 */
export type Done = Record<symbol, never>;

/**
 * A text to replace in a file.
 */
export type Edit = { 
/**
 * As in [`Path`].
 */
root: string, 
/**
 * As in [`Path`].
 */
path: string, 
/**
 * The bytes to replace, at least one and at most [`MAX_EDIT_TEXT`](crate::sandbox::MAX_EDIT_TEXT).
 */
old: Uint8Array, 
/**
 * The bytes that replace them, at most as many.
 */
new: Uint8Array, 
/**
 * Whether to replace every occurrence. Otherwise there must be exactly one.
 */
all: boolean, };

/**
 * The result of an edit.
 */
export type Edited = { "done": { 
/**
 * The size of the file now, in bytes.
 */
size: number, 
/**
 * The number of replaced occurrences.
 */
replaced: number, } } | { "not_found": { 
/**
 * Where it would occur if white space were ignored.
 */
nearest: NearestLine | null, } } | { "ambiguous": { 
/**
 * The number of occurrences, at least 2. Overlapping occurrences count as one, unless there are no others.
 */
occurrences: number, 
/**
 * The lines in which the first occurrences begin, counted from 1: at most [`MAX_NAMED_LINES`].
 */
lines: number[], } };

/**
 * Why a search ended.
 */
export type End = "complete" | "full" | "timeout" | "too_many";

/**
 * The end of a process.
 */
export type Ended = { 
/**
 * Its exit code, 128 + n after the signal n; `null` if it is still running.
 */
exit: number | null, };

/**
 * The programs that ended when their sandbox slept, was restarted, or was changed.
 */
export type EndedPrograms = { 
/**
 * The command lines of the first ones.
 */
programs: Array<string>, 
/**
 * How many there were.
 */
count: number, };

/**
 * The entries of a directory.
 */
export type Entries = { 
/**
 * The list.
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
 * The program and its arguments; the program is resolved over the sandbox's `PATH`.
 */
argv: Array<string>, 
/**
 * The absolute path of its working directory.
 */
workingDir: string, 
/**
 * Variables in addition to the sandbox's own.
 */
env: Array<[string, string]>, 
/**
 * The timeout. After it the whole process group is killed, and the output so far is kept.
 */
timeoutMs: number, 
/**
 * How many bytes of each stream are kept: the first and the last ones, with a mark between them that counts too.
 */
maxOutput: number, 
/**
 * The name of the call, by which it can be canceled, or `null`.
 */
call: string | null, };

/**
 * A port to open.
 */
export type Expose = { 
/**
 * 1024 to 65535, except ports that the class itself uses.
 */
port: number, };

/**
 * An open port.
 */
export type Exposed = { 
/**
 * Ten characters of lowercase base32, chosen at random when the port is opened, and kept while the sandbox exists,
 * even while it sleeps. URLs of a destroyed sandbox do not work for a new one with the same name.
 */
nonce: string, };

/**
 * The files that were created from an archive.
 */
export type Extracted = { 
/**
 * The number of files, directories and symbolic links.
 */
entries: number, 
/**
 * The total size of the files.
 */
bytes: number, };

/**
 * An error.
 */
export type Failure = { 
/**
 * The error code.
 */
code: Reason, 
/**
 * The message, without paths of the host, secrets or a stack trace.
 */
message: string, 
/**
 * Whether nothing was done, so that the call can be retried.
 */
retryable: boolean, };

/**
 * Which files to search.
 */
export type Include = { 
/**
 * A regular expression, matched against the path of a file below the start of the search.
 */
regex: string, 
/**
 * Whether it is matched against the name of the file instead.
 */
byName: boolean, };

/**
 * The kind of a directory entry.
 */
export type Kind = "file" | "directory" | "link" | "other";

/**
 * Lines of a file.
 */
export type Lines = { 
/**
 * The first characters of the range, as UTF-8.
 */
text: Uint8Array, 
/**
 * The number of characters of the whole range.
 */
chars: number, 
/**
 * Whether the file has fewer lines than the first one requested.
 */
pastEnd: boolean, 
/**
 * Whether something up to the end of the range is not text: then there are no lines.
 */
binary: boolean, 
/**
 * The size of the file.
 */
size: number, };

/**
 * A matching line.
 */
export type Match = { 
/**
 * The path of the file.
 */
path: string, 
/**
 * The number of the line; the first one is 1.
 */
number: number, 
/**
 * The beginning of the line, without its end. Bytes that are not UTF-8 are replaced by U+FFFD.
 */
text: string, };

/**
 * The line in which a text would begin if white space were ignored.
 */
export type NearestLine = { 
/**
 * Its number, counted from 1.
 */
number: number, 
/**
 * Its text: at most [`MAX_NEAREST_TEXT`] characters. Bytes that are not UTF-8 are replaced by U+FFFD.
 */
text: string, };

/**
 * The input of an operation without parameters.
 */
export type Nothing = Record<symbol, never>;

/**
 * A process.
 */
export type OneProcess = { 
/**
 * Its ID.
 */
id: string, };

/**
 * The options of a new sandbox.
 */
export type Open = { 
/**
 * How long it may be idle before it sleeps; `null` means the default of the class.
 */
sleepAfterMs: number | null, 
/**
 * The name of its image, if the class has several; absent means the first one.
 */
image?: string, 
/**
 * The name of its size, if the class has several; absent means its default.
 */
size?: string, };

/**
 * An opened sandbox.
 */
export type Opened = { 
/**
 * Whether this call created it.
 */
created: boolean, 
/**
 * The size that it was created with, if it was chosen.
 */
size?: string, };

/**
 * The result of a program.
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
 * Its exit code: 128 + n after signal n, 124 after a timeout.
 */
exitCode: number, 
/**
 * Whether it timed out.
 */
timedOut: boolean, 
/**
 * Whether programs ended when the sandbox slept or restarted, which `take_ended` returns; absent means `false`.
 */
ended?: boolean, };

/**
 * A stream of a process. With a terminal, all output is `stdout`.
 */
export type OutputStream = "stdout" | "stderr";

/**
 * A file or directory to serialize.
 */
export type Pack = { 
/**
 * As in `Path`.
 */
root: string, 
/**
 * As in `Path`. A final link is followed; links inside a directory are kept.
 */
path: string, 
/**
 * An entry name to leave out at any depth, for a directory that is copied into itself.
 */
except: string, };

/**
 * A serialized file or directory, or an archive. Each host has its own type for it.
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
 * Part of a file.
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
 * The description of a process.
 */
export type ProcessInfo = { 
/**
 * Its ID.
 */
id: string, 
/**
 * Its program, as it was given.
 */
program: string, 
/**
 * Whether it has a terminal.
 */
terminal: boolean, 
/**
 * Its exit code, 128 + n after the signal n; `null` while it runs.
 */
exit: number | null, 
/**
 * As in `Start`.
 */
label: string | null, };

/**
 * A part of a process's output.
 */
export type ProcessOutput = { 
/**
 * The bytes of all chunks, one after the other.
 */
bytes: Uint8Array, 
/**
 * The chunks, in the order in which they were written.
 */
chunks: Array<Chunk>, 
/**
 * Where the next read begins.
 */
next: number, 
/**
 * The number of bytes between the cursor and the first chunk, which were discarded.
 */
dropped: number, 
/**
 * The exit code, if the process has ended and all its output was read; otherwise `null`.
 */
exit: number | null, };

/**
 * The processes of a sandbox.
 */
export type Processes = { 
/**
 * The list.
 */
processes: Array<ProcessInfo>, };

/**
 * The part of a file to read.
 */
export type Read = { 
/**
 * As in `Path`.
 */
root: string, 
/**
 * As in `Path`.
 */
path: string, 
/**
 * Its start.
 */
offset: number, 
/**
 * Its maximum length, at most 8 MiB in the contract.
 */
limit: number, };

/**
 * Which lines of a file to read.
 */
export type ReadLines = { 
/**
 * As in `Path`.
 */
root: string, 
/**
 * As in `Path`.
 */
path: string, 
/**
 * The first line, counted from 1.
 */
first: number, 
/**
 * The last line; `null` for the last one of the file.
 */
last: number | null, 
/**
 * How many characters are returned, at most 2097152.
 */
maxChars: number, 
/**
 * Whether the bytes are returned as they are. Otherwise lines are joined by `\n`, without an end of the last one.
 */
verbatim: boolean, };

/**
 * The part of a process's output to read.
 */
export type ReadProcess = { 
/**
 * Its ID.
 */
id: string, 
/**
 * Where the part begins: 0, or `next` of the last read.
 */
cursor: number, 
/**
 * The maximum number of bytes, 1 to `LARGEST_PIECE`.
 */
limit: number, 
/**
 * How long to wait for output.
 */
waitMs: number, 
/**
 * As in `Exec`.
 */
call: string | null, 
/**
 * The number of the signal that the process gets if the caller stops waiting, or is gone, before there is an answer, or
 * `null`. Signals are as in `SignalProcess`.
 */
abandonedSignal: number | null, };

/**
 * The error code.
 */
export type Reason = Code | Unopened | Unstreamed;

/**
 * A size to set.
 */
export type ResizeProcess = { 
/**
 * The ID of the process.
 */
id: string, 
/**
 * As in `Size`.
 */
rows: number, 
/**
 * As in `Size`.
 */
columns: number, };

/**
 * The disk of a sandbox that its object saved before the container slept.
 */
export type SavedDisk = { 
/**
 * Its size, as the platform counts it.
 */
bytes: number, 
/**
 * When it was saved, in milliseconds since 1970.
 */
savedAt: number, };

/**
 * What to search for, and where to stop.
 */
export type Search = { 
/**
 * The regular expression, as the crate `regex-lite` understands it. It is matched against each line without its end.
 */
pattern: string, 
/**
 * Whether upper and lower case of ASCII letters are the same.
 */
ignoreCase: boolean, 
/**
 * Which files to search; `null` for all.
 */
include: Include | null, 
/**
 * Whether to leave out the files and directories that tools generate: see [`is_ignored`].
 */
skipIgnored: boolean, 
/**
 * The size of the largest file to search, in bytes.
 */
maxFileSize: number, 
/**
 * How many bytes at the start of a file make it binary if one of them is NUL.
 */
binaryWithin: number, 
/**
 * How many characters a line may have, with its end. Longer ones are not searched.
 */
maxLineChars: number, 
/**
 * How many bytes of a matching line are returned.
 */
maxLineBytes: number, 
/**
 * How many lines are returned.
 */
maxMatches: number, 
/**
 * How many paths are returned in each other list.
 */
maxSkipped: number, 
/**
 * How many directories are listed.
 */
maxDirectories: number, 
/**
 * How many files and directories are looked at, without those that are left out.
 */
maxEntries: number, 
/**
 * How long the search may take, in milliseconds.
 */
timeoutMs: number, };

/**
 * A search of the lines of a file, or of the files of a directory.
 */
export type SearchFiles = { 
/**
 * As in `Path`.
 */
root: string, 
/**
 * As in `Path`.
 */
path: string, 
/**
 * What to search for, and where to stop.
 */
search: Search, 
/**
 * As in `Exec`.
 */
call: string | null, };

/**
 * What was found.
 */
export type Searched = { 
/**
 * The matching lines. Files come in the order of their paths, component by component. All paths are below the start
 * of the search; the path of the start itself is empty.
 */
matches: Array<Match>, 
/**
 * The files and directories that were not searched because they are too large or cannot be read.
 */
skipped: Array<string>, 
/**
 * The binary files, which were not searched.
 */
binary: Array<string>, 
/**
 * Why the search ended.
 */
end: End, };

/**
 * A signal to send.
 */
export type SignalProcess = { 
/**
 * The ID of the process.
 */
id: string, 
/**
 * The number of the signal on Linux.
 */
signal: number, };

/**
 * The size of a terminal.
 */
export type Size = { 
/**
 * Its rows, at least 1.
 */
rows: number, 
/**
 * Its columns, at least 1.
 */
columns: number, };

/**
 * A program that keeps running after the call.
 */
export type Start = { 
/**
 * As in `Exec`.
 */
argv: Array<string>, 
/**
 * As in `Exec`.
 */
workingDir: string, 
/**
 * As in `Exec`. With a terminal, `TERM` is `xterm-256color` unless this sets it.
 */
env: Array<[string, string]>, 
/**
 * The size of its terminal; `null` for pipes.
 */
terminal: Size | null, 
/**
 * How many bytes of its output are kept, 4096 to 8388608.
 */
buffer: number, 
/**
 * Whether the oldest output is discarded when the buffer is full. Otherwise the program waits until output is read.
 */
dropOldest: boolean, 
/**
 * A text of at most 64 bytes that the list of processes returns, or `null`.
 */
label: string | null, 
/**
 * The time within which a call with an `abandonedSignal` must arrive for the process, or it is killed: its caller
 * may be gone before it learns the ID. `null` for none.
 */
attendWithinMs: number | null, };

/**
 * A process that was started.
 */
export type Started = { 
/**
 * Its ID: 32 lowercase hexadecimal digits.
 */
id: string, };

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
mode: number, 
/**
 * When its content last changed, in milliseconds since the epoch. Older classes do not return it.
 */
mtime?: number, 
/**
 * A number of at most 52 bits that changes when its content or metadata does. Older classes do not return it.
 */
version?: number, };

/**
 * The state of a sandbox.
 */
export type State = { 
/**
 * Whether it was opened.
 */
opened: boolean, 
/**
 * Whether it runs.
 */
status: Status, 
/**
 * The image that it was created with, if the class has several.
 */
image?: string, 
/**
 * The size that it was created with, if it was chosen.
 */
size?: string, 
/**
 * Its saved disk, if there is one.
 */
saved?: SavedDisk, };

/**
 * Whether a sandbox is running or asleep.
 */
export type Status = "running" | "sleeping";

/**
 * The result of a write to a process.
 */
export type Taken = { 
/**
 * The number of bytes that were written, from the first on.
 */
taken: number, };

/**
 * The programs that ended with a running sandbox.
 */
export type TakenEnded = { 
/**
 * The programs, if any ended since they were last taken.
 */
ended: EndedPrograms | null, };

/**
 * The code `unopened`.
 */
export type Unopened = "unopened";

/**
 * Where to create the files of a stream or archive.
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
 * As in `Exec`.
 */
call: string | null, };

/**
 * The files that were created from a stream.
 */
export type Unpacked = { 
/**
 * Their total size.
 */
bytes: number, };

/**
 * The code `unstreamed`.
 */
export type Unstreamed = "unstreamed";

/**
 * How long to wait for a process.
 */
export type WaitProcess = { 
/**
 * Its ID.
 */
id: string, 
/**
 * The time.
 */
timeoutMs: number, 
/**
 * As in `Exec`.
 */
call: string | null, 
/**
 * As in `ReadProcess`.
 */
abandonedSignal: number | null, };

/**
 * The content to write to a file.
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
 * The bytes, at most [`LARGEST_PIECE`].
 */
bytes: Uint8Array, 
/**
 * Whether to append them.
 */
append: boolean, 
/**
 * The size of the file that they are appended to, of which they are the next piece. With 0, the file must not exist. Any
 * other file is left unchanged, and is `unavailable` or `already_exists`. `null` for whatever file is there.
 *
 * A class that is older than this appends to whatever is there, so compare the new size.
 */
offset: number | null, };

/**
 * The bytes to write to a process.
 */
export type WriteProcess = { 
/**
 * Its ID.
 */
id: string, 
/**
 * The bytes, at most `LARGEST_PIECE`.
 */
bytes: Uint8Array, 
/**
 * How long to wait until they are written.
 */
waitMs: number, 
/**
 * As in `Exec`.
 */
call: string | null, };

/**
 * A written file.
 */
export type Written = { 
/**
 * Its new size.
 */
size: number, };
