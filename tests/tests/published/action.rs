//! Runs the steps of `action.yml` in bash, with a release on this machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use koze_tests::{Project, koze, root, run};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// The timeout of a step.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The version of the releases.
const VERSION: &str = "1.2.3";
const PROGRAM: &str = "koze-v1.2.3-x86_64-unknown-linux-gnu.tar.gz";

/// The directories that a runner provides to a job, and a server with releases.
struct Runner {
    dir: TempDir,
    server: String,
}

impl Runner {
    /// Creates a runner for a release of [`VERSION`] with these files. A file without content causes status 500.
    fn new(release: BTreeMap<String, Vec<u8>>) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for part in ["temp", "bin"] {
            fs_err::create_dir(dir.path().join(part)).expect("a directory");
        }
        let server = serve(release);
        let runner = Self { dir, server };
        // A stand-in for cargo, which records its arguments.
        runner.program(
            "bin/cargo",
            &format!(
                "echo \"$@\" >'{0}/cargo-arguments'\nwhile [ $# -gt 0 ]; do if [ \"$1\" = --root ]; then root=$2; fi; shift; done\n\
                 mkdir -p \"$root/bin\"\nprintf '#!/bin/sh\\necho built\\n' >\"$root/bin/koze\"\nchmod 755 \"$root/bin/koze\"\n",
                runner.dir.path().display()
            ),
        );
        runner
    }

    fn program(&self, path: &str, script: &str) -> PathBuf {
        let path = self.dir.path().join(path);
        fs_err::write(&path, format!("#!/bin/sh\n{script}")).expect("a script");
        fs_err::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("its mode");
        path
    }

    fn file(&self, name: &str) -> String {
        fs_err::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    /// Runs the step that installs koze, on a runner with this system and processor.
    fn install(&self, version: &str, machine: (&str, &str)) -> Output {
        let dir = self.dir.path();
        let mut bash = Command::new("bash");
        bash.arg(root().join(".github/action/install.sh"))
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", dir.join("bin").display()))
            .env("RUNNER_OS", machine.0)
            .env("RUNNER_ARCH", machine.1)
            .env("RUNNER_TEMP", dir.join("temp"))
            .env("GITHUB_PATH", dir.join("path"))
            .env("GITHUB_OUTPUT", dir.join("output"))
            .env("GITHUB_REPOSITORY", "user/project")
            .env("GITHUB_SERVER_URL", &self.server)
            .env("KOZE_ACTION_PATH", root())
            .env("KOZE_ACTION_REPOSITORY", "OWNER/koze")
            .env("KOZE_VERSION", version);
        for proxy in ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"] {
            bash.env_remove(proxy);
        }
        run(bash, TIMEOUT)
    }
}

/// Serves files below `/OWNER/koze/releases/download/v<version>/` until the test process exits.
fn serve(files: BTreeMap<String, Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let files = Arc::new(files);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let files = Arc::clone(&files);
            thread::spawn(move || answer(&stream, &files));
        }
    });
    format!("http://{address}")
}

