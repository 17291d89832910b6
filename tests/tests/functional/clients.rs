//! `koze mcp --print-config` and `--write`: the configurations of MCP clients.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use fs_err as fs;
use insta::assert_snapshot;
use koze_tests::{Project, Run, koze};

use crate::common::{BY_HAND, plain, printed, sandbox, shell};

/// The clients with files of their own.
const CLIENTS: [&str; 6] = ["claude-code", "codex", "cursor", "vscode", "gemini", "opencode"];

/// A package that agents can use, and a directory with `koze`, which is not in the package.
fn project() -> Project {
    let project = shell("#[sandbox(default)]\npub struct ShellSandbox;");
    let bin = project.dir().with_file_name("bin");
    fs::create_dir(&bin).expect("a directory");
    symlink(koze().get_program(), bin.join("koze")).expect("a link");
    project
}

/// Runs `koze mcp` with `koze` on the PATH, or with nothing on it.
fn mcp_with(project: &Project, on_path: bool, args: &[&str]) -> Run {
    let mut command: Command = koze();
    let bin = project.dir().with_file_name(if on_path { "bin" } else { "none" });
    command.arg("mcp").args(args).env("PATH", bin);
    project.run(command)
}

fn mcp(project: &Project, args: &[&str]) -> Run {
    mcp_with(project, true, args)
}

/// Adds the server to a file that exists, and returns the diff.
fn written(project: &Project, args: &[&str]) -> String {
    let before = project.snapshot();
    let run = mcp(project, args);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let diff = project.diff(&before);
    let after = project.snapshot();
    let again = mcp(project, args);
    assert!(again.stdout.starts_with("nothing to do: ") && again.code == 0, "{}", printed(&again));
    assert_eq!(project.diff(&after), "", "the second run changed something");
    diff.replace(&*project.dir().to_string_lossy(), "[PROJECT]")
}

/// Puts each list on one line: whether one fits depends on the length of the project's path.
fn flat(text: &str) -> String {
    let mut flat = String::new();
    let mut depth = 0_usize;
    for line in text.lines() {
        flat += if depth > 0 { line.trim_start() } else { line };
        depth = (depth + line.matches('[').count()).saturating_sub(line.matches(']').count());
        flat += match (depth, line.ends_with('[')) {
            (0, _) => "\n",
            (_, true) => "",
            _ => " ",
        };
    }
    flat.replace(" ]", "]")
}

/// Runs koze, which must fail with 1 and change nothing, and returns standard error.
fn refused(project: &Project, args: &[&str]) -> String {
    let before = project.snapshot();
    let run = mcp(project, args);
    assert_eq!(project.diff(&before), "", "a failed run wrote something");
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", run.stderr);
    run.stderr
}

