//! git over HTTPS: a server that runs git's own CGI program.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use koze_core::egress::Placement;

use super::server::{Reply, Request};
use super::{Scene, basic, credential, unauthorized};
use crate::egress::git::create_repository;
use crate::stage::within;

/// Larger than the buffer of a push, so that its body is sent in chunks.
const BIG: usize = 4 << 20;

pub(super) fn clones_and_pushes() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let repositories = tempfile::tempdir().unwrap();
        create_repository(repositories.path());
        let bare = repositories.path().join("repo.git");
        git(&bare, &["config", "http.receivepack", "true"]);
        let mut scene = Scene::new();
        let (root, expected) = (repositories.path().to_owned(), basic("x-access-token"));
        scene
            .serve("git.example", move |request| {
                unauthorized(request, &expected).unwrap_or_else(|| run_backend(&root, request))
            })
            .await;
        let placement = Placement::Basic { user: "x-access-token".into() };
        let stage = scene.open(&[credential("GIT_TOKEN", "git.example", placement)], &[]).await;
        stage.run("git clone -q https://git.example/repo.git work").await;
        assert_eq!(stage.run("cat work/file").await, "content");
        assert!(stage.received().iter().all(|request| request.header("authorization").starts_with("Basic ")));

        let commit = format!(
            "cd work && git config user.name a && git config user.email a@a.example \
             && head -c {BIG} /dev/urandom > big && git add big && git commit -q -m two && git push -q origin main && git rev-parse HEAD"
        );
        let head = stage.run(&commit).await;
        assert_eq!(git(&bare, &["rev-parse", "main"]), head, "the server has the commit");
        assert_eq!(git(&bare, &["cat-file", "-s", "main:big"]), BIG.to_string());
        let requests = stage.received();
        let push = requests.iter().max_by_key(|request| request.body.len()).unwrap();
        assert!(push.body.len() > BIG, "{}", push.body.len());
        assert_eq!(push.header("transfer-encoding"), "chunked", "{:?}", push.headers);

        // With a URL that names the user, as services show it.
        stage.run("git clone -q https://x-access-token:$GIT_TOKEN@git.example/repo.git again").await;
        assert_eq!(stage.run("git -C again rev-parse HEAD").await, head);

        // A value that the server does not accept is git's own error.
        stage.secrets.set("GIT_TOKEN", "another-value-0123456789").unwrap();
        let failed = stage.fail("GIT_TERMINAL_PROMPT=0 git -C work fetch").await;
        assert!(
            failed.contains("Authentication failed") || failed.contains("could not read Username"),
            "{failed}"
        );
    })
}

/// Runs git on this machine. Returns what it prints.
fn git(repository: &Path, args: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(repository).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Answers a request by `git http-backend`, which is a CGI program.
/// Source: <https://git-scm.com/docs/git-http-backend>.
fn run_backend(root: &Path, request: &Request) -> Reply {
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_PROTOCOL", request.header("git-protocol"))
        .env("REMOTE_USER", "x-access-token")
        .env("REQUEST_METHOD", request.method.as_str())
        .env("PATH_INFO", request.path())
        .env("QUERY_STRING", request.query())
        .env("CONTENT_TYPE", request.header("content-type"))
        .env("CONTENT_LENGTH", request.body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", request.header("content-encoding"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let body = request.body.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&body));
    let output = child.wait_with_output().unwrap();
    // The program may answer before it has read everything.
    let _ = writer.join().unwrap();
    assert!(output.status.success(), "{output:?}");
    parse_cgi(&output.stdout)
}

fn parse_cgi(output: &[u8]) -> Reply {
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").expect("the end of the head");
    let mut reply = Reply::status(200);
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let (name, value) = line.split_once(": ").expect("a header");
        if name.eq_ignore_ascii_case("status") {
            reply.status = value.split(' ').next().and_then(|code| code.parse().ok()).expect("a status");
        } else {
            reply = reply.with(name, value);
        }
    }
    // In several pieces, of which each is a chunk.
    reply.pieces = output[end + 4..].chunks(10_000).map(<[u8]>::to_vec).collect();
    reply
}
