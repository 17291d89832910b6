//! What commands and supervisor say to each other: lines of JSON, one request and its answers on each connection.

use std::io;

use koze::tool::ToolResult;
use koze::{Error, Images};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The longest line in bytes: what a model writes, and what it gets, escaped.
const LONGEST: u64 = 512 << 20;

/// What a command asks for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    /// The program that asks: another one must not answer, for the two may not mean the same.
    pub program: String,
    /// What is to be done.
    pub ask: Ask,
}

/// What is to be done.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Call a tool.
    Call {
        /// The images of the project, as they are now.
        images: Images,
        /// The tool.
        tool: String,
        /// Its input.
        input: Value,
    },
    /// Destroy a sandbox.
    Destroy {
        /// Its name.
        name: String,
    },
    /// End.
    Stop,
}

/// What the supervisor answers: [`Answer::Begun`], then one of the others.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It has begun. Whoever gets nothing after this cannot know how much was done.
    Begun,
    /// The supervisor is of another program, and ends. Nothing was done.
    Stale,
    /// What a tool gave.
    Result(ToolResult),
    /// It is done.
    Done,
    /// It could not be done.
    Failed(Error),
}

/// Writes a line.
///
/// # Errors
/// Where the other side is gone.
pub async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

/// Reads a line; nothing where the other side has ended.
///
/// # Errors
/// Where the other side is gone, or what it says is no message.
pub async fn receive<T: DeserializeOwned>(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    stream.take(LONGEST).read_until(b'\n', &mut line).await?;
    if line.last() == Some(&b'\n') { Ok(Some(serde_json::from_slice(&line)?)) } else { Ok(None) }
}