#[test]
fn the_configuration_of_each_client() {
    let project = project();
    let print = |client: &str| {
        let run = mcp(&project, &["--print-config", client]);
        assert_eq!(run.code, 0, "{client}");
        format!("$ koze mcp --print-config {client}\n{}{}", flat(&run.stdout), run.stderr)
    };
    let all: String = CLIENTS.into_iter().chain(["json"]).map(print).collect();
    assert_snapshot!(all, @r#"
    $ koze mcp --print-config claude-code
    {
      "mcpServers": {
        "koze": {
          "command": "koze",
          "args": ["mcp"]
        }
      }
    }
    note: Claude Code reads this in `[PROJECT]/.mcp.json`
    $ koze mcp --print-config codex
    [mcp_servers.koze]
    command = "koze"
    args = ["mcp", "--project", "[PROJECT]"]
    env_vars = ["XDG_STATE_HOME", "KOZE_SUPERVISOR_IDLE_MS"]
    note: Codex reads this in `[PROJECT]/.codex/config.toml`, or in `~/.codex/config.toml` for all projects
    $ koze mcp --print-config cursor
    {
      "mcpServers": {
        "koze": {
          "type": "stdio",
          "command": "koze",
          "args": ["mcp", "--project", "${workspaceFolder}"]
        }
      }
    }
    note: Cursor reads this in `[PROJECT]/.cursor/mcp.json`
    $ koze mcp --print-config vscode
    {
      "servers": {
        "koze": {
          "type": "stdio",
          "command": "koze",
          "args": ["mcp"]
        }
      }
    }
    note: VS Code reads this in `[PROJECT]/.vscode/mcp.json`
    $ koze mcp --print-config gemini
    {
      "mcpServers": {
        "koze": {
          "command": "koze",
          "args": ["mcp"]
        }
      }
    }
    note: Gemini CLI reads this in `[PROJECT]/.gemini/settings.json`
    $ koze mcp --print-config opencode
    {
      "mcp": {
        "koze": {
          "type": "local",
          "command": ["koze", "mcp"]
        }
      }
    }
    note: OpenCode reads this in `[PROJECT]/opencode.json`
    $ koze mcp --print-config json
    {
      "mcpServers": {
        "koze": {
          "command": "koze",
          "args": ["mcp", "--project", "[PROJECT]"]
        }
      }
    }
    note: this is for a client that reads `mcpServers`; its documentation names the file
    "#);
}

#[test]
fn a_new_file_has_what_is_printed() {
    let project = project();
    let mut all = String::new();
    for client in CLIENTS {
        let expected = mcp(&project, &["--print-config", client]).stdout;
        let before = project.snapshot();
        all += &printed(&mcp(&project, &["--write", client]));
        let (new, changes) = project.changes(&before);
        assert_eq!((new.len(), changes.as_str()), (1, ""), "{client}: {new:?}");
        let text = project.read(&new[0]).replace(&*project.dir().to_string_lossy(), "[PROJECT]");
        assert_eq!(text, expected, "{client}");
        all += &printed(&mcp(&project, &["--write", client]));
    }
    assert_snapshot!(all, @"
    0
    created .mcp.json: Claude Code starts `koze mcp` as the server `koze`
    0
    nothing to do: in .mcp.json, Claude Code starts `koze mcp` as the server `koze`
    0
    created .codex/config.toml: Codex starts `koze mcp` as the server `koze`
    0
    nothing to do: in .codex/config.toml, Codex starts `koze mcp` as the server `koze`
    0
    created .cursor/mcp.json: Cursor starts `koze mcp` as the server `koze`
    0
    nothing to do: in .cursor/mcp.json, Cursor starts `koze mcp` as the server `koze`
    0
    created .vscode/mcp.json: VS Code starts `koze mcp` as the server `koze`
    0
    nothing to do: in .vscode/mcp.json, VS Code starts `koze mcp` as the server `koze`
    0
    created .gemini/settings.json: Gemini CLI starts `koze mcp` as the server `koze`
    0
    nothing to do: in .gemini/settings.json, Gemini CLI starts `koze mcp` as the server `koze`
    0
    created opencode.json: OpenCode starts `koze mcp` as the server `koze`
    0
    nothing to do: in opencode.json, OpenCode starts `koze mcp` as the server `koze`
    ");
}

#[test]
fn the_options_stay() {
    let project = project();
    project.write("other.jsonc", BY_HAND);
    let dir = project.dir().to_string_lossy().into_owned();
    let args = ["--project", &dir, "--config", "other.jsonc", "--state", "kept", "--session=-s"];
    let run = mcp(&project, &[&["--print-config", "claude-code", "--tools", "agent"], &args[..]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_snapshot!(run.stdout, @r#"
    {
      "mcpServers": {
        "koze": {
          "command": "koze",
          "args": [
            "mcp",
            "--project",
            "[PROJECT]",
            "--config",
            "[PROJECT]/other.jsonc",
            "--state",
            "[PROJECT]/kept",
            "--session=-s",
            "--tools",
            "agent"
          ]
        }
      }
    }
    "#);
}

#[test]
fn koze_is_not_on_the_path() {
    let project = project();
    let program = koze().get_program().to_string_lossy().into_owned();
    for args in [["--print-config", "cursor"], ["--write", "cursor"]] {
        let run = mcp_with(&project, false, &args);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.stderr.contains("note: `koze` is not on your PATH"), "{}", run.stderr);
    }
    assert!(project.read(".cursor/mcp.json").contains(&format!("\"command\": \"{program}\"")));
    // The entry is still one of koze, and changes when `koze` is on the PATH.
    assert_snapshot!(written(&project, &["--write", "cursor"]).replace(&program, "[KOZE]"), @r#"
    --- a/.cursor/mcp.json
    +++ b/.cursor/mcp.json
    @@ -2,7 +2,7 @@
       "mcpServers": {
         "koze": {
           "type": "stdio",
    -      "command": "[KOZE]",
    +      "command": "koze",
           "args": ["mcp", "--project", "${workspaceFolder}"]
         }
       }
    "#);
}

#[test]
fn comments_and_other_servers_stay() {
    let project = project();
    project.write(
        ".vscode/mcp.json",
        "{\n\t// The servers of the team.\n\t\"servers\": {\n\t\t\"docs\": { \"type\": \"http\", \"url\": \"https://docs.example\" }, // the first\n\t},\n\t\"inputs\": [],\n}\n",
    );
    project.write(
        ".codex/config.toml",
        "model = \"a\" # the model\n\n[mcp_servers.docs] # the first\nurl = \"https://docs.example\"\n\n[profiles.x]\nmodel = 'b'",
    );
    assert_snapshot!(written(&project, &["--write", "vscode"]) + &written(&project, &["--write", "codex"]), @r#"
    --- a/.vscode/mcp.json
    +++ b/.vscode/mcp.json
    @@ -2,6 +2,11 @@
     	// The servers of the team.
     	"servers": {
     		"docs": { "type": "http", "url": "https://docs.example" }, // the first
    +		"koze": {
    +			"type": "stdio",
    +			"command": "koze",
    +			"args": ["mcp"],
    +		},
     	},
     	"inputs": [],
     }
    --- a/.codex/config.toml
    +++ b/.codex/config.toml
    @@ -3,5 +3,10 @@
     [mcp_servers.docs] # the first
     url = "https://docs.example"
     
    +[mcp_servers.koze]
    +command = "koze"
    +args = ["mcp", "--project", "[PROJECT]"]
    +env_vars = ["XDG_STATE_HOME", "KOZE_SUPERVISOR_IDLE_MS"]
    +
     [profiles.x]
     model = 'b'
    \ No newline at end of file
    "#);
}

#[test]
fn line_endings_and_the_byte_order_mark_stay() {
    let project = project();
    let before = "\u{feff}{\r\n    \"mcpServers\": {\r\n        \"docs\": { \"url\": \"https://docs.example\" }\r\n    }\r\n}";
    project.write(".mcp.json", before);
    written(&project, &["--write", "claude-code"]);
    let entry = ",\r\n        \"koze\": {\r\n            \"command\": \"koze\",\r\n            \"args\": [\"mcp\"]\r\n        }";
    let after = project.read(".mcp.json");
    assert_eq!(after, before.replace("example\" }", &format!("example\" }}{entry}")));
    // An update changes only what differs.
    written(&project, &["--write", "claude-code", "--session", "mine"]);
    let args = "[\"mcp\", \"--session\", \"mine\"]";
    assert_eq!(project.read(".mcp.json"), after.replace("[\"mcp\"]", args));
}

#[test]
fn keys_of_others_in_the_entry_stay() {
    let project = project();
    project.write(
        ".gemini/settings.json",
        "{\n  \"mcpServers\": {\n    \"koze\": {\n      \"args\": [\"mcp\"], // as printed\n      \"trust\": true,\n      \"command\": \"/opt/koze/koze\"\n    }\n  }\n}\n",
    );
    project.write(
        ".codex/config.toml",
        "[mcp_servers.koze]\nenabled = false\ncommand = \"koze\"\nargs = [\"mcp\"]\nenv_vars = [\"MINE\"]\n",
    );
    assert_snapshot!(written(&project, &["--write", "gemini"]) + &written(&project, &["--write", "codex"]), @r#"
    --- a/.gemini/settings.json
    +++ b/.gemini/settings.json
    @@ -3,7 +3,7 @@
         "koze": {
           "args": ["mcp"], // as printed
           "trust": true,
    -      "command": "/opt/koze/koze"
    +      "command": "koze"
         }
       }
     }
    --- a/.codex/config.toml
    +++ b/.codex/config.toml
    @@ -1,5 +1,5 @@
     [mcp_servers.koze]
     enabled = false
     command = "koze"
    -args = ["mcp"]
    +args = ["mcp", "--project", "[PROJECT]"]
     env_vars = ["MINE"]
    "#);
}

#[test]
fn the_file_of_opencode() {
    let project = project();
    // Version 2 has its servers one level deeper.
    project.write("opencode.jsonc", "{\n  \"mcp\": {\n    \"servers\": {} // none yet\n  }\n}\n");
    assert_snapshot!(written(&project, &["--write", "opencode"]), @r#"
    --- a/opencode.jsonc
    +++ b/opencode.jsonc
    @@ -1,5 +1,10 @@
     {
       "mcp": {
    -    "servers": {} // none yet
    +    "servers": {
    +      "koze": {
    +        "type": "local",
    +        "command": ["koze", "mcp"]
    +      }
    +    } // none yet
       }
     }
    "#);
    assert!(!project.path("opencode.json").exists());
    // A server of version 1 may have this name.
    project.write(
        "opencode.jsonc",
        "{ \"mcp\": { \"servers\": { \"type\": \"remote\", \"url\": \"https://a.example\" } } }\n",
    );
    written(&project, &["--write", "opencode"]);
    assert!(project.read("opencode.jsonc").contains("\"url\": \"https://a.example\" }, \"koze\": {"));
}

#[test]
fn a_file_that_does_not_parse() {
    let project = project();
    project
        .write(".mcp.json", "{\n  \"mcpServers\": { \"a\" }\n}\n")
        .write(".codex/config.toml", "[mcp_servers\n");
    let mut all = refused(&project, &["--write", "claude-code"]);
    all += &refused(&project, &["--write", "codex"]);
    project.write(".mcp.json", "").write(".codex/config.toml", b"# \xff\n");
    all += &refused(&project, &["--write", "claude-code"]);
    all += &refused(&project, &["--write", "codex"]);
    assert_snapshot!(all, @r#"
    error[K130]: cannot parse this file: Expected colon after the string or word in object property
     --> .mcp.json:2:23
      |
    2 |   "mcpServers": { "a" }
      |                       ^
      |
      = help: correct the syntax, then run the command again; `koze mcp --print-config` prints what it would add

    1 error; nothing was written
    error[K130]: cannot parse this file: unclosed table, expected `]`
     --> .codex/config.toml:1:13
      |
    1 | [mcp_servers
      |             ^
      |
      = help: correct the syntax, then run the command again; `koze mcp --print-config` prints what it would add

    1 error; nothing was written
    error[K130]: cannot parse this file: The file is empty: a JSON value is expected
     --> .mcp.json:1:1
      |
    1 |
      | ^
      |
      = help: correct the syntax, then run the command again; `koze mcp --print-config` prints what it would add

    1 error; nothing was written
    error[K130]: cannot parse this file: it is not UTF-8
    --> .codex/config.toml
     = help: correct the syntax, then run the command again; `koze mcp --print-config` prints what it would add

    1 error; nothing was written
    "#);
}

#[test]
fn an_entry_of_somebody_else() {
    let project = project();
    project.write(
        ".mcp.json",
        "{\n  \"mcpServers\": {\n    \"koze\": { \"command\": \"npx\", \"args\": [\"mcp\"] }\n  }\n}\n",
    );
    project.write(".cursor/mcp.json", "{ \"mcpServers\": [] }\n").write("opencode.json", "[]\n");
    project.write(".codex/config.toml", "[mcp_servers]\nkoze = \"koze mcp\"\n");
    let clients = ["claude-code", "cursor", "opencode", "codex"];
    let all: String = clients.iter().map(|client| refused(&project, &["--write", client])).collect();
    assert_snapshot!(all, @r#"
    error[K131]: `mcpServers.koze` does not start `koze mcp`
     --> .mcp.json:3:5
      |
    3 |     "koze": { "command": "npx", "args": ["mcp"] }
      |     ^^^^^^
      |
      = help: choose another name for koze's server with `--name`, or remove that entry, then run the command again

    1 error; nothing was written
    error[K131]: `mcpServers` is not an object
     --> .cursor/mcp.json:1:3
      |
    1 | { "mcpServers": [] }
      |   ^^^^^^^^^^^^
      |
      = help: make it an object, or remove it, then run the command again

    1 error; nothing was written
    error[K131]: the file is not an object
     --> opencode.json:1:1
      |
    1 | []
      | ^^
      |
      = help: make it an object, or remove it, then run the command again

    1 error; nothing was written
    error[K131]: `mcp_servers.koze` does not start `koze mcp`
     --> .codex/config.toml:2:1
      |
    2 | koze = "koze mcp"
      | ^^^^
      |
      = help: choose another name for koze's server with `--name`, or remove that entry, then run the command again

    1 error; nothing was written
    "#);
    assert_snapshot!(written(&project, &["--write", "claude-code", "--name", "koze-2"]), @r#"
    --- a/.mcp.json
    +++ b/.mcp.json
    @@ -1,5 +1,9 @@
     {
       "mcpServers": {
    -    "koze": { "command": "npx", "args": ["mcp"] }
    +    "koze": { "command": "npx", "args": ["mcp"] },
    +    "koze-2": {
    +      "command": "koze",
    +      "args": ["mcp"]
    +    }
       }
     }
    "#);
}

#[test]
fn a_link_is_followed_in_the_package_only() {
    let project = project();
    let outside = project.dir().with_file_name("outside");
    fs::create_dir(&outside).expect("a directory");
    fs::write(outside.join("mcp.json"), "{}\n").expect("a file");
    project.write("config/mcp.json", "{}\n");
    symlink("config/mcp.json", project.path(".mcp.json")).expect("a link");
    symlink(outside.join("mcp.json"), project.path("opencode.json")).expect("a link");
    symlink(&outside, project.path(".vscode")).expect("a link");
    symlink("nowhere", project.path(".gemini")).expect("a link");

    assert_eq!(mcp(&project, &["--write", "claude-code"]).code, 0);
    assert!(project.read("config/mcp.json").contains("\"koze\""));
    assert!(project.path(".mcp.json").is_symlink());
    for client in ["opencode", "vscode", "gemini"] {
        let stderr = refused(&project, &["--write", client]);
        assert!(stderr.starts_with("error[K096]: "), "{client}: {stderr}");
    }
    assert_eq!(fs::read_to_string(outside.join("mcp.json")).expect("the file"), "{}\n");
    assert_eq!(fs::read_dir(&outside).expect("the directory").count(), 1);
}

#[test]
fn a_file_that_cannot_be_written() {
    let project = project();
    project.write(".mcp.json", "{}\n").write(".vscode/mcp.json/x", "");
    fs::set_permissions(project.path(".mcp.json"), Permissions::from_mode(0o444)).expect("a mode");
    let mut all = refused(&project, &["--write", "claude-code"]);
    all += &refused(&project, &["--write", "vscode"]);
    assert_snapshot!(all, @"
    error[K057]: failed to write `[PROJECT]/.mcp.json`: the file is read-only
     |
     = help: resolve the cause, then run the command again

    1 error; nothing was written
    error[K060]: failed to read from file `[PROJECT]/.vscode/mcp.json`: Is a directory (os error 21)
     |
     = help: a file must be there: move the directory elsewhere, then run the command again

    1 error; nothing was written
    ");
    // A full disk.
    let before = project.snapshot();
    let mut command = koze();
    command.args(["mcp", "--write", "gemini"]).env("KOZE_FAULT", "error@2");
    let run = project.run(command);
    assert!(run.code == 1 && run.stderr.contains("No space left on device"), "{}", printed(&run));
    assert_eq!(project.diff(&before), "");
    assert!(!project.path(".gemini").exists(), "the directory was left behind");
}

#[test]
fn a_project_that_cannot_serve() {
    let project = project();
    sandbox(&project, "src/server/bad.sandbox.rs", "#[sandbox(max_instances = 0)]\npub struct Bad;");
    assert!(refused(&project, &["--write", "claude-code"]).starts_with("error[K013]"));
    plain(&project, "src/server/bad.sandbox.rs", "Bad");
    let stderr = refused(&project, &["--print-config", "codex", "--tools", "workspace"]);
    assert!(stderr.starts_with("error["), "{stderr}");
}

#[test]
fn wrong_usage() {
    let project = project();
    let all = [
        &["--write", "json"][..],
        &["--write", "zed"],
        &["--write", "codex", "--print-config", "codex"],
        &["--write", "codex", "--http"],
        &["--name", "other"],
        &["--write", "codex", "--name", "a b"],
        &["--write", "codex", "--session", ""],
    ];
    let before = project.snapshot();
    for args in all {
        let run = mcp(&project, args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {}", run.stderr);
    }
    assert_eq!(project.diff(&before), "");
    assert_snapshot!(mcp(&project, &["--write", "json"]).stderr + &mcp(&project, &["--write", "zed"]).stderr, @"
    error: `json` has no file of its own: run `koze mcp --print-config json`, and add what it prints to the file of your client
    error: invalid value 'zed' for '--write <CLIENT>'
      [possible values: claude-code, codex, cursor, vscode, gemini, opencode, json]

    For more information, try '--help'.
    ");
}
