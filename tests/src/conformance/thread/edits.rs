//! `read_file` and `str_replace`.

use serde_json::{Value, json};

use super::super::Capability;
use super::super::session::{Session, at_once as together};
use super::WORKSPACE;

const FILE: &str = "/mnt/user-data/workspace/f";

fn lines(session: &Session, start: Option<i64>, end: Option<i64>) -> String {
    let mut input = json!({ "path": FILE });
    for (name, value) in [("start_line", start), ("end_line", end)] {
        if let Some(value) = value {
            input[name] = value.into();
        }
    }
    session.says("read_file", input)
}

pub(super) fn read(session: &Session) {
    session.put("f", "one\r\ntwo\n\n  four\r\nfive");
    for (start, end, text) in [
        (None, None, "one\r\ntwo\n\n  four\r\nfive"),
        (Some(1), Some(1), "one"),
        (Some(1), None, "one\ntwo\n\n  four\nfive"),
        (None, Some(2), "one\ntwo"),
        (Some(2), Some(4), "two\n\n  four"),
        (Some(5), Some(99), "five"),
        (Some(6), None, "(start_line exceeds file length)"),
        (Some(0), None, "(start_line must be >= 1)"),
        (Some(-1), Some(0), "(start_line must be >= 1)"),
        (Some(1), Some(0), "(end_line must be >= 1)"),
        (Some(3), Some(2), "(start_line > end_line — no lines in range)"),
    ] {
        assert_eq!(lines(session, start, end), text, "{start:?} {end:?}");
    }
    session.put("f", "");
    assert_eq!(lines(session, None, None), "(empty)");
    assert_eq!(lines(session, Some(1), None), "(empty)");
    assert_eq!(lines(session, Some(2), None), "(start_line exceeds file length)");
    session.put("f", "a\n");
    assert_eq!(lines(session, None, None), "a\n", "a whole file as it is");
    assert_eq!(lines(session, Some(1), Some(1)), "a");
    assert_eq!(lines(session, Some(2), None), "(start_line exceeds file length)");
    session.put("f", "{\"a\": \"ü\"}");
    assert_eq!(lines(session, None, None), "{\"a\": \"ü\"}", "never quoted");
}

pub(super) fn read_errors(session: &Session) {
    session.put("file", "");
    let at = |path: &str| json!({ "path": path });
    session.refuses("read_file", at("/mnt/user-data/none"), "Error: File not found: /mnt/user-data/none");
    let text = "Error: Path is a directory, not a file: /mnt/user-data/workspace";
    session.refuses("read_file", at(WORKSPACE), text);
    let text = "Error: Unexpected error reading file: not_a_directory: the path, or a part of it, is not a directory";
    session.refuses("read_file", at("/mnt/user-data/workspace/file/x"), text);
    session.put("f", "text\0with NUL");
    assert_eq!(lines(session, None, None), "text\0with NUL");
    // Only a program writes bytes that are not text.
    if session.can(Capability::Exec) {
        session.bash("printf 'text\\377binary' >/mnt/user-data/workspace/f");
        let text = "Error: cannot read '/mnt/user-data/workspace/f' as text — it appears to be a binary file (for example .xlsx, \
                    .pdf or an image). read_file only supports UTF-8 text. Use bash with a program or a Python library for this \
                    kind of file instead.";
        session.refuses("read_file", at(FILE), text);
        session.refuses("read_file", json!({ "path": FILE, "start_line": 1, "end_line": 1 }), text);
    }
}

pub(super) fn part_of_a_long_line(session: &Session) {
    session.put("f", &format!("first\n{}END\n", "ü".repeat(120_000)));
    let part = |start: i64| {
        session
            .says("read_file", json!({ "path": FILE, "start_line": 2, "end_line": 2, "start_char": start }))
    };
    assert!(part(1).contains("of 120003 chars. Use start_char to read a specific range"), "it says how");
    assert_eq!(part(120_000), "üEND");
    assert_eq!(part(119_000).chars().count(), 1004);
    assert_eq!(part(120_004), "(start_char exceeds the length of the text)");
    assert_eq!(part(0), "(start_char must be >= 1)");
    let whole = session.says("read_file", json!({ "path": FILE, "start_char": 120_007 }));
    assert_eq!(whole, "END\n");
}

pub(super) fn read_is_cut(session: &Session) {
    let hint = "Use start_line/end_line to read a specific range";
    session.put("f", &"ü".repeat(50_000));
    assert_eq!(lines(session, None, None), "ü".repeat(50_000), "not one too many");
    let total = 70_000;
    session.put("f", &"ü\n".repeat(total / 2));
    for (start, total) in [(None, total), (Some(1), total - 1)] {
        let text = lines(session, start, None);
        let widest =
            format!("\n... [truncated: showing first {total} of {total} chars. {hint}] ...").chars().count();
        let shown = 50_000 - widest;
        let mark = format!("\n... [truncated: showing first {shown} of {total} chars. {hint}] ...");
        let whole = "ü\n".repeat(total);
        assert_eq!(text, whole.chars().take(shown).collect::<String>() + &mark);
    }
}

