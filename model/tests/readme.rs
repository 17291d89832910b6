//! The README lists the attribute's keys as the code has them.

use koze_model::attrs::KEYS;

const START: &str = "<!-- keys: written by `KOZE_BLESS=1 cargo test -p koze-model` -->\n";
const END: &str = "<!-- /keys -->";

#[test]
fn the_readme_lists_every_key() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    let start = readme.find(START).expect("the README marks where the keys begin") + START.len();
    let end = readme.find(END).expect("the README marks where the keys end");

    let rows = KEYS.iter().map(|key| format!("| `{}` | {} | `{}` |\n", key.name, key.meaning, key.example));
    let table = format!("\n| key | meaning | example |\n|---|---|---|\n{}\n", rows.collect::<String>());
    if std::env::var_os("KOZE_BLESS").is_some() {
        std::fs::write(path, format!("{}{table}{}", &readme[..start], &readme[end..])).unwrap();
    } else {
        assert_eq!(&readme[start..end], table, "run with KOZE_BLESS=1 to write the table anew");
    }
}
