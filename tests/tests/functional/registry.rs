//! The class that records the sandboxes of sessions: `registry = true`.

use insta::assert_snapshot;
use koze_tests::Project;

use crate::common::refused_with;

const ASKED: &str = "\n[package.metadata.koze]\nregistry = true\n";

/// A project with one sandbox, after a build, then with `registry = true` if `asked`.
fn project(asked: bool) -> Project {
    let project = Project::copy_fixture("bare/before");
    assert_eq!(project.koze(&["build"]).code, 0);
    if asked {
        ask(&project);
        let run = project.koze(&["build"]);
        assert_eq!(run.code, 0, "{run:?}");
    }
    project
}

fn ask(project: &Project) {
    let manifest = project.read("Cargo.toml");
    project.write("Cargo.toml", format!("{manifest}{ASKED}"));
}

fn ask_no_more(project: &Project) {
    project.write("Cargo.toml", project.read("Cargo.toml").replace(ASKED, ""));
}

#[test]
#[allow(clippy::too_many_lines, reason = "it shows all that changes")]
fn it_gets_its_own_tag_and_binding() {
    let project = project(false);
    let before = project.snapshot();
    ask(&project);
    assert_eq!(project.koze(&["build"]).code, 0);
    assert_snapshot!(project.diff(&before), @r#"
    --- a/Cargo.toml
    +++ b/Cargo.toml
    @@ -12,3 +12,6 @@
     worker = "0.8.7"
     
     [workspace]
    +
    +[package.metadata.koze]
    +registry = true
    --- a/koze.lock
    +++ b/koze.lock
    @@ -9,6 +9,11 @@
         "durable_objects.bindings",
     ]
     
    +[registry]
    +class = "KozeSessions"
    +binding = "KOZE_SESSIONS"
    +migration = "v2"
    +
     [[sandbox]]
     name = "shell"
     file = "src/server/shell.sandbox.rs"
    @@ -27,3 +32,7 @@
     [[migration]]
     tag = "v1"
     hash = "sha256:8c56181dd4910e02323c3de9d8260c6f8a3eede027bb778ffdca7e4de234027b"
    +
    +[[migration]]
    +tag = "v2"
    +hash = "sha256:de4ca610eca6e63a93535d69c3d56db5c8ec659a817f2ddec5073dfef4ffaecc"
    --- a/src/generated/env.rs
    +++ b/src/generated/env.rs
    @@ -31,6 +31,11 @@
         pub fn shell_sandbox(&self) -> ::koze::Namespace<super::ShellSandbox> {
             ::koze::Namespace::new(&self.0)
         }
    +
    +    /// The Durable Object namespace `KOZE_SESSIONS`.
    +    pub fn koze_sessions(&self) -> ::koze::__private::worker::Result<::koze::__private::worker::ObjectNamespace> {
    +        self.0.durable_object("KOZE_SESSIONS")
    +    }
     }
     
     impl ::core::convert::From<::koze::__private::worker::Env> for Env {
    --- a/src/generated/mod.rs
    +++ b/src/generated/mod.rs
    @@ -12,6 +12,34 @@
     mod __tools;
     pub use __tools::{Profile, definitions, handle_tool_call, profiles, serve};
     
    +/// The registry of sandboxes.
    +// The macro below generates undocumented items.
    +#[allow(missing_docs)]
    +mod __registry {
    +    // The macro below uses this name.
    +    use ::koze::__private::worker::wasm_bindgen;
    +
    +    /// Records the sandboxes of agents' sessions: one Durable Object for each session.
    +    #[::koze::__private::worker::durable_object(fetch)]
    +    pub struct KozeSessions {
    +        sessions: ::koze::provider::cloudflare::registry::Sessions,
    +    }
    +
    +    impl ::koze::__private::worker::DurableObject for KozeSessions {
    +        fn new(state: ::koze::__private::worker::State, _: ::koze::__private::worker::Env) -> Self {
    +            KozeSessions { sessions: ::koze::provider::cloudflare::registry::Sessions::new(state) }
    +        }
    +
    +        async fn fetch(
    +            &self,
    +            request: ::koze::__private::worker::Request,
    +        ) -> ::koze::__private::worker::Result<::koze::__private::worker::Response> {
    +            self.sessions.fetch(request).await
    +        }
    +    }
    +}
    +pub use __registry::KozeSessions;
    +
     /// The sandbox of `src/server/shell.sandbox.rs`.
     #[path = "../server/shell.sandbox.rs"]
     pub mod shell;
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -21,6 +21,10 @@
           {
             "name": "SHELL_SANDBOX",
             "class_name": "ShellSandbox"
    +      },
    +      {
    +        "name": "KOZE_SESSIONS",
    +        "class_name": "KozeSessions"
           }
         ]
       },
    @@ -28,6 +32,10 @@
         {
           "tag": "v1",
           "new_sqlite_classes": ["ShellSandbox"]
    +    },
    +    {
    +      "tag": "v2",
    +      "new_sqlite_classes": ["KozeSessions"]
         }
       ]
     }
    "#);
    assert!(project.koze(&["build"]).stdout.contains("nothing to do"));
    assert_eq!(project.koze(&["build", "--check"]).code, 0);
}

