//! The result of a recorded call: truncated, and without its pictures.

use serde_json::{Map, Value};

use super::pictures::Found;
use super::{CUT, MAX_RESULT, pictures};
use crate::error::Result;
use crate::tool::{Content, Reply};

/// The copy of a result.
pub(super) struct Copied<'a> {
    /// Its beginning.
    pub(super) value: Value,
    /// Whether something was left out. Pictures do not count.
    pub(super) is_cut: bool,
    /// The pictures, for which the value has their numbers.
    pub(super) pictures: Vec<Found<'a>>,
}

/// Copies the beginning of a result, or the message of an error.
pub(super) fn copy(outcome: &Result<Reply>) -> Copied<'_> {
    let pictures = outcome.as_ref().map_or_else(|_| Vec::new(), |reply| pictures::find(&reply.content));
    let mut copy = Copy { left: MAX_RESULT, is_cut: false, pictures: &pictures };
    let value = match outcome {
        Err(error) => copy.text(&error.message).into(),
        Ok(reply) => match &reply.content {
            Content::Text(text) => copy.text(text).into(),
            Content::Json(value) | Content::Picture(value) | Content::Outputs(value) => copy.value(value),
        },
    };
    let is_cut = copy.is_cut;
    Copied { value, is_cut, pictures }
}

/// Copies values until their texts have a number of characters.
struct Copy<'a> {
    left: usize,
    is_cut: bool,
    pictures: &'a [Found<'a>],
}

impl Copy<'_> {
    fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => match self.pictures.iter().position(|found| found.is(text)) {
                Some(index) => self.text(&pictures::placeholder(index)).into(),
                None => self.text(text).into(),
            },
            Value::Array(items) => {
                let mut copied = Vec::new();
                for item in items {
                    if !self.has_room() {
                        break;
                    }
                    copied.push(self.value(item));
                }
                copied.into()
            }
            Value::Object(fields) => {
                let mut copied = Map::new();
                for (key, field) in fields {
                    if !self.has_room() {
                        break;
                    }
                    self.left = self.left.saturating_sub(key.len());
                    copied.insert(key.clone(), self.value(field));
                }
                copied.into()
            }
            other => {
                self.left = self.left.saturating_sub(1);
                other.clone()
            }
        }
    }

    fn has_room(&mut self) -> bool {
        self.is_cut |= self.left == 0;
        self.left > 0
    }

    fn text(&mut self, text: &str) -> String {
        let Some((end, _)) = text.char_indices().nth(self.left) else {
            self.left -= text.chars().count();
            return text.to_owned();
        };
        (self.left, self.is_cut) = (0, true);
        // A mask recognizes the beginning of a secret before this character.
        format!("{}{CUT}", &text[..end])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::{Code, Error};

    fn copied(content: Content) -> (Value, bool) {
        let reply = Ok(Reply { content, is_error: false });
        let copied = copy(&reply);
        (copied.value, copied.is_cut)
    }

    #[test]
    fn a_short_result_stays_as_it_is() {
        let value = json!({ "stdout": "a\n", "exit_code": 0, "list": [1, null, { "b": true }] });
        assert_eq!(copied(Content::Json(value.clone())), (value, false));
        assert_eq!(copied(Content::Text("a".into())), (json!("a"), false));
        let error = Err(Error::new(Code::NotFound, "there is no file"));
        assert_eq!(copy(&error).value, json!("there is no file"));
        let exact = "ü".repeat(MAX_RESULT);
        assert_eq!(copied(Content::Text(exact.clone())), (json!(exact), false));
    }

    #[test]
    fn a_long_result_is_truncated_and_stays_json() {
        let text = |length: usize| "ü".repeat(length);
        assert_eq!(
            copied(Content::Text(text(MAX_RESULT + 1))),
            (json!(format!("{}…", text(MAX_RESULT))), true)
        );
        let value = json!({ "stdout": text(MAX_RESULT), "stderr": "b", "exit_code": 0 });
        let expected = json!({ "stdout": format!("{}…", text(MAX_RESULT - "stdout".len())) });
        assert_eq!(copied(Content::Json(value)), (expected, true));
        let (list, is_cut) = copied(Content::Json(json!(vec![1; MAX_RESULT + 1])));
        assert_eq!((list.as_array().unwrap().len(), is_cut), (MAX_RESULT, true));
    }

    #[test]
    fn pictures_have_numbers_and_take_no_room() {
        let long = "A".repeat(10 * MAX_RESULT);
        let value = json!({ "image": long, "width": 1 });
        let expected = json!({ "image": "[picture 1]", "width": 1 });
        assert_eq!(copied(Content::Picture(value.clone())), (expected, false));
        // In another result, a long text is a text.
        assert!(copied(Content::Json(value)).1);
        let outputs = json!([
            { "type": "stdout", "text": "a" },
            { "type": "display", "mime": "image/png", "data": long },
            { "type": "display", "mime": "image/svg+xml", "data": "<svg/>" },
            { "type": "display", "mime": "image/jpeg", "data": "BBBB" },
        ]);
        let (value, is_cut) = copied(Content::Outputs(json!({ "exit_code": 0, "outputs": outputs })));
        let data: Vec<_> =
            value["outputs"].as_array().unwrap().iter().map(|output| &output["data"]).collect();
        assert_eq!(data, [&Value::Null, &json!("[picture 1]"), &json!("<svg/>"), &json!("[picture 2]")]);
        assert!(!is_cut);
    }
}
