//! `workspace(..)`: what a sandbox that serves the tools `workspace` declares.

use std::time::Duration;

use syn::Meta;
use syn::spanned::Spanned as _;

use super::{literal, nested};
use crate::report::Report;
use crate::rules::Rule;
use crate::value::Spanned;

/// The workspace of a sandbox. Keys that were not given are `None`, `false` or the default.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    /// Its name, as it appears in the names of its tools.
    pub name: Option<Spanned<String>>,
    /// Its directory, as an absolute path.
    pub dir: Option<String>,
    /// The session that owns its sandbox, in place of the current one.
    pub id: Option<String>,
    /// Whether sessions share it.
    pub share_across_sessions: bool,
    /// Whether closing it destroys its sandbox.
    pub destroy_on_close: bool,
    /// The capability `shell`, if it is declared.
    pub shell: Option<Shell>,
    /// The capability `code`, if it is declared.
    pub code: Option<Code>,
    /// The capability `snapshot`, if it is declared.
    pub snapshot: Option<Snapshot>,
    /// The directory that a snapshot archives, as an absolute path.
    pub snapshot_dir: Option<String>,
}

/// The capability `shell`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shell {
    /// The programs that commands may run; `None` means any.
    pub allow: Option<Vec<String>>,
    /// The longest time that a command may run.
    pub max_duration: Option<Duration>,
}

/// The capability `code`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Code {
    /// The languages; `None` means all.
    pub languages: Option<Vec<String>>,
    /// Whether there are contexts, which keep variables.
    pub stateful: bool,
}

/// The capability `snapshot`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The binding of the R2 bucket for archives in a Worker.
    pub bucket: Option<String>,
    /// Whether snapshots of other sessions can be restored.
    pub allow_cross_session: bool,
    /// The maximum number of snapshots in a session.
    pub max_count: Option<u32>,
    /// The maximum size of a session's snapshots in MB.
    pub max_mb: Option<u32>,
    /// How long a snapshot is kept.
    pub expires_after: Option<Duration>,
}

/// The languages of code.
const LANGUAGES: &[&str] = &["python", "javascript"];

/// The form of a workspace's name.
pub const NAME_FORM: &str = "1 to 20 lowercase letters, digits and inner hyphens";

const KEYS: &[&str] = &[
    "name",
    "dir",
    "shell",
    "code",
    "snapshot",
    "snapshot_dir",
    "share_across_sessions",
    "id",
    "destroy_on_close",
];
const SNAPSHOT_KEYS: &[&str] = &["bucket", "allow_cross_session", "max_count", "max_mb", "expires_after"];
/// The most snapshots of a session. Their list has to fit into one value of the store.
const MAX_SNAPSHOTS: u32 = 1000;
/// Keys of the specification that this version does not have.
const MISSING: &[&str] = &["hostname"];
/// The longest ID in bytes, as that of a session.
const MAX_ID: usize = 256;
/// The longest time of a command in seconds, as that of the other tools.
const MAX_DURATION: u64 = 600;

/// Returns whether a text is the name of a workspace, which is also that of its sandbox.
pub fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=20).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

pub(super) fn workspace(meta: &Meta, report: &mut Report) -> Option<Spanned<Workspace>> {
    let mut workspace = Workspace::default();
    let mut shared: Option<Spanned<bool>> = None;
    let mut id: Option<Spanned<String>> = None;
    for (name, span, entry) in nested::entries("workspace", meta, report)? {
        match name.as_str() {
            "name" => workspace.name = workspace_name(&entry, report),
            "dir" => workspace.dir = directory(&name, &entry, report),
            "id" => id = session(&name, &entry, report),
            "share_across_sessions" => shared = literal::boolean(&name, &entry, report),
            "destroy_on_close" => {
                workspace.destroy_on_close =
                    literal::boolean(&name, &entry, report).is_some_and(|value| value.value);
            }
            "shell" => workspace.shell = shell(&entry, report),
            "code" => workspace.code = code(&entry, report),
            "snapshot" => workspace.snapshot = snapshot(&entry, report),
            "snapshot_dir" => workspace.snapshot_dir = directory(&name, &entry, report),
            missing if MISSING.contains(&missing) => {
                report.add(Rule::NotInWorkspace { key: missing.to_owned() }, span);
            }
            _ => nested::unknown(&name, "workspace", KEYS, span, report),
        }
    }
    sharing(&mut workspace, id, shared, report);
    Some(Spanned::new(workspace, meta.path().span()))
}

