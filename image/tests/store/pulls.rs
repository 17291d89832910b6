//! Images from a registry.

use std::fs;
use std::process::Command;
use std::sync::Mutex;

use base64::Engine as _;
use koze_image::{Event, Reference, Store};
use serde_json::json;

use crate::archives::{Layer, architecture, config, digest, gzip};
use crate::place::{Place, lines};
use crate::registry::{Behavior, Registry};

/// Returns the archives of layers of a few kilobytes.
fn archives(names: &[&str]) -> Vec<Vec<u8>> {
    let layer = |name: &&str| Layer::default().file(name, &name.repeat(3000)).bytes();
    names.iter().map(layer).collect()
}

fn reference(registry: &Registry, name: &str) -> Reference {
    registry.reference(name).parse().unwrap()
}

fn add(registry: &Registry, name: &str, archives: &[Vec<u8>]) -> serde_json::Value {
    let blobs: Vec<_> = archives.iter().map(|archive| gzip(archive)).collect();
    registry.add_image(name, &blobs, &config(archives))
}

/// Adds an image whose blobs are not compressed, and so are large enough to be cut off.
fn add_plain(registry: &Registry, name: &str, archives: &[Vec<u8>]) {
    registry.add_image(name, archives, &config(archives));
}

#[test]
fn images_are_pulled_with_a_token_and_layers_only_once() {
    let registry = Registry::start(Behavior::default());
    let place = Place::new();
    add(&registry, "team/tool:1", &archives(&["a", "b", "c", "d", "a"]));
    add(&registry, "team/tool:2", &archives(&["a", "e"]));
    let first = reference(&registry, "team/tool:1");
    let events = Mutex::new(Vec::new());
    let image = place.store.pull(&first, &|event| events.lock().unwrap().push(format!("{event:?}"))).unwrap();
    assert_eq!(place.store.find(&first).unwrap().unwrap(), image);
    let found = image.layers.iter().flat_map(|layer| fs::read_dir(place.store.layers().join(layer)).unwrap());
    let found: Vec<_> = found.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(found, ["b", "c", "d", "a"]);
    let events = events.into_inner().unwrap();
    let count = |what: &str| events.iter().filter(|event| event.starts_with(what)).count();
    assert_eq!((count("Started"), count("Finished"), count("Present")), (4, 4, 0));

    registry.take_log();
    let events = Mutex::new(Vec::new());
    place
        .store
        .pull(&reference(&registry, "team/tool:2"), &|event| {
            if let Event::Present(_) | Event::Started(..) = event {
                events.lock().unwrap().push(format!("{event:?}"));
            }
        })
        .unwrap();
    assert_eq!(events.lock().unwrap().len(), 2);
    let blobs: Vec<_> = registry.take_log().into_iter().filter(|path| path.contains("/blobs/")).collect();
    assert_eq!(blobs.len(), 2, "the configuration and one layer: {blobs:?}");
}

#[test]
fn downloads_go_on_where_they_were_cut_off() {
    let registry = Registry::start(Behavior { cut_blobs: 5, overloaded: 2, ..Behavior::default() });
    add_plain(&registry, "tool:1", &archives(&["a", "b"]));
    let place = Place::new();
    let image = place.store.pull(&reference(&registry, "tool:1"), &|_| ()).unwrap();
    assert_eq!(image.layers.len(), 2);
    let log = registry.take_log();
    assert!(log.iter().any(|request| request.contains(" bytes=")), "{log:?}");

    // A registry that knows no ranges sends all again.
    let registry = Registry::start(Behavior { cut_blobs: 2, without_ranges: true, ..Behavior::default() });
    add_plain(&registry, "tool:1", &archives(&["a", "b"]));
    let store = Store::open(&place.path("other")).unwrap();
    let image = store.pull(&reference(&registry, "tool:1"), &|_| ()).unwrap();
    let found: Vec<_> = image.layers.iter().flat_map(|layer| lines(&store.layers().join(layer))).collect();
    assert_eq!(found.len(), 2);

    // It gives up in the end.
    let registry = Registry::start(Behavior { overloaded: 100, ..Behavior::default() });
    add_plain(&registry, "tool:1", &archives(&["c"]));
    let error = store.pull(&reference(&registry, "tool:1"), &|_| ()).unwrap_err().to_string();
    assert!(error.contains("failed 5 times") && error.contains("503"), "{error}");
}

