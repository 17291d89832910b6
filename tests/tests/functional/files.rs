//! Files: concurrent builds, permissions, links, and paths that are in use.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

use fs_err as fs;
use insta::assert_snapshot;
use koze_tests::{Project, koze, run};

use crate::common::{BY_HAND, SHELL, built, package, plain, refused, sandbox, shell};

fn mode(project: &Project, path: &str) -> u32 {
    fs::metadata(project.path(path)).expect("the file").permissions().mode() & 0o7777
}

fn set_mode(project: &Project, path: &str, mode: u32) {
    fs::set_permissions(project.path(path), Permissions::from_mode(mode)).expect("its owner may");
}

/// Returns every path below the project, including directories and temporary files.
fn everything(project: &Project) -> Vec<String> {
    let walk = walkdir::WalkDir::new(project.dir()).sort_by_file_name();
    walk.into_iter().map(|entry| entry.expect("an entry").path().display().to_string()).collect()
}

#[test]
fn concurrent_builds_wait_for_each_other() {
    let alone = package();
    let together = package();
    for project in [&alone, &together] {
        for name in ["a", "b", "c"] {
            plain(project, &format!("src/{name}.sandbox.rs"), &format!("{}Sandbox", name.to_uppercase()));
        }
    }
    built(&alone);
    koze(); // Built once, before the threads need it.
    std::thread::scope(|scope| {
        let builds: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut command = koze();
                    command.arg("build").current_dir(together.dir());
                    run(command, Duration::from_mins(1))
                })
            })
            .collect();
        for build in builds {
            let output = build.join().expect("no panic");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    });
    assert_eq!(together.diff(&alone.snapshot()), "");
    let relative = |project: &Project| {
        let dir = project.dir().display().to_string();
        everything(project).into_iter().map(|path| path.replace(&dir, "")).collect::<Vec<_>>()
    };
    assert_eq!(relative(&together), relative(&alone), "nothing is left behind");
}

#[test]
fn a_file_in_place_of_a_directory() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("src/generated", "mine\n");
    assert_snapshot!(refused(&project), @"
    error[K056]: `src/generated` was not written by koze, and koze would overwrite it
    --> src/generated
     = help: move your file elsewhere, then run `koze build` again

    1 error; nothing was written
    ");
}

#[test]
fn a_directory_in_place_of_a_file() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("src/generated/mod.rs/mine", "\n");
    let before = everything(&project);
    assert_snapshot!(refused(&project), @"
    error[K060]: failed to read from file `[PROJECT]/src/generated/mod.rs`: Is a directory (os error 21)
     |
     = help: a file must be there: move the directory elsewhere, then run the command again

    1 error; nothing was written
    ");
    assert_eq!(everything(&project), before);
}

#[test]
fn a_file_that_koze_did_not_write() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("src/generated/mod.rs", "//! Mine.\n").write("src/generated/env.rs", "//! Mine, too.\n");
    assert_snapshot!(refused(&project), @"
    error[K056]: `src/generated/mod.rs` was not written by koze, and koze would overwrite it
    --> src/generated/mod.rs
     = help: move your file elsewhere, then run `koze build` again

    error[K056]: `src/generated/env.rs` was not written by koze, and koze would overwrite it
    --> src/generated/env.rs
     = help: move your file elsewhere, then run `koze build` again

    2 errors; nothing was written
    ");
}

/// Until koze 0.2, `src/generated/koze` did not exist: its files were in `src/generated`.
#[test]
fn files_move_to_the_directory_of_koze() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    built(&project);
    for path in ["sdk/sdk.mjs", "contract.d.ts"] {
        let text = project.read(format!("src/generated/koze/{path}"));
        fs::remove_file(project.path(format!("src/generated/koze/{path}"))).expect("a generated file");
        let former = path.trim_start_matches("sdk/");
        project.write(format!("src/generated/{former}"), text);
    }
    project.write("src/generated/calls.mjs", "export const mine = 1;\n");
    let run = built(&project);
    for path in ["sdk/sdk.mjs", "contract.d.ts"] {
        let former = path.trim_start_matches("sdk/");
        assert!(run.stdout.contains(&format!("created src/generated/koze/{path}\n")), "{}", run.stdout);
        assert!(run.stdout.contains(&format!("removed src/generated/{former}\n")), "{}", run.stdout);
        assert!(!project.path(format!("src/generated/{former}")).exists());
    }
    // A file that koze did not write stays.
    assert_eq!(project.read("src/generated/calls.mjs"), "export const mine = 1;\n");
    assert!(built(&project).stdout.contains("nothing to do"));
}

#[test]
fn a_read_only_configuration() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", BY_HAND);
    set_mode(&project, "wrangler.jsonc", 0o444);
    let before = everything(&project);
    assert_snapshot!(refused(&project), @"
    error[K057]: failed to write `[PROJECT]/wrangler.jsonc`: the file is read-only
     |
     = help: resolve the cause, then run the command again

    1 error; nothing was written
    ");
    assert_eq!(everything(&project), before, "not even a directory is left");
}

