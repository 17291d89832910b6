//! The images of sandboxes with koze's guest: the Dockerfile generated for each, and the guest's place in the build
//! context.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::GlobBuilder;
use koze_model::{Backend, Family, Sandbox};
use koze_templates::NATIVE_DOCKERFILE;

use crate::discover::Project;
use crate::draft::Draft;
use crate::finding::{Findings, Place};
use crate::generate::{self, MARK};
use crate::paths;
use crate::rules::Rule;
use crate::write::{beneath, input};

/// The directory of the Dockerfiles, below that of all generated files.
pub const DIR: &str = "native";

/// The guest's file name, next to the Dockerfiles and in a user's build context.
const GUEST: &str = "koze-guest";
const HIDDEN_GUEST: &str = ".koze-guest";

/// The archive with the directories of a thread, in the same places.
const USER_DATA: &str = "koze-user-data.tar";
const HIDDEN_USER_DATA: &str = ".koze-user-data.tar";

/// Returns whether a file is the guest or what comes with it, which have no generated-file header.
pub fn is_guest(path: &Path) -> bool {
    has_name(path, &[GUEST, USER_DATA]) || is_in_context(path)
}

/// Returns whether a file has the name of the guest in a user's build context, or of what comes with it.
pub fn is_in_context(path: &Path) -> bool {
    has_name(path, &[HIDDEN_GUEST, HIDDEN_USER_DATA])
}

/// Returns whether builds of a project may write a file for its images.
pub fn is_written(path: &Path, project: &Project) -> bool {
    let path = paths::normal(path);
    if path.parent() == Some(&project.dir.join(generate::DIR).join(DIR)) {
        return is_guest(&path) || path.extension().is_some_and(|extension| extension == "Dockerfile");
    }
    path.starts_with(project.repository()) && is_in_context(&path)
}

fn has_name(path: &Path, names: &[&str]) -> bool {
    path.file_name().is_some_and(|name| names.iter().any(|known| name == *known))
}

/// How to build an image that contains the guest.
#[derive(Debug, Clone)]
pub struct Guest {
    /// The absolute path of the Dockerfile.
    pub dockerfile: PathBuf,
    /// The content of the Dockerfile.
    pub text: String,
    /// The absolute path of the build context, if it is not the Dockerfile's directory.
    pub context: Option<PathBuf>,
    /// The absolute path of the guest in the build context.
    pub guest: PathBuf,
    /// The absolute path of the archive with the directories of a thread in the build context, if the sandbox serves the
    /// tools `thread`.
    pub user_data: Option<PathBuf>,
}

/// The base of an image.
pub(super) enum From<'a> {
    /// A registry reference.
    Registry(&'a str),
    /// A user's Dockerfile and its build context, both absolute.
    Dockerfile(PathBuf, PathBuf),
}

/// Returns how to build the image of this name of a sandbox.
pub(super) fn of(
    sandbox: &Sandbox,
    name: &str,
    from: From,
    project: &Project,
    draft: &Draft,
    findings: &mut Findings,
) -> Guest {
    let package = &project.dir;
    let dir = package.join(generate::DIR).join(DIR);
    let base = &sandbox.names.base;
    // The base of another sandbox cannot contain a dot.
    let stem = if name == base { base.clone() } else { format!("{base}.{name}") };
    let dockerfile = dir.join(format!("{stem}.Dockerfile"));
    let is_thread = sandbox.attributes.serves(Family::Thread);
    match from {
        From::Registry(reference) => {
            // A newline in a directory name would end the comment.
            let file = sandbox.file.escape_debug();
            let text = format!(
                "# {MARK}\n#\n# The image of `{file}`.\nFROM {reference}\n\n{}",
                install_instructions(sandbox, GUEST, USER_DATA)
            );
            let user_data = is_thread.then(|| dir.join(USER_DATA));
            Guest { dockerfile, text, context: None, guest: dir.join(GUEST), user_data }
        }
        From::Dockerfile(path, context) => {
            let shown = paths::relative(&path, package);
            let copied = if is_thread { &[HIDDEN_GUEST, HIDDEN_USER_DATA][..] } else { &[HIDDEN_GUEST] };
            check_context(&context, &shown, copied, project, draft, findings);
            let text = match read_drafted(&path, project, draft) {
                Ok(text) => append_to_last_stage(
                    &text,
                    &shown,
                    &install_instructions(sandbox, HIDDEN_GUEST, HIDDEN_USER_DATA),
                    findings,
                ),
                Err(error) => {
                    findings.add_io(&error);
                    String::new()
                }
            };
            let guest = context.join(HIDDEN_GUEST);
            let user_data = is_thread.then(|| context.join(HIDDEN_USER_DATA));
            Guest { dockerfile, text, context: Some(context), guest, user_data }
        }
    }
}

