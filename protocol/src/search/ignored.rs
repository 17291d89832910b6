//! The names that listings and searches leave out: what tools generate, and what editors and version control keep.

/// Whole names.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    // Version control.
    ".git", ".svn", ".hg", ".bzr",
    // Packages and environments.
    "node_modules", "__pycache__", ".venv", "venv", ".env", "env", ".tox", ".nox", ".eggs", "site-packages",
    // What builds write.
    "dist", "build", ".next", ".nuxt", ".output", ".turbo", "target", "out",
    // Editors and desktops.
    ".idea", ".vscode", ".project", ".classpath", ".settings", ".DS_Store", "Thumbs.db", "desktop.ini",
    // Caches, logs and reports.
    ".cache", "logs", ".coverage", "coverage", ".nyc_output", "htmlcov", ".pytest_cache", ".mypy_cache",
    ".ruff_cache",
];

/// The ends of names.
#[rustfmt::skip]
const ENDS: &[&str] = &[
    ".egg-info", ".swp", ".swo", "~", ".lnk", ".log", ".tmp", ".temp", ".bak", ".cache",
];

/// The end of an upload that is not complete.
const PART: &str = ".part";

/// Returns whether listings and searches leave a name out.
pub fn is_ignored(name: &str) -> bool {
    NAMES.contains(&name)
        || ENDS.iter().any(|end| name.ends_with(end))
        // A copy that is not complete.
        || name.starts_with(".koze-")
        || name.strip_prefix(".upload-").is_some_and(|rest| rest.ends_with(PART))
}
