//! What a client of the Model Context Protocol may assume about a tool before it asks a person.

use rmcp::model::ToolAnnotations;

/// What a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It changes nothing.
    Reads,
    /// It only adds something, or ends what can be started again.
    Adds,
    /// It may replace or delete something.
    Changes,
}

/// Tools that reach only what is koze's.
const INSIDE: &[(Effect, &[&str])] = &[
    (
        Effect::Reads,
        &[
            "read_file",
            "glob",
            "grep",
            "ls",
            "stat",
            "sandbox_list",
            "process_list",
            "process_output",
            "list_code_contexts",
            "get_state",
            "list_state_keys",
            "db_schema",
            "list_libraries",
            "read_library",
            "list_tools",
            "read_tool",
        ],
    ),
    (
        Effect::Adds,
        &[
            "browse",
            "sandbox_create",
            "mkdir",
            "snapshot",
            "branch",
            "create_code_context",
            "create_library",
            "create_tool",
            "enable_tool",
            "disable_tool",
            "browser_close",
        ],
    ),
    (
        Effect::Changes,
        &[
            "write_file",
            "str_replace",
            "edit_file",
            "rm",
            "transfer",
            "process_kill",
            "restore",
            "restart_code_context",
            "delete_code_context",
            "set_state",
            "delete_state",
            "db_sql",
            "update_library",
            "delete_library",
            "update_tool",
            "delete_tool",
        ],
    ),
];

/// Tools that may reach the internet, as far as a sandbox or scripts may.
const OUTSIDE: &[(Effect, &[&str])] = &[
    (Effect::Reads, &["browser_screenshot", "browser_extract_text", "browser_extract_html"]),
    (
        Effect::Changes,
        &[
            "shell",
            "process_input",
            "bash",
            "run",
            "run_code",
            "run_in_code_context",
            "run_sandbox_code",
            "fetch_url",
            "browser_navigate",
            "browser_click",
            "browser_type",
            "browser_evaluate",
        ],
    ),
];

/// Returns the hints about a tool of koze.
pub(super) fn tool_hints(name: &str) -> Option<ToolAnnotations> {
    // Of a workspace, the last part is the operation.
    let operation = name.rsplit("__").next().unwrap_or(name);
    let find = |kinds: &[(Effect, &[&str])]| {
        kinds.iter().find(|(_, names)| names.contains(&operation)).map(|(effect, _)| *effect)
    };
    let (effect, is_open) = match (find(INSIDE), find(OUTSIDE)) {
        (Some(effect), _) => (effect, false),
        (None, Some(effect)) => (effect, true),
        (None, None) => return None,
    };
    let mut hints = ToolAnnotations::new().read_only(effect == Effect::Reads).open_world(is_open);
    if effect != Effect::Reads {
        hints = hints.destructive(effect == Effect::Changes);
    }
    Some(hints)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    #[test]
    fn every_tool_has_hints() {
        for schemas in [
            include_str!("agent/schemas.json"),
            include_str!("thread/schemas.json"),
            include_str!("workspace/schemas.json"),
            include_str!("script/schemas.json"),
        ] {
            let tools: Map<String, Value> = serde_json::from_str(schemas).unwrap();
            for name in tools.keys() {
                assert!(tool_hints(name).is_some(), "{name}");
            }
        }
        let hints = |name| serde_json::to_value(tool_hints(name)).unwrap();
        assert_eq!(hints("workspace__box__stat"), json!({ "readOnlyHint": true, "openWorldHint": false }));
        let shell = json!({ "readOnlyHint": false, "destructiveHint": true, "openWorldHint": true });
        assert_eq!(hints("shell"), shell);
    }
}
