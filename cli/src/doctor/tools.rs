//! Checks which tools are installed, and their versions.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use semver::Version;

use super::command::{Supply, supply};
use super::{Check, Status, toolchain};
use crate::build::Build;
use crate::platform;
use crate::write::input;

/// The oldest Node version that wrangler supports.
const NODE: Version = Version::new(22, 12, 0);

/// The oldest wrangler version that supports containers as koze writes them.
const WRANGLER: Version = Version::new(4, 0, 0);

const TARGET: &str = "wasm32-unknown-unknown";

/// The program that builds a Rust Worker.
const WORKER_BUILD: &str = "worker-build";

/// The timeout for asking a tool about its version.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The timeout for a container engine that is needed now: it may have to start and stop containers first.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(30);

/// Whose programs a check may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Programs {
    /// The user's only: the project may be somebody else's.
    OfUser,
    /// Also the project's, which is about to be run.
    OfProject,
}

pub(super) fn checks(build: &Build, command: Option<&str>) -> Vec<Check> {
    let here = std::env::current_dir().unwrap_or_default();
    let dir = build.project.as_deref().unwrap_or(&here);
    let [node, target] = of_package(dir);
    vec![node, check_wrangler(dir), check_docker(build), target, worker_build(dir, command), check_koze()]
}

/// Checks the programs that a package could choose. Runs none of the package's own.
pub(crate) fn of_package(dir: &Path) -> [Check; 2] {
    [check_node(dir, Programs::OfUser), check_target(dir, Programs::OfUser)]
}

/// Returns what is missing for wrangler to run in a package and build it with this command. Only errors count.
pub(crate) fn needed(dir: &Path, build: &str) -> Vec<Check> {
    let mut checks = vec![check_node(dir, Programs::OfProject), check_wrangler(dir)];
    if build.contains(WORKER_BUILD) {
        checks.extend([check_target(dir, Programs::OfProject), worker_build(dir, Some(build))]);
    }
    checks.retain(|check| check.status != Status::Ok);
    checks
}

/// Returns whether a container engine answers.
pub(crate) fn runs_containers() -> bool {
    engine_version(ENGINE_TIMEOUT).is_some()
}

fn check_node(dir: &Path, programs: Programs) -> Check {
    let help =
        format!("wrangler needs Node {NODE} or newer: install it, or run `npm install --save-dev node@22`");
    // npm scripts find the project's own Node first.
    let own = |modules: PathBuf| Some((platform::executable(&modules.join(".bin"), "node")?, modules));
    let found = match modules(dir).find_map(own) {
        None => output_line(Command::new("node").arg("--version")),
        Some((program, _)) if programs == Programs::OfProject => {
            output_line(Command::new(program).arg("--version"))
        }
        Some((_, modules)) => {
            let version = installed_version(&modules.join("node/package.json"));
            if version.is_none() {
                let found = "the project's own in `node_modules/.bin`, of a version that is not recorded";
                return Check::warning("node", found, help);
            }
            version
        }
    };
    let Some(output) = found else {
        return Check::error("node", "not found", help);
    };
    match Version::parse(output.trim_start_matches('v')) {
        Ok(version) if version >= NODE => Check::ok("node", version.to_string()),
        _ => Check::error("node", output, help),
    }
}

fn check_wrangler(dir: &Path) -> Check {
    let is_declared = modules(dir)
        .filter_map(|modules| input::read_text(&modules.parent()?.join("package.json")).ok())
        .any(|manifest| declares_wrangler(&manifest));
    let help = if is_declared {
        "run `npm install`: `package.json` already has wrangler"
    } else {
        "run `npm install --save-dev wrangler`"
    };
    let mut installed = modules(dir).map(|modules| modules.join("wrangler/package.json"));
    let Some(version) = installed.find_map(|path| installed_version(&path)) else {
        return Check::error("wrangler", "not installed in this project", help);
    };
    match Version::parse(&version) {
        Ok(parsed) if parsed >= WRANGLER => Check::ok("wrangler", version),
        _ => Check::error(
            "wrangler",
            version,
            format!(
                "koze writes for wrangler {WRANGLER} and newer: run `npm install --save-dev wrangler@latest`"
            ),
        ),
    }
}

/// Returns whether a `package.json` lists wrangler as a dependency.
fn declares_wrangler(manifest: &str) -> bool {
    let manifest: serde_json::Value = serde_json::from_str(manifest).unwrap_or_default();
    ["dependencies", "devDependencies"].iter().any(|list| manifest[list]["wrangler"].is_string())
}

/// Returns the version in the `package.json` of an installed package, if there is such a file.
fn installed_version(manifest: &Path) -> Option<String> {
    let text = input::read_text(manifest).ok()?;
    let package: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    Some(package["version"].as_str().unwrap_or("of no version").to_owned())
}

/// Checks for Docker, which wrangler needs to build Dockerfiles but not for prebuilt images.
fn check_docker(build: &Build) -> Check {
    let from_dockerfiles: Vec<&str> = build
        .sandboxes
        .iter()
        .filter(|sandbox| sandbox.is_built())
        .map(|sandbox| sandbox.file.as_str())
        .collect();
    match (engine_version(TIMEOUT), from_dockerfiles.is_empty()) {
        (Some(version), _) => Check::ok("docker", format!("the engine is running, version {version}")),
        (None, true) => Check::ok(
            "docker",
            "no engine is running; it is needed for `wrangler dev` with containers, but not to deploy prebuilt images",
        ),
        (None, false) => Check::error(
            "docker",
            format!(
                "no engine is running, but there are images to build for {}",
                koze_model::rules::listed(&from_dockerfiles)
            ),
            "wrangler builds Dockerfiles with Docker: install and start it",
        ),
    }
}

