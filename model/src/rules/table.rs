//! The table.

use crate::backend::Backend;

use super::{Explained, Level, either, example, listed, nearest};

/// Writes the enum and its three look-ups from one list, so that a rule stands in one place.
macro_rules! rules {
    ($(
        $(#[doc = $doc:expr])*
        $code:literal $level:ident $name:ident { $($field:ident : $ty:ty),* $(,)? }
        $message:expr => $help:expr, eg $example:literal;
    )*) => {
        /// What can be found wrong, with what its message needs.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[allow(missing_docs, reason = "a field's meaning is its place in the message beside it")]
        pub enum Rule {
            $( $(#[doc = $doc])* $name { $($field: $ty),* }, )*
        }

        impl Rule {
            /// The stable code: `K010`.
            pub fn code(&self) -> &'static str {
                match self { $( Rule::$name { .. } => $code, )* }
            }

            /// Error or warning.
            pub fn level(&self) -> Level {
                match self { $( Rule::$name { .. } => Level::$level, )* }
            }

            /// What was wrong, in one sentence without a full stop.
            #[allow(unused_variables, reason = "a field may stand in the help alone")]
            pub fn message(&self) -> String {
                match self { $( Rule::$name { $($field),* } => $message.to_string(), )* }
            }

            /// What would be right, and the next step.
            #[allow(unused_variables, reason = "a field may stand in the message alone")]
            pub fn help(&self) -> String {
                match self { $( Rule::$name { $($field),* } => $help.to_string(), )* }
            }

            /// Every rule, in the order of the codes.
            pub fn all() -> Vec<Explained> {
                vec![$( Explained {
                    code: $code,
                    level: Level::$level,
                    meaning: [$($doc),*].concat().trim().to_owned(),
                    example: $example,
                }, )*]
            }
        }
    };
}

rules! {
    // The source file.

    /// A sandbox file is not Rust.
    "K001" Error NotRust { message: String }
        format!("this is not Rust: {message}")
        => "mend the syntax, then run `koze build` again",
        eg "#[sandbox]\npub struct ShellSandbox";
    /// A sandbox file declares no sandbox.
    "K002" Error NoSandbox { class: String }
        "no `#[sandbox]` struct in this file"
        => format!("declare one: `#[sandbox] pub struct {class};`, or rename the file so that it does not end in `.sandbox.rs`"),
        eg "// src/server/shell.sandbox.rs\npub struct ShellSandbox;";
    /// A sandbox file declares more than one sandbox.
    "K003" Error SecondSandbox { class: String, first: String }
        format!("`{class}` is the second `#[sandbox]` of this file, after `{first}`")
        => format!("a file declares exactly one sandbox: move `{class}` to a `.sandbox.rs` file of its own"),
        eg "#[sandbox]\npub struct ShellSandbox;\n#[sandbox]\npub struct PythonSandbox;";
    /// `#[sandbox]` stands on something that is not a struct.
    "K004" Error NotAStruct { kind: String }
        format!("`#[sandbox]` stands on {kind}, not on a struct")
        => "declare a struct: `#[sandbox] pub struct ShellSandbox;`",
        eg "#[sandbox]\npub enum ShellSandbox {}";
    /// A sandbox struct has generic parameters.
    "K005" Error Generic { class: String }
        format!("the sandbox `{class}` is generic")
        => format!("a Durable Object class has one meaning: declare `pub struct {class};` without parameters"),
        eg "#[sandbox]\npub struct ShellSandbox<T>(T);";
    /// `#[sandbox]` stands inside a module, function or macro.
    "K006" Error Nested { class: String }
        format!("the sandbox `{class}` is not at the top level of its file")
        => "move the struct to the top level of the file, where the generated code looks for it",
        eg "mod inner {\n    #[sandbox]\n    pub struct ShellSandbox;\n}";
    /// The name of a sandbox file gives no usable names.
    "K007" Error BadFileName { file: String, suggestion: String }
        format!("`{file}` is no name for a sandbox file")
        => format!("what stands before `.sandbox.rs` must match `{}` and name a Rust module: rename the file to `{suggestion}.sandbox.rs`", crate::names::BASE_PATTERN),
        eg "src/server/My Tool.sandbox.rs";
    /// `#[sandbox]` stands in a file that `koze build` does not look at.
    "K008" Error NotASandboxFile { file: String, class: Option<String> }
        format!("`#[sandbox]` stands in `{file}`, where `koze build` does not see it")
        => {
            let names = crate::names::Names::of_class(class.as_deref().unwrap_or("ShellSandbox"));
            format!("move the struct to a file of its own below `src`, such as `src/server/{}.sandbox.rs`", names.base)
        },
        eg "// src/lib.rs\n#[sandbox]\npub struct ShellSandbox;";
    /// A struct's name cannot be the name of a Durable Object class.
    "K009" Error ReservedClass { class: String, why: &'static str }
        format!("`{class}` cannot be the class of a sandbox: it is {why}")
        => format!("give the struct another name, such as `{}Sandbox`", heck::AsUpperCamelCase(class.strip_suffix("Sandbox").filter(|stem| !stem.is_empty()).unwrap_or("Shell"))),
        eg "#[sandbox]\npub struct Sandbox;";

    // The attribute.

    /// A key that the attribute does not have.
    "K010" Error UnknownKey { key: String, of: String, known: Vec<&'static str> }
        format!("{of} has no key `{key}`")
        => match nearest(key, known) {
            Some(nearest) => format!("the nearest one is `{nearest}`"),
            None => format!("its keys are {}", listed(known)),
        },
        eg r#"#[sandbox(imgae = "docker.io/cloudflare/sandbox:0.12.10")]"#;
    /// A key is given twice.
    "K011" Error RepeatedKey { key: String }
        format!("`{key}` is given twice")
        => "give each key once: take one of them out",
        eg "#[sandbox(max_instances = 1, max_instances = 2)]";
    /// A value is not of the form that its key takes.
    "K012" Error BadForm { key: String, expected: String }
        format!("`{key}` takes {expected}")
        => format!("write a literal, for `koze build` reads the source without running it: `{}`", example(key)),
        eg "#[sandbox(max_instances = LIMIT)]";
    /// A value is out of the range that its key takes.
    "K013" Error BadValue { key: String, found: String, expected: String }
        format!("`{found}` is no value for `{key}`")
        => format!("`{key}` takes {expected}"),
        eg "#[sandbox(max_instances = 0)]";
    /// Two keys that exclude each other.
    "K014" Error Exclusive { key: String, other: String, why: String }
        format!("`{key}` and `{other}` exclude each other")
        => why,
        eg r#"#[sandbox(image = "./shell.Dockerfile", variant = "python")]"#;
    /// An image is neither a registry reference nor the path of a Dockerfile.
    "K015" Error BadImage { image: String, why: String }
        format!("`{image}` is no image: {why}")
        => "write a registry reference with a tag or digest, `docker.io/cloudflare/sandbox:0.12.10-python`, or the path of a Dockerfile, `./python.Dockerfile`",
        eg r#"#[sandbox(image = "docker.io/cloudflare/sandbox")]"#;
    /// A Dockerfile that an attribute names does not exist.
    "K016" Error NoDockerfile { path: String, looked_in: String }
        format!("no file at `{path}`")
        => format!("paths are relative to the source file: create the Dockerfile in `{looked_in}`, or correct the path"),
        eg r#"#[sandbox(image = "./missing.Dockerfile")]"#;
    /// A tool family that this version of koze does not serve.
    "K017" Error FamilyNotServed { family: String }
        format!("this version of koze does not serve the tool family `{family}`")
        => "this version serves `agent`: take the family out until a later version of koze has it",
        eg r#"#[sandbox(tools = ["workspace"])]"#;
    /// An instance type that Cloudflare has renamed.
    "K018" Warning DeprecatedInstance { old: String, new: &'static str }
        format!("the instance type `{old}` is deprecated")
        => format!("Cloudflare calls it `{new}` now: write `instance_type = \"{new}\"`"),
        eg r#"#[sandbox(instance_type = "dev")]"#;
    /// The name of an environment variable is not portable.
    "K019" Error BadVariable { key: String, name: String }
        format!("`{name}` is no name for a variable in `{key}`")
        => "a name is ASCII letters, digits and `_`, and does not begin with a digit",
        eg r#"#[sandbox(env_vars(größe = "1"))]"#;
    /// The attribute itself does not parse.
    "K020" Error BadAttribute { message: String }
        format!("the attribute does not parse: {message}")
        => "keys are separated by commas: `#[sandbox(variant = \"python\", max_instances = 10)]`",
        eg r#"#[sandbox(image "x:1")]"#;
    /// A backend that this version of koze does not have.
    "K021" Error NoSuchBackend { backend: String }
        format!("this version of koze does not have the backend `{backend}`")
        => format!("its backends are {}: write one of them, or leave the key out", listed(&Backend::ALL.map(Backend::word))),
        eg r#"#[sandbox(backend = "docker")]"#;

    /// Whether a sandbox exists depends on the compilation.
    "K022" Error Conditional { class: String }
        format!("the sandbox `{class}` is conditional")
        => "the wrangler configuration has one answer for all compilations: take `cfg` out, or declare the sandbox in another package",
        eg r#"#[cfg(feature = "shell")]
#[sandbox]
pub struct ShellSandbox;"#;

    // The project.

    /// Two sandboxes give one binding, class or container name.
    "K025" Error Collision { what: &'static str, name: String, remedy: &'static str }
        format!("two sandboxes have the {what} `{name}`")
        => remedy,
        eg "src/server/my-tool.sandbox.rs\nsrc/server/my_tool.sandbox.rs";
    /// More than one sandbox is the default.
    "K026" Error SecondDefault { class: String, first: String }
        format!("`{class}` is the second sandbox with `default`, after `{first}`")
        => "one sandbox is what an agent gets when it names none: take `default` out of the others",
        eg "#[sandbox(default)] pub struct ShellSandbox;   // in one file\n#[sandbox(default)] pub struct PythonSandbox;  // in another";
    /// The directory is not in a cargo package.
    "K027" Error NoPackage { dir: String, why: String }
        format!("`{dir}` is no cargo package: {why}")
        => "run koze in a package, name one with `--project DIR`, or make one with `koze new DIR`",
        eg "koze build --project /tmp";

    /// A path below `src` cannot be written to Rust source.
    "K028" Error NotUtf8 { path: String }
        format!("the path `{path}` is not UTF-8")
        => "the generated modules name it: rename the directory or file",
        eg "src/<bytes that are not UTF-8>/shell.sandbox.rs";

    // The SDK and the image.

    /// Nothing says which SDK version the project runs.
    "K030" Error NoSdk { looked: String, recommended: String }
        format!("no version of `@cloudflare/sandbox` to take the image from: {looked}")
        => format!("the image tag must equal the SDK version: run `npm install --save-exact @cloudflare/sandbox@{recommended}`, then `koze build` again"),
        eg r#"a project without `node_modules`, without a lock file, and with `"@cloudflare/sandbox": "^0.12.0"` in `package.json`"#;
    /// The SDK version is one that koze cannot build for.
    "K031" Error SdkOutOfRange { version: String, source: String, recommended: String }
        format!("`@cloudflare/sandbox` {version} ({source}) is outside the supported range, 0.8.11 to 0.12.x")
        => format!("koze builds on the `Sandbox` class, which 0.13 and 1.0 drop: run `npm install --save-exact @cloudflare/sandbox@{recommended}`, then `koze build` again"),
        eg "npm install @cloudflare/sandbox@1.0.0";
    /// The SDK version lacks methods that tools need.
    "K032" Warning OldSdk { version: String, source: String, recommended: String }
        format!("`@cloudflare/sandbox` {version} ({source}) is older than the tools of this koze expect")
        => format!("the configuration is right, but a tool call that needs a newer SDK answers `unsupported`: `npm install --save-exact @cloudflare/sandbox@{recommended}`"),
        eg "npm install @cloudflare/sandbox@0.9.2";
    /// A Dockerfile builds on another sandbox image than the SDK's.
    "K033" Warning FromOutOfStep { from: String, version: String }
        format!("the Dockerfile builds on `{from}`, the SDK is {version}")
        => format!("image and SDK must be of one version: write a tag that begins with `{version}`"),
        eg "FROM docker.io/cloudflare/sandbox:0.12.9   # and 0.12.10 in node_modules";
    /// A file that should say which SDK version is used cannot be read as what it is.
    "K034" Error BadManifest { message: String }
        message
        => "mend the file, then run `koze build` again",
        eg "a `package.json` that is no JSON";

    // The wrangler configuration.

    /// The wrangler configuration does not parse.
    "K040" Error ConfigSyntax { message: String }
        format!("this does not parse: {message}")
        => "mend the syntax, then run `koze build` again",
        eg r#"{ "name": "app" "main": "src/generated/worker.mjs" }"#;
    /// A part of the wrangler configuration that koze edits is not of the form wrangler takes.
    "K041" Error ConfigShape { path: String, expected: &'static str }
        format!("`{path}` is not {expected}")
        => format!("make it {expected}, or take it out, then run `koze build` again"),
        eg r#"{ "containers": {} }"#;
    /// A hand-written entry contradicts a sandbox.
    "K042" Error Contradiction { message: String, remedy: String }
        message
        => remedy,
        eg r#"{ "durable_objects": { "bindings": [{ "name": "SHELL_SANDBOX", "class_name": "Other" }] } }"#;
    /// No file declares a class that has storage.
    "K043" Error ClassGone { class: String, file: String, name: String, now: Option<String> }
        match now {
            Some(now) => format!("`{file}` declares `{now}` now, but its class `{class}` still has storage"),
            None => format!("`{file}` is gone, but its class `{class}` still has storage"),
        }
        => match now {
            Some(now) => format!("a build never deletes storage: declare `{class}` again, in a file of its own where `{now}` is another sandbox, or take it out, `koze remove {name}` with `--keep-storage` or `--delete-storage`"),
            None => format!("a build never deletes storage: restore the file, or take the sandbox out, `koze remove {name}` with `--keep-storage` or `--delete-storage`"),
        },
        eg "rm src/server/shell.sandbox.rs\nkoze build";
    /// A class may have been renamed, but it is not certain to what.
    "K044" Error AmbiguousRename { class: String, file: String, name: String, candidates: Vec<String> }
        format!("no file declares the class `{class}` any more, which was in `{file}` and has storage, and it is not certain what became of it")
        => format!("if the class was renamed, say so where its storage goes on: `#[sandbox(renamed_from = \"{class}\")]` on {}; else restore the file, or take the sandbox out, `koze remove {name}` with `--keep-storage` or `--delete-storage`", either(candidates)),
        eg "rm src/server/shell.sandbox.rs   # and src/server/bash.sandbox.rs is new";
    /// The list of migrations contradicts itself or what koze wrote.
    "K045" Error BadMigrations { message: String, remedy: String }
        message
        => remedy,
        eg r#""migrations": [{ "tag": "v1", .. }, { "tag": "v1", .. }]"#;
    /// A form of configuration that this version of koze does not edit.
    "K046" Error ConfigNotServed { what: String, remedy: String }
        format!("this version of koze does not edit {what}")
        => remedy,
        eg "koze build --config wrangler.yaml";
    /// The configuration that wrangler would read lies outside the package.
    "K047" Error ConfigElsewhere { found: String, why: &'static str, remedy: String }
        format!("wrangler would read `{found}`, {why}")
        => remedy,
        eg "a `wrangler.json` in a directory above the package, which wrangler prefers to a `wrangler.jsonc` in it";
    /// A container of the class `Sandbox`, the pattern of earlier versions.
    "K048" Warning LegacySandbox {}
        "a container of the class `Sandbox`: the pattern of earlier versions"
        => "run `koze migrate`: it writes a sandbox file that takes these entries over, renames the class so that its storage stays, and lists the call sites to change",
        eg r#"{ "containers": [{ "class_name": "Sandbox", .. }] }"#;
    /// The Worker that wrangler bundles does not export the sandbox classes.
    "K049" Warning MainElsewhere { main: Option<String>, entry: String }
        match main {
            Some(main) => format!("`main` is `{main}`, which does not export the classes of the sandboxes"),
            None => "there is no `main`".to_owned(),
        }
        => format!("wrangler looks for them there: set `main` to `{entry}`, or write `export * from` that file in yours"),
        eg r#"{ "main": "build/index.js" }"#;
    /// `renamed_from` has done its work, or names a class that never was.
    "K050" Warning RenameDone { old: String, why: &'static str }
        format!("`renamed_from = \"{old}\"` has nothing to do: {why}")
        => "take the key out",
        eg r#"#[sandbox(renamed_from = "OldSandbox")]   // after the build that renamed it"#;
    /// The compatibility date is older than what an egress policy needs.
    "K051" Warning DateTooOld { date: Option<String>, needed: &'static str }
        match date {
            Some(date) => format!("the compatibility date {date} is too old for `allowed_hosts` and `denied_hosts`"),
            None => "there is no `compatibility_date`, which `allowed_hosts` and `denied_hosts` need".to_owned(),
        }
        => format!("traffic is intercepted from {needed} on: set `compatibility_date` to that day or a later one"),
        eg r#"{ "compatibility_date": "2025-01-01" }   // and #[sandbox(allowed_hosts = ["api.example.com"])]"#;

    /// An environment that koze does not look at names a class that no longer lives.
    "K052" Warning Stranded { what: String, class: String, environment: String }
        format!("{what} in `env.{environment}` is to the class `{class}`, which no longer lives")
        => format!("koze does not look at this environment, and Cloudflare refuses such a deployment: add `{environment}` to `package.metadata.koze.environments` in Cargo.toml, or take the entry out"),
        eg "koze rename shell bash   # with environments = [\"staging\"], and entries of koze's in env.production";

    // Files.

    /// `koze.lock` cannot be used.
    "K055" Error BadLock { message: String, remedy: &'static str }
        format!("`koze.lock` cannot be used: {message}")
        => remedy,
        eg "a `koze.lock` with the marks of a merge conflict";
    /// A file that koze would write was not written by koze.
    "K056" Error NotOurs { path: String }
        format!("`{path}` is in the way: it was not written by koze")
        => "koze writes this file anew at each build: move yours elsewhere, then run `koze build` again",
        eg "a `src/generated/mod.rs` of your own";
    /// Writing was interrupted between two files.
    "K057" Error Interrupted { message: String, written: Vec<String> }
        message
        => if written.is_empty() { "see to the cause, then run the command again".to_owned() } else { format!("{} were written before: each file is whole, see to the cause and run the command again to write the rest", listed(&written.iter().map(String::as_str).collect::<Vec<_>>())) },
        eg "the disk is full";
    /// The configuration that koze wrote to is gone.
    "K058" Error ConfigGone { file: String }
        format!("there is no `{file}`, but `koze.lock` says what koze owns in it")
        => format!("it holds the migrations that say which storage there is: restore it from version control, or name the file it is now, `--config FILE`; only where nothing was ever deployed, delete `koze.lock` to begin anew"),
        eg "rm wrangler.jsonc\nkoze build";
    /// A sandbox to be removed is still declared, or never was.
    "K059" Error NotRemovable { name: String, why: String, remedy: String }
        format!("`{name}` cannot be removed: {why}")
        => remedy,
        eg "koze remove shell --delete-storage   # and src/server/shell.sandbox.rs is there";

    /// The operating system refused.
    "K060" Error Io { message: String }
        message
        => "see to the cause, then run the command again",
        eg "a file that may not be read";

    // New projects.

    /// The directory for a new project holds something.
    "K061" Error DirOccupied { dir: String }
        format!("`{dir}` is there already, and not empty")
        => "koze writes over nothing: name another directory",
        eg "koze new .   # in a directory with files";
    /// A directory's name is no name for a package.
    "K062" Error BadPackageName { name: String, suggestion: String }
        format!("`{name}` is no name for a package")
        => format!("a name is ASCII letters, digits, `-` and `_`, begins with a letter, is no word of Rust or cargo and has 57 characters at most: say `--name {suggestion}`"),
        eg r#"koze new "My App""#;
    /// The crate `koze` cannot be found.
    "K063" Error NoRuntime { why: String }
        format!("no crate `koze` for the project to depend on: {why}")
        => "say where it is: `--runtime-path DIR`, the `runtime` directory of a koze checkout",
        eg "koze new hello   # by a koze whose checkout is gone";

    // Commands that change sources.

    /// A file that koze would create is there.
    "K064" Error SandboxExists { file: String }
        format!("`{file}` is there already")
        => "koze writes over no file of yours: give the sandbox another name, or edit that file",
        eg "koze add shell   # and src/server/shell.sandbox.rs is there";
    /// A command names a sandbox that no file declares.
    "K065" Error NoSuchSandbox { name: String, known: Vec<String> }
        format!("no sandbox is called `{name}`")
        => if known.is_empty() { "there is no sandbox yet: create one, `koze add shell`".to_owned() } else { format!("name one by its file or its class: the files are those of {}", listed(&known.iter().map(String::as_str).collect::<Vec<_>>())) },
        eg "koze rename bash zsh   # in a project without src/server/bash.sandbox.rs";
    /// A directory in which koze does not look for sandboxes.
    "K066" Error BadSandboxDir { dir: String }
        format!("koze does not look for sandboxes in `{dir}`")
        => "name a directory of the package below `src`, such as `src/server`, that is neither hidden nor `src/generated`",
        eg "koze add shell --dir ../other/src";
    /// A new name is neither that of a file nor that of a class.
    "K067" Error BadNewName { name: String, suggestion: String }
        format!("`{name}` is no name for a sandbox")
        => format!("a sandbox is named as its file is, without `.sandbox.rs`: a name matches `{}` and is a Rust module, such as `{suggestion}`; `koze rename` also takes that of a struct, in upper camel case", crate::names::BASE_PATTERN),
        eg "koze rename shell 'My Shell'";
    /// There is no container of the class `Sandbox` to migrate.
    "K068" Error NothingToMigrate { config: String }
        format!("`{config}` has no container of the class `Sandbox`")
        => "there is nothing to migrate: `koze build` keeps the other containers in step, `koze add NAME` makes a new sandbox",
        eg "koze migrate   # for a second time";
    /// The package has no library to declare the generated module in.
    "K069" Error NoLibrary { file: String }
        format!("there is no `{file}`: a Rust Worker is a library")
        => format!("create `{file}`, then run `koze init` again; for a complete Worker see what `koze new` makes"),
        eg "koze init   # in a package with src/main.rs alone";
    /// A container of the class `Sandbox` has to be migrated before there are other sandboxes.
    "K070" Error LegacyFirst { config: String }
        format!("`{config}` has a container of the class `Sandbox`: the pattern of earlier versions")
        => "run `koze migrate` first: it makes a sandbox of it and keeps its storage; then run `koze init` again",
        eg r#"koze init   # with { "containers": [{ "class_name": "Sandbox", .. }] }"#;

    // Commands that call tools.

    /// No sandbox of the project serves agents.
    "K071" Error NoImage {}
        "no sandbox of this project serves agents"
        => "create one: `koze add shell`; where there is one, let its attribute say no `tools`, or `tools = [\"agent\"]`",
        eg "koze tools   # in a project without a sandbox";

    // The registry.

    /// Nothing asks for the registry, which has storage.
    "K072" Error RegistryGone { class: String }
        format!("`Cargo.toml` no longer asks for the registry of sandboxes, but its class `{class}` still has storage")
        => format!("a build never deletes storage: say `registry = true` under `[package.metadata.koze]` again, or take the registry out, `koze remove {class}` with `--keep-storage` or `--delete-storage`"),
        eg "[package.metadata.koze]   # registry = true was here";

    // The backend.

    /// A key that the backend of a sandbox cannot hold.
    "K073" Error NotOfBackend { key: String, backend: Backend, why: String }
        format!("`{key}` is not for the backend `{backend}`")
        => why,
        eg r#"#[sandbox(backend = "native", variant = "python")]"#;
    /// Nothing says which image a sandbox with koze's own guest runs.
    "K074" Error NoNativeImage { class: String, base: String }
        format!("nothing says which image `{class}` runs: with `backend = \"native\"` there is none by default")
        => format!("name any image of Linux, such as `image = \"debian:12-slim\"` or `image = \"python:3.12-slim\"`, or put `{base}.Dockerfile` beside the source"),
        eg r#"#[sandbox(backend = "native")]   // and no Dockerfile beside the source"#;
    /// The backend of a class was changed in the source alone.
    "K075" Error BackendChanged { class: String, name: String, from: String, to: Backend }
        format!("`{class}` was built with the backend `{from}`, and its attribute says `{to}` now")
        => format!("another image takes the place of its containers, and the files in them are lost: run `koze migrate --backend {to} {name}`, which says what changes, or let the attribute say `{from}` again"),
        eg r#"#[sandbox(backend = "native", image = "debian:12-slim")]   // where koze.lock says `backend = "sdk"`"#;
    /// A `.dockerignore` keeps koze's guest out of the build of an image.
    "K076" Error GuestIgnored { pattern: String, guest: String }
        format!("`{pattern}` keeps `{guest}` out of the image's build, which copies it into the image")
        => format!("write `!/{guest}` in a line behind it"),
        eg "*   # the only line of src/server/.dockerignore, beside shell.Dockerfile";
    /// A Dockerfile that nothing can be written behind.
    "K077" Error BadDockerfile { message: String }
        message
        => "with `backend = \"native\"` koze writes what installs its guest behind the last stage: mend the Dockerfile, then run `koze build` again",
        eg "RUN apt-get update && \\   # the last line of a Dockerfile";
    /// The scheduling policy of a container is one that koze does not serve.
    "K078" Error SchedulingPolicy { policy: String }
        format!("this version of koze does not build for `scheduling_policy` {policy}")
        => "koze's containers have the default policy, under which the image and the instance stand in the configuration: take `scheduling_policy` out; that of an application which is deployed cannot be changed, so give the sandbox another `name` then",
        eg r#"{ "containers": [{ "class_name": "ShellSandbox", "scheduling_policy": "durable_object" }] }"#;
    /// The sandboxes are on the backend that they should be moved to.
    "K079" Error NothingToMove { backend: Backend, names: Vec<String> }
        match names.as_slice() {
            [] => format!("no sandbox has another backend than `{backend}`"),
            names => format!("{} has the backend `{backend}` already", listed(&names.iter().map(String::as_str).collect::<Vec<_>>())),
        }
        => "there is nothing to move: `koze list` shows the sandboxes",
        eg "koze migrate --backend native   # for a second time";

    // What real projects hold.

    /// The configuration is one of a Pages project, which cannot have containers.
    "K080" Error PagesProject { config: String }
        format!("`{config}` configures a Pages project, by `pages_build_output_dir`, and containers need a Worker")
        => "`wrangler pages deploy` refuses what koze would write: create a configuration for a Worker and name it, `--config FILE`, or make this project a Worker with `assets` in place of `pages_build_output_dir`",
        eg r#"{ "name": "site", "pages_build_output_dir": "dist" }"#;
    /// The crate `worker` is of a version that the generated code does not compile with.
    "K081" Warning WorkerCrate { found: String, source: String, needed: &'static str, edit: String }
        format!("the crate `worker` is {found} in {source}, and the generated code needs {needed}")
        => format!("the Worker will not compile: {edit}"),
        eg "[dependencies]\nworker = \"0.6\"";
    /// wrangler refuses the list of migrations.
    "K082" Warning RefusedHistory { tag: String, what: String, remedy: String }
        format!("wrangler refuses the migration `{tag}`: {what}")
        => format!("wrangler replays all migrations wherever there are containers: {remedy}"),
        eg r#""migrations": [{ "tag": "v1", "deleted_classes": ["Unknown"] }]"#;

    /// The entry point of a site, which wrangler no longer takes beside `main`.
    "K090" Warning SiteEntryPoint { site: String, main: Option<String>, entry: String }
        match main {
            Some(main) => format!("`site.entry-point` is `{site}` and `main` is `{main}`, of which wrangler takes one only"),
            None => format!("`site.entry-point` is `{site}`, which does not export the classes of the sandboxes"),
        }
        => match main {
            Some(_) => "take `site.entry-point` out: `main` has replaced it".to_owned(),
            None => format!("`main` has replaced it: take it out and set `main` to `{entry}`, or to yours, with `export * from` that file in it"),
        },
        eg "[site]\nbucket = \"./public\"\nentry-point = \"workers-site\"";
    /// There is no configuration that wrangler finds by itself, but others that koze could keep in step.
    "K091" Error ConfigUnnamed { files: Vec<String> }
        format!("there is no `wrangler.jsonc`, but {}", listed(&files.iter().map(String::as_str).collect::<Vec<_>>()))
        => format!("say which file koze keeps in step, which `koze.lock` then remembers: `--config {}`", files.first().map_or("FILE", String::as_str)),
        eg "koze init   # in a package with wrangler.a.toml and wrangler.b.toml";
}
