//! `koze tools`, and the tool files of a build.

use insta::assert_snapshot;
use koze_tests::{Project, Run};
use serde_json::Value;

use crate::common::{built, document_of, package, refused_with, sandbox, shell};

const PYTHON: &str = "src/server/python.sandbox.rs";

fn two() -> Project {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    sandbox(&project, PYTHON, "#[sandbox(variant = \"python\")]\nstruct Python;");
    project
}

/// Returns the list that a run prints, and checks that it prints nothing else.
fn listed(run: &Run) -> Vec<Value> {
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    serde_json::from_str(&run.stdout).expect("a JSON array")
}

/// Returns the schema of `image` in `sandbox_create`.
fn image(tools: &[Value]) -> Value {
    let create = tools.iter().find(|tool| tool["name"] == "sandbox_create").expect("the tool");
    create["inputSchema"]["properties"]["image"].clone()
}

#[test]
fn the_definitions_match_those_of_a_build() {
    let project = two();
    let before = project.snapshot();
    let listed = listed(&project.koze(&["tools"]));
    assert_eq!(project.diff(&before), "", "`koze tools` writes nothing");
    built(&project);
    let written: Value = serde_json::from_str(&project.read("src/generated/tools.json")).expect("JSON");
    assert_eq!(written["tools"], Value::from(listed));
}

#[test]
fn each_dialect_has_its_own_keys() {
    let project = two();
    for (dialect, schema) in [
        ("mcp", "/inputSchema/type"),
        ("anthropic", "/input_schema/type"),
        ("openai", "/function/parameters/type"),
        ("openai-responses", "/parameters/type"),
    ] {
        let tools = listed(&project.koze(&["tools", "--dialect", dialect]));
        assert_eq!(tools.len(), 12, "{dialect}");
        for tool in tools {
            assert_eq!(tool.pointer(schema), Some(&Value::from("object")), "{dialect}: {tool}");
        }
    }
    let run = project.koze(&["tools", "--dialect", "xml"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
}

#[test]
fn a_toolset_must_be_served_by_the_project() {
    let project = two();
    let listed_of = |toolset| listed(&project.koze(&["tools", "--tools", toolset]));
    assert_eq!(listed_of("agent"), listed(&project.koze(&["tools"])));
    for command in [&["tools"][..], &["call", "shell"], &["mcp"]] {
        let run = project.koze(&[command, &["--tools", "thread"]].concat());
        let message = "error[invalid_input]: this project does not serve the tools `thread`: it serves agent. Add `thread` to the \
                       `tools` of a `#[sandbox]`, and run `koze build`\n";
        assert_eq!((run.code, run.stderr.as_str()), (1, message), "{command:?}");
    }
}

#[test]
fn the_images_are_the_sandboxes_of_the_project() {
    let tools = listed(&two().koze(&["tools"]));
    assert_snapshot!(format!("{:#}", image(&tools)), @r#"
    {
      "type": "string",
      "description": "The image to run.",
      "enum": [
        "python",
        "docker.io/cloudflare/sandbox:0.12.10-python",
        "shell",
        "docker.io/cloudflare/sandbox:0.12.10"
      ],
      "default": "python"
    }
    "#);
}

#[test]
fn the_default_is_the_first_sandbox_or_the_one_that_says_so() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    built(&project);
    // Its file sorts before the other one.
    sandbox(&project, PYTHON, "#[sandbox]\nstruct Python;");
    let default = || image(&listed(&project.koze(&["tools"])))["default"].clone();
    assert_eq!(default(), "shell");
    built(&project);
    assert_eq!(default(), "shell");
    assert!(project.read("src/generated/tools.rs").contains("    #[default]\n    Shell,\n"));
    sandbox(&project, PYTHON, "#[sandbox(default)]\nstruct Python;");
    assert_eq!(default(), "python");
    built(&project);
    assert!(project.read("src/generated/tools.rs").contains("    #[default]\n    Python,\n"));
}

#[test]
fn a_sandbox_without_tools_is_not_an_image() {
    let project = two();
    sandbox(&project, PYTHON, "#[sandbox(tools = [])]\nstruct Python;");
    built(&project);
    let tools = listed(&project.koze(&["tools"]));
    assert_eq!(image(&tools)["enum"], serde_json::json!(["shell", "docker.io/cloudflare/sandbox:0.12.10"]));
    assert_eq!(image(&tools)["default"], "shell");
    sandbox(&project, PYTHON, "#[sandbox(default, tools = [])]\nstruct Python;");
    assert_snapshot!(refused_with(&project, &["tools"]), @"
    error[K014]: `default` and `tools` exclude each other
     --> src/server/python.sandbox.rs:3:11
      |
    3 | #[sandbox(default, tools = [])]
      |           ^^^^^^^  ----- the other one
      |
      = help: the default sandbox must serve tools: remove `default`, or add a family to `tools`

    1 error; nothing was written
    ");
}

#[test]
fn a_project_without_a_sandbox_has_no_tools() {
    let project = package();
    assert_snapshot!(refused_with(&project, &["tools"]), @r#"
    error[K071]: no sandbox of this project serves agents
     |
     = help: create one with `koze add shell`, or remove `tools` from the attribute of an existing one, or set it to `["agent"]`

    1 error; nothing was written
    "#);
    let document = document_of("build", &project.koze(&["tools", "--format", "json"]));
    assert_eq!(document["diagnostics"][0]["code"], "K071");
}

#[test]
fn a_project_with_errors_has_no_tools() {
    let project = shell("#[sandbox(max_instances = 0)]\npub struct ShellSandbox;");
    assert!(refused_with(&project, &["tools"]).starts_with("error[K013]"));
}
