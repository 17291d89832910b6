//! The `console` blocks of the pages: koze prints what they show.

use std::process::Command;

use koze_tests::{Project, Sandboxes, page_blocks, path_with_koze, root, shown_commands};

/// Runs the `console` blocks of a page one after the other, in a new project.
fn check_page(name: &str) {
    let project = Project::new();
    let runtime = root().join("runtime");
    let new = ["new", ".", "--name", "hello", "--runtime-path", runtime.to_str().expect("a path in Unicode")];
    assert_eq!(project.koze(&new).code, 0);
    let host = Sandboxes::of(project);
    let blocks: Vec<_> = page_blocks(name).into_iter().filter(|block| block.language == "console").collect();
    assert!(!blocks.is_empty(), "{name} has no `console` block");
    for block in blocks {
        for shown in shown_commands(&block.text) {
            let mut shell = Command::new("sh");
            shell
                .args(["-c", &format!("exec 2>&1\n{}", shown.command)])
                .envs(host.env())
                .env("PATH", path_with_koze());
            let ran = host.run(shell).stdout;
            assert!(
                shown.matches(&ran),
                "{name}, {}:\n$ {}\n{ran}--- the page shows:\n{}",
                block.heading,
                shown.command,
                shown.output
            );
        }
    }
}

#[test]
fn the_quick_start_shows_what_koze_prints() {
    check_page("quick-start.md");
}

#[test]
fn the_recipes_show_what_koze_prints() {
    check_page("recipes.md");
}

#[test]
fn troubleshooting_shows_what_koze_prints() {
    check_page("troubleshooting.md");
}
