//! The agent family, as its contract says: one table of cases that any provider of sandboxes has to pass.
//!
//! A case is played through a [`Host`], which calls tools and nothing else, so that the same cases run over a pool in
//! this process, a program, or a server. What a host cannot do it does not declare; the cases that need it are counted as
//! left out, with the reason, and never as passed.

mod at_once;
mod browse;
mod bytes;
mod errors;
mod files;
mod glob;
mod hostile;
#[cfg(not(trybuild))]
pub mod http;
mod injection;
mod listing;
mod names;
mod output;
mod preview;
mod processes;
mod sandboxes;
mod session;
mod shell;
mod swaps;
mod transfer;
mod trees;

use serde_json::Value;

pub use session::Session;

/// Something that calls tools: a provider in this process, a program, a server.
pub trait Host: Send + Sync {
    /// Calls a tool in a session, several at once where a case does so.
    fn call(&self, session: &str, tool: &str, input: Value) -> ToolResult;

    /// The same with an input as it is written, which is JSON.
    fn call_text(&self, session: &str, tool: &str, input: &str) -> ToolResult;

    /// Ends the host process, or what stands for it, and begins anew on what it has stored.
    ///
    /// # Panics
    ///
    /// Where the host does not declare [`Capability::Restart`].
    fn restart(&self) {
        panic!("this host declares that it cannot be restarted");
    }

    /// The status and the body that a URL of `browse` gives on another path.
    fn get(&self, url: &str, path: &str) -> (u16, String) {
        preview::get(url, path)
    }

    /// Takes a sandbox away that a case has made, where it would outlive the case.
    ///
    /// # Errors
    ///
    /// Where it is there all the same.
    fn destroy(&self, _session: &str, _sandbox: &str) -> Result<(), String> {
        Ok(())
    }

    /// The words that `sandbox_create` takes for an image: the names of the profiles, and the references of their images.
    fn images(&self) -> Vec<String> {
        IMAGES.map(str::to_owned).to_vec()
    }

    /// What no result may hold: paths of the host's own, secrets.
    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// JSON text, or the error as a sentence.
    pub content: String,
    /// Whether it failed.
    pub is_error: bool,
}

/// What a host can do beside holding files.
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
    /// What takes too much memory, too many processes or too much disk is ended.
    Limits,
    /// Calls run at the same time, and do not merely come one after the other.
    AtOnce,
    /// It keeps a list of a session's sandboxes, of which there are so many and no more.
    List,
    /// A sandbox that idles sleeps.
    Sleep,
    /// What is on its disk is there again when it wakes.
    Keep,
    /// It can be restarted.
    Restart,
    /// It takes an input of several megabytes.
    LongInput,
    /// A call costs next to nothing, so that a case may make hundreds.
    ManyCalls,
    /// Its programs are a plain user's: permission bits bind them, and the system's files are not theirs to change.
    PlainUser,
}

impl Capability {
    /// All there are.
    pub const ALL: [Capability; 13] = [
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
    ];
}

/// The images that every host of these cases has, by name: the default, and another. And that one's reference, where a host
/// does not say another one.
pub const IMAGES: [&str; 3] = ["shell", "python", "docker.io/cloudflare/sandbox:0.12.10-python"];

/// One case.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name, which no other has.
    pub name: &'static str,
    /// What the host has to be able to do.
    pub needs: &'static [Capability],
    /// What the host must not be able to do: the case is how it says so.
    pub lacks: &'static [Capability],
    /// Plays it, and panics where something is not as it should be.
    pub play: fn(&Session),
}

impl Case {
    /// Why a host that can do this and no more does not play the case; nothing where it does.
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

/// All cases.
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
        at_once::CASES,
        swaps::CASES,
        hostile::CASES,
    ]
    .concat();
    for (index, case) in cases.iter().enumerate() {
        assert!(cases[..index].iter().all(|other| other.name != case.name), "two cases `{}`", case.name);
    }
    cases
}
