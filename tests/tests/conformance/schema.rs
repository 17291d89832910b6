//! The tool definitions that a model receives.

use koze_core::tool::dialect::{Definition, Dialect};
use koze_core::tool::{All, Catalog};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::in_process::profiles;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("the_definitions_are_as_committed", || {
            as_committed();
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
    let text = format!("{:#}\n", Value::Array(definitions));
    let path = koze_tests::root().join("tests/tests/conformance/agent.json");
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
    assert_eq!(definitions.len(), 8);
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
