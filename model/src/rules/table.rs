//! The rules of sandbox files and of their attributes.

use super::{example, listed, nearest};
use crate::backend::Backend;
use crate::kind::Kind;

crate::rule_table! {
    /// A rule, with the data for its message.
    pub enum Rule {
        // The source file.

        /// A sandbox file is not Rust.
        "K001" Error NotRust { message: String }
            format!("cannot parse this file as Rust: {message}")
            => "correct the syntax, then run `koze build` again",
            why "koze build reads the source without compiling it. It cannot find a struct in a file that is not Rust.",
            eg "#[sandbox]\npub struct ShellSandbox";
        /// A sandbox file declares no sandbox.
        "K002" Error NoSandbox { kind: Kind, class: String }
            format!("no `#[{kind}]` struct in this file")
            => format!("declare one: `#[{kind}] pub struct {class};`, or rename the file so that it does not end in `{}`", kind.suffix()),
            why "The ending `.sandbox.rs` promises a sandbox. If koze ignored the file, a forgotten attribute would remove a sandbox from the configuration.",
            eg "// src/server/shell.sandbox.rs\npub struct ShellSandbox;";
        /// A sandbox file declares more than one sandbox.
        "K003" Error SecondSandbox { kind: Kind, class: String, first: String }
            format!("`{class}` is the second `#[{kind}]` of this file, after `{first}`")
            => format!("a file declares exactly one {kind}: move `{class}` to its own `{}` file", kind.suffix()),
            why "The name of the file determines the names of the binding and the container, so that one can be found from the other. A second struct would have no names.",
            eg "#[sandbox]\npub struct ShellSandbox;\n#[sandbox]\npub struct PythonSandbox;";
        /// `#[sandbox]` is on an item that is not a struct.
        "K004" Error NotAStruct { kind: Kind, found: String }
            format!("`#[{kind}]` is on {found}, not on a struct")
            => format!("declare a struct: `#[{kind}] pub struct {};`", kind.example_class()),
            why "The attribute generates a Durable Object class with the name of the struct. Only a struct without fields has all that it needs.",
            eg "#[sandbox]\npub enum ShellSandbox {}";
        /// A sandbox struct has generic parameters.
        "K005" Error Generic { kind: Kind, class: String }
            format!("the {kind} `{class}` is generic")
            => format!("a Durable Object class cannot be generic: declare `pub struct {class};` without parameters"),
            why "Cloudflare creates objects by the name of their class, and JavaScript has no type parameters.",
            eg "#[sandbox]\npub struct ShellSandbox<T>(T);";
        /// `#[sandbox]` is inside a module, function or macro.
        "K006" Error Nested { kind: Kind, class: String }
            format!("the {kind} `{class}` is not at the top level of its file")
            => "move the struct to the top level of the file, where the generated code expects it",
            why "The generated code refers to the struct by the path of its file. koze does not evaluate modules, functions or macros.",
            eg "mod inner {\n    #[sandbox]\n    pub struct ShellSandbox;\n}";
        /// No names can be derived from the name of a sandbox file.
        "K007" Error BadFileName { kind: Kind, file: String, suggestion: String }
            format!("`{file}` is not a valid name for a {kind} file")
            => format!("the part before `{suffix}` must match `{}` and be a valid module name: rename the file to `{suggestion}{suffix}`", crate::names::BASE_PATTERN, suffix = kind.suffix()),
            why "The name of the file becomes a module in Rust, a binding in the Worker and a container in the configuration. Each has its own rules, and this pattern satisfies all of them.",
            eg "src/server/My Tool.sandbox.rs";
        /// `#[sandbox]` is in a file that `koze build` does not read.
        "K008" Error NotASandboxFile { kind: Kind, file: String, class: Option<String> }
            format!("`#[{kind}]` is in `{file}`, {}", not_read(*kind, file))
            => {
                let names = crate::names::Names::of_class(*kind, class.as_deref().unwrap_or(kind.example_class()));
                format!("move the struct to its own file below `src`, such as `src/server/{}{}`", names.base, kind.suffix())
            },
            why "koze finds sandboxes by the names of their files. A struct elsewhere would compile, but have no container and no storage.",
            eg "// src/lib.rs\n#[sandbox]\npub struct ShellSandbox;";
        /// A struct's name cannot be the name of a Durable Object class.
        "K009" Error ReservedClass { kind: Kind, class: String, why: &'static str }
            format!("`{class}` cannot be the class of a {kind}: the name is {why}")
            => match class.strip_suffix(kind.class_suffix()).filter(|stem| !stem.is_empty()) {
                Some(stem) => format!("rename the struct, for example to `{}{}`", heck::AsUpperCamelCase(stem), kind.class_suffix()),
                None => format!("rename the struct, for example to `{}`", kind.example_class()),
            },
            why "The generated Worker entry exports the class by this name, next to the classes of koze and of the SDK.",
            eg "#[sandbox]\npub struct Sandbox;";

        // The attribute.

        /// The attribute has no such key.
        "K010" Error UnknownKey { key: String, of: String, known: Vec<&'static str> }
            format!("{of} has no key `{key}`")
            => match nearest(key, known) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("its keys are {}", listed(known)),
            },
            why "A key that is silently ignored would be a limit or a policy that does not apply.",
            eg r#"#[sandbox(imgae = "docker.io/cloudflare/sandbox:0.12.10")]"#;
        /// A key is given twice.
        "K011" Error RepeatedKey { key: String }
            format!("`{key}` is given twice")
            => "remove one of them",
            why "koze cannot know which of the two values is meant.",
            eg "#[sandbox(max_instances = 1, max_instances = 2)]";
        /// A value does not have the form that its key expects.
        "K012" Error BadForm { key: String, expected: String }
            format!("`{key}` takes {expected}")
            => format!("write a literal, because `koze build` reads the source without running it: `{}`", example(key)),
            why "koze build and the macro must read the same value. koze build does not run your code, so it cannot evaluate constants or expressions.",
            eg "#[sandbox(max_instances = LIMIT)]";
        /// A value is outside the range of its key.
        "K013" Error BadValue { key: String, found: String, expected: String }
            format!("`{found}` is not a valid `{key}`")
            => format!("`{key}` takes {expected}"),
            why "Cloudflare would reject the value only at the deployment, or accept it with another meaning.",
            eg "#[sandbox(max_instances = 0)]";
        /// Two keys exclude each other.
        "K014" Error Exclusive { key: String, other: String, why: String }
            format!("`{key}` and `{other}` exclude each other")
            => why,
            why "Both keys determine the same property. koze cannot know which of them is meant.",
            eg r#"#[sandbox(image = "./shell.Dockerfile", variant = "python")]"#;
        /// An image is neither a registry reference nor the path of a Dockerfile.
        "K015" Error BadImage { image: String, why: String }
            format!("`{image}` is not a valid image: {why}")
            => "write a registry reference with a tag or digest, `docker.io/cloudflare/sandbox:0.12.10-python`, or the path of a Dockerfile, `./python.Dockerfile`",
            why "Cloudflare deploys only images with a tag or a digest: without one, it is unknown what runs.",
            eg r#"#[sandbox(image = "docker.io/cloudflare/sandbox")]"#;
        /// A Dockerfile that an attribute names does not exist.
        "K016" Error NoDockerfile { path: String, looked_in: String }
            format!("the file `{path}` does not exist")
            => format!("paths are relative to the source file: create the Dockerfile in `{looked_in}`, or correct the path"),
            why "wrangler would fail at the deployment, when it builds the image.",
            eg r#"#[sandbox(image = "./missing.Dockerfile")]"#;
        /// Cloudflare has renamed an instance type.
        "K018" Warning DeprecatedInstance { old: String, new: &'static str }
            format!("the instance type `{old}` is deprecated")
            => format!("Cloudflare renamed it to `{new}`: write `instance_type = \"{new}\"`"),
            why "Cloudflare may remove the old name. The new one has the same resources.",
            eg r#"#[sandbox(instance_type = "dev")]"#;
        /// The name of an environment variable is not portable.
        "K019" Error BadVariable { key: String, name: String }
            format!("`{name}` is not a valid variable name in `{key}`")
            => "use ASCII letters, digits and `_`, and do not start with a digit",
            why "A shell in the sandbox cannot read a variable with such a name, and a container may refuse to start.",
            eg r#"#[sandbox(env_vars(größe = "1"))]"#;
        /// The attribute itself does not parse.
        "K020" Error BadAttribute { message: String }
            format!("cannot parse the attribute: {message}")
            => "separate keys by commas: `#[sandbox(variant = \"python\", max_instances = 10)]`",
            why "A part of the attribute is not `key = value` or `key(..)`, so koze cannot read the rest either.",
            eg r#"#[sandbox(image "x:1")]"#;
        /// This version of koze does not support a backend.
        "K021" Error NoSuchBackend { backend: String }
            format!("this version of koze does not have the backend `{backend}`")
            => format!("use one of {}, or remove the key", listed(&Backend::ALL.map(Backend::word))),
            why "The backend determines the class, the image and the storage of a sandbox, so koze does not fall back to another one.",
            eg r#"#[sandbox(backend = "docker")]"#;
        /// Conditional compilation decides whether a sandbox exists.
        "K022" Error Conditional { kind: Kind, class: String }
            format!("the {kind} `{class}` is conditionally compiled")
            => format!("the wrangler configuration is the same for every build: remove `cfg`, or declare the {kind} in another package"),
            why "The configuration lists every class that has storage. If a feature removed the class, a deployment without the feature would look like a request to delete the storage.",
            eg "#[cfg(feature = \"shell\")]\n#[sandbox]\npub struct ShellSandbox;";
        /// The attribute declares a workspace, but the sandbox does not serve the tools for it.
        "K023" Error WorkspaceNotServed {}
            "`workspace` has no effect: the sandbox does not serve the tools `workspace`"
            => "add `tools = [\"workspace\"]`, or remove `workspace`",
            why "A key without effect hides a mistake: here, most likely the tools are missing.",
            eg r#"#[sandbox(workspace(name = "box"))]"#;
        /// This version of koze does not support a key of `workspace`.
        "K024" Error NotInWorkspace { key: String }
            format!("this version of koze does not have `{key}` in `workspace`")
            => "remove it: a workspace has the keys `name`, `dir`, `shell`, `code`, `snapshot`, `snapshot_dir`, `id`, `share_across_sessions` and `destroy_on_close`",
            why "A key that is silently ignored would promise something that does not happen.",
            eg r#"#[sandbox(tools = ["workspace"], workspace(hostname = "example.org"))]"#;
        /// A workspace has an explicit ID, so all sessions would share it.
        "K029" Error SharedWorkspace { id: String }
            format!("all sessions would share the workspace with the id `{id}`")
            => "one user could read and change the files of another, which is a cross-tenant leak: remove `id`, or write `share_across_sessions = true` if that is intended",
            why "By default, each session has a workspace of its own. With an explicit ID, all users of the Worker have the same files.",
            eg r#"#[sandbox(tools = ["workspace"], workspace(id = "common"))]"#;

        // The project.

        /// Two sandboxes have the same binding, class or container name.
        "K025" Error Collision { kinds: [Kind; 2], what: &'static str, name: String, remedy: &'static str }
            format!("{} have the {what} `{name}`", two_of(*kinds))
            => remedy,
            why "Bindings, classes and container names are unique in a Worker: Cloudflare would reject the deployment.",
            eg "src/server/my-tool.sandbox.rs\nsrc/server/my_tool.sandbox.rs";
        /// More than one sandbox is the default.
        "K026" Error SecondDefault { class: String, first: String }
            format!("`{class}` is the second sandbox with `default`, after `{first}`")
            => "only one sandbox can be the default: remove `default` from the others",
            why "Tools that name no sandbox use the default one. With two of them, the order of files would decide.",
            eg "#[sandbox(default)] pub struct ShellSandbox;   // in one file\n#[sandbox(default)] pub struct PythonSandbox;  // in another";

        /// A sandbox copies the files of one that does not exist.
        "K120" Error NoCopySource { class: String, name: String }
            format!("`{class}` copies the files of `{name}`, and there is no such sandbox")
            => "write the name of another sandbox's file, without `.sandbox.rs`; before you remove that sandbox, remove the key `copy_from`, after which new objects begin without files",
            why "New objects ask the objects of the other class for their files. Without that class, they would begin empty, and the files would be lost without a word.",
            eg r#"#[sandbox(backend = "managed", image = "debian:12-slim", copy_from = "python")]   // without python.sandbox.rs"#;
        /// A sandbox copies the files of one that its Durable Object owns.
        "K121" Error ManagedCopySource { class: String, name: String }
            format!("`{class}` copies the files of `{name}`, which has the backend `managed`, too")
            => "name a sandbox with the backend `sdk` or `native`, or remove the key `copy_from`",
            why "The key moves files from another backend to `managed`. There are no chains: an object copies at most once, from one other object.",
            eg r#"#[sandbox(backend = "managed", image = "debian:12-slim", copy_from = "shell")] pub struct ShellSandbox;   // in shell.sandbox.rs"#;

        // The backend.

        /// The backend of a sandbox does not support a key.
        "K073" Error NotOfBackend { key: String, backend: Backend, why: String }
            format!("`{key}` is not available with the backend `{backend}`")
            => why,
            why "The backends run different programs in the container. A key that only one of them supports would have no effect with the other.",
            eg r#"#[sandbox(backend = "native", variant = "python")]"#;
        /// A container lacks a key that has no default.
        "K103" Error MissingKey { kind: Kind, key: &'static str, why: &'static str }
            format!("`#[{kind}]` lacks the key `{key}`")
            => format!("{why}: add it, for example `{}`", example(key)),
            why "koze does not read the image, so it cannot know the port and the program of the service in it.",
            eg r#"#[container(image = "wordpress:6.8-apache")]   // without `port`"#;
        /// The image of a sandbox with the backend `sdk` is not one of the SDK's.
        "K098" Error NotASandboxImage { image: String }
            format!("`{image}` does not contain the program of the sandbox SDK")
            => "write `backend = \"native\"`, with which any Linux image works, or add a Dockerfile next to the source file that is based on `docker.io/cloudflare/sandbox`",
            why "With the backend `sdk`, the Worker talks to this program in the container. An official image of Docker Hub does not have it, so each call would fail.",
            eg r#"#[sandbox(image = "python:3.12-slim")]"#;
    }
}

/// Names two files by what they declare.
fn two_of(kinds: [Kind; 2]) -> &'static str {
    match kinds {
        [Kind::Sandbox, Kind::Sandbox] => "two sandboxes",
        [Kind::Container, Kind::Container] => "two containers",
        _ => "a sandbox and a container",
    }
}

/// Says why `koze build` does not find an attribute in a file.
fn not_read(kind: Kind, file: &str) -> String {
    match Kind::of_file(file) {
        Some(other) if other != kind => format!("which declares a {other}"),
        _ => "which `koze build` does not read".to_owned(),
    }
}
