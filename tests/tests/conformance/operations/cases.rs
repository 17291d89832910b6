//! What `edit` and `read_lines` of every provider's sandbox must do. The Worker of the tests contains a copy of this file, in which
//! `koze_core` is `koze`.

use futures_util::future::try_join_all;
use koze_core::sandbox::{
    Edit, Edited, LineRange, Lines, MAX_CHARS, MAX_EDIT_TEXT, MAX_EDITED, NearestLine, Place, Sandbox, Write,
};
use koze_core::{Code, Result};

const FILE: &str = "/workspace/operations/file";

/// Runs all cases on a sandbox. Returns the number of cases.
///
/// # Errors
/// The errors of the sandbox.
///
/// # Panics
/// If the sandbox does something else.
pub(crate) async fn check<S: Sandbox>(sandbox: &S) -> Result<usize> {
    one_occurrence(sandbox).await?;
    every_occurrence(sandbox).await?;
    not_found(sandbox).await?;
    ambiguous(sandbox).await?;
    modes_and_links(sandbox).await?;
    paths(sandbox).await?;
    sizes(sandbox).await?;
    nothing_is_lost(sandbox).await?;
    pieces(sandbox).await?;
    lines(sandbox).await?;
    whole_files(sandbox).await?;
    characters(sandbox).await?;
    binary_files(sandbox).await?;
    ranges(sandbox).await?;
    sandbox.remove(at("/workspace/operations")).await?;
    Ok(14)
}

fn at(path: &str) -> Place<'_> {
    Place { root: "/", path }
}

pub(super) fn edit(old: &[u8], new: &[u8], all: bool) -> Edit {
    Edit { old: old.to_vec(), new: new.to_vec(), all }
}

async fn write<S: Sandbox>(sandbox: &S, bytes: &[u8]) -> Result<()> {
    sandbox.write(at(FILE), bytes.to_vec(), Write::Replace).await.map(drop)
}

async fn content<S: Sandbox>(sandbox: &S) -> Result<Vec<u8>> {
    Ok(sandbox.read(at(FILE), 0, 2 * MAX_EDITED).await?.bytes)
}

/// Bytes outside of the match stay, whatever they are.
async fn one_occurrence<S: Sandbox>(sandbox: &S) -> Result<()> {
    for (before, old, new, after) in [
        (&b"a b c"[..], &b"b"[..], &b"d"[..], &b"a d c"[..]),
        (b"a b c", b"a b c", b"", b""),
        (b"\xef\xbb\xbfone\r\n\ttwo\r\n", b"two", b"2", b"\xef\xbb\xbfone\r\n\t2\r\n"),
        (b"\xff\0a\xfe", b"\0a", b"\0\xffb", b"\xff\0\xffb\xfe"),
        (b"one\ntwo", b"one\n", b"$0 $1 \\1 $& %s\n", b"$0 $1 \\1 $& %s\ntwo"),
    ] {
        write(sandbox, before).await?;
        let edited = sandbox.edit(at(FILE), &edit(old, new, false)).await?;
        assert_eq!(edited, Edited::Done { size: after.len() as u64, replaced: 1 });
        assert_eq!(content(sandbox).await?, after);
    }
    Ok(())
}

async fn every_occurrence<S: Sandbox>(sandbox: &S) -> Result<()> {
    write(sandbox, b"a aa b a\n").await?;
    let edited = sandbox.edit(at(FILE), &edit(b"a", b"aa", true)).await?;
    assert_eq!(edited, Edited::Done { size: 13, replaced: 4 });
    assert_eq!(content(sandbox).await?, b"aa aaaa b aa\n");
    Ok(())
}

async fn not_found<S: Sandbox>(sandbox: &S) -> Result<()> {
    let before = "1\r\n\tif (\u{e9}) {\r\n\t\tb;\r\n";
    write(sandbox, before.as_bytes()).await?;
    let nearest = NearestLine { number: 2, text: "\tif (\u{e9}) {".to_owned() };
    for (old, nearest) in
        [("if (\u{e9}) {\n  b;", Some(nearest)), ("nothing", None), ("if (\u{e9}) {\n  c;", None)]
    {
        for all in [false, true] {
            let edited = sandbox.edit(at(FILE), &edit(old.as_bytes(), b"x", all)).await?;
            assert_eq!(edited, Edited::NotFound { nearest: nearest.clone() });
        }
    }
    assert_eq!(content(sandbox).await?, before.as_bytes());
    write(sandbox, b"").await?;
    assert_eq!(sandbox.edit(at(FILE), &edit(b"a", b"", false)).await?, Edited::NotFound { nearest: None });
    Ok(())
}

