//! `koze ui` in a real Chromium: `ui/tests` drives the page, and this program starts koze. What the server refuses is tested over plain
//! HTTP.

#![cfg(target_os = "linux")]

mod refused;
mod remote;
mod server;

use std::time::Duration;

use koze_tests::{Sandboxes, koze, node_command, root, run, ui_modules};
use serde_json::json;

use self::server::{Ui, project};

const TIMEOUT: Duration = Duration::from_mins(2);
const CHROMIUM: &str = "/usr/lib/chromium/chromium-headless-shell";

/// Runs a script of `ui/tests` with the page of a new project.
fn drive(script: &str) {
    let host = project();
    let ui = Ui::start(&host, &[]);
    drive_page(script, &host, &ui);
}

/// Runs a script of `ui/tests` with a page.
fn drive_page(script: &str, host: &Sandboxes, ui: &Ui) {
    drive_script(script, host, Some(&ui.url));
}

/// Runs a script of `ui/tests` with the URL of a page, if it needs one.
fn drive_script(script: &str, host: &Sandboxes, url: Option<&str>) {
    let modules = ui_modules();
    assert!(
        std::path::Path::new(CHROMIUM).exists(),
        "{CHROMIUM} is missing: run `cargo xtask setup`, or install the package chromium-headless-shell"
    );
    let given = json!({
        "url": url, "koze": koze().get_program().to_str(), "directory": host.dir(), "chromium": CHROMIUM,
    });
    let mut node = node_command("node");
    node.arg(root().join("ui/tests").join(script)).arg(given.to_string()).envs(host.env());
    node.current_dir(modules.parent().expect("a directory"));
    let output = run(node, TIMEOUT);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} failed\n{printed}");
}

#[test]
fn the_functions_of_the_page() {
    let modules = ui_modules();
    let mut node = node_command("node");
    node.arg(root().join("ui/tests/units.mjs")).current_dir(modules.parent().expect("a directory"));
    let output = run(node, TIMEOUT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_tour_of_the_page() {
    drive("tour.mjs");
}

#[test]
fn hostile_texts_run_nothing() {
    drive("hostile.mjs");
}

#[test]
fn diffs_and_pictures_of_calls() {
    let host = project();
    let sandbox = "use koze::prelude::*;\n\n#[sandbox(tools = [\"agent\", \"thread\", \"workspace\"], workspace(code))]\npub \
                   struct ShellSandbox;\n";
    host.write("src/server/shell.sandbox.rs", sandbox);
    let ui = Ui::start(&host, &[]);
    drive_page("calls.mjs", &host, &ui);
}

#[test]
fn scripts_snapshots_and_previews() {
    let host = project();
    let sandbox = "use koze::prelude::*;\n\n#[sandbox(tools = [\"agent\", \"workspace\"], workspace(code, snapshot(bucket = \
                   \"BACKUPS\")))]\npub struct ShellSandbox;\n";
    host.write("src/server/shell.sandbox.rs", sandbox);
    let cargo = host.read("Cargo.toml");
    host.write("Cargo.toml", format!("{cargo}\n[package.metadata.koze.script]\nworker = false\n"));
    let ui = Ui::start(&host, &[]);
    drive_page("views.mjs", &host, &ui);
}

#[test]
fn the_timeline_in_a_chat() {
    let host = project();
    drive_script("chat.mjs", &host, None);
}

#[test]
fn a_lost_connection_resumes_without_a_gap() {
    drive("connection.mjs");
}

#[test]
fn a_terminal_in_the_page() {
    drive("terminal.mjs");
}

#[test]
fn files_and_processes_are_changed() {
    drive("writes.mjs");
}

#[test]
fn a_hundred_thousand_calls_are_listed() {
    drive("many.mjs");
}
