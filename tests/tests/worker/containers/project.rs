//! A project with native sandboxes, and `koze dev` on it.

use std::process::Command;

use koze_tests::conformance::IMAGES;
use koze_tests::containers::Engine;
use koze_tests::root;

use super::credentials::VALUE;
use super::images::Variant;
use crate::built::wasm;
use crate::dev::run::{Dev, command};
use crate::project::{self, Worker};
use crate::runs::link;

/// The Worker's bearer token.
pub(super) const TOKEN: &str = "a token of the containers";

/// The attribute of the default sandbox.
const SHELL: &str = "sleep_after = \"6m\", default, tools = [\"agent\", \"thread\"]";

/// Creates a project with native sandboxes: one with a Dockerfile, and one with a reference to an image in the engine.
/// Their idle time is short, because podman checks each running container four times a second.
pub(super) fn worker(engine: &Engine) -> Worker {
    let [_, python, reference] = IMAGES;
    engine.tag(engine.base(), reference);
    let worker = project::made("native");
    let project = &worker.project;
    for written in ["wrangler.jsonc", "koze.lock"] {
        fs_err::remove_file(project.path(written)).expect("a file of `koze new`");
    }
    project.write("src/server/shell.Dockerfile", format!("FROM {}\n", engine.base().0));
    project.write("src/server/shell.sandbox.rs", sandbox(SHELL, "ShellSandbox"));
    let image = format!("sleep_after = \"6m\", image = \"{reference}\"");
    project.write(format!("src/server/{python}.sandbox.rs"), sandbox(&image, "PythonSandbox"));
    project.write(".dev.vars", format!("KOZE_TOKEN=\"{TOKEN}\"\n"));
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    worker
}

/// Creates a project with the Rust Worker and sandboxes that all use Dockerfiles based on one image.
pub(super) fn worker_of(variant: &Variant, engine: &Engine) -> Worker {
    let worker = project::made(variant.name);
    let project = &worker.project;
    for written in ["wrangler.jsonc", "koze.lock"] {
        fs_err::remove_file(project.path(written)).expect("a file of `koze new`");
    }
    for (name, class, more) in
        [("shell", "ShellSandbox", SHELL), ("python", "PythonSandbox", "sleep_after = \"6m\"")]
    {
        variant.write(&worker, engine, name);
        let separator = if variant.backend.is_empty() { "" } else { ", " };
        let attributes = format!("{}{separator}{more}", variant.backend);
        project.write(format!("src/server/{name}.sandbox.rs"), file(&attributes, class));
    }
    project.write(".dev.vars", format!("KOZE_TOKEN=\"{TOKEN}\"\n"));
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    link(&wasm(&worker).expect("the Rust Worker"), &worker.build_dir());
    worker
}

/// Returns the file of a native sandbox.
fn sandbox(attributes: &str, class: &str) -> String {
    file(&format!("backend = \"native\", {attributes}"), class)
}

/// Returns the file of a sandbox.
fn file(attributes: &str, class: &str) -> String {
    format!("use koze::prelude::*;\n\n/// A sandbox.\n#[sandbox({attributes})]\npub struct {class};\n")
}

/// Creates such a project with the Rust Worker.
pub(super) fn rust_worker(engine: &Engine) -> Worker {
    let worker = worker(engine);
    link(&wasm(&worker).expect("the Rust Worker"), &worker.build_dir());
    worker
}

/// Creates such a project with JavaScript instead, and a third image: only the guest, and a program for another
/// architecture.
pub(super) fn plain_worker(engine: &Engine) -> Worker {
    let worker = worker(engine);
    forward_calls(&worker);
    let project = &worker.project;
    project.write("src/server/bare.Dockerfile", "FROM scratch\nCOPY --chmod=0755 foreign /foreign\n");
    project.write("src/server/foreign", FOREIGN);
    project.write("src/server/bare.sandbox.rs", sandbox("", "BareSandbox"));
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    worker
}

/// Creates a project with JavaScript in place of the Rust Worker, and one sandbox.
pub(super) fn one_sandbox(variant: &Variant, engine: &Engine) -> Worker {
    let worker = project::made("moved");
    forward_calls(&worker);
    let project = &worker.project;
    for written in ["wrangler.jsonc", "koze.lock"] {
        fs_err::remove_file(project.path(written)).expect("a file of `koze new`");
    }
    variant.write(&worker, engine, "shell");
    let separator = if variant.backend.is_empty() { "" } else { ", " };
    let attributes = format!("{}{separator}sleep_after = \"6m\"", variant.backend);
    project.write("src/server/shell.sandbox.rs", file(&attributes, "ShellSandbox"));
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    worker
}

