//! The parts of a URL.

use koze_core::{Code, Error};
use percent_encoding::percent_decode_str;

/// Decodes a part of a path.
pub(super) fn decoded(part: &str) -> Result<String, Error> {
    let decoded = percent_decode_str(part).decode_utf8();
    let wrong = |_| Error::new(Code::InvalidInput, "a decoded part of the URL is not valid UTF-8");
    decoded.map(Into::into).map_err(wrong)
}
