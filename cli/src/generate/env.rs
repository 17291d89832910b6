//! Generates the accessors of `Env` for bindings that belong to no sandbox.

use std::collections::HashSet;

use koze_model::Sandbox;
use koze_model::names::accessor::accessors;

use super::template::Fill;
use crate::wrangler::bindings::kinds::Gives;
use crate::wrangler::bindings::{self, Bindings, Level, Use};

/// The Rust type of a JavaScript value.
const VALUE: &str = "::koze::__private::worker::wasm_bindgen::JsValue";

/// Returns the template values for each binding, ordered by name. The bindings of sandboxes have their own accessors.
pub(super) fn fills(bindings: &Bindings, sandboxes: &[Sandbox]) -> Vec<Fill> {
    let own: HashSet<&str> = sandboxes.iter().map(|sandbox| sandbox.names.binding.as_str()).collect();
    let list: Vec<(&str, &[Use])> = bindings
        .list
        .iter()
        .filter(|(name, _)| !own.contains(*name))
        .map(|(name, uses)| (*name, uses.as_slice()))
        .collect();
    let prefixed: Vec<(&str, &str)> =
        list.iter().map(|(name, uses)| (*name, accessor_prefix(uses))).collect();
    let accessors = accessors(&prefixed, sandboxes.iter().map(|sandbox| sandbox.names.accessor.as_str()));
    list.into_iter()
        .zip(accessors)
        .map(|((name, uses), accessor)| accessor_fill(name, accessor, uses, &bindings.levels))
        .collect()
}

/// Returns the accessor prefix of the binding kind, if it has one.
fn accessor_prefix(uses: &[Use]) -> &'static str {
    match uses {
        [first, rest @ ..] if rest.iter().all(|one| one.kind == first.kind) => first.kind.prefix,
        _ => "binding",
    }
}

fn accessor_fill(name: &str, accessor: String, uses: &[Use], levels: &[Level]) -> Fill {
    let (form, ty, method) = match bindings::gives(uses) {
        Gives::Object(ty, method) => ("object", ty, method),
        Gives::Secret => ("object", "Secret", "secret"),
        Gives::Text => ("value", "::std::string::String", "text"),
        Gives::Number => ("value", "f64", "number"),
        Gives::Boolean => ("value", "bool", "boolean"),
        Gives::Json => ("json", "", ""),
        Gives::Raw => ("value", VALUE, "raw"),
    };
    let mut fill = Fill {
        holes: vec![
            ("__KOZE_DOC__", describe_binding(name, uses)),
            ("__KOZE_ACCESSOR__", accessor),
            ("__KOZE_BINDING__", name.escape_debug().to_string()),
            ("__KOZE_TYPE__", ty.to_owned()),
            ("__KOZE_METHOD__", method.to_owned()),
        ],
        regions: vec![form],
    };
    if method == "raw" {
        fill.regions.push("raw");
    }
    if let Some(sentence) = describe_levels(uses, levels) {
        fill.holes.push(("__KOZE_LEVELS__", sentence));
        fill.regions.push("partial");
    }
    fill
}

/// Describes the levels that have or lack a binding, unless all levels have it.
fn describe_levels(uses: &[Use], levels: &[Level]) -> Option<String> {
    let bound: HashSet<usize> = uses.iter().map(|one| one.level).collect();
    let (there, missing): (Vec<usize>, Vec<usize>) =
        (0..levels.len()).partition(|level| bound.contains(level));
    let places = |list: &[usize]| {
        join_with_and(&list.iter().map(|level| describe_level(levels[*level])).collect::<Vec<_>>())
    };
    match missing.len() {
        0 => None,
        few if few < there.len() => Some(format!("It is not bound {}.", places(&missing))),
        _ => Some(format!("It is bound {} alone.", places(&there))),
    }
}

/// Describes a binding in one sentence.
fn describe_binding(name: &str, uses: &[Use]) -> String {
    let mut nouns: Vec<String> = Vec::new();
    for one in uses {
        let noun = if one.kind.keys.is_empty() {
            format!("{} binding", code(one.key))
        } else {
            one.kind.noun.to_owned()
        };
        if !nouns.contains(&noun) {
            nouns.push(noun);
        }
    }
    match nouns.as_slice() {
        [noun] => format!("The {noun} {}.", code(name)),
        several => format!("The {} {}, as the environment has it.", several.join(" or "), code(name)),
    }
}

fn describe_level(level: Level) -> String {
    match level {
        Level { environment: None, previews: false } => "at the top level".to_owned(),
        Level { environment: None, previews: true } => "in the previews".to_owned(),
        Level { environment: Some(name), previews: false } => format!("in {}", code(name)),
        Level { environment: Some(name), previews: true } => format!("in the previews of {}", code(name)),
    }
}

/// Formats configuration text as inline code for a comment. Newlines and backticks are escaped so that it cannot end
/// early.
pub(super) fn code(text: &str) -> String {
    format!("`{}`", text.escape_debug().to_string().replace('`', "\\u{60}"))
}

/// Joins parts as `a, b and c`.
fn join_with_and(parts: &[String]) -> String {
    match parts {
        [init @ .., last] if !init.is_empty() => format!("{} and {last}", init.join(", ")),
        _ => parts.concat(),
    }
}
