//! The pages of the reference that follow from the code: the commands from their arguments, the diagnostics from the
//! table of rules.

use std::fmt::Write as _;
use std::path::Path;

use clap::CommandFactory as _;
use koze_cli::args::Cli;
use koze_cli::rules::Rule;

/// Compares a page with what it should be, or writes it with `KOZE_BLESS=1`.
fn page(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    if std::env::var_os("KOZE_BLESS").is_some() {
        fs_err::write(path, text).expect("the page");
        return;
    }
    let there = fs_err::read_to_string(path).unwrap_or_default();
    assert!(there == text, "docs/{name} is old: run `KOZE_BLESS=1 cargo test -p koze-cli --test reference`");
}

#[test]
fn every_command_has_its_help_on_a_page() {
    let mut cli = Cli::command().term_width(100);
    cli.build();
    let mut text = "# Commands\n\nWritten by `KOZE_BLESS=1 cargo test -p koze-cli --test reference` from the arguments \
                    themselves.\n\nExit codes: 0, the command succeeded or there was nothing to do; 1, the project has errors, or \
                    `--check` found differences; 2, the command line is invalid. Colors depend on `--color`, `NO_COLOR` \
                    and whether the output is a terminal; the width depends on `COLUMNS` or the terminal. No command \
                    asks questions.\n"
        .to_owned();
    let _ = write!(text, "\n```text\n{}\n```\n", cli.render_help().to_string().trim_end());
    for command in cli.get_subcommands_mut().filter(|command| command.get_name() != "help") {
        let name = command.get_name().to_owned();
        let help = command.render_help().to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        let _ = write!(text, "\n## koze {name}\n\n```text\n{}\n```\n", help.join("\n").trim_end());
    }
    page("commands.md", &text);
}

#[test]
fn every_diagnostic_is_on_a_page() {
    let mut text = "# Diagnostics\n\nWritten by `KOZE_BLESS=1 cargo test -p koze-cli --test reference` from the table of \
                    rules; `koze explain CODE` prints the same. `--strict` treats warnings as errors. A diagnostic \
                    itself names the place and what would be right.\n"
        .to_owned();
    for rule in Rule::all() {
        let _ = write!(
            text,
            "\n## {} ({})\n\n{}\n\n```text\n{}\n```\n",
            rule.code,
            rule.level.word(),
            rule.meaning,
            rule.example
        );
    }
    page("diagnostics.md", &text);
}
