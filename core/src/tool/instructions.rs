//! What a model is told before its first call: what its sandboxes have and lack on the host that serves them.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Family;
use super::programs::Programs;
use crate::egress::Credential;
use crate::profiles::Profiles;
use crate::provider::{Limits, Profile, Size};
use crate::session::SLEEP_AFTER;
use crate::workspace::config::MAX_DURATION;

/// The maximum length of the instructions, in characters.
pub const MAX_INSTRUCTIONS: usize = 1500;
/// How many hosts or images are named.
const MAX_NAMED: usize = 6;

/// Where the sandboxes of a server run, as far as a model must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Host {
    /// On one machine, with its programs. Files outlive sleep.
    Machine(Programs),
    /// In containers on Cloudflare. Files outlive sleep if the profile says so.
    Containers,
}

impl Host {
    /// Returns the programs of the machine if the sandboxes of a profile use them.
    fn machine_programs(&self, profile: &Profile) -> Option<&Programs> {
        match self {
            Host::Machine(programs) if !programs.images.contains(&profile.reference) => Some(programs),
            _ => None,
        }
    }
}

/// Returns the instructions for a model that gets the tools of some families over the profiles of a project.
pub fn describe(families: &[Family], profiles: &Profiles, host: &Host) -> String {
    let mut text = families.iter().map(|family| family_text(*family)).collect::<Vec<_>>().join(" ");
    let served: Vec<Profiles> = families
        .iter()
        .filter(|family| **family != Family::Script)
        .filter_map(|family| profiles.of(*family))
        .collect();
    let of_scripts =
        if families.contains(&Family::Script) { script_credentials_text(profiles) } else { String::new() };
    let Some(first) = served.first() else {
        push_sentence(&mut text, &of_scripts);
        return text;
    };
    let default = first.default_profile();
    let others: Vec<&Profile> =
        profiles.list().iter().filter(|profile| profile.name != default.name).collect();
    for sentence in [
        programs_text(default, host),
        network_text(default),
        credentials_text(default),
        of_scripts,
        host_limits_text(default),
        user_text(default, host).to_owned(),
        limits_text(default, families),
        sleep_text(default, &others, host),
        others_text(default, &others),
    ] {
        push_sentence(&mut text, &sentence);
    }
    text
}

/// Adds a sentence. What does not fit is left out whole; the most important comes first.
fn push_sentence(text: &mut String, sentence: &str) {
    if !sentence.is_empty() && text.chars().count() + 1 + sentence.chars().count() <= MAX_INSTRUCTIONS {
        text.push(' ');
        text.push_str(sentence);
    }
}

/// Returns what a family's tools are for.
fn family_text(family: Family) -> &'static str {
    match family {
        Family::Agent => {
            "Tools for working in isolated Linux sandboxes. Each sandbox has its own files and processes, which persist \
             between calls. A sandbox is created when its name is first used; the default name is `default`."
        }
        Family::Thread => {
            "Tools for working in the isolated Linux sandbox of this conversation, which the first call creates. Its files \
             persist between calls. Commands start in `/mnt/user-data/workspace`. The user's files are in \
             `/mnt/user-data/uploads`; write results for the user to `/mnt/user-data/outputs`. File tools accept \
             absolute paths below `/mnt/user-data` only."
        }
        Family::Workspace => {
            "Tools for working in workspaces. A workspace is a directory of an isolated Linux sandbox, and its name is part \
             of the names of its tools: `workspace__NAME__OPERATION`. The first call opens it. Relative paths start at \
             its directory, and its files persist between calls."
        }
        Family::Script => {
            "Tools for running JavaScript in an isolate: `run_sandbox_code`. Its state and libraries persist between runs, and \
             `create_tool` adds tools of your own, which can be called at once."
        }
        _ => "Tools for working in isolated Linux sandboxes.",
    }
}

