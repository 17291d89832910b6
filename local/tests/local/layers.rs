//! Snapshots as layers: what a sandbox over one sees, what layers share, and what is left of those that ended half-way.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use koze_core::tool::Family;
use koze_core::workspace::{ShellConfig, Snapshot, SnapshotConfig, Workspace, WorkspaceConfig};
use koze_core::{Code, Profiles, Provider as _, Sandbox as _, SandboxId, SandboxName, Session};
use koze_local::{Local, LocalSandbox};

use crate::Test;
use crate::stage::{Stage, id, settings, within};

pub(crate) const TESTS: &[Test] = &[
    ("layers_are_what_the_directory_was", same),
    ("layers_do_not_change", unchanged),
    ("layers_share_files", shared),
    ("layers_of_branches", of_branches),
    ("layers_of_mapped_files", mapped),
    ("layers_of_a_home", home),
    ("layers_without_overlays", without_overlays),
    ("layers_outlive_their_snapshot", outlive),
    ("layers_over_restarts", restarts),
    ("layers_half_way", half_way),
    ("layers_without_room", room),
    ("layers_after_a_power_failure", power),
    ("layers_at_once", at_once),
];

type Result = std::result::Result<(), libtest_mimic::Failed>;

/// A session with the workspace `box`, and its state directory.
struct Scene {
    session: Session<Local>,
    workspace: Workspace<LocalSandbox>,
    stage: Stage,
}

impl Scene {
    async fn new() -> Self {
        Self::with(Stage::new(), SnapshotConfig::default(), "/workspace/src").await
    }

    async fn with(stage: Stage, config: SnapshotConfig, dir: &str) -> Self {
        let mut profile = settings().profile;
        profile.tools = vec![Family::Workspace];
        profile.workspace = Some(WorkspaceConfig {
            shell: Some(ShellConfig { max_duration: Duration::from_mins(1), ..ShellConfig::default() }),
            snapshot: Some(config),
            snapshot_dir: Some(dir.to_owned()),
            ..WorkspaceConfig::new("box")
        });
        let profiles = Profiles::new(vec![profile], "python").unwrap();
        let session = Session::new(stage.local.clone(), id("default").session, profiles);
        let workspace = session.workspaces().get("box").await.unwrap();
        Scene { session, workspace, stage }
    }

    async fn take(&self, workspace: &Workspace<LocalSandbox>) -> Snapshot {
        workspace.snapshot().unwrap().create().await.unwrap()
    }

    async fn branch(&self, snapshot: &Snapshot) -> Workspace<LocalSandbox> {
        let restored = self.workspace.snapshot().unwrap().branch(&snapshot.id, None).await.unwrap();
        assert_eq!(restored.contents, snapshot.contents);
        self.restored(&restored.workspace).await
    }

    async fn restored(&self, name: &SandboxName) -> Workspace<LocalSandbox> {
        self.session.workspaces().restored("box", name.as_str()).await.unwrap()
    }

    async fn destroy(&self, name: &SandboxName) {
        let sandbox = SandboxId { session: id("default").session, name: name.clone() };
        self.stage.local.find(&sandbox).await.unwrap().unwrap().sandbox.destroy().await.unwrap();
    }

    /// Returns the layers in the state directory.
    fn layers(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.stage.state.path().join("layers")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }
}

/// Runs a command that succeeds. Returns its output.
async fn run(workspace: &Workspace<LocalSandbox>, command: &str) -> String {
    let ran = workspace.shell().unwrap().run(command, None).await.unwrap().output;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(ran.exit_code, 0, "{command}: {}{}", text(&ran.stdout), text(&ran.stderr));
    text(&ran.stdout)
}

/// Everything in the directory: types, modes, owners, sizes, targets and content.
const SHOW: &str = "cd src && find . -printf '%P %y %#m %u %s %l\\n' | sed '/ d /s/ [0-9]* $//' | LC_ALL=C sort; \
                    find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum";

/// One of everything.
const FILL: &str = "mkdir -p src/a/b/c src/empty src/locked && cd src && echo one > a/one && echo two > a/b/two && \
    head -c 300000 /dev/urandom > a/large && : > nothing && truncate -s 5M sparse && printf end >> sparse && \
    ln -s ../outside link && ln -s /etc/passwd absolute && ln a/one hard && echo x > 'ä 日本 \"q\" $x' && \
    chmod 750 a/b/two && chmod 4711 nothing && chmod 700 a/b && echo l > locked/l && chmod 500 locked && \
    n=$(printf 'n%.0s' $(seq 200)) && mkdir -p $n/$n && echo deep > $n/$n/f && mkfifo pipe";

