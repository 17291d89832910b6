//! A project with the workspaces of the cases, and its Rust Worker in workerd.

use std::os::unix::fs::PermissionsExt;

use fs_err as fs;
use koze_tests::conformance::WORKSPACES;
use koze_tests::root;
use serde_json::{Map, Value, json};

use crate::built::wasm;
use crate::project::{self, Worker};
use crate::runs::link;
use crate::served::{Host, TOKEN};

/// What the containers of a project run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// koze's guest as their first process.
    Native,
    /// The server of Cloudflare's SDK.
    Sdk,
}

/// Creates the project with its Rust Worker.
pub(super) fn worker(backend: Backend) -> Worker {
    let worker = project::made("workspaces");
    let project = &worker.project;
    for written in ["wrangler.jsonc", "koze.lock", "src/server/shell.sandbox.rs"] {
        fs::remove_file(project.path(written)).expect("a file of `koze new`");
    }
    let container = match backend {
        Backend::Native => "backend = \"native\", image = \"debian:12-slim\"",
        Backend::Sdk => "image = \"docker.io/cloudflare/sandbox:0.12.10\"",
    };
    for (index, (name, declared)) in WORKSPACES.into_iter().enumerate() {
        let class = format!("{}{}Sandbox", name[..1].to_uppercase(), &name[1..]);
        let comma = if declared.is_empty() { "" } else { ", " };
        let default = if index == 0 { ", default" } else { "" };
        let attribute = format!(
            "{container}{default}, tools = [\"workspace\"], workspace(name = \"{name}\"{comma}{declared})"
        );
        let text = format!(
            "use koze::prelude::*;\n\n/// A workspace.\n#[sandbox({attribute})]\npub struct {class};\n"
        );
        project.write(format!("src/server/{name}.sandbox.rs"), text);
    }
    project.write(".dev.vars", format!("KOZE_TOKEN=\"{TOKEN}\"\n"));
    let built = project.koze(&["build"]);
    assert_eq!(built.code, 0, "{built:?}");
    link(&wasm(&worker).expect("the Rust Worker"), &worker.build_dir());
    worker
}

/// Runs the Worker with stand-ins for containers.
pub(super) fn serve(worker: &Worker, backend: Backend) -> Host {
    serve_with(worker, backend, &[])
}

/// Runs it with settings for the stand-ins of the SDK's containers: see `container.sh` there.
pub(crate) fn serve_with(worker: &Worker, backend: Backend, settings: &[&str]) -> Host {
    let mut classes = Map::new();
    for sandbox in worker.sandboxes() {
        classes.insert(sandbox.binding, sandbox.class.into());
    }
    let guest = (backend == Backend::Native).then(|| {
        let guest = worker.project.path("src/generated/native/koze-guest");
        fs::set_permissions(&guest, PermissionsExt::from_mode(0o755)).expect("a program");
        Value::from(guest.to_str().expect("a path in Unicode"))
    });
    let options =
        json!({ "vars": { "KOZE_TOKEN": TOKEN }, "classes": classes, "guest": guest, "settings": settings });
    let mut node = worker.project.node("node");
    node.arg(root().join("tests/tests/worker/workspaces/serve.mjs"));
    node.args([worker.project.dir(), &worker.build_dir()]).arg(options.to_string());
    Host::run(node)
}
