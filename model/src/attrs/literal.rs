//! Values that are one literal or a list of literals.

use std::str::FromStr;

use koze_protocol::RequestPattern;
use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::{Expr, Lit, Meta};

use super::Rollout;
use crate::Family;
use crate::backend::Backend;
use crate::image::Image;
use crate::instance;
use crate::kind::Kind;
use crate::names;
use crate::report::Report;
use crate::rules::Rule;
use crate::value::Spanned;

/// The maximum idle time, one year. A container that practically never sleeps would be an unnoticed mistake.
const MAX_SLEEP: u64 = 365 * 24 * 3600;

/// Returns the key of an entry, without `r#`.
pub(super) fn key(meta: &Meta, report: &mut Report) -> Option<(String, Span)> {
    let Some(ident) = meta.path().get_ident() else {
        report.add(Rule::BadAttribute { message: "a key is one word".to_owned() }, meta.path().span());
        return None;
    };
    Some((ident.to_string().trim_start_matches("r#").to_owned(), ident.span()))
}

/// Reports that the value of `key` does not have the form `expected`.
pub(super) fn bad_form<T>(key: &str, expected: &str, span: Span, report: &mut Report) -> Option<T> {
    report.add(Rule::BadForm { key: key.to_owned(), expected: expected.to_owned() }, span);
    None
}

/// Reports a value that is out of range.
pub(super) fn bad_value<T>(
    key: &str,
    found: &str,
    expected: &str,
    span: Span,
    report: &mut Report,
) -> Option<T> {
    report.add(
        Rule::BadValue { key: key.to_owned(), found: found.to_owned(), expected: expected.to_owned() },
        span,
    );
    None
}

/// Returns the value of `key = value`. Unwraps the invisible parentheses that macros add around expressions.
fn value<'a>(key: &str, expected: &str, meta: &'a Meta, report: &mut Report) -> Option<&'a Expr> {
    let Meta::NameValue(pair) = meta else {
        return bad_form(key, expected, meta.path().span(), report);
    };
    let mut expr = &pair.value;
    while let Expr::Group(group) = expr {
        expr = &group.expr;
    }
    Some(expr)
}

/// Returns the literal, or the span of the first token of another expression.
fn lit(expr: &Expr) -> Result<&Lit, Span> {
    match expr {
        Expr::Lit(literal) => Ok(&literal.lit),
        Expr::Group(group) => lit(&group.expr),
        other => Err(other.span()),
    }
}

fn text_of(key: &str, expected: &str, expr: &Expr, report: &mut Report) -> Option<Spanned<String>> {
    match lit(expr) {
        Ok(Lit::Str(text)) if text.suffix().is_empty() => Some(Spanned::new(text.value(), text.span())),
        Ok(other) => bad_form(key, expected, other.span(), report),
        Err(span) => bad_form(key, expected, span, report),
    }
}