/// Reads a file as the command's draft leaves it.
fn read_drafted(path: &Path, project: &Project, draft: &Draft) -> std::io::Result<String> {
    let bytes = match draft.file(path).flatten() {
        Some(bytes) => bytes.to_vec(),
        None => input::read_in(project.repository(), path)?,
    };
    let wrong = |_| std::io::Error::other(format!("`{}` is not UTF-8", path.display()));
    String::from_utf8(bytes).map_err(wrong)
}

/// Returns the Dockerfile lines that install the guest from the build context, and the directories of a thread.
fn install_instructions(sandbox: &Sandbox, guest: &str, user_data: &str) -> String {
    // A Durable Object passes the entrypoint at each start. One in the image would be put before it.
    let is_managed = sandbox.attributes.backend() == Backend::Managed;
    let words = if is_managed { Vec::new() } else { entrypoint(sandbox, PROGRAM) };
    let entrypoint = serde_json::to_string(&words).expect("a list of texts is plain data");
    let directories = if sandbox.attributes.serves(Family::Thread) {
        format!("# The directories of a thread, also for a user who cannot create them.\nADD {user_data} /\n")
    } else {
        String::new()
    };
    NATIVE_DOCKERFILE
        .replace("__KOZE_GUEST__", guest)
        .replace("__KOZE_DIRECTORIES__", &directories)
        .replace("__KOZE_ENTRYPOINT__", &entrypoint)
}

/// The path of the guest in an image.
pub const PROGRAM: &str = "/.koze/guest";

/// Returns the command that a container runs: the guest, and next to it the program of the attribute.
pub fn entrypoint(sandbox: &Sandbox, guest: &str) -> Vec<String> {
    let kept = sandbox.attributes.entrypoint.as_ref().map_or(&[][..], |words| &words.value);
    let separator = (!kept.is_empty()).then_some("--");
    std::iter::once(guest)
        .chain(separator)
        .chain(kept.iter().map(String::as_str))
        .map(str::to_owned)
        .collect()
}

/// Appends lines to the last stage of a user's Dockerfile. Parser directives stay at the top.
fn append_to_last_stage(text: &str, shown: &str, more: &str, findings: &mut Findings) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let count = lines.iter().take_while(|line| parse_directive(line).is_some()).count();
    let escape =
        lines[..count].iter().filter_map(|line| parse_directive(line)).find(|(name, _)| name == "escape");
    let escape = if escape.is_some_and(|(_, value)| value == "`") { '`' } else { '\\' };
    let place = |range| Some(Place { file: shown.to_owned(), text: Arc::from(text), range });

    let is_said = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let is_from = |line: &&str| {
        let word = line.trim_start().trim_start_matches('\u{feff}').split_whitespace().next();
        word.is_some_and(|word| word.eq_ignore_ascii_case("from"))
    };
    if !lines.iter().any(is_from) {
        let message = format!("`{shown}` has no `FROM`");
        findings.add(Rule::BadDockerfile { message }, place(None));
    } else if let Some(last) = lines.iter().rev().find(|line| is_said(line))
        && last.trim_end().ends_with(escape)
    {
        // The line is a slice of the text, so the addresses give its offset.
        let start = last.as_ptr() as usize - text.as_ptr() as usize;
        let message = format!("the last instruction of `{shown}` continues on a line that does not exist");
        findings.add(Rule::BadDockerfile { message }, place(Some(start..start + last.trim_end().len())));
    }
    let (front, rest) = (lines[..count].concat(), lines[count..].concat());
    let end = if rest.is_empty() || rest.ends_with('\n') { "" } else { "\n" };
    let file = shown.escape_debug();
    format!("{front}# {MARK}\n#\n# The rest is `{file}`, followed by what koze needs.\n{rest}{end}\n{more}")
}

/// Parses a parser directive at the top of a Dockerfile: `# syntax=…`.
fn parse_directive(line: &str) -> Option<(String, &str)> {
    let (name, value) = line.trim_start_matches('\u{feff}').trim().strip_prefix('#')?.split_once('=')?;
    let name = name.trim().to_ascii_lowercase();
    let known = ["syntax", "escape", "check"].contains(&name.as_str());
    known.then(|| (name, value.trim()))
}