fn programs_text(profile: &Profile, host: &Host) -> String {
    let Some(programs) = host.machine_programs(profile) else {
        return format!("Programs: those of the image `{}`.", profile.reference);
    };
    let difference = programs.find_difference(&profile.reference);
    let has = difference.map(|difference| format!(", and has {difference}")).unwrap_or_default();
    format!(
        "Programs: those of the host machine, read-only ({}). The image `{}` is not used here{has}.",
        programs.list_versions(),
        profile.reference
    )
}

/// The package indexes whose programs models know, with the hosts that they need.
const INDEXES: [(&str, &[&str]); 2] =
    [("pip", &["pypi.org", "files.pythonhosted.org"]), ("npm", &["registry.npmjs.org"])];

fn network_text(profile: &Profile) -> String {
    if !profile.internet && profile.allowed_hosts.is_empty() {
        return "Network: off. `pip install`, `npm install`, `git clone` and `curl` reach nothing outside of the sandbox."
            .to_owned();
    }
    let mut text = String::from("Network: ");
    if profile.allowed_hosts.is_empty() {
        text.push_str("on");
    } else {
        let _ = write!(text, "only {}", list_names(&profile.allowed_hosts));
    }
    if !profile.denied_hosts.is_empty() {
        let _ = write!(text, ", but not {}", list_names(&profile.denied_hosts));
    }
    text.push('.');
    let is_named = |names: &[String], host: &str| names.iter().any(|name| matches_host(name, host));
    let is_open = |host: &str| {
        let is_allowed = profile.allowed_hosts.is_empty() || is_named(&profile.allowed_hosts, host);
        is_allowed && !is_named(&profile.denied_hosts, host)
    };
    for (program, hosts) in INDEXES {
        let verb = if hosts.iter().all(|host| is_open(host)) { "works" } else { "does not work" };
        let _ = write!(text, " `{program} install` {verb}.");
    }
    text
}

/// Returns which credentials requests may carry. Programs use the variables as if they held the values.
fn credentials_text(profile: &Profile) -> String {
    let Some(all) = list_credentials(&profile.credentials, "$") else { return String::new() };
    format!(
        "Credentials: {all}. Each variable holds a placeholder, which becomes the secret outside of the sandbox, only there and over \
         HTTPS."
    )
}

/// The same for the requests of scripts.
fn script_credentials_text(profiles: &Profiles) -> String {
    let Some(all) = list_credentials(profiles.script_credentials().list(), "secrets.") else {
        return String::new();
    };
    format!(
        "Credentials of scripts: {all}. Each holds a placeholder, which becomes the secret in a request of `fetch`, only there and \
         over HTTPS."
    )
}

/// Lists credentials with the hosts and places that they are for. `prefix` precedes their names.
fn list_credentials(credentials: &[Credential], prefix: &str) -> Option<String> {
    let all: Vec<String> = credentials
        .iter()
        .take(MAX_NAMED)
        .map(|Credential { name, host, placement }| format!("`{prefix}{name}` for {host} in {placement}"))
        .collect();
    let more = if credentials.len() > MAX_NAMED { ", and others" } else { "" };
    (!all.is_empty()).then(|| format!("{}{more}", all.join(", ")))
}

/// Returns how much may be exchanged with each host.
fn host_limits_text(profile: &Profile) -> String {
    let Limits { requests, bytes } = &profile.limits;
    let requests = requests.as_ref().map(|limit| format!("{limit} requests"));
    let all: Vec<String> = requests.into_iter().chain(bytes.clone()).collect();
    if all.is_empty() { String::new() } else { format!("Limits for each host: {}.", all.join(", ")) }
}

/// Returns whether an entry of a list of hosts names a host at the port of HTTPS, as it is or by `*.`.
fn matches_host(entry: &str, host: &str) -> bool {
    // Installing needs GET only. An entry with another method or a path names only some of the requests.
    let name = entry.strip_prefix("GET ").unwrap_or(entry);
    let name = name.strip_suffix("/**").unwrap_or(name);
    let name = name.strip_suffix(":443").unwrap_or(name);
    match name.strip_prefix('*') {
        Some(end) => host.len() > end.len() && host.ends_with(end),
        None => name == host,
    }
}

