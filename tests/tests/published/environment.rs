//! Compares the variables on `docs/environment.md` with those that the code reads.

use std::collections::BTreeSet;
use std::path::Path;

use koze_tests::root;
use walkdir::WalkDir;

/// What is published, and runs outside of tests.
const SOURCES: [&str; 11] = [
    "cli/src",
    "core/src",
    "edit/src",
    "guest/src",
    "local/src",
    "macros/src",
    "model/src",
    "protocol/src",
    "runtime/src",
    "script/src",
    "templates/files",
];

/// Names that only tests in these directories read, and names of bindings.
const OTHERS: [&str; 3] = ["KOZE_BLESS", "KOZE_SCRIPTS", "KOZE_SESSIONS"];

const PREFIX: &str = "KOZE_";

/// Returns the names in a source text: string literals (`"KOZE_X"`) and properties (`.KOZE_X`). A name that ends with
/// `__` is a placeholder of a template.
fn names(text: &str) -> BTreeSet<String> {
    let starts = text.match_indices(PREFIX).map(|(start, _)| start);
    let read = starts.filter(|&start| text[..start].ends_with(['"', '.']));
    let name = |start: usize| {
        let rest = &text[start..];
        let end =
            rest.find(|letter: char| !letter.is_ascii_uppercase() && letter != '_').unwrap_or(rest.len());
        let is_whole = rest.as_bytes().get(end).is_none_or(|next| *next != b'=');
        (is_whole && !rest[..end].ends_with("__")).then(|| rest[..end].to_owned())
    };
    read.filter_map(name).collect()
}

/// Returns the names in the first column of the tables of a page.
fn documented(page: &str) -> BTreeSet<String> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let names = cells.flat_map(|cell| cell.split('`')).filter(|name| name.starts_with(PREFIX));
    names.map(str::to_owned).collect()
}

fn read_names(root: &Path) -> BTreeSet<String> {
    let files = SOURCES.iter().flat_map(|dir| WalkDir::new(root.join(dir)));
    let files =
        files.map(|entry| entry.expect("a readable directory")).filter(|entry| entry.file_type().is_file());
    let texts = files.filter_map(|file| String::from_utf8(fs_err::read(file.path()).expect("a file")).ok());
    texts.flat_map(|text| names(&text)).filter(|name| !OTHERS.contains(&name.as_str())).collect()
}

#[test]
fn the_page_has_the_variables_that_the_code_reads() {
    let page = fs_err::read_to_string(root().join("docs/environment.md")).expect("the page");
    let (read, documented) = (read_names(&root()), documented(&page));
    let missing: Vec<_> = read.difference(&documented).collect();
    let gone: Vec<_> = documented.difference(&read).collect();
    assert!(missing.is_empty(), "docs/environment.md lacks {missing:?}");
    assert!(gone.is_empty(), "docs/environment.md has {gone:?}, which nothing reads");
}

#[test]
fn names_are_found_in_sources() {
    let text = "const A: &str = \"KOZE_A\";\nenv.KOZE_B_C(x) \"KOZE_D__\" KOZE_E \"KOZE_F=1\" \"KOZE_G_\"";
    assert_eq!(names(text), ["KOZE_A", "KOZE_B_C", "KOZE_G_"].map(str::to_owned).into());
    let page = "| variable | b |\n|---|---|\n| `KOZE_A`, `X` | `KOZE_B` |\nKOZE_C `KOZE_D`\n";
    assert_eq!(documented(page), BTreeSet::from(["KOZE_A".to_owned()]));
}
