//! The contract of a sandbox's Durable Object class, whatever its backend.
//!
//! A class has one method, `koze`, which takes a request: an operation and its input, such as
//! `{ stat: { root: "/", path: "/tmp" } }`. Operations that read a stream have methods of their own beside it, `kozeUnpack` and
//! `kozeExtract`.
//!
//! This module is the only definition of the operations; types that requests to the guest share are in
//! [`koze_protocol::operation`]. The Rust client sends these requests; the classes of the Worker entry
//! are checked against `contract.d.ts`, which a test generates from these types. Bytes are a `Uint8Array`, durations are in
//! milliseconds, sizes are in bytes, paths are those of [`Place`](crate::sandbox::Place), and no value contains a function. The
//! only function that a method takes besides its input is `waiting`.
//!
//! A method returns a [`Reply`] and never throws: exceptions come from the platform.
//!
//! Until koze 0.2, each operation was a method of its own, such as `kozeStat`. While a deployment is rolled out, older and newer
//! versions of a Worker call each other, so classes still have these methods, and clients use them where `koze` is missing.

mod files;
mod process;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

pub use koze_protocol::edit::Edited;
pub use koze_protocol::operation::{
    Ended, Exec, OneProcess, Pack, ProcessInfo, Read, ReadLines, ReadProcess, ResizeProcess, SearchFiles,
    SignalProcess, Size, Start, Started, Taken, WaitProcess,
};
pub use koze_protocol::search::Searched;
pub use koze_protocol::{Change, Code, Entry, Stat};

pub use self::files::{
    Edit, Entries, Extracted, LARGEST_PIECE, Lines, Path, Piece, Unpack, Unpacked, Write, Written,
};
pub use self::process::{Chunk, OutputStream, ProcessOutput, Processes, WriteProcess};
pub use crate::sandbox::{EndedPrograms, SavedDisk, Status};

/// The binding of the class `KozeSessions`, which lists the sandboxes of each session.
pub const REGISTRY_BINDING: &str = "KOZE_SESSIONS";

/// The binding of the class `KozeScripts`, which runs the scripts of agents.
pub const SCRIPTS_BINDING: &str = "KOZE_SCRIPTS";

