//! wrangler's own validator, which `deploy` and `dev` run first.

use std::collections::{BTreeMap, BTreeSet};

use koze_tests::{Project, node_command, root, run};
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

/// What wrangler reads in the directory of a project.
struct Reading {
    /// The configuration of the top level and of each environment.
    environments: Vec<Resolved>,
    warnings: String,
}

/// Reads the configuration for the top level and each environment.
pub(crate) fn resolve(worker: &Worker) -> Vec<Resolved> {
    read([&worker.project]).remove(0).environments
}

/// Reads the configurations of projects in one process: it takes wrangler longer to start than to read.
fn read<'a>(projects: impl IntoIterator<Item = &'a Project>) -> Vec<Reading> {
    let directories: Vec<_> = projects.into_iter().map(Project::dir).collect();
    let mut node = node_command("node");
    node.arg(root().join("tests/tests/worker/read-config.mjs")).args(&directories);
    let output = run(node, TIMEOUT);
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{stdout}{stderr}");
    let readings: Vec<Value> =
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"));
    assert_eq!(readings.len(), directories.len(), "{stdout}");
    readings
        .iter()
        .map(|reading| Reading {
            environments: list(&reading["environments"]).iter().map(resolved).collect(),
            warnings: text(&reading["warnings"]),
        })
        .collect()
}

/// Splits wrangler's warnings into single points.
fn points(warnings: &str) -> BTreeSet<String> {
    let mut points = BTreeSet::new();
    for line in warnings.lines().map(str::trim).filter(|line| !line.is_empty()) {
        // All messages have the same headings; the points follow dashes.
        let about = line.strip_prefix("- ").filter(|about| !about.ends_with("environment configuration"));
        points.extend(about.map(str::to_owned));
    }
    assert_eq!(points.is_empty(), warnings.is_empty(), "{warnings}");
    points
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn resolved(config: &Value) -> Resolved {
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
    let workers = project::all();
    let readings = read(workers.iter().map(|worker| &worker.project));
    for (worker, reading) in workers.iter().zip(readings) {
        let sandboxes = worker.sandboxes();
        let has_none = ["browser", "scripts-only"].iter().any(|name| worker.name == *name);
        assert_eq!(sandboxes.is_empty(), has_none, "{}: its sandboxes", worker.name);
        let own = worker.project.read("koze.lock").contains("[scripts]");
        for config in reading.environments {
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
    let workers = project::all();
    // A user's configuration may cause its own warnings. Bindings that an environment lacks are reported one by one as soon
    // as the environment has any binding.
    let before: BTreeMap<_, _> =
        workers.iter().filter_map(|worker| Some((worker.name.as_str(), worker.before()?))).collect();
    let before: BTreeMap<_, _> = before.keys().copied().zip(read(before.values())).collect();
    let after = read(workers.iter().map(|worker| &worker.project));
    for (worker, after) in workers.iter().zip(after) {
        let known =
            before.get(worker.name.as_str()).map(|before| points(&before.warnings)).unwrap_or_default();
        let sandboxes = worker.sandboxes();
        let is_binding =
            |point: &str| point.chars().all(|c| c == '_' || c.is_ascii_uppercase() || c.is_ascii_digit());
        let is_theirs = |point: &String| {
            known.contains(point)
                || point.starts_with("The following bindings are at the top level")
                || (is_binding(point) && !sandboxes.iter().any(|sandbox| sandbox.binding == *point))
        };
        let new: Vec<_> = points(&after.warnings).into_iter().filter(|point| !is_theirs(point)).collect();
        assert!(new.is_empty(), "{}: {new:#?}", worker.name);
    }
}

/// koze refuses these keys, too: K073 in an attribute, and K100 in an entry.
#[test]
fn wrangler_refuses_keys_of_the_default_policy() {
    let keys = [
        ("image", "\"x:1\""),
        ("instance_type", "\"basic\""),
        ("max_instances", "3"),
        ("constraints", "{ \"regions\": [\"WEUR\"] }"),
        ("rollout_step_percentage", "25"),
        ("rollout_active_grace_period", "60"),
        ("image_vars", "{ \"A\": \"b\" }"),
        ("image_build_context", "\".\""),
        ("wrangler_ssh", "{ \"enabled\": true }"),
        ("configuration", "{ \"image\": \"x:1\" }"),
    ];
    let entry = keys.map(|(key, value)| format!("{key:?}: {value}")).join(", ");
    let project = Project::new();
    project.write(
        "wrangler.jsonc",
        format!(
            "{{ \"name\": \"a\", \"main\": \"a.mjs\", \"compatibility_date\": \"2026-04-21\", \"containers\": [{{ \
             \"class_name\": \"A\", \"name\": \"a\", \"scheduling_policy\": \"durable_object\", {entry} }}] }}"
        ),
    );
    let mut node = node_command("node");
    node.arg(root().join("tests/tests/worker/read-config.mjs")).arg(project.dir());
    let output = run(node, TIMEOUT);
    assert!(!output.status.success(), "wrangler accepts it");
    let expected = format!(
        "Unsupported fields for Durable Object-managed Containers in containers: {}.",
        keys.map(|(key, _)| format!("{key:?}")).join(",")
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(&expected), "{stderr}");
}
