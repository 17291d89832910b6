//! The pictures in the results of calls: `/pictures/SESSION/CALL/NUMBER`. Their content decides their media type, never what a tool
//! named it.

use std::path::PathBuf;

use hyper::header::{CONTENT_TYPE, HeaderValue};
use koze_core::{Code, Error, Result};
use percent_encoding::percent_decode_str;

use super::super::answer::{Answer, refuse_error, whole};
use crate::provider;

/// The beginning of the paths.
pub(super) const PREFIX: &str = "/pictures/";

/// A picture of a call.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    session: String,
    call: u64,
    /// Its place in the record, from 0. In the path and in the record's result, numbers begin with 1.
    index: usize,
}

/// Answers a request for a picture of the journal in a file.
pub(super) async fn answer_request(journal: PathBuf, path: &str) -> Answer {
    let read = match parse(path) {
        Some(address) => read_picture(journal, address).await,
        None => Err(missing()),
    };
    read.unwrap_or_else(refuse_error)
}

/// Returns the answer of a page whose server keeps no pictures.
pub(super) fn refuse_kept_elsewhere() -> Answer {
    refuse_error(Error::new(Code::NotFound, "the journal of a server has no pictures"))
}

async fn read_picture(journal: PathBuf, Address { session, call, index }: Address) -> Result<Answer> {
    let read = move || provider::read_picture(&journal, &session, call, index);
    let read = tokio::task::spawn_blocking(read).await.map_err(|error| {
        Error::new(Code::Internal, "the journal of tool calls cannot be read").with_source(error)
    })?;
    let picture = read?.ok_or_else(missing)?;
    let mut answer = Answer::new(whole(picture.bytes));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(picture.media_type));
    Ok(answer)
}

fn missing() -> Error {
    Error::new(
        Code::NotFound,
        "the journal has no such picture: it removes the oldest ones if there are too many",
    )
}

fn parse(path: &str) -> Option<Address> {
    let mut parts = path.strip_prefix(PREFIX)?.split('/');
    let session = percent_decode_str(parts.next()?).decode_utf8().ok()?.into_owned();
    let call = parts.next()?.parse().ok()?;
    let number: usize = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some(())?;
    Some(Address { session, call, index: number.checked_sub(1)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_a_session_a_call_and_a_number() {
        let address = Address { session: "a/b".into(), call: 12, index: 0 };
        assert_eq!(parse("/pictures/a%2Fb/12/1"), Some(address));
        for path in
            ["/pictures/a", "/pictures/a/1", "/pictures/a/1/0", "/pictures/a/1/1/1", "/pictures/a/x/1"]
        {
            assert_eq!(parse(path), None, "{path}");
        }
        assert_eq!(parse("/pictures/%FF/1/1"), None);
    }
}
