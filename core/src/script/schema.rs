//! The schemas of created tools. An agent writes both the schema and the arguments, so neither may cost more than a moment.

use std::collections::BTreeMap;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::error::{Code, Error, Result};

/// The longest schema, and the longest arguments, in bytes of JSON.
const MAX_SCHEMA: usize = 64 << 10;
const MAX_ARGUMENTS: usize = 1 << 20;
/// How many parts a schema has when each reference is replaced by what it refers to.
const MAX_PARTS: usize = 10_000;
/// Keywords that refer to something else than a definition of the same schema.
const REFERRING: &[&str] =
    &["$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"];
/// Where the definitions are that `$ref` can name.
const DEFINITIONS: &[&str] = &["$defs", "definitions"];

/// Checks the schema of a tool.
pub(crate) fn check(schema: &Value) -> Result<()> {
    validator(schema).map(drop)
}

/// Checks the arguments of a tool. Names every place that is wrong, up to ten.
pub(crate) fn validate(schema: &Value, args: &Value) -> Result<()> {
    if args.to_string().len() > MAX_ARGUMENTS {
        let message = format!(
            "the arguments may have at most {MAX_ARGUMENTS} bytes of JSON: pass less, or store it with set_state"
        );
        return Err(Error::new(Code::TooLarge, message));
    }
    let validator = validator(schema)?;
    let said = |error: jsonschema::ValidationError<'_>| match error.instance_path().as_str() {
        "" => error.to_string(),
        path => format!("{path}: {error}"),
    };
    let errors: Vec<String> = validator.iter_errors(args).take(10).map(said).collect();
    if errors.is_empty() {
        return Ok(());
    }
    Err(invalid(&format!("the arguments do not match `parameter_schema`: {}", errors.join("; "))))
}

fn validator(schema: &Value) -> Result<Validator> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(invalid("`parameter_schema` must be a JSON schema with `\"type\": \"object\"`"));
    }
    if schema.to_string().len() > MAX_SCHEMA {
        return Err(invalid(&format!("`parameter_schema` may have at most {MAX_SCHEMA} bytes of JSON")));
    }
    References { root: schema, known: BTreeMap::new() }.parts(schema)?;
    // Regular expressions without backtracking.
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
    options.build(schema).map_err(|error| {
        invalid(&format!("`parameter_schema` is not a valid JSON schema: {}: {error}", error.instance_path()))
    })
}

fn invalid(message: &str) -> Error {
    Error::new(Code::InvalidInput, message)
}

/// Counts the parts of a schema with its references, which must not be circular.
struct References<'a> {
    root: &'a Value,
    /// The parts of each definition; `None` while they are counted.
    known: BTreeMap<String, Option<usize>>,
}

impl References<'_> {
    fn parts(&mut self, value: &Value) -> Result<usize> {
        let mut parts = 1;
        match value {
            Value::Array(items) => {
                for item in items {
                    parts += self.parts(item)?;
                }
            }
            Value::Object(fields) => {
                for (key, field) in fields {
                    if REFERRING.contains(&key.as_str()) && field.is_string() {
                        return Err(invalid(&format!("`parameter_schema` must not have `{key}`")));
                    }
                    parts += match (key.as_str(), field) {
                        ("$ref", Value::String(to)) => self.referred(to)?,
                        _ => self.parts(field)?,
                    };
                }
            }
            _ => {}
        }
        if parts > MAX_PARTS {
            return Err(invalid("`parameter_schema` is too complex: use fewer references"));
        }
        Ok(parts)
    }

    fn referred(&mut self, to: &str) -> Result<usize> {
        match self.known.get(to) {
            Some(Some(parts)) => return Ok(*parts),
            Some(None) => {
                return Err(invalid(&format!(
                    "`$ref` to `{to}` in `parameter_schema` is circular: write the levels out"
                )));
            }
            None => {}
        }
        let root = self.root;
        let name = DEFINITIONS
            .iter()
            .find_map(|place| to.strip_prefix(&format!("#/{place}/")).map(|name| (place, name)));
        let found = name.and_then(|(place, name)| root.get(place)?.get(name));
        let Some(found) = found else {
            let message = format!(
                "`$ref` to `{to}` in `parameter_schema` refers to nothing: it can be `#/$defs/NAME`, and nothing outside of the schema"
            );
            return Err(invalid(&message));
        };
        self.known.insert(to.to_owned(), None);
        let parts = self.parts(found)?;
        self.known.insert(to.to_owned(), Some(parts));
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_validated() {
        let schema = json!({
            "type": "object",
            "properties": { "n": { "$ref": "#/$defs/number" }, "s": { "type": "string", "pattern": "^a+$" } },
            "required": ["n"], "additionalProperties": false,
            "$defs": { "number": { "type": "integer", "minimum": 1 } },
        });
        assert_eq!(validate(&schema, &json!({ "n": 1, "s": "aa" })), Ok(()));
        for (args, part) in [
            (json!({}), "\"n\" is a required property"),
            (json!({ "n": 0 }), "/n: 0 is less than the minimum of 1"),
            (json!({ "n": 1, "s": "b" }), "/s: "),
            (json!({ "n": 1, "x": 1 }), "Additional properties are not allowed"),
            (json!([]), "is not of type \"object\""),
        ] {
            let error = validate(&schema, &args).unwrap_err();
            assert!(error.code == Code::InvalidInput && error.message.contains(part), "{error}");
        }
    }

    #[test]
    fn schemas_cannot_reach_out_or_run_away() {
        let nested = |levels: usize| {
            let level =
                |at: usize| json!({ "allOf": vec![json!({ "$ref": format!("#/$defs/d{}", at + 1) }); 10] });
            let mut defs: serde_json::Map<String, Value> =
                (0..levels).map(|at| (format!("d{at}"), level(at))).collect();
            defs.insert(format!("d{levels}"), json!({}));
            json!({ "type": "object", "$ref": "#/$defs/d0", "$defs": defs })
        };
        assert_eq!(check(&nested(2)), Ok(()));
        for (schema, part) in [
            (json!({ "type": "object", "$ref": "http://127.0.0.1/x" }), "nothing outside"),
            (json!({ "type": "object", "$ref": "file:///etc/passwd" }), "nothing outside"),
            (json!({ "type": "object", "$ref": "#" }), "nothing outside"),
            (json!({ "type": "object", "$id": "http://127.0.0.1/x" }), "`$id`"),
            (
                json!({ "type": "object", "$ref": "#/$defs/a", "$defs": { "a": { "items": { "$ref": "#/$defs/a" } } } }),
                "circular",
            ),
            (
                json!({ "type": "object", "properties": { "a": { "type": "nothing" } } }),
                "not a valid JSON schema",
            ),
            (
                json!({ "type": "object", "properties": { "a": { "pattern": "(a)\\1" } } }),
                "not a valid JSON schema",
            ),
            (json!({ "type": "string" }), "\"type\": \"object\""),
            (json!(true), "\"type\": \"object\""),
            (nested(8), "too complex"),
        ] {
            let error = check(&schema).expect_err(part);
            assert!(error.message.contains(part), "{error}");
        }
    }
}
