//! Reads the commands that the allowlist of a workspace accepts, and finds the programs that they run.
//!
//! This is a small part of the language of bash. The reader knows every construct that it accepts, and refuses all others. Its
//! stack is bounded: groups are kept in a list, and only a substitution begins a reader within a reader, at most [`DEEPEST`]
//! times. A parser of the whole language calls itself for every reserved word, so a text of 1.5 kB could overflow the stack.

use super::{ambiguous_command, lexical};
use crate::error::Result;

/// How deep substitutions may be nested.
const DEEPEST: usize = 8;

/// Words that bash reads as syntax in the place of a program. They are refused even if a list has them.
const RESERVED: &[&str] = &[
    "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if",
    "in", "select", "then", "time", "until", "while", "{", "}",
];

/// Reads a command line, and passes the name of each program to `program`.
///
/// # Errors
/// [`Code::InvalidInput`](crate::Code::InvalidInput) if it is not certain which programs the command line runs, and the errors
/// of `program`.
pub(super) fn visit_programs(source: &str, program: &dyn Fn(&str) -> Result<()>) -> Result<()> {
    Reader { source, at: 0, depth: 0, program }.read_all()
}

struct Reader<'a> {
    source: &'a str,
    /// The offset of the next byte.
    at: usize,
    /// How many substitutions surround it.
    depth: usize,
    program: &'a dyn Fn(&str) -> Result<()>,
}

/// What can follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A pipeline, or the end of the list.
    Start,
    /// A pipeline: after `&&`, `||` or the beginning of a group.
    Needed,
    /// A command: after `|`, or after `!`, which only blanks may separate from it.
    Piped,
    Negated,
    /// A program: there were redirections without one.
    Redirected,
    /// Arguments of a program.
    Words,
    /// The end of a command. Shells that do not know `&>` begin another one behind it.
    Ended,
    /// The end of a command, which was a group.
    Closed,
}

impl Place {
    /// Returns whether a command can begin here.
    fn can_begin(self) -> bool {
        matches!(self, Place::Start | Place::Needed | Place::Piped | Place::Negated)
    }

    /// Returns whether a command can end here.
    fn can_end(self) -> bool {
        matches!(self, Place::Words | Place::Ended | Place::Closed)
    }
}

impl<'a> Reader<'a> {
    /// Reads a text that is a list of commands.
    fn read_all(&mut self) -> Result<()> {
        lexical::check_source(self.source)?;
        self.read_list()?;
        if self.peek().is_some() { Err(syntax_error()) } else { Ok(()) }
    }

    /// Reads commands up to the end of the text, or up to a `)` that closes no group of theirs.
    fn read_list(&mut self) -> Result<()> {
        let mut place = Place::Start;
        // The closing characters of the open groups.
        let mut groups = Vec::new();
        loop {
            self.skip_blanks();
            let Some(byte) = self.peek() else { break };
            if byte == b')' && groups.is_empty() {
                break;
            }
            place = match byte {
                b'\n' | b';' | b'&' | b'|' if !self.rest().starts_with(b"&>") => {
                    self.read_separator(place)?
                }
                b'(' if place.can_begin() && !self.rest().starts_with(b"((") => {
                    self.at += 1;
                    groups.push(b')');
                    Place::Needed
                }
                b')' if (place.can_end() || place == Place::Start) && groups.pop() == Some(b')') => {
                    self.at += 1;
                    Place::Closed
                }
                b'(' | b')' => return Err(syntax_error()),
                _ if self.is_redirection(place) => self.read_redirection(place)?,
                _ => self.word_at(place, &mut groups)?,
            };
        }
        let is_complete = place.can_end() || place == Place::Start;
        if is_complete && groups.is_empty() { Ok(()) } else { Err(syntax_error()) }
    }

    /// Reads what separates commands.
    fn read_separator(&mut self, place: Place) -> Result<Place> {
        let (length, next) = match self.rest() {
            [b'\n', ..] if matches!(place, Place::Negated | Place::Redirected) => return Err(syntax_error()),
            [b'\n', ..] if !place.can_end() => (1, place),
            [b'\n', ..] => (1, Place::Start),
            _ if place == Place::Redirected => {
                return Err(ambiguous_command("it has a redirection without a program"));
            }
            _ if !place.can_end() => return Err(syntax_error()),
            [b';', b';' | b'&', ..] => return Err(syntax_error()),
            [b'&', b'&', ..] | [b'|', b'|', ..] => (2, Place::Needed),
            [b'|', b'&', ..] => (2, Place::Piped),
            [b'|', ..] => (1, Place::Piped),
            _ => (1, Place::Start),
        };
        self.at += length;
        Ok(next)
    }

