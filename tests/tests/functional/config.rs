//! Wrangler configurations that koze cannot edit, or that wrangler does not read.

use insta::assert_snapshot;
use koze_tests::Project;

use crate::common::{BY_HAND, built, document, plain, refused, refused_with, shell, warned};

fn with_config(name: &str, text: &str) -> Project {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write(name, text);
    project
}

/// A hand-written configuration with one more property.
fn and(property: &str) -> Project {
    with_config("wrangler.jsonc", &BY_HAND.replace("\n}", &format!(",\n  {property}\n}}")))
}

#[test]
fn jsonc_that_does_not_parse() {
    let text = "{\n  \"name\": \"app\", // mine\n  \"main\": \"x.mjs\"\n  \"vars\": {}\n}\n";
    let project = with_config("wrangler.jsonc", text);
    assert_snapshot!(refused(&project), @r#"
    error[K040]: cannot parse this file: Expected comma
     --> wrangler.jsonc:3:18
      |
    3 |   "main": "x.mjs"
      |                  ^
      |
      = help: correct the syntax, then run `koze build` again

    1 error; nothing was written
    "#);
    let json = project.koze(&["build", "--format", "json"]);
    let document = document(&json);
    let found = &document["diagnostics"][0];
    let at = (found["file"].as_str(), found["line"].as_u64(), found["column"].as_u64());
    assert_eq!(at, (Some("wrangler.jsonc"), Some(3), Some(18)), "{found:#}");
}

#[test]
fn jsonc_that_ends_too_early() {
    assert_snapshot!(refused(&with_config("wrangler.jsonc", "{\n  \"name\": \"app\",\n")), @r#"
    error[K040]: cannot parse this file: Unterminated object
     --> wrangler.jsonc:1:1
      |
    1 | / {
    2 | |   "name": "app",
      | |_________________^
      |
      = help: correct the syntax, then run `koze build` again

    1 error; nothing was written
    "#);
}

#[test]
fn an_empty_file() {
    assert_snapshot!(refused(&with_config("wrangler.jsonc", "")), @"
    error[K040]: cannot parse this file: The file is empty: a JSON value is expected
     --> wrangler.jsonc:1:1
      |
    1 |
      | ^
      |
      = help: correct the syntax, then run `koze build` again

    1 error; nothing was written
    ");
}

#[test]
fn jsonc_that_is_not_an_object() {
    assert_snapshot!(refused(&with_config("wrangler.json", "[1, 2]\n")), @"
    error[K041]: `wrangler.json` is not an object
     --> wrangler.json:1:1
      |
    1 | [1, 2]
      | ^^^^^^
      |
      = help: make it an object, or remove it, then run `koze build` again

    1 error; nothing was written
    ");
}

#[test]
fn toml_that_does_not_parse() {
    let text = "name = \"app\"\n[vars]\nGREETING = hello\n";
    assert_snapshot!(refused(&with_config("wrangler.toml", text)), @"
    error[K040]: cannot parse this file: string values must be quoted, expected literal string
     --> wrangler.toml:3:12
      |
    3 | GREETING = hello
      |            ^^^^^
      |
      = help: correct the syntax, then run `koze build` again

    1 error; nothing was written
    ");
}

#[test]
fn containers_that_are_not_a_list() {
    assert_snapshot!(refused(&and("\"containers\": {}")), @r#"
    error[K041]: `containers` is not an array
     --> wrangler.jsonc:6:17
      |
    6 |   "containers": {}
      |                 ^^
      |
      = help: make it an array, or remove it, then run `koze build` again

    1 error; nothing was written
    "#);
}

/// wrangler treats null as absent for both keys.
#[test]
fn null_counts_as_absent() {
    let project = and("\"containers\": null,\n  \"migrations\": null // none yet");
    assert_snapshot!(crate::common::built_diff(&project), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -3,6 +3,26 @@
       "name": "app",
       "main": "src/generated/worker.mjs",
       "compatibility_date": "2026-04-21",
    -  "containers": null,
    -  "migrations": null // none yet
    +  "containers": [
    +    {
    +      "name": "shell-sandbox",
    +      "class_name": "ShellSandbox",
    +      "image": "docker.io/cloudflare/sandbox:0.12.10",
    +      "instance_type": "lite"
    +    }
    +  ],
    +  "migrations": [
    +    {
    +      "tag": "v1",
    +      "new_sqlite_classes": ["ShellSandbox"]
    +    }
    +  ], // none yet
    +  "durable_objects": {
    +    "bindings": [
    +      {
    +        "name": "SHELL_SANDBOX",
    +        "class_name": "ShellSandbox"
    +      }
    +    ]
    +  }
     }
    "#);
}

#[test]
fn all_invalid_forms_are_reported_together() {
    let shapes = r#""containers": ["a"],
  "durable_objects": { "bindings": { "name": "X" } },
  "migrations": "v1",
  "env": { "staging": [] }"#;
    assert_snapshot!(refused(&and(shapes)), @r#"
    error[K041]: `containers[0]` is not an object
     --> wrangler.jsonc:6:18
      |
    6 |   "containers": ["a"],
      |                  ^^^
      |
      = help: make it an object, or remove it, then run `koze build` again

    error[K041]: `migrations` is not an array
     --> wrangler.jsonc:8:17
      |
    8 |   "migrations": "v1",
      |                 ^^^^
      |
      = help: make it an array, or remove it, then run `koze build` again

    error[K041]: `durable_objects.bindings` is not an array
     --> wrangler.jsonc:7:36
      |
    7 |   "durable_objects": { "bindings": { "name": "X" } },
      |                                    ^^^^^^^^^^^^^^^
      |
      = help: make it an array, or remove it, then run `koze build` again

    error[K041]: `env.staging` is not an object
     --> wrangler.jsonc:9:23
      |
    9 |   "env": { "staging": [] }
      |                       ^^
      |
      = help: make it an object, or remove it, then run `koze build` again

    4 errors; nothing was written
    "#);
}

#[test]
fn a_migration_without_a_tag() {
    assert_snapshot!(refused(&and("\"migrations\": [{ \"new_sqlite_classes\": [\"A\"] }]")), @r#"
    error[K041]: `migrations[0].tag` is not a string
     --> wrangler.jsonc:6:18
      |
    6 |   "migrations": [{ "new_sqlite_classes": ["A"] }]
      |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: make it a string, or remove it, then run `koze build` again

    1 error; nothing was written
    "#);
}

#[test]
fn a_configuration_in_an_unknown_format() {
    let project = with_config("wrangler.yaml", "name: app\n");
    assert_snapshot!(refused_with(&project, &["build", "--config", "wrangler.yaml"]), @"
    error[K046]: this version of koze does not edit `wrangler.yaml`
     |
     = help: wrangler reads `.json`, `.jsonc` and `.toml`: use one of these

    1 error; nothing was written
    ");
}

#[test]
fn a_missing_configuration() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    assert_snapshot!(refused_with(&project, &["build", "--config", "mine.jsonc"]), @"
    error[K060]: failed to open file `[PROJECT]/mine.jsonc`: No such file or directory (os error 2)
     |
     = help: create it, or correct the path, then run the command again

    1 error; nothing was written
    ");
}

/// wrangler looks for `wrangler.json` in all parent directories before it looks for `wrangler.jsonc` in this one.
#[test]
fn a_configuration_above_the_package_wins() {
    let project = with_config("wrangler.json", "{}\n");
    project
        .write("app/Cargo.toml", "[package]\nname = \"inner\"\n\n[workspace]\n")
        .write("app/wrangler.jsonc", BY_HAND);
    plain(&project, "app/src/shell.sandbox.rs", "InnerSandbox");
    assert_snapshot!(refused_with(&project, &["build", "--project", "app"]), @"
    error[K047]: wrangler would read `../wrangler.json`, which lies outside the package
     |
     = help: pass the file that koze should manage: `koze build --config ../wrangler.json`, or one in this package

    1 error; nothing was written
    ");

    let args = ["build", "--project", "app", "--config", "app/wrangler.jsonc"];
    let run = project.koze(&args);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(project.read("app/wrangler.jsonc").contains("InnerSandbox"));
}

#[test]
fn a_redirected_configuration() {
    let project = with_config("wrangler.jsonc", BY_HAND);
    project.write(".wrangler/deploy/config.json", "{ \"configPath\": \"../../dist/wrangler.json\" }\n");
    let stderr = refused(&project);
    // The generated file is not the user's configuration, so koze must never suggest editing it.
    assert!(!stderr.contains("--config .wrangler"), "{stderr}");
    assert_snapshot!(stderr, @"
    error[K047]: wrangler would read `.wrangler/deploy/config.json`, which redirects it to a file that another tool generated
     |
     = help: pass the file that the other tool reads: `koze build --config wrangler.jsonc`

    1 error; nothing was written
    ");
}

/// wrangler's order within one directory.
#[test]
fn json_comes_before_jsonc_and_that_before_toml() {
    let project = with_config("wrangler.toml", "name = \"app\"\n");
    project
        .write("wrangler.jsonc", BY_HAND)
        .write("wrangler.json", "{ \"name\": \"app\", \"main\": \"src/generated/worker.mjs\" }\n");
    for expected in ["wrangler.json", "wrangler.jsonc", "wrangler.toml"] {
        let run = project.koze(&["build", "--dry-run"]);
        let line = format!("1 sandbox in {expected}, ");
        assert!(run.code == 0 && run.stdout.starts_with(&line), "{run:?}");
        fs_err::remove_file(project.path(expected)).expect("it was there");
    }
}

#[test]
fn paths_are_relative_to_a_given_configuration() {
    let project = with_config("config/wrangler.jsonc", BY_HAND);
    project.write("src/server/shell.Dockerfile", "FROM docker.io/cloudflare/sandbox:0.12.10\n");
    let run = project.koze(&["build", "--config", "config/wrangler.jsonc"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let config = project.read("config/wrangler.jsonc");
    assert!(config.contains("\"image\": \"../src/server/shell.Dockerfile\""), "{config}");
    assert!(!project.path("wrangler.jsonc").exists());
}

#[test]
fn a_container_of_the_earlier_pattern() {
    let legacy = r#""containers": [{ "class_name": "Sandbox", "image": "docker.io/cloudflare/sandbox:0.8.11" }],
  "durable_objects": { "bindings": [{ "name": "Sandbox", "class_name": "Sandbox" }] },
  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Sandbox"] }]"#;
    assert_snapshot!(warned(&and(legacy)), @r#"
    warning[K048]: this container has the class `Sandbox`, which earlier versions used
     --> wrangler.jsonc:6:18
      |
    6 |   "containers": [{ "class_name": "Sandbox", "image": "docker.io/cloudflare/sandbox:0.8.11" }],
      |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: run `koze migrate`, which writes a sandbox file for these entries, renames the class so that it keeps its storage, and lists the call sites to change

    1 warning
    "#);
}

#[test]
fn a_main_that_does_not_export_the_classes() {
    let text = BY_HAND.replace("src/generated/worker.mjs", "build/index.js");
    assert_snapshot!(warned(&with_config("wrangler.jsonc", &text)), @r#"
    warning[K049]: `main` is `build/index.js`, which does not export the sandbox classes
     --> wrangler.jsonc:4:11
      |
    4 |   "main": "build/index.js",
      |           ^^^^^^^^^^^^^^^^
      |
      = help: set `main` to `src/generated/worker.mjs`, or add `export * from` that file to yours

    1 warning
    "#);
}

/// `main` may be written in several ways. There is no warning if it names the generated entry point.
#[test]
fn a_main_with_a_dot_is_the_same_file() {
    let text = BY_HAND.replace("src/generated/worker.mjs", "./src/generated/worker.mjs");
    built(&with_config("wrangler.jsonc", &text));
}

/// The configuration contains the migrations, the only record of storage. A new one would lose it.
#[test]
fn a_deleted_configuration() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    built(&project);
    fs_err::remove_file(project.path("wrangler.jsonc")).expect("it was there");
    assert_snapshot!(refused(&project), @"
    error[K058]: `wrangler.jsonc` does not exist, but `koze.lock` records entries in it
     |
     = help: it holds the migrations, which determine the storage: restore it from version control, or pass its new name with `--config FILE`; if nothing was ever deployed, delete `koze.lock` to start over

    1 error; nothing was written
    ");
}

#[test]
fn an_egress_policy_needs_a_recent_compatibility_date() {
    let project = shell("#[sandbox(allowed_hosts = [\"api.example.com\"])]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", BY_HAND.replace("2026-04-21", "2025-11-01"));
    assert_snapshot!(warned(&project), @r#"
    warning[K051]: the compatibility date 2025-11-01 is too old for `allowed_hosts` and `denied_hosts`
     --> wrangler.jsonc:5:25
      |
    5 |   "compatibility_date": "2025-11-01"
      |                         ^^^^^^^^^^^^
      |
      = help: set `compatibility_date` to 2026-04-21 or later, which traffic interception needs

    1 warning
    "#);
}

/// A project of an earlier version has no sandbox file. It needs the warning most.
#[test]
fn a_container_of_the_earlier_pattern_without_a_sandbox() {
    let project = crate::common::package();
    project.write(
        "wrangler.jsonc",
        r#"{ "name": "app", "containers": [{ "class_name": "Sandbox", "image": "docker.io/cloudflare/sandbox:0.8.11" }] }"#,
    );
    let run = project.koze(&["build"]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    assert!(run.stderr.starts_with("warning[K048]"), "{}", run.stderr);
}

/// For wrangler, this key marks a Pages project, which cannot have containers, whatever else it contains.
#[test]
fn a_pages_project() {
    let text = "{\n  \"name\": \"site\",\n  // Static.\n  \"pages_build_output_dir\": \"./dist\"\n}\n";
    let project = with_config("wrangler.jsonc", text);
    assert_snapshot!(refused(&project), @r#"
    error[K080]: `wrangler.jsonc` configures a Pages project (`pages_build_output_dir`), but containers need a Worker
     --> wrangler.jsonc:4:3
      |
    4 |   "pages_build_output_dir": "./dist"
      |   ^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: `wrangler pages deploy` rejects containers: create a configuration for a Worker and pass it with `--config FILE`, or convert this project to a Worker with `assets` instead of `pages_build_output_dir`

    1 error; nothing was written
    "#);
    let toml = "name = 'site'\r\npages_build_output_dir = 'dist' # Static.\r\n\r\n[env.production]\r\n";
    for (name, text) in
        [("wrangler.toml", toml), ("wrangler.json", "{ \"pages_build_output_dir\": null, \"main\": \"x\" }")]
    {
        let project = with_config(name, text);
        let runtime = koze_tests::root().join("runtime").display().to_string();
        for args in [
            &["build"][..],
            &["build", "--check"],
            &["init", "--runtime-path", &runtime],
            &["add", "python"],
            &["migrate"],
        ] {
            let stderr = refused_with(&project, args);
            assert!(stderr.starts_with("error[K080]: "), "{args:?}: {stderr}");
        }
        let doctor = project.koze(&["doctor"]);
        assert!(doctor.code == 1 && doctor.stderr.contains("error[K080]"), "{doctor:?}");
        assert_eq!(project.read(name), text);
    }
    // A Worker's configuration next to it is supported.
    let project = with_config("wrangler.jsonc", text);
    project.write("worker.jsonc", BY_HAND);
    assert_eq!(project.koze(&["build", "--config", "worker.jsonc"]).code, 0);
    assert_eq!(project.koze(&["build"]).code, 0);
    assert_eq!(project.read("wrangler.jsonc"), text);
}
