//! What the Durable Object class of a sandbox answers, whatever stands behind it.
//!
//! This is the one place where it is written down. The Rust client calls these methods; the classes of the Worker entry
//! are checked against `contract.d.ts`, which a test makes of these types. Bytes are a `Uint8Array`, times are
//! milliseconds, sizes are bytes, a path is as [`Place`](crate::sandbox::Place) has it, and no value holds a function. What a
//! method takes beside its input is a function, `waiting`.
//!
//! A method answers a [`Reply`] and throws nothing: what is thrown comes from the platform.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

pub use koze_protocol::{Code, Entry, Stat};

use crate::sandbox::Status;

/// The binding of the class `KozeSessions`, which lists the sandboxes of each session.
pub const REGISTRY_BINDING: &str = "KOZE_SESSIONS";

/// The methods: their names in Rust and in JavaScript, what they take and what they give. One that takes a second value
/// names it: a function that promises something, or what its type says.
///
/// `$with` is a macro that is handed all of them.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_methods {
    ($with:ident) => {
        $with! {
            /// Makes the sandbox of this object, unless it is there: until then every method but `kozeStatus`,
            /// `kozeCancel` and `kozeDestroy` answers `unopened`, and does nothing.
            open "kozeOpen" Open => Opened;
            /// Runs a program to its end, or for as long as it may. It starts in `workingDir` with a fresh environment
            /// of the sandbox's own and nothing on its standard input; what it leaves in the background lives on.
            ///
            /// `waiting` is called at most once, when the program has run for a while. What it promises comes when the
            /// caller waits no longer: then, and where the caller is gone and the promise broken, the program is killed
            /// with all it started, and the answer is `unavailable`.
            exec "kozeExec" Exec, waiting => Output;
            /// Gives up the calls of `kozeExec` and `kozeUnpack` with this name: their programs are killed as above, and what
            /// they have made goes away. One that has not come yet is given up when it comes. It starts nothing, and done is also what has ended.
            cancel "kozeCancel" Cancel => Done;
            /// A piece of a file: at most `limit` bytes from `offset`, fewer only at the end.
            read "kozeRead" Read => Piece;
            /// Writes a file, directories above it made where they are missing. It is replaced or appended to in one
            /// step, keeps its permission bits, and stays as it was where writing fails.
            write "kozeWrite" Write => Written;
            /// What is in a directory, in no order, `.` and `..` left out.
            list "kozeList" Path => Entries;
            /// What is at a path; of a symbolic link at its end, the link itself.
            stat "kozeStat" Path => Stat;
            /// Makes a directory, and those above it; one that is there is as good.
            make_dir "kozeMakeDir" Path => Done;
            /// Makes a symbolic link.
            make_link "kozeMakeLink" MakeLink => Done;
            /// Sets the permission bits of a file or directory.
            set_mode "kozeSetMode" SetMode => Done;
            /// Takes away what is at a path, a directory with all that is in it; of a symbolic link the link itself.
            remove "kozeRemove" Path => Done;
            /// Moves a file or directory; a file at `to` is replaced in one step.
            rename "kozeRename" Rename => Done;
            /// Starts to read a file or directory, with all that is in it, and gives its stream. Only a class whose
            /// sandboxes are of the same kind can read what is in the stream, for `kozeUnpack`. One that ends early says why
            /// in itself.
            ///
            /// A class that has no streams answers `unstreamed`, or lacks this method and the next.
            pack "kozePack" Pack => Packed;
            /// Makes what a stream holds, at a path where nothing is; directories above it are made where they are missing.
            /// It comes to be whole or not at all, modes, links and empty directories as they were. The stream is read to
            /// its end, or given up.
            ///
            /// `waiting` is as for `kozeExec`. When it ends, the stream and its sender end as well.
            unpack "kozeUnpack" Unpack, stream "ReadableStream<Uint8Array>", waiting => Unpacked;
            /// Opens a port: the object's `fetch` then takes requests to it, by the headers `koze-port` and `koze-nonce`,
            /// and no others. One that is open stays as it is.
            expose "kozeExpose" Expose => Exposed;
            /// Whether the sandbox was opened, and runs. It starts nothing.
            status "kozeStatus" Nothing => State;
            /// Ends it, and takes away its files and all that the object remembers. Done is also what was not there.
            destroy "kozeDestroy" Nothing => Done;
        }
    };
}
#[doc(hidden)]
pub use contract_methods as methods;

