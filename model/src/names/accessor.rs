//! The accessors of the generated `Env`: one method for each binding, whatever its name.
//!
//! | name | used if |
//! |---|---|
//! | `my_kv` | it is an identifier, and neither reserved nor the name of another binding |
//! | `kv_my_kv`, with the prefix of the kind | the first name is not possible: `TYPE`, `2FA`, `MY-KV` next to `MY_KV` |
//! | `kv_MY_KV`, in the binding's spelling | the second name is not possible either: `MY_KV` next to `my_kv` of the
//! same kind |
//!
//! The order of the bindings does not matter. A new binding may take a short name away from another one, so that code
//! no longer compiles, but a name never silently refers to another binding.

use std::collections::{HashMap, HashSet};

use heck::ToSnakeCase;

/// Methods that an `Env` already has: those of the generated code and of traits that are always in scope.
const TAKEN: &[&str] = &[
    "borrow",
    "borrow_mut",
    "clone",
    "clone_from",
    "clone_into",
    "fmt",
    "from",
    "inner",
    "into",
    "session",
    "to_owned",
    "try_from",
    "try_into",
    "type_id",
];

/// Returns the accessors of bindings, each given as its unique name and the prefix of its kind, in the same order;
/// `sandboxes` are the accessors that are already in use.
pub fn accessors<'a>(
    bindings: &[(&'a str, &'a str)],
    sandboxes: impl IntoIterator<Item = &'a str>,
) -> Vec<String> {
    let mut taken: HashSet<String> = sandboxes.into_iter().map(str::to_owned).collect();
    let short: Vec<String> = bindings.iter().map(|(name, _)| snake(name)).collect();
    let long: Vec<String> =
        bindings.iter().zip(&short).map(|((_, prefix), short)| joined(prefix, short)).collect();
    // Count all candidates, short and long, so that the order does not matter.
    let mut wanted: HashMap<&str, usize> = HashMap::new();
    for name in short.iter().chain(&long) {
        *wanted.entry(name).or_default() += 1;
    }
    let free = |name: &str, taken: &HashSet<String>| {
        wanted.get(name) == Some(&1) && is_identifier(name) && !TAKEN.contains(&name) && !taken.contains(name)
    };
    let mut names: Vec<Option<String>> = short
        .iter()
        .zip(&long)
        .map(|(short, long)| [short, long].into_iter().find(|name| free(name, &taken)).cloned())
        .collect();
    taken.extend(names.iter().flatten().cloned());
    for ((name, prefix), found) in bindings.iter().zip(&mut names) {
        if found.is_none() {
            let mut spelt = joined(prefix, &spelt(name));
            while !taken.insert(spelt.clone()) {
                spelt.push('_');
            }
            *found = Some(spelt);
        }
    }
    names.into_iter().flatten().collect()
}

/// Converts a name to snake case. Drops non-ASCII letters: Rust warns about some of them, and normalizes differently
/// written ones to the same identifier.
fn snake(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "_").to_snake_case()
}

/// Keeps the spelling of a name and replaces characters that identifiers cannot contain.
fn spelt(name: &str) -> String {
    name.chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => c.to_string(),
            other => format!("_x{:x}_", u32::from(other)),
        })
        .collect()
}

fn joined(prefix: &str, name: &str) -> String {
    if name.is_empty() { prefix.to_owned() } else { format!("{prefix}_{name}") }
}

/// Returns whether an ASCII text is an identifier and not a keyword.
fn is_identifier(text: &str) -> bool {
    // `gen` is a keyword since the 2024 edition, but syn does not treat it as one.
    text != "gen" && text != "_" && syn::parse_str::<syn::Ident>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bindings: &[(&str, &str)]) -> Vec<String> {
        accessors(bindings, ["shell_sandbox"])
    }

    fn vars(names: &[&str]) -> Vec<String> {
        of(&names.iter().map(|name| (*name, "var")).collect::<Vec<_>>())
    }

    #[test]
    fn names_are_in_snake_case() {
        assert_eq!(
            vars(&["MY_KV", "apiKey", "my-var", "Straße", "a.b"]),
            ["my_kv", "api_key", "my_var", "stra_e", "a_b"]
        );
    }

    #[test]
    fn reserved_or_invalid_names_get_a_prefix() {
        assert_eq!(
            vars(&["TYPE", "self", "gen", "2FA", "SHELL_SANDBOX", "INNER", "FROM", "日本", "_"]),
            [
                "var_type",
                "var_self",
                "var_gen",
                "var_2fa",
                "var_shell_sandbox",
                "var_inner",
                "var_from",
                "var__x65e5__x672c_",
                "var__",
            ]
        );
        assert_eq!(vars(&["日本"]), ["var"]);
    }

    #[test]
    fn equal_names_of_two_kinds_get_prefixes() {
        assert_eq!(of(&[("CACHE", "kv"), ("cache", "r2")]), ["kv_cache", "r2_cache"]);
        assert_eq!(
            of(&[("CACHE", "kv"), ("cache", "r2"), ("KV_CACHE", "var")]),
            ["kv_CACHE", "r2_cache", "var_kv_cache"]
        );
    }

    #[test]
    fn similar_names_of_one_kind_keep_their_spelling() {
        assert_eq!(of(&[("MY_KV", "kv"), ("my_kv", "kv")]), ["kv_MY_KV", "kv_my_kv"]);
        assert_eq!(vars(&["a-b", "a_b", "a.b"]), ["var_a_x2d_b", "var_a_b", "var_a_x2e_b"]);
    }

    #[test]
    fn the_order_does_not_matter() {
        let names = ["MY_KV", "my_kv", "MyKv", "TYPE", "my-kv"];
        let mut there: Vec<_> = names.into_iter().zip(vars(&names)).collect();
        let turned: Vec<&str> = names.into_iter().rev().collect();
        let mut back: Vec<_> = turned.iter().copied().zip(vars(&turned)).collect();
        there.sort();
        back.sort();
        assert_eq!(there, back);
    }

    #[test]
    fn accessors_are_distinct_identifiers() {
        let names = [
            "a", "A", "_a", "a_", "a-", "_x61_", "x61", "var_a", "VAR_A", "var__a", "-", "--", "_", "__",
            "x2d", "_x2d_", "-_", "_-", " ", "\n", "\"", "1", "01", "self", "Self", "SELF", "crate", "async",
            "r#type", "type", "TYPE", "é", "e\u{301}", "ａ", "var", "VAR", "Var", "",
        ];
        let found = vars(&names);
        let distinct: HashSet<&String> = found.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{found:?}");
        for name in found {
            assert!(is_identifier(&name) && !TAKEN.contains(&name.as_str()), "{name}");
        }
    }
}
