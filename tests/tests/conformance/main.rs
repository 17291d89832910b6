//! The agent family, as its contract says: cases that any provider of sandboxes has to pass.
//!
//! A case is played through a function that calls a tool, so that the same cases run over a pool in this process, a
//! program, or a server. What a provider cannot do, it declares; its cases are counted as left out, never as passed.

mod errors;
mod files;
mod glob;
mod sandboxes;
mod schema;
mod transfer;

use koze::pool::{Images, Pool};
use koze::provider::memory::Memory;
use koze::provider::{Image, Size};
use koze::tool::agent;
use koze::{Provider, SessionId};
use serde_json::{Value, json};

/// The images of the tests' project.
pub(crate) fn images() -> Images {
    let size = Size { memory_mib: 256, disk_mb: 2000 };
    let list = vec![
        Image::new("shell", "docker.io/cloudflare/sandbox:0.12.10", size),
        Image::new("python", "docker.io/cloudflare/sandbox:0.12.10-python", size),
    ];
    Images::new(list, "shell").expect("it is one of them")
}

/// A session, through which a case calls tools.
pub(crate) struct Session<P> {
    pub(crate) pool: Pool<P>,
}

/// A session of its own on a provider of its own.
pub(crate) fn session() -> Session<Memory> {
    session_on(Memory::new(), "tenant", "session")
}

pub(crate) fn session_on<P: Provider>(provider: P, tenant: &str, session: &str) -> Session<P> {
    let id = SessionId::new(tenant, session).expect("good names");
    Session { pool: Pool::new(provider, id, images()) }
}

impl<P: Provider> Session<P> {
    /// Calls a tool, which must succeed, and returns what it gives.
    #[track_caller]
    pub(crate) fn ok(&self, tool: &str, input: Value) -> Value {
        let shown = input.to_string();
        let result = pollster::block_on(agent::call_tool(&self.pool, tool, input));
        assert!(!result.is_error, "{tool} {shown}: {}", result.content);
        serde_json::from_str(&result.content).expect("the content is JSON")
    }

    /// Calls a tool, which must fail, and returns the error's text.
    #[track_caller]
    pub(crate) fn err(&self, tool: &str, input: Value) -> String {
        let shown = input.to_string();
        let result = pollster::block_on(agent::call_tool(&self.pool, tool, input));
        assert!(result.is_error, "{tool} {shown}: {}", result.content);
        result.content
    }

    #[track_caller]
    pub(crate) fn write(&self, path: &str, content: &str) {
        self.ok("write_file", json!({ "path": path, "content": content }));
    }

    #[track_caller]
    pub(crate) fn read(&self, path: &str) -> String {
        let read = self.ok("read_file", json!({ "path": path }));
        read["content"].as_str().expect("content is text").to_owned()
    }
}
