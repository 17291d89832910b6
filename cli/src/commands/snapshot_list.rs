//! The list of snapshots, for people and for programs.

use koze_core::http::SnapshotEntry;
use serde_json::json;

use super::table::table;
use super::time::time;
use crate::args::ListFormat;

/// Returns the list.
pub(super) fn show(list: &[SnapshotEntry], format: ListFormat) -> String {
    match format {
        ListFormat::Json => format!("{:#}\n", json!({ "snapshots": list })),
        ListFormat::Human if list.is_empty() => "no snapshots: `koze snapshot create` takes one\n".to_owned(),
        ListFormat::Human => {
            let head = ["SNAPSHOT", "CREATED", "ORIGIN", "ENTRIES", "BYTES", "STORED", "EXPIRES"];
            table(head, list.iter().map(to_cells))
        }
    }
}

fn to_cells(snapshot: &SnapshotEntry) -> [String; 7] {
    let expires = match snapshot.expires {
        None => "never".to_owned(),
        Some(_) if snapshot.expired => "expired".to_owned(),
        Some(expires) => time(expires),
    };
    let numbers = [snapshot.contents.entries, snapshot.contents.bytes, snapshot.archive_bytes];
    let [entries, bytes, archive] = numbers.map(|number| number.to_string());
    [snapshot.id.clone(), time(snapshot.created), snapshot.session.clone(), entries, bytes, archive, expires]
}