/// Creates a project with JavaScript in place of the Rust Worker, and containers that Durable Objects start.
pub(super) fn managed_worker(engine: &Engine) -> Worker {
    let worker = project::made("managed");
    forward_calls(&worker);
    let project = &worker.project;
    for written in ["wrangler.jsonc", "koze.lock", "src/server/shell.sandbox.rs"] {
        fs_err::remove_file(project.path(written)).expect("a file of `koze new`");
    }
    engine.set_platform_image(engine.base());
    let base = &engine.base().0;
    for name in ["one", "two"] {
        project.write(
            format!("src/server/{name}.Dockerfile"),
            format!("FROM {base}\nENV WHICH={name}\nENTRYPOINT [\"/bin/false\"]\n"),
        );
    }
    project.write("src/server/lost.Dockerfile", format!("FROM {base}\nENV WHICH=lost\n"));
    let managed = |attributes: &str, class| {
        file(&format!("backend = \"managed\", sleep_after = \"6m\", {attributes}"), class)
    };
    for (name, class, attributes) in [
        (
            "shell",
            "ShellSandbox",
            "images(one = \"./one.Dockerfile\", two = \"./two.Dockerfile\"), sizes = [\"standard-1\"]",
        ),
        ("kept", "KeptSandbox", "image = \"./one.Dockerfile\", keep_files = true"),
        (
            "platform",
            "PlatformSandbox",
            "image = \"cloudflare/debian-trixie\", keep_files = true, env_vars(SECRET = \"a secret\")",
        ),
        ("lost", "LostSandbox", "image = \"./lost.Dockerfile\""),
    ] {
        project.write(format!("src/server/{name}.sandbox.rs"), managed(attributes, class));
    }
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    worker
}

/// Puts JavaScript in place of the Rust Worker that forwards the calls of a test.
fn forward_calls(worker: &Worker) {
    let plain = fs_err::read(root().join("tests/tests/worker/plain.mjs")).expect("the plain Worker");
    fs_err::write(worker.build_dir().join("index.js"), plain).expect("it in its place");
}

/// Creates such a project with JavaScript instead, and three services next to the sandboxes: with the entrypoint of its
/// image, in a container that the object owns, and one whose container ends at once.
pub(super) fn service_worker(engine: &Engine, idle: &str) -> Worker {
    let worker = worker(engine);
    forward_calls(&worker);
    let project = &worker.project;
    let server = root().join("tests/tests/worker/containers/service.pl");
    project.write("src/server/service.pl", fs_err::read(server).expect("the server"));
    let image = format!("FROM {}\nCOPY service.pl /\n", engine.base().0);
    let common = format!("port = 8080, sleep_after = \"{idle}\", env_vars(GREETING = \"hello\")");
    for (name, class, more, entrypoint) in [
        (
            "blog",
            "BlogContainer",
            "health = \"/healthz\"",
            "ENTRYPOINT [\"perl\", \"/service.pl\", \"8080\"]\n",
        ),
        (
            "tool",
            "ToolContainer",
            "backend = \"managed\", entrypoint = [\"perl\", \"/service.pl\", \"8080\"]",
            "",
        ),
        ("broken", "BrokenContainer", "entrypoint = [\"false\"]", ""),
    ] {
        project.write(format!("src/server/{name}.Dockerfile"), format!("{image}{entrypoint}"));
        let text = format!("use koze::prelude::*;\n\n#[container({common}, {more})]\npub struct {class};\n");
        project.write(format!("src/server/{name}.container.rs"), text);
    }
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    worker
}

/// The header of an ELF program for 64-bit ARM.
const FOREIGN: &[u8] = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xb7\0\x01\0\0\0\
    \0\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x40\0\x38\0\0\0\x40\0\0\0\0\0";

/// Creates such a project with sandboxes that can reach: the whole internet, a list of hosts at these ports, and
/// everything but a list of hosts.
pub(super) fn egress_worker(engine: &Engine, ports: [u16; 2]) -> Worker {
    let worker = plain_worker(engine);
    let project = &worker.project;
    let dockerfile = format!("FROM {}\n", engine.base().0);
    let hosts = ports.map(|port| format!("\"allowed.test:{port}\", \"*.wide.test:{port}\"")).join(", ");
    let allowed = format!("allowed_hosts = [{hosts}]");
    for (name, class, attributes) in [
        ("open", "OpenSandbox", "internet = true"),
        ("allowed", "AllowedSandbox", &allowed[..]),
        ("denied", "DeniedSandbox", "internet = true, denied_hosts = [\"denied.test\", \"*.deep.test\"]"),
    ] {
        project.write(format!("src/server/{name}.Dockerfile"), &dockerfile);
        project.write(format!("src/server/{name}.sandbox.rs"), sandbox(attributes, class));
    }
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    worker
}