/// The answer of every method: in JavaScript `{ok: true, value}` or `{ok: false, error}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply<T> {
    /// Whether it was done.
    pub ok: bool,
    /// What came of it.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub value: Option<T>,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Failure {
    /// What went wrong, in one word.
    pub code: Reason,
    /// The same in a sentence, without a path of the host, a secret or a stack.
    pub message: String,
    /// Whether nothing was done, so that the same call may be made again.
    pub retryable: bool,
}

/// What went wrong, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(untagged)]
pub enum Reason {
    /// A word that tools know.
    Code(Code),
    /// The sandbox was never opened, or was destroyed since.
    Unopened(Unopened),
    /// The sandbox takes no streams: what they would do goes file by file.
    Unstreamed(Unstreamed),
}

/// The word `unopened`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "snake_case")]
pub enum Unopened {
    /// It.
    Unopened,
}

/// The word `unstreamed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "snake_case")]
pub enum Unstreamed {
    /// It.
    Unstreamed,
}

/// How a sandbox is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "camelCase")]
pub struct Open {
    /// How long it may idle before it sleeps; `null` leaves it to the class.
    pub sleep_after_ms: Option<u32>,
}

/// A sandbox that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Opened {
    /// Whether it was made now.
    pub created: bool,
}

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "camelCase")]
pub struct Exec {
    /// The program and its arguments; the program is looked for on the sandbox's `PATH`.
    pub argv: Vec<String>,
    /// The directory it starts in, absolute.
    pub working_dir: String,
    /// Variables beside the sandbox's own.
    pub env: Vec<(String, String)>,
    /// How long it may run; then its whole process group is killed, and what it had printed is kept.
    pub timeout_ms: u32,
    /// How many bytes of each stream are kept: the first and the last, with a mark between, and the mark counts.
    pub max_output: u32,
    /// The name of the call, by which it can be given up; `null` where nobody will.
    pub call: Option<String>,
}

/// Which calls to give up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Cancel {
    /// Their name, as [`Exec`] has it.
    pub call: String,
}

/// What came of a program.
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
    /// Its exit code; 128 + n after the signal n, 124 where the time was up.
    pub exit_code: i32,
    /// Whether the time was up.
    pub timed_out: bool,
}

/// A path.
pub type Path = koze_protocol::Place;

/// Which piece of a file to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Read {
    /// As in [`Path`].
    pub root: String,
    /// As in [`Path`].
    pub path: String,
    /// Where it begins.
    #[cfg_attr(test, ts(type = "number"))]
    pub offset: u64,
    /// How long it may be; at most [`LARGEST_PIECE`].
    pub limit: u32,
}

/// The most bytes that one call reads or writes: the platform takes 32 MiB for a call.
pub const LARGEST_PIECE: u32 = 8 << 20;

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Piece {
    /// The bytes.
    #[cfg_attr(test, ts(type = "Uint8Array"))]
    pub bytes: ByteBuf,
    /// The size of the whole file.
    #[cfg_attr(test, ts(type = "number"))]
    pub size: u64,
}

/// What to write into a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Write {
    /// As in [`Path`].
    pub root: String,
    /// As in [`Path`].
    pub path: String,
    /// The bytes; at most [`LARGEST_PIECE`].
    #[cfg_attr(test, ts(type = "Uint8Array"))]
    pub bytes: ByteBuf,
    /// Whether they come behind those that are there.
    pub append: bool,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Written {
    /// Its size now.
    #[cfg_attr(test, ts(type = "number"))]
    pub size: u64,
}

/// What is in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Entries {
    /// It.
    pub entries: Vec<Entry>,
}

/// A symbolic link to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct MakeLink {
    /// As in [`Path`].
    pub root: String,
    /// As in [`Path`].
    pub path: String,
    /// Where it leads, which may be anything.
    pub target: String,
}

/// Permission bits to set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct SetMode {
    /// As in [`Path`].
    pub root: String,
    /// As in [`Path`].
    pub path: String,
    /// The bits.
    pub mode: u32,
}

/// A file or directory to move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Rename {
    /// From here.
    pub from: Path,
    /// To there.
    pub to: Path,
}

