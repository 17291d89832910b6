//! Compares the accessors of `Env` with wrangler's own bindings: its schema, `wrangler types` and `wrangler deploy`.

use std::collections::BTreeSet;

use fs_err as fs;
use koze_cli::wrangler::bindings::kinds::{KINDS, Kind, Names, OTHERS};
use koze_tests::{node_modules, run};
use serde_json::Value;

use crate::project::{self, TIMEOUT, Worker};
use crate::{deploy, wrangler};

/// wrangler's schema of the top level and of environments.
struct Schema(Value);

impl Schema {
    fn read() -> Schema {
        let path = node_modules().join("wrangler/config-schema.json");
        Schema(serde_json::from_slice(&fs::read(path).expect("wrangler's schema")).expect("a JSON document"))
    }

    /// Returns the keys of the top level and of environments, with their schemas.
    fn keys(&self) -> Vec<(&str, &Value)> {
        let levels = ["RawConfig", "RawEnvironment"].map(|level| &self.0["definitions"][level]["properties"]);
        let keys = levels.into_iter().flat_map(|level| level.as_object().expect("a level with keys"));
        keys.map(|(key, value)| (key.as_str(), value)).collect()
    }

    /// Returns a schema and its equivalents: the targets of references, and alternatives.
    fn forms<'a>(&'a self, schema: &'a Value) -> Vec<&'a Value> {
        let name = schema["$ref"].as_str().and_then(|to| to.strip_prefix("#/definitions/"));
        let referred = name.map(|name| &self.0["definitions"][name]);
        let others =
            ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten();
        let inside = referred.into_iter().chain(others).flat_map(|schema| self.forms(schema));
        std::iter::once(schema).chain(inside).collect()
    }

    /// Returns the schema of a property.
    fn property<'a>(&'a self, schema: &'a Value, key: &str) -> Option<&'a Value> {
        self.forms(schema).into_iter().find_map(|form| form["properties"].get(key))
    }

    /// Returns the schema of list elements.
    fn elements<'a>(&'a self, schema: &'a Value) -> Option<&'a Value> {
        self.forms(schema).into_iter().find_map(|form| form.get("items"))
    }

    /// Returns whether the schema allows a binding name where the table says.
    fn has(&self, kind: &Kind) -> bool {
        let (_, top) = self.keys().into_iter().find(|(key, _)| *key == kind.keys[0]).expect("a known key");
        let Some(entries) = kind.keys[1..].iter().try_fold(top, |schema, key| self.property(schema, key))
        else {
            return false;
        };
        match kind.names {
            Names::Keys => self.forms(entries).iter().any(|form| form["additionalProperties"].is_object()),
            Names::Elements => self.elements(entries).is_some_and(|element| element["type"] == "string"),
            Names::Property(name) => self.property(self.elements(entries).unwrap_or(entries), name).is_some(),
        }
    }

    /// Returns the paths of all properties `binding` below `schema`, which is at `keys`.
    fn bindings<'a>(&'a self, schema: &'a Value, keys: &[&'a str], depth: usize) -> BTreeSet<Vec<&'a str>> {
        if self.property(schema, "binding").is_some() {
            return BTreeSet::from([keys.to_vec()]);
        }
        let mut found = BTreeSet::new();
        // Deeper than any current binding, but bounded, because schemas can be recursive.
        for form in self.forms(schema).into_iter().filter(|_| depth < 6) {
            for (key, property) in form["properties"].as_object().into_iter().flatten() {
                found.extend(self.bindings(property, &[keys, &[key.as_str()]].concat(), depth + 1));
            }
            if let Some(elements) = form.get("items") {
                found.extend(self.bindings(elements, keys, depth + 1));
            }
            if let Some(values) = form.get("additionalProperties").filter(|values| values.is_object()) {
                found.extend(self.bindings(values, &[keys, &["*"]].concat(), depth + 1));
            }
        }
        found
    }
}

#[test]
fn every_key_of_wranglers_schema_is_in_the_table() {
    let schema = Schema::read();
    let there: BTreeSet<&str> = schema.keys().into_iter().map(|(key, _)| key).collect();
    let known: BTreeSet<&str> = KINDS.iter().map(|kind| kind.keys[0]).chain(OTHERS.iter().copied()).collect();
    let new: Vec<_> = there.difference(&known).collect();
    assert!(new.is_empty(), "say in `kinds.rs` whether these are bindings: {new:?}");
    let gone: Vec<_> = known.difference(&there).collect();
    assert!(gone.is_empty(), "wrangler has these no more: {gone:?}");
}

