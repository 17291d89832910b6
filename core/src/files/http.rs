//! What a request for a file means, as [RFC 9110](https://www.rfc-editor.org/rfc/rfc9110) defines it. No I/O.

use std::ops::Range;

use super::Existing;
use crate::error::{Code, Error, Result};
use crate::path;
use crate::sandbox::Stat;

/// Why a request is not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The file does not meet the conditions of the request: 412.
    Failed,
    /// Any other error.
    Error(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Refused::Error(error)
    }
}

/// The conditions of a request: its headers `If-Match` and `If-None-Match`.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Conditions {
    /// The file must exist, with one of these tags.
    pub if_match: Option<String>,
    /// The file must not exist, or have none of these tags.
    pub if_none_match: Option<String>,
}

impl Conditions {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Conditions::default()
    }

    /// Checks the conditions of a request that writes the file with these metadata, if it exists.
    ///
    /// # Errors
    /// [`Refused::Failed`] if it does not meet them.
    pub fn check_write(&self, file: Option<&Stat>) -> std::result::Result<(), Refused> {
        let is_unmet = self.if_match.as_deref().is_some_and(|tags| !has_matching_tag(tags, file))
            || self.if_none_match.as_deref().is_some_and(|tags| has_matching_tag(tags, file));
        if is_unmet { Err(Refused::Failed) } else { Ok(()) }
    }
}

/// The head of a response to a request that reads a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The status: 200, 206, 304, 412 or 416.
    pub status: u16,
    /// The headers, without `Content-Length`.
    pub headers: Vec<(&'static str, String)>,
    /// The bytes of the file that the response has; with another status than 200 and 206, none.
    pub range: Range<u64>,
}

/// Returns the head of the response to `GET` of a file. `range` and `if_range` are the headers of these names.
pub fn read(conditions: &Conditions, range: Option<&str>, if_range: Option<&str>, file: &Stat) -> Head {
    let tag = tag(file);
    let mut headers = vec![
        ("accept-ranges", "bytes".to_owned()),
        // A proxy that compressed the body would change what the tag stands for.
        ("cache-control", "private, no-cache, no-transform".to_owned()),
        ("x-content-type-options", "nosniff".to_owned()),
    ];
    headers.extend(tag.clone().map(|tag| ("etag", tag)));
    let without = |status, headers| Head { status, headers, range: 0..0 };
    if conditions.if_match.as_deref().is_some_and(|tags| !has_matching_tag(tags, Some(file))) {
        return without(412, headers);
    }
    if conditions.if_none_match.as_deref().is_some_and(|tags| has_matching_tag(tags, Some(file))) {
        return without(304, headers);
    }
    headers.push(("content-type", "application/octet-stream".to_owned()));
    // The rest of a file that has changed would not fit what the client has.
    let is_wanted = if_range.is_none_or(|wanted| tag.as_deref() == Some(wanted.trim()));
    match range.filter(|_| is_wanted).and_then(|range| parse_range(range, file.size)) {
        None => Head { status: 200, headers, range: 0..file.size },
        Some(range) if range.is_empty() => {
            headers.push(("content-range", format!("bytes */{}", file.size)));
            without(416, headers)
        }
        Some(range) => {
            headers.push(("content-range", format!("bytes {}-{}/{}", range.start, range.end - 1, file.size)));
            Head { status: 206, headers, range }
        }
    }
}

/// Returns the entity tag of a file, unless its guest is too old to report what a strong one needs.
pub fn tag(file: &Stat) -> Option<String> {
    file.version.map(|version| format!("\"{version:x}-{:x}\"", file.size))
}

/// Returns the path of a file: the decoded end of the URL, which is relative to the root of the sandbox.
///
/// # Errors
/// [`Code::InvalidInput`] if it cannot be a path.
pub fn file_path(decoded: &str) -> Result<String> {
    let path = format!("/{}", decoded.trim_start_matches('/'));
    path::check(&path)?;
    Ok(path)
}

