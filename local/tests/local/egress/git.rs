//! A server of a git repository that asks for a password.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::scene::authorization;

/// Creates a repository `repo.git` with one file.
pub(super) fn create_repository(root: &Path) {
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@a.example", "-c", "init.defaultBranch=main"])
            .args(args);
        let output = git.current_dir(root).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    fs::create_dir(root.join("work")).unwrap();
    git(&["init", "-q", "work"]);
    fs::write(root.join("work/file"), "content\n").unwrap();
    git(&["-C", "work", "add", "file"]);
    git(&["-C", "work", "commit", "-q", "-m", "one"]);
    git(&["clone", "-q", "--bare", "work", "repo.git"]);
    git(&["-C", "repo.git", "update-server-info"]);
}

/// Serves the files of a repository to requests with this header.
pub(super) fn serve(
    root: &Path,
    expected: &str,
    head: &str,
    stream: &mut dyn std::io::Write,
) -> std::io::Result<()> {
    if authorization(head) != expected {
        return write!(
            stream,
            "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"a\"\r\nContent-Length: 0\r\n\r\n"
        );
    }
    let path = head.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default();
    match fs::read(root.join(path.trim_start_matches('/'))) {
        Ok(content) => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len())?;
            stream.write_all(&content)
        }
        Err(_) => write!(stream, "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"),
    }
}