/// The largest integer that JavaScript represents exactly, which exceeds any file size.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// The operations: their names, their input and their result. What a call passes besides the input is named: `waiting`, a
/// function that returns a promise, and `stream`, for which the operation has its own method.
///
/// `$with` is a macro that receives all of them.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_operations {
    ($with:ident) => {
        $with! {
            /// Creates the sandbox of this object, unless it exists. Before that, every operation but
            /// `status`, `cancel` and `destroy` returns `unopened` and does nothing.
            open Open => Opened;
            /// Runs a program until it exits or times out. It starts in `workingDir` with a fresh environment of the
            /// sandbox and an empty standard input. Background processes that it starts keep running.
            ///
            /// `waiting` is called at most once, after the program has run for a while. Its promise resolves when the
            /// caller stops waiting, and rejects when the caller is gone. In both cases the program and its descendants
            /// are killed, and the result is `unavailable`.
            exec Exec, waiting => Output;
            /// Cancels the calls of `exec`, `search`, `unpack` and `extract` with this name: their programs are
            /// killed as above, and what `unpack` has created is removed. A call that arrives later is canceled on arrival.
            /// Canceling starts nothing, and succeeds for finished calls.
            cancel Cancel => Done;
            /// Starts a program that keeps running after the call, and returns its ID. The program is started as by `exec`,
            /// with pipes or a terminal, and its output is kept in a buffer. It ends when the sandbox sleeps or is destroyed.
            /// A process that has exited is kept until others need its space.
            ///
            /// The next operations return `not_found` if the process does not exist, and do not start the container.
            start Start => Started;
            /// Returns a process that is running or kept.
            process OneProcess => ProcessInfo;
            /// Lists the processes that are running or kept, the oldest first.
            processes Nothing => Processes;
            /// Returns the output of a process from a cursor on. Waits until there is output, the process has ended, or the
            /// time is up. A cursor beyond the output is `invalid_input`. If the buffer blocks the program, output before the
            /// cursor is discarded to make room.
            ///
            /// `waiting` is as for `exec`, but nothing is killed.
            read_process ReadProcess, waiting => ProcessOutput;
            /// Writes to the standard input of a process, or types on its terminal, until everything is written or the time is
            /// up. Returns `invalid_input` if the input is closed. `waiting` is as above.
            write_process WriteProcess, waiting => Taken;
            /// Closes the standard input of a process, or types the end-of-file character. Succeeds if it is already closed.
            close_process OneProcess => Done;
            /// Sends a signal to the process group of a process; KILL also goes to all its descendants. Does nothing if the
            /// process has ended.
            signal_process SignalProcess => Done;
            /// Sets the size of the terminal of a process.
            resize_process ResizeProcess => Done;
            /// Waits until a process has ended, or the time is up. `waiting` is as above.
            wait_process WaitProcess, waiting => Ended;
            /// Reads part of a file: at most `limit` bytes from `offset`, fewer only at the end of the file.
            read Read => Piece;
            /// Writes a file, and creates missing parent directories. The file is replaced or appended to atomically,
            /// keeps its permission bits, and is unchanged if writing fails.
            write Write => Written;
            /// Replaces text in a file atomically, serialized with every other write, append and edit of the same path. The
            /// file keeps its permission bits and all other bytes, and is unchanged if the edit fails.
            edit Edit => Edited;
            /// Reads lines of a text file, from its start to the end of the range and no further.
            read_lines ReadLines => Lines;
            /// Searches the lines of a file, or of the files of a directory, without following links below it.
            ///
            /// `waiting` is as for `exec`: the search ends with its caller. A class that cannot search returns
            /// `unstreamed`, or lacks this operation.
            search SearchFiles, waiting => Searched;
            /// Lists a directory in no particular order, without `.` and `..`.
            list Path => Entries;
            /// Describes a path; a final symbolic link is not followed.
            stat Path => Stat;
            /// Changes the files.
            change Change => Done;
            /// Starts to serialize a file, or a directory with its content, and returns the stream. Only `unpack`
            /// of a class of the same backend can read it. A stream that ends early contains the reason.
            ///
            /// A class without streams returns `unstreamed`, or lacks this operation and the next.
            pack Pack => Packed;
            /// Creates the files of a stream at a path that does not exist, with missing parent directories. They are
            /// created completely or not at all, including permission bits, links and empty directories. The stream is
            /// read to its end, or canceled.
            ///
            /// `waiting` is as for `exec`. When its promise settles, the stream and its sender end as well.
            unpack Unpack, stream, waiting => Unpacked;
            /// Starts to archive a directory, and returns the stream: the tar archive in pieces of at most 64 KiB, each preceded by
            /// its length (four bytes, little-endian). It ends with a length of 0 and a last piece, which is JSON: `{"ok":
            /// {"entries", "bytes", "skipped"}}`, or `{"failed": {"why", "text"}}` with a code. Without `ok`, the archive is
            /// incomplete. Sockets, pipes and devices are left out, and counted as `skipped`. Canceling the stream stops the work.
            ///
            /// A class without archives returns `unstreamed`, or lacks this operation and the next. One that returns a stream
            /// here also has the next.
            archive Path => Packed;
            /// Creates the files of a tar archive, which is sent without lengths, in an existing directory. A failed call may
            /// leave some of them. Nothing is created outside the directory, and an incomplete archive is `unavailable`. The
            /// stream is read to its end, or canceled.
            ///
            /// `waiting` is as for `unpack`.
            extract Unpack, stream, waiting => Extracted;
            /// Opens a port. The object's `fetch` then accepts requests to it that carry the headers `koze-port` and
            /// `koze-nonce`, and no others. An open port stays as it is.
            expose Expose => Exposed;
            /// Returns whether the sandbox was opened and whether it runs. Starts nothing.
            status Nothing => State;
            /// Returns the programs that ended when the sandbox slept or restarted, and forgets them. Starts nothing.
            take_ended Nothing => TakenEnded;
            /// Destroys the sandbox, its files and everything that the object stores. Succeeds if it does not exist.
            destroy Nothing => Done;
        }
    };
}
#[doc(hidden)]
pub use contract_operations as operations;

