//! The pictures in results, which are recorded apart from the texts.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::{Content, PICTURES};

/// The largest picture that is kept, in bytes.
pub const MAX_PICTURE: usize = 2 << 20;
/// How many pictures of a call are kept.
pub const MAX_PICTURES: usize = 8;

/// The longest base64 of a picture of [`MAX_PICTURE`] bytes.
const MAX_BASE64: usize = MAX_PICTURE.div_ceil(3) * 4;

/// The record of a picture in a result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PictureRecord {
    /// The media type that the tool named.
    pub media_type: String,
    /// The size of the picture in bytes.
    pub bytes: u64,
    /// Whether the journal kept it. It removes the oldest pictures first, and then the record stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
}

/// A picture as a tool returned it. Nothing was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedPicture {
    /// Its place in [`CallRecord::pictures`](super::CallRecord::pictures).
    pub index: usize,
    /// The picture in base64.
    pub base64: String,
}

/// A picture in a result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'a> {
    media_type: &'a str,
    base64: &'a str,
}

impl Found<'_> {
    /// Returns whether a text of the result is this picture, and not one that is equal.
    pub(super) fn is(&self, text: &str) -> bool {
        std::ptr::eq(self.base64, text)
    }
}

/// Finds the pictures that models see as such.
pub(super) fn find(content: &Content) -> Vec<Found<'_>> {
    match content {
        Content::Picture(value) => {
            let base64 = value.get("image").and_then(Value::as_str);
            base64.map(|base64| Found { media_type: "image/png", base64 }).into_iter().collect()
        }
        Content::Outputs(value) => {
            let outputs = value.get("outputs").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            outputs.iter().filter_map(find_output).collect()
        }
        Content::Json(_) | Content::Text(_) => Vec::new(),
    }
}

fn find_output(output: &Value) -> Option<Found<'_>> {
    let media_type = output.get("mime")?.as_str()?;
    let base64 = output.get("data")?.as_str()?;
    PICTURES.contains(&media_type).then_some(Found { media_type, base64 })
}

/// Returns the text that stands for a picture in a result.
pub(super) fn placeholder(index: usize) -> String {
    format!("[picture {}]", index + 1)
}

/// Describes a picture.
pub(super) fn describe(found: &Found<'_>) -> PictureRecord {
    let digits = found.base64.trim_end_matches('=').len() as u64;
    PictureRecord { media_type: found.media_type.to_owned(), bytes: digits * 3 / 4, kept: false }
}

/// Copies the pictures that are not too large.
pub(super) fn copy(found: &[Found<'_>]) -> Vec<EncodedPicture> {
    let small = found.iter().enumerate().filter(|(_, found)| found.base64.len() <= MAX_BASE64);
    let copied = small.map(|(index, found)| EncodedPicture { index, base64: found.base64.to_owned() });
    copied.take(MAX_PICTURES).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_are_those_of_the_pictures() {
        for (base64, bytes) in [("", 0), ("QQ==", 1), ("QUI=", 2), ("QUJD", 3), ("QUJDRA==", 4)] {
            assert_eq!(describe(&Found { media_type: "image/png", base64 }).bytes, bytes, "{base64}");
        }
    }

    #[test]
    fn large_and_many_pictures_are_only_described() {
        let large = "A".repeat(MAX_BASE64 + 4);
        let output = |data: &str| json!({ "type": "display", "mime": "image/png", "data": data });
        let outputs: Vec<_> = [large.as_str()].into_iter().chain(["AAAA"; 20]).map(output).collect();
        let content = Content::Outputs(json!({ "outputs": outputs }));
        let found = find(&content);
        let copied: Vec<_> = copy(&found).iter().map(|picture| picture.index).collect();
        assert_eq!((found.len(), copied), (21, (1..=MAX_PICTURES).collect()));
    }
}
