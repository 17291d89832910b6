//! The thread family: seven tools over the directories of a thread. A thread is a session with one sandbox.
//!
//! Every tool returns one plain text. An error is a text, too: it starts with `Error: `.
//!
//! | module | job |
//! |---|---|
//! | `bash`, `ls`, `read_file`, `write_file`, `str_replace`, `glob`, `grep` | the tools of these names |
//! | `walk` | visits the files below a directory, for `glob` |
//! | `place` | paths of a thread, and the texts for what can go wrong with them |
//! | `cut` | limits the length of results |

mod bash;
mod cut;
mod glob;
mod grep;
mod ls;
mod place;
mod read_file;
mod str_replace;
mod walk;
mod write_file;

use super::Reply;
use super::agent::DEFAULT;
use super::family::family;
use crate::error::{Code, Error};
use crate::provider::Provider;
use crate::session::Session;

pub use bash::Bash;
pub use glob::Glob;
pub use grep::Grep;
pub use ls::Ls;
pub use read_file::ReadFile;
pub use str_replace::StrReplace;
pub use write_file::WriteFile;

/// The family `thread`.
#[derive(Debug)]
pub struct Thread;

family!(
    Thread: Bash, Ls, ReadFile, WriteFile, StrReplace, Glob, Grep;
    schemas "schemas.json";
    with |_: &mut [_], _: &_| ()
);

/// How long a model should wait before it tries again, in seconds.
const RETRY: u32 = 5;

/// What a tool returns: a text, or why it failed, without the `Error: ` in front.
type Told = std::result::Result<String, String>;

/// Returns the reply of a tool.
fn to_reply(told: Told) -> Reply {
    match told {
        Ok(text) => Reply::text(text),
        Err(text) => Reply { is_error: true, ..Reply::text(format!("Error: {text}")) },
    }
}

/// Returns the reply for an input that does not match the schema of a tool.
fn wrong_input(error: Error) -> Reply {
    to_reply(Err(error.message))
}

/// Returns the sandbox of a thread. Creates it on first use.
async fn open_sandbox<P: Provider>(session: &Session<P>) -> std::result::Result<P::Sandbox, String> {
    session.sandbox(DEFAULT).await.map_err(|error| error_text(&error))
}

/// Returns the text for an error of the sandbox itself.
fn error_text(error: &Error) -> String {
    match error.code {
        Code::Unavailable => format!("{} (retryable: try again in {RETRY} seconds)", error.message),
        _ => error.message.clone(),
    }
}