    /// Reads a word: a program, an argument, or one of the reserved words that are accepted.
    fn word_at(&mut self, place: Place, groups: &mut Vec<u8>) -> Result<Place> {
        let word = self.read_word()?;
        Ok(match (word, place) {
            ("}", Place::Start | Place::Closed) if groups.last() == Some(&b'}') => {
                groups.pop();
                Place::Closed
            }
            (_, Place::Closed) => return Err(syntax_error()),
            (_, Place::Ended) => {
                return Err(ambiguous_command(
                    "a word follows `&> FILE`, which not every shell knows: write it last",
                ));
            }
            (_, Place::Words) => Place::Words,
            ("{", place) if place.can_begin() => {
                groups.push(b'}');
                Place::Needed
            }
            // With a pattern behind it, it could be one.
            ("!", Place::Start | Place::Needed) if matches!(self.peek(), Some(b' ' | b'\t')) => {
                Place::Negated
            }
            _ => {
                self.check_program(word)?;
                Place::Words
            }
        })
    }

    fn check_program(&self, word: &str) -> Result<()> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-/".contains(&byte);
        if RESERVED.contains(&word) {
            return Err(ambiguous_command(&format!("it uses `{word}`, which is syntax of the shell")));
        }
        if !word.bytes().all(plain) {
            return Err(ambiguous_command(&format!(
                "`{}` is not the plain name of a program, such as `git` (variables cannot be assigned)",
                word.chars().take(100).collect::<String>()
            )));
        }
        (self.program)(word)
    }

    /// Returns whether a redirection begins here, perhaps with the number of a descriptor.
    fn is_redirection(&self, place: Place) -> bool {
        let rest = self.rest();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        // In the place of a program, some shells read several digits as one.
        let is_number = digits <= 1 || !(place.can_begin() || place == Place::Redirected);
        is_number && matches!(rest[digits..], [b'<' | b'>', ..]) || rest.starts_with(b"&>")
    }

    fn read_redirection(&mut self, place: Place) -> Result<Place> {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        let (length, next) = match (self.rest(), place) {
            ([b'<' | b'>', b'(', ..], _) => return Err(ambiguous_command("it uses a process substitution")),
            ([b'&', b'>', ..], place) if !place.can_end() => return Err(syntax_error()),
            ([b'&', b'>', b'>', ..], _) => (3, Place::Ended),
            ([b'&', b'>', ..], _) => (2, Place::Ended),
            ([b'<', b'<', b'<', ..], place) => (3, place),
            ([b'<', b'<', ..], _) => {
                return Err(ambiguous_command("it has a here-document: write a file instead"));
            }
            ([b'<', b'&' | b'>', ..] | [b'>', b'>' | b'&' | b'|', ..], place) => (2, place),
            (_, place) => (1, place),
        };
        self.at += length;
        self.skip_blanks();
        if self.read_word()?.is_empty() {
            return Err(syntax_error());
        }
        Ok(if next.can_begin() { Place::Redirected } else { next })
    }

    /// Reads a word with its quotes. It is empty if none begins here.
    fn read_word(&mut self) -> Result<&'a str> {
        let start = self.at;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')' => break,
                b'\'' => self.at = self.offset_after(b'\'')?,
                b'"' => self.read_quoted()?,
                b'\\' => self.read_escape()?,
                b'$' => self.read_expansion(false)?,
                b'`' => self.read_backquoted()?,
                b'#' => {
                    return Err(ambiguous_command(
                        "it has a `#` outside of quotes: leave out comments, or quote the `#`",
                    ));
                }
                _ => self.at += 1,
            }
        }
        self.source.get(start..self.at).ok_or_else(syntax_error)
    }

    /// Reads a text in double quotes.
    fn read_quoted(&mut self) -> Result<()> {
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err(syntax_error()),
                Some(b'"') => break,
                Some(b'\\') => self.read_escape()?,
                Some(b'$') => self.read_expansion(true)?,
                Some(b'`') => self.read_backquoted()?,
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(())
    }

    fn read_escape(&mut self) -> Result<()> {
        self.at += 2;
        if self.at > self.source.len() { Err(syntax_error()) } else { Ok(()) }
    }

    /// Reads what a `$` begins.
    fn read_expansion(&mut self, is_quoted: bool) -> Result<()> {
        self.at += 1;
        match self.peek() {
            Some(b'\'' | b'"') if !is_quoted => Err(ambiguous_command("it uses `$'` or `$\"`")),
            Some(b'(') => self.read_substitution(),
            Some(b'{') => {
                let start = self.at + 1;
                self.at = self.offset_after(b'}')?;
                if is_parameter(&self.source.as_bytes()[start..self.at - 1]) {
                    return Ok(());
                }
                Err(ambiguous_command(
                    "it uses an expansion other than `$NAME` and `${NAME}`, which can assign variables",
                ))
            }
            // A name is read like other characters.
            _ => Ok(()),
        }
    }

    fn read_substitution(&mut self) -> Result<()> {
        self.at += 1;
        let start = self.at;
        self.enter_substitution()?;
        self.read_list()?;
        self.depth -= 1;
        if self.peek() != Some(b')') {
            return Err(syntax_error());
        }
        lexical::check_source(&self.source[start..self.at])?;
        self.at += 1;
        Ok(())
    }

    /// Reads a substitution in backquotes. It contains no backslashes: see [`lexical`].
    fn read_backquoted(&mut self) -> Result<()> {
        let start = self.at + 1;
        self.at = self.offset_after(b'`')?;
        self.enter_substitution()?;
        let source = &self.source[start..self.at - 1];
        Reader { source, at: 0, depth: self.depth, program: self.program }.read_all()?;
        self.depth -= 1;
        Ok(())
    }

    fn enter_substitution(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEEPEST {
            let why = format!("its substitutions are nested deeper than {DEEPEST} levels");
            return Err(ambiguous_command(&why));
        }
        Ok(())
    }

    /// Returns the offset behind the next such byte after this one.
    fn offset_after(&self, byte: u8) -> Result<usize> {
        let from = self.at + 1;
        let found = self.source.as_bytes()[from..].iter().position(|other| *other == byte);
        found.map(|found| from + found + 1).ok_or_else(syntax_error)
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.source.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        &self.source.as_bytes()[self.at..]
    }
}

