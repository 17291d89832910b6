//! Removes the values of credentials from responses: a server may repeat what it was sent.
//!
//! A value is replaced by as many `*`, so that the length of a body stays the same. A server that returns a value in another form than
//! those of [`Mask::new`], or in parts, can return it all the same.

use std::fmt::Write as _;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use memchr::memmem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::credential::{Key, Placement};
use super::decide::RESERVED;
use super::host::Host;
use super::policy::Policy;

/// What Python's `quote` encodes.
const QUOTE: &AsciiSet = &RESERVED.remove(b'/');
/// What JavaScript's `encodeURIComponent` encodes.
const COMPONENT: &AsciiSet = &RESERVED.remove(b'!').remove(b'\'').remove(b'(').remove(b')').remove(b'*');
/// What JavaScript's `encodeURI` encodes.
const URI: &AsciiSet = &COMPONENT
    .remove(b';')
    .remove(b'/')
    .remove(b'?')
    .remove(b':')
    .remove(b'@')
    .remove(b'&')
    .remove(b'=')
    .remove(b'+')
    .remove(b'$')
    .remove(b',')
    .remove(b'#');
/// What forms encode. They write a space as `+`. Source: <https://url.spec.whatwg.org/#concept-urlencoded-serializer>.
const FORM: &AsciiSet = &RESERVED.add(b'~').remove(b'*');

/// The forms of the values to mask.
#[derive(Clone, Default)]
pub struct Mask {
    forms: Vec<Vec<u8>>,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mask").field("forms", &self.forms.len()).finish()
    }
}

impl Mask {
    /// Creates a mask of values, each with the user of `Basic`, if any: as they are, percent-encoded as common encoders do it, in JSON,
    /// in base64 and in hexadecimal.
    pub fn new<'a>(values: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Self {
        let mut forms: Vec<Vec<u8>> = Vec::new();
        for (value, user) in values {
            let json = serde_json::Value::from(value).to_string();
            let mut of_value = vec![
                value.to_owned(),
                json[1..json.len() - 1].to_owned(),
                json[1..json.len() - 1].replace('/', "\\/"),
                STANDARD.encode(value).trim_end_matches('=').to_owned(),
                URL_SAFE_NO_PAD.encode(value),
                to_hex(value.as_bytes()),
                to_hex(value.as_bytes()).to_ascii_uppercase(),
            ];
            of_value.extend(percent_encoded(value));
            of_value.extend(
                user.map(|user| STANDARD.encode(format!("{user}:{value}")).trim_end_matches('=').to_owned()),
            );
            for form in of_value.into_iter().map(String::into_bytes) {
                if !forms.contains(&form) {
                    forms.push(form);
                }
            }
        }
        Mask { forms }
    }

    /// Creates the mask for responses of a port of a host: the values of the credentials that are for it.
    pub fn of_host(policy: &Policy, host: &Host, port: u16, keys: &[Key]) -> Self {
        let covering = policy.declared_keys(keys).filter(|(declared, _)| declared.covers(host, port));
        let values = covering.flat_map(|(declared, key)| {
            let value = key.value.as_deref().unwrap_or_default();
            let (separator, user) = match &declared.credential.placement {
                Placement::Basic { user } => (None, Some(user.as_str())),
                // Between the two parts of an access key.
                Placement::Sigv4 { .. } => (Some(':'), None),
                _ => (None, None),
            };
            value.split(move |c| Some(c) == separator).map(move |value| (value, user))
        });
        Mask::new(values.filter(|(value, _)| value.chars().count() >= super::MIN_VALUE))
    }

    /// Returns whether there is nothing to mask.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Masks a whole text. Returns `None` if nothing is in it.
    pub fn mask(&self, text: &[u8]) -> Option<Vec<u8>> {
        let found = self.find(text);
        if found.is_empty() {
            return None;
        }
        let mut masked = text.to_vec();
        for range in found {
            masked[range].fill(b'*');
        }
        Some(masked)
    }

    /// Returns where values are. The ranges may overlap.
    fn find(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for form in &self.forms {
            let finder = memmem::Finder::new(form);
            let mut from = 0;
            while let Some(at) = finder.find(&text[from..]) {
                found.push(from + at..from + at + form.len());
                from += at + 1;
            }
        }
        found
    }

    /// Returns the length of the longest end of a text with which a value begins.
    fn open_end(&self, text: &[u8]) -> usize {
        let longest = |form: &Vec<u8>| {
            let most = (form.len() - 1).min(text.len());
            (1..=most).rev().find(|length| text[text.len() - length..] == form[..*length])
        };
        self.forms.iter().filter_map(longest).max().unwrap_or(0)
    }
}

/// Returns a value as encoders of URLs and forms write it. They differ in what they leave as it is, and in the case of digits.
fn percent_encoded(value: &str) -> Vec<String> {
    let sets = [NON_ALPHANUMERIC, RESERVED, QUOTE, COMPONENT, URI, FORM];
    let mut all: Vec<String> = sets.iter().map(|set| utf8_percent_encode(value, set).to_string()).collect();
    let with_plus: Vec<String> = all.iter().map(|text| text.replace("%20", "+")).collect();
    all.extend(with_plus);
    all.push(value.bytes().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "%{byte:02X}");
        text
    }));
    let lower: Vec<String> = all.iter().map(|text| with_lowercase_digits(text)).collect();
    all.extend(lower);
    all
}