fn same() -> Result {
    within(async {
        let scene = Scene::new().await;
        run(&scene.workspace, FILL).await;
        let before = run(&scene.workspace, SHOW).await;
        assert!(before.contains("pipe p ") && before.contains("nothing f 04711 "), "{before}");
        let before = without_special_bits(&before);
        let snapshot = scene.take(&scene.workspace).await;
        assert_eq!((snapshot.sha256, snapshot.contents.skipped), (None, 1));
        let branch = scene.branch(&scene.workspace.snapshot().unwrap().list().await.unwrap()[0]).await;
        let without_pipe = |text: &str| {
            text.lines().filter(|line| !line.contains(" p ")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(without_pipe(&run(&branch, SHOW).await), without_pipe(&before));
        // A hole is still one.
        let blocks: u64 = run(&branch, "stat -c %b src/sparse").await.trim().parse().unwrap();
        assert!(blocks < 100, "{blocks}");
        // All of it is the sandbox's own.
        run(&branch, "cd src; echo more >> a/large; chmod 600 nothing; rm -r a/b; mv a c; rm link; chmod u+w locked; rm -r locked").await;
        let left = run(&branch, "cd src; ls; cat c/one; tail -c 5 c/large").await;
        assert!(left.starts_with("absolute\nc\nempty\nhard\n"), "{left}");
        assert!(left.ends_with("one\nmore\n"), "{left}");
    })
}

/// Returns what a snapshot keeps of the files: not the bit by which one of them runs as its owner.
fn without_special_bits(shown: &str) -> String {
    shown.replace("nothing f 04711 ", "nothing f 0711 ")
}

fn unchanged() -> Result {
    within(async {
        let scene = Scene::new().await;
        run(&scene.workspace, FILL).await;
        run(&scene.workspace, "rm src/pipe").await;
        let before = without_special_bits(&run(&scene.workspace, SHOW).await);
        let snapshot = scene.take(&scene.workspace).await;
        let (one, other) = (scene.branch(&snapshot).await, scene.branch(&snapshot).await);
        for workspace in [&scene.workspace, &one] {
            run(workspace, "cd src; chmod -R u+w .; for f in $(find . -type f -name '[a-z]*'); do echo changed > $f; done; rm -r empty; \
                            rm -rf a; mkdir a; touch new").await;
        }
        for workspace in [&other, &scene.branch(&snapshot).await] {
            assert_eq!(run(workspace, SHOW).await, before);
        }
        // No path leads out of the directory on top of the layer.
        let refused = run(
            &one,
            "ls -d /.lower /.own 2>&1; mount 2>&1 | grep -c overlay; rm -rf src; ls; mkdir src && ls -A src",
        )
        .await;
        assert_eq!(
            refused,
            "ls: cannot access '/.lower': No such file or directory\nls: cannot access '/.own': No such file or \
                             directory\n1\n"
        );
    })
}

/// The files of the newest layer with their number of names.
fn names(layer: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![layer.join("files")];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let about = fs::symlink_metadata(entry.path()).unwrap();
            if about.is_dir() {
                waiting.push(entry.path());
            } else if about.is_file() {
                found.insert(entry.file_name().into_string().unwrap(), about.nlink());
            }
        }
    }
    found
}

