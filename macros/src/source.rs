//! Finds the file of the attribute, in the form that the command line uses.

use std::path::PathBuf;

use koze_model::Kind;
use koze_model::paths::normal;
use koze_model::rules::Rule;
use koze_model::syntax::declares;
use proc_macro2::Span;

/// The file that contains an attribute.
pub(crate) struct Source {
    /// Relative to the package, with `/`: `src/server/shell.sandbox.rs`.
    pub(crate) name: String,
    /// Its path on disk.
    path: PathBuf,
}

impl Source {
    /// Returns the file of a span; `None` if the compiler does not know one, as in some editors.
    pub(crate) fn of(span: Span) -> Option<Source> {
        let path = normal(&std::path::absolute(span.local_file()?).ok()?);
        let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
        let relative = path.strip_prefix(normal(&package)).unwrap_or(&path);
        let name = relative
            .components()
            .map(|part| part.as_os_str().to_string_lossy())
            .collect::<Vec<_>>()
            .join("/");
        Some(Source { name, path })
    }

    /// Returns whether a path relative to the file exists.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path.parent().is_some_and(|directory| directory.join(path).is_file())
    }

    /// Returns why this struct is not the one declaration of its file, if it is not.
    ///
    /// The compiler passes the macro one item at a time, so the file is read to find the others.
    pub(crate) fn misplaced(&self, kind: Kind, ident: &syn::Ident) -> Option<Rule> {
        let file = koze_model::depth::parse_file(&std::fs::read_to_string(&self.path).ok()?).ok()?;
        if Kind::of_file(&self.name).is_some_and(|of_file| of_file != kind) {
            // That the file declares another kind is reported already.
            return None;
        }
        let mut sandboxes = file.items.iter().filter_map(|item| match item {
            syn::Item::Struct(item) if item.attrs.iter().any(|attribute| declares(attribute, kind)) => {
                Some(&item.ident)
            }
            _ => None,
        });
        let class = ident.to_string();
        match sandboxes.next() {
            Some(first) if first == ident => None,
            Some(first) if sandboxes.any(|other| other == ident) => {
                Some(Rule::SecondSandbox { kind, class, first: first.to_string() })
            }
            // Imported under another name, the attribute is invisible to the command line.
            _ if file
                .items
                .iter()
                .any(|item| matches!(item, syn::Item::Struct(item) if item.ident == *ident)) =>
            {
                Some(Rule::NoSandbox { kind, class })
            }
            // The file on disk may be older than the compiler's input; nothing can be said then.
            _ if mentions(&file, ident) => Some(Rule::Nested { kind, class }),
            _ => None,
        }
    }
}

/// Returns whether a file contains a struct of this name, at any depth.
fn mentions(file: &syn::File, ident: &syn::Ident) -> bool {
    use syn::visit::Visit;
    struct Search<'a>(&'a syn::Ident, bool);
    impl<'a> Visit<'a> for Search<'_> {
        fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
            self.1 |= item.ident == *self.0;
        }
    }
    let mut search = Search(ident, false);
    search.visit_file(file);
    search.1
}
