//! Services in containers, declared in `*.container.rs`.

use insta::assert_snapshot;
use koze_tests::Project;
use serde_json::{Value, json};

use crate::common::{BY_HAND, built, document, package, plain, refused, refused_with, sandbox, users_diff};

const BLOG: &str = "src/server/blog.container.rs";

/// Writes the file of a container with these keys.
fn container(project: &Project, file: &str, keys: &str, class: &str) {
    sandbox(project, file, &format!("#[container({keys})]\npub struct {class};"));
}

/// A built project with a container and no sandbox. It has no SDK, because nothing needs it.
fn with_blog() -> Project {
    let project = Project::new();
    project
        .write(
            "Cargo.toml",
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n",
        )
        .write("src/lib.rs", "mod generated;\n")
        .write("wrangler.jsonc", BY_HAND);
    container(&project, BLOG, "image = \"wordpress:6.8-apache\", port = 80", "BlogContainer");
    built(&project);
    project
}

/// Returns the wrangler configuration without its comment.
fn config(project: &Project) -> Value {
    let text = project.read("wrangler.jsonc").replace("// Written by hand.", "");
    serde_json::from_str(&text).expect("JSON without other comments")
}

#[test]
fn a_container_is_added_listed_renamed_and_removed() {
    let project = package();
    project.write("wrangler.jsonc", BY_HAND);
    let before = project.snapshot();
    let add = ["add", "blog", "--container", "--image", "wordpress:6.8-apache", "--port", "80"];
    let run = project.koze(&add);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_snapshot!(users_diff(&before, &project.snapshot()), @r#"
    --- /dev/null
    +++ b/src/server/blog.container.rs
    @@ -0,0 +1,4 @@
    +use koze::prelude::*;
    +
    +#[container(image = "wordpress:6.8-apache", port = 80, name = "app-blog")]
    +pub struct BlogContainer;
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -2,5 +2,27 @@
       // Written by hand.
       "name": "app",
       "main": "src/generated/worker.mjs",
    -  "compatibility_date": "2026-04-21"
    +  "compatibility_date": "2026-04-21",
    +  "containers": [
    +    {
    +      "name": "app-blog",
    +      "class_name": "BlogContainer",
    +      "image": "docker.io/library/wordpress:6.8-apache",
    +      "instance_type": "lite"
    +    }
    +  ],
    +  "durable_objects": {
    +    "bindings": [
    +      {
    +        "name": "BLOG_CONTAINER",
    +        "class_name": "BlogContainer"
    +      }
    +    ]
    +  },
    +  "migrations": [
    +    {
    +      "tag": "v1",
    +      "new_sqlite_classes": ["BlogContainer"]
    +    }
    +  ]
     }
    "#);

    let list = project.koze(&["list"]);
    assert_snapshot!(list.stdout, @"
    1 container in wrangler.jsonc
      src/server/blog.container.rs  BlogContainer  BLOG_CONTAINER  docker.io/library/wordpress:6.8-apache, a service at port 80
    ");
    let listed = document(&project.koze(&["list", "--format", "json"]));
    let entry = &listed["sandboxes"][0];
    assert_eq!(
        [&entry["kind"], &entry["backend"], &entry["image"]],
        [&json!("container"), &json!("native"), &json!("docker.io/library/wordpress:6.8-apache")]
    );

    let run = project.koze(&["rename", "blog", "journal"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(project.read("src/server/journal.container.rs").contains("pub struct JournalContainer;"));
    let renamed = config(&project);
    assert_eq!(
        renamed["migrations"][1]["renamed_classes"],
        json!([
            { "from": "BlogContainer", "to": "JournalContainer" }
        ])
    );
    // The application stays the one that was deployed.
    assert_eq!(renamed["containers"][0]["name"], "app-blog");

    fs_err::remove_file(project.path("src/server/journal.container.rs")).expect("it was there");
    assert!(refused(&project).contains("error[K043]"));
    let run = project.koze(&["remove", "journal", "--delete-storage"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let removed = config(&project);
    assert_eq!(removed["migrations"][2]["deleted_classes"], json!(["JournalContainer"]));
    assert!(removed.get("containers").is_none() && removed.get("durable_objects").is_none(), "{removed:#}");
}

#[test]
fn a_container_serves_no_tools() {
    let project = with_blog();
    let tools: Value = serde_json::from_str(&project.read("src/generated/tools.json")).expect("JSON");
    assert_eq!(tools["tools"], json!([]));
    assert!(!project.read("src/generated/tools.rs").contains("Profile"));
    let mut files: Vec<String> = project.snapshot().into_keys().collect();
    files.retain(|file| file.starts_with("src/generated/koze/"));
    let koze =
        ["platform.mjs", "service.d.mts", "service.mjs"].map(|name| format!("src/generated/koze/{name}"));
    assert_eq!(files, koze, "no guest, and no sandbox");
    assert!(refused_with(&project, &["tools"]).contains("error["));

    sandbox(
        &project,
        "src/server/shell.sandbox.rs",
        "#[sandbox(backend = \"native\", image = \"debian:12\")]\nstruct A;",
    );
    built(&project);
    let tools = project.read("src/generated/tools.json");
    assert!(tools.contains("\"shell\"") && !tools.contains("blog"), "{tools}");
    assert_eq!(project.koze(&["tools"]).code, 0);
}

#[test]
fn environments_have_a_container_each() {
    let project = with_blog();
    let config_text = project.read("wrangler.jsonc").trim_end().trim_end_matches('}').to_owned();
    project.write("wrangler.jsonc", format!("{config_text},\"env\": {{ \"staging\": {{}} }} }}"));
    built(&project);
    let staging = &config(&project)["env"]["staging"];
    assert_eq!(staging["containers"][0]["name"], "blog-container-staging");
    assert_eq!(staging["durable_objects"]["bindings"][0]["name"], "BLOG_CONTAINER");
}

#[test]
fn an_entry_by_hand_that_contradicts_stops_the_build() {
    let project = with_blog();
    let text = project.read("wrangler.jsonc").replace(
        "\"instance_type\": \"lite\"",
        "\"instance_type\": \"lite\", \"scheduling_policy\": \"durable_object\"",
    );
    project.write("wrangler.jsonc", text);
    assert!(refused(&project).contains("error[K078]"));
}

#[test]
fn mistakes_in_a_container_are_reported() {
    let project = package();
    container(&project, BLOG, "image = \"nginx:1.27\"", "BlogContainer");
    assert_snapshot!(refused(&project), @"
    error[K103]: `#[container]` lacks the key `port`
     --> src/server/blog.container.rs:4:12
      |
    4 | pub struct BlogContainer;
      |            ^^^^^^^^^^^^^
      |
      = help: the class forwards requests to this port of the container: add it, for example `port = 80`

    1 error; nothing was written
    ");
    container(&project, BLOG, "port = 80", "BlogContainer");
    assert_snapshot!(refused(&project), @r#"
    error[K074]: `BlogContainer` has no image
     --> src/server/blog.container.rs:4:12
      |
    4 | pub struct BlogContainer;
      |            ^^^^^^^^^^^^^
      |
      = help: set `image` to that of the service, such as `image = "wordpress:6.8-apache"`, or add `blog.Dockerfile` next to the source file

    1 error; nothing was written
    "#);
    container(&project, BLOG, "image = \"nginx:1.27\", port = 80, tools = [\"agent\"]", "BlogContainer");
    assert!(refused(&project).contains("`#[container]` has no key `tools`"));
    container(&project, BLOG, "image = \"nginx:1.27\", port = 80, backend = \"sdk\"", "BlogContainer");
    assert!(refused(&project).contains("`sdk` is not a valid `backend`"));
    container(&project, BLOG, "image = \"nginx:1.27\", port = 80", "BlogContainer");
    plain(&project, "src/server/blog.sandbox.rs", "BlogSandbox");
    assert!(refused(&project).contains("a sandbox and a container have the module `blog`"));
}

#[test]
fn the_backend_of_a_container_stays() {
    let project = with_blog();
    project.write("src/server/blog.Dockerfile", "FROM nginx:1.27\n");
    container(&project, BLOG, "port = 80, backend = \"managed\", entrypoint = [\"nginx\"]", "BlogContainer");
    assert_snapshot!(refused(&project), @r#"
    error[K075]: `BlogContainer` was built with the backend `native`, but its attribute now says `managed`
     --> src/server/blog.container.rs:3:34
      |
    3 | #[container(port = 80, backend = "managed", entrypoint = ["nginx"])]
      |                                  ^^^^^^^^^
      |
      = help: Cloudflare cannot change who starts the containers of an application: set it back to `native`, or declare another container and remove this one with `koze remove blog`

    1 error; nothing was written
    "#);
    let refused = refused_with(&project, &["migrate", "--backend", "managed", "blog"]);
    assert!(refused.contains("error["), "{refused}");
}

#[test]
fn a_lost_lock_does_not_lose_the_class() {
    let project = with_blog();
    fs_err::remove_file(project.path("koze.lock")).expect("a lock");
    fs_err::remove_file(project.path(BLOG)).expect("a container");
    assert!(refused(&project).contains("error[K043]"));
}
