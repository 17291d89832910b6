//! The Durable Object classes of koze's own. A key of `Cargo.toml` enables each, and only an explicit command removes it.

use koze_core::contract::{REGISTRY_BINDING, SCRIPTS_BINDING};

/// A class of koze's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// Records the sandboxes of sessions.
    Registry,
    /// Runs the scripts of agents.
    Scripts,
}

impl Own {
    /// All of them, in the order in which a build creates them.
    pub const ALL: [Own; 2] = [Own::Registry, Own::Scripts];

    /// Returns the name of the class.
    pub fn class(self) -> &'static str {
        match self {
            Own::Registry => "KozeSessions",
            Own::Scripts => "KozeScripts",
        }
    }

    /// Returns the name of its binding.
    pub fn binding(self) -> &'static str {
        match self {
            Own::Registry => REGISTRY_BINDING,
            Own::Scripts => SCRIPTS_BINDING,
        }
    }

    /// Returns the generated module that contains it.
    pub fn module(self) -> &'static str {
        match self {
            Own::Registry => "sessions.mjs",
            Own::Scripts => "script-object.mjs",
        }
    }

    /// Returns what it is for, for messages.
    pub fn noun(self) -> &'static str {
        match self {
            Own::Registry => "registry",
            Own::Scripts => "scripts",
        }
    }

    /// Returns what the manifest enables with it, for messages.
    pub fn enables(self) -> &'static str {
        match self {
            Own::Registry => "the registry of sandboxes",
            Own::Scripts => "the tools `script` in the Worker",
        }
    }

    /// Returns what enables it in the manifest, for messages.
    pub fn key(self) -> &'static str {
        match self {
            Own::Registry => "`registry = true`",
            Own::Scripts => "`[package.metadata.koze.script]`",
        }
    }

    /// Returns how to enable it, for messages.
    pub fn how(self) -> &'static str {
        match self {
            Own::Registry => "set `registry = true` under `[package.metadata.koze]`",
            Own::Scripts => "add `[package.metadata.koze.script]` without `worker = false` to `Cargo.toml`",
        }
    }

    /// Returns how to disable it, for messages.
    pub fn how_not(self) -> &'static str {
        match self {
            Own::Registry => "remove `registry = true` from `[package.metadata.koze]`",
            Own::Scripts => "remove `[package.metadata.koze.script]` or set `worker = false` in it",
        }
    }
}
