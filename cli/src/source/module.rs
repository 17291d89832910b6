//! Declares a module in a crate root.

use koze_model::depth;
use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::{Attribute, File, Item};

/// Returns whether a file declares a module at its top level.
pub fn is_declared(file: &File, name: &str) -> bool {
    file.items.iter().any(|item| matches!(item, Item::Mod(item) if item.ident == name))
}

/// Adds `mod <name>;` to a text. Returns the text unchanged if it already declares the module.
///
/// The declaration goes after the last module that has its own file, or else after the leading imports, or else after
/// the crate's attributes.
///
/// `text` must not contain a byte order mark.
///
/// # Errors
/// Returns an error if the text is not Rust.
pub fn declare(text: &str, name: &str) -> syn::Result<String> {
    let file = depth::parse_file(text)?;
    if is_declared(&file, name) {
        return Ok(text.to_owned());
    }
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let declaration = format!("mod {name};{newline}");
    let has_file = |item: &&Item| matches!(item, Item::Mod(item) if item.content.is_none());
    let imports = file.items.iter().take_while(|item| matches!(item, Item::Use(_) | Item::ExternCrate(_)));
    let (before, apart) = match (file.items.iter().rfind(has_file), imports.last()) {
        (Some(module), _) => (Some(module.span()), false),
        (None, Some(import)) => (Some(import.span()), true),
        (None, None) => (file.attrs.last().map(Attribute::span), true),
    };
    // syn counts offsets after the `#!` line.
    let first = file.shebang.as_ref().map_or(0, String::len);
    let end = before.map_or(first, |span| first + span.byte_range().end);
    let (head, tail) = text.split_at(if end == 0 { 0 } else { line_end(text, end) });
    let ended = if head.is_empty() || head.ends_with('\n') { "" } else { newline };
    let above = if apart && !head.is_empty() { newline } else { "" };
    let below = if apart && !tail.trim().is_empty() && !tail.starts_with(newline) { newline } else { "" };
    let declared = format!("{head}{ended}{above}{declaration}{below}{tail}");
    // Verify the result, in case an unusual macro or comment swallowed the declaration.
    if is_declared(&depth::parse_file(&declared)?, name) {
        Ok(declared)
    } else {
        Err(syn::Error::new(Span::call_site(), format!("koze cannot find a place for `mod {name};`")))
    }
}

/// Returns the end of the line on which an item ends, including a trailing comment. If other code follows on the line,
/// returns the end of the item.
fn line_end(text: &str, end: usize) -> usize {
    let line = text[end..].find('\n').map_or(text.len(), |newline| end + newline + 1);
    let rest = text[end..line].trim();
    if rest.is_empty() || rest.starts_with("//") { line } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(text: &str) -> String {
        let declared = declare(text, "generated").unwrap();
        assert_eq!(declare(&declared, "generated").unwrap(), declared, "a second time");
        syn::parse_file(&declared).unwrap();
        declared
    }

    #[test]
    fn after_the_last_module() {
        assert_eq!(
            declared("mod a; // first\nuse x::y;\nmod b;\nmod c { fn f() {} }\nfn f() {}\n"),
            "mod a; // first\nuse x::y;\nmod b;\nmod generated;\nmod c { fn f() {} }\nfn f() {}\n"
        );
    }

    #[test]
    fn after_the_imports() {
        assert_eq!(
            declared("//! Doc.\n\nuse x::{\n  y,\n};\n\nfn f() {}\n"),
            "//! Doc.\n\nuse x::{\n  y,\n};\n\nmod generated;\n\nfn f() {}\n"
        );
        assert_eq!(declared("use x::y;\nfn f() {}\n"), "use x::y;\n\nmod generated;\n\nfn f() {}\n");
        assert_eq!(declared("use x::y;"), "use x::y;\n\nmod generated;\n");
    }

    #[test]
    fn at_the_beginning() {
        assert_eq!(declared(""), "mod generated;\n");
        assert_eq!(declared("fn f() {}\n"), "mod generated;\n\nfn f() {}\n");
        assert_eq!(
            declared("//! Doc.\n#![deny(x)]\n\nfn f() {}\n"),
            "//! Doc.\n#![deny(x)]\n\nmod generated;\n\nfn f() {}\n"
        );
        assert_eq!(declared("//! Doc."), "//! Doc.\n\nmod generated;\n");
        assert_eq!(
            declared("#!/usr/bin/env run\nfn f() {}\n"),
            "#!/usr/bin/env run\n\nmod generated;\n\nfn f() {}\n"
        );
    }

    #[test]
    fn between_items_on_one_line() {
        for text in [
            "use worker::*; use x::y; fn f() {} /* one\ntwo */ fn g() {}\n",
            "/*! docs */ /* license\n*/\nfn f() {}\n",
            "use worker::*; fn a() {\n let x = 1;\n}\n",
            "#![allow(x)] fn a() {\n}\n",
            "use a::{\n b,\n}; /* a */ #[event(fetch)]\nasync fn main() {}\n",
            "mod a; mod b; fn f() { \n}\n",
            "use a::b; // c /* d\nfn f() {}\n",
        ] {
            declared(text);
        }
    }

    #[test]
    fn line_endings_follow_the_file() {
        assert_eq!(
            declared("use x::y;\r\n\r\nfn f() {}\r\n"),
            "use x::y;\r\n\r\nmod generated;\r\n\r\nfn f() {}\r\n"
        );
    }

    #[test]
    fn an_existing_declaration_suffices() {
        for text in ["pub mod generated;\n", "#[path = \"x.rs\"]\nmod generated;\n", "mod generated { }\n"] {
            assert_eq!(declared(text), text);
        }
    }

    #[test]
    fn text_that_is_not_rust_is_an_error() {
        assert!(declare("fn f( {", "generated").is_err());
    }
}
