//! Creates the configuration of a project that has none.

use koze_templates::WRANGLER;

/// Returns a complete, deployable configuration without the blocks of sandboxes.
pub fn config(package: &str) -> String {
    WRANGLER.replace("__KOZE_NAME__", &worker_name(package))
}

/// Converts a Cargo package's name to a Worker's name: lowercase letters, digits, `_` and `-`, without a leading
/// hyphen.
pub fn worker_name(package: &str) -> String {
    let name: String = package
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '-' })
        .collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "worker".to_owned() } else { name.to_owned() }
}
