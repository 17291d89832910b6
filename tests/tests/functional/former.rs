//! `containers[].configuration`, the place of image and limits in earlier versions of wrangler. wrangler rejects
//! `instance_type` next to limits there, and prefers an `image` next to it.

use koze_tests::Project;

use crate::common::{SHELL, built, refused, sandbox, shell};

const PLAIN: &str = "#[sandbox]\npub struct ShellSandbox;";

const ENTRY: &str = r#"{ // Ours since 2025.
      "class_name": "ShellSandbox",
      "max_instances": 3, "configuration": { "image": "./docker/Dockerfile", "vcpu": 0.5, "memory_mib": 2048, "disk": { "size_mb": 4000 } }, // tuned
    }"#;

/// A project with this container, at the top level and in an environment.
fn jsonc(declaration: &str, entry: &str) -> Project {
    let project = shell(declaration);
    project.write("docker/Dockerfile", "FROM debian:12-slim\n").write(
        "wrangler.jsonc",
        format!(
            "{{\n  \"name\": \"app\",\n  \"main\": \"src/generated/worker.mjs\",\n  \"compatibility_date\": \"2026-04-21\",\n  \"containers\": [\n    {entry}\n  ],\n  \"env\": {{ \"canary\": {{ \"containers\": [{entry}] }} }},\n}}\n"
        ),
    );
    project
}

/// Builds twice, the second time without changes.
fn built_twice(project: &Project) -> String {
    built(project);
    assert!(built(project).stdout.contains("nothing to do"));
    fs_err::read_dir(project.dir())
        .expect("a directory")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find(|name| name.starts_with("wrangler."))
        .map(|name| project.read(name))
        .expect("a configuration")
}

/// Counts the exact occurrences of an entry in a configuration.
fn count(config: &str, entry: &str) -> usize {
    config.matches(entry).count()
}

#[test]
fn limits_and_an_image_are_kept() {
    let project = jsonc(PLAIN, ENTRY);
    let run = built(&project);
    assert!(run.stdout.contains("ShellSandbox  SHELL_SANDBOX  ./docker/Dockerfile"), "{}", run.stdout);
    let config = built_twice(&project);
    assert_eq!(count(&config, ENTRY), 2, "{config}");
    // The same with CRLF line endings.
    let project = jsonc(PLAIN, ENTRY);
    project.write("wrangler.jsonc", project.read("wrangler.jsonc").replace('\n', "\r\n"));
    assert_eq!(count(&built_twice(&project), &ENTRY.replace('\n', "\r\n")), 2);
}

#[test]
fn limits_and_an_image_in_toml() {
    let entry = "[[containers]]\nclass_name = 'ShellSandbox' # by hand\n\n[containers.configuration]\nimage   = './docker/Dockerfile'\nvcpu = 1\n";
    let dotted = "[[env.canary.containers]]\nclass_name = \"ShellSandbox\"\nconfiguration.memory_mib = 512\nconfiguration.image = \"registry.example.com/mine:1\"\n";
    let project = shell(PLAIN);
    project.write("docker/Dockerfile", "FROM debian:12-slim\n").write(
        "wrangler.toml",
        format!("name = \"app\"\nmain = \"src/generated/worker.mjs\"\ncompatibility_date = \"2026-04-21\"\n\n{entry}\n{dotted}"),
    );
    let config = built_twice(&project);
    assert_eq!((count(&config, entry), count(&config, dotted)), (1, 1), "{config}");
    assert_eq!((count(&config, "instance_type"), count(&config, "image")), (0, 2), "{config}");
}