fn integer_of(key: &str, expected: &str, expr: &Expr, report: &mut Report) -> Option<Spanned<u64>> {
    match lit(expr) {
        Ok(Lit::Int(number)) if number.suffix().is_empty() || number.suffix().starts_with(['u', 'i']) => {
            match number.base10_digits().parse() {
                Ok(value) => Some(Spanned::new(value, number.span())),
                Err(_) => bad_value(key, number.base10_digits(), expected, number.span(), report),
            }
        }
        Ok(other) => bad_form(key, expected, other.span(), report),
        Err(span) => match expr {
            // syn parses a negative number as an expression, but for its author it is a literal.
            Expr::Unary(unary) if lit(&unary.expr).is_ok() => {
                let found = quote::quote!(#unary).to_string().replace(' ', "");
                bad_value(key, &found, expected, span, report)
            }
            _ => bad_form(key, expected, span, report),
        },
    }
}

/// Parses `key = "text"`.
pub(super) fn text(key: &str, meta: &Meta, report: &mut Report) -> Option<Spanned<String>> {
    let expected = "a string";
    let text = text_of(key, expected, value(key, expected, meta, report)?, report)?;
    if text.value.contains('\0') {
        return bad_value(key, "\\0", "text without NUL", text.span, report);
    }
    Some(text)
}

/// Parses `key = true`.
pub(super) fn boolean(key: &str, meta: &Meta, report: &mut Report) -> Option<Spanned<bool>> {
    let expected = "`true` or `false`";
    let expr = value(key, expected, meta, report)?;
    match lit(expr) {
        Ok(Lit::Bool(value)) => Some(Spanned::new(value.value, value.span())),
        Ok(other) => bad_form(key, expected, other.span(), report),
        Err(span) => bad_form(key, expected, span, report),
    }
}

/// Parses `key = 3`; the value must be at least `least`.
pub(super) fn integer<T: TryFrom<u64>>(
    key: &str,
    meta: &Meta,
    least: u64,
    report: &mut Report,
) -> Option<Spanned<T>> {
    let expected = format!("an integer of at least {least}");
    let number = integer_of(key, &expected, value(key, &expected, meta, report)?, report)?;
    match T::try_from(number.value) {
        Ok(value) if number.value >= least => Some(Spanned::new(value, number.span)),
        Ok(_) => bad_value(key, &number.value.to_string(), &expected, number.span, report),
        Err(_) => bad_value(key, &number.value.to_string(), "a smaller integer", number.span, report),
    }
}

/// Parses `key = 80`, a TCP port.
pub(super) fn port(key: &str, meta: &Meta, report: &mut Report) -> Option<Spanned<u16>> {
    let expected = "a port from 1 to 65535";
    let number = integer_of(key, expected, value(key, expected, meta, report)?, report)?;
    match u16::try_from(number.value) {
        Ok(port) if port > 0 => Some(Spanned::new(port, number.span)),
        _ => bad_value(key, &number.value.to_string(), expected, number.span, report),
    }
}

/// Parses `key = "/healthz"`, the path of a URL with an optional query.
pub(super) fn url_path(key: &str, meta: &Meta, report: &mut Report) -> Option<Spanned<String>> {
    let path = text(key, meta, report)?;
    let is_path = path.value.starts_with('/') && !path.value.starts_with("//");
    let is_plain = path.value.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'#' | b'\\'));
    if is_path && is_plain {
        return Some(path);
    }
    let expected = "the path of a URL, such as `/healthz`";
    bad_value(key, &path.value, expected, path.span, report)
}

/// Parses `key = 0.5` or `key = 1`, greater than zero.
pub(super) fn number(key: &str, meta: &Meta, report: &mut Report) -> Option<Spanned<f64>> {
    let expected = "a number above 0";
    let expr = value(key, expected, meta, report)?;
    let (digits, span) = match lit(expr) {
        Ok(Lit::Int(number)) => (number.base10_digits().to_owned(), number.span()),
        Ok(Lit::Float(number)) => (number.base10_digits().to_owned(), number.span()),
        Ok(other) => return bad_form(key, expected, other.span(), report),
        Err(span) => return bad_form(key, expected, span, report),
    };
    match f64::from_str(&digits) {
        Ok(value) if value > 0.0 && value.is_finite() => Some(Spanned::new(value, span)),
        _ => bad_value(key, &digits, expected, span, report),
    }
}

/// Parses `key = ["a", "b"]` without duplicates.
pub(super) fn texts(key: &str, meta: &Meta, report: &mut Report) -> Option<Spanned<Vec<Spanned<String>>>> {
    let expected = "a list of strings";
    let expr = value(key, expected, meta, report)?;
    let Expr::Array(array) = expr else {
        return bad_form(key, expected, expr.span(), report);
    };
    let mut list: Vec<Spanned<String>> = Vec::new();
    for element in &array.elems {
        let text = text_of(key, expected, element, report)?;
        if list.iter().any(|seen| seen.value == text.value) {
            return bad_value(key, &text.value, "each value once", text.span, report);
        }
        list.push(text);
    }
    Some(Spanned::new(list, meta.path().span()))
}

/// Parses `key = "one of these"`.
pub(super) fn one_of(
    key: &str,
    meta: &Meta,
    choices: &[&str],
    report: &mut Report,
) -> Option<Spanned<String>> {
    let text = text(key, meta, report)?;
    if choices.contains(&text.value.as_str()) {
        return Some(text);
    }
    bad_value(key, &text.value, &format!("one of {}", crate::rules::listed(choices)), text.span, report)
}

/// Parses `key = "an image"`.
pub(super) fn image(key: &str, meta: &Meta, report: &mut Report) -> Option<Spanned<Image>> {
    let text = text(key, meta, report)?;
    match Image::parse(&text.value) {
        Ok(image) => Some(Spanned::new(image, text.span)),
        Err(why) => {
            report.add(Rule::BadImage { image: text.value, why }, text.span);
            None
        }
    }
}

