//! Checks that the page that lists the attribute's keys matches the code.

use koze_model::attrs::KEYS;

const START: &str = "<!-- keys: written by `KOZE_BLESS=1 cargo test -p koze-model` -->\n";
const END: &str = "<!-- /keys -->";

const PAGE: &str = "docs/attribute.md";

#[test]
fn the_page_lists_every_key() {
    let rows = KEYS.iter().map(|key| format!("| `{}` | {} | `{}` |\n", key.name, key.meaning, key.example));
    let table = format!("\n| key | meaning | example |\n|---|---|---|\n{}\n", rows.collect::<String>());
    let path = format!("{}/../{PAGE}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let start = text.find(START).expect("the page marks where the keys begin") + START.len();
    let end = text.find(END).expect("the page marks where the keys end");
    if std::env::var_os("KOZE_BLESS").is_some() {
        std::fs::write(path, format!("{}{table}{}", &text[..start], &text[end..])).unwrap();
    } else {
        assert_eq!(&text[start..end], table, "{PAGE}: run with KOZE_BLESS=1 to update the table");
    }
}
