//! The processes of a sandbox as a list.

use koze_core::http::ProcessEntry;
use serde_json::json;

use super::table::table;
use crate::args::ListFormat;

/// How many characters of an ID a table shows. `koze kill` and `koze logs` accept the beginning of an ID.
const SHORT_ID: usize = 12;

/// Returns the list for programs, or for people. Returns `None` for people if there are no processes.
pub(super) fn process_table(processes: &[ProcessEntry], format: ListFormat) -> Option<String> {
    match format {
        ListFormat::Json => {
            let list: Vec<_> = processes.iter().map(to_json).collect();
            Some(format!("{:#}\n", json!({ "processes": list })))
        }
        ListFormat::Human if processes.is_empty() => None,
        ListFormat::Human => {
            Some(table(["ID", "LABEL", "PROGRAM", "TERMINAL", "STATE"], processes.iter().map(to_cells)))
        }
    }
}

fn to_cells(process: &ProcessEntry) -> [String; 5] {
    [
        process.id.chars().take(SHORT_ID).collect(),
        process.label.clone().unwrap_or_default(),
        process.program.clone(),
        if process.terminal { "yes" } else { "no" }.to_owned(),
        process.exit_code.map_or_else(|| "running".to_owned(), |code| format!("exited ({code})")),
    ]
}

fn to_json(process: &ProcessEntry) -> serde_json::Value {
    json!({
        "id": process.id, "label": process.label, "program": process.program, "terminal": process.terminal,
        "running": process.exit_code.is_none(), "exit_code": process.exit_code,
    })
}
