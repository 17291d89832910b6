//! What a Dockerfile's final image is based on.

use std::collections::HashMap;
use std::ops::Range;

/// The image of a registry on which a Dockerfile's final stage is based.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// Where its reference is written, in bytes.
    pub range: Range<usize>,
    /// The reference, with the values of `ARG` in place of variables.
    pub image: String,
}

/// Returns the base of the last stage. A stage that is only copied from has no influence on it.
///
/// Returns `None` without a `FROM`, and if the reference contains a variable without a default value, which only the build
/// knows.
pub fn base(dockerfile: &str) -> Option<Base> {
    let mut arguments = HashMap::new();
    let mut stages: HashMap<String, Option<Base>> = HashMap::new();
    let mut last = None;
    let mut start = 0;
    for line in dockerfile.split_inclusive('\n') {
        let mut words = line.split_whitespace();
        let instruction = words.next().unwrap_or_default();
        // Only the arguments before the first stage can be used in `FROM`.
        if instruction.eq_ignore_ascii_case("arg") && last.is_none() {
            let assigned = words.filter_map(|word| word.split_once('='));
            let values = assigned.map(|(name, value)| (name, resolve(unquoted(value), &arguments)));
            let values: Vec<_> = values.filter_map(|(name, value)| Some((name, value?))).collect();
            arguments.extend(values);
        } else if instruction.eq_ignore_ascii_case("from") {
            let mut words = words.skip_while(|word| word.starts_with("--"));
            let reference = words.next().unwrap_or_default();
            // The word is a slice of the line, so the addresses give its offset.
            let at = start + (reference.as_ptr() as usize - line.as_ptr() as usize);
            let image = resolve(unquoted(reference), &arguments);
            let base = match image.as_ref().and_then(|image| stages.get(&image.to_lowercase())) {
                Some(stage) => stage.clone(),
                None => image.map(|image| Base { range: at..at + reference.len(), image }),
            };
            if words.next().is_some_and(|word| word.eq_ignore_ascii_case("as"))
                && let Some(name) = words.next()
            {
                stages.insert(name.to_lowercase(), base.clone());
            }
            last = Some(base);
        }
        start += line.len();
    }
    last.flatten()
}

fn unquoted(text: &str) -> &str {
    text.trim_matches(['"', '\''])
}

/// Replaces `$NAME`, `${NAME}` and `${NAME:-DEFAULT}`. Returns `None` if a value is unknown.
fn resolve(text: &str, arguments: &HashMap<&str, String>) -> Option<String> {
    let mut resolved = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        resolved.push_str(before);
        let (variable, next) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => after.split_at(
                after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len()),
            ),
        };
        let (name, default) = match variable.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (variable, None),
        };
        resolved.push_str(arguments.get(name).map(String::as_str).or(default)?);
        rest = next;
    }
    resolved.push_str(rest);
    Some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(dockerfile: &str) -> Option<String> {
        base(dockerfile).map(|base| base.image)
    }

    #[test]
    fn the_base_is_located() {
        let text = "# FROM x\nfrom --platform=linux/amd64 cloudflare/sandbox:0.12.9-python AS a\nRUN true\n";
        let found = base(text).unwrap();
        assert_eq!(&text[found.range], "cloudflare/sandbox:0.12.9-python");
        assert_eq!(found.image, "cloudflare/sandbox:0.12.9-python");
        assert_eq!(base("RUN true\n"), None);
    }

    #[test]
    fn variables_have_the_values_of_arguments() {
        let arguments = "ARG A=0.12.9 B\nARG C=\"$A-python\"\n";
        for (reference, expected) in [
            ("x:${A}", Some("x:0.12.9")),
            ("x:$A-musl", Some("x:0.12.9-musl")),
            ("x:$C", Some("x:0.12.9-python")),
            ("x:${B:-1}", Some("x:1")),
            ("x:$B", None),
            ("x:${NONE", None),
        ] {
            let text = format!("{arguments}FROM {reference}\nARG A=2\n");
            assert_eq!(image(&text).as_deref(), expected, "{reference}");
        }
    }

    #[test]
    fn only_the_last_stage_counts() {
        let text = "FROM old:1 AS Tools\nFROM new:1 AS base\nFROM base\nCOPY --from=tools /a /a\n";
        assert_eq!(image(text).as_deref(), Some("new:1"));
        assert_eq!(image("FROM a:1 AS x\nFROM scratch\n").as_deref(), Some("scratch"));
        assert_eq!(image("FROM a:1 AS x\nFROM x AS y\nFROM y\n").as_deref(), Some("a:1"));
    }
}
