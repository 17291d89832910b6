//! Repositories of somebody else: their files, links and records must not lead koze out of the package.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fs_err as fs;
use insta::assert_snapshot;
use koze_tests::{Project, Run, Snapshot, koze, run};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::common::{BY_HAND, SHELL, built, package, refused, refused_with, sandbox, shell};

const NATIVE: &str = "#[sandbox(backend = \"native\", image = \"debian:12-slim\")]\npub struct ShellSandbox;";
const PLAIN: &str = "#[sandbox]\npub struct ShellSandbox;";
/// A line that no output may contain.
const SECRET: &str = "s3cret-of-the-user";

/// The commands that read a package. Those that write it come last.
const COMMANDS: [&[&str]; 8] = [
    &["build", "--check"],
    &["build", "--dry-run"],
    &["doctor"],
    &["list"],
    &["build"],
    &["init"],
    &["add", "other"],
    &["migrate", "--backend", "native"],
];

/// A package, and a directory of the user outside it.
struct Host {
    package: Project,
    user: Project,
}

impl Host {
    fn of(package: Project) -> Host {
        Host { package, user: Project::new() }
    }

    /// Runs koze, within a time that only a hanging run exceeds.
    fn koze(&self, args: &[&str]) -> Run {
        self.package.koze(args)
    }

    /// Runs all commands. They must leave the user's files as they are, and print none of their lines.
    fn survives(&self) {
        let before = self.user.snapshot();
        for args in COMMANDS {
            let ended = self.koze(args);
            assert_eq!(self.user.diff(&before), "", "{args:?}: {}{}", ended.stdout, ended.stderr);
            assert!(!ended.stdout.contains(SECRET) && !ended.stderr.contains(SECRET), "{args:?}: {ended:?}");
        }
    }
}

