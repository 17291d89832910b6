//! A project whose sandboxes are native, and `koze dev` on it.

use koze_tests::conformance::IMAGES;
use koze_tests::containers::Engine;

use crate::built::wasm;
use crate::dev::run::{Dev, command};
use crate::project::{self, Worker};
use crate::runs::link;

/// What the Worker takes.
pub(super) const TOKEN: &str = "a token of the containers";

/// A project as `koze new` makes it, with a second image, and every sandbox in a container with koze's guest: one by a
/// Dockerfile of the user's, and one by a reference. No registry is asked for it: the engine has an image of this name.
pub(super) fn worker(engine: &Engine) -> Worker {
    let [_, python, reference] = IMAGES;
    engine.tag(engine.base(), reference);
    let worker = project::made("native");
    let project = &worker.project;
    for written in ["wrangler.jsonc", "koze.lock"] {
        fs_err::remove_file(project.path(written)).expect("a file of `koze new`");
    }
    project.write("src/server/shell.Dockerfile", format!("FROM {}\n", engine.base().0));
    let sandbox = |attributes: &str, class: &str| {
        format!(
            "use koze::prelude::*;\n\n/// A sandbox.\n#[sandbox(backend = \"native\", {attributes})]\npub struct {class};\n"
        )
    };
    project.write("src/server/shell.sandbox.rs", sandbox("default", "ShellSandbox"));
    let image = format!("image = \"{reference}\"");
    project.write(format!("src/server/{python}.sandbox.rs"), sandbox(&image, "PythonSandbox"));
    project.write(".dev.vars", format!("KOZE_TOKEN=\"{TOKEN}\"\n"));
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    worker
}

/// The same with the Rust Worker in it.
pub(super) fn rust_worker(engine: &Engine) -> Worker {
    let worker = worker(engine);
    link(&wasm(&worker).expect("the Rust Worker"), &worker.build_dir());
    worker
}

/// Runs it in containers.
pub(super) fn start<'w>(worker: &'w Worker, engine: &Engine) -> Dev<'w> {
    let mut command =
        command(worker, &["dev", "--port", "0", "--", "--ip", "127.0.0.1", "--inspector-port", "0"]);
    command.envs(engine.env());
    Dev::run(worker, command)
}
