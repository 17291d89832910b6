//! `koze completions`.

use std::process::Command;

use koze_tests::Project;

#[test]
fn a_script_for_each_shell() {
    let project = Project::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let run = project.koze(&["completions", shell]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{shell}");
        assert!(run.stdout.contains("migrate") && run.stdout.contains("delete-storage"), "{shell}");
        assert!(run.stdout.contains("--version") || shell == "fish", "{shell}");
        assert!(!run.stdout.contains("supervise") && !run.stdout.contains("guard"), "{shell}");
    }
    assert_eq!(project.koze(&["completions", "tcl"]).code, 2);
}

/// Runs bash's own completion.
#[test]
fn bash_completes_a_command() {
    let project = Project::new();
    project.write("koze.bash", project.koze(&["completions", "bash"]).stdout);
    let mut bash = Command::new("bash");
    let script = "source ./koze.bash; COMP_WORDS=(koze bu); COMP_CWORD=1; _koze koze bu koze; echo \"${COMPREPLY[@]}\"";
    bash.args(["--norc", "-c", script]);
    let run = project.run(bash);
    assert_eq!((run.stdout.as_str(), run.code), ("build\n", 0), "{}", run.stderr);
}
