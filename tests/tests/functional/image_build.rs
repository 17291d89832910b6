//! `koze image build`: Dockerfiles, with container engines and without.

use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use fs_err as fs;

use koze_tests::{Project, Run, Sandboxes};
use serde_json::Value;

use crate::common::{SHELL, package, sandbox};
use crate::image_store::archives::{Layer, config, save_with};

/// The Dockerfile next to the sandbox file, and the directory that it is built in by default.
const DOCKERFILE: &str = "src/server/shell.Dockerfile";
const CONTEXT: &str = "src/server";

/// Creates a package whose sandbox has a Dockerfile.
fn project(attribute: &str, dockerfile: &str) -> Sandboxes {
    let project = package();
    sandbox(&project, SHELL, &format!("#[sandbox({attribute})]\npub struct ShellSandbox;"));
    project.write(DOCKERFILE, dockerfile);
    Sandboxes::of(project)
}

/// Writes an engine that records its arguments, one call a line, and writes an image with a marker. Its build fails if `exit` is not 0.
fn write_engine(project: &Project, name: &str, exit: i32) {
    let layers = [Layer::default().file("marker", "of the engine").bytes()];
    fs::write(project.path("saved.tar"), save_with(&config(&layers), &layers, None)).expect("the archive");
    let root = project.path("");
    let root = root.to_str().expect("a path in Unicode").trim_end_matches('/');
    let script = format!(
        "#!/bin/sh\nprintf '%s\\t' \"$@\" >> '{root}/calls'\necho >> '{root}/calls'\ncase $1 in\n\
         build) echo building; exit {exit} ;;\nsave | push)\n\
         case $* in *image.tar*) exec > image.tar ;; esac\n/bin/cat '{root}/saved.tar' ;;\nesac\n"
    );
    project.write(format!("bin/{name}"), script);
    fs::set_permissions(project.path(format!("bin/{name}")), Permissions::from_mode(0o755))
        .expect("a program");
}

/// Returns `koze image`, which finds only the engines of the project.
fn command(host: &Sandboxes, args: &[&str]) -> Command {
    let mut command = host.command(&[&["image"], args].concat());
    command.env("PATH", host.path("bin")).env("DOCKER_CONFIG", host.path("docker"));
    command
}

fn koze(host: &Sandboxes, args: &[&str]) -> Run {
    host.run(command(host, args))
}

/// Returns the arguments of the engine's calls, without the random tag.
fn calls(host: &Sandboxes) -> Vec<Vec<String>> {
    let text = fs::read_to_string(host.path("calls")).unwrap_or_default();
    let without_tag = |argument: &str| match argument.split_once("koze-build:") {
        Some((start, _)) => format!("{start}TAG"),
        None => argument.to_owned(),
    };
    text.lines().map(|line| line.split_terminator('\t').map(without_tag).collect()).collect()
}