/// Returns a percent-encoded text with lowercase digits. Each `%` in it is followed by two of them.
fn with_lowercase_digits(text: &str) -> String {
    let mut parts = text.split('%');
    let mut lower = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        lower.extend(["%", &digits.to_ascii_lowercase(), rest]);
    }
    lower
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Masks a body, piece by piece. It holds back only what may be the beginning of a value.
#[derive(Debug, Clone)]
pub struct StreamMask {
    mask: Mask,
    /// What is held back, unmasked.
    held: Vec<u8>,
    /// How many bytes of it belong to a value that was found.
    covered: usize,
}

impl StreamMask {
    /// Creates one for a body.
    pub fn new(mask: Mask) -> Self {
        StreamMask { mask, held: Vec::new(), covered: 0 }
    }

    /// Takes a piece of the body, and returns what can be passed on.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(piece);
        let cut = self.held.len() - self.mask.open_end(&self.held);
        self.take(cut)
    }

    /// Returns the rest, after the last piece.
    pub fn finish(&mut self) -> Vec<u8> {
        self.take(self.held.len())
    }

    /// Returns whether anything is held back.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns how many bytes are held back.
    pub fn held_length(&self) -> usize {
        self.held.len()
    }

    fn take(&mut self, cut: usize) -> Vec<u8> {
        if cut == 0 {
            return Vec::new();
        }
        let mut found = self.mask.find(&self.held);
        found.push(0..self.covered);
        let mut masked = self.held[..cut].to_vec();
        for range in &found {
            let end = range.end.min(cut);
            if range.start < end {
                masked[range.start..end].fill(b'*');
            }
        }
        self.covered = found
            .iter()
            .filter(|range| range.start < cut)
            .map(|range| range.end)
            .max()
            .unwrap_or(0)
            .saturating_sub(cut);
        self.held.drain(..cut);
        masked
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALUE: &str = "s3cr3t/+v\"alue";

    fn mask() -> Mask {
        Mask::new([(VALUE, Some("user")), ("abababab", None)].into_iter())
    }

    #[test]
    fn forms_are_masked_with_the_same_length() {
        let json = serde_json::Value::from(VALUE).to_string();
        for text in [
            VALUE.to_owned(),
            json[1..json.len() - 1].to_owned(),
            STANDARD.encode(VALUE),
            STANDARD.encode(format!("user:{VALUE}")),
            utf8_percent_encode(VALUE, NON_ALPHANUMERIC).to_string(),
        ] {
            let masked = mask().mask(format!("<{text}>").as_bytes()).expect(&text);
            assert_eq!(masked.len(), text.len() + 2);
            // The padding of base64 is left.
            let left = masked.iter().filter(|byte| !matches!(byte, b'*' | b'=' | b'<' | b'>')).count();
            assert_eq!(left, 0, "{masked:?}");
        }
        assert_eq!(mask().mask(b"s3cr3t"), None);
    }

    /// The texts are those of the encoders themselves.
    #[test]
    fn percent_encoded_values_are_masked() {
        let mask = Mask::new([("a b/c+d=e!~*\u{e4}", None)].into_iter());
        for (encoder, text) in [
            ("Python's quote", "a%20b/c%2Bd%3De%21~%2A%C3%A4"),
            ("Python's quote without safe characters", "a%20b%2Fc%2Bd%3De%21~%2A%C3%A4"),
            ("Python's quote_plus", "a+b%2Fc%2Bd%3De%21~%2A%C3%A4"),
            ("JavaScript's encodeURIComponent", "a%20b%2Fc%2Bd%3De!~*%C3%A4"),
            ("JavaScript's encodeURI", "a%20b/c+d=e!~*%C3%A4"),
            ("JavaScript's URLSearchParams", "a+b%2Fc%2Bd%3De%21%7E*%C3%A4"),
            ("every byte", "%61%20%62%2F%63%2B%64%3D%65%21%7E%2A%C3%A4"),
            ("lowercase digits", "a%20b%2fc%2bd%3de%21~%2a%c3%a4"),
        ] {
            assert_eq!(mask.mask(text.as_bytes()), Some(vec![b'*'; text.len()]), "{encoder}");
        }
    }

    #[test]
    fn nothing_is_held_back_without_need() {
        let mut stream = StreamMask::new(mask());
        assert_eq!(stream.push(b"data: one\n\n"), b"data: one\n\n");
        assert_eq!(stream.push(b"s3cr3t"), b"");
        assert_eq!(stream.push(b" other"), b"s3cr3t other");
        assert!(!stream.is_holding());
    }

    proptest! {
        /// Wherever a body is divided, the result is that of the whole body.
        #[test]
        fn borders_of_pieces_do_not_matter(
            parts in proptest::collection::vec(prop_oneof![
                Just(VALUE.to_owned()), Just("abababab".to_owned()), Just("ab".to_owned()), Just("aba".to_owned()),
                Just("s3cr3t/".to_owned()), Just(STANDARD.encode(VALUE)), "[a-z ]{0,5}",
            ], 0..12),
            sizes in proptest::collection::vec(1_usize..9, 1..8),
        ) {
            let body = parts.concat().into_bytes();
            let whole = mask().mask(&body).unwrap_or_else(|| body.clone());
            let (mut stream, mut masked, mut at, mut turn) = (StreamMask::new(mask()), Vec::new(), 0, 0);
            while at < body.len() {
                let end = (at + sizes[turn % sizes.len()]).min(body.len());
                masked.extend(stream.push(&body[at..end]));
                (at, turn) = (end, turn + 1);
            }
            masked.extend(stream.finish());
            prop_assert_eq!(String::from_utf8_lossy(&masked), String::from_utf8_lossy(&whole));
            prop_assert!(!masked.windows(VALUE.len()).any(|part| part == VALUE.as_bytes()));
        }
    }
}