async fn ambiguous<S: Sandbox>(sandbox: &S) -> Result<()> {
    let before = b"x\ny\nx x\n";
    write(sandbox, before).await?;
    let edited = sandbox.edit(at(FILE), &edit(b"x", b"z", false)).await?;
    assert_eq!(edited, Edited::Ambiguous { occurrences: 3, lines: vec![1, 3, 3] });
    assert_eq!(content(sandbox).await?, before);
    write(sandbox, &b"x\n".repeat(1000)).await?;
    let edited = sandbox.edit(at(FILE), &edit(b"x", b"z", false)).await?;
    assert_eq!(edited, Edited::Ambiguous { occurrences: 1000, lines: (1..=10).collect() });
    Ok(())
}

async fn modes_and_links<S: Sandbox>(sandbox: &S) -> Result<()> {
    write(sandbox, b"one").await?;
    sandbox.set_mode(at(FILE), 0o751).await?;
    let link = "/workspace/operations/link";
    sandbox.make_link(at(link), "file").await?;
    sandbox.edit(at(link), &edit(b"one", b"two", false)).await?;
    assert_eq!((content(sandbox).await?, sandbox.stat(at(FILE)).await?.mode), (b"two".to_vec(), 0o751));
    let lines =
        sandbox.read_lines(at(link), LineRange { first: 1, last: None, max_chars: 9, verbatim: false });
    assert_eq!(lines.await?.text, "two");
    sandbox.remove(at(FILE)).await?;
    sandbox.remove(at(link)).await?;
    Ok(())
}

async fn paths<S: Sandbox>(sandbox: &S) -> Result<()> {
    write(sandbox, b"one").await?;
    let range = LineRange { first: 1, last: None, max_chars: 9, verbatim: false };
    let inside = |path| Place { root: "/workspace/operations", path };
    for (place, code) in [
        (at("/workspace/operations"), Code::IsDirectory),
        (at("/workspace/operations/nothing"), Code::NotFound),
        (at("/workspace/operations/file/below"), Code::NotADirectory),
        (inside("/workspace/other"), Code::PathEscape),
        (inside("/workspace/operations/../../tmp"), Code::PathEscape),
    ] {
        // The root contains the path only if the path exists.
        let edited = sandbox.edit(place, &edit(b"one", b"two", false)).await.map_err(|error| error.code);
        let read = sandbox.read_lines(place, range).await.map_err(|error| error.code);
        let allowed =
            |found| found == Some(code) || (code == Code::PathEscape && found == Some(Code::NotFound));
        assert!(allowed(edited.clone().err()), "{place:?}: {edited:?}");
        assert!(allowed(read.clone().err()), "{place:?}: {read:?}");
    }
    let empty = sandbox.edit(at(FILE), &edit(b"", b"two", true)).await.expect_err("the old text is empty");
    assert_eq!(empty.code, Code::InvalidInput);
    assert_eq!(content(sandbox).await?, b"one");
    Ok(())
}

async fn sizes<S: Sandbox>(sandbox: &S) -> Result<()> {
    let size = usize::try_from(MAX_EDITED).expect("it fits");
    let code = async |old: &[u8], new: &[u8]| {
        sandbox.edit(at(FILE), &edit(old, new, true)).await.map_err(|error| error.code)
    };
    let long = vec![b'x'; MAX_EDIT_TEXT + 1];
    write(sandbox, b"x").await?;
    assert_eq!(code(&long, b"").await, Err(Code::TooLarge));
    assert_eq!(code(b"x", &long).await, Err(Code::TooLarge));
    assert_eq!(code(b"x", &long[1..]).await, Ok(Edited::Done { size: MAX_EDIT_TEXT as u64, replaced: 1 }));
    assert_eq!(code(b"x", b"xxxxx").await, Err(Code::TooLarge), "it would be too large");
    assert!(content(sandbox).await? == long[1..], "it stays as it was");
    assert_eq!(code(&long[1..], b"y").await, Ok(Edited::Done { size: 1, replaced: 1 }));
    let mut largest = vec![b'\n'; size];
    largest[size - 1] = b'x';
    write(sandbox, &largest).await?;
    assert_eq!(code(b"x", b"y").await, Ok(Edited::Done { size: MAX_EDITED, replaced: 1 }));
    sandbox.remove(at(FILE)).await?;
    Ok(())
}

