//! Values of a script as JSON, by the engine's own functions.

use rquickjs::{Ctx, Value};

use crate::limits::{NESTING, RESULT};
use crate::protocol::Json;

/// Returns the JSON that `encode.js` has written: undefined is null. Returns `None` if it is too large.
pub(crate) fn written(text: &Value<'_>) -> rquickjs::Result<Option<Json>> {
    let Some(text) = text.as_string() else { return Ok(Some(Json::null())) };
    let text = well_formed(text.to_string()?);
    if text.len() > RESULT || nesting(&text) > NESTING {
        return Ok(None);
    }
    Ok(Json::new(text).ok())
}

/// Converts JSON to a value.
pub(crate) fn value<'js>(ctx: &Ctx<'js>, json: &Json) -> rquickjs::Result<Value<'js>> {
    ctx.json_parse(json.text())
}

/// Returns how deep a JSON text is nested.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Replaces surrogates without a partner by U+FFFD. The engine writes only these, and control characters, as `\u` escapes; text
/// of a host cannot contain them.
fn well_formed(text: String) -> String {
    const ESCAPE: &str = "\\ud";
    if !text.contains(ESCAPE) {
        return text;
    }
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        replaced.push_str(before);
        let length = if escape.starts_with(ESCAPE) { ESCAPE.len() + 3 } else { 2 };
        let (escape, after) = escape.split_at_checked(length).unwrap_or((escape, ""));
        replaced.push_str(if escape.starts_with(ESCAPE) { "\u{fffd}" } else { escape });
        rest = after;
    }
    replaced + rest
}

#[cfg(test)]
mod tests {
    use super::well_formed;

    #[test]
    fn surrogates_without_a_partner_are_replaced() {
        for (text, expected) in [
            (r#""a""#, r#""a""#),
            (r#""\ud800""#, "\"\u{fffd}\""),
            (r#""\\ud800\n\udfffx""#, "\"\\\\ud800\\n\u{fffd}x\""),
            (r#""\\\ud800""#, "\"\\\\\u{fffd}\""),
            (r#""\u0000\ud800\ud800""#, "\"\\u0000\u{fffd}\u{fffd}\""),
        ] {
            assert_eq!(well_formed(text.to_owned()), expected, "{text}");
        }
    }
}
