//! `containers[].configuration`, where image and limits stood in earlier versions of wrangler: it refuses `instance_type`
//! beside limits there, and prefers an `image` beside it.

use koze_tests::Project;

use crate::common::{SHELL, built, refused, sandbox, shell};

const PLAIN: &str = "#[sandbox]\npub struct ShellSandbox;";

const ENTRY: &str = r#"{ // Ours since 2025.
      "class_name": "ShellSandbox",
      "max_instances": 3, "configuration": { "image": "./docker/Dockerfile", "vcpu": 0.5, "memory_mib": 2048, "disk": { "size_mb": 4000 } }, // tuned
    }"#;

/// A project whose container is this one, at the top level and in an environment.
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

/// Builds, and builds again, which must change nothing more.
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

/// How often an entry stands in a configuration, byte for byte.
fn count(config: &str, entry: &str) -> usize {
    config.matches(entry).count()
}

#[test]
fn limits_and_an_image_stay_as_they_are() {
    let project = jsonc(PLAIN, ENTRY);
    let run = built(&project);
    assert!(run.stdout.contains("ShellSandbox  SHELL_SANDBOX  ./docker/Dockerfile"), "{}", run.stdout);
    let config = built_twice(&project);
    assert_eq!(count(&config, ENTRY), 2, "{config}");
    // The same with the line ends of Windows.
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

/// Limits without an image, and an image without limits: only what is there is left out.
#[test]
fn one_without_the_other() {
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

/// The SDK's image follows the SDK where it stands.
#[test]
fn an_image_of_the_sdk() {
    let entry = r#"{ "class_name": "ShellSandbox", "configuration": { "image": "docker.io/cloudflare/sandbox:0.8.11", "labels": [] } }"#;
    let project = jsonc(PLAIN, entry);
    let config = built_twice(&project);
    let moved = r#""configuration": { "image": "docker.io/cloudflare/sandbox:0.12.10", "labels": [] }"#;
    assert_eq!((count(&config, moved), count(&config, "\"image\"")), (2, 2), "{config}");
}

#[test]
fn what_the_attribute_says_must_not_contradict() {
    for (keys, key) in [
        ("instance_type = \"basic\"", "instance_type"),
        ("instance(vcpu = 1, memory_mib = 2048, disk_mb = 4000)", "instance_type"),
        ("image = \"debian:12\"", "image"),
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
    // What fits is koze's from then on, and follows the attribute where it stands.
    sandbox(&project, SHELL, "#[sandbox(image = \"debian:12\")]\npub struct ShellSandbox;");
    let config = built_twice(&project);
    assert_eq!(
        (count(&config, "\"image\": \"debian:12\", \"vcpu\""), count(&config, "\"image\"")),
        (2, 2),
        "{config}"
    );
}

/// What an earlier build wrote beside it goes.
#[test]
fn keys_of_kozes_beside_it_go() {
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
    // Without it, they come again.
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
