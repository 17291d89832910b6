use serde_json::json;

use super::*;

/// Renders each name with its nouns and levels as one line.
fn lines(root: &Value) -> Vec<String> {
    let bindings = all(root);
    let line = |(name, uses): (&&str, &Vec<Use>)| {
        let uses: Vec<String> =
            uses.iter().map(|one| format!("{} {} {:?}", one.level, one.key, one.gives)).collect();
        format!("{name}: {}", uses.join(", "))
    };
    bindings.list.iter().map(line).collect()
}

#[test]
fn kinds_have_distinct_keys() {
    for (index, kind) in KINDS.iter().enumerate() {
        assert!(KINDS[..index].iter().all(|other| other.keys != kind.keys), "{:?} is there twice", kind.keys);
        assert!(!OTHERS.contains(&kind.keys[0]), "{:?} holds bindings", kind.keys);
    }
}

#[test]
fn a_variables_type_follows_its_value() {
    let root = json!({ "vars": { "S": "", "N": 1, "B": true, "L": [1], "O": {}, "Z": null } });
    assert_eq!(
        lines(&root),
        [
            "B: 0 vars Boolean",
            "L: 0 vars Json",
            "N: 0 vars Number",
            "O: 0 vars Json",
            "S: 0 vars Text",
            "Z: 0 vars Json"
        ]
    );
}

#[test]
fn invalid_entries_affect_only_themselves() {
    for wrong in
        [json!(null), json!("x"), json!(1), json!([]), json!({}), json!([null, "x", [], { "binding": 1 }])]
    {
        for kind in KINDS.iter().filter(|kind| kind.names != Names::Keys) {
            let inside = kind.keys[1..].iter().rev().fold(wrong.clone(), |value, key| json!({ *key: value }));
            let there = if kind.keys[0] == "kv_namespaces" { "r2_buckets" } else { "kv_namespaces" };
            let root = json!({ kind.keys[0]: inside, there: [{}, { "binding": "" }, { "binding": "B" }] });
            let found: Vec<String> = all(&root).list.keys().map(|name| (*name).to_owned()).collect();
            // Any list is still a list of `logfwdr`; a string in it is the name of a secret.
            let expected: &[&str] = match (kind.keys[0], wrong.as_array()) {
                ("logfwdr", Some(list)) if !list.is_empty() => &["B", "LOGFWDR_SCHEMA"],
                ("secrets", Some(list)) if !list.is_empty() => &["B", "x"],
                _ => &["B"],
            };
            assert_eq!(found, expected, "{root}");
        }
    }
    for root in
        [json!({ "vars": [1], "env": [] }), json!({ "env": { "a": 1, "b": null } }), json!([]), json!(null)]
    {
        assert_eq!(lines(&root), Vec::<String>::new(), "{root}");
    }
}

#[test]
fn environments_inherit_as_in_wrangler() {
    let root = json!({
        "assets": { "binding": "ASSETS" },
        "ai": { "binding": "AI" },
        "previews": { "ai": { "binding": "AI" } },
        "env": {
            "a": { "assets": null },
            "b": { "assets": { "binding": "OWN" }, "previews": {} },
        },
    });
    // 0 is the top level, 1 its previews, 2 is `a`, 3 is `b`, 4 its previews.
    assert_eq!(
        lines(&root),
        [
            "AI: 0 ai Object(\"Ai\", \"ai\"), 1 ai Object(\"Ai\", \"ai\")",
            "ASSETS: 0 assets Object(\"Fetcher\", \"assets\"), 1 assets Object(\"Fetcher\", \"assets\"), \
             2 assets Object(\"Fetcher\", \"assets\")",
            "OWN: 3 assets Object(\"Fetcher\", \"assets\"), 4 assets Object(\"Fetcher\", \"assets\")",
        ]
    );
}

#[test]
fn unknown_kinds_are_found_at_the_usual_places() {
    let root = json!({
        "one": { "binding": "A" },
        "list": [{ "binding": "B", "other": { "binding": "no" } }],
        "nested": { "producers": [{ "binding": "C" }] },
        "define": { "binding": "no" },
        "deep": [[[[[{ "binding": "no" }]]]]],
    });
    assert_eq!(lines(&root), ["A: 0 one Raw", "B: 0 list Raw", "C: 0 nested Raw"]);
}

#[test]
fn paths_are_exact() {
    let root = json!({ "vars": { "A": 1 }, "queues": { "producers": [{}, { "binding": "B" }] } });
    let mut found = Vec::new();
    of_level(&root, &mut |one| found.push((one.name, crate::wrangler::scope::dotted(&one.place.path()))));
    assert_eq!(found, [("A", "vars.A".to_owned()), ("B", "queues.producers[1].binding".to_owned())]);
}

#[test]
fn one_accessor_fits_several_uses_if_a_type_does() {
    let of = |list: &[Gives]| {
        let uses: Vec<Use> =
            list.iter().map(|gives| Use { level: 0, kind: &UNKNOWN, key: "", gives: *gives }).collect();
        gives(&uses)
    };
    let kv = Gives::Object("KvStore", "kv");
    assert_eq!(of(&[kv, kv]), kv);
    assert_eq!(of(&[kv, Gives::Object("Bucket", "bucket")]), Gives::Raw);
    let fetcher = Gives::Object("Fetcher", "service");
    assert_eq!(of(&[fetcher, Gives::Object("Fetcher", "assets")]), fetcher);
    assert_eq!(of(&[Gives::Text, Gives::Secret, Gives::Text]), Gives::Secret);
    assert_eq!(of(&[Gives::Text, Gives::Number, Gives::Secret]), Gives::Json);
    assert_eq!(of(&[Gives::Json, kv, Gives::Json]), Gives::Raw);
}
