//! The conformance cases of the tools: one table that every provider of sandboxes must pass.
//!
//! Cases run through a [`Host`], which only calls tools, so the same cases run on a session in this process, a program, or
//! a server. A host declares its capabilities; the cases that need others are reported as left out, with the reason,
//! and never as passed.

mod browse;
mod bytes;
mod concurrent;
mod errors;
mod files;
mod glob;
mod hostile;
pub mod http;
mod injection;
mod listing;
mod names;
pub mod origin;
mod output;
mod preview;
mod processes;
mod sandboxes;
mod script;
mod session;
mod shell;
mod swaps;
mod thread;
mod transfer;
mod trees;
mod workspace;
mod workspace_answers;
mod workspace_code;
mod workspace_notebook;
mod workspace_snapshots;

use serde_json::Value;

pub use session::Session;
pub use workspace_answers::check_workspace_answers;

/// Calls tools: a provider in this process, a program, or a server.
pub trait Host: Send + Sync {
    /// Calls a tool in a session. May be called concurrently.
    fn call(&self, session: &str, tool: &str, input: Value) -> ToolResult;

    /// Calls a tool with a raw JSON text as its input.
    fn call_text(&self, session: &str, tool: &str, input: &str) -> ToolResult {
        self.call_text_of(AGENT, session, tool, input)
    }

    /// Calls a tool of a toolset with a raw JSON text as its input.
    fn call_text_of(&self, toolset: &str, session: &str, tool: &str, input: &str) -> ToolResult;

    /// Restarts the host process, or its equivalent, with the same storage.
    ///
    /// # Panics
    ///
    /// Panics if the host does not declare [`Capability::Restart`].
    fn restart(&self) {
        panic!("this host declares that it cannot be restarted");
    }

    /// Returns the status and body for another path of a URL from `browse`.
    fn get(&self, url: &str, path: &str) -> (u16, String) {
        preview::get(url, path)
    }

    /// Destroys a sandbox that a case has created, if it would outlive the case.
    ///
    /// # Errors
    ///
    /// Returns an error if the sandbox still exists.
    fn destroy(&self, _session: &str, _sandbox: &str) -> Result<(), String> {
        Ok(())
    }

    /// Returns the values that `sandbox_create` accepts as images: the names of the profiles, and their image
    /// references.
    fn images(&self) -> Vec<String> {
        IMAGES.map(str::to_owned).to_vec()
    }

    /// Returns the texts that no result may contain: host paths and secrets.
    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The default toolset of every host.
pub const AGENT: &str = "agent";

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// JSON text, or the error as a sentence.
    pub content: String,
    /// Whether it failed.
    pub is_error: bool,
}

/// A capability of a host, in addition to holding files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// It runs programs.
    Exec,
    /// Its ports can be reached.
    Expose,
    /// It holds files of a gigabyte.
    Big,
    /// It copies a tree of ten thousand files with few messages.
    ManyFiles,
    /// It stops programs that use too much memory, too many processes or too much disk.
    Limits,
    /// It runs calls concurrently, not just one after the other.
    AtOnce,
    /// It keeps a list of a session's sandboxes, and limits their number.
    List,
    /// Idle sandboxes sleep.
    Sleep,
    /// The disk is preserved while a sandbox sleeps.
    Keep,
    /// It can be restarted.
    Restart,
    /// It accepts an input of several megabytes.
    LongInput,
    /// Calls are cheap, so that a case may make hundreds.
    ManyCalls,
    /// Programs run as an unprivileged user, who is bound by permission bits and cannot change system files.
    PlainUser,
    /// It serves the tools of the family `thread`.
    Thread,
    /// Scripts have a database.
    Database,
    /// Statements that take too long are ended.
    StatementTime,
    /// Scripts reach the server [`origin`] by its name, and no other host is there.
    Network,
    /// Scripts have a browser, which reaches the same server.
    Browser,
    /// Results of code hold HTML also where they hold a text of the same value.
    Html,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Capability; 19] = [
        Capability::Exec,
        Capability::Expose,
        Capability::Big,
        Capability::ManyFiles,
        Capability::Limits,
        Capability::AtOnce,
        Capability::List,
        Capability::Sleep,
        Capability::Keep,
        Capability::Restart,
        Capability::LongInput,
        Capability::ManyCalls,
        Capability::PlainUser,
        Capability::Thread,
        Capability::Database,
        Capability::StatementTime,
        Capability::Network,
        Capability::Browser,
        Capability::Html,
    ];
}

/// The images of every host, by name: the default and another one; and the other one's reference, unless the host has a
/// different one.
pub const IMAGES: [&str; 3] = ["shell", "python", "docker.io/cloudflare/sandbox:0.12.10-python"];

/// The workspaces of every host: the name, and what the attribute declares in addition to it.
pub const WORKSPACES: [(&str, &str); 6] = [
    ("box", ""),
    ("open", "shell"),
    ("strict", "shell(allow = [\"echo\", \"cat\", \"/usr/bin/id\"], max_duration = \"5s\")"),
    ("code", "code(stateful = true)"),
    ("python", "code(languages = [\"python\"])"),
    ("saved", "snapshot_dir = \"/workspace/src\", snapshot(bucket = \"SNAPSHOTS\", max_count = 3)"),
];

/// One case.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its unique name.
    pub name: &'static str,
    /// The capabilities that the case needs.
    pub needs: &'static [Capability],
    /// The capabilities that the host must lack: the case tests how it reports that.
    pub lacks: &'static [Capability],
    /// Runs the case. Panics if it fails.
    pub play: fn(&Session),
}

impl Case {
    /// Returns why a host with these capabilities does not run the case, or `None` if it does.
    pub fn left_out(&self, can: &[Capability]) -> Option<String> {
        let missing = self.needs.iter().find(|need| !can.contains(need));
        let odd = self.lacks.iter().find(|lack| can.contains(lack));
        missing
            .map(|need| format!("needs {need:?}"))
            .or_else(|| odd.map(|lack| format!("is for those without {lack:?}")))
    }

    const fn needs(self, needs: &'static [Capability]) -> Self {
        Case { needs, ..self }
    }

    const fn lacks(self, lacks: &'static [Capability]) -> Self {
        Case { lacks, ..self }
    }
}

const fn case(name: &'static str, play: fn(&Session)) -> Case {
    Case { name, needs: &[], lacks: &[], play }
}

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    let cases = [
        shell::CASES,
        processes::CASES,
        output::CASES,
        files::CASES,
        bytes::CASES,
        names::CASES,
        glob::CASES,
        listing::CASES,
        browse::CASES,
        sandboxes::CASES,
        transfer::CASES,
        trees::CASES,
        errors::CASES,
        injection::CASES,
        concurrent::CASES,
        swaps::CASES,
        hostile::CASES,
        thread::CASES,
    ]
    .concat();
    unique(cases)
}

/// Returns the cases of the tools `workspace`. The workspaces that they need are those of [`WORKSPACES`].
pub fn workspace_cases() -> Vec<Case> {
    unique(
        [workspace::CASES, workspace_code::CASES, workspace_notebook::CASES, workspace_snapshots::CASES]
            .concat(),
    )
}

/// Returns the cases of the tools `script`, whose host runs scripts.
pub fn script_cases() -> Vec<Case> {
    unique(script::CASES.to_vec())
}

fn unique(cases: Vec<Case>) -> Vec<Case> {
    for (index, case) in cases.iter().enumerate() {
        assert!(cases[..index].iter().all(|other| other.name != case.name), "two cases `{}`", case.name);
    }
    cases
}
