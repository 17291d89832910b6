//! `Env`: an accessor for every binding of the wrangler configuration.

use std::fmt::Write as _;

use insta::assert_snapshot;
use koze_tests::Project;

use crate::common::{built, plain, refused, sandbox, shell};

/// A project with one sandbox and these lines in its wrangler configuration.
fn configured(lines: &str) -> Project {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    configure(&project, lines);
    project
}

fn configure(project: &Project, lines: &str) {
    project.write(
        "wrangler.jsonc",
        format!(
            "{{\n  \"name\": \"app\",\n  \"main\": \"src/generated/worker.mjs\",\n  \
             \"compatibility_date\": \"2026-04-21\",\n{lines}\n}}\n"
        ),
    );
}

/// Builds twice, the second time without changes, and returns the accessors, one per line: signature, then
/// documentation.
fn accessors(project: &Project) -> String {
    built(project);
    let after = project.snapshot();
    assert!(built(project).stdout.contains("nothing to do"), "a second build");
    assert_eq!(project.diff(&after), "");
    accessors_of(&project.read("src/generated/env.rs"))
}

fn accessors_of(env: &str) -> String {
    let mut lines = String::new();
    let mut docs: Vec<&str> = Vec::new();
    for line in env.lines().skip_while(|line| !line.starts_with("impl Env")).map(str::trim) {
        if let Some(doc) = line.strip_prefix("///") {
            docs.extend(Some(doc.trim()).filter(|doc| !doc.is_empty()));
        } else if let Some((name, returned)) = line.split_once("(&self) -> ") {
            let name = name.trim_start_matches("pub fn ");
            let returned = returned.trim_end_matches(" {").replace("::koze::__private::", "");
            let _ = writeln!(lines, "{name} -> {returned}: {}", docs.join(" "));
            docs.clear();
        } else if line.starts_with("pub fn ") {
            // Methods with parameters are not accessors.
            docs.clear();
        }
    }
    lines
}

const SAVED: &str = "#[sandbox(tools = [\"workspace\"], workspace(snapshot(bucket = \"BACKUPS\")))]\npub struct ShellSandbox;";

