//! Archives as other programs, and attackers, write them.

use std::fmt::Write as _;

use futures_util::stream::iter;
use koze_protocol::tar::{Part, Reader};
use tar::Builder;

use super::*;

/// An entry: its name, what it is, its mode and its content.
type Read = (String, What, u32, Vec<u8>);

/// Translates an archive, in pieces of a size. Returns what koze reads of it.
fn read(archive: &[u8], piece: usize) -> Result<Vec<Read>> {
    let pieces: Vec<Result<Vec<u8>>> = archive.chunks(piece).map(|piece| Ok(piece.to_vec())).collect();
    let own = pollster::block_on(foreign(Box::pin(iter(pieces))).try_concat())?;
    let mut reader = Reader::default();
    reader.add(&own);
    let mut entries: Vec<Read> = Vec::new();
    while let Some(part) = reader.part().unwrap() {
        match part {
            Part::Entry(entry) => entries.push((entry.name, entry.what, entry.mode, Vec::new())),
            Part::Content(content) => entries.last_mut().unwrap().3.extend(content),
        }
    }
    reader.finish().unwrap();
    Ok(entries)
}

/// Returns an archive with an entry whose name and target are these bytes.
fn one(kind: EntryType, name: &str, target: &str, content: &[u8]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    append(&mut builder, kind, name, target, content);
    builder.into_inner().unwrap()
}

fn append(builder: &mut Builder<Vec<u8>>, kind: EntryType, name: &str, target: &str, content: &[u8]) {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o4755);
    header.set_size(content.len() as u64);
    header.set_cksum();
    builder.append(&header, content).unwrap();
}

fn pax(kind: EntryType, records: &[(&str, &str)], builder: &mut Builder<Vec<u8>>) {
    let mut text = String::new();
    for (key, value) in records {
        let length = key.len() + value.len() + 3;
        // With its own digits, of which there are two or three here.
        let digits = if length + 2 < 100 { 2 } else { 3 };
        let _ = writeln!(text, "{} {key}={value}", length + digits);
    }
    append(builder, kind, "PaxHeaders/x", "", text.as_bytes());
}

#[test]
fn archives_of_other_programs_are_read() {
    let mut builder = Builder::new(Vec::new());
    let long = ["d/", &"ä".repeat(120)].concat();
    pax(EntryType::XGlobalHeader, &[("comment", "a commit")], &mut builder);
    append(&mut builder, EntryType::Directory, "d/", "", b"");
    append(&mut builder, EntryType::Regular, "d/./f", "", &[7; 700]);
    append(&mut builder, EntryType::Symlink, "d/l", "../implied/x", b"");
    append(&mut builder, EntryType::Regular, "./implied//x", "", b"x");
    pax(EntryType::XHeader, &[("path", &long), ("mtime", "1.5"), ("size", "3")], &mut builder);
    append(&mut builder, EntryType::Regular, "short", "", b"abc");
    let mut header = Header::new_gnu();
    header.set_size(0);
    header.set_mode(0o600);
    builder.append_data(&mut header, ["d/", &"n".repeat(150)].concat(), &b""[..]).unwrap();
    append(&mut builder, EntryType::Directory, "implied/", "", b"");
    let archive = builder.into_inner().unwrap();
    let file = |name: &str, content: &[u8]| {
        (name.to_owned(), What::File(content.len() as u64), 0o755, content.to_vec())
    };
    let directory = |name: &str| (name.to_owned(), What::Directory, 0o755, Vec::new());
    let expected = vec![
        directory("d"),
        file("d/f", &[7; 700]),
        ("d/l".to_owned(), What::Link("../implied/x".into()), 0o755, Vec::new()),
        file("implied/x", b"x"),
        file(&long, b"abc"),
        (["d/", &"n".repeat(150)].concat(), What::File(0), 0o600, Vec::new()),
        directory("implied"),
    ];
    for piece in [1, 100, 512, archive.len()] {
        assert_eq!(read(&archive, piece).unwrap(), expected, "{piece}");
    }
    // What koze writes is read as it is, and so is an archive without entries.
    let own = read(&one(EntryType::Directory, "./", "", b""), 512).unwrap();
    assert_eq!(own, [(String::new(), What::Directory, 0o755, Vec::new())]);
    assert_eq!(read(&end(), 512).unwrap(), []);
}

