//! The cases.

use std::os::unix::fs::PermissionsExt as _;

use fs_err as fs;

use crate::pair::{DIR, Pair, run};
use crate::wine::Wine;

/// All cases, with their names.
pub(crate) const ALL: [(&str, fn()); 8] = [
    ("commands_do_the_same_as_here", commands_do_the_same_as_here),
    ("line_endings_are_kept", line_endings_are_kept),
    ("arguments_have_drives_and_backslashes", arguments_have_drives_and_backslashes),
    ("a_project_may_be_on_another_drive", a_project_may_be_on_another_drive),
    ("read_only_files_are_kept", read_only_files_are_kept),
    ("programs_at_once_wait_for_each_other", programs_at_once_wait_for_each_other),
    ("killed_runs_are_finished", killed_runs_are_finished),
    ("what_needs_linux_says_so", what_needs_linux_says_so),
];

fn commands_do_the_same_as_here() {
    let pair = Pair::new();
    pair.succeed(&["build", "--check"]);
    pair.succeed(&["add", "python", "--variant", "python"]);
    pair.succeed(&["add", "deep", "--dir", "src/server/more"]);
    pair.succeed(&["list"]);
    pair.succeed(&["list", "--format", "json"]);
    pair.succeed(&["list", "--egress"]);
    pair.succeed(&["rename", "python", "snake"]);
    pair.succeed(&["rename", "shell", "Terminal"]);
    for project in [&pair.here, &pair.windows] {
        fs::remove_file(project.path(format!("{DIR}/src/server/more/deep.sandbox.rs"))).unwrap();
    }
    assert_eq!(pair.run(&["build", "--check"]).code, 1);
    pair.succeed(&["remove", "deep", "--keep-storage"]);
    pair.succeed(&["tools", "--dialect", "openai"]);
    pair.succeed(&["migrate", "--backend", "native", "snake"]);
    pair.succeed(&["build", "--check", "--format", "json"]);
    pair.succeed(&["explain", "K010"]);
    for (dir, args) in [("", ["new", "native"]), ("native", ["add", "python"])] {
        let run = pair.run_in(dir, &args);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
    }
    pair.change("src/server/snake.sandbox.rs", |text| text.replace("pub struct", "pub enum"));
    let broken = pair.run(&["build", "--format", "github"]);
    assert_eq!(broken.code, 1);
    assert!(broken.stdout.contains("file=src/server/snake.sandbox.rs"), "{}", broken.stdout);
}

fn line_endings_are_kept() {
    let pair = Pair::new();
    let mine = ["wrangler.jsonc", "Cargo.toml", "src/lib.rs", "src/server/shell.sandbox.rs"];
    for file in mine {
        pair.change(file, |text| text.replace('\n', "\r\n"));
    }
    pair.succeed(&["add", "python"]);
    pair.succeed(&["rename", "shell", "terminal"]);
    pair.succeed(&["build", "--check"]);
    let kept = ["wrangler.jsonc", "Cargo.toml", "src/lib.rs", "src/server/terminal.sandbox.rs"];
    for file in kept {
        let text = pair.windows.read(format!("{DIR}/{file}"));
        assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "{file}");
    }
    assert!(pair.windows.read(format!("{DIR}/wrangler.jsonc")).contains("PYTHON_SANDBOX"));
}

fn arguments_have_drives_and_backslashes() {
    let pair = Pair::new();
    let package = pair.windows.path(DIR).to_string_lossy().replace('/', "\\");
    let windows = |dir: &str, args: &[&str]| {
        let done = run(Wine::koze(), &pair.windows, dir, args);
        assert_eq!(done.code, 0, "{args:?}: {}", done.stderr);
    };
    windows("", &["build", "--check", "--project", DIR]);
    windows("", &["build", "--check", "--project", &format!("Z:{package}\\src\\server")]);
    windows("", &["build", "--check", "--project", &format!("z:{package}")]);
    windows("", &["build", "--check", "--project", &format!("\\\\?\\Z:{package}")]);
    windows(DIR, &["add", "deep", "--dir", "src\\server\\more"]);
    let here = run(koze_tests::koze(), &pair.here, DIR, &["add", "deep", "--dir", "src/server/more"]);
    assert_eq!(here.code, 0, "{}", here.stderr);
    pair.agree();
    for project in [&pair.here, &pair.windows] {
        let (from, to) =
            (project.path(format!("{DIR}/wrangler.jsonc")), project.path(format!("{DIR}/config/mine.jsonc")));
        fs::create_dir(to.parent().unwrap()).unwrap();
        fs::rename(from, to).unwrap();
    }
    windows(DIR, &["build", "--config", "config\\mine.jsonc"]);
    windows(DIR, &["build", "--check", "--config", &format!("Z:{package}\\config\\mine.jsonc")]);
    let here = run(koze_tests::koze(), &pair.here, DIR, &["build", "--config", "config/mine.jsonc"]);
    assert_eq!(here.code, 0, "{}", here.stderr);
    pair.agree();
    assert!(pair.windows.read(format!("{DIR}/koze.lock")).contains("config/mine.jsonc"));
}

