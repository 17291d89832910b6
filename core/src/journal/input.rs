//! The input of a recorded call: truncated, and with secrets masked.

use serde_json::Value;

use super::mask::mask_value;
use super::{CUT, MAX_INPUT};
use crate::script::Secrets;
use crate::tool::Input;

/// The text of an input, or its beginning. It may contain secrets.
#[derive(Debug)]
pub(super) enum Text {
    /// All of it, which is JSON.
    Whole(String),
    /// Its beginning.
    Cut(String),
}

impl Text {
    /// Copies the beginning of an input.
    pub(super) fn copy(input: &Input) -> Self {
        let text = input.text();
        match text.char_indices().nth(MAX_INPUT) {
            // A mask recognizes the beginning of a secret before this character.
            Some((end, _)) => Text::Cut(format!("{}{CUT}", &text[..end])),
            None => Text::Whole(text.to_owned()),
        }
    }

    /// Returns whether it was truncated.
    pub(super) fn is_cut(&self) -> bool {
        matches!(self, Text::Cut(_))
    }

    /// Masks secrets. Returns whether there were any. A truncated input becomes a string.
    pub(super) fn mask(self, secrets: &Secrets) -> (Input, bool) {
        let (text, value) = match self {
            // The values are masked, and not the text, so that the result is JSON.
            Text::Whole(text) => match serde_json::from_str(&text) {
                Ok(value) => (text, value),
                Err(_) => (text.clone(), Value::String(text)),
            },
            Text::Cut(text) => (String::new(), Value::String(text)),
        };
        let masked = mask_value(secrets, value.clone());
        if masked != value {
            return (masked.into(), true);
        }
        // The text is what the client has sent: a value may have rounded its numbers.
        (Input::read(text.as_bytes()).unwrap_or_else(|_| value.into()), false)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secrets(secrets: &[(&str, &str)]) -> Secrets {
        secrets.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn masked(text: &str, known: &[(&str, &str)]) -> (String, bool) {
        let input = Input::read(text.as_bytes()).unwrap();
        let (input, masked) = Text::copy(&input).mask(&secrets(known));
        (input.text().to_owned(), masked)
    }

    #[test]
    fn a_short_input_stays_as_it_is() {
        let text = r#"{"command":"echo \u0007","number":12345678901234567890,"n":100.0}"#;
        assert_eq!(masked(text, &[]), (text.to_owned(), false));
        assert_eq!(masked(text, &[("KEY", "not-in-it")]), (text.to_owned(), false));
    }

    #[test]
    fn a_long_input_is_truncated_between_characters() {
        let text = json!({ "content": "ü".repeat(MAX_INPUT) }).to_string();
        let input = Input::read(text.as_bytes()).unwrap();
        let copied = Text::copy(&input);
        assert!(copied.is_cut());
        let (input, masked) = copied.mask(&Secrets::default());
        let kept: String = serde_json::from_str(input.text()).unwrap();
        assert!(!masked && kept.starts_with(r#"{"content":"üü"#) && kept.ends_with("ü…"), "{kept}");
        assert_eq!(kept.chars().count(), MAX_INPUT + 1);
        let exactly = json!({ "c": "x".repeat(MAX_INPUT - r#"{"c":""}"#.len()) }).to_string();
        assert!(!Text::copy(&Input::read(exactly.as_bytes()).unwrap()).is_cut());
    }

    #[test]
    fn secrets_are_masked() {
        let text = r#"{"command":"curl -H 'x: long-secret'","list":["long-secret"]}"#;
        let expected = r#"{"command":"curl -H 'x: [secret KEY]'","list":["[secret KEY]"]}"#;
        assert_eq!(masked(text, &[("KEY", "long-secret")]), (expected.to_owned(), true));
    }

    #[cfg(feature = "script")]
    #[test]
    fn the_beginning_of_a_secret_at_the_end_of_a_truncated_input_is_masked() {
        let filled = MAX_INPUT - r#"{"c":""#.len() - 6;
        let text = json!({ "c": format!("{}long-secret{}", "x".repeat(filled), "y".repeat(50)) }).to_string();
        let (input, masked) = masked(&text, &[("KEY", "long-secret")]);
        assert!(masked && input.ends_with("xxx[secret KEY]…\""), "{}", &input[input.len() - 40..]);
        // A number is masked, too, and the result is JSON.
        let (input, masked) = super::tests::masked(r#"{"pin":123456789}"#, &[("PIN", "123456789")]);
        assert_eq!((input.as_str(), masked), (r#"{"pin":"[secret PIN]"}"#, true));
    }
}
