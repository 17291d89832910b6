//! The host user of a sandbox.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use koze_core::sandbox::Place;
use koze_core::{Provider, Sandbox};
use koze_local::{Local, Weakness};

use crate::Test;
use crate::stage::{Stage, at, id, is_root, out, settings, until, within};

/// The user that earlier versions used for all of root's sandboxes: the first subordinate one that useradd assigns.
const FORMER: u32 = 100_000;

pub(crate) const TESTS: &[Test] = &[
    ("each_sandbox_has_its_own_user", own_user),
    ("control_sandboxes_share_a_user", shared_user),
    ("the_user_of_a_sandbox_does_not_change", user_stays),
    ("sandboxes_of_earlier_versions_get_a_user", users_of_earlier_versions),
    ("transferred_files_belong_to_the_receiver", transferred),
    ("prepared_directories_are_given_to_the_sandbox", prepared),
    ("prepared_directories_are_deleted_with_their_program", swept),
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

/// What a program has prepared for its next sandbox.
fn ahead(stage: &Stage) -> Vec<PathBuf> {
    let all = fs::read_dir(stage.state.path().join("ahead")).into_iter().flatten().flatten();
    all.map(|entry| entry.path()).filter(|path| path.join("files/user-data/outputs").is_dir()).collect()
}

fn prepared() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let first = stage.open("first").await;
        until("the next one is prepared", async || ahead(&stage).len() == 1).await;
        let directory = fs::metadata(&ahead(&stage)[0]).unwrap();
        let second = stage.open("second").await;
        let taken = |path: &PathBuf| fs::metadata(path).unwrap().ino() == directory.ino();
        assert_eq!(owners(stage.state.path()).iter().filter(|(path, _)| taken(path)).count(), 1);
        for sandbox in [&first, &second] {
            let write =
                "for d in ~ /workspace /mnt/user-data /mnt/user-data/*; do echo 1 > $d/f; done; cat ~/f";
            assert_eq!(out(sandbox, write).await, "1");
        }
        if !is_root() {
            return;
        }
        // Another program was killed before it gave the directories to their user.
        let (path, _) = owners(stage.state.path()).into_iter().find(|(path, _)| taken(path)).unwrap();
        let Stage { local, state } = stage;
        drop((local, first, second));
        fs::remove_file(path.join("owner")).unwrap();
        for own in ["files/home", "files/workspace", "files/tmp"] {
            std::os::unix::fs::lchown(path.join(own), Some(0), Some(0)).unwrap();
        }
        let local = Local::new(state.path()).unwrap();
        let sandbox = local.open(&id("second"), &settings()).await.unwrap().sandbox;
        assert_eq!(out(&sandbox, "echo 2 > ~/new; cat ~/new").await, "2");
        assert!(owners(state.path()).iter().all(|(_, user)| *user > 2_000_000_000));
    })
}

fn swept() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        until("the next one is prepared", async || ahead(&stage).len() == 1).await;
        // One of a program that was killed, and one that was being made.
        let place = stage.state.path().join("ahead");
        for path in ["1-0/files/user-data/outputs", "1-1"] {
            fs::create_dir_all(place.join(path)).unwrap();
        }
        fs::write(place.join("1-0/lock"), "").unwrap();
        assert_eq!(ahead(&stage).len(), 2);
        let other = Local::new(stage.state.path()).unwrap();
        assert_eq!(fs::read_dir(&place).unwrap().count(), 1, "that of this program stays");
        assert_eq!(ahead(&stage).len(), 1);
        drop(other);
        assert_eq!(out(&sandbox, "echo well").await, "well");
        let Stage { local, state } = stage;
        drop((local, sandbox));
        until("it goes", async || fs::read_dir(&place).unwrap().count() == 0).await;
        drop(state);
    })
}