fn hash(text: &str) -> String {
    let digest = Sha256::digest(text);
    digest.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Links `from` in a package to a file or directory outside.
fn link(to: impl AsRef<Path>, package: &Project, from: &str) {
    let from = package.path(from);
    fs::create_dir_all(from.parent().expect("a directory")).expect("directories");
    symlink(to, from).expect("a link");
}

/// The journal of earlier versions was in the package, so a repository could contain one.
#[test]
fn a_journal_in_the_package_is_not_followed() {
    let host = Host::of(shell(PLAIN));
    let hook = "#!/bin/sh\ntouch owned\n";
    let (package, user) = (&host.package, &host.user);
    package.write(".git/hooks/commit-msg.sample", "");
    package.write(".post-commit.abcdef.koze-tmp", hook);
    package.write("src/generated/.bash_profile.abcdef.koze-tmp", hook);
    user.write("keep/me", "mine\n");
    link(user.path("keep"), package, "linked");
    let profile = user.path("home/.bash_profile").to_string_lossy().into_owned();
    let staged = package.path("src/generated/.bash_profile.abcdef.koze-tmp");
    let after = hash(hook);
    let files = json!([
        { "path": ".git/hooks/post-commit", "staged": "../../.post-commit.abcdef.koze-tmp", "before": null, "after": after },
        { "path": profile, "staged": staged, "before": null, "after": after },
        { "path": "linked/me", "staged": null, "before": hash("mine\n"), "after": null },
    ]);
    // Each alone, too, because one that is refused may stop the others.
    for journal in [files.clone(), json!([files[0]]), json!([files[1]]), json!([files[2]])] {
        package.write(".koze-journal", json!({ "files": journal }).to_string());
        let before = user.snapshot();
        let ended = host.koze(&["build"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert_eq!(user.diff(&before), "");
        assert!(!package.path(".git/hooks/post-commit").exists());
    }
    assert_snapshot!(host.koze(&["build"]).stderr, @"
    warning[K097]: koze does not follow `.koze-journal`, which an earlier version wrote when it was interrupted
     |
     = help: koze builds from the files as they are: compare them with version control, then delete `.koze-journal`

    1 warning
    ");
}

/// Returns the journal of a package, after a build was killed between two files.
fn killed(package: &Project) -> std::path::PathBuf {
    for point in 1..200 {
        let mut command = koze();
        let (state, dir) = package.state_env();
        command.arg("build").current_dir(package.dir()).env(state, &dir);
        run(
            {
                command.env("KOZE_FAULT", format!("kill@{point}"));
                command
            },
            Duration::from_mins(1),
        );
        let left = fs::read_dir(dir.join("koze")).into_iter().flatten().flatten().map(|entry| entry.path());
        if let Some(journal) =
            left.into_iter().find(|path| path.extension().is_some_and(|end| end == "journal"))
        {
            return journal;
        }
    }
    panic!("no kill leaves a journal");
}

/// The directory of a killed run may be replaced by another clone. The journal is then not obeyed beyond what koze writes.
#[test]
fn a_journal_is_read_with_suspicion() {
    let outside = Project::new();
    let theirs = outside.path("x").to_string_lossy().into_owned();
    let content = "theirs\n";
    for entry in [
        json!({ "path": "koze.lock", "staged": "../.koze.lock.abcdef.koze-tmp", "before": null, "after": hash(content) }),
        json!({ "path": theirs, "staged": ".x.abcdef.koze-tmp", "before": null, "after": hash(content) }),
        json!({ "path": ".git/hooks/pre-commit", "staged": ".pre-commit.abcdef.koze-tmp", "before": null, "after": hash(content) }),
        json!({ "path": "linked/new", "staged": ".new.abcdef.koze-tmp", "before": null, "after": hash(content) }),
        json!({ "path": "linked/mine", "staged": null, "before": hash("mine\n"), "after": null }),
    ] {
        let package = shell(PLAIN);
        let journal = killed(&package);
        outside
            .write(".x.abcdef.koze-tmp", content)
            .write(".new.abcdef.koze-tmp", content)
            .write("mine", "mine\n");
        package.write(".git/hooks/.pre-commit.abcdef.koze-tmp", content);
        fs::write(package.dir().with_file_name(".koze.lock.abcdef.koze-tmp"), content).expect("a file");
        link(outside.dir(), &package, "linked");
        let text = json!({ "package": package.dir(), "files": [entry] }).to_string();
        fs::write(&journal, text).expect("a journal");
        let before = outside.snapshot();
        built(&package);
        assert_eq!(outside.diff(&before), "", "{entry}");
        assert!(!package.path(".git/hooks/pre-commit").exists(), "{entry}");
        assert_ne!(package.read("koze.lock"), content, "{entry}");
        assert!(!journal.exists());
    }
}

/// The journal of one package does not count for another, whatever its name.
#[test]
fn a_journal_belongs_to_one_package() {
    let (one, other) = (shell(PLAIN), shell(PLAIN));
    let journal = killed(&one);
    let dir = other.dir().with_file_name("state").join("koze");
    fs::create_dir_all(&dir).expect("a directory");
    let own = killed(&other);
    fs::copy(&journal, &own).expect("the journal of the other");
    let run = built(&other);
    assert!(!run.stdout.contains("completed an interrupted run"), "{}", run.stdout);
    let run = built(&one);
    assert!(run.stdout.contains("completed an interrupted run"), "the control: {}", run.stdout);
}

/// Without a state directory of its own, koze builds, and says what it cannot do.
#[test]
fn a_build_without_a_state_directory() {
    let expected = shell(PLAIN);
    built(&expected);
    let taken = Project::new();
    taken.write("file", "");
    fs::create_dir(taken.path("shared")).expect("a directory");
    fs::set_permissions(taken.path("shared"), std::fs::Permissions::from_mode(0o777)).expect("a mode");
    for state in ["file", "shared"] {
        let project = shell(PLAIN);
        let mut command = koze();
        command.arg("build").env("XDG_STATE_HOME", taken.path(state));
        let ended = project.run(command);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert!(
            ended.stderr.starts_with("note: koze's state directory cannot be used ("),
            "{}",
            ended.stderr
        );
        assert_eq!(project.diff(&expected.snapshot()), "");
    }
    assert_eq!(fs::read_dir(taken.path("shared")).expect("a directory").count(), 0);
}

/// A forged lock deletes nothing that koze did not write, and rewrites no configuration outside.
#[test]
fn a_forged_lock() {
    let host = Host::of(shell(NATIVE));
    built(&host.package);
    let lock = host.package.read("koze.lock");
    host.user.write("empty.rs", "").write("x/.koze-guest", "mine").write(
        "generated.mjs",
        "// Generated by `koze build`. Do not edit: the next build overwrites this file.\n",
    );
    host.user.write("wrangler.jsonc", format!("{{ \"name\": \"{SECRET}\" }}\n"));
    host.user.write("broken.jsonc", format!("{{ {SECRET}\n"));
    let user = host.user.dir().to_string_lossy().into_owned();
    host.package.write("empty.rs", "");
    for file in [
        format!("{user}/empty.rs"),
        format!("{user}/x/.koze-guest"),
        format!("{user}/generated.mjs"),
        "empty.rs".to_owned(),
    ] {
        host.package.write("koze.lock", lock.replace("files = [", &format!("files = [\n    {file:?},")));
        host.survives();
        assert!(host.package.path("empty.rs").exists());
        let stderr = refused(&host.package);
        assert!(
            stderr.contains(&format!("`koze.lock` cannot be used: its `files` lists `{file}`")),
            "{stderr}"
        );
    }
    for config in ["wrangler.jsonc", "broken.jsonc"] {
        for path in [format!("{user}/{config}"), format!("{}{user}/{config}", "../".repeat(20))] {
            host.package.write(
                "koze.lock",
                lock.replace("version = 1\n", &format!("version = 1\nconfig = {path:?}\n")),
            );
            host.survives();
            let stderr = refused(&host.package);
            assert!(stderr.contains("`koze.lock` cannot be used: its `config` is"), "{stderr}");
        }
    }
}

/// The user may name a configuration anywhere, and koze remembers it on this machine.
#[test]
fn a_configuration_that_the_user_named() {
    let package = shell(PLAIN);
    let outside = Project::new();
    outside.write("mine.jsonc", BY_HAND);
    let file = outside.path("mine.jsonc").to_string_lossy().into_owned();
    // Nothing but the lock of somebody else names it.
    assert_eq!(package.koze(&["build", "--config", &file]).code, 0);
    let state = package.dir().with_file_name("state");
    fs::rename(&state, state.with_file_name("away")).expect("it is there");
    let stderr = refused_with(&package, &["build", "--check"]);
    assert!(stderr.contains("name it yourself with `--config FILE`"), "{stderr}");
    fs::rename(state.with_file_name("away"), &state).expect("it is there");
    assert_eq!(package.koze(&["build", "--check"]).code, 0);
    assert!(fs::read_to_string(&file).expect("a text").contains("SHELL_SANDBOX"));
}

/// In a repository, a package may have its configuration and its build context above it.
#[test]
fn files_of_the_repository_above_the_package() {
    let repository = Project::new();
    let member = shell(
        "#[sandbox(backend = \"native\", image = \"../../../Dockerfile\", image_build_context = \"../../..\")]\npub struct ShellSandbox;",
    );
    for (path, content) in member.snapshot() {
        repository.write(format!("app/{path}"), content);
    }
    repository.write("mine.jsonc", BY_HAND).write("Dockerfile", "FROM debian:12-slim\n");
    let args = |more: &[&'static str]| [&["build", "--project", "app"], more].concat();
    let stderr = repository.koze(&args(&["--config", "mine.jsonc"])).stderr;
    assert!(stderr.contains("is outside the package and the repository that contains it"), "{stderr}");
    fs::create_dir(repository.path(".git")).expect("a directory");
    let ended = repository.koze(&args(&["--config", "mine.jsonc"]));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(repository.path(".koze-guest").exists());
    // In another clone, nothing but the lock names the configuration.
    fs::remove_dir_all(repository.dir().with_file_name("state")).expect("it is there");
    let ended = repository.koze(&args(&["--check"]));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

/// Every link out of the package.
#[test]
fn links_out_of_the_package() {
    for (from, to) in [
        ("wrangler.jsonc", "wrangler.jsonc"),
        ("wrangler.toml", "broken"),
        ("src/lib.rs", "lib.rs"),
        ("src/lib.rs", "broken"),
        ("Cargo.toml", "Cargo.toml"),
        ("Cargo.toml", "broken"),
        ("package.json", "broken"),
        ("package-lock.json", "broken"),
        ("koze.lock", "koze.lock"),
        ("koze.lock", "broken"),
        ("src/generated", "empty"),
        ("src/generated/native", "empty"),
        ("src/generated/mod.rs", "lib.rs"),
        ("src", "sources"),
        ("src/server", "empty"),
        (SHELL, "shell.rs"),
        ("src/server/shell.Dockerfile", "broken"),
        ("src/server/.dockerignore", "broken"),
        (".gitignore", "broken"),
    ] {
        for declaration in [PLAIN, NATIVE] {
            let host = Host::of(shell(declaration));
            let user = &host.user;
            user.write("wrangler.jsonc", format!("{{ \"name\": \"{SECRET}\" }}\n"));
            user.write("broken", format!("{SECRET} = {{ \"\n"));
            user.write("lib.rs", format!("// {SECRET}\n"))
                .write("koze.lock", format!("version = 1 # {SECRET}\n"));
            user.write(
                "Cargo.toml",
                format!("[package]\nname = \"{SECRET}\"\n[lib]\npath = \"src/lib.rs\"\n"),
            );
            user.write("shell.rs", format!("// {SECRET}\n{declaration}\n"))
                .write("sources/lib.rs", "mod generated;\n");
            fs::create_dir(user.path("empty")).expect("a directory");
            let there = host.package.path(from);
            if there.is_dir() {
                fs::remove_dir_all(&there).expect("its own");
            } else if there.exists() {
                fs::remove_file(&there).expect("its own");
            }
            link(user.path(to), &host.package, from);
            host.survives();
            assert_eq!(fs::read_dir(user.path("empty")).expect("a directory").count(), 0, "{from}");
        }
    }
}

#[test]
fn a_link_is_named_with_the_next_step() {
    let package = shell(PLAIN);
    let user = Project::new();
    user.write("mine.jsonc", BY_HAND);
    link(user.path("mine.jsonc"), &package, "wrangler.jsonc");
    let stderr = refused(&package).replace(&*user.dir().to_string_lossy(), "[USER]");
    assert_snapshot!(stderr, @"
    error[K096]: `wrangler.jsonc` is a symbolic link that leads out of the package, to `[USER]/mine.jsonc`
     |
     = help: koze follows no link out of a package: pass the file that it should manage with `--config [USER]/mine.jsonc`, or replace the link by a file

    1 error; nothing was written
    ");
    let file = user.path("mine.jsonc").to_string_lossy().into_owned();
    assert_eq!(package.koze(&["build", "--config", &file]).code, 0, "the user's word");
    assert_eq!(package.koze(&["build", "--config", "wrangler.jsonc"]).code, 0, "also through the link");
}

/// A name in the attribute leads out of the package like a link.
#[test]
fn a_build_context_outside() {
    let host = Host::of(package());
    host.user.write("Dockerfile", format!("FROM debian:12-slim\n# {SECRET}\n"));
    let user = format!("{}{}", "../".repeat(20), host.user.dir().to_string_lossy());
    host.package.write("src/server/shell.Dockerfile", "FROM debian:12-slim\n");
    for keys in [
        format!("image = \"./shell.Dockerfile\", image_build_context = {user:?}"),
        format!("image = \"{user}/Dockerfile\", image_build_context = \".\""),
    ] {
        sandbox(
            &host.package,
            SHELL,
            &format!("#[sandbox(backend = \"native\", {keys})]\npub struct ShellSandbox;"),
        );
        host.survives();
        assert!(refused(&host.package).contains("error[K096]"), "{keys}");
    }
}

/// A library above the package is neither read nor edited.
#[test]
fn a_library_outside() {
    let host = Host::of(shell(PLAIN));
    host.user.write("lib.rs", format!("{SECRET} {{\n"));
    let path = host.user.path("lib.rs");
    let manifest = host.package.read("Cargo.toml");
    host.package.write("Cargo.toml", format!("{manifest}\n[lib]\npath = {path:?}\n"));
    host.survives();
}

/// A pipe without a writer, an endless device, and a file that is too large end a build instead of keeping it.
#[test]
fn special_files_do_not_hang() {
    for file in [
        "koze.lock",
        ".koze-journal",
        "wrangler.jsonc",
        "Cargo.toml",
        "package.json",
        "package-lock.json",
        "node_modules/@cloudflare/sandbox/package.json",
        "src/lib.rs",
        SHELL,
        "src/server/shell.Dockerfile",
        "src/generated/mod.rs",
        "src/generated/worker.mjs",
        ".gitignore",
        "rust-toolchain",
        "main.mjs",
    ] {
        for kind in ["mkfifo \"$0\"", "ln -s /dev/zero \"$0\"", "truncate -s 80M \"$0\""] {
            let host = Host::of(shell(PLAIN));
            if file == "main.mjs" {
                host.package.write("wrangler.jsonc", BY_HAND.replace("src/generated/worker.mjs", file));
            }
            let path = host.package.path(file);
            fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
            if path.exists() {
                fs::remove_file(&path).expect("its own");
            }
            let mut make = Command::new("sh");
            make.args(["-c", kind]).arg(&path);
            assert!(run(make, Duration::from_mins(1)).status.success());
            for args in [&["build", "--check"][..], &["build"], &["doctor"], &["init"]] {
                // A run that hangs is ended by the timeout, and fails.
                host.koze(args);
            }
        }
    }
}

/// Programs that a repository chooses: cargo's compiler, and a toolchain by its path.
#[test]
fn programs_of_the_repository_are_not_run() {
    let host = Host::of(shell(PLAIN));
    let package = &host.package;
    package.write("package.json", "{}\n").write("src/main.rs", "");
    let mark = host.user.path("was-run");
    let script = format!("#!/bin/sh\ntouch {}\nexit 1\n", mark.display());
    for program in ["bin/rustc", "bin/cargo", "node_modules/.bin/node", "node_modules/.bin/rustc"] {
        package.write(program, &script);
        fs::set_permissions(package.path(program), std::fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    let rustc = package.path("bin/rustc");
    package.write(".cargo/config.toml", format!("[build]\nrustc = {rustc:?}\nrustc-wrapper = {rustc:?}\n"));
    // The control: cargo itself runs it.
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--offline", "--format-version", "1"]).current_dir(package.dir());
    run(cargo, Duration::from_mins(1));
    assert!(mark.exists(), "the control");
    fs::remove_file(&mark).expect("it is there");
    package.write("rust-toolchain.toml", "[toolchain]\npath = \".\"\n");
    for args in COMMANDS {
        host.koze(args);
        assert!(!mark.exists(), "{args:?}");
    }
    let mut doctor = koze();
    doctor.arg("doctor").env_remove("RUSTUP_TOOLCHAIN");
    let line = package.run(doctor).stdout;
    assert!(line.contains("`rust-toolchain.toml` chooses a toolchain by its path"), "{line}");
    assert!(!mark.exists());
}

/// A project that is moved into a directory was prepared by koze, and not by a link.
#[test]
fn a_link_in_place_of_a_new_project() {
    let place = Project::new();
    let user = Project::new();
    user.write("letter", "mine\n");
    fs::create_dir(place.path("hello")).expect("a directory");
    link(user.dir(), &place, ".koze-into-hello.koze-tmp");
    let before: Snapshot = user.snapshot();
    let runtime = koze_tests::root().join("runtime");
    place.koze(&["new", "hello", "--runtime-path", &runtime.to_string_lossy()]);
    assert_eq!(user.diff(&before), "");
}
