//! All names that koze derives.
//!
//! | file | binding | module | container | class |
//! |---|---|---|---|---|
//! | `shell.sandbox.rs` | `SHELL_SANDBOX` | `shell` | `shell-sandbox` | the struct's name |
//! | `code-interpreter.sandbox.rs` | `CODE_INTERPRETER_SANDBOX` | `code_interpreter` | `code-interpreter-sandbox` | the struct's name |
//! | `blog.container.rs` | `BLOG_CONTAINER` | `blog` | `blog-container` | the struct's name |

pub mod accessor;

use crate::kind::Kind;

/// The form of a base name, as a regular expression for messages.
pub const BASE_PATTERN: &str = "[a-z][a-z0-9]*([-_][a-z0-9]+)*";

/// The names derived from the name of a file that declares a sandbox or a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// What the file declares.
    pub kind: Kind,
    /// The file's name without its suffix: `code-interpreter`.
    pub base: String,
    /// The Durable Object binding: `CODE_INTERPRETER_SANDBOX`.
    pub binding: String,
    /// The Rust module in the generated code, with `r#` if it is a keyword: `code_interpreter`.
    pub module: String,
    /// The variant of the generated `Image`: `CodeInterpreter`.
    pub variant: String,
    /// The accessor on the generated `Env`: `code_interpreter_sandbox`.
    pub accessor: String,
    /// The container application, unless the attribute sets `name`: `code-interpreter-sandbox`.
    pub container: String,
}

/// The reason why a file name has no derived names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidFileName {
    /// The name does not end in the suffix of a kind.
    Suffix {
        /// The name.
        file: String,
    },
    /// The part before the suffix is not a base name.
    Base {
        /// What the file declares.
        kind: Kind,
        /// The name.
        file: String,
        /// A base name that resembles it.
        suggestion: String,
    },
}

impl Names {
    /// Derives the names from a path or file name that ends in the suffix of a kind.
    ///
    /// # Errors
    /// Returns an error if the suffix is missing, or if the rest is not a base name.
    pub fn of_file(path: &str) -> Result<Self, InvalidFileName> {
        let file = path.rsplit('/').next().unwrap_or(path);
        let Some((kind, base)) = split_suffix(file) else {
            return Err(InvalidFileName::Suffix { file: file.to_owned() });
        };
        // `crate`, `self` and `super` cannot be raw identifiers, so no module can have these names.
        if !is_base_name(base) || matches!(base, "crate" | "self" | "super") {
            let suggestion = suggest_base(base);
            return Err(InvalidFileName::Base { kind, file: file.to_owned(), suggestion });
        }
        Ok(Names::of_base(kind, base))
    }

    /// Derives the names from a valid base name.
    pub fn of_base(kind: Kind, base: &str) -> Self {
        let word = kind.word();
        let snake = base.replace('-', "_");
        // `gen` is a keyword since the 2024 edition, but syn does not treat it as one.
        let keyword = snake == "gen" || syn::parse_str::<syn::Ident>(&snake).is_err();
        Names {
            kind,
            base: base.to_owned(),
            binding: format!("{snake}_{word}").to_ascii_uppercase(),
            variant: variant(base),
            module: if keyword { format!("r#{snake}") } else { snake.clone() },
            accessor: format!("{snake}_{word}"),
            container: format!("{}-{word}", base.replace('_', "-")),
        }
    }

    /// Derives the names of a struct whose file is unknown, as in some editors: `PythonSandbox` gives those of
    /// `python.sandbox.rs`.
    pub fn of_class(kind: Kind, class: &str) -> Self {
        use heck::ToKebabCase;
        let stem = class.strip_suffix(kind.class_suffix()).filter(|stem| !stem.is_empty()).unwrap_or(class);
        Names::of_base(kind, &suggest_base(&stem.to_kebab_case()))
    }
}

/// Returns the variant of the generated `Profile` for the base name of a file, or for the name of an image.
pub fn variant(name: &str) -> String {
    name.split(['-', '_']).map(capital).collect()
}

/// Splits the name of a file into its kind and its base.
fn split_suffix(file: &str) -> Option<(Kind, &str)> {
    let kind = Kind::of_file(file)?;
    Some((kind, file.strip_suffix(kind.suffix())?))
}

/// Capitalizes a word of a variant. A leading digit gets a separator, so that `a-1` and `a1` differ.
fn capital(word: &str) -> String {
    match word.chars().next() {
        Some(first) if first.is_ascii_digit() => format!("_{word}"),
        Some(first) => format!("{}{}", first.to_ascii_uppercase(), &word[1..]),
        None => String::new(),
    }
}

/// Returns whether a text is a base name, as described by [`BASE_PATTERN`].
pub fn is_base_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.split(['-', '_']).all(|part| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
}

/// Returns the base name nearest to an invalid one.
fn suggest_base(text: &str) -> String {
    use heck::ToKebabCase;
    let kebab = text.to_kebab_case().replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "");
    let kebab = kebab.trim_matches('-').trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
    match kebab {
        "" => "shell".to_owned(),
        "crate" | "self" | "super" => format!("my-{kebab}"),
        good if is_base_name(good) => good.to_owned(),
        _ => "shell".to_owned(),
    }
}

/// The form of a container application's name, for messages.
pub const CONTAINER_FORM: &str = "lowercase letters, digits and inner hyphens, 63 at most";

