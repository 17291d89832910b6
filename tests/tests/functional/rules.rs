//! Checks that every rule has a test that shows its text.

use koze_cli::rules::Rule;
use koze_tests::root;

/// The rules that only the macro can report.
const NOT_OF_THE_COMMAND_LINE: [&str; 1] = ["K008"];

#[test]
fn every_rule_of_the_command_line_is_shown_by_a_test() {
    let tests = root().join("tests/tests/functional");
    let sources: String = fs_err::read_dir(tests)
        .expect("the tests")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .map(|path| fs_err::read_to_string(path).expect("Rust"))
        .collect();
    let missing: Vec<&str> = Rule::all()
        .into_iter()
        .map(|rule| (rule.code, format!("{}[{}]: ", rule.level.word(), rule.code)))
        .filter(|(code, shown)| !NOT_OF_THE_COMMAND_LINE.contains(code) && !sources.contains(shown))
        .map(|(code, _)| code)
        .collect();
    assert!(missing.is_empty(), "no test shows the text of {missing:?}");
}
