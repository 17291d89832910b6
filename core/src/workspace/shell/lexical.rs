//! Refuses texts that shells and parsers could split into different tokens, before a command is parsed.

use super::ambiguous_command;
use crate::error::Result;

/// How many opening parentheses, and how many braces and backquotes, a text may have. The time that parsing takes doubles
/// with every level of parentheses.
const PARENTHESES: usize = 8;
const BRACES: usize = 32;

/// Checks a command line. What it refuses is legal bash, but rare in commands; what it admits has one reading.
pub(super) fn check_source(source: &str) -> Result<()> {
    let odd = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || (c.is_whitespace() && !c.is_ascii());
    if source.contains(odd) {
        return Err(ambiguous_command("it has a control character or a space that is not ASCII"));
    }
    if source.contains("\\\n") {
        return Err(ambiguous_command("it has a line that ends in `\\`"));
    }
    if source.contains('`') && source.contains('\\') {
        // In backquotes, a backslash before `$`, a backquote or another one is removed first.
        return Err(ambiguous_command("it has a backslash and backquotes: write `$(..)`"));
    }
    if source.contains("$((") || source.contains("$[") {
        return Err(ambiguous_command("it uses an arithmetic expansion, which can assign variables"));
    }
    if source.matches('(').count() > PARENTHESES || source.matches(['{', '`']).count() > BRACES {
        return Err(ambiguous_command("it has too many parentheses, braces or backquotes"));
    }
    check_quotes(source)
}

/// Follows the quotes of one level. The text of a substitution is checked again on its own.
fn check_quotes(source: &str) -> Result<()> {
    let mut rest = source.chars().peekable();
    let mut quote = None;
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (None | Some('"'), '\\') => drop(rest.next()),
            (None, '\'' | '"') => quote = Some(c),
            (None, '$') if rest.next_if(|next| matches!(next, '\'' | '"')).is_some() => {
                return Err(ambiguous_command("it uses `$'` or `$\"`"));
            }
            (None, '#') => {
                return Err(ambiguous_command(
                    "it has a `#` outside of quotes: leave out comments, or quote the `#`",
                ));
            }
            (None, '<' | '>') if rest.next_if_eq(&'(').is_some() => {
                return Err(ambiguous_command("it uses a process substitution"));
            }
            (None, '}') if rest.peek().is_some_and(|next| matches!(next, '<' | '>')) => {
                return Err(ambiguous_command("it assigns a variable by a redirection"));
            }
            _ => {}
        }
    }
    Ok(())
}
