//! The demo of the tools of a workspace: an agent edits a file, runs a command, and keeps variables between runs of code.

use serde_json::{Value, json};

use super::{Agent, steps};

/// The toolset.
pub(super) const TOOLSET: &str = "workspace";
/// What the attribute of the project's sandbox gets.
pub(super) const ATTRIBUTE: &str =
    "tools = [\"workspace\"], workspace(name = \"box\", shell, code(stateful = true)), ";
/// The name of the workspace, which is that of its sandbox.
pub(super) const NAME: &str = "box";

const TABLE: &str = "month,visits\nJune,120\nJuly,80\nAugust,100\n";

/// Code in a language: it reads the table, and computes with it.
struct Code {
    language: &'static str,
    interpreter: &'static str,
    read: &'static str,
    compute: &'static str,
}

const CODES: &[Code] = &[
    Code {
        language: "python",
        interpreter: "python3",
        read: "import csv\nrows = list(csv.DictReader(open('visits.csv')))\nlen(rows)",
        compute: "sum(int(row['visits']) for row in rows) / len(rows)",
    },
    Code {
        language: "javascript",
        interpreter: "node",
        read: "const lines = require('fs').readFileSync('visits.csv', 'utf8').trim().split('\\n');\n\
               const rows = lines.slice(1).map((line) => Number(line.split(',')[1]));\nrows.length",
        compute: "rows.reduce((sum, visits) => sum + visits) / rows.length",
    },
];

/// Plays the calls.
pub(super) async fn play(agent: &Agent) -> Result<(), String> {
    let call = async |operation: &str, input: Value| {
        agent.call_json(&format!("workspace__{NAME}__{operation}"), input).await
    };
    call("write_file", json!({ "path": "visits.csv", "content": TABLE })).await?;
    let edit = json!({ "path": "visits.csv", "old_string": "July,80", "new_string": "July,110" });
    call("edit_file", edit).await?;
    call("grep", json!({ "pattern": "July", "include": "*.csv" })).await?;
    call("run", json!({ "command": "sort -t, -k2 -n visits.csv | tail -n 1" })).await?;
    let found = call("run", json!({ "command": "command -v python3 node; true" })).await?;
    let code = find_code(found["stdout"].as_str().unwrap_or_default())?;
    let created = call("create_code_context", json!({ "language": code.language })).await?;
    let context = &created["context_id"];
    for code in [code.read, code.compute] {
        call("run_in_code_context", json!({ "context_id": context, "code": code })).await?;
    }
    call("delete_code_context", json!({ "context_id": context })).await.map(drop)
}

/// Returns the code for the first installed language.
fn find_code(found: &str) -> Result<&'static Code, String> {
    CODES.iter().find(|code| steps::is_installed(found, code.interpreter)).ok_or_else(|| {
        "the sandbox has no interpreter for the demo's code: install python3 or node below /usr".to_owned()
    })
}