fn shared() -> Result {
    within(async {
        let scene = Scene::new().await;
        run(&scene.workspace, "mkdir -p src/d && cd src && for f in $(seq 200); do echo $f > d/$f; done; head -c 1000000 /dev/urandom > big; \
                               for f in appended replaced rewritten chmodded removed moved; do echo same > $f; done; sleep 0.2").await;
        let first = scene.take(&scene.workspace).await;
        assert!(first.archive_bytes >= 1_000_000, "{first:?}");
        let old = scene.layers();
        // Some of these keep the size and the time of change that programs see.
        run(&scene.workspace, "cd src; echo more >> appended; cp -p replaced x; echo SAME > x; touch -r replaced x; mv x replaced; \
                               t=$(stat -c %y rewritten); echo SAME > rewritten; touch -d \"$t\" rewritten; chmod 600 chmodded; rm removed; \
                               mv moved moved-here; echo new > new").await;
        let before = run(&scene.workspace, SHOW).await;
        let second = scene.take(&scene.workspace).await;
        assert!(second.archive_bytes < 1000, "{second:?}");
        let new = scene.layers().into_iter().find(|layer| !old.contains(layer)).unwrap();
        let names = names(&new);
        assert_eq!(names.len(), 207);
        let own: Vec<&str> =
            names.iter().filter(|(_, links)| **links == 1).map(|(name, _)| name.as_str()).collect();
        assert_eq!(own, ["appended", "chmodded", "moved-here", "new", "replaced", "rewritten"]);
        let branch = scene.branch(&second).await;
        assert_eq!(run(&branch, SHOW).await, before);
        // The first one goes, the second keeps its files.
        assert!(scene.workspace.snapshot().unwrap().remove(&first.id).await.unwrap());
        assert_eq!(scene.layers(), [new]);
        let branch = scene.branch(&second).await;
        assert_eq!(run(&branch, SHOW).await, before);
    })
}

fn of_branches() -> Result {
    within(async {
        let scene = Scene::new().await;
        run(
            &scene.workspace,
            "mkdir -p src/d/e src/f && cd src && for f in $(seq 100); do echo $f > d/e/$f; done; \
                               echo kept > kept; echo gone > gone; echo a > f/a",
        )
        .await;
        let first = scene.take(&scene.workspace).await;
        let branch = scene.branch(&first).await;
        // A removed file, a changed one, a directory in place of another one, a file in place of a directory.
        run(&branch, "cd src; rm gone; echo changed > d/e/7; rm -r f; mkdir f; echo b > f/b; mkdir g; echo g > g/g; sleep 0.2").await;
        let second = scene.take(&branch).await;
        let before = run(&branch, SHOW).await;
        assert!(second.archive_bytes < 100, "{second:?}");
        assert_eq!(run(&scene.branch(&second).await, SHOW).await, before);
        run(&branch, "cd src; rm -r d; echo d > d; echo b2 > f/b; echo kept2 > kept").await;
        let before = run(&branch, SHOW).await;
        let third = scene.take(&branch).await;
        assert!(third.archive_bytes < 100, "{third:?}");
        let last = scene.branch(&third).await;
        assert_eq!(run(&last, SHOW).await, before);
        // Nothing changed: nothing is written.
        assert_eq!(scene.take(&last).await.archive_bytes, 0);
        // Another directory in its place has nothing in common with the layer.
        run(&last, "mkdir other; echo other > other/kept; mkdir other/f; echo b > other/f/b; mv src old; ln -s other src").await;
        let before = run(&last, "ls -A src; cat src/kept src/f/b").await;
        let replaced = scene.take(&last).await;
        assert_eq!(run(&scene.branch(&replaced).await, "ls -A src; cat src/kept src/f/b").await, before);
        assert_eq!(run(&scene.workspace, "cd src; cat gone kept d/e/7 f/a").await, "gone\nkept\n7\na\n");
    })
}

/// The kernel does not say of each write through a mapping that the file has changed.
fn mapped() -> Result {
    within(async {
        let scene = Scene::new().await;
        let write = "import mmap, os, time\nf = os.open('src/mapped', os.O_RDWR)\nm = mmap.mmap(f, 4096)\nm[0:1] = b'1'\n\
                     open('ready', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)\nm[0:1] = b'2'\nopen('done', 'w').close()\n\
                     while not os.path.exists('end'): time.sleep(0.01)\n";
        run(&scene.workspace, &format!("mkdir src; head -c 4096 /dev/zero > src/mapped; echo other > src/other; cat > map.py <<'E'\n{write}E\n\
                                        (python3 map.py > /dev/null 2>&1 &); while ! [ -e ready ]; do sleep 0.01; done; sleep 0.2")).await;
        scene.take(&scene.workspace).await;
        run(&scene.workspace, "touch go; while ! [ -e done ]; do sleep 0.01; done").await;
        let second = scene.take(&scene.workspace).await;
        assert_eq!(
            run(&scene.branch(&second).await, "head -c 1 src/mapped; cat src/other").await,
            "2other\n"
        );
        run(&scene.workspace, "touch end").await;
    })
}