/// Returns whether a text in `${}` is only the name of a parameter.
fn is_parameter(text: &[u8]) -> bool {
    match text {
        [b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!'] => true,
        [first, ..] if first.is_ascii_digit() => text.iter().all(u8::is_ascii_digit),
        [_, ..] => text.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_'),
        [] => false,
    }
}

fn syntax_error() -> crate::error::Error {
    ambiguous_command("it cannot be parsed")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Less than any stack that a host has: a Worker's is 1 MiB, a thread's of the supervisor 2 MiB.
    const STACK: usize = 128 << 10;

    /// Reads texts on a small stack. Returns how many were accepted.
    fn accepted(texts: Vec<String>) -> usize {
        let read = move || texts.iter().filter(|text| visit_programs(text, &|_| Ok(())).is_ok()).count();
        std::thread::Builder::new().stack_size(STACK).spawn(read).unwrap().join().unwrap()
    }

    #[test]
    fn no_repetition_overflows_the_stack() {
        let words = [
            "if ",
            "while ",
            "until ",
            "coproc ",
            "time ",
            "! ",
            "[[ ! ",
            "[[ ( ",
            "{ ",
            "( ",
            "(",
            "((",
            "$(",
            "$((",
            "${",
            "${a:-",
            "\"$(",
            "\"${",
            "`",
            "<(",
            "case a in a) ",
            "for a in b; do ",
            "function a { ",
            "a() { ",
            "a | ! ",
            "a && ",
            "a=(",
            "@(",
            "<<a\n",
            "> a ",
            "a\n",
            "\"",
            "'",
            "$'",
            "\\",
            "$",
        ];
        let texts: Vec<String> = words.iter().map(|word| word.repeat((64 << 10) / word.len())).collect();
        // Those are `a\n`, and the quoted texts and escapes, which have no program.
        assert_eq!(accepted(texts), 1);
        let deepest = format!("a {}{}", "$(a ".repeat(DEEPEST), ")".repeat(DEEPEST));
        assert_eq!(accepted(vec![deepest, format!("a{}", " a".repeat(30_000))]), 2);
    }

    #[test]
    fn no_mixture_overflows_the_stack() {
        let words = [
            "git ", "if ", "then ", "while ", "do ", "case ", "in ", "esac ", "coproc ", "[[ ", "! ", "{ ",
            "} ", "(", ")", "$(", "${", "`", "\"", "'", "&&", "||", "|", ";", "&", "\n", "<", ">", "2>",
            "<<<", "\\", "$", "$x", "=", "ä",
        ];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 33).unwrap() % below
        };
        let mut mixture = |length: usize| (0..length).map(|_| words[random(words.len())]).collect::<String>();
        let short = (0..20_000).map(|_| format!("git {}", mixture(6))).collect();
        assert!(accepted(short) > 500);
        accepted((0..50).map(|_| mixture(8000)).collect());
    }
}
