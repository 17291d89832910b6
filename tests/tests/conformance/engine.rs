//! Sandboxes in containers of an engine: which cases run on them, and what happens to calls when containers end, are removed,
//! paused or left behind.

use std::time::{Duration, Instant};

use koze_core::provider::{Profile, Settings, Size};
use koze_core::sandbox::{Command, Output, Place, Write};
use koze_core::{Code, Provider, Result, Sandbox, SandboxId, SandboxName, SessionId};
use koze_engine::{Engine, EngineSandbox, list_recorded};
use koze_local::Local;
use koze_tests::containers;
use libtest_mimic::{Failed, Trial};
use tempfile::TempDir;

use crate::in_process::{engine_image, open_engine, podman};

/// The variable that lets all cases run on the engine, which takes minutes.
const ALL: &str = "KOZE_TEST_ENGINE";

/// The cases that run otherwise: those about programs, processes, sleep, restarts, streams and hostile files. All others are
/// the same code over the same guest as on other hosts.
const CASES: [&str; 26] = [
    "browse_is_private_to_the_sandbox",
    "browse_reaches_a_server",
    "directories_swapped_under_writes",
    "files_of_programs_survive_a_restart",
    "files_outlive_sleep",
    "idle_sandboxes_sleep_and_wake",
    "links_swapped_under_writes",
    "output_bytes_stay_bytes",
    "output_is_cut_and_kept_in_a_file",
    "shell_exit_codes_are_the_real_ones",
    "thread_searches_follow_no_link_out",
    "thread_write_file",
    "transfer_loses_nothing_that_is_there",
    "transfer_within_one_sandbox",
    "what_is_stored_survives_a_restart",
    "what_programs_and_tools_write_is_the_same",
    "workspace_allowlist",
    "workspace_glob",
    "workspace_links",
    "workspace_restart",
    "workspace_run_bounds",
    "workspace_snapshots_restart",
    "workspace_snapshots_sessions",
    "writes_at_once_leave_one_of_them",
    "writes_at_once_to_two_names_of_one_file",
    "a_failed_write_leaves_the_old_file",
];

/// Returns whether this machine can run containers. Otherwise reports that their tests are left out, or fails if `CI` is set.
pub(crate) fn can_run() -> bool {
    let Err(why) = containers::Engine::check_machine() else { return true };
    assert!(std::env::var_os("CI").is_none(), "no containers can be run: {why}");
    eprintln!("engine: LEFT OUT, for no containers can be run: {why}");
    false
}

/// Returns whether a case runs on the engine.
pub(crate) fn plays(case: &str) -> bool {
    CASES.contains(&case) || std::env::var(ALL).is_ok_and(|which| which == "all")
}

pub(crate) fn trials() -> Vec<Trial> {
    if !can_run() {
        return Vec::new();
    }
    let trial = |name, play: fn() -> Result<()>| {
        Trial::test(name, move || play().map_err(Failed::from)).with_kind("engine")
    };
    vec![
        trial("a_killed_container_keeps_its_files", killed),
        trial("a_removed_container_is_an_error_that_says_so", removed),
        trial("a_paused_container_ends_its_calls", paused),
        trial("containers_stop_with_their_process", left),
        trial("containers_without_a_sandbox_are_removed", leftovers),
        trial("containers_have_only_a_loopback_interface_and_no_way_to_the_guest", isolated),
        trial("a_missing_engine_or_image_is_an_error", missing),
    ]
}

/// A sandbox in a container.
struct Scene {
    state: TempDir,
    provider: Engine<Local>,
    sandbox: EngineSandbox,
}

pub(crate) fn id() -> SandboxId {
    let session = SessionId::new("tenant", "session").expect("a good name");
    SandboxId { session, name: SandboxName::new("a").expect("a good name") }
}

pub(crate) fn settings(image: &str) -> Settings {
    let size = Size { memory_mib: 256, disk_mb: 200 };
    let profile = Profile { stored: Some(image.to_owned()), ..Profile::new("shell", "image", size) };
    Settings { profile, sleep_after: Duration::from_mins(10), size: None }
}

impl Scene {
    async fn open() -> Result<Self> {
        let state = TempDir::new().expect("a directory");
        let provider = open_engine(state.path());
        let sandbox = provider.open(&id(), &settings(&engine_image())).await?.sandbox;
        sandbox.write(place("/workspace/kept"), b"kept".to_vec(), Write::Replace).await?;
        Ok(Scene { state, provider, sandbox })
    }

    /// Returns the name of its container.
    fn container(&self) -> String {
        self.sandbox.container_name().to_owned()
    }

    async fn kept(&self) -> Result<Vec<u8>> {
        Ok(self.sandbox.read(place("/workspace/kept"), 0, 100).await?.bytes)
    }
}

fn place(path: &str) -> Place<'_> {
    Place { root: "/", path }
}

pub(crate) async fn run(sandbox: &EngineSandbox, script: &str) -> Result<Output> {
    let command = Command {
        argv: ["bash", "-c", script].map(str::to_owned).to_vec(),
        working_dir: "/workspace".to_owned(),
        env: Vec::new(),
        timeout: Duration::from_mins(1),
        max_output: 10_000,
    };
    sandbox.exec(command).await
}

