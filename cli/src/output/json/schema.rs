//! The committed schema is what the types say.

use schemars::generate::SchemaSettings;

use super::Document;

/// Where the schema is committed.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../schema/build.schema.json");

fn generated() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<Document>();
    schema.insert("title".to_owned(), "koze --format json".into());
    serde_json::to_string_pretty(&schema).expect("plain data") + "\n"
}

#[test]
fn the_committed_schema_is_that_of_the_types() {
    let schema = generated();
    if std::env::var_os("KOZE_BLESS").is_some() {
        fs_err::write(FILE, &schema).expect("the schema's file");
    }
    let committed = fs_err::read_to_string(FILE).expect("schema/build.schema.json");
    assert_eq!(committed, schema, "run `KOZE_BLESS=1 cargo test -p koze-cli schema`");
}
