//! `koze image`, and sandboxes whose root is a stored image.

use std::path::Path;

use fs_err as fs;

use koze_tests::{Project, Run, Sandboxes};
use serde_json::{Value, json};
use tar::EntryType;

use self::archives::{Layer, config, gzip, save_with};
use self::loaded::list_loaded;
use self::registry::{Behavior, Registry};
use crate::common::sandboxes;

#[path = "../../../image/tests/store/archives.rs"]
#[allow(dead_code, reason = "the tests of the store use the rest")]
pub(crate) mod archives;
#[path = "../../../local/tests/local/loaded.rs"]
mod loaded;
#[path = "../../../image/tests/store/registry.rs"]
#[allow(dead_code, reason = "the tests of the store use the rest")]
mod registry;

/// Returns a layer with programs of this machine, and what they load.
pub(crate) fn programs() -> Layer {
    let programs = ["bash", "cat", "id", "ls", "rm", "sh"].map(|name| Path::new("/usr/bin").join(name));
    let mut files = list_loaded(&programs);
    files.extend(programs);
    files.into_iter().fold(Layer::default(), |layer, path| {
        let name = path.to_str().expect("a path in Unicode").trim_start_matches('/').to_owned();
        layer.entry(EntryType::Regular, name.as_bytes(), 0o755, b"", &fs::read(&path).expect("a program"))
    })
}

/// Stores an image under the name that the default sandbox declares.
fn import(host: &Sandboxes, marker: &str) -> String {
    let layers = [programs().bytes(), Layer::default().file("marker", marker).bytes()];
    fs::write(host.path("saved.tar"), save_with(&config(&layers), &layers, None)).expect("the archive");
    let reference = inspect(host, "before", "reference");
    let imported = host.koze(&["image", "import", "saved.tar", "--name", &reference]);
    assert_eq!(imported.code, 0, "{imported:?}");
    reference
}

/// Returns what `koze inspect` says about a sandbox.
fn inspect(host: &Sandboxes, sandbox: &str, key: &str) -> String {
    let run = host.koze(&["inspect", sandbox]);
    let shown: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
    shown[key].as_str().expect("a text").to_owned()
}

#[test]
fn a_stored_image_is_the_root_of_new_sandboxes() {
    let host = sandboxes();
    let created = host.call("sandbox_create", &json!({ "sandbox": "before" }), &[]);
    assert!(created.to_string().contains("does not use the image"), "{created}");
    let reference = import(&host, "of the image");

    let created = host.call("sandbox_create", &json!({ "sandbox": "after" }), &[]);
    assert!(!created.to_string().contains("does not use the image"), "{created}");
    let shell = |sandbox: &str, command: &str| {
        host.call("shell", &json!({ "sandbox": sandbox, "command": command }), &[]).to_string()
    };
    let in_image = "/usr/bin/id -u; /usr/bin/cat /marker; echo new > /etc/new && /usr/bin/cat /etc/new";
    let printed = shell("after", in_image);
    assert!(printed.contains("0\\nof the imagenew"), "{printed}");
    // One that exists keeps what it was created with.
    assert!(shell("before", "id -u").contains("1000"));

    let root = |sandbox: &str| inspect(&host, sandbox, "root");
    assert_eq!(root("before"), "this machine");
    assert!(root("after").starts_with("sha256:"));
    let checked = host.koze(&["doctor"]);
    assert!(checked.stdout.contains("in place of those of their images: `python`;"), "{checked:?}");

    let removed = host.koze(&["image", "rm", &reference]);
    assert_eq!(removed.code, 0, "{removed:?}");
    host.kill_supervisors();
}

fn koze(project: &Project, args: &[&str]) -> Run {
    let mut command = koze_tests::koze();
    command.arg("image").args(args).env("KOZE_IMAGES", project.path("images"));
    // Nobody's credentials.
    command.env("DOCKER_CONFIG", project.path("docker"));
    project.run(command)
}

