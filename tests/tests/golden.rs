//! Builds `fixtures/<name>/before` and compares the result with `fixtures/<name>/after`, byte for byte. `after` contains
//! only what the build has changed.
//!
//! Files that are the same in every project, or in the fixture `bare`, are not repeated in each fixture: `shared.txt`
//! lists them, and they are compared with their templates in `templates/files/generated`, or with `bare`. Changing such a
//! template changes no fixture.
//!
//! `KOZE_BLESS=1 cargo test -p koze-tests --test golden` rewrites `after`; read the diff before you commit it.

use std::collections::BTreeSet;
use std::sync::Once;

use fs_err as fs;
use koze_cli::generate;
use koze_tests::{BASE, Project, Snapshot, diff, read_all, root, shared_in, shared_of};

/// Defines one test for each fixture, and a list of them.
macro_rules! fixtures {
    ($($test:ident $name:literal)*) => {
        const FIXTURES: &[&str] = &[$($name),*];

        $(
            #[test]
            fn $test() {
                check($name);
            }
        )*
    };
}

fixtures! {
    bare "bare"
    bindings "bindings"
    browser "browser"
    commented "commented"
    crlf_bom "crlf-bom"
    environments "environments"
    every_key "every-key"
    keyword_names "keyword-names"
    managed "managed"
    mixed "mixed"
    native "native"
    scripts "scripts"
    scripts_only "scripts-only"
    service "service"
    thread "thread"
    toml "toml"
    two "two"
}

#[test]
fn every_fixture_has_a_test() {
    let there: BTreeSet<String> = fs::read_dir(root().join("fixtures"))
        .expect("the fixtures")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    let tested: BTreeSet<String> = FIXTURES.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(there, tested, "list each directory of `fixtures` in `fixtures!`");
}

#[test]
fn every_key_of_the_attribute_is_in_a_fixture() {
    let sources: Vec<u8> = Project::before_build("every-key")
        .snapshot()
        .into_iter()
        .filter(|(path, _)| path.ends_with(".sandbox.rs"))
        .flat_map(|(_, content)| content)
        .collect();
    let sources = String::from_utf8(sources).expect("Rust");
    let words: BTreeSet<&str> = sources.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let is_missing = |key: &&str| !words.contains(key);
    let missing: Vec<&str> = koze_model::attrs::KEYS.iter().map(|key| key.name).filter(is_missing).collect();
    assert!(missing.is_empty(), "fixtures/every-key lacks {missing:?}");
}

#[test]
fn every_shared_file_is_in_a_fixture_by_its_name_alone() {
    let mut named = BTreeSet::new();
    for fixture in FIXTURES {
        let after = root().join("fixtures").join(fixture).join("after");
        for path in shared_of(fixture) {
            assert!(!after.join(&path).exists(), "{fixture}: `{path}` is in shared.txt: remove the copy");
            named.insert(path);
        }
        for (path, content) in read_all(&after) {
            let copied = shared_in(fixture, &path).is_some_and(|shared| shared == content);
            assert!(!copied, "{fixture}: `{path}` is a copy of its template or of {BASE}: bless the fixture");
            // Parts with regions differ from their templates.
            let before = fs::read(after.with_file_name("before").join(&path)).ok();
            assert_ne!(
                before,
                Some(content),
                "{fixture}: the build does not change `{path}`: bless the fixture"
            );
            named.insert(path);
        }
    }
    let parts = generate::PARTS.map(|part| format!("{}/{}/{part}", generate::DIR, generate::KOZE));
    let missing: Vec<&String> = parts.iter().filter(|part| !named.contains(*part)).collect();
    assert!(missing.is_empty(), "no fixture has {missing:?}");
}

fn is_blessing() -> bool {
    std::env::var_os("KOZE_BLESS").is_some()
}

fn check(name: &str) {
    static BASE_IS_BLESSED: Once = Once::new();
    if is_blessing() {
        // The other fixtures share its files.
        BASE_IS_BLESSED.call_once(|| check_build(BASE));
    }
    if name != BASE || !is_blessing() {
        check_build(name);
    }
}

fn check_build(name: &str) {
    let project = Project::before_build(name);
    let before = project.snapshot();

    let drift = project.koze(&["build", "--check"]);
    assert_eq!(drift.code, 1, "--check of what was not built yet: {drift:?}");
    assert_eq!(project.diff(&before), "", "--check wrote something");

    let first = project.koze(&["build"]);
    assert_eq!(first.code, 0, "{}{}", first.stdout, first.stderr);
    let built = project.snapshot();

    let again = project.koze(&["build"]);
    assert_eq!(again.code, 0, "the second build: {again:?}");
    assert_eq!(project.diff(&built), "", "the second build wrote something");
    assert!(again.stdout.contains("nothing to do"), "{}", again.stdout);
    assert_eq!(project.koze(&["build", "--check"]).code, 0, "--check of what was built");

    if is_blessing() {
        bless(name, &before, &built);
    }
    let expected = Project::after_build(name).snapshot();
    let difference = diff(&expected, &built);
    assert!(difference.is_empty(), "`-` is fixtures/{name}/after, `+` what was built:\n{difference}");
}

/// Replaces `after` by what the build has changed.
fn bless(name: &str, before: &Snapshot, built: &Snapshot) {
    let after = root().join("fixtures").join(name).join("after");
    if after.exists() {
        fs::remove_dir_all(&after).expect("the former `after`");
    }
    let is_shared =
        |path: &str, content: &[u8]| shared_in(name, path).is_some_and(|shared| shared == content);
    let mut list = String::new();
    for (path, content) in built {
        if before.get(path) == Some(content) {
            continue;
        }
        if is_shared(path, content) {
            list.push_str(path);
            list.push('\n');
            continue;
        }
        let path = after.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&after)).expect("its directory");
        fs::write(path, content).expect("a file");
    }
    fs::write(after.with_file_name("shared.txt"), list).expect("the list of shared files");
}