pub(super) fn instance_type(meta: &Meta, report: &mut Report) -> Option<Spanned<String>> {
    let text = text("instance_type", meta, report)?;
    if let Some(new) = instance::successor(&text.value) {
        report.add(Rule::DeprecatedInstance { old: text.value.clone(), new }, text.span);
        return Some(text);
    }
    let types = instance::types();
    if types.contains(&text.value.as_str()) {
        return Some(text);
    }
    let expected = format!("one of {}", crate::rules::listed(&types));
    bad_value("instance_type", &text.value, &expected, text.span, report)
}

/// Parses `sizes = ["lite", "standard-1"]`, instance types that each sandbox may choose from.
pub(super) fn sizes(meta: &Meta, report: &mut Report) -> Option<Spanned<Vec<String>>> {
    let list = texts("sizes", meta, report)?;
    let types = instance::types();
    let expected = format!("a list of {}", crate::rules::listed(&types));
    if list.value.is_empty() {
        return bad_value("sizes", "[]", &expected, list.span, report);
    }
    for name in &list.value {
        if !types.contains(&name.value.as_str()) {
            return bad_value("sizes", &name.value, &expected, name.span, report);
        }
    }
    Some(Spanned::new(list.value.into_iter().map(|name| name.value).collect(), list.span))
}

pub(super) fn container_name(meta: &Meta, report: &mut Report) -> Option<Spanned<String>> {
    let text = text("name", meta, report)?;
    if names::is_container_name(&text.value) {
        return Some(text);
    }
    bad_value("name", &text.value, names::CONTAINER_FORM, text.span, report)
}

/// Parses a duration: `"90s"`, `"10m"`, `"2h"`.
pub(super) fn duration(key: &str, meta: &Meta, report: &mut Report) -> Option<Spanned<String>> {
    let text = text(key, meta, report)?;
    match seconds(&text.value) {
        Some(1..=MAX_SLEEP) => Some(text),
        _ => bad_value(
            key,
            &text.value,
            "a whole number above 0 and `s`, `m` or `h`, a year at most: `\"10m\"`",
            text.span,
            report,
        ),
    }
}

/// Converts a duration, `"90s"`, `"10m"` or `"2h"`, to seconds.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let unit = match text.as_bytes().last()? {
        b's' => 1,
        b'm' => 60,
        b'h' => 3600,
        _ => return None,
    };
    let digits = &text[..text.len() - 1];
    let number =
        if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse::<u64>().ok()? } else { return None };
    number.checked_mul(unit)
}

pub(super) fn tools(meta: &Meta, report: &mut Report) -> Option<Spanned<Vec<Family>>> {
    let list = texts("tools", meta, report)?;
    let mut families = Vec::new();
    for name in &list.value {
        if let Some(family) = Family::find(&name.value).filter(|one| Family::OF_SANDBOXES.contains(one)) {
            families.push(family);
        } else {
            let families = crate::rules::listed(&Family::OF_SANDBOXES.map(Family::name));
            let mut expected = format!("a list of the families {families}");
            if name.value == Family::Script.name() {
                expected.push_str("; scripts need no sandbox: `[package.metadata.koze.script]` in `Cargo.toml` enables them");
            }
            bad_value::<()>("tools", &name.value, &expected, name.span, report);
        }
    }
    Some(Spanned::new(families, list.span))
}

pub(super) fn backend(meta: &Meta, report: &mut Report) -> Option<Spanned<Backend>> {
    let text = text("backend", meta, report)?;
    if let Some(backend) = Backend::of(&text.value) {
        return Some(Spanned::new(backend, text.span));
    }
    report.add(Rule::NoSuchBackend { backend: text.value }, text.span);
    None
}

/// Parses `key = ["program", "argument"]`: at least one word, without NUL characters.
pub(super) fn words(key: &str, meta: &Meta, report: &mut Report) -> Option<Spanned<Vec<String>>> {
    let expected = "a list of strings";
    let expr = value(key, expected, meta, report)?;
    let Expr::Array(array) = expr else {
        return bad_form(key, expected, expr.span(), report);
    };
    let mut list = Vec::new();
    for element in &array.elems {
        let word = text_of(key, expected, element, report)?;
        if word.value.contains('\0') || (list.is_empty() && word.value.is_empty()) {
            return bad_value(
                key,
                &word.value,
                "a program and its arguments, without NUL",
                word.span,
                report,
            );
        }
        list.push(word.value);
    }
    if list.is_empty() {
        return bad_value(key, "[]", "a program and its arguments", meta.path().span(), report);
    }
    Some(Spanned::new(list, meta.path().span()))
}