fn home() -> Result {
    within(async {
        let scene = Scene::with(Stage::new(), SnapshotConfig::default(), "/home/user").await;
        run(&scene.workspace, "echo 'export A=1' > ~/.bashrc; mkdir ~/src; chmod 711 ~").await;
        let snapshot = scene.take(&scene.workspace).await;
        let branch = scene.branch(&snapshot).await;
        assert_eq!(
            run(&branch, "stat -c %a ~; cat ~/.bashrc; ls -A ~").await,
            "711\nexport A=1\n.bashrc\nsrc\n"
        );
        // A directory that is not the sandbox's own is archived.
        let scene = Scene::with(Stage::new(), SnapshotConfig::default(), "/dev/shm/x").await;
        run(&scene.workspace, "mkdir /dev/shm/x; echo x > /dev/shm/x/x").await;
        let snapshot = scene.take(&scene.workspace).await;
        assert!(snapshot.sha256.is_some());
        assert_eq!(run(&scene.branch(&snapshot).await, "cat /dev/shm/x/x").await, "x\n");
    })
}

fn without_overlays() -> Result {
    within(async {
        let stage = Stage::new();
        let plain = Stage { local: stage.local.clone().without_overlays(), state: stage.state };
        let scene = Scene::with(plain, SnapshotConfig::default(), "/workspace/src").await;
        run(&scene.workspace, FILL).await;
        run(&scene.workspace, "rm src/pipe").await;
        let before = without_special_bits(&run(&scene.workspace, SHOW).await);
        let snapshot = scene.take(&scene.workspace).await;
        let branch = scene.branch(&snapshot).await;
        assert_eq!(run(&branch, "mount | grep -c overlay || true").await, "0\n");
        assert_eq!(run(&branch, SHOW).await, before);
    })
}

fn outlive() -> Result {
    within(async {
        let scene = Scene::new().await;
        run(&scene.workspace, "mkdir src; echo 1 > src/f").await;
        let snapshot = scene.take(&scene.workspace).await;
        let snapshots = scene.workspace.snapshot().unwrap();
        let one = snapshots.branch(&snapshot.id, None).await.unwrap().workspace;
        let other = snapshots.branch(&snapshot.id, None).await.unwrap().workspace;
        assert!(snapshots.remove(&snapshot.id).await.unwrap());
        assert_eq!(snapshots.branch(&snapshot.id, None).await.unwrap_err().code, Code::NotFound);
        assert_eq!(run(&scene.restored(&one).await, "cat src/f").await, "1\n");
        scene.destroy(&one).await;
        assert_eq!(scene.layers().len(), 1, "the other one is still over it");
        // A new program leaves it alone, too.
        let again = Local::new(scene.stage.state.path()).unwrap();
        assert!(again.list(&id("default").session).await.unwrap().len() == 2);
        assert_eq!(run(&scene.restored(&other).await, "cat src/f").await, "1\n");
        scene.destroy(&other).await;
        assert!(scene.layers().is_empty());
    })
}

fn restarts() -> Result {
    within(async {
        let Scene { session, workspace, stage } = Scene::new().await;
        run(&workspace, "mkdir src; echo 1 > src/f; echo 2 > src/g").await;
        let snapshot = workspace.snapshot().unwrap().create().await.unwrap();
        let branched = workspace.snapshot().unwrap().branch(&snapshot.id, None).await.unwrap();
        let branch = session.workspaces().restored("box", branched.workspace.as_str()).await.unwrap();
        run(&branch, "echo changed > src/f; rm src/g").await;
        drop((session, workspace, branch));
        let Stage { local, state } = stage;
        drop(local);
        let scene = Scene::with(
            Stage { local: Local::new(state.path()).unwrap(), state },
            SnapshotConfig::default(),
            "/workspace/src",
        )
        .await;
        let branch = scene.session.workspaces().restored("box", branched.workspace.as_str()).await.unwrap();
        assert_eq!(run(&branch, "cat src/f; ls src").await, "changed\nf\n");
        assert_eq!(run(&scene.branch(&snapshot).await, "cat src/f src/g").await, "1\n2\n");
    })
}

