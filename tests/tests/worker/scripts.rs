//! Scripts in workerd, and what they add to the upload of a Worker.

#[path = "../../../script/tests/hostile/mod.rs"]
mod hostile;

use fs_err as fs;
use koze_tests::{Project, root, run};
use serde_json::json;

use crate::project::TIMEOUT;

/// What scripts may add to an upload, compressed with gzip, in KiB.
const UPLOAD: f64 = 400.0;

#[test]
fn scripts_end_and_the_worker_answers_others() {
    let project = Project::new();
    project.link_node_modules();
    let hostile: Vec<_> =
        hostile::HOSTILE.iter().map(|(what, code, limit)| json!([what, code, limit])).collect();
    project.write("hostile.json", json!(hostile).to_string());
    let mut node = project.node("node");
    node.arg(root().join("tests/tests/worker/scripts/main.mjs")).arg(root().join("templates/files"));
    node.arg(project.path("hostile.json"));
    let output = run(node, TIMEOUT);
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{stdout}{stderr}");
    print!("{stdout}");
}

#[test]
fn an_upload_with_scripts_is_little_larger() {
    let project = Project::new();
    project.link_node_modules();
    let templates = root().join("templates/files");
    let copy = |from: &str, to: &str| {
        project.write(to, fs::read(templates.join(from)).expect("a template"));
    };
    copy("generated/koze/scripts.mjs", "scripts.mjs");
    let isolated = fs::read_to_string(templates.join("generated/koze/isolated.mjs")).expect("a template");
    let isolated = isolated.replace("__KOZE_SCRIPTS_NAME__", "\"koze-scripts\"");
    let source = json!(project.read("scripts.mjs")).to_string();
    project.write("isolated.mjs", isolated.replace("__KOZE_SCRIPTS_SOURCE__", &source));
    copy("script/koze-script.wasm", "koze-script.wasm");
    let worker = fs::read(root().join("tests/tests/worker/scripts/worker.mjs")).expect("the Worker");
    project.write("with.mjs", worker);
    project.write("without.mjs", "export default { fetch: () => new Response(\"none\") };\n");
    project.write("wrangler.jsonc", r#"{ "name": "scripts", "compatibility_date": "2026-01-01" }"#);
    let size = |entry: &str| {
        let mut wrangler = project.node("wrangler");
        wrangler.args(["deploy", entry, "--dry-run", "--outdir", "dist"]);
        let output = run(wrangler, TIMEOUT);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
        // "Total Upload: 1 KiB / gzip: 1 KiB"
        let packed = stdout.split_once("gzip: ").and_then(|(_, rest)| rest.split_once(" KiB"));
        packed.and_then(|(size, _)| size.parse::<f64>().ok()).unwrap_or_else(|| panic!("{stdout}"))
    };
    let (with, without) = (size("with.mjs"), size("without.mjs"));
    println!("scripts add {:.0} KiB", with - without);
    assert!(without < 10.0, "{without}");
    // The module is in the upload, or this would measure nothing.
    assert!((300.0..UPLOAD).contains(&(with - without)), "{with} - {without} KiB");
}