#[test]
fn hostile_entries_are_named() {
    let file = EntryType::Regular;
    let link = EntryType::Symlink;
    for (kind, name, target, content, message) in [
        (file, "/etc/x", "", &b"x"[..], "`/etc/x` has an absolute name"),
        (file, "../x", "", b"x", "`../x` leads outside"),
        (file, "a/../../x", "", b"x", "`a/../../x` leads outside"),
        (EntryType::Directory, "a/..", "", b"", "`a/..` leads outside"),
        (file, ".", "", b"x", "`.` is the directory itself"),
        (link, "l", "/etc/passwd", b"", "`l` is a link to `/etc/passwd`, which leads outside"),
        (link, "a/l", "../../x", b"", "`a/l` is a link to `../../x`, which leads outside"),
        (link, "a/l", "b/../../x", b"", "`a/l` is a link to `b/../../x`"),
        (link, "l", "", b"", "`l` is a link without a valid target"),
        (link, "l", "x", b"x", "`l` has content"),
        (EntryType::Link, "h", "l", b"", "`h` is a hard link"),
        (EntryType::Char, "null", "", b"", "`null` is a device"),
        (EntryType::Block, "sda", "", b"", "`sda` is a device"),
        (EntryType::Fifo, "pipe", "", b"", "`pipe` is a pipe"),
        (EntryType::GNUSparse, "s", "", b"", "`s` is a sparse file"),
        (EntryType::new(b'V'), "v", "", b"", "`v` is not a file"),
    ] {
        let error = read(&one(kind, name, target, content), 512).unwrap_err();
        assert!(error.code == Code::InvalidInput && error.message.contains(message), "{error:?}");
    }
    let several = |entries: &[(EntryType, &str, &str)]| {
        let mut builder = Builder::new(Vec::new());
        for (kind, name, target) in entries {
            append(&mut builder, *kind, name, target, b"");
        }
        read(&builder.into_inner().unwrap(), 512).unwrap_err().message
    };
    for (entries, message) in [
        (vec![(file, "a", ""), (file, "./a", "")], "`a` occurs more than once"),
        (vec![(file, "a", ""), (link, "a", "b")], "`a` occurs more than once"),
        (vec![(EntryType::Directory, "a", ""), (link, "a", "b")], "`a` occurs more than once"),
        (vec![(file, "a/b", ""), (link, "a", "b")], "`a` occurs more than once"),
        (vec![(EntryType::Directory, "./", ""), (EntryType::Directory, ".", "")], "`.` occurs more"),
        (vec![(link, "a", "b"), (file, "a/x", "")], "`a/x` is below `a`, which is not a directory"),
        (vec![(file, "a", ""), (EntryType::Directory, "a/b/c", "")], "`a/b/c` is below `a`"),
    ] {
        let told = several(&entries);
        assert!(told.contains(message), "{told}");
    }
}

#[test]
fn sizes_are_not_trusted() {
    for size in [u64::MAX, MAX_FILE + 1] {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[0] = b'h';
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_size(size);
        header.set_cksum();
        let error = read(header.as_bytes(), 512).unwrap_err();
        assert!(error.message.contains("`h` has a size that no disk has"), "{error:?}");
    }
    let mut builder = Builder::new(Vec::new());
    pax(EntryType::XHeader, &[("size", "18446744073709551615")], &mut builder);
    append(&mut builder, EntryType::Regular, "h", "", b"");
    let error = read(&builder.into_inner().unwrap(), 512).unwrap_err();
    assert!(error.message.contains("`h` has a size that no disk has"), "{error:?}");
    for key in ["GNU.sparse.realsize", "GNU.sparse.map"] {
        let mut builder = Builder::new(Vec::new());
        pax(EntryType::XHeader, &[(key, "1099511627776")], &mut builder);
        append(&mut builder, EntryType::Regular, "s", "", b"");
        let error = read(&builder.into_inner().unwrap(), 512).unwrap_err();
        assert!(error.message.contains("`s` is a sparse file"), "{error:?}");
    }
}

#[test]
fn incomplete_and_damaged_archives_are_refused() {
    let whole = one(EntryType::Regular, "file", "", &[1; 1000]);
    assert_eq!(whole.len(), 512 + 1024 + 1024);
    for length in 0..512 + 1024 {
        let error = read(&whole[..length], 512).unwrap_err();
        let message = match length {
            0..512 => "no entry and no end",
            512..1512 => "ends within the entry `file`",
            _ => "ends after the entry `file`",
        };
        assert!(error.message.contains(message), "{length}: {error:?}");
    }
    let mut damaged = whole.clone();
    damaged[0] = b'F';
    assert!(read(&damaged, 512).unwrap_err().message.contains("not a tar archive"));
    let gzip = [&[0x1f, 0x8b, 8][..], &[0; 600]].concat();
    assert!(read(&gzip, 512).unwrap_err().message.contains("compressed"));
    assert!(read(&gzip[..100], 512).unwrap_err().message.contains("compressed"));
    let garbage = [&whole[..512 + 1024], &[b'x'; 512]].concat();
    assert!(read(&garbage, 512).unwrap_err().message.contains("`file` is followed by"));
    for record in ["9 path=x", "4 p=\n", "99 path=x\n", "x path=y\n"] {
        let damaged = one(EntryType::XHeader, "x", "", record.as_bytes());
        let error = read(&damaged, 512).unwrap_err();
        assert!(error.message.contains("an extension that is damaged"), "{record}: {error:?}");
    }
}
