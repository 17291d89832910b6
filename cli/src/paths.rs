//! Formats paths for files: relative, with `/`.

use std::io;
use std::path::{Component, MAIN_SEPARATOR_STR, Path, PathBuf};

pub use koze_model::paths::normal;

/// Resolves the symbolic links of a path. On Windows, the result has a drive letter and not the prefix `\\?\`, which
/// many programs reject.
///
/// # Errors
/// Returns an error with the path if it does not exist.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    fs_err::canonicalize(path).map(|path| dunce::simplified(&path).to_owned())
}

/// Formats a path with `/`, which every system accepts.
pub fn slashed(path: &Path) -> String {
    path.to_string_lossy().replace(MAIN_SEPARATOR_STR, "/")
}

/// Returns `path` relative to the directory `base`, or `.` if they are equal. Both must be absolute. A path on another
/// drive stays absolute.
pub fn relative(path: &Path, base: &Path) -> String {
    let (path, base) = (normal(path), normal(base));
    let drive = |path: &Path| {
        path.components()
            .next()
            .filter(|first| matches!(first, Component::Prefix(_)))
            .map(|drive| drive.as_os_str().to_ascii_lowercase())
    };
    if drive(&path) != drive(&base) {
        return slashed(&path);
    }
    let common = path.components().zip(base.components()).take_while(|(one, other)| one == other).count();
    let up = base.components().skip(common).map(|_| "..".to_owned());
    let down = path.components().skip(common).map(|part| part.as_os_str().to_string_lossy().into_owned());
    let parts: Vec<String> = up.chain(down).collect();
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
}

/// Returns the relative path, with `./` before paths below `base`, as in wrangler's documentation.
pub fn dotted(path: &Path, base: &Path) -> String {
    let relative = relative(path, base);
    if relative.starts_with("../") || relative == ".." || relative == "." {
        relative
    } else {
        format!("./{relative}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_a_directory() {
        let see = |path: &str, base: &str| relative(Path::new(path), Path::new(base));
        assert_eq!(see("/a/b/c", "/a"), "b/c");
        assert_eq!(see("/a/b/../c", "/a"), "c");
        assert_eq!(see("/a/c", "/a/b/d"), "../../c");
        assert_eq!(see("/a", "/a"), ".");
        assert_eq!(dotted(Path::new("/a/x"), Path::new("/a")), "./x");
        assert_eq!(dotted(Path::new("/x"), Path::new("/a")), "../x");
    }
}
