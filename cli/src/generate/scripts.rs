//! Generates the class of the objects that run agents' scripts, with the engine.

use std::fmt::Write as _;

use koze_templates::{
    ISOLATED_SCRIPTS, SCRIPT_BROWSER, SCRIPT_DATABASE, SCRIPT_ENGINE, SCRIPT_FETCH, SCRIPT_GUARD,
    SCRIPT_OBJECT, SCRIPT_OBJECT_TYPES, SCRIPTS, SCRIPTS_TYPES,
};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::template::{Fill, Template};
use super::{ENGINE, constant_content};
use crate::wrangler::bindings::Bindings;
use crate::write::Content;

/// The key of the bindings that load dynamic Workers.
const LOADERS: &str = "worker_loaders";

/// The key of the binding of browsers.
const BROWSER: &str = "browser";

/// Returns the files. Scripts run in a dynamic Worker where the Worker has a binding that loads one. `browser` says whether they
/// have a browser.
pub(super) fn files(bindings: &Bindings, browser: bool) -> Vec<(&'static str, Content)> {
    let loader = loader(bindings);
    let browsers = browser.then(|| binding_names(bindings, BROWSER));
    let rendered = |text: String| Content::from(text.into_bytes());
    let mut files = vec![
        ("script-object.mjs", rendered(render_object(loader, browsers.as_deref()))),
        ("script-object.d.mts", constant_content(SCRIPT_OBJECT_TYPES)),
        ("script-database.mjs", constant_content(SCRIPT_DATABASE)),
        ("script-fetch.mjs", constant_content(SCRIPT_FETCH)),
        ("scripts.mjs", constant_content(SCRIPTS)),
        ("scripts.d.mts", constant_content(SCRIPTS_TYPES)),
    ];
    files.extend(loader.map(|_| ("isolated.mjs", rendered(render_isolated()))));
    if browser {
        files.extend([
            ("script-browser.mjs", constant_content(SCRIPT_BROWSER)),
            ("script-guard.mjs", constant_content(SCRIPT_GUARD)),
        ]);
    }
    files.push((ENGINE, SCRIPT_ENGINE.into()));
    files
}

/// Returns the binding that loads dynamic Workers: that of the top level, or else the first one of an environment. A level
/// without it runs scripts in the Worker itself.
pub(super) fn loader<'a>(bindings: &Bindings<'a>) -> Option<&'a str> {
    binding_names(bindings, LOADERS).first().copied()
}

/// Returns the names of the bindings of a kind: those of the top level, then those of environments.
fn binding_names<'a>(bindings: &Bindings<'a>, key: &str) -> Vec<&'a str> {
    let named = bindings.list.iter().filter_map(|(name, uses)| {
        let level = uses.iter().filter(|used| used.kind.keys == [key]).map(|used| used.level).min()?;
        Some((level, *name))
    });
    let mut named: Vec<_> = named.collect();
    named.sort_unstable();
    named.into_iter().map(|(_, name)| name).collect()
}

/// Renders the class. `browsers` names the bindings of browsers: each environment has one of them.
fn render_object(loader: Option<&str>, browsers: Option<&[&str]>) -> String {
    let fill =
        |hole, value: serde_json::Value| Fill { holes: vec![(hole, value.to_string())], regions: Vec::new() };
    let isolated = loader.map(|loader| fill("__KOZE_LOADER__", json!(loader)));
    let browser = browsers.map(|browsers| fill("__KOZE_BROWSERS__", json!(browsers)));
    Template::new(SCRIPT_OBJECT).render(&Fill::default(), &|region| match region {
        "isolated" => isolated.as_slice(),
        "browser" => browser.as_slice(),
        other => unreachable!("the template has a region {other} that nobody fills"),
    })
}

fn render_isolated() -> String {
    let name = format!("koze-scripts-{}", source_digest());
    let holes = vec![
        ("__KOZE_SCRIPTS_NAME__", json!(name).to_string()),
        ("__KOZE_SCRIPTS_SOURCE__", json!(SCRIPTS).to_string()),
    ];
    let outer = Fill { holes, regions: Vec::new() };
    Template::new(ISOLATED_SCRIPTS)
        .render(&outer, &|region| unreachable!("the template has a region {region} that nobody fills"))
}

/// Returns the first 16 hexadecimal digits of the digest of all that runs in the dynamic Worker. Cloudflare keeps the code of a
/// name, so that other code needs another name.
fn source_digest() -> String {
    let mut digest = Sha256::new();
    for part in [ISOLATED_SCRIPTS.as_bytes(), SCRIPTS.as_bytes(), SCRIPT_ENGINE] {
        digest.update(part);
    }
    digest.finalize().iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns whether a file is the engine of some version of koze: a module of WebAssembly that imports `koze.send`.
pub(super) fn is_engine(bytes: &[u8]) -> bool {
    const IMPORT: &[u8] = b"\x04koze\x04send";
    bytes == SCRIPT_ENGINE
        || (bytes.starts_with(b"\0asm") && bytes.windows(IMPORT.len()).any(|window| window == IMPORT))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::wrangler::bindings;

    fn loader_of(config: &Value) -> Option<String> {
        loader(&bindings::all(config)).map(str::to_owned)
    }

    #[test]
    fn the_loader_of_the_top_level_is_preferred() {
        let of = |name: &str| json!([{ "binding": name }]);
        assert_eq!(loader_of(&json!({ "kv_namespaces": of("A") })), None);
        let environments = json!({ "x": { "worker_loaders": of("B") }, "y": { "worker_loaders": of("A") } });
        assert_eq!(loader_of(&json!({ "env": environments })).as_deref(), Some("B"));
        let all = json!({ "env": environments, "worker_loaders": of("Z") });
        assert_eq!(loader_of(&all).as_deref(), Some("Z"));
    }

    #[test]
    fn the_dynamic_worker_is_only_used_with_a_loader() {
        let without = bindings::all(&Value::Null);
        let files = |bindings| files(bindings, false).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert!(!files(&without).contains(&"isolated.mjs"));
        assert!(!render_object(None, None).contains("isolated"));
        let config = json!({ "worker_loaders": [{ "binding": "LO\"AD" }] });
        assert!(files(&bindings::all(&config)).contains(&"isolated.mjs"));
        assert!(render_object(loader(&bindings::all(&config)), None).contains("[\"LO\\\"AD\"]"));
    }

    #[test]
    fn a_browser_is_found_under_its_names() {
        let of = |name: &str| json!({ "binding": name });
        let config = json!({ "browser": of("B"), "env": { "x": { "browser": of("A") } } });
        let all = bindings::all(&config);
        assert!(!render_object(None, None).contains("rowser"));
        let names: Vec<&str> = files(&all, true).into_iter().map(|(name, _)| name).collect();
        assert!(names.contains(&"script-browser.mjs") && names.contains(&"script-guard.mjs"), "{names:?}");
        assert!(render_object(None, Some(&binding_names(&all, BROWSER))).contains(r#"["B","A"]"#));
    }

    #[test]
    fn only_the_engine_is_the_engine() {
        assert!(is_engine(SCRIPT_ENGINE));
        let mut other_version = SCRIPT_ENGINE.to_vec();
        other_version.push(0);
        assert!(is_engine(&other_version));
        assert!(!is_engine(b"\0asm\x01\0\0\0"));
        assert!(!is_engine(b"// Generated by `koze build`. \x04koze\x04send"));
    }
}
