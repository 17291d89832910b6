//! Replays the seeds of the fuzz targets, and inputs that once failed, without a fuzzer.

use std::path::PathBuf;

use fs_err as fs;
use koze_edit::Format;

use crate::input::check;

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Checks the inputs of a target, which include one for each configuration in the fixtures.
fn replay(format: Format, target: &str, ending: &str) {
    let corpus = root().join("fuzz/corpus").join(target);
    for (name, input) in of_fixtures(ending) {
        if std::env::var_os("KOZE_BLESS").is_some() {
            fs::create_dir_all(&corpus).expect("the corpus");
            fs::write(corpus.join(&name), &input).expect("an input");
        }
        let committed = fs::read(corpus.join(&name)).unwrap_or_default();
        assert!(
            committed == input,
            "{name}: run `KOZE_BLESS=1 cargo test -p koze-edit --test preserve corpus`"
        );
    }
    for entry in fs::read_dir(&corpus).expect("the corpus") {
        let path = entry.expect("an entry").path();
        println!("{}", path.display());
        check(format, &fs::read(&path).expect("an input"));
    }
}

/// Returns the configurations in the fixtures, each followed by its own edits.
fn of_fixtures(ending: &str) -> Vec<(String, Vec<u8>)> {
    let mut inputs = Vec::new();
    for fixture in fs::read_dir(root().join("fixtures")).expect("the fixtures") {
        let fixture = fixture.expect("an entry").path();
        for side in ["before", "after"] {
            let Ok(mut input) = fs::read(fixture.join(side).join(format!("wrangler.{ending}"))) else {
                continue;
            };
            let name = format!("{}-{side}", fixture.file_name().unwrap_or_default().to_string_lossy());
            input.push(0);
            let edits = name.bytes().cycle().take(20).enumerate();
            input.extend(edits.map(|(place, byte)| if place % 5 == 1 { 0 } else { byte }));
            inputs.push((name, input));
        }
    }
    assert!(!inputs.is_empty(), "no fixture has a wrangler.{ending}");
    inputs
}

#[test]
fn corpus_of_the_jsonc_target() {
    replay(Format::Jsonc, "jsonc", "jsonc");
}

#[test]
fn corpus_of_the_toml_target() {
    replay(Format::Toml, "toml", "toml");
}
