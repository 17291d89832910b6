//! How fast workspaces are on this machine, beside what a person would use for the same. `cargo xtask bench` runs this, and
//! shows what it prints: one JSON document.
#![cfg(target_os = "linux")]

use std::convert::Infallible;
use std::future::ready;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use koze_core::provider::{Profile, Size};
use koze_core::tool::Family;
use koze_core::workspace::{
    CodeConfig, Grep, Language, ShellConfig, Snapshot, SnapshotConfig, Workspace, WorkspaceConfig,
};
use koze_core::{Profiles, Session, SessionId};
use koze_local::{Local, LocalSandbox};
use serde_json::{Value, json};

/// A small tree with text, for a search.
const MANY: &str = "mkdir many; cd many; for d in $(seq 1000); do mkdir $d; for f in $(seq 100); do \
    echo \"line $d of $f\" > $d/$f; done; done";
/// 256 MiB in 5,000 files, a half of which compresses.
const LARGE: &str = "mkdir large; cd large; head -c 26843 /dev/urandom > half; \
    for f in $(seq 5000); do { cat half; head -c 26843 /dev/urandom; } > $f; done; rm half";

fn main() {
    koze_local::init();
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (rows, notes) = koze_local::block_on(measure(quick)).expect("it ends well");
    println!("{}", json!({ "rows": rows, "notes": notes }));
}

async fn measure(quick: bool) -> (Vec<Value>, Vec<String>) {
    let state = tempfile::tempdir().expect("a temporary directory");
    let local = Local::new(state.path()).expect("sandboxes on this machine");
    let workspace = opened(&local).await;
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    contexts(&workspace, if quick { 50 } else { 500 }, &mut rows).await;
    first_output(&workspace, if quick { 20 } else { 100 }, &mut rows).await;
    search(&workspace, state.path(), if quick { 3 } else { 9 }, &mut rows, &mut notes).await;
    snapshots(&workspace, state.path(), if quick { 1 } else { 3 }, &mut rows, &mut notes).await;
    (rows, notes)
}

async fn opened(local: &Local) -> Workspace<LocalSandbox> {
    let config = WorkspaceConfig {
        shell: Some(ShellConfig::default()),
        code: Some(CodeConfig { stateful: true, ..CodeConfig::default() }),
        snapshot: Some(SnapshotConfig::default()),
        snapshot_dir: Some("/workspace/large".into()),
        ..WorkspaceConfig::new("box")
    };
    let profile = Profile {
        tools: vec![Family::Workspace],
        workspace: Some(config),
        ..Profile::new("box", "docker.io/library/debian:12", Size { memory_mib: 4096, disk_mb: 16_000 })
    };
    let profiles = Profiles::new(vec![profile], "box").expect("one of them");
    let session =
        Session::new(local.clone(), SessionId::new("bench", "workspace").expect("a name"), profiles);
    session.workspaces().get("box").await.expect("a workspace")
}

/// Code in a context that has run before.
async fn contexts(workspace: &Workspace<LocalSandbox>, runs: usize, rows: &mut Vec<Value>) {
    let code = workspace.code().expect("it is declared");
    for (language, name, new) in [
        (Language::Python, "`1 + 1` in a Python context", ["python3", "-c", "1 + 1"]),
        (Language::Javascript, "`1 + 1` in a JavaScript context", ["node", "-e", "1 + 1"]),
    ] {
        let context = code.create_context(language).await.expect("an interpreter");
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            let start = Instant::now();
            let run = code.run_in_context(&context, "1 + 1", None).await.expect("it runs");
            ours.push(start.elapsed());
            assert_eq!(run.exit_code, 0);
            if theirs.len() < 20 {
                let start = Instant::now();
                let ran = Command::new(new[0]).args(&new[1..]).status();
                assert!(ran.is_ok_and(|status| status.success()), "{name}");
                theirs.push(start.elapsed());
            }
        }
        rows.push(row(name, &ours[1..], &new.join(" "), &theirs));
        code.delete_context(&context).await.expect("it is there");
    }
}

/// How long after the start of a command its first output arrives, while it goes on.
async fn first_output(workspace: &Workspace<LocalSandbox>, runs: usize, rows: &mut Vec<Value>) {
    let shell = workspace.shell().expect("it is declared");
    let mut ours = Vec::new();
    for _ in 0..runs {
        let (start, mut first) = (Instant::now(), None);
        let on_output = |_| {
            first.get_or_insert_with(|| start.elapsed());
            ready(Ok::<_, Infallible>(()))
        };
        shell.run_streaming("echo first; sleep 0.1", None, on_output).await.expect("it runs");
        ours.push(first.expect("it prints"));
    }
    rows.push(row("first output of a command", &ours[1..], "", &[]));
}