/// Parses a class name: one Rust identifier.
pub(super) fn class(key: &str, meta: &Meta, report: &mut Report) -> Option<Spanned<String>> {
    let text = text(key, meta, report)?;
    if syn::parse_str::<syn::Ident>(&text.value).is_ok() {
        return Some(text);
    }
    bad_value(key, &text.value, "the former name of the struct", text.span, report)
}

/// Parses the base name of another file.
pub(super) fn base_name(key: &str, meta: &Meta, report: &mut Report) -> Option<Spanned<String>> {
    let text = text(key, meta, report)?;
    if names::is_base_name(&text.value) {
        return Some(text);
    }
    let expected = "the name of another sandbox's file, without `.sandbox.rs`";
    bad_value(key, &text.value, expected, text.span, report)
}

/// Parses a relative path.
pub(super) fn path(key: &str, meta: &Meta, report: &mut Report) -> Option<Spanned<String>> {
    let text = text(key, meta, report)?;
    if text.value.is_empty() || text.value.starts_with('/') || text.value.contains('\\') {
        return bad_value(
            key,
            &text.value,
            "a path relative to the source file, with `/`",
            text.span,
            report,
        );
    }
    Some(text)
}

/// Parses host names, with an optional leading `*.` and an optional port.
pub(super) fn hosts(kind: Kind, key: &str, meta: &Meta, report: &mut Report) -> Option<Spanned<Vec<String>>> {
    let list = texts(key, meta, report)?;
    // A service runs only in a Worker, which cannot read its requests.
    let (is_valid, expected): (fn(&str) -> bool, &str) = match kind {
        Kind::Sandbox => (is_request, REQUEST_FORM),
        Kind::Container => (is_host, HOST_FORM),
    };
    for host in &list.value {
        if !is_valid(&host.value) {
            bad_value::<()>(key, &host.value, expected, host.span, report);
        }
    }
    Some(Spanned::new(list.value.into_iter().map(|host| host.value).collect(), list.span))
}

/// What [`is_request`] accepts, in words.
const REQUEST_FORM: &str = "host names in lower case, without scheme; `*.` may precede one, and a port may follow: \
                            `example.com:8080`; a method may precede it, and a path pattern follow: `GET example.com/v1/**`";

/// Returns whether a text can be an entry of `allowed_hosts` and `denied_hosts` of a sandbox.
pub fn is_request(text: &str) -> bool {
    RequestPattern::split(text).is_some_and(|pattern| is_host(pattern.host))
}

/// What [`is_host`] accepts, in words.
pub const HOST_FORM: &str = "host names in lower case, without scheme or path; `*.` may precede one, and a port may \
                             follow: `example.com:8080`";

/// Returns whether a text can be an entry of `allowed_hosts` and `denied_hosts` without a method and a path.
pub fn is_host(text: &str) -> bool {
    let (name, port) = text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
    let name = name.strip_prefix("*.").unwrap_or(name);
    let is_port = |port: &str| {
        !port.starts_with('0')
            && port.bytes().all(|byte| byte.is_ascii_digit())
            && port.parse::<u16>().is_ok()
    };
    port.is_none_or(is_port)
        && name.len() <= 253
        && name.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        })
}

/// Parses `25` or `[10, 100]`, with the rules of wrangler's validator.
pub(super) fn rollout(meta: &Meta, report: &mut Report) -> Option<Spanned<Rollout>> {
    let key = "rollout_step_percentage";
    let single = "5, 10, 20, 25, 50 or 100";
    let steps = "an ascending list of 10 to 100 that ends in 100";
    let expected = format!("{single}, or {steps}");
    let expr = value(key, &expected, meta, report)?;
    let Expr::Array(array) = expr else {
        let step = integer_of(key, &expected, expr, report)?;
        return match u32::try_from(step.value) {
            Ok(value @ (5 | 10 | 20 | 25 | 50 | 100)) => Some(Spanned::new(Rollout::Every(value), step.span)),
            _ => bad_value(key, &step.value.to_string(), single, step.span, report),
        };
    };
    let mut list: Vec<u32> = Vec::new();
    for element in &array.elems {
        let step = integer_of(key, &expected, element, report)?;
        match u32::try_from(step.value) {
            Ok(value @ 10..=100) if list.last().is_none_or(|last| *last < value) => list.push(value),
            _ => return bad_value(key, &step.value.to_string(), steps, step.span, report),
        }
    }
    if list.last() != Some(&100) {
        return bad_value(key, &format!("{list:?}"), steps, meta.path().span(), report);
    }
    Some(Spanned::new(Rollout::Steps(list), meta.path().span()))
}