/// Returns whether a text is a valid name of a container application, as described by [`CONTAINER_FORM`].
pub fn is_container_name(text: &str) -> bool {
    text.len() <= 63
        && !text.starts_with('-')
        && !text.ends_with('-')
        && !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// The form of an image's name in `images(..)`, in words.
pub const IMAGE_FORM: &str = "words of lowercase letters and digits, the first with a leading letter, with `_` between them, 63 characters at most";

/// Returns whether a text is a valid name of an image, as described by [`IMAGE_FORM`].
pub fn is_image_name(text: &str) -> bool {
    text.len() <= 63 && is_base_name(text) && !text.contains('-')
}

/// Returns why a struct's name cannot be the class of a Durable Object, if it cannot. The class is exported from a
/// JavaScript module that also exports koze's own classes.
pub fn reserved_class(class: &str) -> Option<&'static str> {
    // Reserved in ECMAScript modules: keywords, future keywords, strict-mode names.
    const JAVASCRIPT: &[&str] = &[
        "arguments",
        "await",
        "break",
        "case",
        "catch",
        "class",
        "const",
        "continue",
        "debugger",
        "default",
        "delete",
        "do",
        "else",
        "enum",
        "eval",
        "export",
        "extends",
        "false",
        "finally",
        "for",
        "function",
        "if",
        "implements",
        "import",
        "in",
        "instanceof",
        "interface",
        "let",
        "new",
        "null",
        "package",
        "private",
        "protected",
        "public",
        "return",
        "static",
        "super",
        "switch",
        "this",
        "throw",
        "true",
        "try",
        "typeof",
        "undefined",
        "var",
        "void",
        "while",
        "with",
        "yield",
    ];
    // Names that the generated modules export or use themselves.
    const KOZE: &[&str] = &[
        "ContainerProxy",
        "Env",
        "ExportedHandler",
        "Image",
        "KozeBase",
        "KozeEgress",
        "KozeKept",
        "KozeNative",
        "KozeManaged",
        "KozeGuest",
        "KozeScripts",
        "KozeService",
        "KozeSessions",
        "Object",
        "Sandbox",
        "__env",
        "__tools",
        "definitions",
        "handle_tool_call",
        "images",
        "serve",
        "worker",
    ];
    if class.starts_with("r#") {
        Some("written as a raw identifier, `r#`")
    } else if JAVASCRIPT.contains(&class) {
        Some("a reserved word of JavaScript, in which the class is exported")
    } else if KOZE.contains(&class) {
        Some("a name that the generated code uses itself")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_derived_from_the_file() {
        let names = Names::of_file("src/server/code-interpreter.sandbox.rs").unwrap();
        assert_eq!(names.binding, "CODE_INTERPRETER_SANDBOX");
        assert_eq!(names.module, "code_interpreter");
        assert_eq!(names.accessor, "code_interpreter_sandbox");
        assert_eq!(names.container, "code-interpreter-sandbox");
        assert_eq!(Names::of_file("a_b.sandbox.rs").unwrap().container, "a-b-sandbox");
        assert_eq!(Names::of_file("type.sandbox.rs").unwrap().module, "r#type");
        assert_eq!(names.variant, "CodeInterpreter");
        assert_eq!(Names::of_base(Kind::Sandbox, "python-3-12").variant, "Python_3_12");
        assert_ne!(Names::of_base(Kind::Sandbox, "a-1").variant, Names::of_base(Kind::Sandbox, "a1").variant);
    }

    #[test]
    fn invalid_names_get_a_suggestion() {
        for (file, good) in [
            ("My Tool.sandbox.rs", "my-tool"),
            ("a.b.sandbox.rs", "a-b"),
            ("3d.sandbox.rs", "d"),
            ("self.sandbox.rs", "my-self"),
            (".sandbox.rs", "shell"),
            ("a--b.sandbox.rs", "a-b"),
            ("a-.sandbox.rs", "a"),
            ("größe.sandbox.rs", "gre"),
            ("日本.sandbox.rs", "shell"),
        ] {
            match Names::of_file(file) {
                Err(InvalidFileName::Base { suggestion, .. }) => assert_eq!(suggestion, good, "{file}"),
                other => panic!("{file}: {other:?}"),
            }
        }
        assert!(matches!(Names::of_file("shell.rs"), Err(InvalidFileName::Suffix { .. })));
    }

    #[test]
    fn a_class_without_a_file_has_names() {
        let of_sandbox = |class: &str| Names::of_class(Kind::Sandbox, class);
        assert_eq!(of_sandbox("PythonSandbox").base, "python");
        assert_eq!(of_sandbox("Sandbox").base, "sandbox");
        assert_eq!(of_sandbox("CodeInterpreter").binding, "CODE_INTERPRETER_SANDBOX");
        assert_eq!(Names::of_class(Kind::Container, "BlogContainer").base, "blog");
    }

    #[test]
    fn names_of_containers_end_in_their_kind() {
        let names = Names::of_file("src/server/word_press.container.rs").unwrap();
        assert_eq!(names.kind, Kind::Container);
        assert_eq!(names.base, "word_press");
        assert_eq!(names.binding, "WORD_PRESS_CONTAINER");
        assert_eq!(names.module, "word_press");
        assert_eq!(names.accessor, "word_press_container");
        assert_eq!(names.container, "word-press-container");
    }

    #[test]
    fn container_names_are_validated() {
        for good in ["a", "my-worker-shell", "0", "a1"] {
            assert!(is_container_name(good), "{good}");
        }
        let long = "a".repeat(64);
        for bad in ["", "-a", "a-", "A", "a b", "a_b", "a.b", "ä", &long] {
            assert!(!is_container_name(bad), "{bad}");
        }
    }
}