async fn search(
    workspace: &Workspace<LocalSandbox>,
    state: &Path,
    runs: usize,
    rows: &mut Vec<Value>,
    notes: &mut Vec<String>,
) {
    let shell = workspace.shell().expect("it is declared");
    let made = shell.run(MANY, None).await.expect("it runs");
    assert_eq!(made.output.exit_code, 0);
    let fs = workspace.fs().expect("it is there");
    let grep = Grep { path: "many".into(), max_results: 1000, ..Grep::new("line 500 of") };
    let tree = state.join("tree");
    std::fs::create_dir(&tree).expect("a directory");
    fill(MANY, &tree);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let is_there = Command::new("rg").arg("--version").output().is_ok();
    for _ in 0..runs {
        let start = Instant::now();
        let found = fs.grep(&grep).await.expect("it searches");
        ours.push(start.elapsed());
        assert_eq!(found.matches.len(), 100);
        if is_there {
            let start = Instant::now();
            let found = Command::new("rg").args(["-c", "line 500 of"]).arg(&tree).output();
            assert!(found.is_ok_and(|found| found.status.success()), "rg");
            theirs.push(start.elapsed());
        }
    }
    if !is_there {
        notes.push("`rg` is not installed: `apt-get install ripgrep`".to_owned());
    }
    rows.push(row("grep of 100,000 files", &ours, "rg", &theirs));
}

async fn snapshots(
    workspace: &Workspace<LocalSandbox>,
    state: &Path,
    runs: usize,
    rows: &mut Vec<Value>,
    notes: &mut Vec<String>,
) {
    let shell = workspace.shell().expect("it is declared");
    let run = async |command: &str| {
        let made = shell.run(command, None).await.expect("it runs");
        assert_eq!(made.output.exit_code, 0);
    };
    run(LARGE).await;
    let tree = state.join("tree-to-archive");
    std::fs::create_dir(&tree).expect("a directory");
    fill(LARGE, &tree);
    let snapshots = workspace.snapshot().expect("it is declared");
    let timed = async || {
        let start = Instant::now();
        let snapshot = snapshots.create().await.expect("it is taken");
        (snapshot, start.elapsed())
    };
    let branch = async |snapshot: &Snapshot| {
        let start = Instant::now();
        snapshots.branch(&snapshot.id, None).await.expect("a new sandbox");
        start.elapsed()
    };
    let [mut taken, mut again, mut branched, mut archived, mut copied] = [(); 5].map(|()| Vec::new());
    for number in 0..runs {
        let (snapshot, time) = timed().await;
        taken.push(time);
        let start = Instant::now();
        let tar = "tar -cf - -C \"$1\" large | zstd -q -3 -o \"$2\"";
        let archive = state.join(format!("archive-{number}.tar.zst"));
        shell_of_host(tar, &tree, &archive);
        archived.push(start.elapsed());
        branched.push(branch(&snapshot).await);
        let start = Instant::now();
        shell_of_host("cp -a \"$1/large\" \"$2\"", &tree, &state.join(format!("copy-{number}")));
        copied.push(start.elapsed());
        run("cd large; for f in $(seq 1 100 5000); do echo changed >> $f; done").await;
        let (changed, time) = timed().await;
        again.push(time);
        if number == 0 {
            let (first, second) = (snapshot.archive_bytes, changed.archive_bytes);
            notes.push(format!(
                "the first snapshot keeps {first} bytes, the second, after 50 files changed, {second}"
            ));
        }
        for one in [snapshot, changed] {
            snapshots.remove(&one.id).await.expect("it is there");
        }
    }
    rows.push(row("first snapshot of 256 MiB in 5,000 files", &taken, "tar | zstd -3", &archived));
    rows.push(row("snapshot of the same after 50 files changed", &again, "tar | zstd -3", &archived));
    rows.push(row("branch of the same", &branched, "cp -a", &copied));
    run("cd large; for f in *; do cat $f $f $f $f > x; mv x $f; done").await;
    let mut branched = Vec::new();
    let (snapshot, _) = timed().await;
    for _ in 0..runs {
        branched.push(branch(&snapshot).await);
    }
    rows.push(row("branch of 1 GiB in 5,000 files", &branched, "", &[]));
}

/// Creates a tree of this machine.
fn fill(command: &str, at: &Path) {
    let filled = Command::new("bash").args(["-c", command]).current_dir(at).status();
    assert!(filled.is_ok_and(|status| status.success()), "a tree");
}

fn shell_of_host(command: &str, from: &Path, to: &Path) {
    let ran = Command::new("bash").args(["-c", command, "bash"]).args([from, to]).status();
    assert!(ran.is_ok_and(|status| status.success()), "{command}");
}

fn row(case: &str, ours: &[Duration], peer: &str, theirs: &[Duration]) -> Value {
    let micros = |times: &[Duration]| times.iter().map(|time| time.as_secs_f64() * 1e6).collect::<Vec<_>>();
    json!({ "case": case, "us": micros(ours), "peer": peer, "peer_us": micros(theirs) })
}
