//! What a file declares: a sandbox for agents, or a container that runs a service.

use std::fmt;

use crate::backend::Backend;

/// What a file declares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// A sandbox, with the tools of agents.
    #[default]
    Sandbox,
    /// A container that runs the service of its image, without koze's guest and without tools.
    Container,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 2] = [Kind::Sandbox, Kind::Container];

    /// Returns the name of its attribute, which its files, bindings and containers end in, too.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Sandbox => "sandbox",
            Kind::Container => "container",
        }
    }

    /// Returns the suffix of its files.
    pub fn suffix(self) -> &'static str {
        match self {
            Kind::Sandbox => ".sandbox.rs",
            Kind::Container => ".container.rs",
        }
    }

    /// Returns the suffix of its classes.
    pub fn class_suffix(self) -> &'static str {
        match self {
            Kind::Sandbox => "Sandbox",
            Kind::Container => "Container",
        }
    }

    /// Returns an example of its classes, for messages.
    pub fn example_class(self) -> &'static str {
        match self {
            Kind::Sandbox => "ShellSandbox",
            Kind::Container => "BlogContainer",
        }
    }

    /// Returns the kind of a path or file name.
    pub fn of_file(path: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| path.ends_with(kind.suffix()))
    }

    /// Returns the backend of an attribute without the key.
    pub fn default_backend(self) -> Backend {
        match self {
            Kind::Sandbox => Backend::Sdk,
            Kind::Container => Backend::Native,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
