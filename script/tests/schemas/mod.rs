//! The schemas of tools, compared with another implementation of JSON Schema.

use koze_script::Limits;
use koze_script::limits::Limit;
use koze_script::protocol::{Check, Failure, Json, Start, ToScript};
use serde_json::{Value, json};

use super::send;

/// Checks a schema.
fn check(schema: &Value) -> Result<(), Failure> {
    send(ToScript::Check(Check::Schema(Json::from(schema)))).done.map(drop)
}

/// Checks arguments. The script returns them.
fn validate(schema: &Value, args: &Value) -> Result<Value, Failure> {
    validate_within(Limits { time_ms: 300, ..Limits::default() }, schema, args)
}

fn validate_within(limits: Limits, schema: &Value, args: &Value) -> Result<Value, Failure> {
    let [schema, args] = [schema, args].map(|value| Some(Json::from(value)));
    send(ToScript::Start(Start { code: "args".into(), args, schema, limits, ..Start::default() })).done
}

#[test]
fn arguments_are_validated() {
    let schema = json!({
        "type": "object",
        "properties": { "n": { "$ref": "#/$defs/number" }, "s": { "type": "string", "pattern": "^a+$" } },
        "required": ["n"], "additionalProperties": false,
        "$defs": { "number": { "type": "integer", "minimum": 1 } },
    });
    let args = json!({ "n": 1, "s": "aa" });
    assert_eq!(validate(&schema, &args), Ok(args));
    for (args, part) in [
        (json!({}), "\"n\" is a required property"),
        (json!({ "n": 0 }), "/n: 0 is less than the minimum of 1"),
        (json!({ "n": 1, "s": "b" }), "/s: "),
        (json!({ "n": 1, "x": 1 }), "Additional properties are not allowed"),
        (json!([]), "is not of type \"object\""),
        (json!(null), "null is not of type \"object\""),
    ] {
        let error = validate(&schema, &args).unwrap_err();
        assert!(error.arguments && error.message.contains(part), "{error:?}");
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
        (json!({ "type": "object", "$ref": "#/$defs/toString", "$defs": {} }), "refers to nothing"),
        (
            json!({ "type": "object", "$ref": "#/undefined/a", "undefined": { "a": true } }),
            "refers to nothing",
        ),
        (json!({ "type": "string" }), "\"type\": \"object\""),
        (json!(true), "\"type\": \"object\""),
        (nested(8), "too complex"),
    ] {
        let error = check(&schema).expect_err(part);
        assert!(error.message.contains(part), "{error:?}");
    }
}

/// Schemas of a property.
fn schemas() -> Vec<Value> {
    let mut all = vec![
        json!(true),
        json!(false),
        json!({}),
        json!({ "description": "only", "default": 1, "examples": [1], "format": "email", "x-mine": 1 }),
        json!({ "enum": [1, "a", null, { "a": 1, "b": [2] }, []] }),
        json!({ "enum": [] }),
        json!({ "const": 1 }),
        json!({ "const": { "b": [2], "a": 1.0 } }),
        json!({ "const": null }),
        json!({ "minimum": 1 }),
        json!({ "maximum": 1.5 }),
        json!({ "exclusiveMinimum": 1, "exclusiveMaximum": 3 }),
        json!({ "multipleOf": 2 }),
        json!({ "multipleOf": 0.1 }),
        json!({ "minLength": 2, "maxLength": 3 }),
        json!({ "minLength": 1.0 }),
        json!({ "pattern": "^a+$" }),
        json!({ "pattern": "b" }),
        json!({ "minItems": 1, "maxItems": 2 }),
        json!({ "uniqueItems": true }),
        json!({ "uniqueItems": false }),
        json!({ "prefixItems": [{ "type": "integer" }, { "type": "string" }] }),
        json!({ "prefixItems": [{ "type": "integer" }], "items": { "type": "string" } }),
        json!({ "prefixItems": [true, true], "items": false }),
        json!({ "items": { "minimum": 2 } }),
        json!({ "contains": { "type": "string" } }),
        json!({ "contains": { "type": "integer" }, "minContains": 2 }),
        json!({ "contains": { "type": "integer" }, "minContains": 0, "maxContains": 1 }),
        json!({ "minContains": 2 }),
        json!({ "minProperties": 1, "maxProperties": 1 }),
        json!({ "required": ["a", "b"] }),
        json!({ "dependentRequired": { "a": ["b"] } }),
        json!({ "propertyNames": { "maxLength": 1 } }),
        json!({ "properties": { "a": { "type": "integer" } } }),
        json!({ "properties": { "a": true }, "additionalProperties": false }),
        json!({ "patternProperties": { "^a": { "type": "integer" } }, "additionalProperties": { "type": "string" } }),
        json!({ "additionalProperties": false }),
        json!({ "additionalProperties": { "type": "array" } }),
        json!({ "allOf": [{ "type": "number" }, { "minimum": 2 }] }),
        json!({ "anyOf": [{ "type": "string" }, { "minimum": 2 }] }),
        json!({ "oneOf": [{ "type": "integer" }, { "minimum": 2 }] }),
        json!({ "not": { "type": ["string", "null"] } }),
        json!({ "if": { "type": "integer" }, "then": { "minimum": 2 }, "else": { "type": "string" } }),
        json!({ "if": { "type": "integer" }, "else": { "type": "array" } }),
        json!({ "then": false, "else": false }),
        json!({ "$ref": "#/$defs/d" }),
        json!({ "$ref": "#/$defs/d", "maximum": 5 }),
        json!({ "items": { "properties": { "a": { "items": { "$ref": "#/$defs/d" } } } } }),
    ];
    for kind in ["null", "boolean", "object", "array", "number", "integer", "string"] {
        all.push(json!({ "type": kind }));
        if kind != "integer" {
            all.push(json!({ "type": [kind, "integer"] }));
        }
    }
    // And what they exclude.
    let negated: Vec<Value> = all.iter().map(|schema| json!({ "not": schema })).collect();
    all.extend(negated);
    all
}

