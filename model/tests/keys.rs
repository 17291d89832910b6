//! Checks that the pages that list the keys of the attributes match the code.

use koze_model::Kind;
use koze_model::attrs::Key;

const START: &str = "<!-- keys: written by `KOZE_BLESS=1 cargo test -p koze-model` -->\n";
const END: &str = "<!-- /keys -->";

#[test]
fn the_page_of_sandboxes_lists_every_key() {
    check("docs/attribute.md", Kind::Sandbox);
}

#[test]
fn the_page_of_containers_lists_every_key() {
    check("docs/containers.md", Kind::Container);
}

fn check(page: &str, kind: Kind) {
    let rows = Key::all(kind)
        .into_iter()
        .map(|key| format!("| `{}` | {} | `{}` |\n", key.name, key.meaning, key.example));
    let table = format!("\n| key | meaning | example |\n|---|---|---|\n{}\n", rows.collect::<String>());
    let path = format!("{}/../{page}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let start = text.find(START).expect("the page marks where the keys begin") + START.len();
    let end = text.find(END).expect("the page marks where the keys end");
    if std::env::var_os("KOZE_BLESS").is_some() {
        std::fs::write(path, format!("{}{table}{}", &text[..start], &text[end..])).unwrap();
    } else {
        assert_eq!(&text[start..end], table, "{page}: run with KOZE_BLESS=1 to update the table");
    }
}
