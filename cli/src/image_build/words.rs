//! The words of a Dockerfile: quotes, escapes and variables, as Docker reads them.

use std::iter::Peekable;
use std::str::Chars;

/// The maximum size of all values of variables in one text, in bytes. `ENV A=$A$A` doubles it.
const MAX: usize = 1 << 20;
/// How deep defaults of variables may be nested.
const DEPTH: usize = 32;

/// Returns the value of a variable.
pub(super) type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Replaces variables, and removes quotes and escapes.
///
/// # Errors
/// Returns what koze does not understand.
pub(super) fn expand(word: &str, escape: char, lookup: &Lookup) -> Result<String, String> {
    let mut reader = Reader::new(word, escape, lookup);
    reader.read_until(None)
}

/// Replaces variables in a text without quotes, as in here-documents.
pub(super) fn expand_text(text: &str, escape: char, lookup: &Lookup) -> Result<String, String> {
    let mut reader = Reader::new(text, escape, lookup);
    let mut expanded = String::new();
    while let Some(char) = reader.chars.next() {
        match char {
            '$' => expanded.push_str(&reader.read_variable()?),
            char if char == escape && reader.chars.peek() == Some(&'$') => {
                expanded.extend(reader.chars.next());
            }
            char => expanded.push(char),
        }
    }
    Ok(expanded)
}

/// Splits words at spaces that are neither quoted nor escaped. The words keep their quotes.
pub(super) fn split(text: &str, escape: char) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char == escape && quote != Some('\'') {
            word.push(char);
            word.extend(chars.next());
            continue;
        }
        match (quote, char) {
            (None, '\'' | '"') => quote = Some(char),
            (Some(open), _) if open == char => quote = None,
            (None, _) if char.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                continue;
            }
            _ => {}
        }
        word.push(char);
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Joins the lines of a shell command: without comments, empty lines, and the escapes at the ends of lines.
pub(super) fn join_lines(text: &str, escape: char) -> String {
    let mut joined = String::new();
    let mut is_first = true;
    for line in text.lines() {
        let is_comment = line.trim_start().starts_with('#') || line.trim().is_empty();
        if !is_first && is_comment {
            continue;
        }
        is_first = false;
        match line.trim_end().strip_suffix(escape) {
            Some(line) => joined.push_str(line),
            None => joined.push_str(line),
        }
    }
    joined
}

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    escape: char,
    lookup: &'a Lookup<'a>,
    /// The size of all values so far.
    size: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, escape: char, lookup: &'a Lookup<'a>) -> Self {
        Reader { chars: text.chars().peekable(), escape, lookup, size: 0, depth: 0 }
    }

    /// Reads to a closing character, or to the end of the word.
    fn read_until(&mut self, close: Option<char>) -> Result<String, String> {
        let mut text = String::new();
        while let Some(char) = self.chars.next() {
            match char {
                char if Some(char) == close => return Ok(text),
                '\'' => loop {
                    match self.chars.next() {
                        Some('\'') => break,
                        Some(char) => text.push(char),
                        None => return Err("a `'` that is not closed".to_owned()),
                    }
                },
                '"' => self.read_quoted(&mut text)?,
                '$' => text.push_str(&self.read_variable()?),
                char if char == self.escape => text.extend(self.chars.next()),
                char => text.push(char),
            }
        }
        match close {
            Some(close) => Err(format!("a `{close}` is missing")),
            None => Ok(text),
        }
    }

    /// Reads to a closing double quote.
    fn read_quoted(&mut self, text: &mut String) -> Result<(), String> {
        loop {
            match self.chars.next() {
                Some('"') => return Ok(()),
                Some('$') => text.push_str(&self.read_variable()?),
                Some(char) if char == self.escape => match self.chars.next() {
                    Some(next) if next == '"' || next == '$' || next == self.escape => text.push(next),
                    Some(next) => text.extend([char, next]),
                    None => text.push(char),
                },
                Some(char) => text.push(char),
                None => return Err("a `\"` that is not closed".to_owned()),
            }
        }
    }

    /// Reads what follows a dollar sign.
    fn read_variable(&mut self) -> Result<String, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("variables are nested more than {DEPTH} times"));
        }
        let value = self.read_value()?;
        self.depth -= 1;
        self.size += value.len();
        if self.size > MAX {
            return Err(format!("the values of variables have more than {MAX} bytes"));
        }
        Ok(value)
    }

    fn read_value(&mut self) -> Result<String, String> {
        let is_braced = self.chars.next_if_eq(&'{').is_some();
        let mut name = String::new();
        while let Some(char) = self.chars.next_if(|char| char.is_ascii_alphanumeric() || *char == '_') {
            name.push(char);
        }
        let value = (self.lookup)(&name);
        if !is_braced {
            return Ok(if name.is_empty() { "$".to_owned() } else { value.unwrap_or_default() });
        }
        if name.is_empty() {
            return Err("`${` without the name of a variable".to_owned());
        }
        // With a colon, an empty value counts as none.
        let has_colon = self.chars.next_if_eq(&':').is_some();
        let is_set = value.as_ref().is_some_and(|value| !has_colon || !value.is_empty());
        match self.chars.next() {
            Some('}') if !has_colon => Ok(value.unwrap_or_default()),
            Some('-') => {
                let default = self.read_until(Some('}'))?;
                Ok(if is_set { value.unwrap_or_default() } else { default })
            }
            Some('+') => {
                let other = self.read_until(Some('}'))?;
                Ok(if is_set { other } else { String::new() })
            }
            Some(_) => Err(format!("koze knows only `${{{name}}}`, `${{{name}:-…}}` and `${{{name}:+…}}`")),
            None => Err("a `}` is missing".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "A" => Some("a b".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_quotes_and_escapes() {
        let cases = [
            ("x$A-${A}", "xa b-a b"),
            ("$NONE.${NONE}", "."),
            ("${NONE:-d$A}${EMPTY:-e}${EMPTY-f}", "da be"),
            ("${A:+y}${EMPTY:+n}${NONE+n}", "y"),
            (r"\$A '$A' $", "$A $A $"),
            (r#""$A \" \x 'q'""#, r#"a b " \x 'q'"#),
            ("${NONE:-'}'}", "}"),
        ];
        for (word, expected) in cases {
            assert_eq!(expand(word, '\\', &lookup).as_deref(), Ok(expected), "{word}");
        }
        for word in ["${A%x}", "${A", "'x", "\"x", "${}"] {
            assert!(expand(word, '\\', &lookup).is_err(), "{word}");
        }
        assert_eq!(expand_text("'$A' \\$A", '\\', &lookup).as_deref(), Ok("'a b' $A"));
    }

    #[test]
    fn hostile_words_are_bounded() {
        let nested = "${NONE:-".repeat(100_000);
        assert!(expand(&nested, '\\', &lookup).unwrap_err().contains("nested"));
        let long = |_: &str| Some("x".repeat(600_000));
        assert!(expand("$X", '\\', &long).is_ok());
        assert!(expand("$X$X", '\\', &long).unwrap_err().contains("more than"));
    }

    #[test]
    fn words_are_split_outside_of_quotes() {
        assert_eq!(split(r#"A="x y" B=z\ z  C='"'"#, '\\'), [r#"A="x y""#, r"B=z\ z", r#"C='"'"#]);
    }

    #[test]
    fn lines_of_a_command_are_joined_without_comments() {
        let text = "apt-get install \\\n  # why\n\n  a \\\n  b # not a comment of Docker";
        assert_eq!(join_lines(text, '\\'), "apt-get install   a   b # not a comment of Docker");
    }
}
