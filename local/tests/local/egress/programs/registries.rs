//! Package managers with private registries.

use std::path::Path;
use std::process::Command;

use koze_core::egress::Placement;
use tempfile::TempDir;

use super::node::{node_program, unpack_npm};
use super::server::{Reply, Request};
use super::{Scene, VALUE, basic, credential, unauthorized};
use crate::stage::within;

/// Writes a package for pip and one for npm.
const PACKAGES: &str = r#"
import io, tarfile, zipfile
with zipfile.ZipFile("tiny-1.0-py3-none-any.whl", "w") as file:
    file.writestr("tiny.py", "text = 'a private package'\n")
    about = "tiny-1.0.dist-info/"
    file.writestr(about + "METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    file.writestr(about + "WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    file.writestr(about + "RECORD", "")
with tarfile.open("tiny-1.0.0.tgz", "w:gz") as file:
    for name, text in ("package.json", '{"name": "tiny", "version": "1.0.0"}'), ("index.js", "module.exports = 'a private package'\n"):
        entry = tarfile.TarInfo("package/" + name)
        entry.size = len(text)
        file.addfile(entry, io.BytesIO(text.encode()))
"#;

fn create_packages() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let output =
        Command::new("python3").args(["-c", PACKAGES]).current_dir(directory.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    directory
}

fn read_package(directory: &Path, name: &str) -> Reply {
    Reply::new("application/octet-stream", std::fs::read(directory.join(name)).unwrap())
}

pub(super) fn pip_installs() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let packages = create_packages();
        let directory = packages.path().to_owned();
        let mut scene = Scene::new();
        let expected = basic("me");
        scene
            .serve("pypi.example", move |request| {
                let wheel = "tiny-1.0-py3-none-any.whl";
                let page = || Reply::new("text/html", format!("<a href=\"/files/{wheel}\">{wheel}</a>"));
                unauthorized(request, &expected).unwrap_or_else(|| match request.path() {
                    "/simple/tiny/" => page(),
                    path if path.ends_with(wheel) => read_package(&directory, wheel),
                    _ => Reply::status(404),
                })
            })
            .await;
        let placement = Placement::Basic { user: "me".into() };
        let stage = scene.open(&[credential("PYPI", "pypi.example", placement)], &[]).await;
        for (target, install) in [
            ("one", "PIP_INDEX_URL=\"https://me:$PYPI@pypi.example/simple/\" pip install --target one tiny"),
            (
                "two",
                "printf 'machine pypi.example login me password %s\\n' \"$PYPI\" > ~/.netrc && chmod 600 ~/.netrc \
                 && pip install --target two --index-url https://pypi.example/simple/ tiny",
            ),
        ] {
            stage.run(install).await;
            let used =
                stage.run(&format!("PYTHONPATH={target} python3 -c 'import tiny; print(tiny.text)'")).await;
            assert_eq!(used, "a private package", "{install}");
            let requests = stage.received();
            assert!(requests.iter().any(|request| request.path().starts_with("/files/")), "{requests:?}");
        }
        stage.secrets.set("PYPI", "another-value-0123456789").unwrap();
        let failed = stage
            .fail("pip install --no-input --target three --index-url https://pypi.example/simple/ tiny")
            .await;
        assert!(failed.contains("401") || failed.contains("No matching distribution"), "{failed}");
    })
}

/// Answers as a registry of npm. Source: <https://github.com/npm/registry/blob/main/docs/responses/package-metadata.md>.
fn answer_npm(request: &Request, directory: &Path) -> Reply {
    if let Some(refused) = unauthorized(request, &format!("Bearer {VALUE}")) {
        return refused;
    }
    let package = serde_json::json!({
        "name": "tiny",
        "dist-tags": { "latest": "1.0.0" },
        "versions": { "1.0.0": {
            "name": "tiny",
            "version": "1.0.0",
            "dist": { "tarball": "https://npm.example/tiny/-/tiny-1.0.0.tgz" },
        } },
    });
    match request.path() {
        "/tiny" => Reply::new("application/json", package.to_string()),
        "/tiny/-/tiny-1.0.0.tgz" => read_package(directory, "tiny-1.0.0.tgz"),
        _ => Reply::status(404),
    }
}

pub(super) fn npm_installs() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let packages = create_packages();
        let directory = packages.path().to_owned();
        let mut scene = Scene::new();
        scene.serve("npm.example", move |request| answer_npm(request, &directory)).await;
        let key = credential("NPM_TOKEN", "npm.example", Placement::Bearer);
        let stage = scene.open(&[key], &[]).await;
        node_program(&stage).await;
        unpack_npm(&stage).await;
        stage
            .run(
                "mkdir work && cd work && cat > .npmrc <<'END'\n\
                 registry=https://npm.example/\n\
                 //npm.example/:_authToken=${NPM_TOKEN}\n\
                 END",
            )
            .await;
        let npm =
            "cd work && ../node ../npm/bin/npm-cli.js install --no-audit --no-fund --no-update-notifier";
        stage.run(&format!("{npm} tiny")).await;
        assert_eq!(stage.run("cd work && ../node -p 'require(\"tiny\")'").await, "a private package");
        let paths: Vec<String> = stage.received().into_iter().map(|request| request.target).collect();
        assert_eq!(paths, ["/tiny", "/tiny/-/tiny-1.0.0.tgz"]);
        stage.secrets.set("NPM_TOKEN", "another-value-0123456789").unwrap();
        let failed = stage.fail(&format!("{npm} --prefer-online --no-save --force tiny@1.0.1")).await;
        assert!(failed.contains("E401"), "{failed}");
    })
}
