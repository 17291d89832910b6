//! Unusual file names.

use serde_json::json;

use super::Capability::{Exec, ManyCalls};
use super::session::Session;
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case("odd_names_are_names", odd_names).needs(&[ManyCalls]),
    case("odd_names_are_found", odd_names_found).needs(&[ManyCalls]),
    case("odd_names_are_transferred", odd_names_transferred).needs(&[ManyCalls]),
    case("odd_names_are_those_of_programs", odd_names_of_programs).needs(&[Exec, ManyCalls]),
    case("names_that_are_too_long", too_long),
];

fn names() -> Vec<String> {
    let odd = [
        "-",
        "--",
        "-rf",
        "--help",
        "a b",
        " ",
        "\t",
        "new\nline",
        "\n",
        "cr\r\n",
        "日本",
        "e\u{301}",
        "é",
        "😀",
        "\u{202e}abc",
        "*",
        "?",
        "[a]",
        "{a,b}",
        "~",
        "!",
        "#",
        "&",
        "|",
        ";",
        "$HOME",
        "$(x)",
        "`x`",
        "q'\"",
        "\\",
        "%s",
        "..x",
        "...",
        ".hidden",
        "\u{1}\u{7f}",
        "null",
        "true",
        "default",
    ];
    let long = ["n".repeat(255), "日".repeat(85)];
    odd.into_iter().map(str::to_owned).chain(long).collect()
}

fn odd_names(session: &Session) {
    for name in names() {
        let path = format!("/tmp/odd/{name}");
        session.write(&path, &name);
        assert_eq!(session.read(&path), name, "{name:?}");
        session.ok("write_file", json!({ "path": path, "content": "+", "append": true }));
        assert_eq!(session.read(&path), format!("{name}+"));
        session.write(&format!("/tmp/dirs/{name}/{name}"), &name);
        assert_eq!(session.read(&format!("/tmp/dirs/{name}/{name}")), name);
    }
}

fn odd_names_found(session: &Session) {
    for name in names() {
        session.write(&format!("odd/{name}"), "");
        let here = format!("/tmp/{name}");
        session.write(&format!("{here}/only"), "");
        let found = session.ok("glob", json!({ "pattern": "*", "cwd": here }));
        assert_eq!(found, json!({ "files": ["only"] }), "{name:?} as cwd");
    }
    let mut expected = names();
    expected.sort_unstable();
    assert_eq!(session.ok("glob", json!({ "pattern": "*", "cwd": "odd" }))["files"], json!(expected));
}

fn odd_names_transferred(session: &Session) {
    for name in names() {
        session.write(&format!("odd/{name}/{name}"), &name);
    }
    let tree = json!({ "from_sandbox": "default", "from_path": "odd", "to_sandbox": "b", "to_path": "all", "recursive": true });
    session.ok("transfer", tree);
    for name in names() {
        let input = json!({ "from_sandbox": "b", "from_path": format!("all/{name}/{name}"), "to_sandbox": "default", "to_path": format!("/tmp/back/{name}") });
        assert_eq!(session.ok("transfer", input)["bytes"], name.len());
        assert_eq!(session.read(&format!("/tmp/back/{name}")), name);
    }
}

fn odd_names_of_programs(session: &Session) {
    for name in names() {
        session.write(&format!("odd/{name}"), "");
    }
    assert_eq!(
        session.out("cd odd; find . -type f -print0 | tr -dc '\\0' | wc -c"),
        names().len().to_string()
    );
    let mut expected = names();
    expected.sort_unstable();
    let expected = format!("./{}|", expected.join("|./"));
    assert_eq!(
        session.run("cd odd; find . -type f -print0 | LC_ALL=C sort -z | tr '\\0' '|'")["stdout"],
        expected
    );
}

fn too_long(session: &Session) {
    let name = "n".repeat(256);
    let input = json!({ "path": name, "content": "x" });
    session.fails("write_file", input, "invalid_input");
    session.fails("read_file", json!({ "path": format!("/tmp/{name}") }), "invalid_input");
    // The maximum path length.
    let deep: String = ["d".repeat(200), "/".to_owned()].concat().repeat(20);
    let path = format!("/tmp/{deep}f");
    assert!(path.len() < 4096);
    session.write(&path, "deep");
    assert_eq!(session.read(&path), "deep");
}