/// A file or directory to read as a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Pack {
    /// As in [`Path`].
    pub root: String,
    /// As in [`Path`]. A link that it leads to is followed; links in a directory stay links.
    pub path: String,
    /// A name that is left out wherever it is, for a directory that is copied into itself.
    pub except: String,
}

/// Where what a stream holds is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Unpack {
    /// As in [`Path`].
    pub root: String,
    /// As in [`Path`].
    pub path: String,
    /// As in [`Exec`].
    pub call: Option<String>,
}

/// What a stream held, as files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Unpacked {
    /// The bytes of all its files.
    #[cfg_attr(test, ts(type = "number"))]
    pub bytes: u64,
}

/// A port to let requests through to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Expose {
    /// 1024 to 65535, and none that the class needs for itself.
    pub port: u16,
}

/// A port that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Exposed {
    /// Ten characters of lower-case base32, made at random when the port was opened and kept while the sandbox is there,
    /// also while it sleeps: URLs of a sandbox that was destroyed are of no use for one that is made with its name.
    pub nonce: String,
}

/// How a sandbox is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct State {
    /// Whether it was opened.
    pub opened: bool,
    /// Whether it runs.
    pub status: Status,
}

/// What a method takes that needs nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Nothing {}

/// What a method gives of which nothing but that it was done is to be said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Done {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write as _;

    use ts_rs::{Config, TS, TypeVisitor};

    use super::*;

    /// A file or directory as a stream. Each host has its own type for it.
    #[derive(ts_rs::TS)]
    #[ts(export_to = "contract.d.ts")]
    struct Packed {
        /// Its bytes.
        #[ts(type = "ReadableStream<Uint8Array>")]
        #[expect(dead_code, reason = "only its type is used")]
        stream: (),
    }

    const HEAD: &str = "\
// What the Durable Object class of a sandbox answers: made of `core/src/contract.rs` by a test.

/** The answer of every method. */
export type Reply<T> = { ok: true; value: T } | { ok: false; error: Failure };
";

    /// The types that methods take and give, by their names.
    #[derive(Default)]
    struct Types(BTreeMap<String, String>);

    impl TypeVisitor for Types {
        fn visit<T: TS + 'static + ?Sized>(&mut self) {
            let config = Config::default();
            // What is of TypeScript itself has nowhere to be written to.
            if T::output_path().is_none() || self.0.contains_key(&T::ident(&config)) {
                return;
            }
            let docs = T::docs().unwrap_or_default();
            self.0.insert(T::ident(&config), format!("{docs}export {}\n", T::decl(&config)));
            T::visit_dependencies(self);
        }
    }

    macro_rules! declare {
        ($($(#[doc = $doc:literal])+ $method:ident $name:literal $input:ident $(, $more:ident $($type:literal)?)* => $output:ident;)+) => {{
            let config = Config::default();
            let (mut types, mut methods) = (Types::default(), String::new());
            types.visit::<Failure>();
            $(
                types.visit::<$input>();
                types.visit::<$output>();
                let (input, output) = (<$input as TS>::name(&config), <$output as TS>::name(&config));
                methods += "  /**\n";
                $(let _ = writeln!(methods, "   *{}", $doc);)+
                let more = [$((stringify!($more), [$($type)?].first().copied())),*];
                let more: [(&str, Option<&str>); _] = more;
                let more = more.map(|(name, of)| match of {
                    Some(of) => format!(", {name}: {of}"),
                    None => format!(", {name}?: () => Promise<unknown>"),
                });
                let more = more.concat();
                let _ = writeln!(methods, "   */\n  {}(input: {input}{more}): Promise<Reply<{output}>>;", $name);
            )+
            (types, methods)
        }};
    }

    #[test]
    fn javascript_is_checked_against_the_same_types() {
        let (types, methods) = methods!(declare);
        let types: Vec<String> = types.0.into_values().collect();
        let text = format!(
            "{HEAD}\n/** What a class of sandboxes answers. */\nexport interface Contract {{\n{methods}}}\n\n{}",
            types.join("\n")
        );
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../templates/files/worker/contract.d.ts");
        if std::env::var_os("KOZE_BLESS").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(there == text, "contract.d.ts is not of these types: run the test with KOZE_BLESS=1");
    }
}
