//! wrangler's own validator, which `deploy` and `dev` run first.

use std::collections::BTreeSet;

use koze_tests::{Project, root, run};
use serde_json::Value;

use crate::project::{self, Sandbox, TIMEOUT, Worker};

/// The configuration that wrangler resolves for one environment.
pub(crate) struct Resolved {
    /// The environment's name, empty at the top level.
    pub(crate) environment: String,
    /// The bindings and their classes.
    pub(crate) bindings: BTreeSet<(String, String)>,
    pub(crate) containers: Vec<Container>,
    /// The command that wrangler runs before it bundles.
    pub(crate) build: Option<String>,
}

pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) image: String,
}

/// Reads the configuration for the top level and each environment.
pub(crate) fn resolve(worker: &Worker) -> Vec<Resolved> {
    let (stdout, _) = read(&worker.project);
    let document: Value =
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{}: {error}: {stdout}", worker.name));
    document.as_array().expect("a list of environments").iter().map(resolved).collect()
}

/// Returns wrangler's warnings as single points.
fn warnings(project: &Project) -> BTreeSet<String> {
    let (_, stderr) = read(project);
    let mut points = BTreeSet::new();
    for line in stderr.lines().map(str::trim).filter(|line| !line.is_empty()) {
        // All messages have the same headings; the points follow dashes.
        let about = line.strip_prefix("- ").filter(|about| !about.ends_with("environment configuration"));
        points.extend(about.map(str::to_owned));
    }
    assert_eq!(points.is_empty(), stderr.is_empty(), "{stderr}");
    points
}

/// Returns the output of the script for a project, and wrangler's warnings.
fn read(project: &Project) -> (String, String) {
    let mut node = project.node("node");
    node.arg(root().join("tests/tests/worker/read-config.mjs"));
    let output = run(node, TIMEOUT);
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{stdout}{stderr}");
    (stdout, stderr)
}

fn resolved(config: &Value) -> Resolved {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let bindings = list(&config["bindings"]);
    let containers = list(&config["containers"]);
    Resolved {
        environment: text(&config["environment"]),
        bindings: bindings.iter().map(|one| (text(&one["name"]), text(&one["class_name"]))).collect(),
        containers: containers
            .iter()
            .map(|one| Container {
                name: text(&one["name"]),
                class: text(&one["class_name"]),
                image: text(&one["image"]),
            })
            .collect(),
        build: config["build"].as_str().map(str::to_owned),
    }
}

/// Returns the expected name of an environment's container application, or the end of it.
fn expected_name(sandbox: &Sandbox, config: &Resolved) -> String {
    let suffix = match config.environment.as_str() {
        "" => String::new(),
        environment => format!("-{environment}"),
    };
    if sandbox.container.is_empty() {
        // For an adopted entry without a name, wrangler joins the names of the Worker and the class.
        return format!("-{}{suffix}", sandbox.class.to_lowercase());
    }
    format!("{}{suffix}", sandbox.container)
}

#[test]
fn wrangler_finds_every_sandbox_in_every_environment() {
    for worker in project::all() {
        let sandboxes = worker.sandboxes();
        let has_none = ["browser", "scripts-only"].iter().any(|name| worker.name == *name);
        assert_eq!(sandboxes.is_empty(), has_none, "{}: its sandboxes", worker.name);
        let own = worker.project.read("koze.lock").contains("[scripts]");
        for config in resolve(&worker) {
            let place = format!("{}, environment {:?}", worker.name, config.environment);
            let scripts = ("KOZE_SCRIPTS".to_owned(), "KozeScripts".to_owned());
            assert_eq!(config.bindings.contains(&scripts), own, "{place}: the scripts");
            for sandbox in &sandboxes {
                let binding = (sandbox.binding.clone(), sandbox.class.clone());
                assert!(config.bindings.contains(&binding), "{place}: no binding {binding:?}");
                let container = config.containers.iter().find(|container| container.class == sandbox.class);
                let container =
                    container.unwrap_or_else(|| panic!("{place}: no container {}", sandbox.class));
                let expected = expected_name(sandbox, &config);
                assert!(container.name.ends_with(&expected), "{place}: {} for {expected}", container.name);
            }
        }
    }
}

#[test]
fn koze_causes_no_new_warnings() {
    for worker in project::all() {
        // A user's configuration may cause its own warnings. Bindings that an environment lacks are reported one by one
        // as soon as the environment has any binding.
        let known = worker.before().map(|before| warnings(&before)).unwrap_or_default();
        let sandboxes = worker.sandboxes();
        let is_binding =
            |point: &str| point.chars().all(|c| c == '_' || c.is_ascii_uppercase() || c.is_ascii_digit());
        let is_theirs = |point: &String| {
            known.contains(point)
                || point.starts_with("The following bindings are at the top level")
                || (is_binding(point) && !sandboxes.iter().any(|sandbox| sandbox.binding == *point))
        };
        let new: Vec<_> = warnings(&worker.project).into_iter().filter(|point| !is_theirs(point)).collect();
        assert!(new.is_empty(), "{}: {new:#?}", worker.name);
    }
}
