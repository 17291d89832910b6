//! The tips in usage errors.

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue};
use koze_model::rules::nearest;

use super::Cli;

/// The commands that no tip names, because they delete something or end programs.
const DELETING: [&str; 4] = ["remove", "destroy", "kill", "stop"];

/// Keeps only the nearest command of those that a misspelled one may mean, and none that is hidden or deletes something:
/// people and agents often run what a tip says.
#[must_use]
pub fn only_safe_tips(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::Strings(similar)) = error.remove(ContextKind::SuggestedSubcommand) else {
        return error;
    };
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let similar: Vec<&str> = similar.iter().map(String::as_str).collect();
    if let Some(near) = nearest(word, &similar).filter(|name| !DELETING.contains(name) && !is_hidden(name)) {
        let tip = ContextValue::Strings(vec![near.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, tip);
    }
    error
}

fn is_hidden(name: &str) -> bool {
    Cli::command().find_subcommand(name).is_some_and(clap::Command::is_hide_set)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn usage_error(args: &[&str]) -> String {
        let parsed = Cli::try_parse_from([&["koze"], args].concat());
        only_safe_tips(parsed.expect_err("a usage error")).to_string()
    }

    #[test]
    fn a_tip_names_the_nearest_command() {
        let text = usage_error(&["buidl"]);
        assert!(text.contains("tip: a similar subcommand exists: 'build'"), "{text}");
        // Of these, clap names `rename` and `demo` as well.
        assert!(!usage_error(&["remov"]).contains("tip:"));
    }

    #[test]
    fn no_tip_names_what_is_hidden_or_deletes() {
        for word in ["supervis", "guad", "remov", "remote", "destory", "kil", "stopp", "zzzzzzzz"] {
            let text = usage_error(&[word]);
            assert!(!text.contains("tip:") && text.contains("unrecognized subcommand"), "{word}: {text}");
        }
    }

    #[test]
    fn other_errors_keep_their_tips() {
        let text = usage_error(&["build", "--forma", "json"]);
        assert!(text.contains("a similar argument exists: '--format'"), "{text}");
    }
}
