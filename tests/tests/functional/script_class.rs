//! The class that runs scripts in a Worker: `[package.metadata.koze.script]`.

use insta::assert_snapshot;
use koze_tests::{Project, diff};
use serde_json::{Value, json};

use crate::common::{document, existing_config, refused_with};

const REGISTRY: &str = "\n[package.metadata.koze]\nregistry = true\n";
const TABLE: &str = "\n[package.metadata.koze.script]\n";
const ENGINE: &str = "src/generated/koze/koze-script.wasm";

const OBJECT: &str = "src/generated/koze/script-object.mjs";

/// The files that only scripts need.
const FILES: [&str; 9] = [
    "src/generated/koze/egress.d.mts",
    "src/generated/koze/egress.mjs",
    ENGINE,
    "src/generated/koze/script-database.mjs",
    "src/generated/koze/script-fetch.mjs",
    "src/generated/koze/script-object.d.mts",
    "src/generated/koze/script-object.mjs",
    "src/generated/koze/scripts.d.mts",
    "src/generated/koze/scripts.mjs",
];

/// A project with one sandbox and the registry, after a build, then with scripts if `asked`.
fn project(asked: bool) -> Project {
    of_fixture("bare", asked)
}

fn of_fixture(name: &str, asked: bool) -> Project {
    let project = Project::before_build(name);
    if name == "bare" {
        existing_config(&project);
    }
    let manifest = project.read("Cargo.toml");
    let with_feature = "koze = { version = \"0.1.0\", features = [\"script\"] }";
    let manifest = manifest.replace("koze = \"0.1.0\"", with_feature);
    assert!(manifest.contains(with_feature));
    project.write("Cargo.toml", manifest + REGISTRY);
    built(&project);
    if asked {
        ask(&project);
        built(&project);
    }
    project
}

fn built(project: &Project) {
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
}

fn ask(project: &Project) {
    project.write("Cargo.toml", project.read("Cargo.toml") + TABLE);
}

fn ask_no_more(project: &Project) {
    project.write("Cargo.toml", project.read("Cargo.toml").replace(TABLE, ""));
}

fn config(project: &Project) -> Value {
    let text = project.read("wrangler.jsonc");
    jsonc_parser::parse_to_serde_value(&text, &jsonc_parser::ParseOptions::default()).expect("JSONC")
}

