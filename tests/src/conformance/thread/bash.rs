//! `bash`.

use serde_json::json;

use super::super::session::Session;
use super::WORKSPACE;

pub(super) fn parts(session: &Session) {
    assert_eq!(session.bash("true"), "(no output)");
    assert_eq!(session.bash("echo out"), "out\n");
    assert_eq!(session.bash("echo err >&2"), "err\n");
    assert_eq!(session.bash("echo out; echo err >&2"), "out\n\nStd Error:\nerr\n");
    for (command, text) in [
        ("echo out; echo err >&2; exit 3", "out\n\nStd Error:\nerr\n\nExit Code: 3"),
        ("exit 1", "\nExit Code: 1"),
        ("printf out; exit 1", "out\nExit Code: 1"),
        ("kill -9 $$", "\nExit Code: 137"),
        ("no-such-program", "bash: line 1: no-such-program: command not found\n\nExit Code: 127"),
    ] {
        session.refuses("bash", json!({ "command": command }), text);
    }
    assert_eq!(session.bash("printf 'a\\377b'"), "a\u{fffd}b", "what is not UTF-8 is replaced");
    assert_eq!(session.bash("printf '{\"a\": 1}'"), "{\"a\": 1}", "and text is never quoted");
}

pub(super) fn shell(session: &Session) {
    assert_eq!(session.bash("pwd"), format!("{WORKSPACE}\n"));
    assert_eq!(session.bash("wc -c"), "0\n", "stdin is empty");
    assert_eq!(session.bash("echo $0 $#; set -- a b; echo $2"), "bash 0\nb\n");
    assert_eq!(session.bash("cd /tmp; X=1; echo $X"), "1\n");
    assert_eq!(session.bash("pwd; echo $X"), format!("{WORKSPACE}\n\n"), "a shell of its own");
    assert_eq!(session.bash("a=(x y); echo ${a[1]} \"$(echo 'q')\" <<< z"), "y q\n");
    assert_eq!(session.bash("--help; true").lines().count(), 1, "a command is no option");
    assert_eq!(session.bash("env | grep -i koze_ | grep -v KOZE_GUEST_ | wc -l"), "0\n");
    session.put("f.txt", "text");
    assert_eq!(session.bash("cat f.txt /mnt/user-data/workspace/f.txt"), "texttext");
    session.bash("echo from-bash > /mnt/user-data/outputs/o; mkdir -p d/e");
    assert_eq!(session.ls("/mnt/user-data/outputs"), "/mnt/user-data/outputs/o");
    assert_eq!(session.ls(WORKSPACE), format!("{WORKSPACE}/d/\n{WORKSPACE}/d/e/\n{WORKSPACE}/f.txt"));
}

/// A here-document of 200 kB.
pub(super) fn long(session: &Session) {
    let text = "é日😀 $x `y` \\ '\"\n".repeat(10_000);
    session.put("expected", &text);
    let command = format!("cat > long <<'end'\n{text}end\ncmp long expected; echo $0 $# $LINENO; wc -c");
    assert_eq!(session.bash(&command), "bash 0 10003\n0\n");
    let command = format!("# {}", "x".repeat((1 << 20) - 1));
    let refused = "Error: `command` has 1048577 bytes: a command can have at most 1048576. Write it to a file, in several calls \
                   if it is long, and run that file: `bash FILE`";
    session.refuses("bash", json!({ "command": command }), refused);
}

/// The number counts characters, also those that the sandbox itself did not keep.
pub(super) fn cut(session: &Session) {
    let mark = |text: &str| -> usize {
        let (_, rest) = text.split_once("\n... [middle truncated: ").expect("the mark");
        let (number, rest) = rest.split_once(" chars skipped] ...\n").expect("its end");
        assert!(rest.ends_with("end\n"), "the tail is kept");
        number.parse().expect("a number")
    };
    let whole = session.bash("head -c 19995 /dev/zero | tr '\\0' x; echo end1");
    assert_eq!(whole.len(), 20_000, "not one too many");
    for (bytes, total) in [(20_000, 20_004), (30_000, 30_004), (3_000_000, 3_000_004)] {
        let text = session.bash(&format!("head -c {bytes} /dev/zero | tr '\\0' x; echo end"));
        assert!(text.starts_with("xxx") && text.chars().count() <= 20_000, "{}", text.len());
        let skipped = mark(&text);
        let shown = text.len() - format!("\n... [middle truncated: {skipped} chars skipped] ...\n").len();
        assert_eq!(shown + skipped, total, "{bytes}");
    }
    let text = session.bash("yes ä | head -n 30000 | tr -d '\\n'; echo end");
    assert_eq!(mark(&text), 30_004 - 19_951, "characters, not bytes");
}

pub(super) fn background(session: &Session) {
    let command = "sleep 300 & echo $! > pid; echo started";
    assert_eq!(session.bash(command), "started\n", "the pipes are open, and nobody waits for their end");
    assert_eq!(session.bash("kill -0 $(cat pid) && echo runs"), "runs\n");
    session.bash("kill $(cat pid)");
}

pub(super) fn without(session: &Session) {
    let text = "Error: a sandbox in memory cannot run programs: use another provider";
    session.refuses("bash", json!({ "command": "true" }), text);
}