/// Checks that the build context exists, or will with the command's draft, and does not exclude the files that koze copies into the image.
fn check_context(
    context: &Path,
    dockerfile: &str,
    copied: &[&str],
    project: &Project,
    draft: &Draft,
    findings: &mut Findings,
) {
    let package = &project.dir;
    if let Err(error) = beneath::resolve(project.repository(), context) {
        return findings.add_io(&error);
    }
    if !context.is_dir() && !draft.writes_in(context) {
        let message = format!(
            "`{}`, the build context of `{dockerfile}`, is not a directory",
            paths::relative(context, package)
        );
        findings.add(Rule::BadDockerfile { message }, Some(Place::file(dockerfile)));
        return;
    }
    let path = context.join(".dockerignore");
    let Ok(text) = input::read_text_in(project.repository(), &path) else { return };
    for name in copied {
        let Some(line) = find_ignoring_line(&text, name) else { continue };
        let start = line.as_ptr() as usize - text.as_ptr() as usize;
        let rule = Rule::GuestIgnored { pattern: line.to_owned(), guest: (*name).to_owned() };
        let range = Some(start..start + line.len());
        let file = paths::relative(&path, package);
        findings.add(rule, Some(Place { file, text: Arc::from(text.as_str()), range }));
    }
}

/// Returns the line of a `.dockerignore` that excludes a top-level file. The last matching line decides.
fn find_ignoring_line<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut decides = None;
    for line in text.trim_start_matches('\u{feff}').lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (keeps, pattern) = match line.strip_prefix('!') {
            Some(pattern) => (true, pattern.trim()),
            None => (false, line),
        };
        let pattern = pattern.trim_start_matches('/').trim_end_matches('/');
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
        // Docker itself rejects invalid patterns.
        if glob.is_ok_and(|glob| glob.compile_matcher().is_match(name)) {
            decides = (!keeps).then_some(line);
        }
    }
    decides
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends `MORE` to a Dockerfile, or returns the error.
    fn with_more(text: &str) -> Result<String, String> {
        let mut findings = Findings::default();
        let made = append_to_last_stage(text, "x.Dockerfile", "MORE\n", &mut findings);
        match findings.iter().next() {
            Some(found) => Err(found.rule.message()),
            None => Ok(made),
        }
    }

    #[test]
    fn parser_directives_stay_at_the_top() {
        let made = with_more("# syntax=docker/dockerfile:1\n#escape = `\n# a = b\nFROM x").unwrap();
        let expected = format!(
            "# syntax=docker/dockerfile:1\n#escape = `\n# {MARK}\n#\n# The rest is `x.Dockerfile`, followed by what koze needs.\n# a = b\nFROM x\n\nMORE\n"
        );
        assert_eq!(made, expected);
        assert!(with_more("FROM x\r\nRUN y\r\n").unwrap().ends_with("FROM x\r\nRUN y\r\n\nMORE\n"));
    }

    #[test]
    fn dockerfiles_that_cannot_be_extended_are_rejected() {
        assert_eq!(with_more("RUN x\n").unwrap_err(), "`x.Dockerfile` has no `FROM`");
        let open = "the last instruction of `x.Dockerfile` continues on a line that does not exist";
        assert_eq!(with_more("FROM x\nRUN a && \\  \n\n# end\n").unwrap_err(), open);
        assert_eq!(with_more("# escape=`\nFROM x\nRUN a `\n").unwrap_err(), open);
        assert!(with_more("# escape=`\nFROM x\nRUN dir C:\\\n").is_ok());
    }

    #[test]
    fn the_last_matching_line_decides() {
        let ignored = |text: &'static str| find_ignoring_line(text, ".koze-guest");
        assert_eq!(ignored("*\n"), Some("*"));
        assert_eq!(ignored("**\n"), Some("**"));
        assert_eq!(ignored("# *\n\n.*\n"), Some(".*"));
        assert_eq!(ignored("/.koze-*/\r\n"), Some("/.koze-*/"));
        assert_eq!(ignored("**/.koze-guest"), Some("**/.koze-guest"));
        assert_eq!(ignored(".[a-k]oze-guest"), Some(".[a-k]oze-guest"));
        for text in [
            "",
            "node_modules\n*.md\n",
            "*\n!.koze-guest\n",
            "*\n!/.koze-*",
            "*/.koze-guest",
            "# .koze-guest",
        ] {
            assert_eq!(ignored(text), None, "{text:?}");
        }
        assert_eq!(ignored("!.koze-guest\n*\n"), Some("*"));
    }
}
