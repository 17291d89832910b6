//! Formats paths for files: relative, with `/`.

use std::path::Path;

pub use koze_model::paths::normal;

/// Returns `path` relative to the directory `base`, or `.` if they are equal. Both must be absolute.
pub fn relative(path: &Path, base: &Path) -> String {
    let (path, base) = (normal(path), normal(base));
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
