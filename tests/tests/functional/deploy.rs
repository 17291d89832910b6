//! `koze deploy`, and what it shares with `koze dev`. wrangler is a script that records how it is called.

use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;
use koze_tests::{Project, Run, eventually, koze, sleeps};

use crate::common::{SHELL, built, existing_config, plain, sandbox, shell};

/// Records its arguments and its working directory.
const WRANGLER: &str = "#!/bin/sh
{ pwd; printf '%s\\n' \"$@\"; command -v node; } > \"$NOTES\"
eval \"$DOES\"
";

/// An up-to-date project with such a wrangler.
fn project() -> Project {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    existing_config(&project);
    project.write("node_modules/wrangler/package.json", "{ \"version\": \"4.164.0\" }");
    program(&project, "node_modules/.bin/wrangler", WRANGLER);
    program(&project, "node_modules/.bin/node", "#!/bin/sh\necho v22.12.0\n");
    built(&project);
    let config = project.read("wrangler.jsonc");
    let command = "koze build --check && worker-build --release";
    assert!(config.contains(command), "{config}");
    project.write("wrangler.jsonc", config.replace(command, "true"));
    built(&project);
    project
}

fn program(project: &Project, path: &str, text: &str) {
    project.write(path, text);
    fs_err::set_permissions(project.path(path), PermissionsExt::from_mode(0o755)).expect("its permissions");
}

/// Runs koze with a wrangler script.
fn run(project: &Project, args: &[&str], does: &str) -> Run {
    let mut command = koze();
    command.args(args).env("NOTES", project.path("notes")).env("DOES", does).env_remove("CLOUDFLARE_ENV");
    command.env("WRANGLER_DOCKER_BIN", project.path("docker")).env("XDG_STATE_HOME", project.path("state"));
    project.run(command)
}

/// Returns how wrangler was called: its directory and arguments. Empty if it was not called.
fn notes(project: &Project) -> String {
    let notes = fs_err::read_to_string(project.path("notes")).unwrap_or_default();
    notes.replace(&*project.dir().to_string_lossy(), "[PROJECT]")
}

/// Runs `koze deploy`, which must fail before it runs wrangler, and returns its output.
fn refused(project: &Project, args: &[&str]) -> String {
    let run = run(project, &[&["deploy"], args].concat(), "");
    assert_eq!(notes(project), "", "{run:?}");
    assert_ne!(run.code, 0, "{run:?}");
    format!("{}{}", run.stdout, run.stderr)
}

#[test]
fn an_up_to_date_project_is_deployed() {
    let project = project();
    let run = run(
        &project,
        &["deploy", "--", "--dry-run", "--outdir", "a b"],
        "echo done; echo warned >&2; exit 3",
    );
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (3, "done\n", "warned\n"));
    assert_snapshot!(notes(&project), @"
    [PROJECT]
    deploy
    --env=
    --dry-run
    --outdir
    a b
    [PROJECT]/node_modules/.bin/node
    ");
}

#[test]
fn an_environment_and_another_configuration() {
    let project = project();
    let config = project.read("wrangler.jsonc").replacen('{', "{ \"env\": { \"staging\": {} },", 1);
    project.write("wrangler.jsonc", config);
    built(&project);
    assert_eq!(run(&project, &["deploy", "--env", "staging"], "").code, 0);
    assert_snapshot!(notes(&project), @"
    [PROJECT]
    deploy
    --env=staging
    [PROJECT]/node_modules/.bin/node
    ");
    fs_err::rename(project.path("wrangler.jsonc"), project.path("other.jsonc")).expect("it was there");
    let build = project.koze(&["build", "--config", "other.jsonc"]);
    assert_eq!(build.code, 0, "{build:?}");
    assert_eq!(run(&project, &["deploy"], "").code, 0);
    assert_snapshot!(notes(&project), @"
    [PROJECT]
    deploy
    --config
    [PROJECT]/other.jsonc
    --env=
    [PROJECT]/node_modules/.bin/node
    ");
}

#[test]
fn an_outdated_project_is_not_deployed() {
    let project = project();
    sandbox(&project, SHELL, "#[sandbox(max_instances = 3)]\npub struct ShellSandbox;");
    assert_snapshot!(refused(&project, &[]), @r#"
    1 sandbox in wrangler.jsonc, SDK 0.12.10 from package.json
      src/server/shell.sandbox.rs  ShellSandbox  SHELL_SANDBOX  docker.io/cloudflare/sandbox:0.12.10
    would update wrangler.jsonc
    would update koze.lock
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -13,7 +13,8 @@
           "name": "shell-sandbox",
           "class_name": "ShellSandbox",
           "image": "docker.io/cloudflare/sandbox:0.12.10",
    -      "instance_type": "lite"
    +      "instance_type": "lite",
    +      "max_instances": 3
         }
       ],
       "durable_objects": {
    --- a/koze.lock
    +++ b/koze.lock
    @@ -23,6 +23,7 @@
         "class_name",
         "image",
         "instance_type",
    +    "max_instances",
     ]
     
     [[migration]]
    error: the project is not in step: run `koze build`, commit the changes, then deploy
    "#);
}

#[test]
fn a_deployment_that_would_lose_storage_is_refused() {
    // The file of a class with storage was deleted.
    let lost = project();
    fs_err::remove_file(lost.path(SHELL)).expect("it was there");
    assert!(refused(&lost, &[]).starts_with("error[K043]"));

    // A hand-written migration deletes the storage of a declared class.
    let lost = project();
    let config = lost.read("wrangler.jsonc");
    let made = "\"new_sqlite_classes\": [\"ShellSandbox\"]\n    }";
    assert!(config.contains(made), "{config}");
    let deleted = format!("{made},\n    {{ \"tag\": \"v2\", \"deleted_classes\": [\"ShellSandbox\"] }}");
    lost.write("wrangler.jsonc", config.replace(made, &deleted));
    assert!(refused(&lost, &[]).contains("not in step"));

    // A deployed migration was edited.
    for (from, to) in
        [("\"tag\": \"v1\"", "\"tag\": \"v0\""), ("[\"ShellSandbox\"]", "[\"ShellSandbox\", \"X\"]")]
    {
        let lost = project();
        lost.write("wrangler.jsonc", lost.read("wrangler.jsonc").replace(from, to));
        assert!(refused(&lost, &[]).starts_with("error[K045]"), "{to}");
    }

    // Without the lock, it is unknown what koze owns.
    let lost = project();
    lost.write("koze.lock", format!("<<<<<<< ours\n{}", lost.read("koze.lock")));
    assert!(refused(&lost, &[]).starts_with("error[K055]"));

    // Replacing a class is a rename, which needs a migration first.
    let lost = project();
    plain(&lost, SHELL, "BashSandbox");
    assert!(refused(&lost, &[]).contains("not in step"));
}

#[test]
fn unmanaged_environments_are_not_deployed() {
    let project = project();
    let manifest = project.read("Cargo.toml");
    project.write("Cargo.toml", format!("{manifest}\n[package.metadata.koze]\nenvironments = []\n"));
    let config = project.read("wrangler.jsonc").replacen('{', "{ \"env\": { \"staging\": {} },", 1);
    project.write("wrangler.jsonc", config);
    built(&project);
    assert_snapshot!(refused(&project, &["--env", "staging"]), @"error: koze does not manage the environment `staging`: add it to `package.metadata.koze.environments` in Cargo.toml, and run `koze build`");
    let mut named = koze();
    named.arg("deploy").env("CLOUDFLARE_ENV", "staging").env("NOTES", project.path("notes"));
    assert!(project.run(named).stderr.contains("koze does not manage the environment `staging`"));
    assert_eq!(notes(&project), "");
    assert_snapshot!(refused(&project, &["--env", "stagign"]), @"error: `wrangler.jsonc` has no environment `stagign`");
}

/// wrangler reads the name of an environment from these files.
#[test]
fn an_environment_named_in_a_file() {
    let project = project();
    let config = project.read("wrangler.jsonc").replacen('{', "{ \"env\": { \"staging\": {} },", 1);
    project.write("wrangler.jsonc", config);
    built(&project);
    project.write(".env", "CLOUDFLARE_ENV=other\n");
    assert_snapshot!(refused(&project, &[]), @"error: `wrangler.jsonc` has no environment `other`");
    project.write(".env.local", "CLOUDFLARE_ENV=\"$OTHER\"\n");
    assert_snapshot!(refused(&project, &[]), @r#"error: .env.local: koze cannot tell which environment `CLOUDFLARE_ENV="$OTHER"` means: set it to the name of an environment, or pass `--env`"#);
    project.write(".env.local", "CLOUDFLARE_ENV=\"staging\"\n");
    for (args, expected) in [(&["deploy"][..], "--env=staging"), (&["deploy", "--env", ""], "--env=")] {
        assert_eq!(run(&project, args, "").code, 0);
        assert!(notes(&project).lines().any(|line| line == expected), "{}", notes(&project));
    }
}

/// Tombstones stay until the user removes them, and only a deployment tells when.
#[test]
fn tombstones_are_named_after_a_deployment() {
    let project = project();
    assert_eq!(project.koze(&["migrate", "--exports"]).code, 0);
    assert_eq!(run(&project, &["deploy"], "").stderr, "");
    plain(&project, SHELL, "BashSandbox");
    built(&project);
    assert_snapshot!(run(&project, &["deploy"], "").stderr, @r#"
    note: `exports` in wrangler.jsonc has a tombstone of `ShellSandbox`
      = help: once wrangler has listed it under "Safe to remove from `exports`" for every environment, remove the entry, and run `koze build`
    "#);
    // A deployment that failed tells nothing.
    assert_eq!(run(&project, &["deploy"], "exit 1").stderr, "");
    // An environment with exports of its own has its own tombstones.
    let live = r#"{ "type": "durable-object", "storage": "sqlite" }"#;
    let staging = format!(r#"{{ "env": {{ "staging": {{ "exports": {{ "BashSandbox": {live} }} }} }},"#);
    project.write("wrangler.jsonc", project.read("wrangler.jsonc").replacen('{', &staging, 1));
    built(&project);
    assert_eq!(run(&project, &["deploy", "--env", "staging"], "").stderr, "");
}

/// After a move to `managed`, the application of the former backend runs on, and only the account knows.
#[test]
fn former_applications_that_still_run_are_named() {
    let project = project();
    // Without a former one, nothing is asked.
    assert_eq!(run(&project, &["deploy"], "").code, 0);
    assert!(!notes(&project).contains("containers"), "{}", notes(&project));
    let migrated = project.koze(&["migrate", "--backend", "managed"]);
    assert_eq!(migrated.code, 0, "{migrated:?}");
    // An image that needs no engine.
    let attribute = "#[sandbox(backend = \"managed\", image = \"cloudflare/debian-trixie\")]";
    sandbox(&project, SHELL, &format!("{attribute}\npub struct ShellSandbox;"));
    built(&project);
    assert!(project.read("koze.lock").contains("former_containers = [\"shell-sandbox\"]"));
    // The deployment itself prints something else.
    let deploy = |list: &str| {
        let run =
            run(&project, &["deploy"], &format!("case $1 in deploy) echo deployed ;; *) {list} ;; esac"));
        assert_eq!((run.code, run.stdout.as_str()), (0, "deployed\n"), "{run:?}");
        run.stderr
    };
    let application =
        |name: &str, id: &str| format!("{{ \"id\": \"{id}\", \"name\": \"{name}\", \"instances\": 0 }}");
    let both = [application("shell-sandbox-managed", "new-id"), application("shell-sandbox", "old-id")];
    assert_snapshot!(deploy(&format!("echo '[{}]'", both.join(", "))), @"
    warning: the application `shell-sandbox` of an earlier deployment still exists, and its containers are billed
      = help: delete it with `npx wrangler containers delete old-id`
    ");
    assert_snapshot!(notes(&project), @"
    [PROJECT]
    containers
    list
    --json
    --per-page
    1000
    --env=
    [PROJECT]/node_modules/.bin/node
    ");
    assert_eq!(deploy(&format!("echo '[{}]'", both[0])), "");
    assert_eq!(deploy("echo '[]'"), "");
    let unknown = deploy("echo 'You are not logged in.'");
    assert_snapshot!(unknown, @"
    warning: cannot tell whether the former applications still run: shell-sandbox
      = help: `npx wrangler containers list` shows them; each is billed until `npx wrangler containers delete ID`
    ");
    for failure in ["echo '[]'; exit 1", "echo '{ \"error\": 1 }'", "exit 1", "true"] {
        assert_eq!(deploy(failure), unknown, "{failure}");
    }
    // A deployment that failed says nothing.
    assert_eq!(run(&project, &["deploy"], "exit 1").stderr, "");
}

#[test]
fn arguments_that_koze_needs_itself_are_rejected() {
    let project = project();
    let mut all = String::new();
    for args in [
        &["--config", "other.jsonc"][..],
        &["-c", "x"],
        &["--config=x"],
        &["--env", "staging"],
        &["-e", "x"],
        &["--cwd", "x"],
    ] {
        all += &refused(&project, &[&["--"], args].concat());
    }
    assert_snapshot!(all, @"
    error: pass `--config` before the `--`, because koze needs it, too
    error: pass `--config` before the `--`, because koze needs it, too
    error: pass `--config` before the `--`, because koze needs it, too
    error: pass `--env` before the `--`, because koze needs it, too
    error: pass `--env` before the `--`, because koze needs it, too
    error: pass `--project` before the `--`, because koze needs it, too
    ");
    assert_eq!(run(&project, &["dev", "--", "-e", "staging"], "").code, 2);
}

#[test]
fn missing_tools_are_reported() {
    let lacking = project();
    fs_err::remove_dir_all(lacking.path("node_modules/wrangler")).expect("it was there");
    program(&lacking, "node_modules/.bin/node", "#!/bin/sh\necho v20.19.0\n");
    assert_snapshot!(refused(&lacking, &[]), @"
    error: node: v20.19.0
      = help: wrangler needs Node 22.12.0 or newer: install it, or run `npm install --save-dev node@22`
    error: wrangler: not installed in this project
      = help: run `npm install --save-dev wrangler`
    ");
    let dev = run(&lacking, &["dev", "--local"], "");
    assert_eq!((dev.code, notes(&lacking)), (1, String::new()), "{dev:?}");
    assert!(dev.stderr.contains("error: wrangler: not installed"), "{dev:?}");
    assert!(!lacking.path(".wrangler").exists(), "something was started");
    lacking.write("package.json", r#"{ "dependencies": { "@cloudflare/sandbox": "0.12.10" }, "devDependencies": { "wrangler": "^4.115.0" } }"#);
    let stderr = refused(&lacking, &[]);
    assert!(stderr.contains("= help: run `npm install`: `package.json` already has wrangler\n"), "{stderr}");

    // The program of the build command is checked, too.
    let lacking = project();
    let config = lacking.read("wrangler.jsonc");
    lacking.write("wrangler.jsonc", config.replace("\"true\"", "\"worker-build --release\""));
    built(&lacking);
    let mut deploy = koze();
    deploy.arg("deploy").env("PATH", "/usr/bin:/bin").env("NOTES", lacking.path("notes"));
    let stderr = lacking.run(deploy).stderr;
    assert!(stderr.contains("error: worker-build: not on the PATH"), "{stderr}");
    assert!(stderr.contains("= help: run `cargo install worker-build`"), "{stderr}");
    assert_eq!(notes(&lacking), "");

    let bare = crate::common::package();
    assert_snapshot!(refused(&bare, &[]), @"error: the project has no sandboxes: create one with `koze add shell`, or a project with `koze new`");
}

/// A build command that installs worker-build itself, as in the official templates, is left to wrangler.
#[test]
fn a_build_command_that_installs_what_it_needs() {
    let project = project();
    let config = project.read("wrangler.jsonc");
    program(&project, "tools/rustc", "#!/bin/sh\necho /\n");
    program(&project, "docker", "#!/bin/sh\necho 27.0.0\n");
    let path = format!("{}:/usr/bin:/bin", project.path("tools").display());
    let official = r#"cargo install -q \"worker-build@^0.8\" && worker-build --release"#;
    let run = |args: &[&str]| {
        let _ = fs_err::remove_file(project.path("notes"));
        let mut command = koze();
        command.args(args).env("PATH", &path).env("NOTES", project.path("notes")).env("DOES", "exit 7");
        command.env("WRANGLER_DOCKER_BIN", project.path("docker")).env_remove("CLOUDFLARE_ENV");
        command.env("XDG_STATE_HOME", project.path("state"));
        project.run(command)
    };
    for command in [official, "cargo install -q worker-build && worker-build --release"] {
        project.write("wrangler.jsonc", config.replace("\"true\"", &format!("\"{command}\"")));
        built(&project);
        for args in [&["deploy"][..], &["dev"]] {
            let run = run(args);
            assert_eq!((run.code, run.stderr.contains("worker-build:")), (7, false), "{command}: {run:?}");
            assert!(notes(&project).contains(&format!("{}\n", args[0])), "{command}");
        }
    }
    // If only a shell can tell, a warning is shown, and the deployment continues.
    project.write("wrangler.jsonc", config.replace("\"true\"", "\"make tools && worker-build --release\""));
    built(&project);
    let unsure = run(&["deploy"]);
    assert_eq!(unsure.code, 7, "{unsure:?}");
    assert!(unsure.stderr.starts_with("warning: worker-build: not on the PATH"), "{unsure:?}");

    // An environment's own build command is the one that counts.
    let staging = config.replace("\"true\"", "\"worker-build\"").replacen(
        '{',
        &format!("{{ \"env\": {{ \"staging\": {{ \"build\": {{ \"command\": \"{official}\" }} }} }},"),
        1,
    );
    project.write("wrangler.jsonc", staging);
    built(&project);
    assert_eq!(run(&["deploy", "--env", "staging"]).code, 7);
    let top = run(&["deploy"]);
    assert!(top.code == 1 && top.stderr.contains("error: worker-build: not on the PATH"), "{top:?}");
}

#[test]
fn containers_need_an_engine() {
    let project = project();
    let dev = run(&project, &["dev"], "");
    assert_eq!((dev.code, notes(&project)), (1, String::new()), "{dev:?}");
    assert_snapshot!(dev.stderr, @"error: no Docker engine is running, and `koze dev` runs sandboxes in containers: start Docker, or run `koze dev --local`, which does not need it");

    program(&project, "docker", "#!/bin/sh\necho 27.0.0\n");
    let dev =
        run(&project, &["dev", "--port", "8080", "--", "--show-interactive-dev-session=false"], "exit 9");
    assert_eq!(dev.code, 9, "{dev:?}");
    assert_snapshot!(notes(&project), @"
    [PROJECT]
    dev
    --port
    8080
    --env=
    --show-interactive-dev-session=false
    [PROJECT]/node_modules/.bin/node
    ");
    assert_eq!(run(&project, &["dev", "--state", "x"], "").code, 2, "a state without sandboxes here");
}

#[test]
fn descendants_of_wrangler_are_killed() {
    let project = project();
    program(&project, "docker", "#!/bin/sh\necho 27.0.0\n");
    let does = "sleep 86394 > /dev/null 2>&1 & setsid sleep 86393 > /dev/null 2>&1 & \
                sh -c 'sleep 86392 & exit' > /dev/null 2>&1; kill -USR1 $$";
    let dev = run(&project, &["dev"], does);
    assert_eq!(dev.code, 128 + 10, "{dev:?}");
    for seconds in ["86394", "86393", "86392"] {
        eventually("it is gone", || !sleeps(seconds));
    }
}

/// wrangler cannot pull images without a login, but it can build them.
#[test]
fn a_prebuilt_image_needs_a_login() {
    let project = project();
    program(&project, "docker", "#!/bin/sh\necho 27.0.0\n");
    let dev = |variables: &[(&str, &str)]| {
        let mut command = koze();
        command
            .args(["dev"])
            .env("NOTES", project.path("notes"))
            .env("DOES", "exit 0")
            .env_remove("CLOUDFLARE_ENV");
        command.env("WRANGLER_DOCKER_BIN", project.path("docker")).env("HOME", project.path("home"));
        for name in ["CLOUDFLARE_API_TOKEN", "CLOUDFLARE_API_KEY", "CF_API_TOKEN", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied());
        let run = project.run(command);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(notes(&project).contains("dev\n"), "wrangler has the last word");
        run.stderr.lines().filter(|line| line.contains("login")).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(dev(&[]), @"koze dev: wrangler pulls `docker.io/cloudflare/sandbox:0.12.10` of src/server/shell.sandbox.rs only with a Cloudflare login (`npx wrangler login`). A Dockerfile next to the sandbox does not need one: echo 'FROM docker.io/cloudflare/sandbox:0.12.10' > src/server/shell.Dockerfile");
    assert_eq!(dev(&[("CLOUDFLARE_API_TOKEN", "x")]), "");
    project.write("home/.config/.wrangler/config/default.toml", "oauth_token = \"x\"\n");
    assert_eq!(dev(&[]), "");
    fs_err::remove_dir_all(project.path("home")).expect("it was there");
    project.write(".env", "CLOUDFLARE_API_TOKEN=x\n");
    assert_eq!(dev(&[]), "");
    fs_err::remove_file(project.path(".env")).expect("it was there");
    assert_ne!(dev(&[]), "");
    // The remedy works.
    project.write("src/server/shell.Dockerfile", "FROM docker.io/cloudflare/sandbox:0.12.10\n");
    assert_eq!(dev(&[]), "");
}

/// wrangler's errors are passed on unchanged; those without a useful remedy are explained.
#[test]
fn wranglers_errors_are_explained() {
    let project = project();
    let taken = "There is already an application with the name shell-sandbox-staging deployed that is associated with a \
                 different durable object namespace (0123). Either change the container name or delete the existing \
                 application first.";
    let does = format!("printf '\\033[31m%s\\033[0m\\n' '{taken}' >&2; echo out; exit 1");
    let deploy = run(&project, &["deploy"], &does);
    assert_eq!((deploy.code, deploy.stdout.as_str()), (1, "out\n"), "{deploy:?}");
    let output = format!("\u{1b}[31m{taken}\u{1b}[0m\n");
    let explained = deploy.stderr.strip_prefix(&output).expect("as wrangler said it");
    assert_snapshot!(explained, @r#"
    error: the container application `shell-sandbox-staging` belongs to another Worker of this account, or to a class that is gone: an application's name is unique in an account
      = help: give this one another name, `#[sandbox(name = "app-shell")]` in src/server/shell.sandbox.rs, or change `name` in wrangler.jsonc where you wrote it yourself; then run `koze build` and deploy again. If nothing uses the other application any more, delete it: `wrangler containers list`, `wrangler containers delete ID`
    "#);
    // If the name already starts with the Worker's, another one is suggested.
    sandbox(&project, SHELL, "#[sandbox(name = \"app-shell\")]\npub struct ShellSandbox;");
    built(&project);
    let deploy = run(&project, &["deploy"], &does.replace("shell-sandbox-staging", "app-shell"));
    assert!(
        deploy.stderr.contains("`#[sandbox(name = \"app-shell-2\")]` in src/server/shell.sandbox.rs"),
        "{deploy:?}"
    );

    let never = "New version of script does not export class [code: 10074]";
    let deploy = run(&project, &["deploy"], &format!("echo '{never}' >&2; exit 1"));
    assert!(deploy.stderr.contains("= help: where a sandbox was removed before its first deployment, run `koze remove NAME --never-deployed`"), "{deploy:?}");
    // A successful deployment is not explained.
    let deploy = run(&project, &["deploy"], &format!("echo '{taken}' >&2"));
    assert_eq!((deploy.code, deploy.stderr), (0, format!("{taken}\n")));
}

/// wrangler's output is shown immediately, signals are forwarded, and a background process does not block koze.
#[test]
fn wranglers_output_and_signals_are_forwarded() {
    use std::io::{BufRead as _, BufReader};
    let project = project();
    let mut command = koze();
    let does = "trap 'echo told >&2; exit 5' TERM; sleep 86391 & echo $! > background; echo ready >&2; wait";
    command.arg("deploy").env("NOTES", project.path("notes")).env("DOES", does).env_remove("CLOUDFLARE_ENV");
    command
        .current_dir(project.dir())
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped());
    let mut koze = command.spawn().expect("koze");
    let mut lines = BufReader::new(koze.stderr.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "ready");
    let id = rustix::process::Pid::from_child(&koze);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it runs");
    assert_eq!(lines.next().expect("a line").expect("text"), "told");
    assert_eq!(koze.wait().expect("its end").code(), Some(5));
    // The background process survives wrangler.
    let left = project.read("background").trim().parse().ok().and_then(rustix::process::Pid::from_raw);
    let left = left.expect("a process id");
    rustix::process::kill_process(left, rustix::process::Signal::KILL).expect("it is held up by nothing");
    let killed = run(&project, &["deploy"], "kill -KILL $$");
    assert_eq!(killed.code, 128 + 9, "{killed:?}");
}
