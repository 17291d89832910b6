//! Paths as they are written to files: relative, with `/`.

use std::path::Path;

pub use koze_model::paths::normal;

/// `path` as seen from the directory `base`; both absolute. `.` where they are the same.
pub fn relative(path: &Path, base: &Path) -> String {
    let (path, base) = (normal(path), normal(base));
    let common = path.components().zip(base.components()).take_while(|(one, other)| one == other).count();
    let up = base.components().skip(common).map(|_| "..".to_owned());
    let down = path.components().skip(common).map(|part| part.as_os_str().to_string_lossy().into_owned());
    let parts: Vec<String> = up.chain(down).collect();
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
}

/// The same, with `./` in front of what lies below `base`: the way wrangler's own documentation writes paths.
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
    fn paths_are_seen_from_a_directory() {
        let see = |path: &str, base: &str| relative(Path::new(path), Path::new(base));
        assert_eq!(see("/a/b/c", "/a"), "b/c");
        assert_eq!(see("/a/b/../c", "/a"), "c");
        assert_eq!(see("/a/c", "/a/b/d"), "../../c");
        assert_eq!(see("/a", "/a"), ".");
        assert_eq!(dotted(Path::new("/a/x"), Path::new("/a")), "./x");
        assert_eq!(dotted(Path::new("/x"), Path::new("/a")), "../x");
    }
}