/// Returns whether the parameters of a request ask for a directory as an archive, and what a `PUT` does with one that has content.
///
/// # Errors
/// [`Code::InvalidInput`] for an archive of another format, and for another value of `merge`.
pub fn archive<T: AsRef<str>>(parameters: &[(T, T)]) -> Result<Option<Existing>> {
    let (mut is_archive, mut existing) = (false, Existing::Refuse);
    for (name, value) in parameters {
        match (name.as_ref(), value.as_ref()) {
            ("archive", "tar") => is_archive = true,
            ("archive", format) => {
                let message = format!("`archive={format}` is not supported: use `archive=tar`");
                return Err(Error::new(Code::InvalidInput, message));
            }
            ("merge", "true") => existing = Existing::Merge,
            ("merge", "false") => existing = Existing::Refuse,
            ("merge", value) => {
                let message = format!("`merge={value}` is not supported: use `merge=true` or `merge=false`");
                return Err(Error::new(Code::InvalidInput, message));
            }
            _ => {}
        }
    }
    Ok(is_archive.then_some(existing))
}

/// Refuses the headers of a request for an archive that hold only for files.
///
/// # Errors
/// [`Code::InvalidInput`] if there is one: the client relies on it.
pub fn check_archive<'a>(headers: impl IntoIterator<Item = &'a str>) -> Result<()> {
    match headers.into_iter().find(|name| FOR_FILES.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let message =
                format!("`{name}` is not supported with `archive=tar`: a directory has no entity tag");
            Err(Error::new(Code::InvalidInput, message))
        }
    }
}

/// The headers that hold only for files. A range may be ignored.
const FOR_FILES: [&str; 3] = ["if-match", "if-none-match", "content-range"];

/// The headers of a response that is an archive.
pub const ARCHIVE_HEADERS: [(&str, &str); 3] = [
    ("content-type", "application/x-tar"),
    ("cache-control", "private, no-cache, no-transform"),
    ("x-content-type-options", "nosniff"),
];

/// Returns the code and message of a status of [`Head`] that is an error.
pub fn refusal(status: u16) -> Option<(&'static str, &'static str)> {
    match status {
        412 => Some((
            "precondition_failed",
            "the file does not meet `If-Match` or `If-None-Match`: read it again and use its new `ETag`",
        )),
        416 => {
            Some(("range_not_satisfiable", "the file has no such bytes: see `Content-Range` for its size"))
        }
        _ => None,
    }
}

/// Returns the status of an error.
pub fn status(code: Code) -> u16 {
    match code {
        Code::NotFound => 404,
        Code::Internal => 500,
        Code::Unsupported => 501,
        Code::Unavailable => 503,
        Code::Timeout => 504,
        _ => 400,
    }
}

/// Returns whether a list of tags has that of a file, by strong comparison. `*` stands for any file that exists.
fn has_matching_tag(tags: &str, file: Option<&Stat>) -> bool {
    let Some(file) = file else { return false };
    if tags.trim() == "*" {
        return true;
    }
    // The tags that koze makes contain no comma.
    tag(file).is_some_and(|tag| tags.split(',').any(|other| other.trim() == tag))
}

