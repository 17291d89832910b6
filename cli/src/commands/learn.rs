//! `koze egress learn`: the fewest `allowed_hosts` for what sandboxes tried to reach.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::{Command, ExitCode};

use koze_core::egress::{Host, Rule};
use koze_core::time::now;
use serde_json::{Value, json};

use super::local_session::{LocalSession, failed};
use super::sandboxes::read_egress;
use super::show;
use crate::args::{self, ListFormat};
use crate::platform;
use crate::provider::Reached;

/// How the journal begins a rule about what was requested within a tunnel.
const WITHIN: [&str; 2] = ["server name: ", "HTTP host: "];

pub(super) fn run(args: &args::Learn) -> Result<ExitCode, ExitCode> {
    let session = LocalSession::find(&args.state.in_session(args.session.as_deref()))?;
    let since = now();
    let code = if args.command.is_empty() { ExitCode::SUCCESS } else { run_command(&args.command)? };
    let only = args.session.is_some().then_some(&session.session);
    let mut entries = read_egress(&session.state, only).map_err(|error| failed(&error))?;
    entries.retain(|entry| args.command.is_empty() || entry.time >= since);
    let (scripts, sandboxes): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|entry| entry.sandbox.starts_with('('));
    let learned = [Learned::of(&sandboxes), Learned::of(&scripts)];
    show::out(&match args.format {
        ListFormat::Json => {
            let [sandboxes, scripts] = learned.each_ref().map(Learned::to_json);
            format!("{:#}\n", json!({ "sandboxes": sandboxes, "scripts": scripts }))
        }
        ListFormat::Human => to_text(&learned),
    });
    Ok(code)
}

/// Runs the user's command in this terminal. Returns how it exited.
fn run_command(command: &[OsString]) -> Result<ExitCode, ExitCode> {
    let (program, arguments) = command.split_first().expect("the caller has checked it");
    let status = Command::new(program).args(arguments).status().map_err(|error| {
        show::failure(&format!("`{}` cannot be run: {error}", program.to_string_lossy().escape_debug()))
    })?;
    Ok(platform::to_exit_code(status))
}

/// What a policy must allow, and what no entry of `allowed_hosts` would have changed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Learned {
    allowed_hosts: BTreeSet<String>,
    /// The hosts with their ports, and why they are refused.
    refused: BTreeSet<(String, String)>,
}

impl Learned {
    fn of(entries: &[Reached]) -> Self {
        let mut learned = Learned::default();
        for entry in entries.iter().filter(|entry| entry.allowed) {
            learned.allowed_hosts.insert(allowing(&entry.host, entry.port, &entry.rule));
            if let Some(inner) = entry.sni.as_ref().filter(|_| entry.is_fronted()) {
                learned.allowed_hosts.insert(allowing(inner, entry.port, ""));
            }
        }
        for entry in entries.iter().filter(|entry| !entry.allowed) {
            let within = WITHIN.iter().find_map(|prefix| entry.rule.strip_prefix(prefix));
            let rule = within.or(entry.rule.strip_prefix(Reached::LOOKUP)).unwrap_or(&entry.rule);
            let host = entry.sni.as_ref().filter(|_| within.is_some()).unwrap_or(&entry.host);
            let would_allow = allowing(host, entry.port, "");
            // A host that is allowed for some requests has refused another one: to allow the host would allow all.
            let is_partial = learned
                .allowed_hosts
                .iter()
                .filter_map(|entry| Rule::parse(entry).ok())
                .any(|rule| rule.is_partial() && parse_host(host).is_some_and(|host| rule.names(&host)));
            if matches!(rule, "not in allowed_hosts" | "no allowed_hosts") && !is_partial {
                learned.allowed_hosts.insert(would_allow);
            } else {
                learned.refused.insert((would_allow, entry.rule.clone()));
            }
        }
        learned
    }

    fn to_json(&self) -> Value {
        let refused = self.refused.iter().map(|(host, rule)| json!({ "host": host, "rule": rule }));
        json!({ "allowed_hosts": self.allowed_hosts, "refused": refused.collect::<Vec<_>>() })
    }
}

