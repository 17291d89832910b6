//! The guest and the host's code against hostile sandboxes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use koze_core::{Code, Provider, Sandbox};
use koze_local::{Local, Weakness};

use crate::Test;
use crate::stage::{Stage, command, id, out, settings, within};

pub(crate) const TESTS: &[Test] =
    &[("signals_do_not_reach_the_guest", signals), ("links_planted_for_the_host", planted_links)];

fn signals() -> Result<(), libtest_mimic::Failed> {
    let kill = command(&[
        "sh",
        "-c",
        "kill -TERM $PPID; kill -STOP $PPID; kill -SEGV $PPID; kill -KILL $PPID; sleep 1; echo on",
    ]);
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        out(&sandbox, "sleep 98731 > /dev/null 2>&1 & echo $! > /tmp/pid").await;
        let output = sandbox.exec(kill.clone()).await.unwrap();
        assert_eq!(output.stdout, b"on\n");
        // It is still the same guest, with its processes.
        assert_eq!(out(&sandbox, "kill -0 $(cat /tmp/pid) && echo there").await, "there");
    })?;
    within(async {
        let stage = Stage::weakened(vec![Weakness::Processes]);
        let sandbox = stage.open("a").await;
        let error = sandbox.exec(kill.clone()).await.unwrap_err();
        assert_eq!(
            error.code,
            Code::Unavailable,
            "the control: a guest that is not the first process is killed"
        );
        assert_eq!(out(&sandbox, "echo back").await, "back");
    })
}

/// Directories that the host creates when a sandbox wakes may have been replaced by links.
fn planted_links() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let outside = tempfile::tempdir().unwrap();
        let there = outside.path().join("there");
        fs::create_dir(&there).unwrap();
        fs::set_permissions(&there, fs::Permissions::from_mode(0o750)).unwrap();
        let before = fs::metadata(&there).unwrap();

        let Stage { local, state } = Stage::new();
        let sandbox = local.open(&id("a"), &settings()).await.unwrap().sandbox;
        let plant = format!(
            "cd /mnt/user-data; rm -rf uploads outputs workspace
             ln -s {0} uploads; ln -s {0}/new outputs; ln -s {0}/../there workspace",
            there.display()
        );
        out(&sandbox, &plant).await;
        drop((sandbox, local));

        let local = Local::new(state.path()).unwrap();
        let sandbox = local.open(&id("a"), &settings()).await.unwrap().sandbox;
        assert_eq!(out(&sandbox, "readlink /mnt/user-data/uploads").await, there.display().to_string());
        let after = fs::metadata(&there).unwrap();
        assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
        assert_eq!(fs::read_dir(&there).unwrap().count(), 0);

        // The control: following the link leads there.
        let directories = fs::read_dir(state.path()).unwrap().map(|entry| entry.unwrap().path());
        let own = directories.map(|path| path.join("files/user-data")).find(|path| path.is_dir()).unwrap();
        fs::set_permissions(own.join("uploads"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_ne!(fs::metadata(&there).unwrap().mode(), before.mode());
    })
}