fn answer(mut stream: &TcpStream, files: &BTreeMap<String, Vec<u8>>) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let request = lines.next().unwrap_or_default();
    lines.find(String::is_empty);
    let path = request.split(' ').nth(1).unwrap_or_default();
    let name = path.strip_prefix(&format!("/OWNER/koze/releases/download/v{VERSION}/"));
    let (status, body) = match name.and_then(|name| files.get(name)) {
        None => ("404 Not Found", &b""[..]),
        Some(body) if body.is_empty() => ("403 Forbidden", &b""[..]),
        Some(body) => ("200 OK", &body[..]),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// Packs a program like `release.yml`. The program is the koze of these tests.
fn packed() -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = dir.path().join("koze");
    fs_err::write(
        &program,
        format!("#!/bin/sh\nexec '{}' \"$@\"\n", Path::new(koze().get_program()).display()),
    )
    .expect("a script");
    let mut pack = Command::new("bash");
    pack.arg(root().join(".github/release/pack.sh")).arg(program);
    pack.args(["x86_64-unknown-linux-gnu", VERSION]).arg(dir.path().join("dist"));
    let output = run(pack, TIMEOUT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs_err::read(dir.path().join("dist").join(PROGRAM)).expect("the archive has the name of a release")
}

/// Returns the content of `SHA256SUMS` for files.
fn sums(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut text = String::new();
    for (name, content) in files {
        for byte in Sha256::digest(content) {
            let _ = write!(text, "{byte:02x}");
        }
        let _ = writeln!(text, "  {name}");
    }
    text.into_bytes()
}

fn release(files: &[(&str, &[u8])]) -> BTreeMap<String, Vec<u8>> {
    files.iter().map(|(name, content)| ((*name).to_owned(), content.to_vec())).collect()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_released_program_is_installed_and_checks_a_project() {
    let program = packed();
    let others: &[u8] = b"others";
    let sums = sums(&[("koze-v1.2.3-aarch64-apple-darwin.tar.gz", others), (PROGRAM, &program)]);
    let runner = Runner::new(release(&[(PROGRAM, &program), ("SHA256SUMS", &sums)]));
    let installed = runner.install("v1.2.3", ("Linux", "X64"));
    assert!(installed.status.success(), "{}", text(&installed));
    assert_eq!(runner.file("output"), "version=1.2.3\n");
    assert_eq!(runner.file("cargo-arguments"), "", "nothing was built");

    // The next step has the path that the first one extended.
    let project = Project::before_build("two");
    let check = |arguments: &str| {
        let mut bash = Command::new("bash");
        bash.arg(root().join(".github/action/check.sh"))
            .env("PATH", format!("{}:/usr/bin:/bin", runner.file("path").trim_end()))
            .env("GITHUB_WORKSPACE", project.dir())
            .env("KOZE_ARGS", arguments);
        project.run(bash)
    };
    let drifted = check(" --strict\n--color never ");
    assert_eq!(drifted.code, 1, "{}{}", drifted.stdout, drifted.stderr);
    let annotation = "\n::error file=wrangler.jsonc,title=koze build --check::the project is not in step: run `koze build`";
    assert!(drifted.stdout.contains(annotation), "{}", drifted.stdout);
    assert_eq!(project.koze(&["build"]).code, 0);
    let in_step = check("");
    assert_eq!((in_step.code, in_step.stderr.as_str()), (0, ""), "{}", in_step.stdout);
    // Shell metacharacters are passed literally.
    let odd = check("$(touch${IFS}expanded) `touch expanded` *");
    assert_eq!(odd.code, 2, "{}{}", odd.stdout, odd.stderr);
    assert!(odd.stderr.contains("$(touch${IFS}expanded)"), "{}", odd.stderr);
    assert!(!project.path("expanded").exists());
}

#[test]
fn a_program_with_another_sum_is_not_installed() {
    let program = packed();
    let of_others = sums(&[(PROGRAM, b"what was released")]);
    let twice = [of_others.clone(), sums(&[(PROGRAM, &program)])].concat();
    let cases = [
        (&of_others, "is not the one in SHA256SUMS"),
        (&sums(&[("koze.tar.gz", &program)]), "does not have exactly one sum"),
        (&twice, "does not have exactly one sum"),
    ];
    for (sums, expected) in cases {
        let runner = Runner::new(release(&[(PROGRAM, &program), ("SHA256SUMS", sums)]));
        let refused = runner.install(VERSION, ("Linux", "X64"));
        assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
        assert!(
            text(&refused).contains("::error title=koze::") && text(&refused).contains(expected),
            "{}",
            text(&refused)
        );
        // Neither this program nor a fallback is installed, because an attacker must not be able to choose.
        assert_eq!((runner.file("path"), runner.file("cargo-arguments")), (String::new(), String::new()));
    }
    let runner = Runner::new(release(&[(PROGRAM, &program)]));
    let refused = runner.install(VERSION, ("Linux", "X64"));
    assert!(!refused.status.success() && text(&refused).contains("has no SHA256SUMS"), "{}", text(&refused));
}

#[test]
fn without_a_released_program_koze_is_built() {
    let expected = |runner: &Runner, version: &str| {
        let built = runner.dir.path().join(format!("temp/koze-{version}/cargo"));
        assert_eq!(
            runner.file("cargo-arguments"),
            format!("install koze-cli --locked --version ={version} --root {}\n", built.display())
        );
        assert_eq!(runner.file("path"), format!("{}\n", built.join("bin").display()));
    };
    // A runner without a released program, and a release without any program.
    for machine in [("Linux", "S390X"), ("Linux", "X64")] {
        let runner = Runner::new(BTreeMap::new());
        let built = runner.install(VERSION, machine);
        assert!(built.status.success() && text(&built).ends_with("built\n"), "{}", text(&built));
        expected(&runner, VERSION);
    }
    // The default is the version of this checkout.
    let runner = Runner::new(BTreeMap::new());
    assert!(runner.install("", ("Linux", "X64")).status.success());
    expected(&runner, env!("CARGO_PKG_VERSION"));
    // Another error than 404 does not mean that the file is missing.
    let runner = Runner::new(release(&[(PROGRAM, b"")]));
    let refused = runner.install(VERSION, ("Linux", "X64"));
    assert!(
        !refused.status.success() && text(&refused).contains("the server answered 403"),
        "{}",
        text(&refused)
    );
    assert_eq!(runner.file("cargo-arguments"), "");
}

#[test]
fn a_version_is_validated() {
    for version in [
        "latest",
        "1.2",
        "1.2.3/../../other",
        "$(touch expanded)",
        "1.2.3;x",
        "1.2.3 --git=x",
        "1.2.3\n::debug::x",
    ] {
        let runner = Runner::new(BTreeMap::new());
        let refused = runner.install(version, ("Linux", "X64"));
        assert_eq!(refused.status.code(), Some(1), "{version}: {}", text(&refused));
        assert_eq!(
            text(&refused),
            "::error title=koze::the input `version` must be a version such as 1.2.3, or empty\n",
            "{version}"
        );
        assert_eq!(runner.file("cargo-arguments"), "", "{version}");
    }
}
