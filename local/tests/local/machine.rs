//! What a sandbox may use of machine-wide resources. The attempts to exceed these limits are among the escapes.

use koze_local::Weakness;
use koze_local::prove::Prover;

use crate::Test;
use crate::stage::{Stage, out, sh, within};

pub(crate) const TESTS: &[Test] = &[
    ("disk_is_allocated_by_writing", disk_is_allocated_by_writing),
    ("core_files_stay_off", core_files_stay_off),
    ("namespaces_are_denied_by_the_kernel_itself", kernel_refuses_namespaces),
];

/// Programs allocate space by writing, and calls that free space are allowed.
fn disk_is_allocated_by_writing() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let sandbox = Stage::new();
        let sandbox = sandbox.open("a").await;
        let refused = sh(&sandbox, "fallocate -l 1M f").await;
        assert_ne!(refused.exit_code, 0);
        assert!(String::from_utf8_lossy(&refused.stderr).contains("not supported"), "{refused:?}");
        assert_eq!(
            out(&sandbox, "fallocate -x -l 1M f && stat -c %s f && du -k f | cut -f1").await,
            "1048576\n1024"
        );
        assert_eq!(out(&sandbox, "fallocate -p -o 0 -l 512K f && du -k f | cut -f1").await, "512");
    })
}

/// Programs that disable core dumps keep running.
fn core_files_stay_off() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let limit = "grep 'core file' /proc/self/limits | tr -s ' ' | cut -d' ' -f5,6";
        assert_eq!(out(&sandbox, &format!("ulimit -c 0 && {limit}")).await, "1 1");
    })
}

/// The filter is not the only protection.
fn kernel_refuses_namespaces() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let dir = tempfile::tempdir().unwrap();
        let mut prover = Prover::weakened(dir.path(), vec![Weakness::Filter]).await.unwrap();
        for name in ["new_user_namespace", "clone_into_namespaces"] {
            let output = prover.attempt(name).await.unwrap();
            assert!(output.starts_with("refused: No space left"), "{name}: {output}");
        }
    })
}
