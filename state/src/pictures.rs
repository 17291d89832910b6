//! The pictures in the results of recorded calls: rows next to the journal, which are removed with their calls, and before them if
//! there are too many.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use koze_core::error::Result;
use koze_core::journal::{EncodedPicture, MAX_PICTURE};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::calls::read_journal;

/// How many bytes the pictures of all calls have at most. The oldest ones are removed first.
const MAX_KEPT: u64 = 32 << 20;

/// A picture of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// What its content is: `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: &'static str,
    /// The picture.
    pub bytes: Vec<u8>,
}

/// A picture that is to be kept.
#[derive(Debug)]
pub(crate) struct KeptPicture {
    /// Its place in the record.
    pub(crate) index: usize,
    bytes: Vec<u8>,
}

/// Decodes a picture. Returns `None` if the content is not a picture, whatever media type the tool gave it, or is too large.
pub(crate) fn decode(picture: &EncodedPicture) -> Option<KeptPicture> {
    // Python breaks base64 into lines.
    let base64: Vec<u8> = picture.base64.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let bytes = STANDARD.decode(base64).ok()?;
    let is_kept = bytes.len() <= MAX_PICTURE && recognize(&bytes).is_some();
    is_kept.then_some(KeptPicture { index: picture.index, bytes })
}

/// Returns the media type of a raster picture by its first bytes. An SVG is a program, and no picture.
fn recognize(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if bytes.starts_with(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        Some("image/gif")
    } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else {
        None
    }
}

/// Creates the table of the pictures, unless it is there.
pub(crate) fn create_table(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "create table if not exists pictures (
            id integer primary key,
            call integer not null,
            number integer not null,
            bytes blob not null,
            unique (call, number)
         ) strict;",
    )
}

/// Inserts the pictures of a call, and removes the oldest ones that exceed the bound.
pub(crate) fn insert(connection: &Connection, call: i64, pictures: &[KeptPicture]) -> rusqlite::Result<()> {
    if pictures.is_empty() {
        return Ok(());
    }
    let new: usize = pictures.iter().map(|picture| picture.bytes.len()).sum();
    while used_bytes(connection)? + new as u64 > MAX_KEPT {
        let delete = "delete from pictures where call = (select min(call) from pictures)";
        if connection.execute(delete, [])? == 0 {
            break;
        }
    }
    let insert = "insert into pictures (call, number, bytes) values (?, ?, ?)";
    let mut insert = connection.prepare_cached(insert)?;
    for picture in pictures {
        insert.execute(params![call, picture.index as u64, picture.bytes])?;
    }
    Ok(())
}

/// Deletes the pictures of calls that were deleted.
pub(crate) fn delete_orphans(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("delete from pictures where call < (select min(id) from calls)", []).map(drop)
}

/// Returns the size of all pictures in bytes.
pub(crate) fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row("select coalesce(sum(length(bytes)), 0) from pictures", [], |row| row.get(0))
}

/// Reads a picture of a session's call from the journal in a file; `index` is its place in the record. Returns `None` if the journal has
/// none there.
///
/// # Errors
/// [`Code::Unavailable`](koze_core::Code::Unavailable) if the journal cannot be read.
pub fn read_picture(path: &Path, session: &str, call: u64, index: usize) -> Result<Option<Picture>> {
    let read = |connection: &Connection| {
        // A journal of an earlier version has no such table.
        let exists = connection.prepare("select 1 from sqlite_master where name = 'pictures'")?.exists([])?;
        if !exists {
            return Ok(Vec::new());
        }
        let select = "select bytes from pictures join calls on calls.id = call
             where call = ? and session = ? and number = ?";
        let parameters = params![call, session, index as u64];
        let bytes = connection.query_row(select, parameters, |row| row.get::<_, Vec<u8>>(0)).optional()?;
        Ok(bytes.into_iter().collect())
    };
    let found = read_journal(path, read)?.pop();
    Ok(found.and_then(|bytes| Some(Picture { media_type: recognize(&bytes)?, bytes })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(bytes: &[u8]) -> EncodedPicture {
        EncodedPicture { index: 0, base64: STANDARD.encode(bytes) }
    }

    fn png(size: usize) -> KeptPicture {
        let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
        bytes.resize(size, 0);
        decode(&encoded(&bytes)).unwrap()
    }

    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("create table calls (id integer primary key)").unwrap();
        create_table(&connection).unwrap();
        connection
    }

    fn calls(connection: &Connection) -> Vec<i64> {
        let mut statement = connection.prepare("select call from pictures order by call").unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn only_raster_pictures_are_kept() {
        for bytes in [&b"\x89PNG\r\n\x1a\nrest"[..], b"\xff\xd8\xffrest", b"GIF89arest", b"RIFF....WEBP"] {
            assert_eq!(decode(&encoded(bytes)).unwrap().bytes, bytes);
        }
        for bytes in
            [&b"<svg onload=\"x\"/>"[..], b"<!doctype html>", b"%PDF-1.7", b"RIFF....WAVE", b"RIFF", b""]
        {
            assert!(decode(&encoded(bytes)).is_none(), "{}", String::from_utf8_lossy(bytes));
        }
        let broken = STANDARD.encode(b"GIF89a and more");
        let lines = EncodedPicture { index: 3, base64: format!("{}\n{}\n", &broken[..8], &broken[8..]) };
        assert_eq!(decode(&lines).unwrap().index, 3);
        assert!(decode(&EncodedPicture { index: 0, base64: "no base64".into() }).is_none());
        let mut large = b"GIF89a".to_vec();
        large.resize(MAX_PICTURE + 1, 0);
        assert!(decode(&encoded(&large)).is_none());
    }

    #[test]
    fn the_oldest_pictures_make_room() {
        let connection = database();
        for call in 1..=20 {
            insert(&connection, call, &[png(MAX_PICTURE)]).unwrap();
            assert!(used_bytes(&connection).unwrap() <= MAX_KEPT);
        }
        assert_eq!(calls(&connection), (5..=20).collect::<Vec<_>>());
    }

    #[test]
    fn pictures_are_removed_with_their_calls() {
        let connection = database();
        connection.execute_batch("insert into calls values (2), (3)").unwrap();
        for call in 1..=3 {
            insert(&connection, call, &[png(100)]).unwrap();
        }
        delete_orphans(&connection).unwrap();
        assert_eq!(calls(&connection), [2, 3]);
    }
}
