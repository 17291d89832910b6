//! Parses a text to a tree. `jsonc-parser` validates and tokenizes it.

use std::collections::BTreeMap;
use std::ops::Range;

use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};
use serde_json::{Map, Number, Value};

use super::layout::Layout;
use crate::error::SyntaxError;
use crate::list::{Item, List};
use crate::parsed::Parsed;
use crate::source::{Comment, Source, mark};
use crate::tree::{Id, Kind, Tree};

/// Comments and trailing commas, and no other extension of JSON.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Parses `text`.
pub(crate) fn parse(text: String) -> Result<Parsed<Layout>, SyntaxError> {
    let mark = mark(&text);
    let body = &text[mark..];
    let collect = CollectOptions { comments: CommentCollectionStrategy::AsTokens, tokens: true };
    let parsed = parse_to_ast(body, &collect, &OPTIONS).map_err(|error| SyntaxError {
        range: error.range().start + mark..error.range().end + mark,
        message: error.kind().to_string(),
    })?;
    if parsed.value.is_none() {
        let message = "The file is empty: a JSON value is expected".to_owned();
        return Err(SyntaxError { range: text.len()..text.len(), message });
    }
    let tokens = parsed.tokens.unwrap_or_default();
    check_blanks(&text, mark, &tokens)?;
    let mut builder = Builder::default();
    for TokenAndRange { range, token } in tokens {
        builder.token(&text, range.start + mark..range.end + mark, token)?;
    }
    let Builder { tree, lists, comments, root, .. } = builder;
    let source = Source::new(text, comments);
    Ok(Parsed { source, tree, value: root, layout: Layout { lists } })
}

/// Rejects white space that JSON does not allow: `jsonc-parser` accepts all Unicode white space between tokens.
fn check_blanks(text: &str, mark: usize, tokens: &[TokenAndRange]) -> Result<(), SyntaxError> {
    let ends = std::iter::once(mark).chain(tokens.iter().map(|token| token.range.end + mark));
    let starts = tokens.iter().map(|token| token.range.start + mark).chain([text.len()]);
    for (end, start) in ends.zip(starts) {
        if let Some((place, odd)) = text[end..start].char_indices().find(|(_, c)| !" \t\r\n".contains(*c)) {
            let range = end + place..end + place + odd.len_utf8();
            return Err(SyntaxError {
                range,
                message: format!("Unexpected character U+{:04X}", u32::from(odd)),
            });
        }
    }
    Ok(())
}

/// Turns the tokens of a valid text into a tree.
#[derive(Default)]
struct Builder {
    tree: Tree,
    lists: BTreeMap<Id, List>,
    comments: Vec<Comment>,
    stack: Vec<Frame>,
    root: Value,
}

/// An open bracket.
struct Frame {
    id: Id,
    list: List,
    value: Value,
    /// The key of the next value.
    key: Option<(String, Range<usize>)>,
}

impl Builder {
    fn token(&mut self, text: &str, range: Range<usize>, token: Token) -> Result<(), SyntaxError> {
        match token {
            Token::CommentLine(_) => self.comments.push(Comment { range, line: true }),
            Token::CommentBlock(_) => self.comments.push(Comment { range, line: false }),
            Token::OpenBrace => self.open(range, Kind::object(), Value::Object(Map::new())),
            Token::OpenBracket => {
                self.open(range, Kind::Array(Vec::new()), Value::Array(Vec::new()));
            }
            Token::CloseBrace | Token::CloseBracket => self.close(&range),
            Token::Comma => {
                if let Some(item) = self.stack.last_mut().and_then(|frame| frame.list.items.last_mut()) {
                    item.comma = Some(range.start);
                }
            }
            Token::String(string) => {
                check_string(text, &range)?;
                match self.stack.last_mut() {
                    Some(frame) if frame.value.is_object() && frame.key.is_none() => {
                        frame.key = Some((string.into_owned(), range));
                    }
                    _ => self.scalar(range, Value::String(string.into_owned())),
                }
            }
            Token::Boolean(bool) => self.scalar(range, Value::Bool(bool)),
            Token::Null => self.scalar(range, Value::Null),
            Token::Number(number) => {
                let number = number.parse::<Number>().map_err(|_| SyntaxError {
                    range: range.clone(),
                    message: "The number is out of range".to_owned(),
                })?;
                self.scalar(range, Value::Number(number));
            }
            Token::Colon | Token::Word(_) => {}
        }
        Ok(())
    }

    fn scalar(&mut self, range: Range<usize>, value: Value) {
        let (_, name) = self.enter(range, Kind::Scalar);
        self.put(name, value);
    }

    fn open(&mut self, range: Range<usize>, kind: Kind, value: Value) {
        let list = List { open: range.end, close: range.end, items: Vec::new() };
        let (id, key) = self.enter(range, kind);
        // The outer frame keeps the name until the value is complete.
        if let (Some(frame), Some(name)) = (self.stack.last_mut(), key) {
            frame.key = Some((name, 0..0));
        }
        self.stack.push(Frame { id, list, value, key: None });
    }

    fn close(&mut self, range: &Range<usize>) {
        let Some(mut frame) = self.stack.pop() else {
            return;
        };
        frame.list.close = range.start;
        self.tree.node_mut(frame.id).range.end = range.end;
        self.lists.insert(frame.id, frame.list);
        let mut name = None;
        if let Some(outer) = self.stack.last_mut() {
            if let Some(item) = outer.list.items.last_mut() {
                item.value.end = range.end;
            }
            name = outer.key.take().map(|(name, _)| name);
        }
        self.put(name, frame.value);
    }

    /// Adds a value to the tree and to its list. Returns its key.
    fn enter(&mut self, range: Range<usize>, kind: Kind) -> (Id, Option<String>) {
        let key = self.stack.last_mut().and_then(|frame| frame.key.take());
        let start = key.as_ref().map_or(range.start, |(_, key)| key.start);
        let name = key.as_ref().map(|(name, _)| name.clone());
        let parent = self.stack.last().map(|frame| frame.id);
        let id = self.tree.add(parent, key, range.clone(), kind);
        if let Some(frame) = self.stack.last_mut() {
            frame.list.items.push(Item { id, start, value: range, comma: None });
        }
        (id, name)
    }

    /// Adds a complete value to the plain data.
    fn put(&mut self, name: Option<String>, value: Value) {
        match (self.stack.last_mut().map(|frame| &mut frame.value), name) {
            (Some(Value::Object(object)), Some(name)) => {
                object.insert(name, value);
            }
            (Some(Value::Array(array)), _) => array.push(value),
            _ => self.root = value,
        }
    }
}

/// Rejects control characters in strings, which `jsonc-parser` accepts and JSON does not.
fn check_string(text: &str, range: &Range<usize>) -> Result<(), SyntaxError> {
    let found = text[range.clone()].bytes().position(|byte| byte < b' ');
    found.map_or(Ok(()), |place| {
        let place = range.start + place;
        let message = match text.as_bytes()[place] {
            b'\r' | b'\n' => "The string has no closing quote on its line".to_owned(),
            byte => {
                format!("A string cannot hold the character U+{byte:04X}: write it as an escape")
            }
        };
        Err(SyntaxError { range: place..place + 1, message })
    })
}