/// Returns the images in the store.
fn list(host: &Sandboxes) -> Vec<Value> {
    let listed = koze(host, &["list", "--format", "json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|_| panic!("{listed:?}"));
    listed["images"].as_array().expect("a list").clone()
}

#[test]
fn an_engine_builds_what_has_changed() {
    let host = project("image_vars(A = \"x; touch /tmp/y\")", "FROM scratch\nCOPY . /\n");
    write_engine(&host, "docker", 0);
    host.write("src/server/.dockerignore", "*.log\n");
    let built = koze(&host, &["build"]);
    assert_eq!(built.code, 0, "{built:?}");
    assert!(
        built.stderr.contains("building `shell` from src/server/shell.Dockerfile with docker"),
        "{built:?}"
    );
    assert!(built.stdout.starts_with("shell sha256:"), "{built:?}");
    let path = |path: &str| host.path(path).to_str().expect("a path in Unicode").to_owned();
    let text = |arguments: &[&str]| arguments.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (file, context) = (path(DOCKERFILE), path(CONTEXT));
    let tag = "localhost/TAG";
    let first = ["build", "-f", &file, "-t", tag, "--build-arg", "A=x; touch /tmp/y", &context];
    let all = [
        text(&["version", "--format", "{{.Server.Version}}"]),
        text(&first),
        text(&["save", tag]),
        text(&["rmi", tag]),
    ];
    assert_eq!(calls(&host), all);

    let builds = || calls(&host).iter().filter(|call| call[0] == "build").count();
    let again = koze(&host, &["build", "shell"]);
    assert!(again.stdout.contains("is up to date"), "{again:?}");
    host.write("src/server/x.log", "ignored");
    assert!(koze(&host, &["build"]).stdout.contains("is up to date"));
    assert_eq!(builds(), 1);
    host.write("src/server/x.txt", "new");
    assert!(!koze(&host, &["build"]).stdout.contains("is up to date"));
    host.write(DOCKERFILE, "FROM scratch\n");
    assert!(!koze(&host, &["build"]).stdout.contains("is up to date"));
    sandbox(&host, SHELL, "#[sandbox(image_vars(A = \"2\"))]\npub struct ShellSandbox;");
    assert!(!koze(&host, &["build"]).stdout.contains("is up to date"));
    assert!(!koze(&host, &["build", "--force"]).stdout.contains("is up to date"));
    assert_eq!(builds(), 5);
    assert!(calls(&host).iter().any(|call| call[0] == "build" && call[1] == "--no-cache"));

    let [image] = &list(&host)[..] else { panic!("one image") };
    let name = image["reference"].as_str().expect("a name");
    assert!(name.starts_with("koze.invalid/app/shell:"), "{name}");
    let shown = koze(&host, &["list"]);
    assert!(shown.stdout.contains("app/shell (built)"), "{shown:?}");
    let pulled = koze(&host, &["pull"]);
    assert_eq!(pulled.code, 1, "{pulled:?}");
    assert!(pulled.stderr.contains("run `koze image build shell`"), "{pulled:?}");
    let removed = koze(&host, &["rm", "shell"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    assert!(list(&host).is_empty());
    // Nothing of a build is left, not even what it remembers.
    for directory in ["layers", "images", "steps", "staging"] {
        assert_eq!(
            fs::read_dir(host.path("images").join(directory)).expect(directory).count(),
            0,
            "{directory}"
        );
    }
}

#[test]
fn every_engine_is_called_as_it_needs() {
    for (engine, save) in [
        ("podman", vec!["save", "--format", "docker-archive", "-o", "image.tar", "localhost/TAG"]),
        ("buildah", vec!["push", "localhost/TAG", "docker-archive:image.tar"]),
    ] {
        let host = project("", "FROM scratch\n");
        write_engine(&host, engine, 0);
        let built = koze(&host, &["build", "--engine", engine]);
        assert_eq!(built.code, 0, "{built:?}");
        let calls = calls(&host);
        assert_eq!(calls[0], ["--version"], "{engine}");
        assert_eq!(calls[2], save, "{engine}");
        assert_eq!(calls[3][0], "rmi", "{engine}");
    }
}

#[test]
fn images_of_an_engine_are_copied() {
    let host = project("", "FROM scratch\n");
    write_engine(&host, "docker", 0);
    let name = "registry.example.com/team/tool:1";
    let pulled = koze(&host, &["pull", "--from", "docker", name]);
    assert_eq!(pulled.code, 0, "{pulled:?}");
    assert!(pulled.stdout.starts_with(&format!("{name} sha256:")), "{pulled:?}");
    assert_eq!(calls(&host)[1], ["save", name]);
    assert_eq!(list(&host)[0]["reference"], name);
    let missing = koze(&host, &["pull", "--from", "podman", name]);
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(missing.stderr.contains("`podman` is not installed, or does not answer"), "{missing:?}");
}

#[test]
fn an_engine_that_fails_or_is_missing_is_an_error() {
    let host = project("", "FROM scratch\n");
    write_engine(&host, "podman", 3);
    let failed = koze(&host, &["build"]);
    assert_eq!(failed.code, 1, "{failed:?}");
    // Its output is that of an error, too.
    assert!(failed.stderr.contains("building\n"), "{failed:?}");
    let why = "`shell`: `podman` exited with 3 and did not build src/server/shell.Dockerfile: its messages are above";
    assert!(failed.stderr.contains(why), "{failed:?}");
    assert!(list(&host).is_empty());
    let other = koze(&host, &["build", "--engine", "docker"]);
    assert_eq!(other.code, 1, "{other:?}");
    assert!(other.stderr.contains("`docker` is not installed, or does not answer"), "{other:?}");
    let unknown = koze(&host, &["build", "python"]);
    assert!(
        unknown.stderr.contains("no image `python` that is built from a Dockerfile: those are shell"),
        "{unknown:?}"
    );
}

#[test]
fn a_context_outside_of_the_repository_is_refused() {
    let outside = tempfile::tempdir().expect("a directory");
    let host = project("image_build_context = \"../../link\"", "FROM scratch\n");
    write_engine(&host, "docker", 0);
    std::os::unix::fs::symlink(outside.path(), host.path("link")).expect("a link");
    let refused = koze(&host, &["build"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(calls(&host).iter().all(|call| call[0] != "build"), "{refused:?}");
    // A Dockerfile that is not a file.
    let host = project("", "FROM scratch\n");
    write_engine(&host, "docker", 0);
    fs::remove_file(host.path(DOCKERFILE)).expect("the Dockerfile");
    fs::create_dir(host.path(DOCKERFILE)).expect("a directory");
    let refused = koze(&host, &["build"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(calls(&host).iter().all(|call| call[0] != "build"), "{refused:?}");
}

/// Stores the image `base:1`: programs of this machine, with `/bin` as a link, and `/tmp` for everybody.
fn import_base(host: &Sandboxes) {
    let layers = [crate::image_store::programs().directory("tmp", 0o1777).link("bin", "usr/bin").bytes()];
    let mut config = config(&layers);
    config["config"] = serde_json::json!({ "WorkingDir": "/missing" });
    fs::write(host.path("base.tar"), save_with(&config, &layers, None)).expect("the archive");
    let imported = koze(host, &["import", "base.tar", "--name", "base:1"]);
    assert_eq!(imported.code, 0, "{imported:?}");
}

/// Builds without an engine: none is on `PATH`.
fn build_without_engine(host: &Sandboxes, args: &[&str]) -> Run {
    fs::create_dir_all(host.path("bin")).expect("a directory");
    koze(host, &[&["build"], args].concat())
}

/// Returns the files of the built image and its configuration, as `koze image export` writes them.
fn export(host: &Sandboxes) -> (Value, Vec<(String, u32, Vec<u8>)>) {
    let exported = koze(host, &["export", "shell", "exported.tar"]);
    assert_eq!(exported.code, 0, "{exported:?}");
    let blobs = read_tar(&fs::read(host.path("exported.tar")).expect("the archive"));
    let blob = |name: &str| {
        let found = blobs.iter().find(|(path, _, _)| path == name);
        found.unwrap_or_else(|| panic!("{name}")).2.clone()
    };
    let json = |name: &str| serde_json::from_slice::<Value>(&blob(name)).expect("JSON");
    let of_digest = |value: &Value| {
        format!("blobs/sha256/{}", value["digest"].as_str().expect("a digest").trim_start_matches("sha256:"))
    };
    let manifest = json(&of_digest(&json("index.json")["manifests"][0]));
    let mut files = Vec::new();
    for layer in manifest["layers"].as_array().expect("layers") {
        files.extend(read_tar(&blob(&of_digest(layer))));
    }
    (json(&of_digest(&manifest["config"])), files)
}

fn read_tar(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
    let mut archive = tar::Archive::new(bytes);
    let entries = archive.entries().expect("an archive");
    let read = |entry: std::io::Result<tar::Entry<_>>| {
        let mut entry = entry.expect("an entry");
        let path = entry.path().expect("a path").to_string_lossy().trim_end_matches('/').to_owned();
        let mode = entry.header().mode().expect("a mode");
        let mut content = Vec::new();
        entry.read_to_end(&mut content).expect("the content");
        (path, mode, content)
    };
    entries.map(read).collect()
}

#[test]
fn koze_builds_without_an_engine() {
    let dockerfile = "# syntax=docker/dockerfile:1\nARG FROM=base\nARG TAG=0\nFROM ${FROM}:$TAG AS first\n\
        WORKDIR /made\nARG TAG\nCOPY --chmod=600 <<EOF secret\nof $TAG\nEOF\nFROM unused:1 AS never\nRUN nothing\n\
        FROM first\nARG TAG\nENV A=\"x $TAG\" \\\n    # why\n    B=${A:-none}\nENV PATH=/x:$PATH\nENV OLD of  two\nLABEL l=v\nEXPOSE 80 53/udp\nUSER root\n\
        COPY data/ /bin/\nADD a.txt b.txt /tmp/\nCOPY --chmod=640 data /modes\nCOPY --from=first --chown=1:1 /made/secret /copied\n\
        ENTRYPOINT [\"/bin/sh\"]\nCMD echo $A\n# the end\n";
    let host = project("image_vars(TAG = \"1\")", dockerfile);
    host.write("src/server/data/tool", "tool").write("src/server/data/deep/er", "er");
    host.write("src/server/a.txt", "a").write("src/server/b.txt", "b");
    import_base(&host);
    let built = build_without_engine(&host, &[]);
    assert_eq!(built.code, 0, "{built:?}");
    assert!(built.stderr.contains("with koze"), "{built:?}");
    let (config, files) = export(&host);
    let settings = &config["config"];
    let path = "PATH=/x:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    assert_eq!(settings["Env"], serde_json::json!(["A=x 1", "B=none", path, "OLD=of  two"]));
    assert_eq!(settings["WorkingDir"], "/made");
    assert_eq!(settings["User"], "root");
    assert_eq!(settings["Labels"], serde_json::json!({ "l": "v" }));
    assert_eq!(settings["ExposedPorts"], serde_json::json!({ "80/tcp": {}, "53/udp": {} }));
    assert_eq!(settings["Entrypoint"], serde_json::json!(["/bin/sh"]));
    assert_eq!(settings["Cmd"], serde_json::json!(["/bin/sh", "-c", "echo $A"]));
    let file = |path: &str| {
        let found = files.iter().rev().find(|(name, _, _)| name == path).unwrap_or_else(|| panic!("{path}"));
        (found.1, String::from_utf8_lossy(&found.2).into_owned())
    };
    assert_eq!(file("made/secret"), (0o600, "of 1\n".to_owned()));
    assert_eq!(file("copied"), (0o600, "of 1\n".to_owned()));
    // The link of the image is followed, and the directory keeps its mode.
    assert_eq!(file("usr/bin/tool").1, "tool");
    assert_eq!(file("usr/bin/deep/er").1, "er");
    assert_eq!(file("tmp").0, 0o1777);
    assert_eq!(file("tmp/a.txt").1, "a");
    // Nobody could enter a directory without execute bits.
    assert_eq!((file("modes").0, file("modes/deep").0, file("modes/deep/er").0), (0o750, 0o750, 0o640));

    let again = build_without_engine(&host, &[]);
    assert!(again.stdout.contains("is up to date"), "{again:?}");
    assert!(again.stderr.contains("done before: COPY data/ /bin/"), "{again:?}");
    host.write("src/server/b.txt", "other");
    let changed = build_without_engine(&host, &[]);
    assert!(changed.stderr.contains("done before: COPY data/ /bin/"), "{changed:?}");
    assert!(changed.stderr.contains("\nADD a.txt b.txt /tmp/\n"), "{changed:?}");
    assert!(!changed.stdout.contains("is up to date"), "{changed:?}");
}

#[test]
fn programs_of_a_build_run_in_a_sandbox() {
    let dockerfile = "FROM base:1\nARG WHO=you\nENV HELLO=hello\nWORKDIR /home/user/app\nCOPY a.txt .\n\
        RUN echo \"$HELLO $WHO $HOME\" > /made && \\\n    # a comment\n    cat a.txt >> /made; cat /made; : > /tmp/kept\n\
        RUN [\"/usr/bin/bash\", \"-c\", \"echo exec > exec\"]\nRUN <<EOF\ncat /made > again\nEOF\n\
        RUN rm a.txt /marker 2> /dev/null; ls /home/user/app > /list\n";
    let host = project("", dockerfile);
    host.write("src/server/a.txt", "of the context\n");
    import_base(&host);
    let built = build_without_engine(&host, &[]);
    assert_eq!(built.code, 0, "{built:?}");
    assert!(built.stderr.contains("hello you /root\nof the context\n"), "{built:?}");
    let (_, files) = export(&host);
    let file = |path: &str| {
        let found = files.iter().rev().find(|(name, _, _)| name == path).unwrap_or_else(|| panic!("{path}"));
        String::from_utf8_lossy(&found.2).into_owned()
    };
    assert_eq!(file("home/user/app/again"), "hello you /root\nof the context\n");
    assert_eq!(file("home/user/app/exec"), "exec\n");
    assert_eq!(file("tmp/kept"), "");
    // Only what the programs changed: nothing of the sandbox.
    let of_sandbox = ["etc/hosts", "etc/hostname", "proc", "dev", "var/lib/koze"];
    assert!(files.iter().all(|(path, _, _)| !of_sandbox.contains(&path.as_str())), "{files:?}");
    let again = build_without_engine(&host, &[]);
    assert!(again.stdout.contains("is up to date"), "{again:?}");

    // Sandboxes of the project have the image from then on.
    let created = host.call("sandbox_create", &serde_json::json!({ "sandbox": "new" }), &[]);
    assert!(!created.to_string().contains("does not use the image"), "{created}");
    let command = serde_json::json!({ "sandbox": "new", "command": "/usr/bin/cat /made" });
    let printed = host.call("shell", &command, &[]).to_string();
    assert!(printed.contains("hello you /root"), "{printed}");
    let run = host.koze(&["inspect", "new"]);
    assert!(run.stdout.contains("\"reference\": \"./src/server/shell.Dockerfile\""), "{run:?}");
    host.kill_supervisors();
}

#[test]
fn a_program_that_fails_leaves_no_image() {
    let host = project("", "FROM base:1\n\nRUN echo no >&2; exit 7\n");
    import_base(&host);
    let failed = build_without_engine(&host, &[]);
    assert_eq!(failed.code, 1, "{failed:?}");
    let why = "src/server/shell.Dockerfile:3: `RUN echo no >&2; exit 7` exited with 7: it reaches no network: allow hosts with \
        `--allow-host`, or all with `--internet`";
    assert!(failed.stderr.contains(why), "{failed:?}");
    assert!(failed.stderr.contains("\nno\n"), "{failed:?}");
    let names: Vec<_> = list(&host).iter().map(|image| image["reference"].to_string()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let pruned = koze(&host, &["prune"]);
    assert_eq!(pruned.code, 0, "{pruned:?}");
    assert_eq!(fs::read_dir(host.path("images/staging")).expect("staging").count(), 0);
}

#[test]
fn what_needs_an_engine_is_named_with_its_line() {
    for (instruction, what) in [
        ("VOLUME /data", "`VOLUME`"),
        ("HEALTHCHECK NONE", "`HEALTHCHECK`"),
        ("ONBUILD RUN x", "`ONBUILD`"),
        ("STOPSIGNAL 9", "`STOPSIGNAL`"),
        ("RUN --mount=type=cache,target=/x true", "`RUN --mount`"),
        ("COPY --parents a b", "`COPY --parents`"),
    ] {
        let host = project("", &format!("FROM scratch\n{instruction}\n"));
        let refused = build_without_engine(&host, &[]);
        assert_eq!(refused.code, 1, "{refused:?}");
        let why = format!(
            "src/server/shell.Dockerfile:2: koze cannot build {what} itself: install docker, podman or buildah, and run this again"
        );
        assert!(refused.stderr.contains(&why), "{refused:?}");
    }
}

#[test]
fn a_build_context_leads_nowhere_else() {
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("secret"), "of the host").expect("a file");
    let cases = [
        (
            "COPY ../shell.sandbox.rs /x",
            "`../shell.sandbox.rs` leads out of the build context: name a path in it",
        ),
        ("COPY link/secret /x", "the build context has no `link/secret`"),
        ("COPY absolute /x", "the build context has no `absolute`"),
        ("COPY no* /x", "no file of the build context matches `no*`"),
        ("COPY pipe /x", "`pipe` is neither a file, a directory nor a link"),
        ("COPY ignored /x", "the build context has no `ignored`: `.dockerignore` excludes it"),
        ("ADD http://127.0.0.1/x /x", "koze does not download `http://127.0.0.1/x`"),
        ("ADD a.tar /x", "`a.tar` is an archive, which `ADD` unpacks and koze does not"),
        ("COPY .wh.a /x/", "names that begin with `.wh.` cannot be in an image"),
        ("COPY --chmod=u+x a.tar /x", "`--chmod=u+x`: koze knows only octal modes, such as 755"),
    ];
    for (instruction, why) in cases {
        let host = project("", &format!("FROM scratch\n{instruction}\n"));
        let context = host.path(CONTEXT);
        std::os::unix::fs::symlink(outside.path(), context.join("link")).expect("a link");
        std::os::unix::fs::symlink(outside.path().join("secret"), context.join("absolute")).expect("a link");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, context.join("pipe"), rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe");
        fs::write(context.join("a.tar"), Layer::default().file("x", "x").bytes()).expect("an archive");
        fs::write(context.join(".wh.a"), "").expect("a file");
        fs::write(context.join("ignored"), "").expect("a file");
        host.write("src/server/.dockerignore", "ignored\n");
        let refused = build_without_engine(&host, &[]);
        assert_eq!(refused.code, 1, "{refused:?}");
        let why = format!("src/server/shell.Dockerfile:2: {why}");
        assert!(refused.stderr.contains(&why), "{why}: {refused:?}");
        assert!(list(&host).is_empty());
    }
    // The whole context: links are copied as links, and nothing waits for the pipe.
    let host = project("", "FROM scratch\nCOPY . /\n");
    std::os::unix::fs::symlink(outside.path(), host.path(CONTEXT).join("link")).expect("a link");
    let built = build_without_engine(&host, &[]);
    assert_eq!(built.code, 0, "{built:?}");
    let (_, files) = export(&host);
    assert!(files.iter().any(|(path, _, _)| path == "link"), "{files:?}");
    assert!(files.iter().all(|(path, _, _)| !path.contains("secret")), "{files:?}");
}

#[test]
fn builds_at_the_same_time_and_killed_ones_leave_the_store_whole() {
    let host = project("", "FROM base:1\nCOPY a.txt /\nRUN echo begun; while :; do :; done\n");
    host.write("src/server/a.txt", "a");
    import_base(&host);
    fs::create_dir_all(host.path("bin")).expect("a directory");
    let mut child = command(&host, &["build"]).stderr(std::process::Stdio::piped()).spawn().expect("koze");
    let mut stderr = child.stderr.take().expect("a pipe");
    let mut printed = Vec::new();
    while !String::from_utf8_lossy(&printed).contains("\nbegun\n") {
        let mut buffer = [0; 4096];
        let count = stderr.read(&mut buffer).expect("the output");
        assert!(count > 0, "{}", String::from_utf8_lossy(&printed));
        printed.extend_from_slice(&buffer[..count]);
    }
    child.kill().expect("the build");
    child.wait().expect("the build");
    assert_eq!(list(&host).len(), 1, "only the base");

    host.write(DOCKERFILE, "FROM base:1\nCOPY a.txt /\nRUN cat /a.txt > /b.txt\n");
    let both = std::thread::scope(|scope| {
        let builds = [(), ()].map(|()| scope.spawn(|| build_without_engine(&host, &[])));
        builds.map(|build| build.join().expect("a build"))
    });
    for built in both {
        assert_eq!(built.code, 0, "{built:?}");
    }
    assert_eq!(list(&host).len(), 2);
    assert!(build_without_engine(&host, &[]).stdout.contains("is up to date"));
    assert_eq!(fs::read_dir(host.path("images/staging")).expect("staging").count(), 0);
}

#[test]
fn programs_of_a_build_reach_the_hosts_that_are_allowed() {
    let server = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a listener");
    let address = server.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nthere");
        }
    });
    // Through the proxy that the variables name. Without egress, nothing listens there.
    let program = "#!/usr/bin/bash\nset -e\nexec 3<> /dev/tcp/127.0.0.1/3128\n\
        printf 'GET http://allowed.example/ HTTP/1.1\\r\\nHost: allowed.example\\r\\nConnection: close\\r\\n\\r\\n' >&3\n\
        cat <&3 > /answer\n";
    let host = project("", "FROM base:1\nCOPY --chmod=755 get /\nRUN echo $http_proxy; /get; cat /answer\n");
    host.write("src/server/get", program);
    import_base(&host);
    fs::create_dir_all(host.path("bin")).expect("a directory");
    let names = format!("allowed.example={address},other.example={address}");
    let build = |args: &[&str]| {
        let mut command = command(&host, &[&["build", "--force"], args].concat());
        command.env("KOZE_TESTING_NAMES", &names);
        host.run(command)
    };
    let without = build(&[]);
    assert_eq!(without.code, 1, "{without:?}");
    let other = build(&["--allow-host", "other.example"]);
    assert!(!other.stderr.contains("there"), "{other:?}");
    let allowed = build(&["--allow-host", "allowed.example"]);
    assert_eq!(allowed.code, 0, "{allowed:?}");
    assert!(allowed.stderr.contains("there"), "{allowed:?}");
    // The proxy is not a part of the image.
    let (config, _) = export(&host);
    assert!(!config.to_string().contains("http_proxy="), "{config}");
    write_engine(&host, "docker", 0);
    let limited = build(&["--allow-host", "allowed.example"]);
    assert_eq!(limited.code, 2, "{limited:?}");
    assert!(limited.stderr.contains("`docker` cannot limit a build to hosts"), "{limited:?}");
}

#[test]
fn podman_builds_an_image() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: the podman of a plain user needs subordinate IDs");
        return;
    }
    let host = project(
        "image_vars(TEXT = \"of the build\")",
        "FROM scratch\nARG TEXT\nCOPY a.txt /a\nENV TEXT=$TEXT\n",
    );
    host.write("src/server/a.txt", "of the context");
    let path = |name: &str| host.path(name).to_str().expect("a path in Unicode").to_owned();
    // A store of its own, which no other podman sees.
    let storage = format!(
        "[storage]\ndriver = \"vfs\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n",
        path("root"),
        path("run")
    );
    host.write("storage.conf", storage);
    let podman = |args: &[&str]| {
        let mut command = host.command(args);
        command.env("CONTAINERS_STORAGE_CONF", host.path("storage.conf"));
        command
    };
    let built = host.run(podman(&["image", "build", "--engine", "podman"]));
    assert_eq!(built.code, 0, "run `cargo xtask setup` if podman is missing: {built:?}");
    let (config, files) = export(&host);
    let variables = config["config"]["Env"].as_array().expect("variables");
    assert!(variables.contains(&serde_json::json!("TEXT=of the build")), "{config}");
    assert!(files.iter().any(|(path, _, content)| path == "a" && content == b"of the context"), "{files:?}");
    // Nothing is left in the engine.
    let mut images = Command::new("podman");
    images.args(["images", "--noheading"]).env("CONTAINERS_STORAGE_CONF", host.path("storage.conf"));
    let listed = images.output().expect("podman");
    assert!(!String::from_utf8_lossy(&listed.stdout).contains("koze-build"), "{listed:?}");
}
