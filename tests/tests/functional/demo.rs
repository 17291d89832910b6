//! `koze demo`.

use fs_err as fs;
use koze_tests::{Sandboxes, eventually, processes, root};

use crate::common::sandboxes;

/// Runs the demo, and returns what it printed. It leaves nothing behind.
fn played(host: &Sandboxes, args: &[&str]) -> String {
    host.write("tmp/keep", "");
    let runtime = root().join("runtime");
    let mut demo = host.command(&["demo", "--runtime-path", runtime.to_str().expect("UTF-8")]);
    demo.args(args).env("TMPDIR", host.path("tmp"));
    let run = host.run(demo);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let left = fs::read_dir(host.path("tmp")).expect("the directory").count();
    assert_eq!(left, 1, "the file that was there");
    run.stdout
}

#[test]
fn the_demo_runs_from_an_empty_directory() {
    let host = sandboxes();
    let printed = played(&host, &[]);
    let steps = [
        "\n> sandbox_create ",
        "\n> sandbox_create ",
        "\n> shell ",
        "\n> shell ",
        "\n> write_file ",
        "\n> transfer ",
        "\n> shell ",
        "\n> browse ",
        "Built in one sandbox, served by another",
    ];
    let mut rest = printed.as_str();
    for step in steps {
        rest = rest.split_once(step).unwrap_or_else(|| panic!("{step} is missing: {printed}")).1;
    }
    let below = host.path("tmp").to_string_lossy().into_owned();
    eventually("its supervisor ends", || {
        processes(|args| args.iter().any(|arg| arg.contains(&below))).is_empty()
    });
    assert!(host.state().is_none());
}

#[test]
fn the_demo_of_a_workspace() {
    let printed = played(&sandboxes(), &["--tools", "workspace"]);
    let mut rest = printed.as_str();
    for shown in [
        "$ sed -i 's/sandbox(/&tools = [\"workspace\"], workspace(name = \"box\", shell, code(stateful = true)), /'",
        "\n> workspace__box__edit_file {\"path\":",
        "{\"path\":\"/workspace/visits.csv\",\"line_number\":3,\"line\":\"July,110\"}",
        "{\"stdout\":\"June,120\\n\"",
        "\n> workspace__box__create_code_context {\"language\":",
        "{\"exit_code\":0,\"outputs\":[{\"type\":\"result\",\"text\":\"3\"}]}",
        "{\"exit_code\":0,\"outputs\":[{\"type\":\"result\",\"text\":\"110",
        "\n> workspace__box__delete_code_context {\"context_id\":",
    ] {
        rest = rest.split_once(shown).unwrap_or_else(|| panic!("{shown} is missing: {printed}")).1;
    }
}

#[test]
fn the_demo_of_a_thread() {
    let printed = played(&sandboxes(), &["--tools", "thread"]);
    for shown in [
        "\n/mnt/user-data/outputs/\n/mnt/user-data/uploads/\n/mnt/user-data/workspace/\n",
        "\n> str_replace {\"description\":",
        "/mnt/user-data/workspace/count.sh:1: ",
        "\n# Words\n      3 the\n      2 is\n",
        "\n1. /mnt/user-data/outputs/report.md\n2. /mnt/user-data/uploads/poem.txt\n3. /mnt/user-data/workspace/count.sh\n",
    ] {
        assert!(printed.contains(shown), "{shown} is missing: {printed}");
    }
}

#[test]
fn the_demo_of_scripts() {
    let printed = played(&sandboxes(), &["--tools", "script"]);
    for shown in [
        "$ echo '[package.metadata.koze.script]' >> Cargo.toml\n",
        "{\"result\":6,\"logs\":[\"counting\"]}\n",
        "{\"result\":{\"column\":\"visits\",\"average\":100},\"logs\":[]}\n",
        "{\"exists\":true,\"value\":100}\n",
    ] {
        assert!(printed.contains(shown), "{shown} is missing: {printed}");
    }
}
