//! Parses a text to plain data, and to a tree. `jsonc-parser` validates and tokenizes it.

use std::collections::BTreeMap;
use std::ops::Range;

use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};
use serde_json::{Map, Number, Value};

use super::layout::Layout;
use crate::error::SyntaxError;
use crate::list::{Item, List};
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

/// Validates `text`. Returns it as a source, and its plain data.
pub(crate) fn read(text: String) -> Result<(Source, Value), SyntaxError> {
    let mut comments = Vec::new();
    let mut data = Data::default();
    let mut last = mark(&text);
    for (range, token) in tokens(&text)? {
        check_blanks(&text, last..range.start)?;
        last = range.end;
        match token {
            Token::CommentLine(_) => comments.push(Comment { range, line: true }),
            Token::CommentBlock(_) => comments.push(Comment { range, line: false }),
            token => data.token(&text, &range, token)?,
        }
    }
    check_blanks(&text, last..text.len())?;
    let Data { root, .. } = data;
    Ok((Source::new(text, comments), root))
}

/// Returns the values of a text that was [read](read), and how they are written.
///
/// # Panics
/// Panics if the text is not valid.
pub(crate) fn structure(source: &Source) -> (Tree, Layout) {
    let mut builder = Builder::default();
    for (range, token) in tokens(&source.text).expect("the text is valid") {
        builder.token(range, token);
    }
    let Builder { tree, lists, .. } = builder;
    (tree, Layout { lists })
}

/// Returns the tokens of `text` with their ranges.
fn tokens(text: &str) -> Result<impl Iterator<Item = (Range<usize>, Token<'_>)>, SyntaxError> {
    let mark = mark(text);
    let collect = CollectOptions { comments: CommentCollectionStrategy::AsTokens, tokens: true };
    let parsed = parse_to_ast(&text[mark..], &collect, &OPTIONS).map_err(|error| SyntaxError {
        range: error.range().start + mark..error.range().end + mark,
        message: error.kind().to_string(),
    })?;
    if parsed.value.is_none() {
        let message = "The file is empty: a JSON value is expected".to_owned();
        return Err(SyntaxError { range: text.len()..text.len(), message });
    }
    let moved = move |TokenAndRange { range, token }| (range.start + mark..range.end + mark, token);
    Ok(parsed.tokens.unwrap_or_default().into_iter().map(moved))
}

/// Rejects white space that JSON does not allow: `jsonc-parser` accepts all Unicode white space between tokens.
fn check_blanks(text: &str, between: Range<usize>) -> Result<(), SyntaxError> {
    let start = between.start;
    let odd = text[between].char_indices().find(|(_, c)| !" \t\r\n".contains(*c));
    odd.map_or(Ok(()), |(place, odd)| {
        let range = start + place..start + place + odd.len_utf8();
        Err(SyntaxError { range, message: format!("Unexpected character U+{:04X}", u32::from(odd)) })
    })
}

/// Turns the tokens of a valid text into plain data.
#[derive(Default)]
struct Data {
    /// The open objects and arrays, each with the key of the next value.
    stack: Vec<(Value, Option<String>)>,
    root: Value,
}

impl Data {
    fn token(&mut self, text: &str, range: &Range<usize>, token: Token) -> Result<(), SyntaxError> {
        match token {
            Token::OpenBrace => self.stack.push((Value::Object(Map::new()), None)),
            Token::OpenBracket => self.stack.push((Value::Array(Vec::new()), None)),
            Token::CloseBrace | Token::CloseBracket => {
                if let Some((value, _)) = self.stack.pop() {
                    self.put(value);
                }
            }
            Token::String(string) => {
                check_string(text, range)?;
                match self.stack.last_mut() {
                    Some((Value::Object(_), key @ None)) => *key = Some(string.into_owned()),
                    _ => self.put(Value::String(string.into_owned())),
                }
            }
            Token::Boolean(bool) => self.put(Value::Bool(bool)),
            Token::Null => self.put(Value::Null),
            Token::Number(number) => {
                let number = number.parse::<Number>().map_err(|_| SyntaxError {
                    range: range.clone(),
                    message: "The number is out of range".to_owned(),
                })?;
                self.put(Value::Number(number));
            }
            Token::CommentLine(_) | Token::CommentBlock(_) | Token::Comma | Token::Colon | Token::Word(_) => {
            }
        }
        Ok(())
    }

    /// Adds a complete value.
    fn put(&mut self, value: Value) {
        match self.stack.last_mut() {
            Some((Value::Object(object), key)) => {
                if let Some(key) = key.take() {
                    object.insert(key, value);
                }
            }
            Some((Value::Array(array), _)) => array.push(value),
            _ => self.root = value,
        }
    }
}

/// Turns the tokens of a valid text into a tree.
#[derive(Default)]
struct Builder {
    tree: Tree,
    lists: BTreeMap<Id, List>,
    stack: Vec<Frame>,
}

/// An open bracket.
struct Frame {
    id: Id,
    list: List,
    is_object: bool,
    /// The key of the next value.
    key: Option<(String, Range<usize>)>,
}

impl Builder {
    fn token(&mut self, range: Range<usize>, token: Token) {
        match token {
            Token::OpenBrace => self.open(range, Kind::object()),
            Token::OpenBracket => self.open(range, Kind::Array(Vec::new())),
            Token::CloseBrace | Token::CloseBracket => self.close(&range),
            Token::Comma => {
                if let Some(item) = self.stack.last_mut().and_then(|frame| frame.list.items.last_mut()) {
                    item.comma = Some(range.start);
                }
            }
            Token::String(string) => match self.stack.last_mut() {
                Some(frame) if frame.is_object && frame.key.is_none() => {
                    frame.key = Some((string.into_owned(), range));
                }
                _ => {
                    self.enter(range, Kind::Scalar);
                }
            },
            Token::Boolean(_) | Token::Null | Token::Number(_) => {
                self.enter(range, Kind::Scalar);
            }
            Token::CommentLine(_) | Token::CommentBlock(_) | Token::Colon | Token::Word(_) => {}
        }
    }

    fn open(&mut self, range: Range<usize>, kind: Kind) {
        let is_object = matches!(kind, Kind::Object(_));
        let list = List { open: range.end, close: range.end, items: Vec::new() };
        let id = self.enter(range, kind);
        self.stack.push(Frame { id, list, is_object, key: None });
    }

    fn close(&mut self, range: &Range<usize>) {
        let Some(mut frame) = self.stack.pop() else {
            return;
        };
        frame.list.close = range.start;
        self.tree.node_mut(frame.id).range.end = range.end;
        self.lists.insert(frame.id, frame.list);
        if let Some(item) = self.stack.last_mut().and_then(|outer| outer.list.items.last_mut()) {
            item.value.end = range.end;
        }
    }

    /// Adds a value to the tree and to its list.
    fn enter(&mut self, range: Range<usize>, kind: Kind) -> Id {
        let key = self.stack.last_mut().and_then(|frame| frame.key.take());
        let start = key.as_ref().map_or(range.start, |(_, key)| key.start);
        let parent = self.stack.last().map(|frame| frame.id);
        let id = self.tree.add(parent, key, range.clone(), kind);
        if let Some(frame) = self.stack.last_mut() {
            frame.list.items.push(Item { id, start, value: range, comma: None });
        }
        id
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
