//! Checks the workflows and the action with GitHub's own parser, and with additional rules.

use std::path::{Path, PathBuf};
use std::time::Duration;

use koze_tests::{node_command, node_modules, root, run};
use serde_json::{Value, json};

/// The timeout of the parser.
const TIMEOUT: Duration = Duration::from_mins(2);

/// Returns the output of `check.mjs` for files.
pub(crate) fn checked(files: &[PathBuf]) -> Value {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let bundle = dir.path().join("check.cjs");
    let mut esbuild = node_command("esbuild");
    esbuild
        .arg(root().join("tests/tests/published/check.mjs"))
        .args(["--bundle", "--platform=node", "--format=cjs", "--log-level=error"])
        .arg(format!("--outfile={}", bundle.display()))
        .env("NODE_PATH", node_modules());
    let built = run(esbuild, TIMEOUT);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut node = node_command("node");
    node.arg(bundle).args(files);
    let output = run(node, TIMEOUT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Returns `action.yml` and every workflow.
fn all() -> Vec<PathBuf> {
    let workflows = fs_err::read_dir(root().join(".github/workflows")).expect("the workflows");
    let mut files: Vec<_> = workflows.map(|file| file.expect("a file").path()).collect();
    assert!(files.len() >= 2, "{files:?}");
    files.push(root().join("action.yml"));
    files
}

fn of<'a>(results: &'a Value, file: &Path) -> &'a Value {
    &results[file.to_str().expect("a path in Unicode")]
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().expect("a list").iter().map(|text| text.as_str().expect("text")).collect()
}

#[test]
fn every_workflow_is_valid_and_safe() {
    let files = all();
    let results = checked(&files);
    for file in &files {
        let (result, name) = (of(&results, file), file.display());
        assert_eq!(result["errors"], json!([]), "{name}");
        let scripts = texts(&result["scripts"]);
        assert!(!scripts.is_empty(), "{name}");
        for script in scripts {
            // The runner would insert the value into the script's text.
            assert!(
                !script.contains("${{"),
                "{name} has an expression in a script; pass it through `env`:\n{script}"
            );
        }
        for action in texts(&result["uses"]) {
            let commit = action.split_once('@').map_or("", |(_, commit)| commit);
            let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_commit, "{name}: `{action}` is not pinned by a commit");
        }
        assert_eq!(
            result["persists"],
            json!(false),
            "{name}: a checkout leaves its credentials in the repository"
        );
        if file.ends_with("action.yml") {
            continue;
        }
        assert_eq!(result["permissions"], json!({ "contents": "read" }), "{name}");
        let may_write: &[&str] = if file.ends_with("release.yml") { &["publish"] } else { &[] };
        assert_eq!(texts(&result["writes"]), may_write, "{name}");
    }
}

/// The control: the parser finds the mistakes in files like these.
#[test]
fn the_check_finds_mistakes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs_err::write(&path, text).expect("a file");
        path
    };
    let workflow = write(
        "workflow.yml",
        "on: push\npermissions:\n  content: read\njobs:\n  one:\n    runs-on: x\n    steps:\n      - run: echo ${{ nothing.x }}\n        \
         shel: bash\n",
    );
    // The parser validates the dependencies of jobs only if there are no other errors.
    let needs = write(
        "needs.yml",
        "on: push\njobs:\n  one:\n    runs-on: x\n    steps: [{ run: echo }]\n  three:\n    runs-on: x\n    needs: two\n    \
         steps: [{ run: echo }]\n",
    );
    let action = write(
        "action.yml",
        "name: x\ndescription: x\nruns:\n  using: composite\n  steps:\n    - run: echo ${{ inputz.x }}\n",
    );
    let results = checked(&[workflow.clone(), needs.clone(), action.clone()]);
    let errors = results.to_string();
    for expected in ["content", "'nothing'", "'shel'"] {
        assert!(of(&results, &workflow)["errors"].to_string().contains(expected), "{expected}: {errors}");
    }
    assert!(of(&results, &needs)["errors"].to_string().contains("two"), "{errors}");
    for expected in ["'inputz'", "shell"] {
        assert!(of(&results, &action)["errors"].to_string().contains(expected), "{expected}: {errors}");
    }
    assert!(of(&results, &workflow)["scripts"].to_string().contains("${{"), "{errors}");
}
