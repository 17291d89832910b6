//! The journal of tool calls: which tools were called, by whom, in which sandboxes, and how that ended.
//!
//! Calls are recorded at one place, [`Catalog::call`](crate::tool::Catalog::call), so that all hosts record the same. A provider
//! decides where the records go: [`Provider::record_call`](crate::Provider::record_call).
//!
//! | module | job |
//! |---|---|
//! | `recording` | follows a call until it ends |
//! | `input` | truncates inputs |
//! | `result` | truncates results |
//! | `mask` | masks secrets in both |
//! | `pictures` | takes pictures out of results |
//! | `page` | a page of the journal, as the HTTP routes return it |

mod input;
mod mask;
mod page;
mod pictures;
mod recording;
mod result;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::page::{Page, PageRequest};
pub use self::pictures::{EncodedPicture, MAX_PICTURE, MAX_PICTURES, PictureRecord};
pub(crate) use self::recording::{Recording, UsedSandboxes};
use crate::script::Secrets;
use crate::tool::Input;

/// The longest input that is recorded, in characters.
pub const MAX_INPUT: usize = 2000;
/// The longest result that is recorded, in characters of its texts.
pub const MAX_RESULT: usize = 4000;
/// The end of a truncated text.
const CUT: char = '…';
/// The longest name of a tool or client that is recorded, in characters.
const MAX_NAME: usize = 100;

/// What the journal of a project records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalSettings {
    /// Whether calls are recorded.
    pub enabled: bool,
    /// Whether their inputs are recorded, too.
    pub inputs: bool,
    /// Whether their results are recorded, too.
    pub results: bool,
}

impl Default for JournalSettings {
    fn default() -> Self {
        JournalSettings { enabled: true, inputs: true, results: true }
    }
}

impl JournalSettings {
    /// Returns whether these are the defaults.
    pub fn is_default(&self) -> bool {
        *self == JournalSettings::default()
    }
}

/// The record of a tool call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CallRecord {
    /// The number of the call, which grows with time. The journal assigns it; 0 before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub id: u64,
    /// When the call started, in milliseconds since 1970.
    pub time: u64,
    /// The session.
    pub session: String,
    /// The name of the client, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The family of the tool, if the tool exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<Cow<'static, str>>,
    /// The tool.
    pub tool: String,
    /// The sandboxes that the tool used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sandboxes: Vec<String>,
    /// The input, with secrets masked. A string if it was truncated. `None` if inputs are not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "serde_json::Value"))]
    pub input: Option<Input>,
    /// Whether the input was truncated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub input_cut: bool,
    /// Whether secrets were masked in the input.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub input_masked: bool,
    /// The size of the whole input in bytes.
    pub input_bytes: u64,
    /// How the call ended: [`OK`], [`FAILED`], [`CANCELED`], or the code of its error.
    pub outcome: Cow<'static, str>,
    /// The exit code of the tool's program, if its result has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// How long the call took, in milliseconds.
    pub duration_ms: u64,
    /// The result, with secrets masked. Its texts and lists may be truncated. `None` if results are not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Whether the result was truncated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub result_cut: bool,
    /// The pictures in the result. In `result`, `[picture 1]` stands for the first one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<PictureRecord>,
    /// The size of the whole result's texts in bytes.
    pub result_bytes: u64,
    /// How many calls before this one were not recorded, because the journal could not keep up.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

/// The outcome of a call that succeeded.
pub const OK: &str = "ok";
/// The outcome of a call whose result is reported as an error, such as a command with a nonzero exit code.
pub const FAILED: &str = "failed";
/// The outcome of a call that was canceled.
pub const CANCELED: &str = "canceled";

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A call that ended, whose input and result may contain secrets. It must not be stored before it is masked.
#[derive(Debug)]
pub struct UnmaskedCall {
    record: CallRecord,
    input: Option<input::Text>,
    result: Option<Value>,
    /// The pictures in the result, if the provider keeps them.
    pictures: Vec<EncodedPicture>,
    /// The secrets that sandbox attributes declare.
    declared: Vec<(String, String)>,
}

impl UnmaskedCall {
    /// Returns the size of the pictures that wait to be kept, in bytes of their base64.
    pub fn pictures_size(&self) -> usize {
        self.pictures.iter().map(|picture| picture.base64.len()).sum()
    }

    /// Takes the pictures of the result, in the order of [`CallRecord::pictures`]. They are not masked, because they are not text. A
    /// provider that keeps one sets [`PictureRecord::kept`].
    pub fn take_pictures(&mut self) -> Vec<EncodedPicture> {
        std::mem::take(&mut self.pictures)
    }

    /// Masks secrets in the input and the result: `secrets`, and those that sandbox attributes declare. Both are left out if `secrets`
    /// is `None`, because they could not be read.
    pub fn mask(self, secrets: Option<&Secrets>) -> CallRecord {
        let UnmaskedCall { mut record, input, result, pictures: _, declared } = self;
        let Some(secrets) = secrets else { return record };
        let known = secrets.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let secrets = known.chain(declared).collect();
        if let Some(input) = input {
            record.input_cut = input.is_cut();
            let (input, masked) = input.mask(&secrets);
            record.input = Some(input);
            record.input_masked = masked;
        }
        record.result = result.map(|result| mask::mask_value(&secrets, result));
        record
    }
}

impl From<CallRecord> for UnmaskedCall {
    /// A record that needs no masking.
    fn from(record: CallRecord) -> Self {
        UnmaskedCall { record, input: None, result: None, pictures: Vec::new(), declared: Vec::new() }
    }
}

/// Truncates a name.
fn truncate_name(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