#[test]
#[allow(clippy::too_many_lines, reason = "it shows all that changes")]
fn it_gets_its_own_tag_and_binding() {
    let project = project(false);
    let before = project.snapshot();
    ask(&project);
    assert_eq!(project.koze(&["build", "--check"]).code, 1);
    built(&project);
    // The new files are compared with their templates, and the definitions with those of the family.
    let (new, diff) = project.changes(&before);
    assert_eq!(new, FILES);
    let engine = fs_err::read(project.path(ENGINE)).expect("the engine");
    assert_eq!(engine, koze_templates::SCRIPT_ENGINE);
    assert_snapshot!(diff, @r#"
    --- a/Cargo.toml
    +++ b/Cargo.toml
    @@ -15,3 +15,5 @@
     
     [package.metadata.koze]
     registry = true
    +
    +[package.metadata.koze.script]
    --- a/koze.lock
    +++ b/koze.lock
    @@ -15,6 +15,11 @@
     binding = "KOZE_SESSIONS"
     migration = "v2"
     
    +[scripts]
    +class = "KozeScripts"
    +binding = "KOZE_SCRIPTS"
    +migration = "v3"
    +
     [[sandbox]]
     name = "shell"
     file = "src/server/shell.sandbox.rs"
    @@ -37,3 +42,7 @@
     [[migration]]
     tag = "v2"
     hash = "sha256:de4ca610eca6e63a93535d69c3d56db5c8ec659a817f2ddec5073dfef4ffaecc"
    +
    +[[migration]]
    +tag = "v3"
    +hash = "sha256:6cefd4b3c231fb7ba85d48cc12c1f0bb7c621603d71abf74a0c95ece833d2daa"
    --- a/src/generated/env.rs
    +++ b/src/generated/env.rs
    @@ -32,6 +32,11 @@
             ::koze::Namespace::new(&self.0)
         }
     
    +    /// The Durable Object namespace `KOZE_SCRIPTS`.
    +    pub fn koze_scripts(&self) -> ::koze::__private::worker::Result<::koze::__private::worker::ObjectNamespace> {
    +        self.0.durable_object("KOZE_SCRIPTS")
    +    }
    +
         /// The Durable Object namespace `KOZE_SESSIONS`.
         pub fn koze_sessions(&self) -> ::koze::__private::worker::Result<::koze::__private::worker::ObjectNamespace> {
             self.0.durable_object("KOZE_SESSIONS")
    --- a/src/generated/tools.rs
    +++ b/src/generated/tools.rs
    @@ -66,10 +66,11 @@
             Profile::Shell.declared(),
         ];
         ::koze::Profiles::new(list, Profile::default().name()).expect("the default is one of them")
    +        .with_script_egress(::koze::script::Egress::default())
     }
     
     /// The families of tools that the project serves.
    -pub type Families = (::koze::tool::agent::Agent,);
    +pub type Families = (::koze::tool::agent::Agent, ::koze::tool::script::Scripts,);
     
     /// Returns the default toolset: the tools of the family `agent`, or those of the only family.
     ///
    --- a/src/generated/worker.d.mts
    +++ b/src/generated/worker.d.mts
    @@ -2,6 +2,7 @@
     
     import type { KozeSandbox as KozeBase } from "./koze/sdk/sdk.mjs";
     export { KozeSessions } from "./koze/sessions.mjs";
    +export { KozeScripts } from "./koze/script-object.mjs";
     
     /** The Rust Worker. */
     declare const worker: ExportedHandler;
    --- a/src/generated/worker.mjs
    +++ b/src/generated/worker.mjs
    @@ -7,6 +7,7 @@
     export { default } from "../../build/index.js";
     export * from "../../build/index.js";
     export { KozeSessions } from "./koze/sessions.mjs";
    +export { KozeScripts } from "./koze/script-object.mjs";
     
     /** The sandbox that `src/server/shell.sandbox.rs` declares. */
     export class ShellSandbox extends KozeBase {
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -25,6 +25,10 @@
           {
             "name": "KOZE_SESSIONS",
             "class_name": "KozeSessions"
    +      },
    +      {
    +        "name": "KOZE_SCRIPTS",
    +        "class_name": "KozeScripts"
           }
         ]
       },
    @@ -36,6 +40,10 @@
         {
           "tag": "v2",
           "new_sqlite_classes": ["KozeSessions"]
    +    },
    +    {
    +      "tag": "v3",
    +      "new_sqlite_classes": ["KozeScripts"]
         }
       ]
     }
    "#);
    assert!(project.koze(&["build"]).stdout.contains("nothing to do"));
    assert_eq!(project.koze(&["build", "--check"]).code, 0);
}

#[test]
fn in_every_environment() {
    let project = of_fixture("environments", true);
    let bound = |level: &Value| {
        let bindings = level["durable_objects"]["bindings"].as_array().expect("bindings");
        bindings
            .iter()
            .filter(|one| one["name"] == "KOZE_SCRIPTS" && one["class_name"] == "KozeScripts")
            .count()
    };
    let config = config(&project);
    assert_eq!(bound(&config), 1);
    for (name, level) in config["env"].as_object().expect("environments") {
        assert_eq!(bound(level), 1, "{name}");
    }
    assert!(project.koze(&["build"]).stdout.contains("nothing to do"));
}

#[test]
fn in_toml() {
    let project = of_fixture("toml", false);
    let before = project.snapshot();
    ask(&project);
    built(&project);
    let mut after = project.snapshot();
    after.retain(|path, _| path == "wrangler.toml");
    let before = before.into_iter().filter(|(path, _)| path == "wrangler.toml").collect();
    assert_snapshot!(diff(&before, &after), @r#"
    --- a/wrangler.toml
    +++ b/wrangler.toml
    @@ -40,6 +40,7 @@
         { name = "PYTHON_SANDBOX", class_name = "PythonSandbox" },
         { name = "SHELL_SANDBOX", class_name = "ShellSandbox" },
         { name = "KOZE_SESSIONS", class_name = "KozeSessions" },
    +    { name = "KOZE_SCRIPTS", class_name = "KozeScripts" },
     ]
     
     # Never edit a migration.
    @@ -55,6 +56,10 @@
     tag = "v3"
     new_sqlite_classes = ["KozeSessions"]
     
    +[[migrations]]
    +tag = "v4"
    +new_sqlite_classes = ["KozeScripts"]
    +
     [observability]
     enabled = true
     # The end.
    "#);
    assert!(project.koze(&["build"]).stdout.contains("nothing to do"));
}