#[test]
fn bindings_are_exactly_where_the_table_says() {
    let schema = Schema::read();
    let lost: Vec<_> = KINDS.iter().filter(|kind| !schema.has(kind)).map(|kind| kind.keys).collect();
    assert!(lost.is_empty(), "the schema has no names here: {lost:?}");
    let known: BTreeSet<Vec<&str>> = KINDS.iter().map(|kind| kind.keys.to_vec()).collect();
    // `env` and `previews` are levels.
    let keys = schema.keys().into_iter().filter(|(key, _)| !["env", "previews"].contains(key));
    let there: BTreeSet<Vec<&str>> =
        keys.flat_map(|(key, value)| schema.bindings(value, &[key], 0)).collect();
    let missed: Vec<_> = there.difference(&known).collect();
    assert!(missed.is_empty(), "bindings stand here: {missed:?}");
    assert!(there.len() > 25, "{there:?}");
}

#[test]
fn previews_have_the_bindings_of_environments() {
    let schema = Schema::read();
    let (_, previews) = schema.keys().into_iter().find(|(key, _)| *key == "previews").expect("previews");
    let forms = schema.forms(previews);
    let keys = forms.iter().filter_map(|form| form["properties"].as_object()).flat_map(|keys| keys.keys());
    let known: BTreeSet<&str> = KINDS.iter().map(|kind| kind.keys[0]).chain(OTHERS.iter().copied()).collect();
    let new: Vec<_> = keys.filter(|key| !known.contains(key.as_str())).collect();
    assert!(new.is_empty(), "{new:?}");
}

/// Returns the names that accessors look up.
fn names(worker: &Worker) -> BTreeSet<String> {
    let env = worker.project.read("src/generated/env.rs");
    let sandboxes = worker.sandboxes().into_iter().map(|sandbox| sandbox.binding);
    let texts = env.lines().filter(|line| line.trim().starts_with("self.0.") || line.contains("::binding::"));
    // Rust string literals are also JSON here.
    let text = |line: &str| {
        let (from, to) = (line.find('"')?, line.rfind('"')?);
        serde_json::from_str::<String>(&line[from..=to]).ok()
    };
    sandboxes.chain(texts.map(|line| text(line).unwrap_or_else(|| panic!("no name in {line}")))).collect()
}

/// Returns the names in the `interface Env` of `wrangler types`.
fn typed(worker: &Worker) -> BTreeSet<String> {
    let mut command = worker.tool("wrangler");
    command.args(["types", "--include-runtime=false"]);
    let output = run(command, TIMEOUT);
    assert!(output.status.success(), "{}: {output:?}", worker.name);
    let types = worker.project.read("worker-configuration.d.ts");
    let (_, from) = types.split_once("interface __BaseEnv_Env {\n").expect("the interface");
    let (interface, _) = from.split_once("\n}\n").expect("its end");
    // Bindings are indented by one tab; the rest of their types is indented further.
    let lines = interface.lines().filter_map(|line| line.strip_prefix('\t'));
    let lines = lines.filter(|line| !line.starts_with(['\t', '}', ')']));
    let name = |line: &str| {
        let (name, _) = line.split_once(": ").unwrap_or_else(|| panic!("no binding: {line}"));
        name.trim_end_matches('?').trim_matches('"').to_owned()
    };
    lines.map(name).collect()
}

#[test]
fn every_name_of_wrangler_types_has_an_accessor() {
    for worker in project::all() {
        let (names, typed) = (names(&worker), typed(&worker));
        let missing: Vec<_> = typed.difference(&names).collect();
        assert!(missing.is_empty(), "{}: no accessor for {missing:?}", worker.name);
        // The only name that wrangler lists only when it deploys.
        let more: Vec<_> = names.difference(&typed).filter(|name| *name != "FORWARD").collect();
        assert!(more.is_empty(), "{}: wrangler does not know {more:?}", worker.name);
    }
}

#[test]
fn every_name_that_wrangler_deploys_has_an_accessor() {
    let worker = project::fixture("bindings");
    let names = names(&worker);
    for config in wrangler::resolve(&worker) {
        let output = deploy::dry_run(&worker, &config);
        assert!(output.status.success(), "{output:?}");
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let listed: BTreeSet<String> = stdout
            .lines()
            .filter_map(|line| line.trim().strip_prefix("env."))
            .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
            .collect();
        assert!(listed.contains("SHELL_SANDBOX"), "{stdout}");
        let missing: Vec<_> = listed.difference(&names).collect();
        assert!(missing.is_empty(), "{:?}: no accessor for {missing:?}", config.environment);
    }
}