#[test]
fn images_are_pulled_listed_exported_and_removed() {
    let registry = Registry::start(Behavior::default());
    let layers = ["a", "b"].map(|name| Layer::default().file(name, name).bytes());
    registry.add_image("team/tool:1", &layers.each_ref().map(|layer| gzip(layer)), &config(&layers));
    let reference = registry.reference("team/tool:1");
    let project = Project::new();

    let pulled = koze(&project, &["pull", &reference]);
    assert_eq!(pulled.code, 0, "{pulled:?}");
    assert!(pulled.stdout.starts_with(&format!("{reference} sha256:")), "{pulled:?}");
    let missing = koze(&project, &["pull", &registry.reference("team/none:1")]);
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(missing.stderr.contains("team/none:1"), "{missing:?}");

    let exported = koze(&project, &["export", &reference, "exported.tar"]);
    assert_eq!(exported.code, 0, "{exported:?}");
    let imported = koze(&project, &["import", "exported.tar", "--name", "again:2"]);
    assert_eq!(imported.code, 0, "{imported:?}");
    let listed = koze(&project, &["list", "--format", "json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|_| panic!("{listed:?}"));
    let names: Vec<_> =
        listed["images"].as_array().expect("a list").iter().map(|one| &one["reference"]).collect();
    assert_eq!(names.len(), 2, "{listed}");
    assert!(names.contains(&&json!(reference)), "{listed}");

    for name in [reference.as_str(), "again:2"] {
        let removed = koze(&project, &["rm", name]);
        assert_eq!(removed.code, 0, "{removed:?}");
    }
    let again = koze(&project, &["rm", "again:2"]);
    assert_eq!(again.code, 1, "{again:?}");
    let left = fs::read_dir(project.path("images/layers")).expect("the layers").count();
    assert_eq!(left, 0);
}

#[test]
fn the_files_of_new_sandboxes_are_chosen() {
    let registry = Registry::start(Behavior::default());
    let layers = [programs().bytes(), Layer::default().file("marker", "of the image").bytes()];
    registry.add_image("team/tool:1", &layers.each_ref().map(|layer| gzip(layer)), &config(&layers));
    let host = sandboxes();
    let attribute = format!(
        "#[sandbox(default, backend = \"native\", image = \"{}\")]",
        registry.reference("team/tool:1")
    );
    let file = format!("use koze::prelude::*;\n\n{attribute}\npub struct ShellSandbox;\n");
    host.write("src/server/shell.sandbox.rs", file);
    let shell = |sandbox: &str, options: &[&str]| {
        let input = json!({ "sandbox": sandbox, "command": "/usr/bin/cat /marker || echo none" });
        host.call("shell", &input, options).to_string()
    };
    assert!(shell("machine", &[]).contains("none"));
    assert!(shell("pulled", &["--image", "declared"]).contains("of the image"));
    // It is stored now.
    assert!(shell("stored", &[]).contains("of the image"));
    assert!(shell("other", &["--image", "host"]).contains("none"));
    // What exists stays as it is.
    assert!(shell("pulled", &["--image", "host"]).contains("of the image"));

    let manifest = fs::read_to_string(host.path("Cargo.toml")).expect("the manifest");
    let local = |image: &str| format!("{manifest}\n[package.metadata.koze.local]\nimage = {image}\n");
    host.write("Cargo.toml", local("\"host\""));
    assert!(shell("by-manifest", &[]).contains("none"));
    host.write("Cargo.toml", local("\"docker\""));
    let refused = host.koze(&["call", "sandbox_create", r#"{"sandbox": "b"}"#]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let message = "must be `\"stored\"`, `\"declared\"` or `\"host\"`";
    assert!(refused.stderr.contains(message) && refused.stderr.contains("Cargo.toml:"), "{refused:?}");
    host.write("Cargo.toml", manifest);
    let remote = host.koze(&["call", "sandbox_list", "--url", "http://127.0.0.1:1", "--image", "host"]);
    assert_eq!(remote.code, 2, "{remote:?}");
    assert!(remote.stderr.contains("leave it out with --url"), "{remote:?}");
    host.kill_supervisors();
}
