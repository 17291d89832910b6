//! Cases of the editor.

use std::fmt::Write as _;

use koze_edit::{Document, Edit, Format, Path, path};
use serde_json::{Value, json};

fn set(path: Path, value: Value) -> Edit {
    Edit::Set { path, value }
}

fn push(path: Path, value: Value) -> Edit {
    Edit::Push { path, value }
}

fn remove(path: Path) -> Edit {
    Edit::Remove { path }
}

#[track_caller]
fn check(format: Format, before: &str, edits: &[Edit], after: &str) {
    let document = Document::parse(format, before).expect("the text before is valid");
    let result = document.apply(edits);
    assert_eq!(result, after, "\n--- got\n{result}\n--- want\n{after}");
    Document::parse(format, result).expect("the text after is valid");
}

#[track_caller]
fn jsonc(before: &str, edits: &[Edit], after: &str) {
    check(Format::Jsonc, before, edits, after);
}

#[track_caller]
fn toml(before: &str, edits: &[Edit], after: &str) {
    check(Format::Toml, before, edits, after);
}

fn entry() -> Value {
    json!({ "name": "X", "class_name": "Y" })
}

#[test]
fn jsonc_set() {
    jsonc(r#"{"a" : 1 , "b":2}"#, &[set(path!["a"], json!("x"))], r#"{"a" : "x" , "b":2}"#);
    jsonc("{\n\t\"a\": {}\n}", &[set(path!["a"], json!({"b": 1}))], "{\n\t\"a\": {\n\t\t\"b\": 1\n\t}\n}");
    jsonc(r#"{"a":[1,{"b":2}]}"#, &[set(path!["a", 1, "b"], json!(3))], r#"{"a":[1,{"b":3}]}"#);
    let same = "{ \"a\" : {\"b\":[ 1,2 ] , \"c\":\"\\u0061\"} }";
    jsonc(same, &[set(path!["a"], json!({"c": "a", "b": [1, 2]}))], same);
}

#[test]
fn jsonc_insert_in_line() {
    jsonc(r#"{"a":1}"#, &[set(path!["b"], json!(2))], r#"{"a":1, "b": 2}"#);
    jsonc("[1 ]", &[push(path![], json!(2))], "[1, 2 ]");
    jsonc("[1 /* one */]", &[push(path![], json!(2))], "[1, /* one */ 2]");
    jsonc("[1 // one\n]", &[push(path![], json!(2))], "[1, // one\n2\n]");
    jsonc(r"[1,]", &[push(path![], json!(2)), push(path![], json!(3))], r"[1, 2, 3,]");
    jsonc(
        r#"{"c": [{ "name": "A" }]}"#,
        &[push(path!["c"], entry())],
        r#"{"c": [{ "name": "A" }, { "name": "X", "class_name": "Y" }]}"#,
    );
}

#[test]
fn jsonc_insert_lines() {
    jsonc("{\n  \"a\": 1 // note\n}", &[set(path!["b"], json!(2))], "{\n  \"a\": 1, // note\n  \"b\": 2\n}");
    jsonc(
        "{\r\n\t\"a\": 1,\r\n}",
        &[set(path!["b"], json!(["A"]))],
        "{\r\n\t\"a\": 1,\r\n\t\"b\": [\"A\"],\r\n}",
    );
    jsonc("\u{feff}{}", &[set(path!["a"], json!(1))], "\u{feff}{\n  \"a\": 1\n}");
    jsonc("{ /* none */ }", &[set(path!["a"], json!(1))], "{ /* none */\n  \"a\": 1\n}");
    jsonc("{\n    // none\n}", &[set(path!["a"], json!(1))], "{\n    // none\n    \"a\": 1\n}");
    jsonc(
        "{\n  \"a\": [\n    { \"name\": \"A\" } // first\n    // end\n  ]\n}\n",
        &[push(path!["a"], entry())],
        "{\n  \"a\": [\n    { \"name\": \"A\" }, // first\n    { \"name\": \"X\", \"class_name\": \"Y\" }\n    // end\n  ]\n}\n",
    );
    jsonc(
        "{\n    \"name\": \"w\"\n}\n",
        &[
            push(path!["durable_objects", "bindings"], entry()),
            push(path!["durable_objects", "bindings"], json!({})),
        ],
        "{\n    \"name\": \"w\",\n    \"durable_objects\": {\n        \"bindings\": [\n            {\n                \
         \"name\": \"X\",\n                \"class_name\": \"Y\"\n            },\n            {}\n        ]\n    }\n}\n",
    );
}

#[test]
fn jsonc_remove() {
    jsonc("[1, 2, 3]", &[remove(path![0])], "[2, 3]");
    jsonc("[1, 2, 3]", &[remove(path![1])], "[1, 3]");
    jsonc("[1, 2, 3]", &[remove(path![2])], "[1, 2]");
    jsonc("[ 1, 2, 3, ]", &[remove(path![2]), remove(path![1])], "[ 1, ]");
    jsonc("[ 1, 2 ]", &[remove(path![0]), remove(path![1])], "[]");
    jsonc("[ 1, 2 ]", &[remove(path![0]), remove(path![1]), push(path![], json!(3))], "[ 3 ]");
    // A document on one line stays there.
    let object = json!({"n": 1});
    let file = r#"{ "a": [], "b": { "c": [] }, "d": {} }"#;
    jsonc(file, &[push(path!["a"], object.clone())], r#"{ "a": [{ "n": 1 }], "b": { "c": [] }, "d": {} }"#);
    jsonc(file, &[push(path!["b", "c"], json!(2))], r#"{ "a": [], "b": { "c": [2] }, "d": {} }"#);
    jsonc(
        file,
        &[set(path!["d", "e"], object)],
        r#"{ "a": [], "b": { "c": [] }, "d": { "e": { "n": 1 } } }"#,
    );
    jsonc("{\n  \"a\": 1, // note\n  \"b\": 2\n}", &[remove(path!["a"])], "{\n  // note\n  \"b\": 2\n}");
    jsonc("{\n  \"a\": 1, // note\n  \"b\": 2\n}", &[remove(path!["b"])], "{\n  \"a\": 1 // note\n}");
    jsonc("{\n  \"a\": 1, // note\n  \"b\": 2 }", &[remove(path!["b"])], "{\n  \"a\": 1 // note\n }");
    jsonc("{\n  \"a\": /* why */ 1,\n  \"b\": 2\n}", &[remove(path!["a"])], "{\n  /* why */\n  \"b\": 2\n}");
    jsonc("[\n  1, 2,\n  3\n]", &[remove(path![0]), remove(path![1])], "[\n  3\n]");
    jsonc("[\n  1 // one\n  , 2\n]", &[remove(path![1])], "[\n  1 // one\n]");
    jsonc("{}", &[remove(path!["a"])], "{}");
}

#[test]
fn jsonc_last_of_equal_keys_wins() {
    let text = r#"{"a": 1, "b": 0, "a": {"c": 2}}"#;
    let document = Document::parse(Format::Jsonc, text).expect("valid");
    assert_eq!(document.value(), &json!({"a": {"c": 2}, "b": 0}));
    assert_eq!(document.range(&path!["a", "c"]).map(|range| &text[range]), Some("2"));
    assert_eq!(document.key_range(&path!["a"]), Some(17..20));
    jsonc(text, &[set(path!["a"], json!(3))], r#"{"a": 1, "b": 0, "a": 3}"#);
    jsonc(text, &[remove(path!["a"])], r#"{"b": 0}"#);
}

#[test]
fn jsonc_outer_edits_override_inner_ones() {
    let text = r#"{"a": {"b": [1]}}"#;
    jsonc(text, &[set(path!["a"], json!(1)), push(path!["a", "b"], json!(2))], r#"{"a": 1}"#);
    jsonc(text, &[remove(path!["a", "b"]), push(path!["a", "b"], json!(2))], r#"{"a": {}}"#);
}

#[test]
fn jsonc_errors_have_locations() {
    let error = |text: &str| {
        let error = Document::parse(Format::Jsonc, text).expect_err("invalid");
        (error.range, error.message)
    };
    assert_eq!(error("").0, 0..0);
    assert_eq!(error("\u{feff} // nothing").0, 14..14);
    assert_eq!(error("\u{feff}{'a': 1}").0, 4..5);
    assert_eq!(error("{\"a\": 1 \"b\": 2}").0, 7..7);
    assert_eq!(error("{\"a\":\u{a0}1}").0, 5..7);
    assert_eq!(error("[\"a\n\"]").0, 3..4);
    assert_eq!(error("[1e999]"), (1..6, "The number is out of range".to_owned()));
    assert!(Document::parse(Format::Jsonc, "[".repeat(100_000)).is_err());
    let deep = "[".repeat(400) + &"]".repeat(400);
    assert!(Document::parse(Format::Jsonc, deep).is_ok());
}

#[test]
fn toml_lines() {
    toml("a = 1 # one\n", &[set(path!["b"], json!("x"))], "a = 1 # one\nb = \"x\"\n");
    toml("a = 1 # one\r\nb = 2", &[set(path!["a"], json!(3)), remove(path!["b"])], "a = 3 # one");
    toml("", &[set(path!["a"], json!(1))], "a = 1\n");
    toml("# head\n\n[t]\nx = 1\n", &[set(path!["a"], json!(1))], "# head\n\na = 1\n\n[t]\nx = 1\n");
    toml(
        "[t]\nx = 1\n[t.u]\ny = 1\n",
        &[set(path!["t", "z"], json!(2))],
        "[t]\nx = 1\nz = 2\n[t.u]\ny = 1\n",
    );
    toml(
        "t.a.x = 1\ny = 2\n",
        &[set(path!["t", "a", "b c"], json!([1]))],
        "t.a.x = 1\nt.a.\"b c\" = [1]\ny = 2\n",
    );
    toml("[a.b]\n", &[set(path!["a", "x"], json!(2))], "[a.b]\n\n[a]\nx = 2\n");
    toml("a = { x = 1 }\n", &[set(path!["a", "y"], json!(2)), remove(path!["a", "x"])], "a = { y = 2 }\n");
    toml("a = 1 # note\nb = 2\n", &[remove(path!["a"])], "# note\nb = 2\n");
    toml("d = 1979-05-27\n", &[set(path!["d"], json!("1979-05-27"))], "d = 1979-05-27\n");
    toml("a = {}\n", &[set(path!["a", "b"], json!({"c": null, "d": []}))], "a = { b = { d = [] } }\n");
}

#[test]
fn toml_pushes() {
    let bindings = || push(path!["durable_objects", "bindings"], entry());
    toml(
        "name = \"w\"\n",
        &[bindings(), bindings()],
        "name = \"w\"\n\n[[durable_objects.bindings]]\nname = \"X\"\nclass_name = \"Y\"\n\n\
         [[durable_objects.bindings]]\nname = \"X\"\nclass_name = \"Y\"\n",
    );
    toml(
        "[durable_objects]\nbindings = [ { name = \"A\" } ]\n",
        &[bindings()],
        "[durable_objects]\nbindings = [ { name = \"A\" }, { name = \"X\", class_name = \"Y\" } ]\n",
    );
    toml(
        "[durable_objects]\nbindings = [\n    { name = \"A\" }, # first\n]\n",
        &[bindings()],
        "[durable_objects]\nbindings = [\n    { name = \"A\" }, # first\n    { name = \"X\", class_name = \"Y\" },\n]\n",
    );
    toml(
        "[[a]]\nx = 1\n[a.sub]\ny = 1\n# more\n\n# other\n[b]\n",
        &[push(path!["a"], json!({"x": 2})), set(path!["a", 0, "z"], json!({"v": 1}))],
        "[[a]]\nx = 1\n[a.sub]\ny = 1\n# more\n\n[a.z]\nv = 1\n\n[[a]]\nx = 2\n\n# other\n[b]\n",
    );
    toml("", &[push(path!["a", "b"], json!({"x": 2}))], "[[a.b]]\nx = 2\n");
    toml("a = 1", &[push(path!["b"], json!("x"))], "a = 1\nb = [\"x\"]");
}

#[test]
fn toml_tables() {
    toml("a = 1\n", &[set(path!["exports", "A"], json!({"x": 1}))], "a = 1\n\n[exports.A]\nx = 1\n");
    toml("[a]\nx = 1 # c\n\n[b]\n", &[remove(path!["a"])], "# c\n\n[b]\n");
    toml("# top\n[a]\nx = 1\n\n[a.c]\n\n[b]\n", &[remove(path!["a"])], "# top\n\n[b]\n");
    toml("[a]\nx = 1\n\n[b]\n", &[remove(path!["a"])], "[b]\n");
    toml("[a]\nx = 1\ny = 2\n[a.c]\n", &[set(path!["a"], json!({"z": 1}))], "[a]\nz = 1\n");
    toml("[[a]]\nx = 1\n\n[b]\n", &[set(path!["a"], json!([1]))], "a = [1]\n\n[b]\n");
    toml(
        "z = 1\n\n[a.b]\nx = 1\n",
        &[set(path!["a", "b"], json!(1)), set(path!["a", "c"], json!(2))],
        "z = 1\n\n[a]\nb = 1\nc = 2\n",
    );
    toml("[[a]]\n\n[[a]]\nx = 1\n", &[remove(path!["a"])], "");
    toml("a = 1\nb = 2\n", &[remove(path!["a"]), remove(path!["b"])], "");
    // The removed key was on the first line, and another line is inserted right after it.
    toml("a = 1\n[b]\n", &[remove(path!["a"]), set(path!["c"], json!(2))], "\nc = 2\n[b]\n");
    toml(
        "a.x = 1\nc = 1\n[b]\n",
        &[remove(path!["a", "x"]), remove(path!["c"]), set(path!["a", "y"], json!(2))],
        "\na.y = 2\n[b]\n",
    );
    toml(
        "[[a]]\nx = 1\n[b]\n",
        &[remove(path!["a", 0]), push(path!["a"], json!({"x": 2}))],
        "\n\n[[a]]\nx = 2\n[b]\n",
    );
    let text = "[[a]]\nx = 1\n\n[e.p]\nv = 2\n";
    let document = Document::parse(Format::Toml, text).expect("valid");
    let at = |path: Path| document.range(&path).map(|range| &text[range]);
    assert_eq!(at(path!["a", 0]), Some("[[a]]"));
    assert_eq!(at(path!["e", "p"]), Some("[e.p]"));
    assert_eq!(at(path!["e", "p", "v"]), Some("2"));
    assert_eq!(document.key_range(&path!["e", "p"]), Some(16..17));
    let error = Document::parse(Format::Toml, "\u{feff}a = 1\na = 2\n").expect_err("invalid");
    assert_eq!((error.range, error.message.as_str()), (9..10, "duplicate key"));
}

#[test]
fn deep_nesting_is_a_syntax_error() {
    let nested = |format: Format, before: &str, open: &str, close: &str, depth: usize| {
        let text = format!("{before}{}1{}", open.repeat(depth), close.repeat(depth));
        Document::parse(format, text).is_ok()
    };
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        assert!(nested(Format::Jsonc, "", open, close, 250), "{open}");
        assert!(!nested(Format::Jsonc, "", open, close, 600), "{open}");
    }
    for (open, close) in [("[", "]"), ("{a=", "}")] {
        assert!(nested(Format::Toml, "a = ", open, close, 79), "{open}");
        assert!(!nested(Format::Toml, "a = ", open, close, 81), "{open}");
    }
}

/// The root's first line is inserted where its first section is removed.
#[test]
fn toml_lines_replace_a_section() {
    toml(
        "# head\n\n[[a]]\nb = 1\n\n[c]\n",
        &[set(path!["a"], json!(1)), set(path!["d"], json!(2))],
        "# head\n\na = 1\nd = 2\n\n[c]\n",
    );
}

#[test]
fn toml_lines_and_sections_after_comments_only() {
    let edits = [push(path!["a"], json!({})), set(path!["d"], json!(2))];
    toml("# head\n\n\n", &edits, "# head\n\nd = 2\n\n[[a]]\n\n\n");
    toml("# head\n", &edits, "# head\n\nd = 2\n\n[[a]]\n");
    toml("# head", &edits, "# head\n\nd = 2\n\n[[a]]");
}

/// In a file that combines several layouts, new entries follow their neighbors.
#[test]
fn jsonc_follows_the_nearest_entry() {
    let file = "{\n\t\"name\": \"app\",\n\t\"c\": [\n\t  {\n\t    \"name\": \"A\",\n\t    \"v\": [\n\t      1\n\t    ],\n\t  },\n\t],\n\t\"d\": {\n\t\t\t\"x\": [\n\t\t\t\t\t{\n\t\t\t\t\t\t\t\"a\": 1\n\t\t\t\t\t}\n\t\t\t]\n\t}\n}\n";
    let new = json!({ "name": "X", "v": [{ "a": 1 }] });
    jsonc(
        file,
        &[push(path!["c"], new.clone())],
        &file.replace(
            "\n\t  },\n\t],",
            "\n\t  },\n\t  {\n\t    \"name\": \"X\",\n\t    \"v\": [\n\t      {\n\t        \"a\": 1,\n\t      },\n\t    ],\n\t  },\n\t],",
        ),
    );
    jsonc(
        file,
        &[push(path!["d", "x"], new.clone())],
        &file.replace(
            "\t\t\t\t\t}\n\t\t\t]",
            "\t\t\t\t\t},\n\t\t\t\t\t{\n\t\t\t\t\t\t\t\"name\": \"X\",\n\t\t\t\t\t\t\t\"v\": [\n\t\t\t\t\t\t\t\t\t{\n\t\t\t\t\t\t\t\t\t\t\t\"a\": 1\n\t\t\t\t\t\t\t\t\t}\n\t\t\t\t\t\t\t]\n\t\t\t\t\t}\n\t\t\t]",
        ),
    );
    // A new entry next to `d` is laid out like `d`; a replaced value like the old one.
    jsonc(
        file,
        &[push(path!["e"], json!({ "a": 1 }))],
        &file.replace(
            "\t\t\t]\n\t}\n}",
            "\t\t\t]\n\t},\n\t\"e\": [\n\t\t\t{\n\t\t\t\t\t\"a\": 1\n\t\t\t}\n\t]\n}",
        ),
    );
    jsonc(
        file,
        &[set(path!["c", 0, "v"], json!([{ "a": 1 }]))],
        &file.replace("[\n\t      1\n\t    ]", "[\n\t      {\n\t        \"a\": 1\n\t      }\n\t    ]"),
    );
    // Empty brackets follow their neighbors.
    let file = "{\n  \"a\": [],\n  \"b\": {\n      \"x\": 1,\n  },\n  \"z\": {\n   \"x\": 1\n  }\n}\n";
    jsonc(
        file,
        &[push(path!["a"], json!({ "n": 1 }))],
        &file.replace("[]", "[\n      {\n          \"n\": 1,\n      },\n  ]"),
    );
}

#[test]
fn toml_follows_the_nearest_entry() {
    let file = "name = \"app\"\n\n[[c]]\n  name = \"A\"\n  class = \"B\"\n\n  [c.more]\n    x = 1\n\n[d]\nx = [\n    1,\n]\ny = []\n\n[e]\nx = [\n  1\n]\nz = []\n";
    toml(
        file,
        &[push(path!["c"], json!({ "name": "X", "v": 1 }))],
        &file.replace("    x = 1\n", "    x = 1\n\n[[c]]\n  name = \"X\"\n  v = 1\n"),
    );
    toml(file, &[push(path!["d", "y"], json!(2))], &file.replace("y = []", "y = [\n    2,\n]"));
    toml(file, &[push(path!["e", "z"], json!(2))], &file.replace("z = []", "z = [\n  2\n]"));
}

/// New sections go before those of a table that stays last.
#[test]
fn toml_keeps_a_table_last() {
    let toml = |before: &str, edits: &[Edit], after: &str| {
        let document = Document::parse(Format::Toml, before).expect("the text before is valid");
        let result = document.keep_last("env").apply(edits);
        assert_eq!(result, after, "\n--- got\n{result}\n--- want\n{after}");
        Document::parse(Format::Toml, result).expect("the text after is valid");
    };
    let before = "name = \"app\"\n\n[vars]\nA = 1 # one\n# still of vars\n";
    let env =
        "\n# Staging.\n[env.staging]\nname = \"s\"\n\n[[env.staging.c]]\nname = \"E\"\n\n[after]\nx = 1\n";
    let new = "\n[[c]]\nname = \"X\"\n\n[o]\n\n[[o.b]]\nname = \"Y\"\n";
    let x = push(path!["c"], json!({ "name": "X" }));
    let y = push(path!["o", "b"], json!({ "name": "Y" }));
    let edits = [x.clone(), y.clone()];
    let new = new.replace("[o]\n\n", "");
    toml(&format!("{before}{env}"), &edits, &format!("{before}{new}{env}"));
    // If only lines precede them, new sections go after those.
    toml(&format!("name = \"app\"\n{env}"), &edits, &format!("name = \"app\"\n{new}{env}"));
    let both = [
        x.clone(),
        set(path!["main"], json!("m")),
        push(path!["env", "staging", "c"], json!({ "name": "Z" })),
    ];
    toml(
        &format!("name = \"app\"\n{env}"),
        &both,
        &format!(
            "name = \"app\"\nmain = \"m\"\n\n[[c]]\nname = \"X\"\n{}",
            env.replace("name = \"E\"\n", "name = \"E\"\n\n[[env.staging.c]]\nname = \"Z\"\n")
        ),
    );
    // An existing list grows at its end. If nothing precedes the table, new sections go after it.
    let there = format!("{env}\n[[c]]\nname = \"A\"\n");
    toml(&there, std::slice::from_ref(&x), &format!("{there}\n[[c]]\nname = \"X\"\n"));
    toml(env, std::slice::from_ref(&x), &format!("{env}\n[[c]]\nname = \"X\"\n"));
    // A table without sections is above them anyway.
    let inline = "name = \"app\"\nenv.a.name = \"b\"\n\n[vars]\nA = 1\n";
    toml(inline, std::slice::from_ref(&x), &format!("{inline}\n[[c]]\nname = \"X\"\n"));
    // By default no table is special.
    let text = format!("{before}{env}");
    let document = Document::parse(Format::Toml, text.as_str()).expect("valid");
    let end = format!("{text}\n[[c]]\nname = \"X\"\n");
    assert_eq!(document.apply(std::slice::from_ref(&x)), end);
    assert_eq!(document.keep_last("staging").apply(&[x]), end);
}

#[test]
fn jsonc_has_no_table_to_keep_last() {
    let document = Document::parse(Format::Jsonc, "{\"env\": {}}").expect("valid").keep_last("env");
    assert_eq!(document.apply(&[set(path!["a"], json!(1))]), "{\"env\": {}, \"a\": 1}");
}

#[test]
fn removal_undoes_a_push() {
    let jsonc_texts = [
        "{\n  \"c\": [\n    {\n      \"a\": 1 // x\n    } // note  \n\n  ]\n}",
        "{\"c\": [1 , ] }",
        "{\r\n\t\"c\" : [ 1, // one\r\n\t\t2 /* two */ ], // end\r\n}\r\n",
        "\u{feff}{ \"x\": 1   \n  // tail\n}",
    ];
    let toml_texts = [
        "",
        "\u{feff}",
        "\n\n",
        "a = 1",
        "a = 1  \r\n# bye  \r\n",
        "[[c]]\n# none\n",
        "[[c]]\nx = 1 # one\n# more\n\n\n[d]\r\n",
        "c = [ { x = 1 } , ]\n",
        "c = [\n  { x = 1 } # one\n  # end\n]\n",
        "[d]\n[d.e]\n",
    ];
    let texts = jsonc_texts.map(|text| (Format::Jsonc, text)).into_iter();
    for (format, text) in texts.chain(toml_texts.map(|text| (Format::Toml, text))) {
        let document = Document::parse(format, text).expect("valid");
        let length = document.value()["c"].as_array().map(Vec::len);
        let pushed = document.apply(&[push(path!["c"], entry()), push(path!["c"], entry())]);
        let again = Document::parse(format, pushed.clone()).expect("still valid");
        let undo = match length {
            Some(length) => vec![remove(path!["c", length]), remove(path!["c", length + 1])],
            None => vec![remove(path!["c"])],
        };
        assert_eq!(again.apply(&undo), text, "after {pushed:?}");
    }
}

/// Returns an array `c` with this many elements.
fn large_array(format: Format, length: usize) -> String {
    let elements = (0..length).fold(String::new(), |mut text, place| {
        let _ = match format {
            Format::Jsonc => write!(text, "{{\"image\": {place}}},"),
            Format::Toml => write!(text, "[[c]]\nimage = {place}\n"),
        };
        text
    });
    if format == Format::Jsonc { format!("{{\"c\":[{elements}]}}") } else { elements }
}

/// Applies three edits for each element of a large array. Returns how long that took.
fn time_large_batch(format: Format, length: usize) -> std::time::Duration {
    let document = Document::parse(format, large_array(format, length)).expect("valid");
    let sets = (0..length).map(|place| set(path!["c", place, "image"], json!("x")));
    let adds = (0..length).map(|place| set(path!["c", place, "new"], json!("x")));
    let pushes = (0..length).map(|_| push(path!["c"], entry()));
    let edits: Vec<_> = sets.chain(adds).chain(pushes).collect();
    let start = std::time::Instant::now();
    let result = document.apply(&edits);
    let time = start.elapsed();
    let value = Document::parse(format, result).expect("valid").value()["c"].clone();
    assert_eq!(value.as_array().map(Vec::len), Some(2 * length));
    time
}

#[test]
fn large_batches_take_linear_time() {
    for format in [Format::Jsonc, Format::Toml] {
        // Of several runs, because a busy machine delays some.
        let shortest = |length| (0..3).map(|_| time_large_batch(format, length)).min().expect("three runs");
        // Sixteen times as many edits take 16 times as long, or 256 times if the time is quadratic.
        let (few, many) = (shortest(100), shortest(1600));
        assert!(many < few * 64, "{format:?}: {few:?} and {many:?}");
    }
}