/// Only the keys that exist there are omitted.
#[test]
fn only_limits_or_only_an_image() {
    let project = jsonc(PLAIN, r#"{ "class_name": "ShellSandbox", "configuration": { "vcpu": 1 } }"#);
    let config = built_twice(&project);
    assert_eq!(
        (count(&config, "instance_type"), count(&config, "docker.io/cloudflare/sandbox:0.12.10")),
        (0, 2)
    );
    let image = r#""configuration": { "image": "./docker/Dockerfile" }"#;
    let project = jsonc(PLAIN, &format!(r#"{{ "class_name": "ShellSandbox", {image} }}"#));
    let config = built_twice(&project);
    assert_eq!(
        (count(&config, "\"instance_type\": \"lite\""), count(&config, "\"image\""), count(&config, image)),
        (2, 2, 2)
    );
}

/// An image of the SDK is updated in place.
#[test]
fn an_image_of_the_sdk() {
    let entry = r#"{ "class_name": "ShellSandbox", "configuration": { "image": "docker.io/cloudflare/sandbox:0.8.11", "labels": [] } }"#;
    let project = jsonc(PLAIN, entry);
    let config = built_twice(&project);
    let moved = r#""configuration": { "image": "docker.io/cloudflare/sandbox:0.12.10", "labels": [] }"#;
    assert_eq!((count(&config, moved), count(&config, "\"image\"")), (2, 2), "{config}");
}

#[test]
fn contradictions_with_the_attribute_are_errors() {
    for (keys, key) in [
        ("instance_type = \"basic\"", "instance_type"),
        ("instance(vcpu = 1, memory_mib = 2048, disk_mb = 4000)", "instance_type"),
        ("image = \"me/debian:12\"", "image"),
    ] {
        let project = jsonc(&format!("#[sandbox({keys})]\npub struct ShellSandbox;"), ENTRY);
        let stderr = refused(&project);
        assert!(stderr.contains("error[K042]") && stderr.contains(&format!("`{key}` is ")), "{stderr}");
        assert!(stderr.contains("wrangler.jsonc:8:"), "{stderr}");
    }
    let fits = "instance(vcpu = 0.5, memory_mib = 2048, disk_mb = 4000), image = \"../../docker/Dockerfile\"";
    let project = jsonc(&format!("#[sandbox({fits})]\npub struct ShellSandbox;"), ENTRY);
    let config = built_twice(&project);
    assert_eq!(count(&config, ENTRY), 2, "{config}");
    // Matching values are adopted, and follow the attribute in place.
    sandbox(&project, SHELL, "#[sandbox(image = \"me/debian:12\")]\npub struct ShellSandbox;");
    let config = built_twice(&project);
    assert_eq!(
        (count(&config, "\"image\": \"me/debian:12\", \"vcpu\""), count(&config, "\"image\"")),
        (2, 2),
        "{config}"
    );
}

/// Keys that an earlier build wrote next to it are removed.
#[test]
fn kozes_keys_next_to_it_are_removed() {
    let project = shell(PLAIN);
    built(&project);
    let config = project.read("wrangler.jsonc");
    let written = "\"image\": \"docker.io/cloudflare/sandbox:0.12.10\",\n      \"instance_type\": \"lite\"";
    assert!(config.contains(written), "{config}");
    let former = "\"configuration\": { \"image\": \"registry.example.com/mine:1\", \"vcpu\": 1 }";
    project.write("wrangler.jsonc", config.replace(written, &format!("{written},\n      {former}")));
    let config = built_twice(&project);
    assert_eq!(
        (count(&config, former), count(&config, "\"image\""), count(&config, "instance_type")),
        (1, 1, 0),
        "{config}"
    );
    // Without `configuration`, they are added again.
    project.write("wrangler.jsonc", config.replace(&format!(",\n      {former}"), ""));
    let config = built_twice(&project);
    assert!(config.contains(written), "{config}");
}

#[test]
fn with_kozes_own_guest() {
    let native =
        "#[sandbox(backend = \"native\", image = \"../../docker/Dockerfile\")]\npub struct ShellSandbox;";
    let project = jsonc(native, ENTRY);
    let config = built_twice(&project);
    let image = "\"configuration\": { \"image\": \"./src/generated/native/shell.Dockerfile\", \"vcpu\": 0.5";
    assert_eq!((count(&config, image), count(&config, "\"image\"")), (2, 2), "{config}");
}