fn values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(1.0),
        json!(1.5),
        json!(2),
        json!(3),
        json!(-4),
        json!(0.3),
        json!(1e300),
        json!(9_007_199_254_740_991_u64),
        json!(""),
        json!("a"),
        json!("aa"),
        json!("aüaü"),
        json!("b"),
        json!([]),
        json!([1]),
        json!([1, 1.0]),
        json!(["a", 1]),
        json!([1, "a"]),
        json!([1, "a", true]),
        json!([2, 3, 4]),
        json!([{ "a": 1, "b": 2 }, { "b": 2, "a": 1 }]),
        json!([{ "a": [3, 0] }]),
        json!({}),
        json!({ "a": 1 }),
        json!({ "a": 1, "b": [2] }),
        json!({ "b": [2], "a": 1 }),
        json!({ "a": "a" }),
        json!({ "ab": 1 }),
        json!({ "c": [] }),
        json!({ "a": null, "c": "d" }),
    ]
}

#[test]
fn another_implementation_agrees() {
    let mut counts = [0, 0];
    for property in schemas() {
        let defs = json!({ "d": { "type": "integer", "minimum": 1 } });
        let schema = json!({ "type": "object", "properties": { "p": property }, "$defs": defs });
        assert_eq!(check(&schema), Ok(()), "{schema}");
        if property["enum"] == json!([]) {
            continue;
        }
        let other = jsonschema::draft202012::new(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
        let (valid, invalid): (Vec<_>, Vec<_>) =
            values().into_iter().partition(|value| other.is_valid(&json!({ "p": value })));
        counts[0] += invalid.len();
        counts[1] += valid.len();
        // All of them in one run.
        let schema = json!({
            "type": "object", "$defs": defs,
            "properties": { "valid": { "items": property }, "invalid": { "items": { "not": property } } },
        });
        let args = json!({ "valid": valid, "invalid": invalid });
        assert_eq!(validate(&schema, &args).map(drop), Ok(()), "{property}: {args}");
    }
    assert!(counts.iter().all(|count| *count > 1000), "{counts:?}");
}

#[test]
fn invalid_schemas_are_refused() {
    for property in [
        json!(1),
        json!({ "type": 1 }),
        json!({ "type": [] }),
        json!({ "enum": 1 }),
        json!({ "minimum": "1" }),
        json!({ "exclusiveMinimum": true }),
        json!({ "multipleOf": 0 }),
        json!({ "minLength": -1 }),
        json!({ "maxItems": 1.5 }),
        json!({ "pattern": "(" }),
        json!({ "uniqueItems": 1 }),
        json!({ "items": [{}] }),
        json!({ "prefixItems": {} }),
        json!({ "required": "a" }),
        json!({ "required": [1] }),
        json!({ "properties": [] }),
        json!({ "patternProperties": { "(": {} } }),
        json!({ "allOf": [] }),
        json!({ "anyOf": {} }),
        json!({ "not": 1 }),
        json!({ "if": 1 }),
        json!({ "$defs": { "a": 1 } }),
    ] {
        let schema = json!({ "type": "object", "properties": { "p": property } });
        let error = check(&schema).expect_err(&property.to_string());
        assert!(error.message.contains("not a valid JSON schema"), "{property}: {error:?}");
        assert!(jsonschema::draft202012::new(&schema).is_err(), "{property}");
    }
    let schema = json!({ "type": "object", "unevaluatedProperties": false });
    let error = check(&schema).unwrap_err();
    assert!(
        error.message.contains("`unevaluatedProperties`") && error.message.contains("not supported"),
        "{error:?}"
    );
    let mut deep = json!({});
    for _ in 0..120 {
        deep = json!({ "items": deep });
    }
    let error = check(&json!({ "type": "object", "properties": { "p": deep } })).unwrap_err();
    assert!(error.message.contains("too complex"), "{error:?}");
}

#[test]
fn arguments_cannot_run_away() {
    let many = vec![json!({ "type": "string" }); 1000];
    let schema = json!({ "type": "object", "properties": { "p": { "items": { "anyOf": many } } } });
    let error = validate(&schema, &json!({ "p": vec![1; 100_000] })).unwrap_err();
    assert_eq!(error.limit, Some(Limit::Time), "{error:?}");
    let schema = json!({ "type": "object", "properties": { "p": { "pattern": "(x+x+)+y" } } });
    let error = validate(&schema, &json!({ "p": "x".repeat(100) })).unwrap_err();
    assert_eq!(error.limit, Some(Limit::Time), "{error:?}");
    assert!(error.arguments && error.message.contains("take too long to check"), "{error:?}");
    // A pattern that does not fit into the memory changes no verdict.
    let large = |letter: char| format!("^[^{letter}]*{}$|a", "\\p{L}".repeat(3000));
    let properties: serde_json::Map<_, _> =
        ('a'..='m').map(|name| (name.to_string(), json!({ "pattern": large(name) }))).collect();
    let schema = json!({ "type": "object", "properties": properties });
    let limits = Limits { memory: 4 << 20, ..Limits::default() };
    let error = validate_within(limits, &schema, &json!({ "m": "é" })).unwrap_err();
    assert_eq!((error.limit, error.arguments), (Some(Limit::Memory), true), "{error:?}");
    assert!(error.message.contains("need too much memory to check"), "{error:?}");
    // Long values are cut in messages.
    let schema = json!({ "type": "object", "properties": { "p": { "type": "number" } } });
    let error = validate(&schema, &json!({ "p": "😀".repeat(100_000) })).unwrap_err();
    assert!(error.message.contains("is not of type") && error.message.len() < 600, "{error:?}");
    let error = validate(&json!({ "type": "object", "maxProperties": 0 }), &json!({ "a": 1 })).unwrap_err();
    assert!(error.arguments, "{error:?}");
}

#[test]
fn patterns_are_those_of_javascript() {
    for (pattern, matching, other) in [
        ("^(?!admin).*$", "user", "administrator"),
        ("(a)\\1", "aa", "ab"),
        ("^\\p{Lu}", "Ä", "ä"),
        ("^.$", "😀", "ab"),
    ] {
        let schema = json!({ "type": "object", "properties": { "p": { "pattern": pattern } } });
        assert_eq!(check(&schema), Ok(()), "{pattern}");
        let valid = |text: &str| validate(&schema, &json!({ "p": text }));
        assert_eq!(valid(matching), Ok(json!({ "p": matching })), "{pattern}");
        assert!(valid(other).unwrap_err().message.contains("does not match"), "{pattern}");
    }
    // Without the flag `u`, these are patterns of JavaScript, too, but mean something else than elsewhere.
    for pattern in ["^a\\-b$", "\\Aa\\z", "(?i)a", "^\\p{L}\\-\\p{L}$"] {
        let error = check(&json!({ "type": "object", "properties": { "p": { "pattern": pattern } } }));
        assert!(
            error.unwrap_err().message.contains("must be a regular expression of JavaScript"),
            "{pattern}"
        );
    }
}

#[test]
fn messages_are_bounded() {
    let names: Vec<String> = (0..1000).map(|name| format!("name{name}")).collect();
    let args: Value =
        names.iter().map(|name| (name.clone(), json!(1))).collect::<serde_json::Map<_, _>>().into();
    for schema in [
        json!({ "type": "object", "required": names.iter().map(|name| format!("{name}x")).collect::<Vec<_>>() }),
        json!({ "type": "object", "additionalProperties": false }),
        json!({ "type": "object", "additionalProperties": { "enum": names } }),
        json!({ "type": "object", "additionalProperties": { "pattern": "(".repeat(50_000) } }),
        json!({ "type": "object", "required": ["x".repeat(50_000)] }),
        json!({ "type": "object", "$ref": "x".repeat(50_000) }),
    ] {
        let error = validate(&schema, &args).unwrap_err();
        assert!(error.arguments && error.message.len() < 5000 && !error.message.ends_with('…'), "{error:?}");
    }
}

#[test]
fn places_are_named() {
    let schema = json!({
        "type": "object",
        "properties": { "a/b": { "items": { "properties": { "n": { "type": "integer" } }, "required": ["m"] } } },
    });
    let error = validate(&schema, &json!({ "a/b": [{ "m": 1 }, { "n": "x" }] })).unwrap_err();
    assert_eq!(
        error.message,
        "the arguments do not match `parameter_schema`: /a~1b/1/n: \"x\" is not of type \"integer\"; /a~1b/1: \"m\" is a required property"
    );
}