/// A range at the start reads nothing of the rest.
pub(super) fn gigabytes(session: &Session) {
    session.bash("printf 'first\\nsecond\\n' > f; truncate -s 1G f");
    assert_eq!(lines(session, Some(1), Some(2)), "first\nsecond");
}

fn edit(old: &str, new: &str, all: bool) -> Value {
    json!({ "path": FILE, "old_str": old, "new_str": new, "replace_all": all })
}

pub(super) fn replace(session: &Session) {
    session.put("f", "a b\nb c\n");
    let whole = || session.says("read_file", json!({ "path": FILE }));
    assert_eq!(session.says("str_replace", edit("a b", "$1 \\0 &", false)), "OK");
    assert_eq!(whole(), "$1 \\0 &\nb c\n");
    assert_eq!(session.says("str_replace", edit("\nb", "", false)), "OK");
    assert_eq!(whole(), "$1 \\0 & c\n");
    session.put("f", "x x\nx");
    assert_eq!(session.says("str_replace", edit("x", "xx", true)), "OK");
    assert_eq!(whole(), "xx xx\nxx");
    assert_eq!(session.says("str_replace", edit("", "new", false)), "OK");
    assert_eq!(session.says("str_replace", edit("", "new", true)), "OK");
    assert_eq!(whole(), "xx xx\nxx", "nothing to replace");
    let once = json!({ "path": FILE, "old_str": "xx xx", "new_str": "y" });
    assert_eq!(session.says("str_replace", once), "OK", "once is the default");
}

pub(super) fn replace_errors(session: &Session) {
    session.put("f", "x\n  if (a) {\nx x\n");
    for (old, text) in [
        ("y", "Error: String to replace not found in file: /mnt/user-data/workspace/f"),
        (
            "if  (a)\t{",
            "Error: String to replace not found in file: /mnt/user-data/workspace/f. Only white space differs from the text at line \
             2:   if (a) {",
        ),
        (
            "x",
            "Error: String to replace appears 3 times in file: /mnt/user-data/workspace/f (lines 1, 3). Add context to make it \
             unique, or set replace_all.",
        ),
    ] {
        session.refuses("str_replace", edit(old, "z", false), text);
    }
    let text = "Error: String to replace not found in file: /mnt/user-data/workspace/f";
    session.refuses("str_replace", edit("y", "z", true), text);
    assert_eq!(
        session.says("read_file", json!({ "path": FILE })),
        "x\n  if (a) {\nx x\n",
        "nothing has changed"
    );
    session.put("f", "");
    session.refuses("str_replace", edit("y", "z", false), text);
    for old in ["a", ""] {
        let none = json!({ "path": "/mnt/user-data/none", "old_str": old, "new_str": "" });
        session.refuses("str_replace", none, "Error: File not found: /mnt/user-data/none");
        let directory = json!({ "path": WORKSPACE, "old_str": old, "new_str": "" });
        let text = "Error: Path is a directory, not a file: /mnt/user-data/workspace";
        session.refuses("str_replace", directory, text);
    }
    session.put("crlf", "a\r\nb\r\n");
    let crlf = "Error: String to replace not found in file: /mnt/user-data/workspace/crlf. Its lines end in CR LF (\\r\\n), those of \
                old_str in LF (\\n), or other white space differs from the text at line 1: a";
    let input = json!({ "path": "/mnt/user-data/workspace/crlf", "old_str": "a\nb", "new_str": "c" });
    session.refuses("str_replace", input, crlf);
}

/// Everything beside the match stays: a byte order mark, line endings, tabs, bytes that are no text, no final newline.
pub(super) fn bytes(session: &Session) {
    session.bash("printf '\\357\\273\\277a\\r\\n\\tOLD\\377\\0end' > f; chmod 640 f");
    assert_eq!(session.says("str_replace", edit("OLD", "new", false)), "OK");
    let command = "printf '\\357\\273\\277a\\r\\n\\tnew\\377\\0end' | cmp - f && stat -c %a f";
    assert_eq!(session.bash(command), "640\n");
}

/// None of 50 replacements and 50 appends is lost.
pub(super) fn at_once(session: &Session) {
    const CALLS: usize = 10;
    let before: Vec<String> = (0..CALLS * 5).map(|number| format!("old-{number:02}\n")).collect();
    session.put("f", &before.concat());
    together(CALLS, |number| {
        for turn in 0..5 {
            let number = number * 5 + turn;
            let (old, new) = (format!("old-{number:02}"), format!("new-{number:02}"));
            assert_eq!(session.says("str_replace", edit(&old, &new, false)), "OK");
            let line = format!("app-{number:02}\n");
            let input = json!({ "path": FILE, "content": line, "append": true });
            assert_eq!(session.says("write_file", input), "OK");
        }
    });
    let all = session.says("read_file", json!({ "path": FILE }));
    let mut lines: Vec<&str> = all.lines().collect();
    lines.sort_unstable();
    let numbered =
        |word: &str| (0..CALLS * 5).map(|number| format!("{word}-{number:02}")).collect::<Vec<_>>();
    assert_eq!(lines, [numbered("app"), numbered("new")].concat());
}
