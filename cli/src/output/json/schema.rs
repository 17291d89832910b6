//! Checks that the committed schemas match the types.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

use super::proof::Proof;
use super::{Document, Examination};

/// Compares the schema of a type with `schema/<name>.schema.json`, or writes it with `KOZE_BLESS`.
fn check_committed<T: JsonSchema>(name: &str, title: &str) {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    let schema = serde_json::to_string_pretty(&schema).expect("plain data") + "\n";
    let file = format!("{}/../schema/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("KOZE_BLESS").is_some() {
        fs_err::write(&file, &schema).expect("the schema's file");
    }
    let committed = fs_err::read_to_string(&file).expect("a committed schema");
    assert_eq!(committed, schema, "run `KOZE_BLESS=1 cargo test -p koze-cli schema`");
}

#[test]
fn the_committed_schemas_match_the_types() {
    check_committed::<Document>("build", "koze build --format json");
    check_committed::<Examination>("doctor", "koze doctor --format json");
    check_committed::<Proof>("prove", "koze doctor --prove --format json");
}