/// Returns the name of an operation's own method in JavaScript, such as `kozeUnpack`.
pub fn method_of(operation: &str) -> String {
    let capitalized = operation.split('_').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + rest
    });
    std::iter::once("koze".to_owned()).chain(capitalized).collect()
}

/// The return value of every method: in JavaScript `{ok: true, value}` or `{ok: false, error}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply<T> {
    /// Whether the method succeeded.
    pub ok: bool,
    /// The result.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub value: Option<T>,
    /// The error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Failure {
    /// The error code.
    pub code: Reason,
    /// The message, without paths of the host, secrets or a stack trace.
    pub message: String,
    /// Whether nothing was done, so that the call can be retried.
    pub retryable: bool,
}

/// The error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(untagged)]
pub enum Reason {
    /// A code that tools return.
    Code(Code),
    /// The sandbox was never opened, or has been destroyed.
    Unopened(Unopened),
    /// The sandbox does not support streams, archives or searches: the caller works file by file.
    Unstreamed(Unstreamed),
}

/// The code `unopened`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "snake_case")]
pub enum Unopened {
    /// It.
    Unopened,
}

/// The code `unstreamed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "snake_case")]
pub enum Unstreamed {
    /// It.
    Unstreamed,
}

/// The options of a new sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "camelCase")]
pub struct Open {
    /// How long it may be idle before it sleeps; `null` means the default of the class.
    pub sleep_after_ms: Option<u32>,
    /// The name of its image, if the class has several; absent means the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub image: Option<String>,
    /// The name of its size, if the class has several; absent means its default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub size: Option<String>,
}

/// An opened sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Opened {
    /// Whether this call created it.
    pub created: bool,
    /// The size that it was created with, if it was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub size: Option<String>,
}

/// The calls to cancel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Cancel {
    /// Their name, as in [`Exec`].
    pub call: String,
}

/// The result of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Its standard output.
    #[cfg_attr(test, ts(type = "Uint8Array"))]
    pub stdout: ByteBuf,
    /// Its standard error.
    #[cfg_attr(test, ts(type = "Uint8Array"))]
    pub stderr: ByteBuf,
    /// Its exit code: 128 + n after signal n, 124 after a timeout.
    pub exit_code: i32,
    /// Whether it timed out.
    pub timed_out: bool,
    /// Whether programs ended when the sandbox slept or restarted, which `take_ended` returns; absent means `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(test, ts(optional, as = "Option<bool>"))]
    pub ended: bool,
}

/// The programs that ended with a running sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct TakenEnded {
    /// The programs, if any ended since they were last taken.
    pub ended: Option<EndedPrograms>,
}

/// A port to open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Expose {
    /// 1024 to 65535, except ports that the class itself uses.
    pub port: u16,
}

/// An open port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Exposed {
    /// Ten characters of lowercase base32, chosen at random when the port is opened, and kept while the sandbox exists,
    /// even while it sleeps. URLs of a destroyed sandbox do not work for a new one with the same name.
    pub nonce: String,
}

/// The state of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct State {
    /// Whether it was opened.
    pub opened: bool,
    /// Whether it runs.
    pub status: Status,
    /// The image that it was created with, if the class has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub image: Option<String>,
    /// The size that it was created with, if it was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub size: Option<String>,
    /// Its saved disk, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub saved: Option<SavedDisk>,
}

/// The input of an operation without parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Nothing {}

/// The result of an operation that has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Done {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write as _;

    use ts_rs::{Config, TS, TypeVisitor};

    use super::*;

    /// A serialized file or directory, or an archive. Each host has its own type for it.
    #[derive(ts_rs::TS)]
    #[ts(export_to = "contract.d.ts")]
    struct Packed {
        /// Its bytes.
        #[ts(type = "ReadableStream<Uint8Array>")]
        #[expect(dead_code, reason = "only its type is used")]
        stream: (),
    }

    const HEAD: &str = "\
// The contract of a sandbox's Durable Object class: generated from `core/src/contract.rs` by a test.

