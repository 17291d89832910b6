//! The code blocks of the pages in `docs`, which tests run.

use fs_err as fs;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use crate::root;

/// A code block of a page.
#[derive(Debug, Clone)]
pub struct Block {
    /// The heading above it.
    pub heading: String,
    /// Its language, such as `sh`.
    pub language: String,
    /// Its text.
    pub text: String,
}

/// Returns the code blocks of a page in `docs`, in order.
///
/// # Panics
///
/// Panics if the page cannot be read.
pub fn page_blocks(name: &str) -> Vec<Block> {
    parse(&fs::read_to_string(root().join("docs").join(name)).expect("a page"))
}

fn parse(page: &str) -> Vec<Block> {
    let (mut blocks, mut heading, mut in_heading, mut in_block) = (Vec::new(), String::new(), false, false);
    for event in Parser::new(page) {
        match event {
            Event::Start(Tag::Heading { .. }) => (heading, in_heading) = (String::new(), true),
            Event::End(TagEnd::Heading(_)) => in_heading = false,
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                let (language, text) = (language.into_string(), String::new());
                blocks.push(Block { heading: heading.clone(), language, text });
                in_block = true;
            }
            Event::End(TagEnd::CodeBlock) => in_block = false,
            Event::Text(text) | Event::Code(text) if in_heading => heading.push_str(&text),
            Event::Text(text) if in_block => {
                let block = blocks.last_mut().expect("the block that began");
                block.text.push_str(&text);
            }
            _ => {}
        }
    }
    blocks
}

/// A command of a `console` block, and the output that the page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The command for a shell, without `$ `.
    pub command: String,
    /// The output: `…` stands for any text.
    pub output: String,
}

impl Shown {
    /// Returns whether this is the output. The number of spaces between columns does not matter.
    pub fn matches(&self, output: &str) -> bool {
        let [shown, actual] = [&self.output, output].map(squeeze);
        let mut parts = shown.split('…');
        let Some(mut rest) = actual.strip_prefix(parts.next().unwrap_or_default()) else { return false };
        let mut parts: Vec<&str> = parts.collect();
        let Some(last) = parts.pop() else { return rest.is_empty() };
        for part in parts {
            let Some((_, after)) = rest.split_once(part) else { return false };
            rest = after;
        }
        rest.ends_with(last)
    }
}

/// Replaces each run of spaces by one, and removes those at the end of lines.
fn squeeze(text: &str) -> String {
    let line = |line: &str| line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    text.trim_end().lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Splits a `console` block into its commands. A line that follows a command belongs to it if the command ends with `\`.
pub fn shown_commands(block: &str) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push(Shown { command: command.to_owned(), output: String::new() }),
            (None, Some(last)) if last.output.is_empty() && last.command.ends_with('\\') => {
                last.command.extend(["\n", line]);
            }
            (None, Some(last)) => last.output.extend([line, "\n"]),
            (None, None) => panic!("a `console` block begins with output: {line}"),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_their_heading() {
        let blocks = parse("# A `b`\n\n```sh\nx\n```\n\n## C\n\ntext\n\n```js\ny\nz\n```\n");
        let blocks: Vec<_> = blocks.iter().map(|one| [&*one.heading, &*one.language, &*one.text]).collect();
        assert_eq!(blocks, [["A b", "sh", "x\n"], ["C", "js", "y\nz\n"]]);
    }

    #[test]
    fn commands_have_their_output() {
        let shown = shown_commands("$ a \\\n  b\nout\n$ c\n");
        let texts: Vec<_> = shown.iter().map(|one| (&*one.command, &*one.output)).collect();
        assert_eq!(texts, [("a \\\n  b", "out\n"), ("c", "")]);
    }

    #[test]
    fn output_is_compared() {
        let matches = |shown: &str, output: &str| {
            Shown { command: String::new(), output: shown.to_owned() }.matches(output)
        };
        assert!(
            matches("a  b\nc\n", "a b   \nc\n") && matches("…\n", "") && matches("a …\n…d\n", "a b\nc\nd\n")
        );
        assert!(matches("a … c … e\n", "a b c d e\n") && !matches("a … c … e\n", "a b d e\n"));
        assert!(
            !matches("a\n", "a\nb\n")
                && !matches("", "a\n")
                && !matches("…b\n", "a\n")
                && !matches("b…\n", "ab\n")
        );
    }
}