/// Edits and appends at once: each of them is there afterward.
async fn nothing_is_lost<S: Sandbox>(sandbox: &S) -> Result<()> {
    let start = (0..100).map(|number| format!("<{number}>\n")).collect::<Vec<_>>().concat();
    write(sandbox, start.as_bytes()).await?;
    let edits = try_join_all((0..100).map(async |number| {
        let (old, new) = (format!("<{number}>"), format!("[{number}]"));
        sandbox.edit(at(FILE), &edit(old.as_bytes(), new.as_bytes(), false)).await
    }));
    let appends = try_join_all((0..100).map(async |number| {
        sandbox.write(at(FILE), format!("+{number}\n").into_bytes(), Write::Append).await
    }));
    let (edits, appends) = futures_util::future::try_join(edits, appends).await?;
    assert!(edits.iter().all(|edited| matches!(edited, Edited::Done { replaced: 1, .. })));
    assert_eq!(appends.len(), 100);
    let text = String::from_utf8(content(sandbox).await?).expect("it is text");
    let (edited, appended) = text.split_at(start.len());
    assert_eq!(edited, start.replace('<', "[").replace('>', "]"));
    let mut appended: Vec<_> = appended.lines().map(str::to_owned).collect();
    appended.sort_unstable_by_key(|line| line[1..].parse::<u32>().ok());
    assert!(appended.into_iter().eq((0..100).map(|number| format!("+{number}"))), "{text}");
    let left = sandbox.list(at("/workspace/operations")).await?;
    assert_eq!(left.len(), 1, "temporary files are left: {left:?}");
    Ok(())
}

/// Several calls write a file, each where the last one has ended, and another file is left unchanged.
async fn pieces<S: Sandbox>(sandbox: &S) -> Result<()> {
    let piece = async |offset: u64, bytes: &[u8]| {
        let written = sandbox.write_at(at(FILE), offset, bytes.to_vec()).await;
        written.map_err(|error| (error.code, error.message))
    };
    sandbox.remove(at(FILE)).await?;
    let gone = |offset: u64| async move {
        let (code, message) = piece(offset, b"x").await.expect_err("the first part is gone");
        assert_eq!(code, Code::Unavailable);
        assert!(message.contains(FILE) && message.contains("send it again"), "{message}");
    };
    gone(3).await;
    assert_eq!(sandbox.stat(at(FILE)).await.map_err(|error| error.code), Err(Code::NotFound));
    assert_eq!(piece(0, b"abc").await, Ok(3));
    assert_eq!(piece(3, b"").await, Ok(3));
    assert_eq!(piece(3, b"\0d").await, Ok(5));
    assert_eq!(piece(0, b"x").await.map_err(|error| error.0), Err(Code::AlreadyExists));
    gone(3).await;
    gone(6).await;
    assert_eq!(content(sandbox).await?, b"abc\0d");
    sandbox.remove(at(FILE)).await?;
    assert_eq!(piece(0, b"").await, Ok(0));
    assert_eq!(piece(0, b"x").await.map_err(|error| error.0), Err(Code::AlreadyExists));
    let left = sandbox.list(at("/workspace/operations")).await?;
    assert_eq!(left.len(), 1, "{left:?}");
    Ok(())
}

async fn read<S: Sandbox>(sandbox: &S, first: u64, last: Option<u64>) -> Result<Lines> {
    let range = LineRange { first, last, max_chars: 1000, verbatim: false };
    sandbox.read_lines(at(FILE), range).await
}

fn found(text: &str, size: u64) -> Lines {
    let (text, chars) = (text.to_owned(), text.chars().count() as u64);
    Lines { text, chars, past_end: false, binary: false, size }
}

