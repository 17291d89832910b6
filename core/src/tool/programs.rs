//! The programs that sandboxes on a machine have in place of those of their image.

use serde::{Deserialize, Serialize};

/// The versions of the programs that sandboxes on a machine have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Programs {
    /// Python's version, such as `3.11.2`, if there is one.
    pub python: Option<String>,
    /// Node's version, such as `20.19.0`, if there is one.
    pub node: Option<String>,
    /// The images of profiles, as they name them, whose files sandboxes have in place of the machine's programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
}

impl Programs {
    /// Returns the versions of the machine's programs as text: `Python 3.11.2, no Node`.
    #[must_use]
    pub fn list_versions(&self) -> String {
        let named = [("Python", &self.python), ("Node", &self.node)];
        let version = |(name, version): &(&str, &Option<String>)| {
            version.as_ref().map_or_else(|| format!("no {name}"), |version| format!("{name} {version}"))
        };
        named.iter().map(version).collect::<Vec<_>>().join(", ")
    }

    /// Returns what an image has in place of one of the machine's programs, as far as its name says so: `Python 3.12` for
    /// `python:3.12-slim` if the machine has another Python, or none.
    #[must_use]
    pub fn find_difference(&self, reference: &str) -> Option<String> {
        let (program, wanted) = parse_version(reference)?;
        let (title, version) = match program {
            "python" => ("Python", &self.python),
            "node" => ("Node", &self.node),
            _ => return None,
        };
        let is_same = version.as_ref().is_some_and(|version| begins_with(version, wanted));
        (!is_same).then(|| format!("{title} {wanted}"))
    }
}

/// Returns whether the name of an image says which version of a program it has, so that it is worth a comparison.
#[must_use]
pub fn names_version(reference: &str) -> bool {
    parse_version(reference).is_some()
}

/// Returns the program that an image is named after, and the version in its tag: `python` and `3.12` for
/// `docker.io/library/python:3.12-slim`.
fn parse_version(reference: &str) -> Option<(&str, &str)> {
    let name = reference.rsplit('/').next()?.split('@').next()?;
    let (program, tag) = name.split_once(':')?;
    let version = tag.split(|char: char| !char.is_ascii_digit() && char != '.').next()?.trim_end_matches('.');
    (!version.is_empty()).then_some((program, version))
}

/// Returns whether a version begins with these numbers: 3.12.1 with 3.12, but not with 3.1.
fn begins_with(version: &str, wanted: &str) -> bool {
    let mut numbers = version.split('.');
    wanted.split('.').all(|number| numbers.next() == Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images_say_what_differs() {
        let programs =
            Programs { python: Some("3.11.2".into()), node: Some("20.19.0".into()), images: Vec::new() };
        let difference = |reference: &str| programs.find_difference(reference).unwrap_or_default();
        assert_eq!(difference("python:3.12-slim"), "Python 3.12");
        assert_eq!(difference("docker.io/library/python:3@sha256:0123"), "");
        assert_eq!(difference("localhost:5000/node:22.1-bookworm"), "Node 22.1");
        assert_eq!(difference("python:3.1"), "Python 3.1");
        for unknown in
            ["python", "python:slim", "python:3.11-slim", "node:20", "redis:7", "./node.Dockerfile", ""]
        {
            assert_eq!(difference(unknown), "", "{unknown}");
        }
        assert_eq!(Programs::default().find_difference("node:22").as_deref(), Some("Node 22"));
    }
}