/// Checks that a shared workspace is meant to be one.
fn sharing(
    workspace: &mut Workspace,
    id: Option<Spanned<String>>,
    shared: Option<Spanned<bool>>,
    report: &mut Report,
) {
    match (&id, &shared) {
        (Some(_), Some(shared)) if shared.value => {}
        (Some(id), _) => report.add(Rule::SharedWorkspace { id: id.value.clone() }, id.span),
        (None, Some(shared)) if shared.value => {
            let expected = "`false`, unless `id` names what the sessions share";
            literal::bad_value::<()>("share_across_sessions", "true", expected, shared.span, report);
        }
        (None, _) => {}
    }
    workspace.id = id.map(|id| id.value);
    workspace.share_across_sessions = shared.is_some_and(|shared| shared.value);
}

fn workspace_name(meta: &Meta, report: &mut Report) -> Option<Spanned<String>> {
    let text = literal::text("name", meta, report)?;
    if is_name(&text.value) {
        return Some(text);
    }
    literal::bad_value("name", &text.value, NAME_FORM, text.span, report)
}

/// Parses an absolute path without `.`, `..` and empty components. It is not the root, to which nothing is confined.
fn directory(key: &str, meta: &Meta, report: &mut Report) -> Option<String> {
    let text = literal::text(key, meta, report)?;
    let plain = |rest: &str| rest.split('/').all(|part| !matches!(part, "" | "." | ".."));
    let is_control = text.value.contains(char::is_control);
    if !is_control && text.value.len() <= 1024 && text.value.strip_prefix('/').is_some_and(plain) {
        return Some(text.value);
    }
    let expected = "an absolute path below `/`, without `.`, `..` and a `/` at the end: `\"/workspace\"`";
    literal::bad_value(key, &text.value, expected, text.span, report)
}

fn session(key: &str, meta: &Meta, report: &mut Report) -> Option<Spanned<String>> {
    let text = literal::text(key, meta, report)?;
    if (1..=MAX_ID).contains(&text.value.len()) && !text.value.contains(char::is_control) {
        return Some(text);
    }
    let expected = format!("1 to {MAX_ID} bytes without control characters");
    literal::bad_value(key, &text.value, &expected, text.span, report)
}

/// Parses `shell` or `shell(allow = [..], max_duration = "..")`.
fn shell(meta: &Meta, report: &mut Report) -> Option<Shell> {
    let mut shell = Shell::default();
    if let Meta::Path(_) = meta {
        return Some(shell);
    }
    for (name, span, entry) in nested::entries("shell", meta, report)? {
        match name.as_str() {
            "allow" => shell.allow = programs(&name, &entry, report),
            "max_duration" => shell.max_duration = duration(&name, &entry, report),
            _ => nested::unknown(&name, "shell", &["allow", "max_duration"], span, report),
        }
    }
    Some(shell)
}

/// Parses `code` or `code(languages = [..], stateful = true)`.
fn code(meta: &Meta, report: &mut Report) -> Option<Code> {
    let mut code = Code::default();
    if let Meta::Path(_) = meta {
        return Some(code);
    }
    for (name, span, entry) in nested::entries("code", meta, report)? {
        match name.as_str() {
            "languages" => code.languages = languages(&name, &entry, report),
            "stateful" => {
                code.stateful = literal::boolean(&name, &entry, report).is_some_and(|value| value.value);
            }
            _ => nested::unknown(&name, "code", &["languages", "stateful"], span, report),
        }
    }
    Some(code)
}