/** The return value of every method. */
export type Reply<T> = { ok: true; value: T } | { ok: false; error: Failure };

/** Is called at most once, after a while. Its promise settles when the caller stops waiting. */
export type Waiting = () => PromiseLike<unknown>;
";

    /// The input and output types of the methods, by name.
    #[derive(Default)]
    struct Types(BTreeMap<String, String>);

    impl TypeVisitor for Types {
        fn visit<T: TS + 'static + ?Sized>(&mut self) {
            let config = Config::default();
            // Built-in types of TypeScript have no output path.
            if T::output_path().is_none() || self.0.contains_key(&T::ident(&config)) {
                return;
            }
            let docs = T::docs().unwrap_or_default();
            self.0.insert(T::ident(&config), format!("{docs}export {}\n", T::decl(&config)));
            T::visit_dependencies(self);
        }
    }

    macro_rules! declare {
        ($($(#[doc = $doc:literal])+ $operation:ident $input:ident $(, $more:ident)* => $output:ident;)+) => {{
            let config = Config::default();
            let mut declared = Declared::default();
            declared.types.visit::<Failure>();
            $({
                declared.types.visit::<$input>();
                declared.types.visit::<$output>();
                let (input, value) = (<$input as TS>::name(&config), <$output as TS>::name(&config));
                let more: &[&str] = &[$(stringify!($more)),*];
                declared.add(stringify!($operation), &[$($doc),+], &input, more, &value);
            })+
            declared
        }};
    }

    /// What `contract.d.ts` declares.
    #[derive(Default)]
    struct Declared {
        types: Types,
        operations: String,
        methods: String,
    }

    impl Declared {
        fn add(&mut self, operation: &str, docs: &[&str], input: &str, more: &[&str], value: &str) {
            let docs: Vec<String> = docs.iter().map(|doc| format!("   *{doc}\n")).collect();
            let docs = format!("  /**\n{}   */\n", docs.concat());
            if more.contains(&"stream") {
                let method = method_of(operation);
                let _ = writeln!(
                    self.methods,
                    "{docs}  {method}(input: {input}, stream: ReadableStream<Uint8Array>, waiting?: Waiting): Promise<Reply<{value}>>;"
                );
            } else {
                let _ =
                    writeln!(self.operations, "{docs}  {operation}: {{ input: {input}; value: {value} }};");
            }
        }
    }

    /// Returns the text of the file.
    fn declaration(declared: Declared) -> String {
        let Declared { types, operations, methods } = declared;
        let types: Vec<String> = types.0.into_values().collect();
        format!(
            "{HEAD}
/** The operations that a class answers, with their inputs and results. */
export interface Operations {{
{operations}}}

/** An operation and its input, such as `{{ stat: {{ root: \"/\", path: \"/tmp\" }} }}`. */
export type Request = {{ [N in keyof Operations]: {{ [K in N]: Operations[N][\"input\"] }} }}[keyof Operations];

/** The result of a request. */
export type Result<R extends Request> =
  {{ [N in keyof Operations]: R extends {{ [K in N]: unknown }} ? Operations[N][\"value\"] : never }}[keyof Operations];

/** The methods of a sandbox class. */
export interface Contract {{
  /** Answers a request. */
  koze<R extends Request>(request: R, waiting?: Waiting): Promise<Reply<Result<R>>>;
{methods}}}

{}",
            types.join("\n")
        )
    }

    #[test]
    fn javascript_is_checked_against_the_same_types() {
        let text = declaration(operations!(declare));
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../templates/files/generated/koze/contract.d.ts");
        if std::env::var_os("KOZE_BLESS").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            there == text,
            "contract.d.ts differs from these types. Run the test with KOZE_BLESS=1 to update it"
        );
    }

    #[test]
    fn methods_have_the_names_of_operations() {
        assert_eq!(["stat", "make_dir"].map(method_of), ["kozeStat", "kozeMakeDir"]);
    }
}
