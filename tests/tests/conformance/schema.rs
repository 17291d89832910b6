//! The tool definitions that a model receives.

use koze_core::tool::dialect::{Definition, Dialect};
use koze_core::tool::{All, Catalog};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::in_process::profiles;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("the_definitions_are_as_committed", || {
            as_committed();
            Ok(())
        })
        .with_kind("schema"),
        Trial::test("the_definitions_of_threads_are_as_committed", || {
            threads();
            Ok(())
        })
        .with_kind("schema"),
        Trial::test("each_dialect_has_its_words", || {
            dialects();
            Ok(())
        })
        .with_kind("schema"),
    ]
}

/// Compares them with a committed file, because changes affect models. `KOZE_BLESS=1` rewrites it.
fn as_committed() {
    let definitions: Vec<Value> =
        definitions().iter().map(|definition| definition.to_json(Dialect::Mcp)).collect();
    committed("agent.json", &Value::Array(definitions));
}

/// The same for the family `thread`, in all dialects. `description` comes first, in the schema and in `required`.
fn threads() {
    let profiles = profiles();
    let definitions =
        Catalog::<All>::select(&profiles, Some("thread")).expect("the family").definitions(&profiles);
    for definition in &definitions {
        let properties = definition.schema["properties"].as_object().expect("an object");
        assert_eq!(properties.keys().next().map(String::as_str), Some("description"), "{}", definition.name);
        assert_eq!(definition.schema["required"][0], "description", "{}", definition.name);
        assert_eq!(definition.schema["additionalProperties"], false, "{}", definition.name);
    }
    in_every_dialect("thread.json", &definitions);
}

/// Compares definitions in all dialects with a committed file.
pub(crate) fn in_every_dialect(file: &str, definitions: &[Definition]) {
    let in_dialect =
        |dialect| Value::from(definitions.iter().map(|tool| tool.to_json(dialect)).collect::<Vec<_>>());
    let all = json!({
        "mcp": in_dialect(Dialect::Mcp),
        "anthropic": in_dialect(Dialect::Anthropic),
        "openai": in_dialect(Dialect::OpenAi),
    });
    committed(file, &all);
}

fn committed(file: &str, definitions: &Value) {
    let text = format!("{definitions:#}\n");
    let path = koze_tests::root().join("tests/tests/conformance").join(file);
    if std::env::var_os("KOZE_BLESS").is_some() {
        fs_err::write(path, text).expect("the file");
        return;
    }
    let there = fs_err::read_to_string(path).unwrap_or_default();
    assert_eq!(there, text, "run with KOZE_BLESS=1 to update the file");
}

fn definitions() -> Vec<Definition> {
    let profiles = profiles();
    Catalog::<All>::select(&profiles, None).expect("the agent family").definitions(&profiles)
}

fn dialects() {
    let definitions = definitions();
    assert_eq!(definitions.len(), 12);
    for definition in &definitions {
        let schema = &definition.schema;
        assert_eq!(schema["type"], "object", "{}", definition.name);
        assert_eq!(schema["additionalProperties"], false, "{}", definition.name);
        assert_eq!(definition.to_json(Dialect::Mcp)["inputSchema"], *schema);
        assert_eq!(definition.to_json(Dialect::Anthropic)["input_schema"], *schema);
        let function = &definition.to_json(Dialect::OpenAi)["function"];
        assert_eq!((&function["parameters"], &function["name"]), (schema, &Value::from(&*definition.name)));
    }
}
