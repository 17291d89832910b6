//! `koze sandboxes`.

use insta::assert_snapshot;
use serde_json::json;

use crate::common::{refused_with, sandboxes};
use koze_tests::Project;

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
