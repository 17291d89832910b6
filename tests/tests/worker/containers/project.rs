//! A project whose sandboxes are native, and `koze dev` on it.

use koze_tests::conformance::IMAGES;
use koze_tests::containers::Engine;
use koze_tests::root;

use crate::built::wasm;
use crate::dev::run::{Dev, command};
use crate::project::{self, Worker};
use crate::runs::link;

/// What the Worker takes.
pub(super) const TOKEN: &str = "a token of the containers";

/// A project as `koze new` makes it, with native sandboxes: one by a Dockerfile, one by a reference that the engine has
/// an image for. They sleep soon, for podman looks at each that runs four times a second.
pub(super) fn worker(engine: &Engine) -> Worker {
    let [_, python, reference] = IMAGES;
    engine.tag(engine.base(), reference);
    let worker = project::made("native");
    let project = &worker.project;
    for written in ["wrangler.jsonc", "koze.lock"] {
        fs_err::remove_file(project.path(written)).expect("a file of `koze new`");
    }
    project.write("src/server/shell.Dockerfile", format!("FROM {}\n", engine.base().0));
    project.write("src/server/shell.sandbox.rs", sandbox("sleep_after = \"6m\", default", "ShellSandbox"));
    let image = format!("sleep_after = \"6m\", image = \"{reference}\"");
    project.write(format!("src/server/{python}.sandbox.rs"), sandbox(&image, "PythonSandbox"));
    project.write(".dev.vars", format!("KOZE_TOKEN=\"{TOKEN}\"\n"));
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    worker
}

/// A sandbox's file.
fn sandbox(attributes: &str, class: &str) -> String {
    let attribute = format!("#[sandbox(backend = \"native\", {attributes})]");
    format!("use koze::prelude::*;\n\n/// A sandbox.\n{attribute}\npub struct {class};\n")
}

/// The same with the Rust Worker in it.
pub(super) fn rust_worker(engine: &Engine) -> Worker {
    let worker = worker(engine);
    link(&wasm(&worker).expect("the Rust Worker"), &worker.build_dir());
    worker
}

/// The same with JavaScript in its place, and a third image: the guest alone, beside a program for another machine.
pub(super) fn plain_worker(engine: &Engine) -> Worker {
    let worker = worker(engine);
    let plain = fs_err::read(root().join("tests/tests/worker/plain.mjs")).expect("the plain Worker");
    fs_err::write(worker.build_dir().join("index.js"), plain).expect("it in its place");
    let project = &worker.project;
    project.write("src/server/bare.Dockerfile", "FROM scratch\nCOPY --chmod=0755 foreign /foreign\n");
    project.write("src/server/foreign", FOREIGN);
    project.write("src/server/bare.sandbox.rs", sandbox("", "BareSandbox"));
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    worker
}

/// The head of an ELF program for ARM of 64 bits.
const FOREIGN: &[u8] = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xb7\0\x01\0\0\0\
    \0\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x40\0\x38\0\0\0\x40\0\0\0\0\0";

/// Runs it in containers.
pub(super) fn start<'w>(worker: &'w Worker, engine: &Engine) -> Dev<'w> {
    let mut command =
        command(worker, &["dev", "--port", "0", "--", "--ip", "127.0.0.1", "--inspector-port", "0"]);
    command.envs(engine.env());
    Dev::run(worker, command)
}