fn user_text(profile: &Profile, host: &Host) -> &'static str {
    match host {
        Host::Machine(_) if host.machine_programs(profile).is_none() => {
            "Programs run as the user of the image: `id` prints it. All files belong to that user, and programs cannot change to another."
        }
        Host::Machine(_) => {
            "You are the user `user`, not root: there is no `sudo`, and `apt` cannot install. You can write to `/home/user`, \
             `/workspace`, `/tmp` and `/mnt/user-data`."
        }
        Host::Containers => "Programs run as the user of the image: `id` prints it.",
    }
}

fn limits_text(profile: &Profile, families: &[Family]) -> String {
    let Size { memory_mib, disk_mb } = profile.size;
    let of_workspace = || profile.served_workspace()?.shell.map(|shell| shell.max_duration);
    let longest =
        if families.first() == Some(&Family::Workspace) { of_workspace() } else { Some(MAX_DURATION) };
    let command =
        longest.map_or_else(String::new, |longest| format!(", {} for a command", duration_text(longest)));
    format!("Limits: {memory_mib} MiB of memory, {disk_mb} MB of disk{command}.")
}

fn sleep_text(default: &Profile, others: &[&Profile], host: &Host) -> String {
    let idle = duration_text(default.sleep_after.unwrap_or(SLEEP_AFTER));
    let asleep = format!("After {idle} without a call, a sandbox goes to sleep: its processes end");
    let lost = "Store results that must last somewhere else.";
    let all = || std::iter::once(default).chain(others.iter().copied());
    let is_kept = |profile: &&Profile| matches!(host, Host::Machine(_)) || profile.keep_files;
    let kept: Vec<&Profile> = all().filter(is_kept).collect();
    match kept.len() {
        0 => format!("{asleep}, and its files are deleted. {lost}"),
        count if count == all().count() => format!("{asleep}, and its files are kept."),
        _ => {
            let names: Vec<&str> = kept.iter().map(|profile| profile.name.as_str()).collect();
            format!(
                "{asleep}. The files of sandboxes with the image {} are kept. Those of other sandboxes are deleted. {lost}",
                names.join(" or ")
            )
        }
    }
}

