//! `koze sandboxes`.

use insta::assert_snapshot;
use serde_json::json;

use crate::common::{refused_with, sandboxes, shell};
use koze_tests::{Project, Sandboxes, koze};

#[test]
fn listing_creates_nothing() {
    let host = sandboxes();
    let run = host.koze(&["sandboxes"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_snapshot!(run.stdout, @"no sandboxes: `koze call` creates one on first use");
    let run = host.koze(&["sandboxes", "--format", "json"]);
    assert_snapshot!(run.stdout, @r#"
    {
      "sandboxes": []
    }
    "#);
    assert!(host.state().is_none());
    assert!(host.supervisors().is_empty());
}

#[test]
fn sandboxes_of_all_sessions_and_of_one() {
    let host = sandboxes();
    host.call("sandbox_create", &json!({ "sandbox": "build", "image": "python" }), &[]);
    host.call("sandbox_create", &json!({ "sandbox": "web" }), &["--session", "日本 x"]);
    assert_snapshot!(host.koze(&["sandboxes"]).stdout, @"
    SESSION  SANDBOX  IMAGE   STATUS
    default  build    python  running
    日本 x     web      shell   running
    ");
    assert_snapshot!(host.koze(&["sandboxes", "--session", "日本 x"]).stdout, @"
    SESSION  SANDBOX  IMAGE  STATUS
    日本 x     web      shell  running
    ");
    assert_snapshot!(host.koze(&["sandboxes", "--session", "none"]).stdout, @"no sandboxes: `koze call` creates one on first use");
    host.kill_supervisors();
    koze_tests::eventually("they sleep", || {
        host.koze(&["sandboxes"]).stdout.matches("sleeping").count() == 2
    });
    assert_snapshot!(host.koze(&["sandboxes", "--format", "json"]).stdout, @r#"
    {
      "sandboxes": [
        {
          "session": "default",
          "name": "build",
          "image": "python",
          "status": "sleeping"
        },
        {
          "session": "日本 x",
          "name": "web",
          "image": "shell",
          "status": "sleeping"
        }
      ]
    }
    "#);
}

#[test]
fn a_directory_without_a_package() {
    assert!(refused_with(&Project::new(), &["sandboxes"]).starts_with("error[K"));
}

#[test]
fn a_policy_is_learned_from_what_was_tried() {
    let host = Sandboxes::of(shell("#[sandbox(allowed_hosts = [\"a.invalid\"])]\npub struct ShellSandbox;"));
    let nothing = host.koze(&["egress", "learn"]);
    assert_snapshot!(nothing.stdout, @"no sandbox or script has tried to reach a host: without `internet = true` or `allowed_hosts`, programs have no network to try. Learn with `internet = true`");
    let fetch = |url: &str| {
        let code =
            format!("import urllib.request\ntry: urllib.request.urlopen('{url}')\nexcept Exception: pass");
        json!({ "command": format!("python3 -c \"{code}\"") }).to_string()
    };
    host.koze(&["call", "shell", &fetch("http://before.invalid/")]);
    let program = koze().get_program().to_string_lossy().into_owned();
    let run =
        host.koze(&["egress", "learn", "--", &program, "call", "shell", &fetch("http://b.invalid:81/")]);
    let (_, policy) = run.stdout.split_once("}\n").expect("the output of the command");
    assert_snapshot!(policy, @r#"
    allowed_hosts = [
        "b.invalid:81",
    ],
    "#);
    assert_eq!(run.code, 0);
    let all = host.koze(&["egress", "learn", "--format", "json"]).stdout;
    let all: serde_json::Value = serde_json::from_str(&all).expect("JSON");
    assert_eq!(all["sandboxes"]["allowed_hosts"], json!(["b.invalid:81", "before.invalid"]));
    // The exit code is that of the command.
    assert_eq!(host.koze(&["egress", "learn", "--", "sh", "-c", "exit 7"]).code, 7);
    let missing = host.koze(&["egress", "learn", "--", "no-such-program"]);
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("`no-such-program` cannot be run"), "{}", missing.stderr);
}
