//! Input from a model is data: no shell, glob or template of koze interprets it.

use serde_json::{Value, json};

use super::Capability::{Exec, List, ManyCalls};
use super::errors::good;
use super::session::Session;
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case("injection_in_every_text", every_text).needs(&[ManyCalls]),
    case("injection_in_the_name_of_a_tool", tool_names),
    case("injection_in_contents", contents).needs(&[ManyCalls]),
    case("injection_with_programs_watching", programs).needs(&[Exec, ManyCalls]),
];

/// Texts that would leave a trace at `/tmp/owned` if anything interpreted them.
const NASTY: &[&str] = &[
    "$(touch /tmp/owned)",
    "`touch /tmp/owned`",
    "; touch /tmp/owned",
    "; touch /tmp/owned #",
    "&& touch /tmp/owned",
    "|| touch /tmp/owned",
    "| touch /tmp/owned",
    "& touch /tmp/owned &",
    "\ntouch /tmp/owned\n",
    "' ; touch /tmp/owned ; '",
    "\" ; touch /tmp/owned ; \"",
    "'\"; touch /tmp/owned; \"'",
    "x' || touch /tmp/owned || '",
    ") ; touch /tmp/owned ; (",
    "> /tmp/owned",
    ">/tmp/owned",
    "$IFS;touch${IFS}/tmp/owned",
    "<(touch /tmp/owned)",
    "@(touch /tmp/owned)",
    "--checkpoint=1 --checkpoint-action=exec=touch /tmp/owned",
    "-exec touch /tmp/owned ;",
    "../../../../tmp/owned",
    "..\\..\\tmp\\owned",
    "%2e%2e/%2e%2e/tmp/owned",
    "{{touch /tmp/owned}}",
    "${touch /tmp/owned}",
    "\u{0}; touch /tmp/owned",
    "\\\"; touch /tmp/owned; \\\"",
    "%s%s%s%n",
    "~root",
    "'; drop table sandboxes; --",
    "\"}, {\"path\": \"/tmp/owned\"",
];

/// Checks that nothing was executed, and that no system file was read in place of the user's own.
#[track_caller]
fn nothing_owned(session: &Session) {
    let names = if session.can(List) { session.sandboxes() } else { vec!["default".to_owned()] };
    for name in names {
        let path = json!({ "sandbox": name, "path": "/tmp/owned" });
        session.fails("read_file", path, "not_found");
    }
}

fn every_text(session: &Session) {
    session.write("f", "x");
    for (tool, whole) in good() {
        for (field, value) in whole.as_object().expect("an object") {
            // The command is the only text that a shell interprets.
            if !value.is_string() || field == "command" {
                continue;
            }
            for nasty in NASTY {
                // This is a valid file name, so the write succeeds.
                if nasty.starts_with("../") && tool != "sandbox_create" {
                    continue;
                }
                let mut input = whole.clone();
                input[field] = json!(nasty);
                let result = session.call(tool, input);
                if field.contains("sandbox") || field == "image" || field == "encoding" {
                    assert!(
                        result.content.starts_with("invalid_input: "),
                        "{tool} {field}: {}",
                        result.content
                    );
                }
                assert!(!result.content.contains("root:"), "{tool} {field}: {}", result.content);
            }
        }
    }
    nothing_owned(session);
}

fn tool_names(session: &Session) {
    // Program arguments cannot contain NUL.
    for nasty in NASTY.iter().filter(|nasty| !nasty.contains('\0')) {
        let error = session.err(nasty, json!({ "command": "true" }));
        assert!(error.starts_with("unknown_tool: "), "{error}");
    }
    session.write("f", "x");
    nothing_owned(session);
}

fn contents(session: &Session) {
    for nasty in NASTY {
        session.write("f", nasty);
        assert_eq!(session.read("f"), *nasty);
        session.ok("write_file", json!({ "path": "f", "content": nasty, "append": true }));
        assert_eq!(session.read("f"), nasty.repeat(2));
        let path = format!("/workspace/dir/{}", nasty.replace(['/', '\0'], "_"));
        session.write(&path, "1");
        let transfer =
            json!({ "from_sandbox": "default", "from_path": path, "to_sandbox": "b", "to_path": path });
        assert_eq!(session.ok("transfer", transfer)["bytes"], 1);
    }
    let found = session.ok("glob", json!({ "pattern": "*", "cwd": "/workspace/dir" }));
    let mut names: Vec<String> = NASTY.iter().map(|nasty| nasty.replace(['/', '\0'], "_")).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(found["files"], json!(names));
    nothing_owned(session);
}

fn programs(session: &Session) {
    for nasty in NASTY {
        let dir = format!("/workspace/{}", nasty.replace(['/', '\0'], "_"));
        session.write(&format!("{dir}/f"), nasty);
        let ran = session.ok("shell", json!({ "command": "pwd; cat f", "working_dir": dir }));
        let expected: Value = json!(format!("{dir}\n{nasty}"));
        assert_eq!(ran["stdout"], expected);
        // As a file in a shell's arguments, it is still one argument.
        session.ok(
            "shell",
            json!({ "command": "set -- *; [ $# = 1 ]; cp -- \"$1\" /tmp/copy", "working_dir": dir }),
        );
        assert_eq!(session.read("/tmp/copy"), *nasty);
    }
    nothing_owned(session);
}
