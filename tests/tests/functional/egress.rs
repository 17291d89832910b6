//! The egress policy of sandboxes: `koze egress explain`, `koze list --egress`, and what a Worker cannot enforce.

use insta::assert_snapshot;
use koze_tests::Project;
use serde_json::Value;

use crate::common::{built, shell};

fn project() -> Project {
    shell(
        "#[sandbox(allowed_hosts = [\"api.example.com\", \"GET docs.example.com/v1/**\"], denied_hosts = [\"DELETE api.example.com\"], \
         credentials(API_KEY(host = \"api.example.com\"), DOCS(host = \"GET docs.example.com/v1/**\", query = \"key\")))]\n\
         pub struct ShellSandbox;",
    )
}

#[test]
fn a_worker_decides_about_each_request_if_the_policy_says_so() {
    let project = project();
    built(&project);
    let entry = project.read("src/generated/worker.mjs");
    for part in [
        "new Requests(/** @type {any} */ (new KozeRequests()), { ShellSandbox: { internet: false, \
         allowed_hosts: [\"api.example.com\", \"GET docs.example.com/v1/**\"], denied_hosts: [\"DELETE api.example.com\"], \
         credentials: [{ name: \"API_KEY\", host: \"api.example.com\", placement: \"bearer\" }, \
         { name: \"DOCS\", host: \"GET docs.example.com/v1/**\", placement: { query: { key: \"key\" } } }] } })",
        "{ ...requests.environment(\"ShellSandbox\", this.ctx.id.toString()) }",
        "class ContainerProxy extends KozeProxy {\n  /** @override */\n  requests = requests;",
    ] {
        assert!(entry.contains(part), "{part}\n{entry}");
    }
    assert!(project.read("src/generated/mod.rs").contains("mod __requests;"));
    // The files go when the last such policy goes.
    let plain = "#[sandbox(allowed_hosts = [\"api.example.com\"])]\npub struct ShellSandbox;";
    project.write("src/server/shell.sandbox.rs", shell(plain).read("src/server/shell.sandbox.rs"));
    built(&project);
    let entry = project.read("src/generated/worker.mjs");
    assert!(
        entry.contains("class ContainerProxy extends KozeProxy {\n}") && !entry.contains("requests"),
        "{entry}"
    );
    for gone in ["src/generated/requests.rs", "src/generated/koze/requests.mjs"] {
        assert!(!project.path(gone).exists(), "{gone}");
    }
}

/// Requests are passed to the Worker only if there is a list.
#[test]
fn a_policy_of_credentials_alone_is_enforced() {
    let keys = "#[sandbox(internet = true, credentials(API_KEY(host = \"api.example.com\")))]\npub struct ShellSandbox;";
    let project = shell(keys);
    built(&project);
    let entry = project.read("src/generated/worker.mjs");
    assert!(entry.contains("  deniedHosts = [];") && entry.contains("  interceptHttps = true;"), "{entry}");
}

#[test]
fn the_policy_is_listed() {
    let run = project().koze(&["list", "--egress"]);
    assert_snapshot!(run.stdout, @r"
    shell
      allow       api.example.com
      allow       GET docs.example.com/v1/**
      deny        DELETE api.example.com
      credential  API_KEY for api.example.com, in `Authorization: Bearer`
      credential  DOCS for GET docs.example.com/v1/**, in the parameter `key` of the query
    ");
    let json: Value =
        serde_json::from_str(&project().koze(&["list", "--egress", "--format", "json"]).stdout).unwrap();
    assert_eq!(json["egress"][0]["credentials"][0]["name"], "API_KEY");
}

/// Scripts have a policy of their own. The hosts of their credentials need not be in `allowed_hosts`.
#[test]
fn the_policy_of_scripts_is_listed_and_explained() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    let table = "\n[package.metadata.koze.script]\nworker = false\nallowed_hosts = [\"docs.example\"]\n\n\
                 [package.metadata.koze.script.credentials]\n\
                 API_KEY = { host = \"api.example\", header = \"x-api-key\" }\n\
                 DOCS = { host = \"GET docs.example/v1/**\", basic = \"user\" }\n";
    project.write("Cargo.toml", format!("{}{table}", project.read("Cargo.toml")));
    assert_snapshot!(project.koze(&["list", "--egress"]).stdout, @"
    shell
      internet    off
    (scripts)
      allow       docs.example
      allow       api.example:443
      credential  API_KEY for api.example, in the header `x-api-key`
      credential  DOCS for GET docs.example/v1/**, in `Authorization: Basic` with the user `user`
    ");
    let explain = ["egress", "explain", "https://api.example/a", "--sandbox", "(scripts)"];
    assert_snapshot!(project.koze(&explain).stdout, @"
    (scripts): allowed by `allowed_hosts: api.example:443`
      koze reads the request
      API_KEY: its placeholder is replaced in the header `x-api-key`
    ");
}

#[test]
fn a_request_is_explained() {
    let explain = |args: &[&str]| project().koze(&[&["egress", "explain"], args].concat());
    assert_snapshot!(explain(&["https://api.example.com/v2"]).stdout, @r"
    shell: allowed by `allowed_hosts: api.example.com`
      koze's proxy reads the request: TLS ends there
      API_KEY: its placeholder is replaced in `Authorization: Bearer`
    ");
    for (args, part) in [
        (&["https://docs.example.com/v1/a"][..], "DOCS: its placeholder"),
        (&["https://docs.example.com/v1/../a"], "not in its normal form"),
        (&["https://docs.example.com/v1/a", "--method", "POST"], "this POST request"),
        (
            &["https://api.example.com/", "--method", "delete"],
            "refused by `denied_hosts: DELETE api.example.com`",
        ),
        (&["https://other.example.com/"], "`allowed_hosts` does not list it"),
        (&["https://api.example.com:8443/"], "add `api.example.com:8443`"),
    ] {
        let run = explain(args);
        let is_refused = !part.starts_with("DOCS");
        assert!(run.stdout.contains(part), "{args:?}: {run:?}");
        assert_eq!(run.code, i32::from(is_refused), "{args:?}: {run:?}");
    }
    // Without TLS there is no credential.
    assert!(!explain(&["http://api.example.com/"]).stdout.contains("API_KEY"));
    for args in [
        &["api.example.com"][..],
        &["https://u@api.example.com/"],
        &["https://a.example/", "--sandbox", "none"],
    ] {
        let run = explain(args);
        assert_eq!(run.code, 2, "{args:?}: {run:?}");
    }
    let json: Value =
        serde_json::from_str(&explain(&["https://api.example.com/", "--format", "json"]).stdout).unwrap();
    assert_eq!(json["requests"][0]["credentials"], serde_json::json!(["API_KEY"]));
}