#[test]
fn the_bucket_of_snapshots_is_added_where_it_is_missing() {
    let project = shell(SAVED);
    configure(
        &project,
        r#"  "env": { "staging": {}, "live": { "r2_buckets": [{ "binding": "BACKUPS", "bucket_name": "b" }] } }"#,
    );
    let output = built(&project).stdout;
    assert!(output.contains("added the R2 bucket `BACKUPS` for snapshots: set `bucket_name`"), "{output}");
    let buckets = |pointer: &str| {
        let text = project.read("wrangler.jsonc");
        let config: serde_json::Value = serde_json::from_str(&text).expect("JSON without comments");
        config.pointer(pointer).map(|env| env["r2_buckets"].to_string())
    };
    let added = Some(r#"[{"binding":"BACKUPS"}]"#.to_owned());
    assert_eq!((buckets(""), buckets("/env/staging")), (added.clone(), added));
    assert_eq!(buckets("/env/live").as_deref(), Some(r#"[{"binding":"BACKUPS","bucket_name":"b"}]"#));
    assert!(project.read("src/generated/env.rs").contains("pub fn backups(&self)"));
    let tools = project.read("src/generated/tools.rs");
    assert!(tools.contains(r#"SnapshotConfig { bucket: Some("BACKUPS".into()), .."#), "{tools}");
    let after = project.snapshot();
    assert!(built(&project).stdout.contains("nothing to do"), "a second build");
    // A bucket holds the user's data: koze does not remove its entry.
    project.write(
        "src/server/shell.sandbox.rs",
        "use koze::prelude::*;\n\n#[sandbox(tools = [\"workspace\"])]\npub struct ShellSandbox;\n",
    );
    built(&project);
    assert!(project.read("wrangler.jsonc") == String::from_utf8_lossy(&after["wrangler.jsonc"]));
}

#[test]
fn the_bucket_of_snapshots_is_another_binding() {
    let project = shell(SAVED);
    configure(&project, r#"  "kv_namespaces": [{ "binding": "BACKUPS", "id": "1" }]"#);
    assert_snapshot!(refused(&project), @r#"
    error[K042]: `BACKUPS` is the bucket of snapshots, but it is another binding here
     --> wrangler.jsonc:5:34
      |
    5 |   "kv_namespaces": [{ "binding": "BACKUPS", "id": "1" }]
      |                                  ^^^^^^^^^
      |
      = help: names must be unique in `env`: rename this one, or `snapshot(bucket = ..)`

    1 error; nothing was written
    "#);
}

#[test]
fn each_kind_of_value_has_its_type() {
    let project = configured(
        r#"  "vars": { "TEXT": "a", "NUMBER": 1, "FLAG": true, "DATA": { "a": [1] } },
  "secrets": { "required": ["API_KEY"] },
  "kv_namespaces": [{ "binding": "CACHE", "id": "1" }],
  "send_email": [{ "name": "MAIL" }],
  "durable_objects": {
    "bindings": [
      { "name": "COUNTER", "class_name": "Counter" },
      { "name": "OTHER", "class_name": "Other", "script_name": "elsewhere" }
    ]
  },
  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Counter"] }],
  "vectorize": [{ "binding": "VECTORS", "index_name": "v" }]"#,
    );
    assert_snapshot!(accessors(&project), @"
    inner -> &worker::Env: Returns the untyped bindings.
    shell_sandbox -> ::koze::Namespace<super::ShellSandbox>: Returns the sandboxes of `src/server/shell.sandbox.rs`, bound as `SHELL_SANDBOX`.
    api_key -> worker::Result<worker::Secret>: The secret `API_KEY`.
    cache -> worker::Result<worker::KvStore>: The KV namespace `CACHE`.
    counter -> worker::Result<worker::ObjectNamespace>: The Durable Object namespace `COUNTER`.
    data<T: ::koze::__private::serde::de::DeserializeOwned> -> worker::Result<T>: The variable `DATA`. The binding is data: choose a type to read it as.
    flag -> worker::Result<bool>: The variable `FLAG`.
    mail -> worker::Result<worker::SendEmail>: The e-mail sender `MAIL`.
    number -> worker::Result<f64>: The variable `NUMBER`.
    other -> worker::Result<worker::ObjectNamespace>: The Durable Object namespace `OTHER`.
    text -> worker::Result<::std::string::String>: The variable `TEXT`.
    vectors -> worker::Result<worker::wasm_bindgen::JsValue>: The Vectorize index `VECTORS`. The crate `worker` has no type for it, so this returns the JavaScript value.
    ");
}

#[test]
fn bound_files_have_accessors() {
    let project = configured(
        r#"  "text_blobs": { "LICENCE": "LICENCE.txt" },
  "data_blobs": { "FONT": "font.ttf" },
  "wasm_modules": { "RESIZE": "resize.wasm" },
  "env": { "staging": {} }"#,
    );
    assert_snapshot!(accessors(&project), @"
    inner -> &worker::Env: Returns the untyped bindings.
    shell_sandbox -> ::koze::Namespace<super::ShellSandbox>: Returns the sandboxes of `src/server/shell.sandbox.rs`, bound as `SHELL_SANDBOX`.
    font -> worker::Result<worker::wasm_bindgen::JsValue>: The data file `FONT`. The crate `worker` has no type for it, so this returns the JavaScript value.
    licence -> worker::Result<::std::string::String>: The text file `LICENCE`.
    resize -> worker::Result<worker::wasm_bindgen::JsValue>: The WebAssembly module `RESIZE`. The crate `worker` has no type for it, so this returns the JavaScript value.
    ");
}

#[test]
fn an_unknown_kind_has_an_accessor() {
    let project = configured(
        r#"  "time_machines": [{ "binding": "PAST", "year": 1969 }],
  "crystal_ball": { "binding": "FUTURE" }"#,
    );
    assert_snapshot!(accessors(&project), @"
    inner -> &worker::Env: Returns the untyped bindings.
    shell_sandbox -> ::koze::Namespace<super::ShellSandbox>: Returns the sandboxes of `src/server/shell.sandbox.rs`, bound as `SHELL_SANDBOX`.
    future -> worker::Result<worker::wasm_bindgen::JsValue>: The `crystal_ball` binding `FUTURE`. The crate `worker` has no type for it, so this returns the JavaScript value.
    past -> worker::Result<worker::wasm_bindgen::JsValue>: The `time_machines` binding `PAST`. The crate `worker` has no type for it, so this returns the JavaScript value.
    ");
}

#[test]
fn invalid_rust_names_get_a_prefix() {
    let project = configured(
        r#"  "vars": { "TYPE": "a", "self": "a", "2FA": "a", "INNER": "a", "shell-sandbox": "a", "my-var": "a", "a`\n*/": "a", "": "a" }"#,
    );
    assert_snapshot!(accessors(&project), @r"
    inner -> &worker::Env: Returns the untyped bindings.
    shell_sandbox -> ::koze::Namespace<super::ShellSandbox>: Returns the sandboxes of `src/server/shell.sandbox.rs`, bound as `SHELL_SANDBOX`.
    var_2fa -> worker::Result<::std::string::String>: The variable `2FA`.
    var_inner -> worker::Result<::std::string::String>: The variable `INNER`.
    var_type -> worker::Result<::std::string::String>: The variable `TYPE`.
    a -> worker::Result<::std::string::String>: The variable `a\u{60}\n*/`.
    my_var -> worker::Result<::std::string::String>: The variable `my-var`.
    var_self -> worker::Result<::std::string::String>: The variable `self`.
    var_shell_sandbox -> worker::Result<::std::string::String>: The variable `shell-sandbox`.
    ");
}

#[test]
fn two_bindings_never_share_an_accessor() {
    let project = configured(
        r#"  "kv_namespaces": [{ "binding": "MY_KV" }, { "binding": "my_kv" }, { "binding": "PAGES" }],
  "r2_buckets": [{ "binding": "pages" }]"#,
    );
    assert_snapshot!(accessors(&project), @"
    inner -> &worker::Env: Returns the untyped bindings.
    shell_sandbox -> ::koze::Namespace<super::ShellSandbox>: Returns the sandboxes of `src/server/shell.sandbox.rs`, bound as `SHELL_SANDBOX`.
    kv_MY_KV -> worker::Result<worker::KvStore>: The KV namespace `MY_KV`.
    kv_pages -> worker::Result<worker::KvStore>: The KV namespace `PAGES`.
    kv_my_kv -> worker::Result<worker::KvStore>: The KV namespace `my_kv`.
    r2_pages -> worker::Result<worker::Bucket>: The R2 bucket `pages`.
    ");
}

#[test]
fn the_documentation_names_environments_that_lack_a_binding() {
    let project = configured(
        r#"  "vars": { "EVERYWHERE": "a", "TOP": "a" },
  "assets": { "directory": "public", "binding": "ASSETS" },
  "env": {
    "staging": { "vars": { "EVERYWHERE": "a", "BELOW": 1 } },
    "production": { "vars": { "EVERYWHERE": "a", "BELOW": 2 }, "previews": { "ai": { "binding": "AI" } } }
  }"#,
    );
    assert_snapshot!(accessors(&project), @"
    inner -> &worker::Env: Returns the untyped bindings.
    shell_sandbox -> ::koze::Namespace<super::ShellSandbox>: Returns the sandboxes of `src/server/shell.sandbox.rs`, bound as `SHELL_SANDBOX`.
    ai -> worker::Result<worker::Ai>: The Workers AI binding `AI`. It is bound in the previews of `production` alone.
    assets -> worker::Result<worker::Fetcher>: The collection of static assets `ASSETS`.
    below -> worker::Result<f64>: The variable `BELOW`. It is bound in `staging` and in `production` alone.
    everywhere -> worker::Result<::std::string::String>: The variable `EVERYWHERE`. It is not bound in the previews of `production`.
    top -> worker::Result<::std::string::String>: The variable `TOP`. It is bound at the top level alone.
    ");
}

#[test]
fn different_types_in_environments_are_unified() {
    let project = configured(
        r#"  "vars": { "TOKEN": "of the developer", "LIMIT": 1 },
  "services": [{ "binding": "PRINTER", "service": "printer" }],
  "kv_namespaces": [{ "binding": "STORE", "id": "1" }],
  "env": {
    "production": {
      "vars": { "LIMIT": "none" },
      "secrets": { "required": ["TOKEN"] },
      "vpc_services": [{ "binding": "PRINTER", "service_id": "1" }],
      "r2_buckets": [{ "binding": "STORE", "bucket_name": "store" }]
    }
  }"#,
    );
    assert_snapshot!(accessors(&project), @"
    inner -> &worker::Env: Returns the untyped bindings.
    shell_sandbox -> ::koze::Namespace<super::ShellSandbox>: Returns the sandboxes of `src/server/shell.sandbox.rs`, bound as `SHELL_SANDBOX`.
    limit<T: ::koze::__private::serde::de::DeserializeOwned> -> worker::Result<T>: The variable `LIMIT`. The binding is data: choose a type to read it as.
    printer -> worker::Result<worker::Fetcher>: The service or VPC service `PRINTER`, as the environment has it.
    store -> worker::Result<worker::wasm_bindgen::JsValue>: The KV namespace or R2 bucket `STORE`, as the environment has it. The crate `worker` has no type for it, so this returns the JavaScript value.
    token -> worker::Result<worker::Secret>: The variable or secret `TOKEN`, as the environment has it.
    ");
}

#[test]
fn unmanaged_environments_count_too() {
    let project = configured(r#"  "env": { "staging": {}, "theirs": { "vars": { "THEIRS": "a" } } }"#);
    let manifest = project.read("Cargo.toml");
    project.write("Cargo.toml", manifest + "\n[package.metadata.koze]\nenvironments = [\"staging\"]\n");
    assert_snapshot!(accessors(&project), @"
    inner -> &worker::Env: Returns the untyped bindings.
    shell_sandbox -> ::koze::Namespace<super::ShellSandbox>: Returns the sandboxes of `src/server/shell.sandbox.rs`, bound as `SHELL_SANDBOX`.
    theirs -> worker::Result<::std::string::String>: The variable `THEIRS`. It is bound in `theirs` alone.
    ");
}

#[test]
fn invalid_entries_are_left_to_wrangler() {
    let project = configured(
        r#"  "kv_namespaces": "x",
  "r2_buckets": [null, 1, { "binding": 2 }, { "binding": "" }, { "binding": "FILES" }],
  "queues": [],
  "vars": [1],
  "ai": "AI",
  "secrets": { "required": [1, "KEY"] },
  "unsafe": { "bindings": [{ "type": "x" }] }"#,
    );
    assert_snapshot!(accessors(&project), @"
    inner -> &worker::Env: Returns the untyped bindings.
    shell_sandbox -> ::koze::Namespace<super::ShellSandbox>: Returns the sandboxes of `src/server/shell.sandbox.rs`, bound as `SHELL_SANDBOX`.
    files -> worker::Result<worker::Bucket>: The R2 bucket `FILES`.
    key -> worker::Result<worker::Secret>: The secret `KEY`.
    ");
}

#[test]
fn local_variable_files_are_ignored() {
    let project = configured(r#"  "vars": {}"#);
    project.write(".dev.vars", "LOCAL_KEY=1\n").write(".env", "OTHER_KEY=1\n");
    assert_snapshot!(accessors(&project), @"
    inner -> &worker::Env: Returns the untyped bindings.
    shell_sandbox -> ::koze::Namespace<super::ShellSandbox>: Returns the sandboxes of `src/server/shell.sandbox.rs`, bound as `SHELL_SANDBOX`.
    ");
}

#[test]
fn toml_gives_the_same_accessors() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write(
        "wrangler.toml",
        "name = \"app\"\nmain = \"src/generated/worker.mjs\"\ncompatibility_date = \"2026-04-21\"\n\n\
         [vars]\nSINCE = 2026-01-01\nRATIO = 0.5\nTABLE = { a = 1 }\n\n[[kv_namespaces]]\nbinding = \"CACHE\"\n\n\
         [env.staging.vars]\nRATIO = 1\n",
    );
    assert_snapshot!(accessors(&project), @"
    inner -> &worker::Env: Returns the untyped bindings.
    shell_sandbox -> ::koze::Namespace<super::ShellSandbox>: Returns the sandboxes of `src/server/shell.sandbox.rs`, bound as `SHELL_SANDBOX`.
    cache -> worker::Result<worker::KvStore>: The KV namespace `CACHE`. It is bound at the top level alone.
    ratio -> worker::Result<f64>: The variable `RATIO`.
    since -> worker::Result<::std::string::String>: The variable `SINCE`. It is bound at the top level alone.
    table<T: ::koze::__private::serde::de::DeserializeOwned> -> worker::Result<T>: The variable `TABLE`. It is bound at the top level alone. The binding is data: choose a type to read it as.
    ");
}

#[test]
fn a_removed_sandbox_leaves_a_plain_namespace_or_none() {
    let project = configured(r#"  "vars": {}"#);
    plain(&project, "src/server/python.sandbox.rs", "PythonSandbox");
    built(&project);
    assert!(
        accessors_of(&project.read("src/generated/env.rs")).contains("python_sandbox -> ::koze::Namespace<")
    );
    fs_err::remove_file(project.path("src/server/python.sandbox.rs")).expect("the file");
    let run = project.koze(&["remove", "python", "--keep-storage"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_snapshot!(accessors(&project), @"
    inner -> &worker::Env: Returns the untyped bindings.
    shell_sandbox -> ::koze::Namespace<super::ShellSandbox>: Returns the sandboxes of `src/server/shell.sandbox.rs`, bound as `SHELL_SANDBOX`.
    python_sandbox -> worker::Result<worker::ObjectNamespace>: The Durable Object namespace `PYTHON_SANDBOX`.
    ");
    let run = project.koze(&["remove", "python", "--delete-storage"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_snapshot!(accessors(&project), @"
    inner -> &worker::Env: Returns the untyped bindings.
    shell_sandbox -> ::koze::Namespace<super::ShellSandbox>: Returns the sandboxes of `src/server/shell.sandbox.rs`, bound as `SHELL_SANDBOX`.
    ");
}

#[test]
fn a_moved_sandbox_keeps_its_accessor() {
    let project = configured(r#"  "vars": {}"#);
    built(&project);
    fs_err::remove_file(project.path("src/server/shell.sandbox.rs")).expect("the file");
    sandbox(&project, "src/server/bash.sandbox.rs", "#[sandbox]\npub struct ShellSandbox;");
    assert_snapshot!(accessors(&project), @"
    inner -> &worker::Env: Returns the untyped bindings.
    bash_sandbox -> ::koze::Namespace<super::ShellSandbox>: Returns the sandboxes of `src/server/bash.sandbox.rs`, bound as `BASH_SANDBOX`.
    ");
}

#[test]
fn a_sandbox_conflicts_with_another_binding_of_its_name() {
    // Rate limits, whose binding is called `name`, and secrets count as bindings, too.
    let project = configured(r#"  "ratelimits": [{ "name": "SHELL_SANDBOX", "namespace_id": "1" }]"#);
    assert_snapshot!(refused(&project), @r#"
    error[K042]: `SHELL_SANDBOX` is the name of a binding of another kind
     --> wrangler.jsonc:5:28
      |
    5 |   "ratelimits": [{ "name": "SHELL_SANDBOX", "namespace_id": "1" }]
      |                            ^^^^^^^^^^^^^^^
      |
     ::: src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ------------ the sandbox
      |
      = help: names must be unique in `env`: `src/server/shell.sandbox.rs` gives this one to `ShellSandbox`; rename the file or the other binding

    1 error; nothing was written
    "#);
    configure(&project, r#"  "secrets": { "required": ["SHELL_SANDBOX"] }"#);
    assert!(refused(&project).starts_with("error[K042]: "));
}
