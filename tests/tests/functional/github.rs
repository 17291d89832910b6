//! `--format github`: annotations in GitHub Actions, and text without workflow commands.

use std::path::Path;

use koze_tests::{Project, Run, koze};

use crate::common::{BY_HAND, SHELL, built, package, plain, sandbox, shell};

/// Runs koze as a step of a workflow whose repository is in `workspace`.
fn step(project: &Project, workspace: &Path, args: &[&str]) -> Run {
    let mut command = koze();
    command.args(args).args(["--format", "github"]).env("GITHUB_WORKSPACE", workspace);
    project.run(command)
}

/// Returns the commands that the runner executes from a log. Like the runner, it ignores spaces before a command and
/// executes none between `stop-commands` and its token.
fn commands(log: &str) -> Vec<String> {
    let mut stopped: Option<String> = None;
    let mut commands = Vec::new();
    for line in log.split(['\n', '\r']) {
        let Some(command) = line.trim_start().strip_prefix("::") else {
            assert!(!line.contains("##["), "the older syntax: {line}");
            continue;
        };
        match &stopped {
            Some(token) if command == format!("{token}::") => stopped = None,
            Some(_) => {}
            None => match command.strip_prefix("stop-commands::") {
                Some(token) => {
                    assert!(token.len() >= 32, "a token that can be guessed: {token}");
                    stopped = Some(token.to_owned());
                }
                None => commands.push(command.to_owned()),
            },
        }
    }
    assert_eq!(stopped, None, "commands stay stopped");
    commands
}

#[test]
fn diagnostics_are_annotations() {
    let project =
        shell("#[sandbox(imgae = \"docker.io/x/y:1\", max_instances = 0)]\npub struct ShellSandbox;");
    let run = step(&project, project.dir(), &["build", "--check"]);
    assert_eq!((run.code, run.stderr.as_str()), (1, ""), "{}", run.stdout);
    assert_eq!(
        commands(&run.stdout),
        [
            "error file=src/server/shell.sandbox.rs,line=3,col=11,endColumn=16,title=K010::`#[sandbox]` has no key `imgae`%0Ahelp: did \
             you mean `image`?",
            "error file=src/server/shell.sandbox.rs,line=3,col=54,endColumn=55,title=K013::`0` is not a valid `max_instances`%0Ahelp: \
             `max_instances` takes an integer of at least 1",
        ]
    );
    assert!(
        run.stdout.contains("error[K010]: `#[sandbox]` has no key `imgae`"),
        "for people as well: {}",
        run.stdout
    );
}

#[test]
fn files_are_relative_to_the_repository() {
    let project = shell("#[sandbox(renamed_from = \"Old\")]\npub struct ShellSandbox;");
    let repository = project.dir().parent().expect("a directory above");
    let name = project.dir().file_name().expect("a name").to_string_lossy().into_owned();
    let run = step(&project, repository, &["build"]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    let found = commands(&run.stdout);
    let expected =
        format!("warning file={name}/src/server/shell.sandbox.rs,line=3,col=26,endColumn=31,title=K050::");
    assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:#?}");
    let strict = commands(&step(&project, repository, &["build", "--strict"]).stdout);
    assert!(strict[0].starts_with("error file="), "{strict:#?}");
}

#[test]
fn drift_is_an_annotation() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", BY_HAND);
    built(&project);
    let in_step = step(&project, project.dir(), &["build", "--check"]);
    assert_eq!((in_step.code, commands(&in_step.stdout).len()), (0, 0), "{}", in_step.stdout);
    sandbox(&project, SHELL, "#[sandbox(max_instances = 10)]\npub struct ShellSandbox;");
    let run = step(&project, project.dir(), &["build", "--check"]);
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    assert_eq!(
        commands(&run.stdout),
        [
            "error file=wrangler.jsonc,title=koze build --check::the project is not in step: run `koze build` and commit the changes%0A\
          would update wrangler.jsonc%0Awould update koze.lock"
        ]
    );
    assert!(run.stdout.contains("+      \"max_instances\": 10\n"), "the diff: {}", run.stdout);
}

/// Simulates a malicious pull request: file names and lines that are commands.
#[test]
#[cfg(unix)]
fn text_of_a_project_is_never_a_command() {
    let project = package();
    project.write(
        "wrangler.jsonc",
        format!("// a\n   ::error::in the diff\n::stop-commands::x\n{BY_HAND}")
            .replace("// a\n", "/*\n")
            .replace("x\n{", "x\n*/\n{"),
    );
    plain(&project, "src/a,b:c%0A\n::warning::a name.sandbox.rs", "Odd");
    sandbox(
        &project,
        SHELL,
        "#[sandbox(image = \"\n::error::a value\n\")]\n/*\n::notice::a comment\n*/\npub struct ShellSandbox;",
    );
    let run = step(&project, project.dir(), &["build", "--check"]);
    assert_eq!(run.code, 1, "{}", run.stdout);
    let found = commands(&run.stdout);
    assert!(!found.is_empty(), "{}", run.stdout);
    for command in &found {
        let title = command.split_once("::").expect("a message").0;
        assert!(title.starts_with("error file=src/") && title.contains(",title=K"), "{command}");
    }
    let odd = found
        .iter()
        .any(|command| command.contains("file=src/a%2Cb%3Ac%250A%0A%3A%3Awarning%3A%3Aa name.sandbox.rs,"));
    assert!(odd, "{found:#?}");

    // The same lines in a diff.
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", BY_HAND.replace("}\n", "  /*\n ::error::in the diff\n*/\n}\n"));
    let run = step(&project, project.dir(), &["build", "--check"]);
    assert!(run.stdout.contains(" ::error::in the diff\n"), "{}", run.stdout);
    let found = commands(&run.stdout);
    assert!(
        found.len() == 1 && found[0].starts_with("error file=wrangler.jsonc,title=koze build --check::"),
        "{found:#?}"
    );
}

#[test]
fn other_commands_print_annotations_too() {
    let project = shell("#[sandbox(imgae = \"docker.io/x/y:1\")]\npub struct ShellSandbox;");
    for args in [&["list"][..], &["doctor"], &["add", "python"]] {
        let run = step(&project, project.dir(), args);
        assert_eq!((run.code, run.stderr.as_str()), (1, ""), "{args:?}: {}", run.stdout);
        let found = commands(&run.stdout);
        assert!(found.iter().any(|command| command.contains("title=K010::")), "{args:?}: {found:#?}");
    }
    // Its standard output contains the definitions.
    let run = step(&project, project.dir(), &["tools"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(commands(&run.stderr).iter().any(|command| command.contains("title=K010::")), "{}", run.stderr);
}