/// Parses `snapshot` or `snapshot(bucket = "..", ..)`.
fn snapshot(meta: &Meta, report: &mut Report) -> Option<Snapshot> {
    let mut snapshot = Snapshot::default();
    if let Meta::Path(_) = meta {
        return Some(snapshot);
    }
    for (name, span, entry) in nested::entries("snapshot", meta, report)? {
        match name.as_str() {
            "bucket" => snapshot.bucket = bucket(&name, &entry, report),
            "allow_cross_session" => {
                snapshot.allow_cross_session =
                    literal::boolean(&name, &entry, report).is_some_and(|value| value.value);
            }
            "max_count" => {
                let count = literal::integer(&name, &entry, 1, report);
                snapshot.max_count = count.and_then(|count: Spanned<u32>| match count.value {
                    1..=MAX_SNAPSHOTS => Some(count.value),
                    more => {
                        let expected = format!("{MAX_SNAPSHOTS} at most");
                        literal::bad_value(&name, &more.to_string(), &expected, count.span, report)
                    }
                });
            }
            "max_mb" => {
                snapshot.max_mb = literal::integer(&name, &entry, 1, report).map(|most| most.value);
            }
            "expires_after" => {
                let text = literal::duration(&name, &entry, report);
                snapshot.expires_after =
                    text.and_then(|text| literal::seconds(&text.value)).map(Duration::from_secs);
            }
            _ => nested::unknown(&name, "snapshot", SNAPSHOT_KEYS, span, report),
        }
    }
    Some(snapshot)
}

/// Parses the name of a binding.
fn bucket(key: &str, meta: &Meta, report: &mut Report) -> Option<String> {
    let text = literal::text(key, meta, report)?;
    let mut bytes = text.value.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if first && text.value.len() <= 64 && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Some(text.value);
    }
    let expected = "the name of a binding: letters, digits and `_`, such as `\"BACKUPS\"`";
    literal::bad_value(key, &text.value, expected, text.span, report)
}

fn languages(key: &str, meta: &Meta, report: &mut Report) -> Option<Vec<String>> {
    let expected = "`python`, `javascript` or both: `[\"python\"]`";
    let list = literal::texts(key, meta, report)?;
    if list.value.is_empty() {
        return literal::bad_value(key, "[]", expected, list.span, report);
    }
    if let Some(unknown) = list.value.iter().find(|language| !LANGUAGES.contains(&language.value.as_str())) {
        return literal::bad_value(key, &unknown.value, expected, unknown.span, report);
    }
    Some(list.value.into_iter().map(|language| language.value).collect())
}

/// Parses the names of programs. An entry is compared with the text of a command word, so it cannot contain anything
/// that a shell would interpret.
fn programs(key: &str, meta: &Meta, report: &mut Report) -> Option<Vec<String>> {
    let list = literal::texts(key, meta, report)?;
    if list.value.is_empty() {
        let expected = "at least one program: remove `shell` if no command may run";
        return literal::bad_value(key, "[]", expected, list.span, report);
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-/".contains(&byte);
    for program in &list.value {
        let text = &program.value;
        if text.is_empty() || !text.bytes().all(plain) || text.starts_with('-') {
            let expected = "names of programs, or absolute paths: `[\"git\", \"/usr/bin/npm\"]`";
            return literal::bad_value(key, text, expected, program.span, report);
        }
        if text.contains('/') && !text.starts_with('/') {
            let expected =
                "an absolute path, or a name without `/`, because a relative path depends on the directory";
            return literal::bad_value(key, text, expected, program.span, report);
        }
    }
    Some(list.value.into_iter().map(|program| program.value).collect())
}

fn duration(key: &str, meta: &Meta, report: &mut Report) -> Option<Duration> {
    let text = literal::duration(key, meta, report)?;
    match literal::seconds(&text.value) {
        Some(seconds @ 1..=MAX_DURATION) => Some(Duration::from_secs(seconds)),
        _ => literal::bad_value(key, &text.value, "ten minutes at most: `\"10m\"`", text.span, report),
    }
}