/// Runs a podman command while a call waits for its program. Returns the error of the call.
async fn disturb(scene: &Scene, args: &[&str]) -> koze_core::Error {
    let sandbox = scene.sandbox.clone();
    let call = std::thread::spawn(move || pollster::block_on(run(&sandbox, "touch /tmp/begun; sleep 1000")));
    let until = Instant::now() + Duration::from_mins(1);
    while scene.sandbox.stat(place("/tmp/begun")).await.is_err() {
        assert!(Instant::now() < until, "the program does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    podman().podman(args);
    call.join().expect("no panic").expect_err("its program cannot end")
}

fn killed() -> Result<()> {
    pollster::block_on(async {
        let scene = Scene::open().await?;
        let error = disturb(&scene, &["kill", &scene.container()]).await;
        assert_eq!(error.code, Code::Unavailable, "{error}");
        assert!(error.message.contains("the next call starts it again"), "{error}");
        assert_eq!(scene.kept().await?, b"kept");
        scene.sandbox.destroy().await
    })
}

fn removed() -> Result<()> {
    pollster::block_on(async {
        let scene = Scene::open().await?;
        let error = disturb(&scene, &["rm", "--force", "--time", "0", &scene.container()]).await;
        assert_eq!(error.code, Code::Unavailable, "{error}");
        let error = scene.kept().await.expect_err("its files are gone");
        assert_eq!(error.code, Code::NotFound, "{error}");
        assert!(error.message.contains("removed from podman by another program"), "{error}");
        scene.sandbox.destroy().await?;
        let sandbox = scene.provider.open(&id(), &settings(&engine_image())).await?.sandbox;
        assert_eq!(run(&sandbox, "echo new").await?.stdout, b"new\n");
        sandbox.destroy().await
    })
}

fn paused() -> Result<()> {
    pollster::block_on(async {
        let scene = Scene::open().await?;
        let container = scene.container();
        let error = disturb(&scene, &["pause", &container]).await;
        assert!(error.message.contains(&format!("podman unpause {container}")), "{error}");
        let error = scene.kept().await.expect_err("it is paused");
        assert!(error.message.contains("podman unpause"), "{error}");
        podman().podman(&["unpause", &container]);
        assert_eq!(scene.kept().await?, b"kept");
        scene.sandbox.destroy().await
    })
}

/// The guest exits at the end of its input, which is also what a process that is killed leaves.
fn left() -> Result<()> {
    pollster::block_on(async {
        let scene = Scene::open().await?;
        let container = scene.container();
        let second = open_engine(scene.state.path());
        let found = second.find(&id()).await?.expect("it is recorded");
        let error = run(&found.sandbox, "true").await.expect_err("another process runs it");
        assert!(error.message.contains("another program runs the sandbox"), "{error}");
        let Scene { state, provider, sandbox } = scene;
        drop((sandbox, provider));
        let until = Instant::now() + Duration::from_secs(30);
        while podman().podman(&["inspect", "--format", "{{.State.Running}}", &container]) == "true" {
            assert!(Instant::now() < until, "the container does not stop");
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(run(&found.sandbox, "cat kept").await?.stdout, b"kept");
        found.sandbox.destroy().await?;
        assert!(list_recorded(state.path())?.is_empty());
        Ok(())
    })
}

fn leftovers() -> Result<()> {
    pollster::block_on(async {
        let scene = Scene::open().await?;
        assert_eq!(scene.provider.remove_leftovers().await?, 0);
        scene.sandbox.sleep().await?;
        // As if the process had been killed before it recorded the sandbox.
        std::fs::remove_dir_all(scene.state.path().join("containers")).expect("its records");
        assert_eq!(scene.provider.remove_leftovers().await?, 1);
        assert_eq!(scene.provider.remove_leftovers().await?, 0);
        Ok(())
    })
}

/// Programs reach neither a network nor the connection of the guest, not even as its own user.
fn isolated() -> Result<()> {
    pollster::block_on(async {
        let scene = Scene::open().await?;
        let script = "ls /sys/class/net; for fd in /proc/1/fd/*; do (echo x > $fd) 2>/dev/null && echo written; done; \
                      cat /proc/1/environ /proc/1/mem 2>/dev/null | head -c 10; kill -9 1; kill -9 -1; echo here";
        let output = run(&scene.sandbox, script).await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.starts_with("lo\n") && !text.contains("eth") && !text.contains("written"), "{text}");
        assert_eq!(scene.kept().await?, b"kept");
        scene.sandbox.destroy().await
    })
}

fn missing() -> Result<()> {
    pollster::block_on(async {
        let state = TempDir::new().expect("a directory");
        let socket = state.path().join("no.sock");
        let address = format!("unix://{}", socket.display());
        let base = Local::new(state.path())?;
        let kind = koze_engine::EngineKind::Podman;
        let provider = Engine::at(&address, kind, state.path(), koze_templates::GUEST, base);
        let error = provider.open(&id(), &settings("any")).await.map(drop).expect_err("nothing listens");
        assert_eq!(error.code, Code::Unavailable, "{error}");
        assert!(
            error.message.contains("podman does not answer") && !error.message.contains("no.sock"),
            "{error}"
        );
        let provider = open_engine(state.path());
        let mut wanted = settings("any");
        wanted.profile.stored = None;
        "localhost/not-there:1".clone_into(&mut wanted.profile.reference);
        let error = provider.open(&id(), &wanted).await.map(drop).expect_err("there is no such image");
        assert!(error.message.contains("podman pull localhost/not-there:1"), "{error}");
        wanted.profile.stored = Some("koze/not-built".to_owned());
        let error = provider.open(&id(), &wanted).await.map(drop).expect_err("it was not built");
        assert!(error.message.contains("podman build --tag koze/not-built"), "{error}");
        assert!(list_recorded(state.path())?.is_empty(), "a sandbox that could not start was not created");
        Ok(())
    })
}