async fn lines<S: Sandbox>(sandbox: &S) -> Result<()> {
    write(sandbox, b"one\r\ntwo\n\nfour\r\n").await?;
    for (first, last, text) in [
        (1, None, "one\ntwo\n\nfour"),
        (1, Some(1), "one"),
        (2, Some(3), "two\n"),
        (3, Some(3), ""),
        (4, Some(u64::MAX), "four"),
        (2, None, "two\n\nfour"),
    ] {
        assert_eq!(read(sandbox, first, last).await?, found(text, 16), "{first} to {last:?}");
    }
    for first in [5, u64::MAX] {
        assert_eq!(read(sandbox, first, None).await?, Lines { past_end: true, ..found("", 16) });
    }
    write(sandbox, b"no end").await?;
    assert_eq!(read(sandbox, 1, None).await?, found("no end", 6));
    write(sandbox, b"").await?;
    assert_eq!(read(sandbox, 1, None).await?, Lines { past_end: true, ..found("", 0) });
    Ok(())
}

async fn whole_files<S: Sandbox>(sandbox: &S) -> Result<()> {
    let text = "\u{feff}one\r\n\ttwo\r\r\n\n";
    write(sandbox, text.as_bytes()).await?;
    let range = LineRange { first: 1, last: None, max_chars: 1000, verbatim: true };
    assert_eq!(sandbox.read_lines(at(FILE), range).await?, found(text, text.len() as u64));
    let range = LineRange { first: 2, last: Some(2), ..range };
    assert_eq!(sandbox.read_lines(at(FILE), range).await?, found("\ttwo\r\r\n", text.len() as u64));
    Ok(())
}

async fn characters<S: Sandbox>(sandbox: &S) -> Result<()> {
    let text = "a\u{e9}\u{1f600}\n".repeat(100_000);
    write(sandbox, text.as_bytes()).await?;
    let range = LineRange { first: 2, last: None, max_chars: 6, verbatim: false };
    let expected = Lines { chars: 4 * 99_999 - 1, ..found("a\u{e9}\u{1f600}\na\u{e9}", text.len() as u64) };
    assert_eq!(sandbox.read_lines(at(FILE), range).await?, expected);
    let lines = sandbox.read_lines(at(FILE), LineRange { max_chars: 0, ..range }).await?;
    assert_eq!(lines, Lines { text: String::new(), ..expected });
    let whole = LineRange { first: 1, last: None, max_chars: MAX_CHARS, verbatim: true };
    assert!(sandbox.read_lines(at(FILE), whole).await? == found(&text, text.len() as u64));
    // One line of several pieces.
    let text = "\u{20ac}".repeat(700_000);
    write(sandbox, text.as_bytes()).await?;
    assert!(sandbox.read_lines(at(FILE), whole).await? == found(&text, text.len() as u64));
    let range = LineRange { max_chars: 1, verbatim: false, ..whole };
    let expected = Lines { chars: 700_000, ..found("\u{20ac}", text.len() as u64) };
    assert_eq!(sandbox.read_lines(at(FILE), range).await?, expected);
    Ok(())
}

async fn binary_files<S: Sandbox>(sandbox: &S) -> Result<()> {
    for (bytes, first, last, binary) in [
        (&b"a\nb\xff\n"[..], 1, None, true),
        (b"a\nb\xff\n", 1, Some(1), false),
        (b"\xff\nb\n", 2, None, true),
        (b"a\n\xe2\x82", 1, None, true),
        (b"a\n\xe2\x82\n", 1, Some(1), false),
        (b"PK\x03\x04\x8a", 9, None, true),
    ] {
        write(sandbox, bytes).await?;
        let lines = read(sandbox, first, last).await?;
        assert_eq!((lines.binary, lines.size), (binary, bytes.len() as u64), "{bytes:?}");
        assert_eq!(lines.text, if binary { "" } else { "a" });
    }
    // What was found before is not returned.
    let bytes = [&b"text\n".repeat(100_000)[..], b"\xff"].concat();
    write(sandbox, &bytes).await?;
    let lines = read(sandbox, 1, None).await?;
    assert_eq!((lines.text.as_str(), lines.binary), ("", true));
    Ok(())
}

async fn ranges<S: Sandbox>(sandbox: &S) -> Result<()> {
    write(sandbox, b"one").await?;
    for (first, last, max_chars) in [(0, None, 1), (0, Some(0), 1), (3, Some(2), 1), (1, None, MAX_CHARS + 1)]
    {
        let range = LineRange { first, last, max_chars, verbatim: false };
        let error = sandbox.read_lines(at(FILE), range).await.expect_err("the range is not valid");
        assert_eq!(error.code, Code::InvalidInput, "{range:?}");
    }
    Ok(())
}
