//! The demo of the tools `script`: an agent computes, writes a library, and creates a tool that uses it.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use super::{Agent, show};

/// The toolset.
pub(super) const TOOLSET: &str = "script";
/// What enables the tools.
const TABLE: &str = "[package.metadata.koze.script]";

const LIBRARY: &str =
    "exports.average = (rows, key) => rows.reduce((sum, row) => sum + Number(row[key]), 0) / rows.length";
const TOOL: &str = "const { average } = require('numbers');
const rows = parseCSV(args.csv, { header: true });
const value = average(rows, args.column);
await state.set('last', value);
return { column: args.column, average: value };";

/// Enables the tools in the project's manifest.
pub(super) fn enable(project: &Path) -> Result<(), ExitCode> {
    show::out(&format!("$ echo '{TABLE}' >> Cargo.toml\n"));
    let path = project.join("Cargo.toml");
    let changed = fs_err::read_to_string(&path)
        .and_then(|text| fs_err::write(&path, format!("{}\n\n{TABLE}\n", text.trim_end())));
    changed.map_err(|error| show::failure(&error.to_string()))
}

pub(super) async fn play(agent: &Agent) -> Result<(), String> {
    let code = "console.log('counting'); return [1, 2, 3].reduce((sum, n) => sum + n, 0)";
    agent.call_json("run_sandbox_code", json!({ "code": code })).await?;
    agent.call_json("create_library", json!({ "name": "numbers", "code": LIBRARY })).await?;
    let schema = json!({
        "type": "object",
        "properties": { "csv": { "type": "string" }, "column": { "type": "string" } },
        "required": ["csv", "column"],
    });
    agent
        .call_json(
            "create_tool",
            json!({
                "name": "average_of_column", "description": "Average a column of a CSV table.",
                "parameter_schema": schema, "code": TOOL,
            }),
        )
        .await?;
    let csv = "month,visits\nJune,120\nJuly,80\nAugust,100\n";
    agent.call_json("average_of_column", json!({ "csv": csv, "column": "visits" })).await?;
    agent.call_json("get_state", json!({ "key": "last" })).await?;
    Ok(())
}
