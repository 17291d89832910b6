//! The configuration of a project that has none.

use koze_templates::WRANGLER;

/// A complete, deployable configuration but for the blocks of the sandboxes.
pub fn config(package: &str) -> String {
    WRANGLER.replace("__KOZE_NAME__", &worker_name(package))
}

/// A cargo package's name as the name of a Worker: lower-case letters, digits, `_` and `-`, no hyphen in front.
pub fn worker_name(package: &str) -> String {
    let name: String = package
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '-' })
        .collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "worker".to_owned() } else { name.to_owned() }
}
