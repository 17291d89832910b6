//! The cases of the agent's tools over HTTP, with both backends in stand-ins for their containers, and in real containers
//! in `containers`. All of them are played once with each backend: `native` in real containers, `sdk` here.

use std::sync::Arc;

use koze_tests::conformance::http::{Http, Options, Part, play_all};
use koze_tests::conformance::{Capability, Host, IMAGES};

use crate::built::wasm;
use crate::project::{Worker, made};
use crate::runs::link;
use crate::served::TOKEN;
use crate::workspaces::{Backend, serve_with};

#[test]
fn native_tools_conform() {
    conform("native tools", Backend::Native, &[], DIFFERENT);
}

#[test]
fn sdk_tools_conform() {
    conform("sdk tools", Backend::Sdk, &[], &[]);
}

/// The programs of the SDK's container are those of a user who may not create the directories of a thread, and whose
/// Dockerfile does.
#[test]
fn sdk_tools_of_a_plain_user_conform() {
    if rustix::process::getuid().is_root() {
        conform("sdk tools of a plain user", Backend::Sdk, &["plain", "furnished"], DIFFERENT);
    } else {
        eprintln!("left out: only root can start programs as another user");
    }
}

/// Runs these cases of the agent's tools, or all if empty, in containers with these settings, and checks which others are
/// left out.
fn conform(name: &str, backend: Backend, settings: &[&str], only: &[&str]) {
    let worker = worker(backend);
    let served = serve_with(&worker, backend, settings);
    let url = served.url().replacen("127.0.0.1", "localhost", 1);
    let parts = Http::new(&url, TOKEN).parts().expect("a Worker that answers");
    let Ok([agent, workspace, script]) = <[Part; 3]>::try_from(parts) else { panic!("three families") };
    for part in [workspace, script] {
        let all = part.left_out.iter().map(|(number, _)| number).sum::<usize>();
        assert!(part.cases.is_empty() && all > 10, "{}: {:?}", part.family, part.left_out);
    }
    let lacks: Vec<Capability> = agent.lacks.iter().map(|(capability, _)| *capability).collect();
    for capability in [Capability::Big, Capability::Keep, Capability::Limits, Capability::Restart] {
        assert!(lacks.contains(&capability), "{capability:?} is not left out: {:?}", agent.lacks);
    }
    assert_eq!(lacks.contains(&Capability::PlainUser), !settings.contains(&"plain"));
    let mut cases = agent.cases;
    for name in only {
        assert!(cases.iter().any(|case| case.name == *name), "there is no case `{name}`");
    }
    cases.retain(|case| only.is_empty() || only.contains(&case.name));
    if lacks.contains(&Capability::PlainUser) {
        // Root may write to `/usr` there, but a stand-in has this machine's, read-only.
        const IN_USR: [&str; 2] = ["transfer_that_fails_leaves_nothing", "what_belongs_to_the_system_stays"];
        cases.retain(|case| !IN_USR.contains(&case.name));
    }
    // `KOZE_TEST_CASES` selects some of them, to investigate a failure.
    let filter = std::env::var("KOZE_TEST_CASES").ok();
    let options = Options { lacks: agent.lacks, at_once: Some(4), filter, ..Options::default() };
    let host: Arc<dyn Host> = Arc::new(agent.host);
    assert!(play_all(name, &host, cases, &options), "some cases have failed: see above");
}

/// Creates the project of the cases with its Rust Worker.
fn worker(backend: Backend) -> Worker {
    let worker = made("agents");
    let project = &worker.project;
    for written in ["wrangler.jsonc", "koze.lock"] {
        fs_err::remove_file(project.path(written)).expect("a file of `koze new`");
    }
    let [shell, python, reference] = IMAGES;
    for (file, class, more) in [
        (
            shell,
            "ShellSandbox",
            "image = \"docker.io/cloudflare/sandbox:0.12.10\", default, tools = [\"agent\", \"thread\"]",
        ),
        (python, "PythonSandbox", &format!("image = \"{reference}\"")),
    ] {
        let backend = if backend == Backend::Native { "backend = \"native\", " } else { "" };
        let text = format!(
            "use koze::prelude::*;\n\n/// A sandbox.\n#[sandbox({backend}{more})]\npub struct {class};\n"
        );
        project.write(format!("src/server/{file}.sandbox.rs"), text);
    }
    project.write(".dev.vars", format!("KOZE_TOKEN=\"{TOKEN}\"\n"));
    let built = project.koze(&["build"]);
    assert_eq!(built.code, 0, "{built:?}");
    link(&wasm(&worker).expect("the Rust Worker"), &worker.build_dir());
    worker
}

/// The cases that depend on users, modes, homes, shells and existing files. The others do not depend on the image.
pub(crate) const DIFFERENT: &[&str] = &[
    "a_failed_write_leaves_the_old_file",
    "a_sandbox_is_made_once",
    "environment_is_the_sandbox_s_own",
    "files_go_with_sleep",
    "first_uses_at_once_make_one_sandbox",
    "glob_links_and_directories",
    "glob_patterns",
    "glob_what_may_not_be_read",
    "paths_start_at_home",
    "sandboxes_share_nothing",
    "shell_each_call_is_fresh",
    "shell_is_bash_without_its_files",
    "shell_missing_working_dir_runs_nothing",
    "shell_starts_at_home",
    "the_mode_of_a_file_stays",
    "thread_bash",
    "thread_bash_is_a_shell",
    "thread_closed_files",
    "thread_directories",
    "thread_ls_links",
    "thread_str_replace_keeps_bytes",
    "thread_tells_nothing_of_the_host",
    "timeout_leaves_no_process",
    "transfer_keeps_modes_links_and_empty_directories",
    "transfer_of_a_tree_takes_its_new_name",
    "transfer_that_fails_leaves_nothing",
    "transfer_within_one_sandbox",
    "transfers_at_once_to_one_place",
    "what_belongs_to_the_system_stays",
    "what_programs_and_tools_write_is_the_same",
    "writes_at_once_leave_one_of_them",
];