#[test]
fn storage_is_not_lost_silently() {
    let project = project(true);
    ask_no_more(&project);
    let refused = refused_with(&project, &["build"]);
    assert_snapshot!(refused, @r#"
    error[K072]: `Cargo.toml` no longer enables the tools `script` in the Worker, but its class `KozeScripts` still has storage
      --> wrangler.jsonc:44:5
       |
    44 | /     {
    45 | |       "tag": "v3",
    46 | |       "new_sqlite_classes": ["KozeScripts"]
    47 | |     }
       | |_____^
       |
       = help: a build never deletes storage: add `[package.metadata.koze.script]` without `worker = false` to `Cargo.toml` again, or run `koze remove KozeScripts` with `--keep-storage` or `--delete-storage`

    1 error; nothing was written
    "#);
    // Nor if the lock is lost.
    fs_err::remove_file(project.path("koze.lock")).expect("the lock");
    assert!(refused_with(&project, &["build"]).contains("its class `KozeScripts` still has storage"));
}

#[test]
fn its_storage_is_deleted_on_request() {
    let project = project(true);
    assert_snapshot!(refused_with(&project, &["remove", "KozeScripts", "--delete-storage"]), @"
    error[K059]: `KozeScripts` cannot be removed: `Cargo.toml` enables it
    --> Cargo.toml
     = help: remove `[package.metadata.koze.script]` or set `worker = false` in it first, then run the command again

    1 error; nothing was written
    ");
    ask_no_more(&project);
    let run = project.koze(&["remove", "KozeScripts", "--delete-storage"]);
    assert_eq!(run.code, 0, "{run:?}");
    let config = project.read("wrangler.jsonc");
    assert!(
        config.contains("\"deleted_classes\": [\"KozeScripts\"]") && !config.contains("KOZE_SCRIPTS"),
        "{config}"
    );
    assert!(config.contains("KOZE_SESSIONS"), "{config}");
    assert!(!project.read("src/generated/worker.mjs").contains("KozeScripts"));
    assert!(!project.read("koze.lock").contains("[scripts]"));
    for file in FILES {
        assert!(!project.path(file).exists(), "{file}");
    }
    assert!(project.koze(&["build"]).stdout.contains("nothing to do"));
    // If it is enabled again, it is created again.
    ask(&project);
    built(&project);
    assert!(project.read("wrangler.jsonc").contains("KOZE_SCRIPTS"));
}

#[test]
fn its_storage_can_be_kept_without_it() {
    let project = project(true);
    ask_no_more(&project);
    let run = project.koze(&["remove", "KozeScripts", "--keep-storage"]);
    assert_eq!(run.code, 0, "{run:?}");
    let entry = project.read("src/generated/worker.mjs");
    assert!(entry.contains("export class KozeScripts extends KozeKept"), "{entry}");
    assert!(!entry.contains("script-object"), "{entry}");
    assert!(!project.path(ENGINE).exists());
    assert!(project.read("wrangler.jsonc").contains("KOZE_SCRIPTS"));
    assert!(project.koze(&["build"]).stdout.contains("nothing to do"));
    // Enabled again, it uses the same storage.
    ask(&project);
    built(&project);
    assert!(!project.read("src/generated/worker.mjs").contains("export class KozeScripts"));
    assert!(!project.read("koze.lock").contains("[[kept]]"));
    assert_eq!(project.read("wrangler.jsonc").matches("new_sqlite_classes").count(), 3);
}

#[test]
fn one_that_was_never_deployed_leaves_no_trace() {
    let project = project(false);
    let before = project.snapshot();
    ask(&project);
    built(&project);
    ask_no_more(&project);
    let run = project.koze(&["remove", "KozeScripts", "--never-deployed"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(project.diff(&before), "");
}

/// Lists the scripts of a project as JSON.
fn listed(project: &Project) -> Value {
    let run = project.koze(&["list", "--format", "json"]);
    assert_eq!(run.code, 0, "{run:?}");
    document(&run)["scripts"].clone()
}

#[test]
fn it_is_listed() {
    let of = |isolated| json!({ "class": "KozeScripts", "binding": "KOZE_SCRIPTS", "isolated": isolated });
    let project = project(false);
    assert_eq!(listed(&project), Value::Null);
    // Before the build that creates it, too.
    ask(&project);
    assert_eq!(listed(&project), of(false));
    built(&project);
    let config = project.read("wrangler.jsonc");
    let loader = "{\n  \"worker_loaders\": [{ \"binding\": \"LOADER\" }],";
    project.write("wrangler.jsonc", config.replacen('{', loader, 1));
    assert_eq!(listed(&project), of(true));
    let last = |run: koze_tests::Run| run.stdout.lines().last().unwrap_or_default().to_owned();
    assert_eq!(
        last(project.koze(&["list"])),
        "scripts of agents: KozeScripts, bound as KOZE_SCRIPTS, in a dynamic Worker"
    );
    let project = self::project(false);
    project.write("Cargo.toml", project.read("Cargo.toml") + TABLE + "worker = false\n");
    assert_eq!(listed(&project), json!({ "class": null, "binding": null, "isolated": false }));
    assert_eq!(last(project.koze(&["list"])), "scripts of agents: on this machine only");
}

/// Scripts on this machine only need neither the class, the registry nor the feature.
#[test]
fn a_worker_can_do_without_it() {
    let project = Project::before_build("bare");
    built(&project);
    let before = project.snapshot();
    ask(&project);
    assert_eq!(refused_with(&project, &["build"]).matches("error[K09").count(), 2);
    project.write("Cargo.toml", project.read("Cargo.toml") + "worker = false\n");
    assert!(project.koze(&["build"]).stdout.contains("nothing to do"));
    let changed: Vec<String> = project
        .snapshot()
        .into_iter()
        .filter(|file| !before.contains_key(&file.0))
        .map(|file| file.0)
        .collect();
    assert!(changed.is_empty(), "{changed:?}");
    // The tools of this machine are there all the same.
    let tools = project.koze(&["tools", "--tools", "script"]);
    assert!(tools.code == 0 && tools.stdout.contains("\"run_sandbox_code\""), "{tools:?}");
}

#[test]
fn a_worker_does_not_lose_its_storage_without_it() {
    let project = project(true);
    project.write("Cargo.toml", project.read("Cargo.toml") + "worker = false\n");
    let refused = refused_with(&project, &["build"]);
    assert!(refused.starts_with("error[K072]"), "{refused}");
    let run = project.koze(&["remove", "KozeScripts", "--keep-storage"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(project.koze(&["build"]).stdout.contains("nothing to do"));
    assert!(!project.path(ENGINE).exists());
    let tools = project.koze(&["tools", "--tools", "script"]);
    assert_eq!(tools.code, 0, "{tools:?}");
}

#[test]
fn with_exports_it_is_declared_there() {
    let project = project(false);
    let config = project.read("wrangler.jsonc");
    let (head, _) = config.split_once("\"migrations\"").expect("migrations");
    let exports = "\"exports\": { \"ShellSandbox\": { \"type\": \"durable-object\", \"storage\": \"sqlite\" }, \
                   \"KozeSessions\": { \"type\": \"durable-object\", \"storage\": \"sqlite\" } }\n}\n";
    project.write("wrangler.jsonc", format!("{head}{exports}"));
    fs_err::remove_file(project.path("koze.lock")).expect("the lock");
    ask(&project);
    built(&project);
    let config = project.read("wrangler.jsonc");
    assert!(!config.contains("migrations"), "{config}");
    assert!(config.contains("\"KozeScripts\": {"), "{config}");
    assert!(
        project
            .read("koze.lock")
            .contains("[scripts]\nclass = \"KozeScripts\"\nbinding = \"KOZE_SCRIPTS\"\n\n")
    );
}

#[test]
fn another_binding_with_its_name_is_an_error() {
    let project = project(false);
    let config = project.read("wrangler.jsonc");
    project
        .write("wrangler.jsonc", config.replacen('{', "{\n  \"vars\": { \"KOZE_SCRIPTS\": \"mine\" },", 1));
    ask(&project);
    assert_snapshot!(refused_with(&project, &["build"]), @r#"
    error[K042]: `KOZE_SCRIPTS` is the binding of the scripts that `Cargo.toml` enables, but it is another binding here
     --> wrangler.jsonc:2:29
      |
    2 |   "vars": { "KOZE_SCRIPTS": "mine" },
      |                             ^^^^^^
      |
      = help: give this one another name, or remove `[package.metadata.koze.script]`; the class of the scripts is `KozeScripts`

    1 error; nothing was written
    "#);
    let other = "{ \"name\": \"THEIRS\", \"class_name\": \"KozeScripts\", \"script_name\": \"other\" },";
    project.write(
        "wrangler.jsonc",
        config.replacen("\"bindings\": [", &format!("\"bindings\": [\n      {other}"), 1),
    );
    assert_snapshot!(refused_with(&project, &["build"]), @r#"
    error[K042]: this binding has the class `KozeScripts` of another Worker, `other`
      --> wrangler.jsonc:21:71
       |
    21 |       { "name": "THEIRS", "class_name": "KozeScripts", "script_name": "other" },
       |                                                                       ^^^^^^^
       |
       = help: the class of the scripts is in this Worker: remove `script_name`, or `[package.metadata.koze.script]` from `Cargo.toml`

    1 error; nothing was written
    "#);
}

#[test]
fn no_sandbox_can_have_its_name() {
    let project = project(false);
    project.write(
        "src/server/shell.sandbox.rs",
        "use koze::prelude::*;\n\n#[sandbox]\npub struct KozeScripts;\n",
    );
    let stderr = refused_with(&project, &["build"]);
    assert!(stderr.contains("error[K009]: `KozeScripts`"), "{stderr}");
}

#[test]
fn it_needs_the_registry() {
    let project = project(false);
    project.write("Cargo.toml", project.read("Cargo.toml").replace(REGISTRY, "") + TABLE);
    fs_err::remove_file(project.path("koze.lock")).expect("the lock");
    fs_err::remove_file(project.path("wrangler.jsonc")).expect("the configuration");
    fs_err::remove_dir_all(project.path("src/generated")).expect("the generated files");
    let before = project.snapshot();
    assert_snapshot!(refused_with(&project, &["build"]), @"
    error[K093]: `Cargo.toml` enables the tools `script`, but not the registry of sessions, in which a Worker keeps the state of scripts
      --> Cargo.toml:16:1
       |
    16 | [package.metadata.koze.script]
       | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = help: add the line `registry = true` under `[package.metadata.koze]` in `Cargo.toml`, then run `koze build` again; or, for scripts on this machine only, `worker = false` under `[package.metadata.koze.script]`

    1 error; nothing was written
    ");
    assert_eq!(project.diff(&before), "");
    // On this machine, it does not.
    assert_eq!(project.koze(&["tools", "--tools", "script"]).code, 0);
}

#[test]
fn it_needs_the_feature() {
    let project = project(false);
    ask(&project);
    let manifest = project.read("Cargo.toml");
    let dependency = "koze = { version = \"0.1.0\", features = [\"script\"] }";
    let with = |other: &str| project.write("Cargo.toml", manifest.replace(dependency, other));
    with("koze = \"0.1.0\"");
    assert_snapshot!(refused_with(&project, &["build"]), @r#"
    error[K094]: `Cargo.toml` enables the tools `script`, but its dependency `koze` does not have the feature `script`
      --> Cargo.toml:11:8
       |
    11 | koze = "0.1.0"
       |        ^^^^^^^
       |
       = help: the Worker would not compile: run `cargo add koze --features script`, then `koze build` again; or, for scripts on this machine only, set `worker = false` under `[package.metadata.koze.script]`

    1 error; nothing was written
    "#);
    for lacks in [
        "koze = { version = \"0.1.0\", features = [\"tracing\"] }",
        "koze.version = \"0.1.0\"",
        "k = { package = \"koze\", version = \"0.1.0\" }",
    ] {
        with(lacks);
        assert!(refused_with(&project, &["build"]).contains("error[K094]"), "{lacks}");
    }
    for has in [
        "koze = { version = \"0.1.0\", features = [\"tracing\", \"script\"] }",
        "koze.features = [\"script\"]\nkoze.version = \"0.1.0\"",
        "koze = \"0.1.0\"\n[features]\ndefault = [\"koze/script\"]",
        "koze = \"0.1.0\"\n[target.'cfg(all())'.dependencies]\nkoze = { version = \"0.1.0\", features = [\"script\"] }",
        // The compiler will say what is missing.
        "",
    ] {
        with(has);
        let run = project.koze(&["build"]);
        assert_eq!(run.code, 0, "{has}: {run:?}");
    }
}

#[test]
fn the_feature_can_be_that_of_the_workspace() {
    let project = project(false);
    ask(&project);
    let manifest = project.read("Cargo.toml").replace("\n[workspace]\n", "");
    let dependency = "koze = { version = \"0.1.0\", features = [\"script\"] }";
    for (own, workspace, has) in [
        ("koze.workspace = true", Some("koze = \"0.1.0\""), false),
        ("koze.workspace = true", Some(dependency), true),
        ("koze = { workspace = true, features = [\"script\"] }", Some("koze = \"0.1.0\""), true),
        // Without its manifest, nobody knows.
        ("koze.workspace = true", None, true),
    ] {
        let around = workspace
            .map(|koze| format!("[workspace]\nmembers = []\n\n[workspace.dependencies]\n{koze}\n\n"));
        project.write("Cargo.toml", around.unwrap_or_default() + &manifest.replace(dependency, own));
        let run = project.koze(&["build", "--dry-run"]);
        assert_eq!(!run.stderr.contains("error[K094]"), has, "{own}, {workspace:?}: {run:?}");
        assert_eq!(run.code == 0, has, "{run:?}");
    }
}

#[test]
fn with_a_loader_scripts_run_in_a_dynamic_worker() {
    let project = project(true);
    let object = "src/generated/koze/script-object.mjs";
    assert!(!project.read(object).contains("isolated"));
    let config = project.read("wrangler.jsonc");
    let loader = "{\n  \"worker_loaders\": [{ \"binding\": \"LOADER\" }],";
    project.write("wrangler.jsonc", config.replacen('{', loader, 1));
    built(&project);
    let text = project.read(object);
    assert!(text.contains("import { isolated }") && text.contains("[\"LOADER\"]"), "{text}");
    // The name is a digest of the code: `koze_tests::shared` computes it, too.
    let isolated = "src/generated/koze/isolated.mjs";
    assert_eq!(Some(project.read(isolated).into_bytes()), koze_tests::shared(isolated));
    assert!(project.koze(&["build"]).stdout.contains("nothing to do"));
    project.write("wrangler.jsonc", config);
    built(&project);
    assert!(!project.path("src/generated/koze/isolated.mjs").exists());
    assert!(!project.read(object).contains("isolated"));
}

#[test]
fn only_the_engine_is_overwritten() {
    let project = project(false);
    ask(&project);
    project.write(ENGINE, "mine");
    let stderr = refused_with(&project, &["build"]);
    assert!(stderr.contains("error[K056]") && stderr.contains(ENGINE), "{stderr}");
    assert_eq!(project.read(ENGINE), "mine");
    // That of another version.
    project.write(ENGINE, [koze_templates::SCRIPT_ENGINE, b"\0"].concat());
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    let engine = fs_err::read(project.path(ENGINE)).expect("the engine");
    assert_eq!(engine, koze_templates::SCRIPT_ENGINE);
    // A file of that name is not deleted, either.
    ask_no_more(&project);
    project.write(ENGINE, "mine");
    let run = project.koze(&["remove", "KozeScripts", "--never-deployed"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(project.read(ENGINE), "mine");
}

#[test]
fn an_ignored_engine_is_reported() {
    let project = project(false);
    project.write(".gitignore", "*.wasm\n");
    ask(&project);
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains(&format!("`{ENGINE}`")) || run.stderr.contains(ENGINE), "{run:?}");
}

#[test]
fn the_hosts_reach_the_tools() {
    let project = project(false);
    let hosts = "internet = true\nallowed_hosts = [\"a.example\", \"*.b.example\"]\ndenied_hosts = [\"c.b.example\"]\n";
    project.write("Cargo.toml", project.read("Cargo.toml") + TABLE + hosts);
    built(&project);
    let tools = project.read("src/generated/tools.rs");
    let (_, profiles) = tools.split_once("pub fn profiles()").expect("profiles");
    let (profiles, _) = profiles.split_once("\n}\n").expect("its end");
    assert_snapshot!(profiles, @r#"
    -> ::koze::Profiles {
       let list = ::std::vec![
           Profile::Shell.declared(),
       ];
       ::koze::Profiles::new(list, Profile::default().name()).expect("the default is one of them")
           .with_script_egress(::koze::script::Egress { internet: true, allowed_hosts: ["a.example", "*.b.example"].map(::core::convert::Into::into).to_vec(), denied_hosts: ["c.b.example"].map(::core::convert::Into::into).to_vec() })
    "#);
}

/// Adds `browser = true` to the last table of the manifest, which is that of scripts, and the feature.
fn turn_on(project: &Project) {
    let manifest = project.read("Cargo.toml").replace("\"script\"]", "\"script\", \"browser\"]");
    assert!(manifest.contains("\"browser\""), "{manifest}");
    project.write("Cargo.toml", manifest + "browser = true\n");
}

#[test]
fn a_browser_needs_its_feature() {
    let project = project(true);
    project.write("Cargo.toml", project.read("Cargo.toml") + "browser = true\n");
    assert_snapshot!(refused_with(&project, &["build"]), @r#"
    error[K095]: `Cargo.toml` sets `browser = true` for scripts, but its dependency `koze` does not have the feature `browser`
      --> Cargo.toml:11:8
       |
    11 | koze = { version = "0.1.0", features = ["script"] }
       |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = help: the Worker would have no browser: run `cargo add koze --features browser`, then `koze build` again; or, for scripts on this machine only, set `worker = false` under `[package.metadata.koze.script]`

    1 error; nothing was written
    "#);
    // One step is enough.
    let manifest = project.read("Cargo.toml").replace("[\"script\"]", "[]");
    project.write("Cargo.toml", manifest.clone());
    let refused = refused_with(&project, &["build"]);
    assert!(refused.contains("error[K095]") && !refused.contains("error[K094]"), "{refused}");
    project.write("Cargo.toml", manifest.replace("features = []", "features = [\"script\"]"));
    // It includes that of scripts.
    let manifest = project.read("Cargo.toml").replace("\"script\"]", "\"browser\"]");
    project.write("Cargo.toml", manifest);
    assert_eq!(project.koze(&["build"]).code, 0);
}

#[test]
fn a_browser_is_bound() {
    let project = project(true);
    let generated = |file: &str| project.read(format!("src/generated/{file}"));
    let before = project.read("wrangler.jsonc");
    assert!(!generated("tools.rs").contains("browser") && !project.read(OBJECT).contains("rowser"));
    turn_on(&project);
    let manifest = project.read("Cargo.toml");
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    let config = project.read("wrangler.jsonc");
    assert_eq!(
        config.lines().filter(|line| line.contains("\"binding\": \"BROWSER\"")).count(),
        1,
        "{config}"
    );
    assert!(generated("tools.rs").contains(".with_script_browser(true)"));
    assert!(project.read(OBJECT).contains("[\"BROWSER\"]"));
    assert!(
        generated("koze/script-browser.mjs").contains("AgentBrowser")
            && generated("koze/script-guard.mjs").contains("Guard")
    );
    assert!(project.read("koze.lock").contains("\"browser\""), "{}", project.read("koze.lock"));
    assert!(project.koze(&["build"]).stdout.contains("nothing to do"));
    // Without it, all of that is gone.
    project.write("Cargo.toml", manifest.replace("browser = true\n", ""));
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains("removed `browser`: scripts have no browser anymore"), "{run:?}");
    assert_eq!(project.read("wrangler.jsonc"), before);
    assert!(!project.path("src/generated/koze/script-browser.mjs").exists());
    assert!(!project.path("src/generated/koze/script-guard.mjs").exists());
    // On this machine only, the Worker has none.
    project.write("Cargo.toml", manifest.replace("browser = true\n", "browser = true\nworker = false\n"));
    let run = project.koze(&["remove", "KozeScripts", "--never-deployed"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(!project.read("wrangler.jsonc").contains("browser"));
}

#[test]
fn a_browser_of_the_user_is_used() {
    let project = project(true);
    let config = project.read("wrangler.jsonc");
    let own =
        config.replacen('{', "{\n  \"browser\": { \"binding\": \"MINE\", \"remote\": true }, // mine\n", 1);
    let own = own.replacen("\n}", ",\n  \"env\": { \"x\": {} }\n}", 1);
    project.write("wrangler.jsonc", &own);
    turn_on(&project);
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    let built = project.read("wrangler.jsonc");
    assert!(built.contains("\"browser\": { \"binding\": \"MINE\", \"remote\": true }, // mine"), "{built}");
    assert!(!built.contains("BROWSER"), "{built}");
    // An environment inherits none, and gets the same name.
    assert_eq!(built.matches("\"binding\": \"MINE\"").count(), 2, "{built}");
    assert!(project.read(OBJECT).contains("[\"MINE\"]"));
    let manifest = project.read("Cargo.toml");
    project.write("Cargo.toml", manifest.replace("browser = true\n", ""));
    assert_eq!(project.koze(&["build"]).code, 0);
    let built = project.read("wrangler.jsonc");
    assert_eq!(built.matches("\"binding\": \"MINE\"").count(), 1, "koze removes its own only: {built}");
}

#[test]
fn a_browser_does_not_replace_a_binding() {
    let project = project(true);
    let config = project.read("wrangler.jsonc");
    let own = config.replacen('{', "{\n  \"vars\": { \"BROWSER\": \"firefox\" },\n", 1);
    project.write("wrangler.jsonc", &own);
    turn_on(&project);
    let stderr = refused_with(&project, &["build"]);
    assert!(
        stderr.contains("`BROWSER` is the binding of the browser that `browser = true` adds"),
        "{stderr}"
    );
    assert_eq!(project.read("wrangler.jsonc"), own);
}

#[test]
fn a_package_without_sandboxes_needs_no_sdk() {
    let project = Project::new();
    let manifest = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n\n\
                    [dependencies]\nkoze = { version = \"0.1.0\", features = [\"script\"] }\nworker = \"0.8.7\"\n\n[workspace]\n";
    project
        .write("Cargo.toml", format!("{manifest}{REGISTRY}{TABLE}"))
        .write("src/lib.rs", "mod generated;\n");
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_snapshot!(run.stdout, @"
    0 sandboxes in wrangler.jsonc
    scripts of agents: KozeScripts, bound as KOZE_SCRIPTS
    created wrangler.jsonc
    created src/generated/mod.rs
    created src/generated/env.rs
    created src/generated/tools.rs
    created src/generated/tools.json
    created src/generated/worker.mjs
    created src/generated/worker.d.mts
    created src/generated/.gitattributes
    created src/generated/koze/egress.mjs
    created src/generated/koze/egress.d.mts
    created src/generated/koze/sessions.mjs
    created src/generated/koze/sessions.d.mts
    created src/generated/koze/script-object.mjs
    created src/generated/koze/script-object.d.mts
    created src/generated/koze/script-database.mjs
    created src/generated/koze/script-fetch.mjs
    created src/generated/koze/scripts.mjs
    created src/generated/koze/scripts.d.mts
    created src/generated/koze/koze-script.wasm
    created koze.lock
    next: commit these files, including `koze.lock`
    ");
    let config = config(&project);
    assert_eq!(config.get("containers"), None);
    assert_eq!(config["durable_objects"]["bindings"].as_array().expect("bindings").len(), 2);
    let live = json!({ "type": "durable-object", "storage": "sqlite" });
    assert_eq!(config["exports"], json!({ "KozeSessions": live, "KozeScripts": live }));
    let tools = project.read("src/generated/tools.rs");
    assert!(!tools.contains("Profile {") && tools.contains("::koze::Profiles::of_scripts()"), "{tools}");
    let definitions: Value = serde_json::from_str(&project.read("src/generated/tools.json")).expect("JSON");
    let names = definitions["tools"].as_array().expect("tools").iter().map(|tool| tool["name"].clone());
    assert!(names.clone().any(|name| name == "run_sandbox_code"), "{definitions}");
    assert!(!project.path("src/generated/koze/sdk/sdk.mjs").exists());
    assert!(project.koze(&["build"]).stdout.contains("nothing to do"));
    assert_eq!(project.koze(&["build", "--check"]).code, 0);
    assert_snapshot!(project.koze(&["list"]).stdout, @"
    0 sandboxes in wrangler.jsonc
    scripts of agents: KozeScripts, bound as KOZE_SCRIPTS
    ");
    let doctor = project.koze(&["doctor", "--format", "json"]);
    let doctor: Value = serde_json::from_str(&doctor.stdout).expect("JSON");
    let check = doctor["checks"].as_array().expect("checks").iter().find(|check| check["name"] == "project");
    assert_eq!(check.expect("the check")["status"], "ok", "{doctor}");
    // Without scripts, nothing remains to serve.
    ask_no_more(&project);
    let run = project.koze(&["remove", "KozeScripts", "--delete-storage"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        project
            .read("src/generated/tools.rs")
            .lines()
            .all(|line| line.starts_with('/') || line.starts_with('#') || line.is_empty())
    );
}
