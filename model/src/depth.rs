//! Parses a Rust file, unless its code is nested so deeply that `syn` would overflow the stack.
//!
//! `syn` calls itself for every level of an expression, a type, a pattern or a block, and does not limit how many there are. The
//! number of levels is therefore bounded on the tokens, before they are parsed: a level begins with a token, so there can be no
//! more of them than tokens of unfinished items, statements and expressions. Which tokens these are, `Level` estimates from
//! above.

use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree, token_stream};

/// How many tokens of unfinished code can surround a token. In a debug build, `syn` takes up to 45 KiB of the stack for each of
/// them; the command line has a stack of 256 MiB.
pub const DEEPEST: usize = 4000;

/// Parses a file. `text` can begin with a byte order mark.
///
/// # Errors
/// If the text is not Rust, or nested too deeply.
pub fn parse_file(text: &str) -> syn::Result<syn::File> {
    // Most files consist of nothing but tokens, and are split into them once.
    if !text.starts_with('\u{feff}') && !text.starts_with("#!") {
        let tokens: TokenStream = text.parse()?;
        check(tokens.clone())?;
        return syn::parse2(tokens);
    }
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Behind a `#!` line, which need not consist of tokens. What consists of none cannot be parsed either.
    let behind = || body.starts_with("#!").then(|| body.split_once('\n')?.1.parse::<TokenStream>().ok())?;
    if let Some(tokens) = body.parse::<TokenStream>().ok().or_else(behind) {
        check(tokens)?;
    }
    syn::parse_file(text)
}

/// Checks how deeply tokens are nested, without recursion.
///
/// # Errors
/// If it is too deeply.
pub fn check(tokens: TokenStream) -> syn::Result<()> {
    let mut levels = vec![Level::new(tokens, 0, false)];
    while let Some(level) = levels.last_mut() {
        let Some(token) = level.tokens.next() else {
            levels.pop();
            continue;
        };
        let span = token.span();
        let inner = level.count(token);
        if level.outer + level.run > DEEPEST || levels.len() > DEEPEST {
            return Err(too_deep(span));
        }
        levels.extend(inner);
    }
    Ok(())
}

fn too_deep(span: Span) -> syn::Error {
    let message = format!(
        "the code is nested too deeply: at most {DEEPEST} tokens of unfinished expressions, types and blocks may surround a \
         token. Split the expression, or move this code to a file that koze does not read"
    );
    syn::Error::new(span, message)
}

/// The tokens between two delimiters.
struct Level {
    tokens: token_stream::IntoIter,
    /// How many tokens of unfinished code surround these.
    outer: usize,
    /// How many tokens came since the last one that ended an item, a statement or an element of a list.
    run: usize,
    /// How many `<` and `|` came since then. A comma behind them ends no element: `X<A, X<A, …` and `|a, b| |c, d| …`.
    angles: usize,
    bars: usize,
    /// Whether these are the tokens of a macro, which are not parsed.
    is_opaque: bool,
    /// The value of `run` before an attribute that has begun.
    attribute: Option<usize>,
    /// The last three tokens.
    last: [Last; 3],
}

/// What a token was.
#[derive(Debug, Default)]
enum Last {
    #[default]
    None,
    Ident(Ident),
    Literal,
    Punct(char),
    Group,
    Block,
    /// A block behind `=>`.
    Arm,
}

impl Level {
    fn new(tokens: TokenStream, outer: usize, is_opaque: bool) -> Self {
        Level {
            tokens: tokens.into_iter(),
            outer,
            run: 0,
            angles: 0,
            bars: 0,
            is_opaque,
            attribute: None,
            last: Default::default(),
        }
    }

    /// Counts a token. Returns the level that it opens.
    fn count(&mut self, token: TokenTree) -> Option<Level> {
        if self.is_opaque {
            let TokenTree::Group(group) = token else { return None };
            return Some(Level::new(group.stream(), self.outer + 1, true));
        }
        if self.begins_anew(&token) {
            self.end();
        }
        let before = self.run;
        self.run += 1;
        let mut inner = None;
        let attribute = self.attribute.take();
        let last = match token {
            TokenTree::Ident(name) => Last::Ident(name),
            TokenTree::Literal(_) => Last::Literal,
            TokenTree::Punct(punct) => {
                let punct = punct.as_char();
                self.attribute = if punct == '#' { Some(before) } else { attribute.filter(|_| punct == '!') };
                self.punct(punct);
                Last::Punct(punct)
            }
            TokenTree::Group(group) => {
                inner = Some(Level::new(group.stream(), self.outer + self.run, self.is_macro()));
                let is_bracket = group.delimiter() == Delimiter::Bracket;
                if let Some(before) = attribute.filter(|_| is_bracket) {
                    // Any number of attributes can precede the same token.
                    self.run = before;
                }
                match group.delimiter() {
                    Delimiter::Brace if self.is_arrow() => Last::Arm,
                    Delimiter::Brace => Last::Block,
                    _ => Last::Group,
                }
            }
        };
        self.last.rotate_left(1);
        self.last[2] = last;
        inner
    }

    /// Returns whether a token cannot continue what the block before it has ended.
    fn begins_anew(&self, token: &TokenTree) -> bool {
        match (&self.last[2], token) {
            (Last::Arm, TokenTree::Punct(punct)) => !matches!(punct.as_char(), '.' | '?'),
            (Last::Block, TokenTree::Ident(name)) => name != "else" && name != "as",
            (Last::Block, TokenTree::Punct(punct)) => punct.as_char() == '#',
            (Last::Arm, _) | (Last::Block, TokenTree::Literal(_)) => true,
            _ => false,
        }
    }

