//! The families of tools.

use std::fmt;

/// A family of tools: the tools that one kind of agent expects. Sandboxes declare which families they serve:
/// `tools = ["agent"]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Family {
    /// Eight tools over the sandboxes of a session.
    Agent,
    /// Tools over a workspace.
    Workspace,
    /// Seven tools over the directories of a thread.
    Thread,
    /// Tools that run the scripts of an agent. They need no sandbox: the project enables them.
    Script,
}

impl Family {
    /// All families.
    pub const ALL: [Family; 4] = [Family::Agent, Family::Workspace, Family::Thread, Family::Script];
    /// Those that a sandbox can serve.
    pub const OF_SANDBOXES: [Family; 3] = [Family::Agent, Family::Workspace, Family::Thread];

    /// Returns the family's name in attributes, options and URLs.
    pub fn name(self) -> &'static str {
        match self {
            Family::Agent => "agent",
            Family::Workspace => "workspace",
            Family::Thread => "thread",
            Family::Script => "script",
        }
    }

    /// Returns the family with this name.
    pub fn find(name: &str) -> Option<Family> {
        Family::ALL.into_iter().find(|family| family.name() == name)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
