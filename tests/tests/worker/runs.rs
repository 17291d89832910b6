//! Builds Workers completely, bundles them with wrangler, and runs them in workerd.

use std::path::Path;

use fs_err as fs;
use insta::assert_snapshot;
use koze_tests::{root, run};
use serde_json::Value;
use wasm_bindgen_cli_support::Bindgen;

use crate::built::wasm;
use crate::project::{self, TIMEOUT, Worker};
use crate::{deploy, wrangler};

/// Performs the last step of worker-build, without the code that restarts a Worker after a panic. See `shim.mjs`.
pub(crate) fn link(module: &Path, build: &Path) {
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module).out_name("rust").typescript(false);
    bindgen.module(true).and_then(|bindgen| bindgen.generate(build)).expect("wasm-bindgen's output");
    // wrangler's bundler does not support source phase imports; its plain import of wasm gives the same compiled
    // module.
    let glue = build.join("rust.js");
    let text = fs::read_to_string(&glue).expect("wasm-bindgen's JavaScript");
    assert!(text.contains("import source "), "{text}");
    fs::write(glue, text.replace("import source ", "import ")).expect("the same without the phase");
    fs::copy(root().join("tests/tests/worker/shim.mjs"), build.join("index.js")).expect("the shim");
}

/// Builds the Rust Worker, bundles it with wrangler, and returns its answer.
fn answer(worker: &Worker) -> (Value, String) {
    link(&wasm(worker).expect("the Rust Worker"), &worker.build_dir());
    let config = &wrangler::resolve(worker)[0];
    let output = deploy::dry_run(worker, config);
    assert!(output.status.success(), "{output:?}");
    let mut node = worker.tool("node");
    node.arg(root().join("tests/tests/worker/serve.mjs")).args(["dist/worker.js", "/no-asset"]);
    // The required secret, in the environment as for `wrangler dev`; and no output but the answer.
    node.env("API_KEY", "a secret").env("WRANGLER_LOG", "error");
    let output = run(node, TIMEOUT);
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{stdout}{stderr}");
    // The last line is the answer; simulated bindings log before it.
    let answer = stdout.lines().last().and_then(|line| serde_json::from_str(line).ok());
    (answer.unwrap_or_else(|| panic!("{stdout}{stderr}")), stderr)
}

#[test]
fn a_worker_answers_in_workerd() {
    for worker in [project::made_native("new"), project::made("made")] {
        let (answer, stderr) = answer(&worker);
        let bundle = worker.project.read("dist/worker.js");
        let class = bundle.lines().find(|line| line.contains("class") && line.contains("ShellSandbox"));
        assert!(
            class.is_some_and(|line| line.contains("extends KozeSandbox")),
            "no class over the base: {class:?}"
        );
        // It has no token yet.
        let body = answer["body"].as_str().unwrap_or_default();
        let is_unset = answer["status"] == 503 && body.contains("wrangler secret put KOZE_TOKEN");
        assert!(is_unset, "{answer}\n{stderr}");
    }
}

#[test]
fn bindings_work_through_their_accessors() {
    let worker = project::fixture("bindings");
    let (answer, stderr) = answer(&worker);
    assert_eq!(answer["status"], 200, "{answer}\n{stderr}");
    assert_snapshot!(answer["body"].as_str().expect("a text"), @r#"
    GREETING "hello \"you\"\n"
    LIMIT 2.5
    DEBUG false
    ROUTES ["/a", "/b"]
    OWNER Ada of team 7
    NOTHING None
    my-var a hyphen, my_var an underscore
    API_KEY a secret, API_URL https://api.example.com
    CACHE Some("from KV")
    FILES "from R2"
    DB Some(42)
    JOBS sent
    AUTH "elsewhere got /auth"
    COUNTER "counted"
    CALLS true
    ASSETS <!doctype html><title>bindings</title>
    ADMIN "the administrator"
    POSTGRES at 5432
    VERSION has an id: true
    HELLO_WORLD JsValue(Fetcher), LOADER JsValue(WorkerLoader)
    STORE is an object: true
    ONLY_STAGING: the Worker has no binding `ONLY_STAGING` in this environment
    TENANTS: Binding `TENANTS` is undefined.
    NEW_KIND: the Worker has no binding `NEW_KIND` in this environment
    LIMIT: the binding `LIMIT` has another type than the one requested: Error: invalid type: floating point `2.5`, expected struct Owner
    GREETING: the binding `GREETING` is not a text, which the wrangler configuration makes it
    DEBUG: the binding `DEBUG` is not `true` or `false`, which the wrangler configuration makes it
    CLICKS JsValue(null)
    "#);
}
