//! `koze sandboxes --egress`: lists the hosts that sandboxes and scripts reached and were refused.

use std::process::ExitCode;

use koze_core::SessionId;
use serde_json::json;

use super::show;
use crate::args::ListFormat;
use crate::commands::local::time::time;
use crate::commands::table::table;
use crate::provider::{self, Reached};
use crate::session::State;

pub(super) fn show(
    state: &State,
    only: Option<&SessionId>,
    format: ListFormat,
) -> koze_core::Result<ExitCode> {
    let mut entries = read_egress(state, only)?;
    entries.sort_by_key(|entry| entry.time);
    show::out(&match format {
        ListFormat::Json => in_json(&entries),
        ListFormat::Human => in_words(&entries),
    });
    Ok(ExitCode::SUCCESS)
}

/// Returns what sandboxes and scripts reached and were refused, in one session or in all.
pub(in crate::commands) fn read_egress(
    state: &State,
    only: Option<&SessionId>,
) -> koze_core::Result<Vec<Reached>> {
    let mut entries = Vec::new();
    for dir in state.sessions()? {
        entries.extend(provider::read_egress(&dir)?);
    }
    entries.retain(|entry| only.is_none_or(|only| only.session() == entry.session));
    Ok(entries)
}

fn in_json(entries: &[Reached]) -> String {
    let list: Vec<_> = entries
        .iter()
        .map(|entry| {
            json!({
                "time": time(entry.time), "session": entry.session, "sandbox": entry.sandbox, "host": entry.host,
                "port": entry.port, "address": entry.address, "allowed": entry.allowed, "rule": entry.rule,
                "sni": entry.sni, "sni_differs": entry.is_fronted(),
            })
        })
        .collect();
    format!("{:#}\n", json!({ "egress": list }))
}

fn in_words(entries: &[Reached]) -> String {
    if entries.is_empty() {
        return "no sandbox or script has tried to reach a host\n".to_owned();
    }
    let row = |entry: &Reached| {
        let decision = if entry.allowed { "reached" } else { "refused" };
        let rule = match &entry.sni {
            Some(sni) if entry.is_fronted() => format!("{}; {sni} was requested", entry.rule),
            _ => entry.rule.clone(),
        };
        [
            time(entry.time),
            entry.session.clone(),
            entry.sandbox.clone(),
            entry.target(),
            entry.address.map_or_else(|| "-".to_owned(), |address| address.to_string()),
            decision.to_owned(),
            rule,
        ]
    };
    let head = ["TIME", "SESSION", "SANDBOX", "HOST", "ADDRESS", "DECISION", "RULE"];
    table(head, entries.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_as_lines() {
        let entry = |text: &str| serde_json::from_str::<Reached>(text).unwrap();
        let entries = [
            entry(
                r#"{"time":1700000000000,"session":"s","sandbox":"a","host":"a.example","port":443,"address":"192.0.2.1",
                "rule":"allowed_hosts: a.example","allowed":true,"sni":"a.example"}"#,
            ),
            entry(
                r#"{"time":1700000001000,"session":"s","sandbox":"a","host":"a.example","port":443,"address":null,
                "rule":"server name: not in allowed_hosts","allowed":false,"sni":"b.exam\u001bple"}"#,
            ),
        ];
        let words = "TIME                  SESSION  SANDBOX  HOST           ADDRESS    DECISION  RULE\n\
                     2023-11-14T22:13:20Z  s        a        a.example:443  192.0.2.1  reached   allowed_hosts: a.example\n\
                     2023-11-14T22:13:21Z  s        a        a.example:443  -          refused   server name: not in allowed_hosts; \
                     b.exam\u{fffd}ple was requested\n";
        assert_eq!(in_words(&entries), words);
        let json: serde_json::Value = serde_json::from_str(&in_json(&entries)).unwrap();
        assert_eq!(
            (&json["egress"][0]["sni_differs"], &json["egress"][1]["sni_differs"]),
            (&json!(false), &json!(true))
        );
        assert_eq!(in_words(&[]), "no sandbox or script has tried to reach a host\n");
    }
}