    fn punct(&mut self, punct: char) {
        match (punct, &self.last[2]) {
            // Of an arm, the pattern is complete.
            (';', _) | ('>', Last::Punct('=')) => self.end(),
            (',', _) => self.run = self.run.min(2 * self.angles + self.bars.div_ceil(2)),
            // Behind these, it is an operator.
            ('<', Last::Literal | Last::Group | Last::Block) | ('>', Last::Punct('-')) => {}
            ('<', _) => self.angles += 1,
            ('>', _) => self.angles = self.angles.saturating_sub(1),
            ('|', _) => self.bars += 1,
            _ => {}
        }
    }

    /// Ends all that has begun.
    fn end(&mut self) {
        self.run = 0;
        self.angles = 0;
        self.bars = 0;
    }

    /// Returns whether the next group is that of a macro: `name!(..)` or `macro_rules! name {..}`, but not `return !(..)`.
    fn is_macro(&self) -> bool {
        let is_name = |name: &Ident| syn::parse_str::<Ident>(&name.to_string()).is_ok();
        match &self.last {
            [_, Last::Ident(name), Last::Punct('!')]
            | [Last::Ident(name), Last::Punct('!'), Last::Ident(_)] => is_name(name),
            _ => false,
        }
    }

    fn is_arrow(&self) -> bool {
        matches!(self.last, [_, Last::Punct('='), Last::Punct('>')])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stack of the command line.
    const STACK: usize = 256 << 20;

    fn parse(text: String) -> Result<(), String> {
        let parse = move || parse_file(&text).map(drop).map_err(|error| error.to_string());
        std::thread::Builder::new().stack_size(STACK).spawn(parse).unwrap().join().unwrap()
    }

    /// Texts that are nested so many levels deep.
    fn nested(levels: usize) -> Vec<String> {
        let inner = |before: &str, start: &str, middle: &str, end: &str| {
            format!("{before}{}{middle}{}", start.repeat(levels), end.repeat(levels))
        };
        let expression = |start: &str, middle: &str, end: &str| {
            format!("{};", inner("const A: u8 = ", start, middle, end))
        };
        let ty = |start: &str, end: &str| format!("{};", inner("type A = ", start, "u8", end));
        vec![
            expression("(", "1", ")"),
            expression("{", "1", "}"),
            expression("[", "1", "]"),
            expression("-", "1", ""),
            expression("& ", "1", ""),
            expression("", "1", " + 1"),
            expression("", "a", " = a"),
            expression("", "a", ".a"),
            expression("", "a", "()"),
            expression("", "a", "?"),
            expression("", "if a {}", " else if a {}"),
            expression("|a, b| ", "1", ""),
            expression("return ", "1", ""),
            expression(".. ", "1", ""),
            expression("match a { _ => ", "1", "}"),
            expression("a!(", "", ")"),
            expression("if let A = ", "a", " {}"),
            ty("Vec<", ">"),
            ty("X<u8, ", ">"),
            ty("dyn A<B = ", ">"),
            ty("fn() -> ", ""),
            ty("(", ")"),
            ty("<", " as A>::B"),
            inner("", "fn a() { ", "", "}"),
            inner("", "mod a { ", "", "}"),
            inner("", "#[a] impl A { #[b] fn a() { match a { a => {} b => ", "b", "}}}"),
            format!("use {};", inner("", "a::{", "a", "}")),
            format!("#[a({})] struct A;", inner("", "(", "", ")")),
            format!("#!/bin/sh '\n{}", inner("", "mod a { ", "", "}")),
        ]
    }

    #[test]
    fn no_text_overflows_the_stack() {
        for text in nested(20_000) {
            let message = parse(text.clone()).unwrap_err();
            assert!(message.starts_with("the code is nested too deeply"), "{}: {message}", &text[..60]);
        }
    }

    #[test]
    fn no_text_below_the_limit_overflows_the_stack() {
        let mut parsed = 0;
        for levels in [600, 1300, 1900, 3900] {
            for text in nested(levels) {
                parsed += usize::from(parse(text).is_ok());
            }
        }
        assert!(parsed > 40, "{parsed}");
    }

    #[test]
    fn long_files_are_not_deep() {
        let long = [
            "/// Documented.\n/// Twice.\npub fn a<T: Into<u8>>(a: T) -> Vec<u8> { a < b && b > a; vec![a << 1, 2] }\n",
            "const A: [u8; 2] = [1 << 2, 1 << 3];\n",
            "impl A for B { fn a() {} }\n",
            "macro_rules! a { ($a:tt < $b:tt | $c:tt) => {} }\n",
        ];
        let items: String = long.concat().repeat(3000);
        assert_eq!(parse(items), Ok(()));
        let arms = "#[a] (A | B, x) if x < 5 => { a() } Some(1..=2) => a, ".repeat(3000);
        assert_eq!(parse(format!("fn a() {{ match a {{ {arms} _ => {{}} }} }}")), Ok(()));
        let list = "(\"a\", a(1)?, 1 << 3), ".repeat(20_000);
        assert_eq!(parse(format!("const A: &[u8] = &[{list}];")), Ok(()));
        assert_eq!(parse(format!("fn a() {{ html! {{ {} }} }}", "a < b | ! . ".repeat(20_000))), Ok(()));
    }
}