/// The lock is written last. The files before it must not be written either.
#[test]
fn a_read_only_lock() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    built(&project);
    set_mode(&project, "koze.lock", 0o400);
    sandbox(&project, SHELL, "#[sandbox(max_instances = 1)]\npub struct ShellSandbox;");
    let before = everything(&project);
    assert_snapshot!(refused(&project), @"
    error[K057]: failed to write `[PROJECT]/koze.lock`: the file is read-only
     |
     = help: resolve the cause, then run the command again

    1 error; nothing was written
    ");
    assert_eq!(everything(&project), before);
}

/// Unchanged files are not written, so they may be read-only.
#[test]
fn an_unchanged_file_may_be_read_only() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    built(&project);
    for file in ["wrangler.jsonc", "koze.lock", "src/generated/mod.rs"] {
        set_mode(&project, file, 0o444);
    }
    assert!(built(&project).stdout.contains("nothing to do"));
}

#[test]
fn permissions_are_kept() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", BY_HAND);
    set_mode(&project, "wrangler.jsonc", 0o640);
    built(&project);
    assert_eq!(mode(&project, "wrangler.jsonc"), 0o640);
    set_mode(&project, "src/generated/mod.rs", 0o664);
    plain(&project, "src/other.sandbox.rs", "OtherSandbox");
    built(&project);
    assert_eq!(mode(&project, "src/generated/mod.rs"), 0o664);
}

/// As for any program, the umask decides.
#[test]
fn new_files_have_default_permissions() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    built(&project);
    let expected = mode(&project, SHELL);
    for file in ["wrangler.jsonc", "koze.lock", "src/generated/mod.rs", "src/generated/worker.mjs"] {
        assert_eq!(format!("{:o}", mode(&project, file)), format!("{expected:o}"), "{file}");
    }
    assert_eq!(mode(&project, "src/generated"), mode(&project, "src"));
}

#[test]
fn a_linked_configuration_stays_a_link() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("config/real.jsonc", BY_HAND);
    symlink("config/real.jsonc", project.path("wrangler.jsonc")).expect("a link");
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let link = fs::read_link(project.path("wrangler.jsonc")).expect("still a link");
    assert_eq!(link.to_str(), Some("config/real.jsonc"));
    assert!(project.read("config/real.jsonc").contains("\"SHELL_SANDBOX\""));
    assert!(built(&project).stdout.contains("nothing to do"));
}

/// wrangler resolves the paths in it relative to the link's directory.
#[test]
fn paths_in_a_linked_configuration_are_relative_to_the_link() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("config/real.jsonc", BY_HAND);
    project.write("src/server/shell.Dockerfile", "FROM docker.io/cloudflare/sandbox:0.12.10\n");
    symlink("config/real.jsonc", project.path("wrangler.jsonc")).expect("a link");
    built(&project);
    let config = project.read("config/real.jsonc");
    assert!(config.contains("\"image\": \"./src/server/shell.Dockerfile\""), "{config}");
}

#[test]
fn a_source_behind_a_link_out_of_the_package_is_ignored() {
    let other = shell("#[sandbox]\npub struct OtherSandbox;");
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    symlink(other.path("src"), project.path("src/other")).expect("a link");
    symlink("..", project.path("src/loop")).expect("a link");
    let run = built(&project);
    assert!(run.stdout.starts_with("1 sandbox in "), "{}", run.stdout);
}

/// Files that koze creates must not be links, because the target would be overwritten.
#[test]
fn a_link_in_place_of_a_generated_file_is_an_error() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("notes.txt", "mine\n");
    fs::create_dir_all(project.path("src/generated")).expect("a directory");
    symlink(project.path("notes.txt"), project.path("src/generated/mod.rs")).expect("a link");
    let printed = refused(&project);
    assert!(printed.starts_with("error[K056]: `src/generated/mod.rs` was not written by koze"), "{printed}");
    assert_eq!(project.read("notes.txt"), "mine\n");
}

/// Files behind a link inside the package keep their path below `src`.
#[test]
fn a_linked_directory_keeps_its_path_below_src() {
    let project = package();
    plain(&project, "shared/shell.sandbox.rs", "ShellSandbox");
    project.write("shared/shell.Dockerfile", "FROM docker.io/cloudflare/sandbox:0.12.10\n");
    symlink("../shared", project.path("src/server")).expect("a link");
    built(&project);
    let module = project.read("src/generated/mod.rs");
    assert!(module.contains("#[path = \"../server/shell.sandbox.rs\"]"), "{module}");
    assert!(project.read("wrangler.jsonc").contains("\"./src/server/shell.Dockerfile\""));
}
