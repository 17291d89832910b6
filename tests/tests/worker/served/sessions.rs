//! The registry of a session's sandboxes, in every isolate and after every restart.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::host::Host;

fn list(host: &Host, session: &str) -> Vec<String> {
    let (failed, value) = host.call(session, "sandbox_list", &json!({}));
    assert!(!failed, "{value}");
    let text = |sandbox: &Value, key: &str| sandbox[key].as_str().expect("a text").to_owned();
    let sandboxes = value["sandboxes"].as_array().expect("a list").iter();
    sandboxes.map(|one| ["name", "image", "status"].map(|key| text(one, key)).join(" ")).collect()
}

fn create(host: &Host, sandbox: &str, image: &str) -> (bool, Value) {
    host.call("s", "sandbox_create", &json!({ "sandbox": sandbox, "image": image }))
}

#[test]
fn sandboxes_are_listed_also_after_a_restart() {
    let persist = TempDir::new().expect("a temporary directory");
    let host = Host::with_registry(&persist);
    assert_eq!(list(&host, "s"), [""; 0]);
    assert_eq!(create(&host, "py", "python").1["created"], true);
    host.shell("s", "echo");
    host.shell("other", "echo");
    assert_eq!(list(&host, "s"), ["default shell running", "py python sleeping"]);
    assert_eq!(list(&host, "other"), ["default shell running"]);
    drop(host);

    let host = Host::with_registry(&persist);
    assert_eq!(list(&host, "s"), ["default shell sleeping", "py python sleeping"]);
    // It is found in its image, also by an isolate that has never seen it.
    let input = json!({ "sandbox": "py", "command": "class" });
    assert_eq!(host.call("s", "shell", &input).1["stdout"], "PythonSandbox");
    assert_eq!(create(&host, "py", "python").1["created"], false);
    let (failed, error) = create(&host, "py", "shell");
    assert!(failed && error.as_str().is_some_and(|error| error.starts_with("already_exists: ")), "{error}");
    assert_eq!(list(&host, "s"), ["default shell sleeping", "py python running"]);
}

/// With two concurrent images for one name, one of them wins, and both callers learn which.
#[test]
fn concurrent_creations_of_one_sandbox_agree() {
    let persist = TempDir::new().expect("a temporary directory");
    let host = Host::with_registry(&persist);
    for round in 0..8 {
        let name = format!("s{round}");
        let results = std::thread::scope(|scope| {
            let make = |image: &'static str| {
                let (host, name) = (&host, &name);
                scope.spawn(move || create(host, name, image))
            };
            [make("shell"), make("python")].map(|thread| thread.join().expect("a result"))
        });
        let made = results.iter().filter(|(failed, value)| !failed && value["created"] == true).count();
        let refused = results.iter().filter(|(failed, _)| *failed).count();
        assert_eq!((made, refused), (1, 1), "{results:?}");
        assert_eq!(list(&host, "s").iter().filter(|one| one.starts_with(&format!("{name} "))).count(), 1);
    }
}

#[test]
fn the_number_of_sandboxes_in_a_session_is_limited() {
    let persist = TempDir::new().expect("a temporary directory");
    let host = Host::with_registry(&persist);
    // Concurrently, as a model might create them.
    let results: Vec<(bool, Value)> = std::thread::scope(|scope| {
        let host = &host;
        let threads: Vec<_> =
            (0..24).map(|index| scope.spawn(move || create(host, &format!("s{index}"), "shell"))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a result")).collect()
    });
    let refused: Vec<_> = results.iter().filter(|(failed, _)| *failed).collect();
    assert_eq!(refused.len(), 4, "{results:?}");
    for (_, error) in refused {
        assert!(
            error.as_str().is_some_and(
                |error| error.starts_with("unavailable: this session has reached its limit of 20")
            ),
            "{error}"
        );
    }
    assert_eq!(list(&host, "s").len(), 20);
}
