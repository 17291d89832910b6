//! `koze explain`.

use std::fmt::Write as _;
use std::process::ExitCode;

use super::show;
use crate::args;
use crate::rules::Rule;

pub(super) fn run(args: &args::Explain) -> ExitCode {
    let rules = Rule::all();
    let Some(rule) = rules.iter().find(|rule| rule.code.eq_ignore_ascii_case(&args.code)) else {
        let codes: Vec<&str> = rules.iter().map(|rule| rule.code).collect();
        return show::usage(&format!("unknown code `{}`; the codes are {}", args.code, codes.join(", ")));
    };
    let mut text = format!(
        "{} ({}): {}\n\nWhy: {}\n\nFor example:\n\n",
        rule.code,
        rule.level.word(),
        rule.meaning,
        rule.why
    );
    for line in rule.example.lines() {
        let _ = writeln!(text, "    {line}");
    }
    text.push_str("\nThe diagnostic itself names the place and the remedy.\n");
    show::out(&text);
    ExitCode::SUCCESS
}
