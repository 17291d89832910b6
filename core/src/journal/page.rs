//! A page of the journal, as the HTTP routes return it.

use serde::{Deserialize, Serialize};

use super::CallRecord;
use crate::error::{Code, Error, Result};

/// How many calls a page has, unless the request says otherwise.
const DEFAULT_LIMIT: u64 = 100;
/// How many calls a page has at most.
const MAX_LIMIT: u64 = 1000;

/// A request for a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PageRequest {
    /// The oldest calls after this ID. By default, the newest calls.
    pub since: Option<u64>,
    /// At most this many calls.
    pub limit: u64,
}

impl PageRequest {
    /// Parses the parameters of a URL.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if one of them is not valid.
    pub fn parse(since: Option<&str>, limit: Option<&str>) -> Result<Self> {
        let since = since.map(|since| {
            since.parse().map_err(|_| {
                Error::new(Code::InvalidInput, "`since` must be the ID of a call, such as the last `next`")
            })
        });
        let limit = limit.map_or(Some(DEFAULT_LIMIT), |limit| limit.parse().ok());
        let Some(limit) = limit.filter(|limit| (1..=MAX_LIMIT).contains(limit)) else {
            let message = format!("`limit` must be a number from 1 to {MAX_LIMIT}");
            return Err(Error::new(Code::InvalidInput, message));
        };
        Ok(PageRequest { since: since.transpose()?, limit })
    }
}

/// A page: calls, the newest last, and where the next page begins.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Page {
    /// The calls.
    pub calls: Vec<CallRecord>,
    /// The `since` of the next request.
    pub next: u64,
}

impl Page {
    /// Creates the page that answers a request.
    pub fn new(request: PageRequest, calls: Vec<CallRecord>) -> Self {
        let next = calls.last().map_or(request.since.unwrap_or(0), |last| last.id);
        Page { calls, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_parsed() {
        let parse = |since, limit| PageRequest::parse(since, limit).map_err(|error| error.message);
        assert_eq!(parse(None, None), Ok(PageRequest { since: None, limit: 100 }));
        assert_eq!(parse(Some("7"), Some("1000")), Ok(PageRequest { since: Some(7), limit: 1000 }));
        for since in ["", "-1", "x"] {
            assert!(parse(Some(since), None).unwrap_err().starts_with("`since` must be the ID"), "{since}");
        }
        for limit in ["", "0", "1001", "x"] {
            assert_eq!(parse(None, Some(limit)), Err("`limit` must be a number from 1 to 1000".to_owned()));
        }
    }

    #[test]
    fn a_page_says_where_the_next_one_begins() {
        let request = PageRequest { since: Some(7), limit: 1 };
        assert_eq!(Page::new(request, Vec::new()).next, 7);
    }
}
