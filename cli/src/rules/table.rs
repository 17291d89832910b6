//! The rules that only the command line checks.

use std::io;

use koze_model::rules::listed;
use koze_model::{Backend, Kind};

use super::{join_with_or, way_out};
use crate::own::Own;

koze_model::rule_table! {
    /// A rule, with the data for its message.
    pub enum Rule {
        include Model(koze_model::Rule);

        // The project.

        /// The directory is not in a Cargo package.
        "K027" Error NoPackage { dir: String, why: String }
            format!("`{dir}` is not a Cargo package: {why}")
            => "run koze in a package, pass one with `--project DIR`, or create one with `koze new DIR`",
            why "koze reads the package's name, its settings and its sources from a Cargo package.",
            eg "koze build --project /tmp";
        /// A path below `src` cannot be written to Rust source.
        "K028" Error NotUtf8 { path: String }
            format!("the path `{path}` is not UTF-8")
            => "the generated modules contain this path: rename the directory or file",
            why "The generated modules contain paths, and Rust source is UTF-8.",
            eg "src/<bytes that are not UTF-8>/shell.sandbox.rs";

        // The SDK and the image.

        /// Nothing determines the SDK version of the project.
        "K030" Error NoSdk { looked: String, recommended: String }
            format!("the version of `@cloudflare/sandbox`, which determines the image, is unknown: {looked}")
            => format!("the image tag must equal the SDK version: install the packages of `package.json`, or require an exact version, for example with `npm install --save-exact @cloudflare/sandbox@{recommended}`, then run `koze build` again; or, for a sandbox without the SDK, add `backend = \"native\"` and an image to its attribute"),
            why "The program in the image and the SDK in the Worker speak a protocol that changes between versions. With an unequal pair, calls fail at run time.",
            eg r#"a project without `node_modules`, without `package-lock.json`, and with `"@cloudflare/sandbox": "^0.12.0"` in `package.json`"#;
        /// The SDK version is not supported.
        "K031" Error SdkOutOfRange { version: String, source: String, recommended: String }
            format!("`@cloudflare/sandbox` {version} ({source}) is outside the supported range, 0.8.11 to 0.12.x")
            => format!("koze needs the `Sandbox` class, which 0.13 and 1.0 removed: run `npm install --save-exact @cloudflare/sandbox@{recommended}`, then `koze build` again"),
            why "koze's class extends the SDK's class `Sandbox`. Earlier versions lack methods of it, and later ones do not have it.",
            eg "npm install @cloudflare/sandbox@1.0.0";
        /// The SDK version lacks methods that tools need.
        "K032" Warning OldSdk { version: String, source: String, recommended: String }
            format!("`@cloudflare/sandbox` {version} ({source}) is older than the tools of this version of koze expect")
            => format!("the configuration is correct, but tool calls that need a newer SDK return `unsupported`: run `npm install --save-exact @cloudflare/sandbox@{recommended}`"),
            why "The SDK's class got methods over time. A tool that needs one that is missing can only return an error.",
            eg "npm install @cloudflare/sandbox@0.9.2";
        /// A Dockerfile is based on a sandbox image of another version than the SDK's.
        "K033" Warning FromOutOfStep { from: String, version: String }
            format!("the Dockerfile is based on `{from}`, but the SDK is {version}")
            => format!("image and SDK must have the same version: use a tag that starts with `{version}`"),
            why "The program in the image and the SDK in the Worker speak a protocol that changes between versions.",
            eg "FROM docker.io/cloudflare/sandbox:0.12.9   # and 0.12.10 in node_modules";
        /// A file that should determine the SDK version has an invalid format.
        "K034" Error BadManifest { message: String }
            message
            => "correct the file, then run `koze build` again",
            why "The version of the SDK determines the image. koze does not guess it from a file that it cannot read.",
            eg "a `package.json` that is not valid JSON";

        // The wrangler configuration.

        /// The wrangler configuration does not parse.
        "K040" Error ConfigSyntax { message: String }
            format!("cannot parse this file: {message}")
            => "correct the syntax, then run `koze build` again",
            why "koze edits the text of this file in place and keeps everything else. In a text with a syntax error, it could damage what you wrote.",
            eg r#"{ "name": "app" "main": "src/generated/worker.mjs" }"#;
        /// A part of the wrangler configuration that koze edits has an invalid form.
        "K041" Error ConfigShape { path: String, expected: &'static str }
            format!("`{path}` is not {expected}")
            => format!("make it {expected}, or remove it, then run `koze build` again"),
            why "koze would have to replace the value in order to add its entries, and would lose yours.",
            eg r#"{ "containers": {} }"#;
        /// A hand-written entry contradicts a sandbox.
        "K042" Error Contradiction { message: String, remedy: String }
            message
            => remedy,
            why "koze writes its own entries and never changes those that others wrote. Here, the two cannot both be true.",
            eg r#"{ "durable_objects": { "bindings": [{ "name": "SHELL_SANDBOX", "class_name": "Other" }] } }"#;
        /// A class has storage, but no file declares it.
        "K043" Error ClassGone { class: String, file: String, name: String, now: Option<String> }
            match now {
                Some(now) => format!("`{file}` now declares `{now}`, but its class `{class}` still has storage"),
                None => format!("`{file}` is gone, but its class `{class}` still has storage"),
            }
            => match now {
                Some(now) => format!("a build never deletes storage: declare `{class}` again (in its own file, if `{now}` is another sandbox), or run `koze remove {name}` with `--keep-storage` or `--delete-storage`"),
                None => format!("a build never deletes storage: restore the file, or run `koze remove {name}` with `--keep-storage` or `--delete-storage`"),
            },
            why "A missing file may be a mistake, a branch or a merge. Deleting a class deletes the storage of all its objects, and this cannot be undone.",
            eg "rm src/server/shell.sandbox.rs\nkoze build";
        /// A class may have been renamed, but the new name is ambiguous.
        "K044" Error AmbiguousRename { class: String, file: String, name: String, candidates: Vec<String> }
            format!("the class `{class}`, which was in `{file}` and has storage, is no longer declared, and koze cannot tell which class replaced it")
            => format!("if the class was renamed, write `#[sandbox(renamed_from = \"{class}\")]` on {}; otherwise restore the file, or run `koze remove {name}` with `--keep-storage` or `--delete-storage`", join_with_or(candidates)),
            why "A renamed class keeps its storage, and a new one starts empty. A wrong guess would make the storage unreachable or delete it.",
            eg "rm src/server/shell.sandbox.rs   # and src/server/bash.sandbox.rs is new";
        /// The list of migrations contradicts itself or what koze wrote.
        "K045" Error BadMigrations { message: String, remedy: String }
            message
            => remedy,
            why "Cloudflare applies migrations in order and remembers the last tag. An inconsistent list can delete storage, or apply nothing.",
            eg r#""migrations": [{ "tag": "v1", .. }, { "tag": "v1", .. }]"#;
        /// This version of koze does not support editing this form of configuration.
        "K046" Error ConfigNotServed { what: String, remedy: String }
            format!("this version of koze does not edit {what}")
            => remedy,
            why "An edit that koze cannot do in place could lose what you wrote.",
            eg "koze build --config wrangler.yaml";
        /// The configuration that wrangler would read is outside the package.
        "K047" Error ConfigElsewhere { found: String, why: &'static str, remedy: String }
            format!("wrangler would read `{found}`, {why}")
            => remedy,
            why "koze would edit one file while wrangler deploys another.",
            eg "a `wrangler.json` in a directory above the package, which wrangler prefers to a `wrangler.jsonc` in it";
        /// There is a container of the class `Sandbox`, the pattern of earlier versions.
        "K048" Warning LegacySandbox {}
            "this container has the class `Sandbox`, which earlier versions used"
            => "run `koze migrate`, which writes a sandbox file for these entries, renames the class so that it keeps its storage, and lists the call sites to change",
            why "Earlier versions of the pattern have one class for all images. koze needs one class for each sandbox, and the storage of the old class can be kept by renaming it.",
            eg r#"{ "containers": [{ "class_name": "Sandbox", .. }] }"#;
        /// The Worker that wrangler bundles does not export the sandbox classes.
        "K049" Warning MainElsewhere { main: Option<String>, entry: String }
            match main {
                Some(main) => format!("`main` is `{main}`, which does not export the sandbox classes"),
                None => "there is no `main`".to_owned(),
            }
            => format!("set `main` to `{entry}`, or add `export * from` that file to yours"),
            why "Cloudflare rejects a Worker that does not export a class of its Durable Objects.",
            eg r#"{ "main": "build/index.js" }"#;
        /// `renamed_from` was already applied, or names a class that never existed.
        "K050" Warning RenameDone { old: String, why: &'static str }
            format!("`renamed_from = \"{old}\"` has no effect: {why}")
            => "remove the key",
            why "The class has the new name already. A key without effect would rename another class of the same name later.",
            eg r#"#[sandbox(renamed_from = "OldSandbox")]   // after the build that renamed it"#;
        /// The compatibility date is too old for an egress policy.
        "K051" Warning DateTooOld { date: Option<String>, needed: &'static str }
            match date {
                Some(date) => format!("the compatibility date {date} is too old for `allowed_hosts` and `denied_hosts`"),
                None => "there is no `compatibility_date`, which `allowed_hosts` and `denied_hosts` need".to_owned(),
            }
            => format!("set `compatibility_date` to {needed} or later, which traffic interception needs"),
            why "Older dates do not have the interception of outbound traffic. Without it, the policy would not apply.",
            eg r#"{ "compatibility_date": "2025-01-01" }   // and #[sandbox(allowed_hosts = ["api.example.com"])]"#;
        /// An environment that koze does not manage names a class that no longer exists.
        "K052" Warning Stranded { what: String, class: String, environment: String }
            format!("{what} in `env.{environment}` refers to the class `{class}`, which no longer exists")
            => format!("koze does not manage this environment, and Cloudflare rejects such a deployment: add `{environment}` to `package.metadata.koze.environments` in Cargo.toml, or remove the entry"),
            why "An environment inherits neither containers nor Durable Objects from the top level, so a class that was renamed or removed there still has its old entries here.",
            eg "koze rename shell bash   # with environments = [\"staging\"], and entries of koze's in env.production";

        // Files.

        /// `koze.lock` cannot be used.
        "K055" Error BadLock { message: String, remedy: &'static str }
            format!("`koze.lock` cannot be used: {message}")
            => remedy,
            why "`koze.lock` records which entries and migrations koze wrote. Without it, koze could take your entries for its own, or lose the storage of a class.",
            eg "a `koze.lock` with the marks of a merge conflict";
        /// koze did not write the file that it would overwrite.
        "K056" Error NotOurs { path: String }
            format!("`{path}` was not written by koze, and koze would overwrite it")
            => "move your file elsewhere, then run `koze build` again",
            why "koze overwrites its files at each build, and never a file that someone else wrote.",
            eg "a `src/generated/mod.rs` of your own";
        /// Writing was interrupted between two files.
        "K057" Error Interrupted { message: String, written: Vec<String> }
            message
            => if written.is_empty() { "resolve the cause, then run the command again".to_owned() } else { format!("{} were already written, each completely: resolve the cause, then run the command again to write the rest", listed(&written.iter().map(String::as_str).collect::<Vec<_>>())) },
            why "Each file is written completely or not at all, but several files cannot be replaced in one step.",
            eg "the disk is full";
        /// The configuration that koze wrote to no longer exists.
        "K058" Error ConfigGone { file: String }
            format!("`{file}` does not exist, but `koze.lock` records entries in it")
            => format!("it holds the migrations, which determine the storage: restore it from version control, or pass its new name with `--config FILE`; if nothing was ever deployed, delete `koze.lock` to start over"),
            why "The migrations in it tell Cloudflare which classes have storage. A new file without them would describe another Worker.",
            eg "rm wrangler.jsonc\nkoze build";
        /// A sandbox to remove is still declared, or never existed.
        "K059" Error NotRemovable { name: String, why: String, remedy: String }
            format!("`{name}` cannot be removed: {why}")
            => remedy,
            why "`koze remove` changes only the configuration, after you deleted the file. While the file is there, the next build would add the sandbox again.",
            eg "koze remove shell --delete-storage   # and src/server/shell.sandbox.rs is there";
        /// The operating system reported an error.
        "K060" Error Io { message: String, kind: io::ErrorKind }
            message
            => format!("{}, then run the command again", way_out(*kind)),
            why "koze neither guesses the content of a file that it cannot read, nor continues after a write that failed.",
            eg "chmod 000 src/server/shell.sandbox.rs\nkoze build   # as a user who is not root";
        /// A path leads out of the package.
        "K096" Error LeadsOut { message: String, remedy: String }
            message
            => remedy,
            why "A cloned repository could otherwise let koze read or change files anywhere on your machine.",
            eg "ln -s /etc/hosts wrangler.jsonc\nkoze build";
        /// The configuration of an MCP client does not parse.
        "K130" Error ClientSyntax { message: String }
            format!("cannot parse this file: {message}")
            => "correct the syntax, then run the command again; `koze mcp --print-config` prints what it would add",
            why "koze edits the text of this file in place and keeps everything else. In a text with a syntax error, it could damage what you wrote.",
            eg "echo '{ \"mcpServers\": ' > .mcp.json\nkoze mcp --write claude-code";
        /// The configuration of an MCP client has something else where koze would write.
        "K131" Error ClientEntry { message: String, remedy: &'static str }
            message
            => *remedy,
            why "koze changes only the entry that starts `koze mcp`, and never one that you or another program wrote.",
            eg r#"{ "mcpServers": { "koze": { "command": "npx", "args": ["other-server"] } } }"#;
        /// There is a journal of an earlier version.
        "K097" Warning OldJournal {}
            "koze does not follow `.koze-journal`, which an earlier version wrote when it was interrupted"
            => "koze builds from the files as they are: compare them with version control, then delete `.koze-journal`",
            why "A repository can contain such a file, so following it could change files that you did not intend. koze keeps its journal outside the package now.",
            eg "a run of an earlier koze was killed between two files";

        // New projects.

        /// The directory for a new project is not empty.
        "K061" Error DirOccupied { dir: String }
            format!("`{dir}` already exists and is not empty")
            => "choose another directory",
            why "koze creates a whole project and does not mix it with files that are there.",
            eg "koze new .   # in a directory with files";
        /// A directory's name is not a valid package name.
        "K062" Error BadPackageName { name: String, suggestion: String }
            format!("`{name}` is not a valid package name")
            => format!("a name must have at most 57 ASCII letters, digits, `-` and `_`, start with a letter, and not be a reserved word of Rust or Cargo: pass `--name {suggestion}`"),
            why "Cargo, wrangler and Cloudflare use the name of the package, and Cloudflare allows 63 characters for a Worker with its suffixes.",
            eg r#"koze new "My App""#;
        /// The crate `koze` cannot be found.
        "K063" Error NoRuntime { why: String }
            format!("cannot find the crate `koze` that the project depends on: {why}")
            => "pass its path, the `runtime` directory of a koze checkout, with `--runtime-path DIR`",
            why "A new project depends on the crate `koze` of the same version as the program.",
            eg "koze new hello   # by a koze whose checkout is gone";

        // Commands that change sources.

        /// The file that koze would create already exists.
        "K064" Error SandboxExists { file: String }
            format!("`{file}` already exists")
            => "choose another name for the sandbox, or edit that file",
            why "koze never overwrites a file that it did not write.",
            eg "koze add shell   # and src/server/shell.sandbox.rs is there";
        /// A command names a sandbox that no file declares.
        "K065" Error NoSuchSandbox { name: String, known: Vec<String> }
            format!("there is no sandbox `{name}`")
            => if known.is_empty() { "the project has no sandboxes: create one with `koze add shell`".to_owned() } else { format!("use the name of a file or a class: the files are those of {}", listed(&known.iter().map(String::as_str).collect::<Vec<_>>())) },
            why "The command changes a sandbox file, so it needs an existing one.",
            eg "koze rename bash zsh   # in a project without src/server/bash.sandbox.rs";
        /// koze does not look for sandboxes in this directory.
        "K066" Error BadSandboxDir { dir: String }
            format!("koze does not search `{dir}` for sandboxes")
            => "choose a directory of the package below `src`, such as `src/server`, that is neither hidden nor `src/generated`",
            why "The next build would not find the new file.",
            eg "koze add shell --dir ../other/src";
        /// A new name is neither a file name nor a class name.
        "K067" Error BadNewName { name: String, suggestion: String }
            format!("`{name}` is not a valid sandbox name")
            => format!("a sandbox has the name of its file without `.sandbox.rs`, which must match `{}` and be a valid module name, such as `{suggestion}`; `koze rename` also takes the name of a struct, in upper camel case", koze_model::names::BASE_PATTERN),
            why "The name becomes a file, a module, a binding and a container. Each has its own rules.",
            eg "koze rename shell 'My Shell'";
        /// A variant of the SDK's image was requested for a sandbox with koze's own guest.
        "K099" Error VariantOfSdk { variant: String, name: String, dockerfile: String }
            format!("`--variant {variant}` names an image of the SDK, and `{name}` would have the backend `native`")
            => format!("leave out `--variant`, and change `{dockerfile}`, which koze writes then; or add `--backend sdk`, with the package `@cloudflare/sandbox` in `package.json`"),
            why "Variants are images of the SDK. koze's own guest runs in any Linux image, and its Dockerfile says what is in it.",
            eg "koze add python --backend native --variant python";
        /// No container of the class `Sandbox` needs to be migrated.
        "K068" Error NothingToMigrate { config: String }
            format!("`{config}` has no container of the class `Sandbox`")
            => "there is nothing to migrate: `koze build` updates other containers, and `koze add NAME` creates a new sandbox",
            why "The command converts containers of the class `Sandbox`, so it needs at least one.",
            eg "koze migrate   # for a second time";
        /// The package has no library that could declare the generated module.
        "K069" Error NoLibrary { file: String }
            format!("`{file}` does not exist: a Rust Worker is a library")
            => format!("create `{file}`, then run `koze init` again; `koze new` creates a complete Worker as an example"),
            why "worker-build compiles the library of a package to WebAssembly. A program does not have an entry point for it.",
            eg "koze init   # in a package with src/main.rs alone";
        /// A container of the class `Sandbox` must be migrated before other sandboxes are added.
        "K070" Error LegacyFirst { config: String }
            format!("`{config}` has a container of the class `Sandbox`, which earlier versions used")
            => "run `koze migrate` first, which turns it into a sandbox and keeps its storage; then run `koze init` again",
            why "`koze init` would add a class next to one that has storage already. Migrating first keeps this storage.",
            eg r#"koze init   # with { "containers": [{ "class_name": "Sandbox", .. }] }"#;

        // Commands that call tools.

        /// No sandbox of the project serves agents.
        "K071" Error NoImage {}
            "no sandbox of this project serves agents"
            => "create one with `koze add shell`, or remove `tools` from the attribute of an existing one, or set it to `[\"agent\"]`",
            why "The tools of agents run in a sandbox, so a project needs one that serves them.",
            eg "koze tools   # in a project without a sandbox";

        // koze's own classes.

        /// A class of koze's own has storage, but is no longer enabled.
        "K072" Error OwnGone { own: Own }
            format!("`Cargo.toml` no longer enables {}, but its class `{}` still has storage", own.enables(), own.class())
            => format!("a build never deletes storage: {} again, or run `koze remove {}` with `--keep-storage` or `--delete-storage`", own.how(), own.class()),
            why "Sessions and the state of scripts are in this class. Removing a setting must not delete them.",
            eg "[package.metadata.koze]   # registry = true was here";

        // Scripts.

        /// A Worker has scripts without the registry.
        "K093" Error ScriptsWithoutRegistry {}
            "`Cargo.toml` enables the tools `script`, but not the registry of sessions, in which a Worker keeps the state of scripts"
            => "add the line `registry = true` under `[package.metadata.koze]` in `Cargo.toml`, then run `koze build` again; or, for scripts on this machine only, `worker = false` under `[package.metadata.koze.script]`",
            why "In a Worker, the state of scripts is in the Durable Object of the registry.",
            eg "[package.metadata.koze.script]   # without registry = true";
        /// The crate `koze` of a Worker with scripts lacks their feature.
        "K094" Error ScriptsWithoutFeature {}
            "`Cargo.toml` enables the tools `script`, but its dependency `koze` does not have the feature `script`"
            => "the Worker would not compile: run `cargo add koze --features script`, then `koze build` again; or, for scripts on this machine only, set `worker = false` under `[package.metadata.koze.script]`",
            why "Scripts add an engine to the Worker, so they are a feature that other Workers need not carry.",
            eg "[package.metadata.koze.script]\n\n[dependencies]\nkoze = \"0.1.0\"   # without features = [\"script\"]";

        /// The crate `koze` of a Worker whose scripts have a browser lacks its feature.
        "K095" Error BrowserWithoutFeature {}
            "`Cargo.toml` sets `browser = true` for scripts, but its dependency `koze` does not have the feature `browser`"
            => "the Worker would have no browser: run `cargo add koze --features browser`, then `koze build` again; or, for scripts on this machine only, set `worker = false` under `[package.metadata.koze.script]`",
            why "The browser adds code to the Worker, so it is a feature that other Workers need not carry.",
            eg "[package.metadata.koze.script]\nbrowser = true\n\n[dependencies]\nkoze = { version = \"0.1.0\", features = [\"script\"] }   # without \"browser\"";

        // The backend.

        /// A sandbox with koze's own guest has no image.
        "K074" Error NoNativeImage { kind: Kind, class: String, base: String, backend: Backend }
            match kind {
                Kind::Sandbox => format!("`{class}` has no image: with `backend = \"{backend}\"` there is no default image"),
                Kind::Container => format!("`{class}` has no image"),
            }
            => if *kind == Kind::Container {
                format!("set `image` to that of the service, such as `image = \"wordpress:6.8-apache\"`, or add `{base}.Dockerfile` next to the source file")
            } else {
                let built = format!("set `image` to any Linux image, such as `image = \"debian:12-slim\"` or `image = \"python:3.12-slim\"`, or add `{base}.Dockerfile` next to the source file");
                match backend {
                    Backend::Managed => format!("{built}; or set `image = \"{}\"`, which needs no build", koze_model::image::PLATFORM_IMAGE),
                    _ => built,
                }
            },
            why "The SDK comes with an image. koze's own guest runs in any Linux image, so you choose it.",
            eg r#"#[sandbox(backend = "native")]   // and no Dockerfile next to the source"#;
        /// The backend of a class was changed in the source only.
        "K075" Error BackendChanged { kind: Kind, class: String, name: String, from: String, to: Backend }
            format!("`{class}` was built with the backend `{from}`, but its attribute now says `{to}`")
            => if *kind == Kind::Container {
                format!("Cloudflare cannot change who starts the containers of an application: set it back to `{from}`, or declare another container and remove this one with `koze remove {name}`")
            } else {
                format!("new containers replace the running ones, and files in them are lost: run `koze migrate --backend {to} {name}`, which lists the changes, or set the attribute back to `{from}`")
            },
            why "Changing the backend replaces the program in the container, so it is a command of its own that shows what will be lost.",
            eg r#"#[sandbox(backend = "native", image = "debian:12-slim")]   // where koze.lock says `backend = "sdk"`"#;
        /// A `.dockerignore` excludes koze's guest from the build of an image.
        "K076" Error GuestIgnored { pattern: String, guest: String }
            format!("`{pattern}` excludes `{guest}`, which the image's build copies into the image")
            => format!("add a line `!/{guest}` after it"),
            why "The image would be built without the guest, and the container would end when it starts.",
            eg "*   # the only line of src/server/.dockerignore, next to shell.Dockerfile";
        /// The lines that install koze's guest cannot be appended to a Dockerfile.
        "K077" Error BadDockerfile { message: String }
            message
            => "with `backend = \"native\"` koze adds its guest after the last stage: correct the Dockerfile, then run `koze build` again",
            why "koze's guest must be the program that the container starts. koze adds its lines to the text that you wrote, so it must be complete.",
            eg "RUN apt-get update && \\   # the last line of a Dockerfile";
        /// A container is started by its Durable Object, but the backend of its sandbox is not `managed`.
        "K078" Error SchedulingPolicy { class: String, backend: Backend }
            format!("`{class}` has the backend `{backend}`, but its container has the `scheduling_policy` \"durable_object\"")
            => "write `backend = \"managed\"` in the attribute; or, if the application was never deployed, remove the entry, and koze writes another one. The policy of a deployed application cannot be changed",
            why "The policy determines which keys an entry has and who starts the containers. Cloudflare does not change the policy of an application.",
            eg r#"{ "containers": [{ "class_name": "ShellSandbox", "scheduling_policy": "durable_object" }] }"#;
        /// The sandboxes already use the requested backend.
        "K079" Error NothingToMove { backend: Backend, names: Vec<String> }
            match names.as_slice() {
                [] => format!("every sandbox already has the backend `{backend}`"),
                names => format!("{} already has the backend `{backend}`", listed(&names.iter().map(String::as_str).collect::<Vec<_>>())),
            }
            => "there is nothing to migrate: `koze list` shows the sandboxes",
            why "The command would change nothing.",
            eg "koze migrate --backend native   # for a second time";

        /// A key is not available in the container of a Durable Object.
        "K100" Error NotOfPolicy { key: String, class: String }
            format!("containers of `{class}` are started by its Durable Object, and wrangler does not accept `{key}` for them")
            => match key.as_str() {
                "image" | "image_vars" | "image_build_context" => format!("remove `{key}`: the attribute sets the image, with `image`, `images` or a Dockerfile next to the source file"),
                "instance_type" => "remove `instance_type`: the attribute sets the size, with `instance_type` or `instance(..)`".to_owned(),
                "max_instances" => "remove `max_instances`: only the limits of the account apply; in the attribute, it limits the sandboxes of each session".to_owned(),
                "constraints" => "remove `constraints`: Cloudflare chooses where these containers run".to_owned(),
                key if key.starts_with("rollout_") => format!("remove `{key}`: no rollout replaces these containers, which start with the new image when they start next"),
                "wrangler_ssh" => "write `ssh` instead".to_owned(),
                key => format!("remove `{key}`"),
            },
            why "wrangler rejects such an entry, and the deployment with it.",
            eg r#"{ "containers": [{ "class_name": "ShellSandbox", "scheduling_policy": "durable_object", "max_instances": 10 }] }"#;
        /// A container has the default policy, but the backend of its sandbox is `managed`.
        "K101" Error DefaultPolicy { class: String, name: String }
            format!("`{class}` has the backend `managed`, but its container does not have the `scheduling_policy` \"durable_object\"")
            => format!("if the application was never deployed, remove the entry, and koze writes another one; otherwise write the backend that it has, `sdk` or `native`, run `koze build`, then `koze migrate --backend managed {name}`"),
            why "Cloudflare does not change the policy of an application, so moving to the policy of `managed` replaces the application.",
            eg r#"{ "containers": [{ "class_name": "ShellSandbox", "image": "./Dockerfile" }] }   // and #[sandbox(backend = "managed")]"#;

        /// A sandbox cannot leave the backend `managed`.
        "K102" Error NoWayBack { names: Vec<String>, to: Backend }
            format!("{} cannot move from the backend `managed` to `{to}`", listed(&names.iter().map(String::as_str).collect::<Vec<_>>()))
            => format!("Cloudflare does not change the policy of the application that has the class's storage: create another sandbox with `koze add NAME --backend {to}`, and copy what you need"),
            why "The containers of a class are started either by Cloudflare or by its Durable Objects, and the platform does not move a class back.",
            eg "koze migrate --backend native shell   # where koze.lock says `backend = \"managed\"`";

        /// Nothing would enforce `max_instances`.
        "K104" Error UnlimitedInstances { class: String }
            format!("nothing limits the instances of `{class}`")
            => "Durable Object-managed Containers have no `max_instances`: koze limits the sandboxes of each session in its registry; add the line `registry = true` under `[package.metadata.koze]` in `Cargo.toml`, or remove `max_instances`",
            why "Only the limits of the account apply to these containers. A limit that nothing enforces would be a surprise on the bill.",
            eg "#[sandbox(backend = \"managed\", image = \"debian:12-slim\", max_instances = 10)]   // without registry = true";
        /// A sandbox cannot be added beside another one.
        "K122" Error NotSideBySide { why: String, remedy: String }
            format!("cannot migrate side by side: {why}")
            => remedy,
            why "The command adds one sandbox with the backend `managed`, which copies the files of one other sandbox.",
            eg "koze migrate --backend managed --side-by-side python   # for a second time";

        // Exports.

        /// The migrations cannot be converted to exports.
        "K110" Error NotConvertible { why: String }
            format!("these `migrations` cannot be converted to `exports`: {why}")
            => "correct the configuration, then run `koze migrate --exports` again; or keep `migrations`, which wrangler still accepts",
            why "`exports` declare the storage of every class. koze does not guess it, because Cloudflare rejects another storage than a class has.",
            eg r#""migrations": [{ "tag": "v1", "transferred_classes": [{ "from": "A", "from_script": "other", "to": "A" }] }]"#;
        /// There are no migrations to convert.
        "K111" Error NothingToConvert { config: String }
            format!("`{config}` has no `migrations`")
            => "there is nothing to do: classes that `exports` declare stay there, and a project without classes chooses `exports` with an empty map, `\"exports\": {}`",
            why "The command would change nothing.",
            eg "koze migrate --exports   # for a second time";

        // Cloudflare's configuration in TypeScript.

        /// The project has only `cloudflare.config.ts`.
        "K112" Error TypeScriptConfig {}
            "`cloudflare.config.ts` configures this Worker, and koze does not edit TypeScript"
            => "create a `wrangler.jsonc` beside it with `name`, `main` and `compatibility_date`, then run `koze build` again: koze manages the sandboxes there, `koze dev` and `koze deploy` use it, and for `backend = \"managed\"` koze also writes `src/generated/containers.ts`, which `cloudflare.config.ts` can import",
            why "koze edits data, in which it can tell its entries from yours. A program may compute them in any way. Creating another configuration next to it without being asked would give the Worker two.",
            eg "koze build   # in a package with only cloudflare.config.ts";

        // Problems of existing projects.

        /// The configuration belongs to a Pages project, which cannot have containers.
        "K080" Error PagesProject { config: String }
            format!("`{config}` configures a Pages project (`pages_build_output_dir`), but containers need a Worker")
            => "`wrangler pages deploy` rejects containers: create a configuration for a Worker and pass it with `--config FILE`, or convert this project to a Worker with `assets` instead of `pages_build_output_dir`",
            why "A Durable Object class can have a container only in a Worker.",
            eg r#"{ "name": "site", "pages_build_output_dir": "dist" }"#;
        // K081 is retired.
        /// wrangler rejects the list of migrations.
        "K082" Warning RefusedHistory { tag: String, what: String, remedy: String }
            format!("wrangler rejects the migration `{tag}`: {what}")
            => format!("with containers, wrangler checks all migrations again: {remedy}"),
            why "wrangler checks the whole list before a deployment, and not only its last entry.",
            eg r#""migrations": [{ "tag": "v1", "deleted_classes": ["Unknown"] }]"#;
        /// A site has an entry point, which wrangler no longer accepts together with `main`.
        "K090" Warning SiteEntryPoint { site: String, main: Option<String>, entry: String }
            match main {
                Some(main) => format!("`site.entry-point` is `{site}` and `main` is `{main}`, but wrangler accepts only one of them"),
                None => format!("`site.entry-point` is `{site}`, which does not export the sandbox classes"),
            }
            => match main {
                Some(_) => "remove `site.entry-point`: `main` has replaced it".to_owned(),
                None => format!("`main` has replaced it: remove it and set `main` to `{entry}`, or to a file of yours that contains `export * from` that entry"),
            },
            why "`site.entry-point` belongs to an early version of Workers. wrangler bundles one file only, and it must export the classes.",
            eg "[site]\nbucket = \"./public\"\nentry-point = \"workers-site\"";
        /// wrangler finds no configuration by default, but the package has others that koze could manage.
        "K091" Error ConfigUnnamed { files: Vec<String> }
            format!("`wrangler.jsonc` does not exist, but {} does", listed(&files.iter().map(String::as_str).collect::<Vec<_>>()))
            => format!("choose the file that koze manages with `--config {}`; `koze.lock` records it", files.first().map_or("FILE", String::as_str)),
            why "Several files may describe different Workers. koze does not choose one of them for you.",
            eg "koze init   # in a package with wrangler.a.toml and wrangler.b.toml";
    }
}