#[test]
fn in_every_environment() {
    let project = Project::copy_fixture("environments/before");
    ask(&project);
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    let config: serde_json::Value = jsonc_parser::parse_to_serde_value(
        &project.read("wrangler.jsonc"),
        &jsonc_parser::ParseOptions::default(),
    )
    .expect("JSONC");
    let bound = |level: &serde_json::Value| {
        let bindings = level["durable_objects"]["bindings"].as_array().expect("bindings");
        bindings
            .iter()
            .filter(|one| one["name"] == "KOZE_SESSIONS" && one["class_name"] == "KozeSessions")
            .count()
    };
    assert_eq!(bound(&config), 1);
    for (name, level) in config["env"].as_object().expect("environments") {
        assert_eq!(bound(level), 1, "{name}");
    }
}

#[test]
fn storage_is_not_lost_silently() {
    let project = project(true);
    ask_no_more(&project);
    assert_snapshot!(refused_with(&project, &["build"]), @r#"
    error[K072]: `Cargo.toml` no longer enables the registry of sandboxes, but its class `KozeSessions` still has storage
      --> wrangler.jsonc:36:5
       |
    36 | /     {
    37 | |       "tag": "v2",
    38 | |       "new_sqlite_classes": ["KozeSessions"]
    39 | |     }
       | |_____^
       |
       = help: a build never deletes storage: set `registry = true` under `[package.metadata.koze]` again, or run `koze remove KozeSessions` with `--keep-storage` or `--delete-storage`

    1 error; nothing was written
    "#);
}

#[test]
fn its_storage_is_deleted_on_request() {
    let project = project(true);
    assert_snapshot!(refused_with(&project, &["remove", "KozeSessions", "--delete-storage"]), @"
    error[K059]: `KozeSessions` cannot be removed: `Cargo.toml` enables it
    --> Cargo.toml
     = help: remove `registry = true` from `[package.metadata.koze]` first, then run the command again

    1 error; nothing was written
    ");
    ask_no_more(&project);
    let run = project.koze(&["remove", "KozeSessions", "--delete-storage"]);
    assert_eq!(run.code, 0, "{run:?}");
    let config = project.read("wrangler.jsonc");
    assert!(
        config.contains("\"deleted_classes\": [\"KozeSessions\"]") && !config.contains("KOZE_SESSIONS"),
        "{config}"
    );
    assert!(!project.read("src/generated/mod.rs").contains("KozeSessions"));
    assert!(!project.read("koze.lock").contains("[registry]"));
    assert!(project.koze(&["build"]).stdout.contains("nothing to do"));
    // If it is enabled again, it is created again.
    ask(&project);
    assert_eq!(project.koze(&["build"]).code, 0);
    assert!(project.read("wrangler.jsonc").contains("KOZE_SESSIONS"));
}

#[test]
fn its_storage_can_be_kept_without_it() {
    let project = project(true);
    ask_no_more(&project);
    let run = project.koze(&["remove", "KozeSessions", "--keep-storage"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(project.read("src/generated/worker.mjs").contains("export class KozeSessions extends"));
    assert!(project.read("wrangler.jsonc").contains("KOZE_SESSIONS"));
    assert!(project.koze(&["build"]).stdout.contains("nothing to do"));
    // Enabled again, it uses the same storage.
    ask(&project);
    assert_eq!(project.koze(&["build"]).code, 0);
    assert!(!project.read("src/generated/worker.mjs").contains("export class KozeSessions"));
    assert!(!project.read("koze.lock").contains("[[kept]]"));
    assert_eq!(project.read("wrangler.jsonc").matches("new_sqlite_classes").count(), 2);
}

#[test]
fn a_lost_lock_does_not_lose_its_storage() {
    let project = project(true);
    ask_no_more(&project);
    fs_err::remove_file(project.path("koze.lock")).expect("the lock");
    let stderr = refused_with(&project, &["build"]);
    assert!(stderr.contains("its class `KozeSessions` still has storage"), "{stderr}");
    let run = project.koze(&["remove", "KozeSessions", "--keep-storage"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(project.read("src/generated/worker.mjs").contains("export class KozeSessions extends"));
}

#[test]
fn a_class_of_its_name_without_sqlite_is_an_error() {
    let project = project(false);
    let config = project.read("wrangler.jsonc");
    let old = "\"new_sqlite_classes\": [\"ShellSandbox\"]\n    }";
    let with = format!("{old},\n    {{ \"tag\": \"mine\", \"new_classes\": [\"KozeSessions\"] }}");
    project.write("wrangler.jsonc", config.replace(old, &with));
    ask(&project);
    assert_snapshot!(refused_with(&project, &["build"]), @r#"
    error[K042]: the class `KozeSessions` was created without SQLite, which koze needs
      --> wrangler.jsonc:32:5
       |
    32 |     { "tag": "mine", "new_classes": ["KozeSessions"] }
       |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = help: the storage of a class cannot be changed: delete the class in a migration of your own, and deploy that first

    1 error; nothing was written
    "#);
}

#[test]
fn with_exports_it_is_declared_there() {
    let project = project(false);
    let config = project.read("wrangler.jsonc");
    let (head, _) = config.split_once("\"migrations\"").expect("migrations");
    let exports =
        "\"exports\": { \"ShellSandbox\": { \"type\": \"durable-object\", \"storage\": \"sqlite\" } }\n}\n";
    project.write("wrangler.jsonc", format!("{head}{exports}"));
    fs_err::remove_file(project.path("koze.lock")).expect("the lock");
    ask(&project);
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{run:?}");
    let config = project.read("wrangler.jsonc");
    assert!(!config.contains("migrations"), "{config}");
    assert!(config.contains("\"KozeSessions\": {"), "{config}");
    // Its tombstone is not overwritten.
    ask_no_more(&project);
    assert_eq!(project.koze(&["remove", "KozeSessions", "--delete-storage"]).code, 0);
    ask(&project);
    assert_snapshot!(refused_with(&project, &["build"]), @r#"
    error[K042]: `exports` says of the class `KozeSessions`: deleted
      --> wrangler.jsonc:27:99
       |
    27 | ... }, "KozeSessions": { "type": "durable-object", "state": "deleted" } }
       |                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = help: a build does not undo this: remove this entry once a deployment has deleted the class, then run `koze build` again

    1 error; nothing was written
    "#);
}

#[test]
fn another_binding_with_its_name_is_an_error() {
    let project = project(false);
    let config = project.read("wrangler.jsonc");
    let config = config.replacen('{', "{\n  \"vars\": { \"KOZE_SESSIONS\": \"mine\" },", 1);
    project.write("wrangler.jsonc", config);
    ask(&project);
    assert_snapshot!(refused_with(&project, &["build"]), @r#"
    error[K042]: `KOZE_SESSIONS` is the binding of the registry that `Cargo.toml` enables, but it is another binding here
     --> wrangler.jsonc:2:30
      |
    2 |   "vars": { "KOZE_SESSIONS": "mine" },
      |                              ^^^^^^
      |
      = help: give this one another name, or remove `registry = true`; the class of the registry is `KozeSessions`

    1 error; nothing was written
    "#);
}

#[test]
fn it_requires_a_boolean() {
    let project = project(false);
    project.write("Cargo.toml", project.read("Cargo.toml") + &ASKED.replace("true", "\"yes\""));
    let stderr = refused_with(&project, &["build"]);
    assert!(stderr.contains("`package.metadata.koze.registry` must be `true` or `false`"), "{stderr}");
}
