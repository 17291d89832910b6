//! `koze explain`.

use insta::assert_snapshot;
use koze_cli::rules::Rule;
use koze_tests::Project;

#[test]
fn a_code_is_explained_with_an_example() {
    let run = Project::new().koze(&["explain", "k010"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_snapshot!(run.stdout, @r#"
    K010 (error): The attribute has no such key.

    Why: A key that is silently ignored would be a limit or a policy that does not apply.

    For example:

        #[sandbox(imgae = "docker.io/cloudflare/sandbox:0.12.10")]

    The diagnostic itself names the place and the remedy.
    "#);
}

#[test]
fn every_code_is_explained() {
    let project = Project::new();
    for rule in Rule::all() {
        let run = project.koze(&["explain", rule.code]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.stdout.starts_with(&format!("{} ({})", rule.code, rule.level.word())), "{}", run.stdout);
    }
}

#[test]
fn an_unknown_code_is_a_usage_error() {
    let run = Project::new().koze(&["explain", "K999"]);
    assert_eq!(run.code, 2, "{}", run.stdout);
    assert!(run.stderr.starts_with("error: unknown code `K999`; the codes are K001, "), "{}", run.stderr);
}