/// Parses a `Range` header. Returns `None` where it is to be ignored: for another unit, several ranges, or invalid ones. The
/// range is empty if the file has no such bytes.
fn parse_range(range: &str, size: u64) -> Option<Range<u64>> {
    let (unit, range) = range.split_once('=')?;
    let (first, last) = range.split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let number = |text: &str| match text.trim() {
        "" => Some(None),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            // Beyond what fits is beyond every file.
            Some(Some(digits.parse().unwrap_or(u64::MAX)))
        }
        _ => None,
    };
    match (number(first)?, number(last)?) {
        (None, None) => None,
        (Some(first), Some(last)) if last < first => None,
        (None, Some(length)) => Some(size.saturating_sub(length)..size),
        (Some(first), last) => Some(first..last.map_or(size, |last: u64| last.saturating_add(1).min(size))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Kind;

    fn file() -> Stat {
        Stat { kind: Kind::File, size: 10, mode: 0o644, mtime: Some(1), version: Some(255) }
    }

    fn head(if_match: Option<&str>, if_none_match: Option<&str>, range: Option<&str>) -> (u16, Range<u64>) {
        let conditions =
            Conditions { if_match: if_match.map(Into::into), if_none_match: if_none_match.map(Into::into) };
        let head = read(&conditions, range, None, &file());
        (head.status, head.range)
    }

    #[test]
    fn ranges() {
        for (range, answer) in [
            ("bytes=0-3", (206, 0..4)),
            ("bytes=4-", (206, 4..10)),
            ("bytes=-3", (206, 7..10)),
            ("bytes=-30", (206, 0..10)),
            ("bytes=9-99", (206, 9..10)),
            ("Bytes = 9-9", (206, 9..10)),
            ("bytes=10-", (416, 0..0)),
            ("bytes=99999999999999999999-", (416, 0..0)),
            ("bytes=-0", (416, 0..0)),
            ("bytes=0-1,3-4", (200, 0..10)),
            ("bytes=3-2", (200, 0..10)),
            ("bytes=-", (200, 0..10)),
            ("bytes=a-b", (200, 0..10)),
            ("bytes=+1-2", (200, 0..10)),
            ("lines=0-3", (200, 0..10)),
            ("0-3", (200, 0..10)),
        ] {
            assert_eq!(head(None, None, Some(range)), answer, "{range}");
        }
        let empty = Stat { size: 0, ..file() };
        assert_eq!(read(&Conditions::default(), Some("bytes=0-"), None, &empty).status, 416);
        let part = read(&Conditions::default(), Some("bytes=2-3"), Some("\"ff-a\""), &file());
        assert!(part.headers.contains(&("content-range", "bytes 2-3/10".to_owned())));
        assert_eq!(read(&Conditions::default(), Some("bytes=2-3"), Some("\"ff-b\""), &file()).status, 200);
        assert_eq!(read(&Conditions::default(), Some("bytes=2-3"), Some("W/\"ff-a\""), &file()).status, 200);
    }

    #[test]
    fn conditions() {
        let ours = "\"ff-a\"";
        assert_eq!(tag(&file()).as_deref(), Some(ours));
        for (if_match, if_none_match, status) in [
            (Some(ours), None, 200),
            (Some("\"x\", \"ff-a\""), None, 200),
            (Some("*"), None, 200),
            (Some("\"x\""), None, 412),
            (Some("W/\"ff-a\""), None, 412),
            (None, Some(ours), 304),
            (None, Some("*"), 304),
            (None, Some("\"x\""), 200),
            (Some("\"x\""), Some(ours), 412),
        ] {
            assert_eq!(head(if_match, if_none_match, None).0, status, "{if_match:?} {if_none_match:?}");
            let conditions = Conditions {
                if_match: if_match.map(Into::into),
                if_none_match: if_none_match.map(Into::into),
            };
            assert_eq!(conditions.check_write(Some(&file())).is_ok(), status == 200, "{if_match:?}");
            assert_eq!(conditions.check_write(None).is_ok(), if_match.is_none(), "{if_match:?}");
        }
        // A guest that reports no version has no tag to compare.
        let old = Stat { version: None, ..file() };
        let any = |tags: &str| Conditions { if_match: Some(tags.into()), if_none_match: None };
        assert!(any(ours).check_write(Some(&old)).is_err() && any("*").check_write(Some(&old)).is_ok());
    }

    #[test]
    fn archives() {
        assert_eq!(archive::<&str>(&[]), Ok(None));
        assert_eq!(archive(&[("archive", "tar"), ("x", "zip")]), Ok(Some(Existing::Refuse)));
        assert_eq!(archive(&[("merge", "true"), ("archive", "tar")]), Ok(Some(Existing::Merge)));
        assert!(archive(&[("archive", "tar"), ("merge", "1")]).unwrap_err().message.contains("`merge=1`"));
        for format in ["", "zip", "TAR"] {
            assert_eq!(archive(&[("archive", format)]).unwrap_err().code, Code::InvalidInput, "{format}");
        }
        assert_eq!(check_archive(["host", "range"]), Ok(()));
        assert!(check_archive(["host", "if-match"]).unwrap_err().message.starts_with("`if-match`"));
    }

    #[test]
    fn paths() {
        assert_eq!(file_path("mnt/a b").unwrap(), "/mnt/a b");
        assert_eq!(file_path("//etc/x").unwrap(), "/etc/x");
        assert_eq!(file_path("a\0b").unwrap_err().code, Code::InvalidInput);
    }
}
