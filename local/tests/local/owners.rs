//! The host user of a sandbox.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use koze_core::sandbox::Place;
use koze_core::{Provider, Sandbox};
use koze_local::{Local, Weakness};

use crate::Test;
use crate::stage::{Stage, at, id, is_root, out, settings, within};

/// The user that earlier versions used for all of root's sandboxes: the first subordinate one that useradd assigns.
const FORMER: u32 = 100_000;

pub(crate) const TESTS: &[Test] = &[
    ("each_sandbox_has_its_own_user", own_user),
    ("control_sandboxes_share_a_user", shared_user),
    ("the_user_of_a_sandbox_does_not_change", user_stays),
    ("sandboxes_of_earlier_versions_get_a_user", users_of_earlier_versions),
    ("transferred_files_belong_to_the_receiver", transferred),
];

/// Returns the directories of the sandboxes in a state directory, and the owners of their homes.
fn owners(state: &Path) -> Vec<(PathBuf, u32)> {
    let all = fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    let home = |path: PathBuf| Some((path.clone(), fs::metadata(path.join("files/home")).ok()?.uid()));
    all.filter_map(home).collect()
}

fn users(stages: &[&Stage]) -> Vec<u32> {
    stages.iter().flat_map(|stage| owners(stage.state.path())).map(|(_, user)| user).collect()
}

fn me() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

fn own_user() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let (one, other) = (Stage::new(), Stage::new());
        let _sandboxes = (one.open("a").await, one.open("b").await, other.open("a").await);
        let mut users = users(&[&one, &other]);
        assert_eq!(users.len(), 3);
        if !is_root() {
            assert!(users.iter().all(|user| *user == me()), "{users:?}");
            return;
        }
        users.sort_unstable();
        users.dedup();
        assert_eq!(users.len(), 3, "{users:?}");
        for user in users {
            assert!(user > 2_000_000_000, "{user}");
            for file in ["/etc/subuid", "/etc/subgid"] {
                for line in fs::read_to_string(file).unwrap_or_default().lines() {
                    let mut numbers = line.split(':').skip(1).map(|number| number.parse::<u32>().unwrap());
                    let (first, count) = (numbers.next().unwrap(), numbers.next().unwrap());
                    assert!(user < first || user - first >= count, "{user}: {line}");
                }
            }
        }
    })
}

fn shared_user() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = || Stage::weakened(vec![Weakness::SharedUser]);
        let (one, other) = (stage(), stage());
        let _sandboxes = (one.open("a").await, other.open("a").await);
        let user = if is_root() { FORMER } else { me() };
        assert_eq!(users(&[&one, &other]), [user, user]);
    })
}

fn user_stays() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        out(&sandbox, "mkdir -m 700 d; echo mine > d/f; chmod 600 d/f").await;
        let before = users(&[&stage]);
        let Stage { local, state } = stage;
        drop((local, sandbox));
        let local = Local::new(state.path()).unwrap();
        let sandbox = local.open(&id("a"), &settings()).await.unwrap().sandbox;
        assert_eq!(out(&sandbox, "cat d/f; echo more >> d/f; cat d/f").await, "mine\nmine\nmore");
        let stage = Stage { local, state };
        assert_eq!(users(&[&stage]), before);
        if is_root() {
            let claim = PathBuf::from(format!("/run/koze/users/{}", before[0]));
            assert_eq!(fs::read_link(&claim).unwrap(), owners(stage.state.path())[0].0);
            sandbox.destroy().await.unwrap();
            assert!(fs::symlink_metadata(claim).is_err(), "another may be that user now");
        }
    })
}

/// Their files are given to the new user, including links and inaccessible directories, but not the targets of links.
fn users_of_earlier_versions() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let foreign = tempfile::tempdir().unwrap();
        let secret = foreign.path().join("secret");
        fs::write(&secret, "of the host").unwrap();
        let stage = Stage::weakened(vec![Weakness::SharedUser]);
        let sandbox = stage.open("a").await;
        let link = format!("ln -s {} secret; mkdir -p d/e; echo mine > d/e/f; chmod 0 d/e", secret.display());
        out(&sandbox, &link).await;
        let Stage { local, state } = stage;
        drop((local, sandbox));
        let local = Local::new(state.path()).unwrap();
        let sandbox = local.open(&id("a"), &settings()).await.unwrap().sandbox;
        assert_eq!(
            out(&sandbox, "chmod 700 d/e; echo more >> d/e/f; cat d/e/f; rm secret").await,
            "mine\nmore"
        );
        let (directory, user) = owners(state.path()).remove(0);
        if is_root() {
            assert_ne!(user, FORMER);
        }
        for path in
            ["files/home/d", "files/home/d/e", "files/home/d/e/f", "files/user-data/outputs", "files/tmp"]
        {
            assert_eq!(fs::metadata(directory.join(path)).unwrap().uid(), user, "{path}");
        }
        assert_eq!(fs::metadata(secret).unwrap().uid(), me());
    })
}

fn transferred() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (from, to) = (stage.open("from").await, stage.open("to").await);
        out(&from, "mkdir -p d; echo moved > d/f").await;
        let (source, target) = (at("/home/user/d"), Place { root: "/", path: "/workspace/d" });
        from.copy_to(source, &to, target).await.unwrap();
        assert_eq!(out(&to, "cat /workspace/d/f; echo more >> /workspace/d/f").await, "moved");
        for (directory, user) in owners(stage.state.path()) {
            if let Ok(about) = fs::metadata(directory.join("files/workspace/d/f")) {
                assert_eq!(about.uid(), user);
            }
        }
    })
}