/// Returns the version of the engine that wrangler would use: Docker, or podman under Docker's name, whose `info` has
/// no `ServerVersion`.
fn engine_version(patience: Duration) -> Option<String> {
    let program = std::env::var_os("WRANGLER_DOCKER_BIN").unwrap_or_else(|| "docker".into());
    said_within(patience, Command::new(program).args(["version", "--format", "{{.Server.Version}}"]))
}

/// Checks the wasm target. The directory selects the toolchain; the check must not make rustup download it.
fn check_target(dir: &Path, programs: Programs) -> Check {
    if programs == Programs::OfUser
        && let Some(file) = toolchain::foreign(dir)
    {
        let found =
            format!("not checked: `{file}` chooses a toolchain by its path, and koze runs none from there");
        return Check::warning(
            "target",
            found,
            format!(
                "if you trust it, run `rustc --print target-libdir --target {TARGET}` in the package and look whether that directory exists"
            ),
        );
    }
    let ask = || {
        let mut rustc = Command::new("rustc");
        rustc.args(["--print", "target-libdir", "--target", TARGET]).current_dir(dir);
        rustc.env("RUSTUP_AUTO_INSTALL", "0");
        rustc
    };
    match output_line(&mut ask()) {
        Some(dir) if Path::new(&dir).is_dir() => Check::ok("target", format!("{TARGET} is installed")),
        Some(dir) => {
            let (found, help) = (format!("no {TARGET}"), format!("run `rustup target add {TARGET}`"));
            // worker-build installs the target itself if the toolchain is rustup's. It recognizes that by this word in
            // the path.
            let added = dir.contains("rustup") && on_path("rustup");
            if added { Check::warning("target", found, help) } else { Check::error("target", found, help) }
        }
        None => match error_line(TIMEOUT, &mut ask()) {
            Some(why) => Check::error(
                "target",
                format!("rustc does not run here: {why}"),
                toolchain::help(dir, TARGET),
            ),
            None => Check::error("target", "no rustc answers", "install rustup"),
        },
    }
}

/// Checks whether the build command finds worker-build or installs it.
fn worker_build(dir: &Path, command: Option<&str>) -> Check {
    // Processes started by wrangler also find the project's npm programs.
    let own =
        || modules(dir).any(|modules| platform::executable(&modules.join(".bin"), WORKER_BUILD).is_some());
    if on_path(WORKER_BUILD) || own() {
        return Check::ok(WORKER_BUILD, "on the PATH");
    }
    let (found, help) =
        ("not on the PATH, where `build.command` expects it", "run `cargo install worker-build`");
    match command.map(|command| supply(command, WORKER_BUILD)) {
        Some(Supply::Installed) => Check::ok(WORKER_BUILD, "`build.command` installs it"),
        Some(Supply::Expected) => Check::error(WORKER_BUILD, found, help),
        Some(Supply::Unknown) => Check::warning(WORKER_BUILD, found, help),
        Some(Supply::Unused) | None => Check::warning(WORKER_BUILD, "not on the PATH", help),
    }
}

fn check_koze() -> Check {
    if on_path("koze") {
        return Check::ok("koze", "on the PATH");
    }
    let found = "not on the PATH, where `build.command` expects it";
    Check::warning("koze", found, "run `cargo install --path cli` in a checkout of koze")
}

/// Returns the `node_modules` directories that a package can see, the nearest first.
pub(crate) fn modules(dir: &Path) -> impl Iterator<Item = PathBuf> {
    dir.ancestors().map(|dir| dir.join("node_modules"))
}

/// Returns whether a program is on the PATH.
pub(crate) fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| platform::executable(&dir, program).is_some())
}

/// Returns the first line that a command prints, or `None` if it is missing, fails or times out.
pub(crate) fn output_line(command: &mut Command) -> Option<String> {
    said_within(TIMEOUT, command)
}

/// Returns the first line that a command prints within a timeout.
fn said_within(patience: Duration, command: &mut Command) -> Option<String> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let (succeeded, text) = wait_for_output(patience, child)?;
    (succeeded && !text.is_empty()).then_some(text)
}

/// Returns the first line of a failing command's errors, or `None` if it is missing, succeeds or times out.
fn error_line(patience: Duration, command: &mut Command) -> Option<String> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().ok()?;
    let (succeeded, text) = wait_for_output(patience, child)?;
    let line = text.lines().next().filter(|_| !succeeded)?;
    Some(line.strip_prefix("error: ").unwrap_or(line).to_owned())
}

/// Waits for a program and returns whether it succeeded and what it wrote to the piped stream.
fn wait_for_output(patience: Duration, mut child: Child) -> Option<(bool, String)> {
    let stdout = child.stdout.take().map(|stdout| Box::new(stdout) as Box<dyn Read + Send>);
    let mut stream = stdout.or_else(|| Some(Box::new(child.stderr.take()?)))?;
    let (send, printed) = mpsc::channel();
    // A descendant may keep the output open, so do not wait for the reader.
    thread::spawn(move || {
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        let _ = send.send(text);
    });
    let text = printed.recv_timeout(patience);
    if text.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().ok()?;
    Some((status.success(), text.ok()?.trim().to_owned()))
}