/// A caller that no longer waits, and a store that refuses.
fn half_way() -> Result {
    within(async {
        let scene = Scene::new().await;
        run(
            &scene.workspace,
            "mkdir src; for f in $(seq 500); do head -c 100000 /dev/urandom > src/$f; done",
        )
        .await;
        let snapshots = scene.workspace.snapshot().unwrap();
        for after in [1, 5, 20, 50] {
            let dropped = tokio::time::timeout(Duration::from_millis(after), snapshots.create()).await;
            if let Ok(taken) = dropped {
                snapshots.remove(&taken.unwrap().id).await.unwrap();
            }
        }
        // What is left of them goes on its own.
        for _ in 0..500 {
            if scene.layers().is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(scene.layers().is_empty());
        assert!(snapshots.list().await.unwrap().is_empty());
        let snapshot = scene.take(&scene.workspace).await;
        // What a killed program leaves is removed by the next one, and nothing else.
        let layers = scene.stage.state.path().join("layers");
        fs::create_dir_all(layers.join("0123456789abcdef/files/x")).unwrap();
        fs::write(layers.join("0123456789abcdef/lock"), "").unwrap();
        let again = Local::new(scene.stage.state.path()).unwrap();
        let store = again.store(&id("default").session).unwrap();
        let key = koze_core::store::Key::new("x").unwrap();
        assert!(koze_core::Store::get(&store, &key).await.unwrap().is_none());
        assert_eq!(scene.layers().len(), 1);
        scene.branch(&snapshot).await;
        // A directory that cannot be read.
        run(&scene.workspace, "touch src/no; chmod 0 src/no").await;
        let refused = snapshots.create().await.unwrap_err();
        assert_eq!((refused.code, scene.layers().len()), (Code::PermissionDenied, 1), "{refused}");
    })
}

fn room() -> Result {
    within(async {
        let config = SnapshotConfig { max_bytes: 500_000, ..SnapshotConfig::default() };
        let scene = Scene::with(Stage::new(), config, "/workspace/src").await;
        run(&scene.workspace, "mkdir src; head -c 300000 /dev/urandom > src/a; sleep 0.2").await;
        scene.take(&scene.workspace).await;
        run(&scene.workspace, "head -c 300000 /dev/urandom > src/b").await;
        let refused = scene.workspace.snapshot().unwrap().create().await.unwrap_err();
        assert_eq!(refused.code, Code::TooLarge, "{refused}");
        assert_eq!(scene.layers().len(), 1);
        // Only what is new counts.
        run(&scene.workspace, "truncate -s 100000 src/b").await;
        scene.take(&scene.workspace).await;
        assert_eq!(scene.layers().len(), 2);
    })
}

fn power() -> Result {
    within(async {
        let scene = Scene::new().await;
        run(&scene.workspace, "mkdir -p src/d; echo 12345 > src/d/f").await;
        let snapshot = scene.take(&scene.workspace).await;
        let layer = scene.layers().remove(0);
        let about = layer.join("about");
        let elsewhen = |text: String| {
            let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
            value["boot"] = "another".into();
            value.to_string()
        };
        fs::write(&about, elsewhen(fs::read_to_string(&about).unwrap())).unwrap();
        scene.branch(&snapshot).await;
        fs::write(&about, elsewhen(fs::read_to_string(&about).unwrap())).unwrap();
        let file = fs::File::options().write(true).open(layer.join("files/src/d/f")).unwrap();
        file.set_len(0).unwrap();
        let snapshots = scene.workspace.snapshot().unwrap();
        let damaged = snapshots.branch(&snapshot.id, None).await.unwrap_err();
        assert_eq!(damaged.code, Code::InvalidInput);
        assert_eq!(
            damaged.message,
            "the snapshot is damaged: this machine lost power before its file `d/f` was on disk"
        );
        assert!(snapshots.export(&snapshot.id).await.is_err_and(|error| error.code == Code::InvalidInput));
    })
}

fn at_once() -> Result {
    within(async {
        let scene = Scene::new().await;
        run(&scene.workspace, "mkdir src; for f in $(seq 50); do echo $f > src/$f; done").await;
        let take = || async { scene.workspace.snapshot().unwrap().create().await.unwrap() };
        let taken = tokio::join!(take(), take(), take(), take());
        let before = run(&scene.workspace, SHOW).await;
        for snapshot in [taken.0, taken.1, taken.2, taken.3] {
            assert_eq!(run(&scene.branch(&snapshot).await, SHOW).await, before);
        }
        let branch = || async {
            let snapshots = scene.workspace.snapshot().unwrap();
            let first = snapshots.list().await.unwrap().remove(0);
            scene.branch(&first).await
        };
        let branches = tokio::join!(branch(), branch(), branch());
        for branch in [branches.0, branches.1, branches.2] {
            assert_eq!(run(&branch, SHOW).await, before);
        }
    })
}