#[test]
fn the_image_for_this_machine_is_chosen_from_an_index() {
    let registry = Registry::start(Behavior::default());
    let ours = add(&registry, "tool:ours", &archives(&["ours"]));
    let theirs = add(&registry, "tool:theirs", &archives(&["theirs"]));
    let at = |descriptor: &serde_json::Value, architecture: &str, variant: Option<&str>| {
        let mut descriptor = descriptor.clone();
        descriptor["platform"] = json!({ "os": "linux", "architecture": architecture });
        if let Some(variant) = variant {
            descriptor["platform"]["variant"] = variant.into();
        }
        descriptor
    };
    let attestation = |descriptor: &serde_json::Value| {
        let mut descriptor = descriptor.clone();
        descriptor["platform"] = json!({ "os": "unknown", "architecture": "unknown" });
        descriptor
    };
    let manifests = [
        at(&theirs, "s390x", None),
        attestation(&theirs),
        at(&theirs, architecture(), Some("v4")),
        at(&ours, architecture(), None),
    ];
    registry.add_manifest("tool:1", &json!({ "schemaVersion": 2, "manifests": manifests }));
    let place = Place::new();
    let image = place.store.pull(&reference(&registry, "tool:1"), &|_| ()).unwrap();
    assert!(place.store.layers().join(&image.layers[0]).join("ours").exists());

    let manifests = [at(&theirs, "s390x", None), at(&theirs, "riscv64", None), attestation(&theirs)];
    registry.add_manifest("tool:2", &json!({ "schemaVersion": 2, "manifests": manifests }));
    let error = place.store.pull(&reference(&registry, "tool:2"), &|_| ()).unwrap_err().to_string();
    let expected = format!(
        "the image is for linux/riscv64, linux/s390x, and this machine needs linux/{}",
        architecture()
    );
    assert_eq!(error, expected);
}

#[test]
fn references_with_a_digest_are_verified() {
    let registry = Registry::start(Behavior::default());
    let manifest = add(&registry, "tool:1", &archives(&["a"]));
    let digest = manifest["digest"].as_str().unwrap();
    let place = Place::new();
    place.store.pull(&reference(&registry, &format!("tool@{digest}")), &|_| ()).unwrap();
    let wrong = format!("sha256:{}", "0".repeat(64));
    registry.add_manifest(&format!("tool:{wrong}"), &json!({ "schemaVersion": 2 }));
    let error =
        place.store.pull(&reference(&registry, &format!("tool@{wrong}")), &|_| ()).unwrap_err().to_string();
    assert!(error.contains("the registry sent something else"), "{error}");
}

#[test]
fn registries_that_lie_are_refused() {
    let place = Place::new();
    let pull = |registry: &Registry| {
        let error = place.store.pull(&reference(registry, "tool:1"), &|_| ()).unwrap_err().to_string();
        assert_eq!(fs::read_dir(place.path("store/staging")).unwrap().count(), 0);
        assert!(place.store.find(&reference(registry, "tool:1")).unwrap().is_none());
        error
    };
    let archive = archives(&["a"]).remove(0);
    let honest = |registry: &Registry| {
        add_plain(registry, "tool:1", std::slice::from_ref(&archive));
        json!({ "digest": digest(&archive) })
    };
    // A layer of the same size, a longer one, and a shorter one.
    let mut other = archive.clone();
    other[600] ^= 1;
    let longer = [archive.clone(), vec![0; 512]].concat();
    for (blob, expected) in
        [(other, "digest"), (longer, "sends more than"), (archive[..100].to_vec(), "failed 5 times")]
    {
        let registry = Registry::start(Behavior::default());
        let layer = honest(&registry);
        registry.replace_blob(&layer, &blob);
        let error = pull(&registry).to_lowercase();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    // Manifests and blobs that never end.
    let registry = Registry::start(Behavior { endless_manifests: true, ..Behavior::default() });
    assert!(pull(&registry).contains("more than 4194304 bytes"));
    let registry = Registry::start(Behavior { endless_blobs: true, ..Behavior::default() });
    honest(&registry);
    assert!(pull(&registry).contains("sends more than"));
    // Sizes and numbers that no machine has.
    let registry = Registry::start(Behavior::default());
    let small = registry.add_blob(config(std::slice::from_ref(&archive)).to_string().as_bytes());
    let huge = json!({ "digest": digest(&archive), "size": u64::MAX });
    registry.add_manifest("tool:1", &json!({ "schemaVersion": 2, "config": small, "layers": [huge] }));
    assert!(pull(&registry).contains("at most 34359738368 are allowed"));
    registry.add_manifest("tool:1", &json!({ "schemaVersion": 2, "config": huge, "layers": [] }));
    assert!(pull(&registry).contains("configuration of the image is too large"));
    registry.add_manifest(
        "tool:1",
        &json!({ "schemaVersion": 2, "config": small, "layers": vec![small.clone(); 1000] }),
    );
    assert!(pull(&registry).contains("1000 layers; at most 127"));
    let endless = json!({ "schemaVersion": 2, "manifests": [{ "digest": digest(&archive), "size": -1 }] });
    registry.add_manifest("tool:1", &endless);
    assert!(pull(&registry).contains("manifest of the image is invalid"));
}

#[test]
fn two_processes_pull_the_same_image() {
    let registry = Registry::start(Behavior { cut_blobs: 3, ..Behavior::default() });
    add_plain(&registry, "tool:1", &archives(&["a", "b", "c"]));
    let place = Place::new();
    let directory = place.path("store");
    let pull = || Store::open(&directory).unwrap().pull(&reference(&registry, "tool:1"), &|_| ()).unwrap();
    let images: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(pull)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(images.iter().all(|image| *image == images[0]));
    assert_eq!(fs::read_dir(place.store.layers()).unwrap().count(), 3);
    assert_eq!(fs::read_dir(place.path("store/staging")).unwrap().count(), 0);
}

/// The variable that tells a second run of this program what to pull.
const TASK: &str = "KOZE_IMAGE_TEST_TASK";

/// Not a test: what `run_again` starts, with variables that this process must not have.
#[test]
fn pull_in_another_process() {
    let Some(task) = std::env::var_os(TASK) else { return };
    let task = task.into_string().unwrap();
    let (directory, reference) = task.split_once(' ').unwrap();
    let store = Store::open(directory.as_ref()).unwrap();
    match store.pull(&reference.parse().unwrap(), &|_| ()) {
        Ok(image) => println!("pulled {} layers", image.layers.len()),
        Err(error) => println!("failed: {error}"),
    }
}

fn run_again(place: &Place, registry: &Registry, reference: &str) -> Command {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "pulls::pull_in_another_process", "--nocapture"]);
    let store = place.path("store");
    again.env(TASK, format!("{} {}", store.display(), registry.reference(reference)));
    again.env("DOCKER_CONFIG", place.path("docker"));
    again
}