/// Creates such a project with the Rust Worker's part that decides about requests, and a sandbox with credentials for a host.
pub(super) fn credentials_worker(engine: &Engine, host: &str, port: u16) -> Worker {
    let worker = worker(engine);
    let project = &worker.project;
    project.write("src/server/keyed.Dockerfile", format!("FROM {}\n", engine.base().0));
    let attributes = format!(
        "allowed_hosts = [\"{host}:{port}/v1/**\", \"GET {host}:{port}/maps\"], \
         credentials(API_KEY(host = \"{host}:{port}\"), UNSET(host = \"{host}:{port}\"), MAPS(host = \"{host}:{port}\", query = \"key\"))"
    );
    project.write("src/server/keyed.sandbox.rs", sandbox(&attributes, "KeyedSandbox"));
    let vars = format!("KOZE_TOKEN=\"{TOKEN}\"\nAPI_KEY=\"{VALUE}\"\nMAPS=\"{VALUE}\"\n");
    project.write(".dev.vars", vars);
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    link(&wasm(&worker).expect("the Rust Worker"), &worker.build_dir());
    forward_calls(&worker);
    let entry = worker.build_dir().join("index.js");
    let plain = fs_err::read_to_string(&entry).expect("the plain Worker");
    fs_err::write(&entry, format!("{PROXIED}{plain}")).expect("both");
    worker
}

/// worker-build exports a class, and makes its objects, through proxies.
const PROXIED: &str = r#"
import { KozeRequests as Bare } from "./rust.js";
const construct = (ctor, args) => {
  const object = Reflect.construct(ctor, args);
  const get = (_, name, self) => {
    const value = Reflect.get(object, name, self);
    return typeof value === "function" ? new Proxy(value, { apply: (method, self, args) => method.apply(self, args) }) : value;
  };
  return new Proxy({ object }, { get, set: (_, name, value, self) => Reflect.set(object, name, value, self) });
};
export const KozeRequests = new Proxy(Bare, { construct });
"#;

/// Runs the project with containers.
pub(super) fn start<'w>(worker: &'w Worker, engine: &Engine) -> Dev<'w> {
    run(worker, engine, |command| command)
}

/// Runs the project as it is with wrangler alone, which does not build it again.
pub(super) fn start_wrangler<'w>(worker: &'w Worker, engine: &Engine) -> Dev<'w> {
    worker.replace_tool("koze", "#!/bin/sh\n");
    let mut command = worker.tool("wrangler");
    command.args(["dev", "--port", "0", "--ip", "127.0.0.1", "--inspector-port", "0"]);
    command.current_dir(worker.project.dir()).env("CLOUDFLARE_CF_FETCH_ENABLED", "false");
    command.env("WRANGLER_REGISTRY_PATH", worker.project.path("registry")).envs(engine.env());
    Dev::run(worker, command)
}

/// Runs the project with containers, with these names resolving to the loopback address and a trusted certificate, only
/// for it.
pub(super) fn start_among<'w>(
    worker: &'w Worker,
    engine: &Engine,
    names: &[&str],
    certificate: &str,
) -> Dev<'w> {
    worker.project.write("hosts", format!("127.0.0.1 localhost {}\n", names.join(" ")));
    worker.project.write("authority.pem", certificate);
    run(worker, engine, |koze| {
        let mut command = Command::new("unshare");
        let script = "mount --bind hosts /etc/hosts && exec \"$@\"";
        command.args(["--mount", "bash", "-c", script, "bash"]).arg(koze.get_program()).args(koze.get_args());
        for (name, value) in koze.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("NODE_EXTRA_CA_CERTS", worker.project.path("authority.pem"));
        command.current_dir(worker.project.dir());
        command
    })
}

const DEV: &[&str] = &["dev", "--port", "0", "--", "--ip", "127.0.0.1", "--inspector-port", "0"];

fn run<'w>(worker: &'w Worker, engine: &Engine, within: impl Fn(Command) -> Command) -> Dev<'w> {
    let mut command = within(command(worker, DEV));
    command.envs(engine.env());
    Dev::run(worker, command)
}
