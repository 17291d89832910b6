//! What an engine checks before it runs a script. Every engine passes these cases, as those of `cases`.

use koze_script::limits;
use koze_script::protocol::{Check, Failure, Json, Start, ToScript};
use serde_json::{Value, json};

use super::native::Ran;
use super::send;

#[test]
fn source_is_checked_without_running_it() {
    let check = |check| send(ToScript::Check(check)).done;
    let script = |code: &str| check(Check::Script(code.into()));
    let library = |code: &str| check(Check::Library(code.into()));
    assert_eq!(script("return await fetch(args.url)"), Ok(Value::Null));
    assert_eq!(script("for (;;) ;"), Ok(Value::Null));
    assert_eq!(library("exports.a = 1"), Ok(Value::Null));
    assert_eq!(library("await 1").unwrap_err().place.unwrap().line, 1);
    assert_eq!(script("\n\nlet a = ;").unwrap_err().place.unwrap().line, 3);
    let long = script(&" ".repeat(limits::CODE + 1)).unwrap_err();
    assert!(long.message.contains("may have at most 262144"), "{long:?}");
}

#[test]
fn arguments_are_checked_before_the_script_runs() {
    let schema = json!({
        "type": "object", "properties": { "n": { "type": "integer" }, "s": { "pattern": "^(?!b)\\p{L}+$" } },
        "required": ["n"], "additionalProperties": false,
    });
    let call = |schema: &Value, args: Value| {
        let [schema, args] = [schema, &args].map(|value| Some(Json::from(value)));
        // Nothing of the check is left for the script to see.
        let code = "console.log('runs'); [args.n, Object.keys(globalThis)]".into();
        send(ToScript::Start(Start { code, schema, args, ..Start::default() }))
    };
    let Ran { done, logs } = call(&schema, json!({ "n": 1, "s": "ä" }));
    assert_eq!((done, logs), (Ok(json!([1, []])), vec!["runs".to_owned()]));
    for (schema, args, message) in [
        (
            &schema,
            json!({ "n": 1.5 }),
            "the arguments do not match `parameter_schema`: /n: 1.5 is not of type \"integer\"",
        ),
        (
            &schema,
            json!({ "n": 1, "s": "b" }),
            "the arguments do not match `parameter_schema`: /s: \"b\" does not match \"^(?!b)\\p{L}+$\"",
        ),
        (
            &schema,
            json!(null),
            "the arguments do not match `parameter_schema`: null is not of type \"object\"",
        ),
        (&json!(null), json!({}), "`parameter_schema` must be a JSON schema with `\"type\": \"object\"`"),
        (&json!(1), json!({}), "`parameter_schema` must be a JSON schema with `\"type\": \"object\"`"),
    ] {
        let Ran { done, logs } = call(schema, args);
        assert_eq!(done, Err(Failure { arguments: true, ..Failure::new(message.into()) }));
        assert!(logs.is_empty(), "{logs:?}");
    }
    let check = |schema: Value| send(ToScript::Check(Check::Schema(Json::from(&schema)))).done;
    assert_eq!(check(schema), Ok(Value::Null));
    let wrong = check(json!({ "type": "object", "required": 1 })).unwrap_err();
    assert_eq!(
        wrong.message,
        "`parameter_schema` is not a valid JSON schema: `required` must be a list of names"
    );
}
