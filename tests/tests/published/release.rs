//! Checks that the workflow, the action and cargo-binstall agree on the names of a release.

use koze_tests::root;

use crate::workflows::checked;

pub(crate) fn read_file(path: &str) -> String {
    fs_err::read_to_string(root().join(path)).expect("a file of the workspace")
}

#[test]
fn the_action_supports_every_target_of_a_release() {
    let workflow = root().join(".github/workflows/release.yml");
    let results = checked(std::slice::from_ref(&workflow));
    let targets = &results[workflow.to_str().expect("a path in Unicode")]["targets"];
    let mut released: Vec<&str> =
        targets.as_array().expect("a list").iter().map(|target| target.as_str().expect("text")).collect();
    released.sort_unstable();
    let install = read_file(".github/action/install.sh");
    let mut known: Vec<&str> = install
        .lines()
        .filter_map(|line| line.split_once(") target=").map(|(_, target)| target.trim_end_matches(" ;;")))
        .filter(|target| !target.is_empty())
        .collect();
    known.sort_unstable();
    assert_eq!(released.len(), 5, "{released:?}");
    assert_eq!(known, released);
}

#[test]
fn binstall_finds_the_programs_of_a_release() {
    let manifest: toml_edit::DocumentMut = read_file("cli/Cargo.toml").parse().expect("a manifest");
    let binstall = &manifest["package"]["metadata"]["binstall"];
    let text = |key: &str| {
        let template = binstall[key].as_str().unwrap_or_else(|| panic!("{key} in cli/Cargo.toml"));
        template.replace("{ version }", "1.2.3").replace("{ target }", "x86_64-unknown-linux-gnu")
    };
    // The names in `.github/release/pack.sh`, whose archive the test of the action unpacks.
    let name = "koze-v1.2.3-x86_64-unknown-linux-gnu";
    assert_eq!(text("pkg-url"), format!("{{ repo }}/releases/download/v1.2.3/{name}.tar.gz"));
    assert_eq!(text("bin-dir"), format!("{name}/{{ bin }}{{ binary-ext }}"));
    assert_eq!(text("pkg-fmt"), "tgz");
}
