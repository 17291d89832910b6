//! The supported forms of a wrangler configuration.

use insta::assert_snapshot;

use crate::common::{BY_HAND, SHELL, built_diff, plain, shell};

#[test]
fn toml_is_edited_in_place_too() {
    let project = shell("#[sandbox(max_instances = 2)]\npub struct ShellSandbox;");
    project.write(
        "wrangler.toml",
        "# Mine.\nname = \"app\"\nmain = \"src/generated/worker.mjs\" # koze's\ncompatibility_date = \"2026-04-21\"\n",
    );
    assert_snapshot!(built_diff(&project), @r#"
    --- a/wrangler.toml
    +++ b/wrangler.toml
    @@ -2,3 +2,18 @@
     name = "app"
     main = "src/generated/worker.mjs" # koze's
     compatibility_date = "2026-04-21"
    +
    +[[containers]]
    +name = "shell-sandbox"
    +class_name = "ShellSandbox"
    +image = "docker.io/cloudflare/sandbox:0.12.10"
    +instance_type = "lite"
    +max_instances = 2
    +
    +[[durable_objects.bindings]]
    +name = "SHELL_SANDBOX"
    +class_name = "ShellSandbox"
    +
    +[[migrations]]
    +tag = "v1"
    +new_sqlite_classes = ["ShellSandbox"]
    "#);
    plain(&project, SHELL, "ShellSandbox");
    plain(&project, "src/server/python.sandbox.rs", "PythonSandbox");
    assert_snapshot!(built_diff(&project), @r#"
    --- a/wrangler.toml
    +++ b/wrangler.toml
    @@ -8,12 +8,25 @@
     class_name = "ShellSandbox"
     image = "docker.io/cloudflare/sandbox:0.12.10"
     instance_type = "lite"
    -max_instances = 2
     
    +[[containers]]
    +name = "python-sandbox"
    +class_name = "PythonSandbox"
    +image = "docker.io/cloudflare/sandbox:0.12.10"
    +instance_type = "lite"
    +
     [[durable_objects.bindings]]
     name = "SHELL_SANDBOX"
     class_name = "ShellSandbox"
     
    +[[durable_objects.bindings]]
    +name = "PYTHON_SANDBOX"
    +class_name = "PythonSandbox"
    +
     [[migrations]]
     tag = "v1"
     new_sqlite_classes = ["ShellSandbox"]
    +
    +[[migrations]]
    +tag = "v2"
    +new_sqlite_classes = ["PythonSandbox"]
    "#);
}

#[test]
fn environments_can_be_chosen() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write(
        "Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\n\n[package.metadata.koze]\nenvironments = [\"staging\"]\n",
    );
    let config = BY_HAND.replace("\n}", ",\n  \"env\": { \"staging\": {}, \"local\": {} }\n}");
    project.write("wrangler.jsonc", config);
    assert_snapshot!(built_diff(&project), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -3,5 +3,44 @@
       "name": "app",
       "main": "src/generated/worker.mjs",
       "compatibility_date": "2026-04-21",
    -  "env": { "staging": {}, "local": {} }
    +  "env": { "staging": {
    +    "containers": [
    +      {
    +        "name": "shell-sandbox-staging",
    +        "class_name": "ShellSandbox",
    +        "image": "docker.io/cloudflare/sandbox:0.12.10",
    +        "instance_type": "lite"
    +      }
    +    ],
    +    "durable_objects": {
    +      "bindings": [
    +        {
    +          "name": "SHELL_SANDBOX",
    +          "class_name": "ShellSandbox"
    +        }
    +      ]
    +    }
    +  }, "local": {} },
    +  "containers": [
    +    {
    +      "name": "shell-sandbox",
    +      "class_name": "ShellSandbox",
    +      "image": "docker.io/cloudflare/sandbox:0.12.10",
    +      "instance_type": "lite"
    +    }
    +  ],
    +  "durable_objects": {
    +    "bindings": [
    +      {
    +        "name": "SHELL_SANDBOX",
    +        "class_name": "ShellSandbox"
    +      }
    +    ]
    +  },
    +  "migrations": [
    +    {
    +      "tag": "v1",
    +      "new_sqlite_classes": ["ShellSandbox"]
    +    }
    +  ]
     }
    "#);
}

#[test]
fn exports_are_used_if_the_project_has_them() {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    let exports = r#"
  "exports": {
    "Counter": { "type": "durable-object", "storage": "sqlite" }
  }
}"#;
    project.write("wrangler.jsonc", BY_HAND.replace("\n}", &format!(",{exports}")));
    assert_snapshot!(built_diff(&project), @r#"
    --- a/wrangler.jsonc
    +++ b/wrangler.jsonc
    @@ -4,6 +4,26 @@
       "main": "src/generated/worker.mjs",
       "compatibility_date": "2026-04-21",
       "exports": {
    -    "Counter": { "type": "durable-object", "storage": "sqlite" }
    +    "Counter": { "type": "durable-object", "storage": "sqlite" },
    +    "ShellSandbox": {
    +      "type": "durable-object",
    +      "storage": "sqlite"
    +    }
    +  },
    +  "containers": [
    +    {
    +      "name": "shell-sandbox",
    +      "class_name": "ShellSandbox",
    +      "image": "docker.io/cloudflare/sandbox:0.12.10",
    +      "instance_type": "lite"
    +    }
    +  ],
    +  "durable_objects": {
    +    "bindings": [
    +      {
    +        "name": "SHELL_SANDBOX",
    +        "class_name": "ShellSandbox"
    +      }
    +    ]
       }
     }
    "#);
}
