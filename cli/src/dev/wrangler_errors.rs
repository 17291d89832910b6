//! Explains errors of wrangler and Cloudflare whose own text does not say what to do in a koze project.

use koze_model::Kind;

use crate::plan::Planned;

/// The beginning of wrangler's error about an application name that is taken.
const TAKEN: &str = "There is already an application with the name ";

/// Cloudflare's errors about a migration that deletes or renames a class that the account never had.
const NEVER_THERE: [&str; 2] = ["code: 10074", "was not exported in the previous version"];

/// Returns the explanation of an error in wrangler's output, if it needs one.
pub fn explanation(stderr: &str, sandboxes: &[Planned], config: &str, worker: &str) -> Option<String> {
    let output = to_plain_text(stderr);
    if let Some((_, rest)) = output.split_once(TAKEN) {
        let name = rest.split(' ').next().unwrap_or_default().trim_matches(['"', '`', '\'', '.']);
        return Some(explain_taken_name(name, sandboxes, config, worker));
    }
    NEVER_THERE.iter().any(|words| output.contains(words)).then(|| {
        "error: the migrations delete or rename a class that was never deployed\n  \
         = help: where a sandbox was removed before its first deployment, run `koze remove NAME --never-deployed`, which takes \
         its class out of the migrations, and deploy again\n"
            .to_owned()
    })
}

fn explain_taken_name(name: &str, sandboxes: &[Planned], config: &str, worker: &str) -> String {
    // wrangler appends the environment's name.
    let is_of = |sandbox: &&Planned| {
        name.strip_prefix(&sandbox.container).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let sandbox = sandboxes.iter().filter(is_of).max_by_key(|sandbox| sandbox.container.len());
    let base = sandbox.map_or("sandbox", |sandbox| {
        let file = sandbox.file.rsplit('/').next().unwrap_or_default();
        file.strip_suffix(sandbox.kind.suffix()).unwrap_or(file)
    });
    let own = format!("{worker}-{base}").to_lowercase().replace('_', "-");
    let other =
        if sandbox.is_some_and(|sandbox| sandbox.container == own) { format!("{own}-2") } else { own };
    let kind = sandbox.map_or(Kind::Sandbox, |sandbox| sandbox.kind);
    let place = sandbox.map_or("the sandbox", |sandbox| sandbox.file.as_str());
    format!(
        "error: the container application `{name}` belongs to another Worker of this account, or to a class that is gone: an \
         application's name is unique in an account\n  \
         = help: give this one another name, `#[{kind}(name = \"{other}\")]` in {place}, or change `name` in {config} where you \
         wrote it yourself; then run `koze build` and deploy again. If nothing uses the other application any more, delete it: `wrangler containers list`, `wrangler containers delete ID`\n"
    )
}

/// Strips colors and joins wrapped lines.
fn to_plain_text(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, code)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = code.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
        rest = rest.get(1..).unwrap_or_default();
    }
    plain.push_str(rest);
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_and_line_breaks_are_ignored() {
        assert_eq!(to_plain_text("\u{1b}[31ma\n  b\u{1b}[0m c\u{1b}["), "a b c");
        let output = "\u{1b}[31m✘ \u{1b}[41;31m[\u{1b}[41;97mERROR\u{1b}[0m There is already an application with\n  the name \u{1b}[1mapp-shell\u{1b}[0m deployed that";
        let explained = explanation(output, &[], "wrangler.jsonc", "app").unwrap();
        assert!(explained.starts_with("error: the container application `app-shell` belongs"), "{explained}");
        assert_eq!(super::explanation("There is no application", &[], "", ""), None);
    }
}
