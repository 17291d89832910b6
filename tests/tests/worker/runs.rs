//! One Worker is really built, bundled by wrangler, and runs in workerd.

use std::path::Path;

use fs_err as fs;
use koze_tests::{root, run};
use serde_json::{Value, json};
use wasm_bindgen_cli_support::Bindgen;

use crate::built::wasm;
use crate::project::{self, TIMEOUT};
use crate::{deploy, wrangler};

/// The last step of worker-build without what makes a Worker survive a panic: see `shim.mjs`.
fn link(module: &Path, build: &Path) {
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module).out_name("rust").typescript(false);
    bindgen.module(true).and_then(|bindgen| bindgen.generate(build)).expect("wasm-bindgen's output");
    // wrangler's bundler knows no imports by phase; its plain import of wasm gives the same compiled module.
    let glue = build.join("rust.js");
    let text = fs::read_to_string(&glue).expect("wasm-bindgen's JavaScript");
    assert!(text.contains("import source "), "{text}");
    fs::write(glue, text.replace("import source ", "import ")).expect("the same without the phase");
    fs::copy(root().join("tests/tests/worker/shim.mjs"), build.join("index.js")).expect("the shim");
}

#[test]
fn a_worker_answers_in_workerd() {
    let worker = project::made("served");
    link(&wasm(&worker).expect("the Rust Worker"), &worker.build_dir());
    let config = &wrangler::resolve(&worker)[0];
    let output = deploy::dry_run(&worker, config);
    assert!(output.status.success(), "{output:?}");
    let bundle = worker.project.read("dist/worker.js");
    let class = bundle.lines().find(|line| line.contains("class") && line.contains("ShellSandbox"));
    assert!(class.is_some_and(|line| line.contains("extends Sandbox")), "no class over the SDK's: {class:?}");

    let mut node = worker.tool("node");
    node.arg(root().join("tests/tests/worker/serve.mjs")).args(["dist/worker.js", "/"]);
    let output = run(node, TIMEOUT);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
    let body = "SHELL_SANDBOX: Stub(\"ShellSandbox\") in the container application served-shell\n";
    assert_eq!(answer, json!({ "status": 200, "body": body }), "{stderr}");
}