fn a_project_may_be_on_another_drive() {
    let pair = Pair::new();
    let dir = Wine::drive().join("koze test");
    if dir.exists() {
        fs::remove_dir_all(&dir).unwrap();
    }
    let package = "C:\\koze test\\agent";
    let made = run(Wine::koze(), &pair.windows, "", &["new", package, "--backend", "sdk"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    // The runtime is on another drive, so its path cannot be relative.
    let manifest = fs::read_to_string(dir.join("agent/Cargo.toml")).unwrap();
    let runtime = format!("path = \"Z:{}/runtime\"", koze_tests::root().display());
    assert!(manifest.contains(&runtime), "{manifest}");
    let checked = run(Wine::koze(), &pair.windows, "", &["build", "--check", "--project", package]);
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    // So cannot that of a configuration.
    let config = pair.windows.path("elsewhere.jsonc");
    // It may be on another file system, too.
    fs::copy(dir.join("agent/wrangler.jsonc"), &config).unwrap();
    fs::remove_file(dir.join("agent/wrangler.jsonc")).unwrap();
    let argument = format!("Z:{}", config.display());
    let built = run(Wine::koze(), &pair.windows, "", &["build", "--project", package, "--config", &argument]);
    assert_eq!(built.code, 0, "{}", built.stderr);
    let lock = fs::read_to_string(dir.join("agent/koze.lock")).unwrap();
    assert!(lock.contains(&argument), "{lock}");
    let again = run(Wine::koze(), &pair.windows, "", &["build", "--check", "--project", package]);
    assert_eq!(again.code, 0, "{}{}", again.stdout, again.stderr);
    fs::remove_dir_all(dir).unwrap();
}

fn read_only_files_are_kept() {
    let pair = Pair::new();
    let before = pair.windows.snapshot();
    let set = |mode: u32| {
        for project in [&pair.here, &pair.windows] {
            let file = project.path(format!("{DIR}/src/generated/env.rs"));
            fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    set(0o444);
    let refused = pair.run(&["add", "python"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("the file is read-only"), "{}", refused.stderr);
    assert!(pair.windows.snapshot() == before, "{}", pair.windows.diff(&before));
    set(0o644);
    pair.succeed(&["add", "python"]);
}

fn programs_at_once_wait_for_each_other() {
    let pair = Pair::new();
    let names = ["one", "two", "three", "four"];
    std::thread::scope(|scope| {
        for name in names {
            let project = &pair.windows;
            scope.spawn(move || {
                let added = run(Wine::koze(), project, DIR, &["add", name]);
                assert_eq!(added.code, 0, "{name}: {}", added.stderr);
            });
        }
    });
    let listed = run(Wine::koze(), &pair.windows, DIR, &["list"]);
    for name in names {
        assert!(listed.stdout.contains(&format!("src/server/{name}.sandbox.rs")), "{}", listed.stdout);
    }
    let checked = run(Wine::koze(), &pair.windows, DIR, &["build", "--check"]);
    assert_eq!(checked.code, 0, "{}", checked.stdout);
}

fn killed_runs_are_finished() {
    let pair = Pair::new();
    let before = pair.windows.snapshot();
    pair.succeed(&["add", "python"]);
    let after = pair.windows.snapshot();
    let (mut undone, mut done) = (0, 0);
    for point in 1.. {
        restore(&pair, &before);
        let mut command = Wine::koze();
        command.env("KOZE_FAULT", format!("kill@{point}"));
        let killed = run(command, &pair.windows, DIR, &["add", "python"]);
        if killed.code == 0 {
            break;
        }
        assert_eq!(killed.code, 137, "{}", killed.stderr);
        let next = run(Wine::koze(), &pair.windows, DIR, &["build"]);
        assert_eq!(next.code, 0, "killed at {point}: {next:?}");
        if pair.windows.snapshot() == after {
            done += 1;
            continue;
        }
        // Only staging files may be left, which the same command deletes.
        let mut now = pair.windows.snapshot();
        now.retain(|path, _| !path.ends_with(".koze-tmp"));
        assert!(now == before, "killed at {point}:\n{}", pair.windows.diff(&before));
        let again = run(Wine::koze(), &pair.windows, DIR, &["add", "python"]);
        assert_eq!(again.code, 0, "killed at {point}: {again:?}");
        assert!(pair.windows.snapshot() == after, "killed at {point}:\n{}", pair.windows.diff(&after));
        undone += 1;
    }
    assert!(undone > 1 && done > 1, "{undone} runs were undone, {done} were finished");
}

/// Restores the files of the package of Windows.
fn restore(pair: &Pair, files: &koze_tests::Snapshot) {
    fs::remove_dir_all(pair.windows.path(DIR)).unwrap();
    for (path, content) in files {
        pair.windows.write(path, content);
    }
}

fn what_needs_linux_says_so() {
    let pair = Pair::new();
    for args in [
        &["call", "shell", "{}"][..],
        &["sandboxes"],
        &["destroy", "--all"],
        &["mcp"],
        &["ui"],
        &["demo"],
        &["doctor", "--prove"],
        &["egress", "learn"],
    ] {
        let refused = run(Wine::koze(), &pair.windows, DIR, args);
        let command =
            if matches!(args[0], "doctor" | "egress") { args.join(" ") } else { args[0].to_owned() };
        let text = format!(
            "error: `koze {command}` works with sandboxes on this machine, which need Linux: run `koze dev`, which runs sandboxes in containers with Docker, or use those of a server with `--url`\n"
        );
        assert_eq!((refused.code, refused.stdout.as_str(), refused.stderr), (1, "", text));
    }
}
