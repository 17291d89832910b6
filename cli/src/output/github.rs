//! Workflow commands, which GitHub Actions turns into annotations of the files.
//!
//! The runner interprets each line of a step's output that starts with `::` as a command, with or without leading
//! spaces. So text from a project must never start a line: use [`quoted`] for text, and `escape_message` for everything
//! else.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::{Component, Path};

use koze_model::Level;

use crate::finding::{Finding, Findings, Place};
use crate::paths;
use crate::write::{Action, Change};

/// The title of the annotation for an outdated project.
const DRIFT: &str = "koze build --check";

/// Quotes text for people, so that the runner sees no commands in it. `token` ends the quotation, so it must be
/// unguessable.
pub fn quoted(text: &str, token: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    format!("::stop-commands::{token}\n{text}{newline}::{token}::\n")
}

/// Renders an annotation for each finding. The findings' files are relative to `project`; the runner resolves relative
/// paths to `workspace`.
pub fn annotations(findings: &Findings, project: &Path, workspace: &Path) -> String {
    findings
        .iter()
        .map(|finding| render_finding(finding, findings.level(finding), project, workspace))
        .collect()
}

/// Renders an annotation at the first file that a build would change, which lists all of them.
pub fn drift(changes: &[Change], project: &Path, workspace: &Path) -> String {
    let moved: Vec<_> = changes.iter().filter(|change| change.action() != Action::Unchanged).collect();
    let Some(first) = moved.first() else { return String::new() };
    let mut message = "the project is not in step: run `koze build` and commit the changes".to_owned();
    for change in &moved {
        let _ = write!(message, "\nwould {} {}", change.action().word(), change.shown);
    }
    let file = runner_path(&first.shown, project, workspace);
    render_command(Level::Error, &[("file", file), ("title", DRIFT.to_owned())], &message)
}

fn render_finding(finding: &Finding, level: Level, project: &Path, workspace: &Path) -> String {
    let mut properties = Vec::new();
    if let Some(place) = &finding.place {
        properties.push(("file", runner_path(&place.file, project, workspace)));
        properties
            .extend(range_properties(place).into_iter().map(|(name, number)| (name, number.to_string())));
    }
    properties.push(("title", finding.rule.code().to_owned()));
    let message = format!("{}\nhelp: {}", finding.rule.message(), finding.rule.help());
    render_command(level, &properties, &message)
}

/// Returns lines and columns. The runner ignores the columns of an annotation that spans lines.
fn range_properties(place: &Place) -> Vec<(&'static str, usize)> {
    let (Some((line, column)), Some((end_line, end_column))) = (place.line_column(), place.end()) else {
        return Vec::new();
    };
    if line == end_line {
        vec![("line", line), ("col", column), ("endColumn", end_column)]
    } else {
        vec![("line", line), ("endLine", end_line)]
    }
}

/// Returns the path that the runner expects: relative to the workspace with `/`, or absolute if it is outside.
fn runner_path(shown: &str, project: &Path, workspace: &Path) -> String {
    let path = project.join(shown);
    let Ok(inside) = path.strip_prefix(workspace) else { return paths::slashed(&path) };
    let mut parts: Vec<Cow<str>> = Vec::new();
    for part in inside.components() {
        match part {
            Component::ParentDir if parts.last().is_some_and(|last| last != "..") => drop(parts.pop()),
            part => parts.push(part.as_os_str().to_string_lossy()),
        }
    }
    parts.join("/")
}

fn render_command(level: Level, properties: &[(&str, String)], message: &str) -> String {
    let properties: Vec<_> =
        properties.iter().map(|(name, value)| format!("{name}={}", escaped_property(value))).collect();
    format!("::{} {}::{}\n", level.word(), properties.join(","), escape_message(message))
}

/// Escapes a message, which ends at the end of the line.
fn escape_message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property, which ends at `,`; `::` ends all of them.
fn escaped_property(text: &str) -> String {
    escape_message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rule;

    /// Returns a finding at a range of a file.
    fn found(file: &str, text: &str, range: Option<std::ops::Range<usize>>, message: &str) -> Findings {
        let mut findings = Findings::new(false);
        let place = Place { file: file.to_owned(), text: text.into(), range };
        findings.add(Rule::Io { message: message.to_owned(), kind: std::io::ErrorKind::Other }, Some(place));
        findings
    }

    fn printed(findings: &Findings) -> String {
        let text = annotations(findings, Path::new("/repo/app"), Path::new("/repo"));
        // Cut off the help, which depends on the rule.
        text.split("%0Ahelp").next().expect("a message").to_owned()
    }

    #[test]
    fn a_location_has_lines_and_columns() {
        let text = "\u{feff}é(imgae)\n\nlast";
        let at = |word: &str| {
            let start = text.find(word).expect("it is there");
            start..start + word.len()
        };
        let one_line = found("a.rs", text, Some(at("imgae")), "x");
        assert!(
            printed(&one_line).starts_with("::error file=app/a.rs,line=1,col=3,endColumn=8,title=K0"),
            "{}",
            printed(&one_line)
        );
        let lines = found("a.rs", text, Some(at("imgae").start..text.len()), "x");
        assert!(
            printed(&lines).starts_with("::error file=app/a.rs,line=1,endLine=3,title=K0"),
            "{}",
            printed(&lines)
        );
        let whole = found("a.rs", "", None, "x");
        assert!(printed(&whole).starts_with("::error file=app/a.rs,title=K0"), "{}", printed(&whole));
    }

    #[test]
    fn text_cannot_leave_its_command() {
        let odd = "a,b:c::d%0A\r\n::set-output name=x::e.rs";
        let text = printed(&found(odd, "", None, "50%: one, two\r\n::error::three"));
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            text.starts_with(
                "::error file=app/a%2Cb%3Ac%3A%3Ad%250A%0D%0A%3A%3Aset-output name=x%3A%3Ae.rs,title=K"
            ),
            "{text}"
        );
        assert!(text.ends_with("50%25: one, two%0D%0A::error::three"), "{text}");
    }

    #[test]
    fn files_are_relative_to_the_workspace() {
        let to = |shown: &str, project: &str| runner_path(shown, Path::new(project), Path::new("/repo"));
        assert_eq!(to("src/a.rs", "/repo"), "src/a.rs");
        assert_eq!(to("../package-lock.json", "/repo/packages/app"), "packages/package-lock.json");
        assert_eq!(to("/repo/other/a.rs", "/repo/app"), "other/a.rs");
        assert_eq!(to("a.rs", "/elsewhere"), "/elsewhere/a.rs");
        // The path is outside, although it starts inside.
        assert_eq!(to("../../a.rs", "/repo/app"), "../a.rs");
    }

    #[test]
    fn quoted_text_is_enclosed_in_two_commands() {
        assert_eq!(quoted("+ ::error::x", "t0ken"), "::stop-commands::t0ken\n+ ::error::x\n::t0ken::\n");
        assert_eq!(quoted("", "t0ken"), "");
    }
}