#[test]
fn credentials_come_from_docker() {
    let login = Some(("user".to_owned(), "secret".to_owned()));
    let registry = Registry::start(Behavior { login, ..Behavior::default() });
    add(&registry, "tool:1", &archives(&["a"]));
    let place = Place::new();
    let docker = place.path("docker");
    fs::create_dir(&docker).unwrap();
    let run = |config: serde_json::Value| {
        fs::write(docker.join("config.json"), config.to_string()).unwrap();
        let mut again = run_again(&place, &registry, "tool:1");
        again.env("PATH", &docker);
        String::from_utf8(again.output().unwrap().stdout).unwrap()
    };
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let host = registry.address.to_string();
    let output = run(json!({}));
    let hint = format!("check the name, or log in with `docker login {host}`");
    assert!(output.contains(&hint), "{output}");
    let output = run(json!({ "auths": { &host: { "auth": encode("user:wrong") } } }));
    assert!(output.contains("check the name and the credentials"), "{output}");
    let output = run(json!({ "credHelpers": { &host: "missing" } }));
    assert!(output.contains("the credentials in Docker's `config.json` cannot be used"), "{output}");
    let output = run(json!({ "auths": { &host: { "auth": encode("user:secret") } } }));
    assert!(output.contains("pulled 1 layers"), "{output}");
    // A helper, which reads the name of the registry.
    let helper = docker.join("docker-credential-test");
    let script = format!(
        "#!/bin/sh\nread -r host\n[ \"$1 $host\" = \"get {host}\" ] && echo '{{\"Username\": \"user\", \"Secret\": \"secret\"}}'\n"
    );
    fs::write(&helper, script).unwrap();
    crate::place::open_to_all(&helper);
    for config in [json!({ "credHelpers": { &host: "test" } }), json!({ "credsStore": "test" })] {
        registry.take_log();
        let output = run(config);
        assert!(output.contains("pulled 1 layers"), "{output}");
        assert!(registry.take_log().iter().any(|path| path.starts_with("/token")));
    }
}

#[test]
fn a_killed_pull_leaves_no_half_layer() {
    let registry = Registry::start(Behavior::default());
    // Many files, so that unpacking takes a while.
    let many = |name: &str| {
        let layer = Layer::default().directory(name, 0o755);
        (0..3000).fold(layer, |layer, index| layer.file(&format!("{name}/{index}"), "content")).bytes()
    };
    let all = [many("a"), many("b"), many("c")];
    add(&registry, "tool:1", &all);
    let place = Place::new();
    let mut is_interrupted = false;
    for wait in [20, 60, 120, 200, 300] {
        let mut again = run_again(&place, &registry, "tool:1");
        again.stdout(std::process::Stdio::null());
        let mut pull = again.spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait));
        is_interrupted |= pull.try_wait().unwrap().is_none();
        pull.kill().unwrap();
        pull.wait().unwrap();
        let store = Store::open(&place.path("store")).unwrap();
        assert_eq!(fs::read_dir(place.path("store/staging")).unwrap().count(), 0);
        for layer in fs::read_dir(store.layers()).unwrap() {
            let tree = lines(&layer.unwrap().path());
            assert_eq!(tree.len(), 3001, "a layer is there in part");
        }
    }
    assert!(is_interrupted, "no pull was killed");
    let image = place.store.pull(&reference(&registry, "tool:1"), &|_| ()).unwrap();
    assert_eq!(image.layers.len(), 3);
}

#[test]
fn what_a_registry_lacks_is_named() {
    let registry = Registry::start(Behavior::default());
    registry.change(|behavior| behavior.overloaded = 1);
    let place = Place::new();
    let error = place.store.pull(&reference(&registry, "tool:none"), &|_| ()).unwrap_err().to_string();
    let address = registry.address;
    assert_eq!(error, format!("the registry {address} does not have `{address}/tool:none`: check the name"));
    drop(registry);
    let error =
        place.store.pull(&format!("{address}/tool:1").parse().unwrap(), &|_| ()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("the registry {address} failed 5 times: ")), "{error}");
}
