use koze_model::{Report, Sandbox};
use serde_json::json;

use super::*;
use crate::wrangler::bindings;

fn sandbox(file: &str, text: &str) -> Sandbox {
    let mut report = Report::new();
    Sandbox::read(file, text, &|_| true, &mut report).unwrap_or_else(|| panic!("{report:?}"))
}

/// Names of directories that would end a comment or a string, were they pasted.
const NASTY: [&str; 5] = ["a*/b", "q\"q", "n\nl", "b\\s", "ü 'x'"];

#[test]
fn generated_rust_parses_whatever_a_directory_is_called() {
    for (index, dir) in NASTY.iter().enumerate() {
        let file = format!("src/{dir}/type.sandbox.rs");
        let text = format!("#[sandbox] {} struct T{index};", ["pub", ""][index % 2]);
        for (name, text) in files(&[sandbox(&file, &text)], &[], &bindings::all(&json!({}))) {
            if ["mod.rs", "env.rs"].contains(&name) {
                let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
                if name == "mod.rs" {
                    let paths: Vec<String> = parsed.items.iter().filter_map(path).collect();
                    assert_eq!(paths, ["env.rs".to_owned(), format!("../{dir}/type.sandbox.rs")]);
                }
            }
        }
    }
}

/// The value of a module's `#[path]`.
fn path(item: &syn::Item) -> Option<String> {
    let syn::Item::Mod(item) = item else { return None };
    let attribute = item.attrs.iter().find(|attribute| attribute.path().is_ident("path"))?;
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else { return None };
    Some(text.value())
}

#[test]
fn the_templates_are_rust_as_they_stand() {
    for template in [koze_templates::MODULE, koze_templates::ENV] {
        syn::parse_file(template).unwrap();
    }
}

#[test]
fn every_file_says_who_wrote_it() {
    for (name, text) in files(&[], &["Kept"], &bindings::all(&json!({}))) {
        assert!(text.starts_with(&format!("// {MARK}\n")), "{name}");
    }
}