/// Returns the entry that allows what a rule has allowed, and nothing more: the rule itself if it is for some requests only.
fn allowing(host: &str, port: u16, rule: &str) -> String {
    let entry = rule.strip_prefix("allowed_hosts: ").map(|entry| entry.split(';').next().unwrap_or(entry));
    if let Some(entry) = entry.filter(|entry| Rule::parse(entry).is_ok_and(|rule| rule.is_partial())) {
        return entry.to_owned();
    }
    let Some(host) = parse_host(host) else { return host.to_owned() };
    let plain = host.in_url();
    let is_usual = port == 0 || Rule::parse(&plain).is_ok_and(|rule| rule.allows(&host, port));
    if is_usual { plain } else { format!("{plain}:{port}") }
}

/// Parses a host of the journal, whose addresses have no brackets.
fn parse_host(text: &str) -> Option<Host> {
    text.parse().ok().map(Host::Address).or_else(|| Host::parse(text))
}

fn to_text([sandboxes, scripts]: &[Learned; 2]) -> String {
    if [sandboxes, scripts].iter().all(|learned| **learned == Learned::default()) {
        return "no sandbox or script has tried to reach a host: without `internet = true` or `allowed_hosts`, programs have no network \
                to try. Learn with `internet = true`\n"
            .to_owned();
    }
    let mut text = String::new();
    for (of, comment, end, learned) in
        [("", "//", ",", sandboxes), ("# [package.metadata.koze.script]\n", "#", "", scripts)]
    {
        if *learned == Learned::default() {
            continue;
        }
        let _ = writeln!(text, "{of}allowed_hosts = [");
        for host in &learned.allowed_hosts {
            let _ = writeln!(text, "    {host:?},");
        }
        let _ = writeln!(text, "]{end}");
        for (host, rule) in &learned.refused {
            let _ = writeln!(text, "{comment} refused: {host}, {rule}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(host: &str, port: u16, rule: &str, allowed: bool, sni: Option<&str>) -> Reached {
        let entry = json!({
            "time": 1, "session": "s", "sandbox": "a", "host": host, "port": port, "address": null, "rule": rule,
            "allowed": allowed, "sni": sni,
        });
        serde_json::from_value(entry).unwrap()
    }

    #[test]
    fn the_fewest_hosts_are_learned() {
        let learned = Learned::of(&[
            entry("a.example", 443, "internet", true, Some("a.example")),
            entry("a.example", 80, "internet", true, None),
            entry("b.example", 8443, "allowed_hosts: *.example", true, None),
            entry("::1", 8080, "internet", true, None),
            entry("c.example", 443, "internet", true, Some("d.example")),
            entry("e.example", 443, "allowed_hosts: GET e.example/v1/**; credentials: KEY", true, None),
            entry("e.example", 443, "HTTP host: not in allowed_hosts", false, Some("e.example")),
            entry("f.example", 443, "no allowed_hosts", false, None),
            entry("c.example", 443, "server name: not in allowed_hosts", false, Some("g.example")),
            entry("h.example", 443, "denied_hosts: h.example", false, None),
            entry("i.example", 0, "name lookup: not in allowed_hosts", false, None),
            entry("j.example", 0, "name lookup: denied_hosts: j.example", false, None),
            entry("10.0.0.1", 81, "not on the internet", false, None),
        ]);
        let allowed: Vec<&str> = learned.allowed_hosts.iter().map(String::as_str).collect();
        let expected = [
            "GET e.example/v1/**",
            "[::1]:8080",
            "a.example",
            "b.example:8443",
            "c.example",
            "d.example",
            "f.example",
            "g.example",
            "i.example",
        ];
        assert_eq!(allowed, expected);
        let refused: Vec<&str> = learned.refused.iter().map(|(host, _)| host.as_str()).collect();
        assert_eq!(refused, ["10.0.0.1:81", "e.example", "h.example", "j.example"]);
        // Every entry is one that the attribute accepts.
        assert!(allowed.iter().all(|entry| Rule::parse(entry).is_ok()), "{allowed:?}");
    }
}