/// Returns a time in the largest unit in which it is a whole number.
fn duration_text(time: Duration) -> String {
    let seconds = time.as_secs();
    let (count, unit) = match seconds {
        _ if seconds >= 3600 && seconds.is_multiple_of(3600) => (seconds / 3600, "hour"),
        _ if seconds >= 60 && seconds.is_multiple_of(60) => (seconds / 60, "minute"),
        _ => (seconds, "second"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

/// Returns what the sandboxes of other images have instead.
fn others_text(default: &Profile, others: &[&Profile]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let of_others: Vec<String> =
        others.iter().take(MAX_NAMED).map(|other| differing_text(default, other)).collect();
    let more = if others.len() > MAX_NAMED { ", and others" } else { "" };
    format!("This is the image `{}`. Other images: {}{more}.", default.name, of_others.join(", "))
}

fn differing_text(default: &Profile, other: &Profile) -> String {
    let mut parts = Vec::new();
    let has_network = |profile: &Profile| profile.internet || !profile.allowed_hosts.is_empty();
    let network =
        |profile: &Profile| (profile.internet, profile.allowed_hosts.clone(), profile.denied_hosts.clone());
    if network(other) != network(default) {
        parts.push(match (has_network(other), other.allowed_hosts.is_empty()) {
            (false, _) => "network off".to_owned(),
            (true, true) => "network on".to_owned(),
            (true, false) => format!("network only {}", list_names(&other.allowed_hosts)),
        });
    }
    if other.size != default.size {
        parts.push(format!("{} MiB", other.size.memory_mib));
    }
    if parts.is_empty() {
        format!("`{}`", other.name)
    } else {
        format!("`{}` ({})", other.name, parts.join("; "))
    }
}

fn list_names(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > MAX_NAMED { " and others" } else { "" };
    format!("{}{more}", quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { memory_mib: 256, disk_mb: 2000 };

    fn machine() -> Host {
        Host::Machine(Programs { python: Some("3.11.2".into()), ..Programs::default() })
    }

    fn describe_agent(list: Vec<Profile>, host: &Host) -> String {
        let default = list[0].name.clone();
        describe(&[Family::Agent], &Profiles::new(list, &default).unwrap(), host)
    }

    #[test]
    fn a_default_sandbox_is_described() {
        let text = describe_agent(vec![Profile::new("a", "python:3.12-slim", SIZE)], &machine());
        let expected = "Programs: those of the host machine, read-only (Python 3.11.2, no Node). The image `python:3.12-slim` is not \
                        used here, and has Python 3.12. Network: off. `pip install`, `npm install`, `git clone` and `curl` reach nothing outside of the \
                        sandbox. You are the user `user`, not root: there is no `sudo`, and `apt` cannot install. You can write to \
                        `/home/user`, `/workspace`, `/tmp` and `/mnt/user-data`. Limits: 256 MiB of memory, 2000 MB of disk, 10 \
                        minutes for a command. After 10 minutes without a call, a sandbox goes to sleep: its processes end, and its \
                        files are kept.";
        assert!(text.ends_with(expected), "{text}");
        assert!(text.chars().count() <= MAX_INSTRUCTIONS);
    }

    #[test]
    fn the_network_is_described() {
        let text = |internet, allowed: &[&str], denied: &[&str]| {
            let own = |list: &[&str]| list.iter().map(|host| (*host).to_owned()).collect();
            let (allowed_hosts, denied_hosts) = (own(allowed), own(denied));
            network_text(&Profile { internet, allowed_hosts, denied_hosts, ..Profile::new("a", "x", SIZE) })
        };
        assert_eq!(text(true, &[], &[]), "Network: on. `pip install` works. `npm install` works.");
        assert_eq!(
            text(false, &["pypi.org", "*.pythonhosted.org"], &[]),
            "Network: only `pypi.org`, `*.pythonhosted.org`. `pip install` works. `npm install` does not work."
        );
        assert_eq!(
            text(true, &[], &["registry.npmjs.org"]),
            "Network: on, but not `registry.npmjs.org`. `pip install` works. `npm install` does not work."
        );
        let ports = ["pypi.org:443", "*.pythonhosted.org:443", "registry.npmjs.org:8443"];
        assert!(text(false, &ports, &[]).ends_with("`pip install` works. `npm install` does not work."));
        let many: Vec<String> = (0..9).map(|n| format!("{n}.example")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(text(false, &many, &[]).starts_with("Network: only `0.example`, "));
        assert!(text(false, &many, &[]).contains("`5.example` and others."));
    }

    #[test]
    fn credentials_are_described_without_values() {
        let credential =
            |name: &str, placement| Credential { name: name.into(), host: "a.example".into(), placement };
        let credentials = vec![
            credential("API_KEY", crate::egress::Placement::Bearer),
            credential("MAPS", crate::egress::Placement::Query { key: "key".into() }),
        ];
        let allowed_hosts =
            vec!["a.example".to_owned(), "GET pypi.org/**".to_owned(), "files.pythonhosted.org".to_owned()];
        let profile = Profile { allowed_hosts, credentials, ..Profile::new("a", "x:1", SIZE) };
        let text = describe_agent(vec![profile], &machine());
        let expected = "Credentials: `$API_KEY` for a.example in `Authorization: Bearer`, `$MAPS` for a.example in the parameter `key` of \
                        the query. Each variable holds a placeholder";
        assert!(text.contains(expected) && text.contains("`pip install` works."), "{text}");
    }

    #[test]
    fn credentials_of_scripts_are_described() {
        let placement = crate::egress::Placement::Bearer;
        let credential = Credential { name: "API_KEY".into(), host: "a.example".into(), placement };
        let profiles = Profiles::of_scripts().with_script_credentials(vec![credential.clone()]);
        let text = describe(&[Family::Script], &profiles, &machine());
        let expected = "at once. Credentials of scripts: `secrets.API_KEY` for a.example in `Authorization: Bearer`. Each holds";
        assert!(text.contains(expected), "{text}");
        let profiles = Profiles::new(vec![Profile::new("a", "x:1", SIZE)], "a").unwrap();
        let profiles = profiles.with_script_credentials(vec![credential]);
        assert!(!describe(&[Family::Agent], &profiles, &machine()).contains("of scripts"));
    }

    #[test]
    fn limits_are_described() {
        let limits = Limits { requests: Some("100/m".into()), bytes: Some("50MB".into()) };
        let text = describe_agent(vec![Profile { limits, ..Profile::new("a", "x:1", SIZE) }], &machine());
        assert!(text.contains("Limits for each host: 100/m requests, 50MB."), "{text}");
    }

    #[test]
    fn the_fate_of_files_is_described() {
        let profile = |name, keep_files| Profile { keep_files, ..Profile::new(name, "x:1", SIZE) };
        let text = |list| describe_agent(list, &Host::Containers);
        assert!(text(vec![profile("a", true), profile("b", true)]).contains("its files are kept"));
        assert!(text(vec![profile("a", false)]).contains("its files are deleted"));
        let mixed = text(vec![profile("a", false), profile("b", true), profile("c", true)]);
        assert!(mixed.contains("The files of sandboxes with the image b or c are kept."), "{mixed}");
        assert!(describe_agent(vec![profile("a", false)], &machine()).contains("its files are kept"));
    }

    #[test]
    fn other_images_are_described() {
        let other = Profile {
            internet: true,
            size: Size { memory_mib: 4096, ..SIZE },
            ..Profile::new("big", "x:1", SIZE)
        };
        let list = vec![Profile::new("a", "x:1", SIZE), other, Profile::new("same", "y", SIZE)];
        let text = describe_agent(list, &Host::Containers);
        let expected = "This is the image `a`. Other images: `big` (network on; 4096 MiB), `same`.";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn long_instructions_leave_out_whole_sentences() {
        let hosts: Vec<String> = (0..6).map(|n| format!("{n}{}.example", "x".repeat(200))).collect();
        let profile = Profile { allowed_hosts: hosts, ..Profile::new("a", "x:1", SIZE) };
        let text = describe_agent(vec![profile], &machine());
        assert!(text.chars().count() <= MAX_INSTRUCTIONS);
        assert!(!text.contains("Network") && text.contains("Limits: 256 MiB"), "{text}");
    }

    #[test]
    fn instructions_describe_the_families_served() {
        let profile = Profile { tools: Family::ALL.to_vec(), ..Profile::new("a", "x:1", SIZE) };
        let profiles =
            Profiles::new(vec![profile], "a").unwrap().with_script_egress(crate::script::Egress::default());
        let text = |families: &[Family]| describe(families, &profiles, &machine());
        let marks = [
            (Family::Agent, "the default name is `default`"),
            (Family::Thread, "`/mnt/user-data/uploads`"),
            (Family::Workspace, "workspace__NAME__"),
            (Family::Script, "run_sandbox_code"),
        ];
        for family in Family::ALL {
            assert!(marks.iter().any(|(known, _)| *known == family), "{family} has no instructions");
            for (other, mark) in marks {
                assert_eq!(text(&[family]).contains(mark), family == other, "{family}: {mark}");
            }
        }
        assert!(!text(&[Family::Script]).contains("Limits"));
        let both = text(&[Family::Agent, Family::Workspace]);
        assert!(both.contains(marks[0].1) && both.contains(marks[2].1), "{both}");
    }
}
