//! Invalid sandbox files.

use insta::assert_snapshot;
use koze_tests::Project;

use crate::common::{SHELL, document, package, plain, refused, sandbox, shell};

fn refused_source(declaration: &str) -> String {
    refused(&shell(declaration))
}

#[test]
fn not_rust() {
    assert_snapshot!(refused_source("#[sandbox]\npub struct ShellSandbox"), @"
    error[K001]: cannot parse this file as Rust: unexpected end of input, expected one of: `where`, parentheses, curly braces, `;`
     --> src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox
      |            ^^^^^^^^^^^^
      |
      = help: correct the syntax, then run `koze build` again

    1 error; nothing was written
    ");
}

#[test]
fn invalid_rust_in_the_middle() {
    assert_snapshot!(refused_source("#[sandbox]\npub struct Größe; fn x( {\n}"), @"
    error[K001]: cannot parse this file as Rust: unclosed bracket or literal
     --> src/server/shell.sandbox.rs:4:23
      |
    4 | pub struct Größe; fn x( {
      |                       ^
      |
      = help: correct the syntax, then run `koze build` again

    1 error; nothing was written
    ");
}

#[test]
fn code_that_is_nested_too_deeply() {
    let nested = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let project = shell(&format!("#[sandbox]\npub struct Shell;\nconst DEEP: u8 =\n    {nested};"));
    let stderr = refused(&project);
    let (first, rest) = stderr.split_once('\n').unwrap();
    assert_snapshot!(first, @"error[K001]: cannot parse this file as Rust: the code is nested too deeply: at most 4000 tokens of unfinished expressions, types and blocks may surround a token. Split the expression, or move this code to a file that koze does not read");
    assert!(rest.starts_with(" --> src/server/shell.sandbox.rs:6:"), "{}", &rest[..80]);
    // The root of the library is read, too.
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("src/lib.rs", format!("mod generated;\nconst DEEP: u8 = {nested};\n"));
    let run = project.koze(&["build"]);
    assert!(run.code == 0 || run.code == 1, "{}: {}", run.code, run.stderr);
}

#[test]
fn configurations_that_are_nested_too_deeply() {
    let lists = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let keys = format!("{}a = 1", "a.".repeat(100_000));
    for (file, text, part) in [
        ("wrangler.jsonc", format!("{{\"a\": {lists}}}"), "nesting depth"),
        ("package.json", format!("{{\"a\": {lists}}}"), "recursion limit"),
        ("koze.lock", format!("a = {lists}"), "recurs"),
        ("koze.lock", keys.clone(), "recurs"),
        ("wrangler.toml", format!("a = {lists}"), "recurs"),
        ("wrangler.toml", keys, "recurs"),
    ] {
        let project = shell("#[sandbox]\npub struct ShellSandbox;");
        project.write(file, text);
        let run = project.koze(&["build"]);
        assert_eq!(run.code, 1, "{file}: {}", run.stderr.chars().take(500).collect::<String>());
        let (named, shown) = (run.stderr.contains(file), run.stderr.to_lowercase().contains(part));
        assert!(named && shown, "{file}: {}", run.stderr.chars().take(500).collect::<String>());
    }
}

#[test]
fn not_utf_8() {
    let project = package();
    project.write(SHELL, b"// caf\xe9\n#[sandbox]\npub struct ShellSandbox;\n");
    assert_snapshot!(refused(&project), @"
    error[K001]: cannot parse this file as Rust: it is not UTF-8
    --> src/server/shell.sandbox.rs
     = help: correct the syntax, then run `koze build` again

    1 error; nothing was written
    ");
}

#[test]
fn an_empty_file() {
    let project = package();
    project.write(SHELL, "");
    assert_snapshot!(refused(&project), @"
    error[K002]: no `#[sandbox]` struct in this file
    --> src/server/shell.sandbox.rs
     = help: declare one: `#[sandbox] pub struct ShellSandbox;`, or rename the file so that it does not end in `.sandbox.rs`

    1 error; nothing was written
    ");
}

#[test]
fn a_struct_without_the_attribute() {
    assert_snapshot!(refused_source("pub struct ShellSandbox;"), @"
    error[K002]: no `#[sandbox]` struct in this file
    --> src/server/shell.sandbox.rs
     = help: declare one: `#[sandbox] pub struct ShellSandbox;`, or rename the file so that it does not end in `.sandbox.rs`

    1 error; nothing was written
    ");
}

#[test]
fn two_structs() {
    assert_snapshot!(refused_source("#[sandbox]\npub struct One;\n\n#[sandbox(variant = \"python\")]\npub struct Two;"), @"
    error[K003]: `Two` is the second `#[sandbox]` of this file, after `One`
     --> src/server/shell.sandbox.rs:7:12
      |
    4 | pub struct One;
      |            --- the first one
    ...
    7 | pub struct Two;
      |            ^^^
      |
      = help: a file declares exactly one sandbox: move `Two` to its own `.sandbox.rs` file

    1 error; nothing was written
    ");
}

#[test]
fn an_enum() {
    assert_snapshot!(refused_source("#[sandbox]\npub enum ShellSandbox {}"), @"
    error[K004]: `#[sandbox]` is on an enum, not on a struct
     --> src/server/shell.sandbox.rs:4:10
      |
    4 | pub enum ShellSandbox {}
      |          ^^^^^^^^^^^^
      |
      = help: declare a struct: `#[sandbox] pub struct ShellSandbox;`

    1 error; nothing was written
    ");
}

#[test]
fn a_function() {
    assert_snapshot!(refused_source("#[sandbox]\npub fn shell() {}"), @"
    error[K004]: `#[sandbox]` is on a function, not on a struct
     --> src/server/shell.sandbox.rs:4:8
      |
    4 | pub fn shell() {}
      |        ^^^^^
      |
      = help: declare a struct: `#[sandbox] pub struct ShellSandbox;`

    1 error; nothing was written
    ");
}

#[test]
fn a_generic_struct() {
    assert_snapshot!(refused_source("#[sandbox]\npub struct Shell<T>(T);"), @"
    error[K005]: the sandbox `Shell` is generic
     --> src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct Shell<T>(T);
      |            ^^^^^
      |
      = help: a Durable Object class cannot be generic: declare `pub struct Shell;` without parameters

    1 error; nothing was written
    ");
}

#[test]
fn a_struct_in_a_module() {
    assert_snapshot!(refused_source("mod inner {\n    #[sandbox]\n    pub struct Shell;\n}"), @"
    error[K006]: the sandbox `Shell` is not at the top level of its file
     --> src/server/shell.sandbox.rs:5:16
      |
    5 |     pub struct Shell;
      |                ^^^^^
      |
      = help: move the struct to the top level of the file, where the generated code expects it

    1 error; nothing was written
    ");
}

#[test]
fn reserved_class_names() {
    assert_snapshot!(refused_source("#[sandbox]\npub struct Sandbox;"), @"
    error[K009]: `Sandbox` cannot be the class of a sandbox: the name is a name that the generated code uses itself
     --> src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct Sandbox;
      |            ^^^^^^^
      |
      = help: rename the struct, for example to `ShellSandbox`

    1 error; nothing was written
    ");
    assert_snapshot!(refused_source("#[sandbox]\npub struct function;"), @"
    error[K009]: `function` cannot be the class of a sandbox: the name is a reserved word of JavaScript, in which the class is exported
     --> src/server/shell.sandbox.rs:4:12
      |
    4 | pub struct function;
      |            ^^^^^^^^
      |
      = help: rename the struct, for example to `ShellSandbox`

    1 error; nothing was written
    ");
}

fn named(file: &str) -> Project {
    let project = package();
    plain(&project, file, "ShellSandbox");
    project
}

#[test]
fn a_file_name_with_a_space() {
    assert_snapshot!(refused(&named("src/server/My Tool.sandbox.rs")), @"
    error[K007]: `My Tool.sandbox.rs` is not a valid name for a sandbox file
     --> src/server/My Tool.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ^^^^^^^^^^^^
      |
      = help: the part before `.sandbox.rs` must match `[a-z][a-z0-9]*([-_][a-z0-9]+)*` and be a valid module name: rename the file to `my-tool.sandbox.rs`

    1 error; nothing was written
    ");
}

#[test]
fn a_file_name_with_a_dot() {
    assert_snapshot!(refused(&named("src/server/a.b.sandbox.rs")), @"
    error[K007]: `a.b.sandbox.rs` is not a valid name for a sandbox file
     --> src/server/a.b.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ^^^^^^^^^^^^
      |
      = help: the part before `.sandbox.rs` must match `[a-z][a-z0-9]*([-_][a-z0-9]+)*` and be a valid module name: rename the file to `a-b.sandbox.rs`

    1 error; nothing was written
    ");
}

#[test]
fn a_file_name_that_begins_with_a_digit() {
    assert_snapshot!(refused(&named("src/3d.sandbox.rs")), @"
    error[K007]: `3d.sandbox.rs` is not a valid name for a sandbox file
     --> src/3d.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ^^^^^^^^^^^^
      |
      = help: the part before `.sandbox.rs` must match `[a-z][a-z0-9]*([-_][a-z0-9]+)*` and be a valid module name: rename the file to `d.sandbox.rs`

    1 error; nothing was written
    ");
}

#[test]
fn a_file_name_that_is_not_a_module_name() {
    assert_snapshot!(refused(&named("src/self.sandbox.rs")), @"
    error[K007]: `self.sandbox.rs` is not a valid name for a sandbox file
     --> src/self.sandbox.rs:4:12
      |
    4 | pub struct ShellSandbox;
      |            ^^^^^^^^^^^^
      |
      = help: the part before `.sandbox.rs` must match `[a-z][a-z0-9]*([-_][a-z0-9]+)*` and be a valid module name: rename the file to `my-self.sandbox.rs`

    1 error; nothing was written
    ");
}

#[test]
fn errors_of_several_files_are_reported_together() {
    let project = package();
    project.write("src/a.sandbox.rs", "");
    sandbox(&project, "src/b.sandbox.rs", "#[sandbox(imgae = \"x/y:1\", max_instances = 0)]\npub struct B;");
    sandbox(&project, "src/c.sandbox.rs", "#[sandbox]\npub struct C {");
    project.write("wrangler.jsonc", "{\n  \"name\": app\n}\n");
    assert_snapshot!(refused(&project), @r#"
    error[K002]: no `#[sandbox]` struct in this file
    --> src/a.sandbox.rs
     = help: declare one: `#[sandbox] pub struct ASandbox;`, or rename the file so that it does not end in `.sandbox.rs`

    error[K010]: `#[sandbox]` has no key `imgae`
     --> src/b.sandbox.rs:3:11
      |
    3 | #[sandbox(imgae = "x/y:1", max_instances = 0)]
      |           ^^^^^
      |
      = help: did you mean `image`?

    error[K013]: `0` is not a valid `max_instances`
     --> src/b.sandbox.rs:3:44
      |
    3 | #[sandbox(imgae = "x/y:1", max_instances = 0)]
      |                                            ^
      |
      = help: `max_instances` takes an integer of at least 1

    error[K001]: cannot parse this file as Rust: unclosed bracket or literal
     --> src/c.sandbox.rs:4:14
      |
    4 | pub struct C {
      |              ^
      |
      = help: correct the syntax, then run `koze build` again

    error[K040]: cannot parse this file: Unexpected word
     --> wrangler.jsonc:2:11
      |
    2 |   "name": app
      |           ^^^
      |
      = help: correct the syntax, then run `koze build` again

    5 errors; nothing was written
    "#);
}

/// Lines and columns are those of an editor: characters from 1, without a byte order mark.
#[test]
fn a_location_after_wide_characters() {
    let project = package();
    let source =
        "\u{feff}use koze::prelude::*;\r\n\r\n/* 世界 */ #[sandbox(imgae = \"x/y:1\")] pub struct S;\r\n";
    project.write(SHELL, source);
    assert_snapshot!(refused(&project), @r#"
    error[K010]: `#[sandbox]` has no key `imgae`
     --> src/server/shell.sandbox.rs:3:20
      |
    3 | /* 世界 */ #[sandbox(imgae = "x/y:1")] pub struct S;
      |                      ^^^^^
      |
      = help: did you mean `image`?

    1 error; nothing was written
    "#);
    let json = project.koze(&["build", "--format", "json"]);
    let document = document(&json);
    let found = &document["diagnostics"][0];
    assert_eq!((found["line"].as_u64(), found["column"].as_u64()), (Some(3), Some(20)), "{found:#}");
}

#[test]
fn a_conditional_sandbox() {
    assert_snapshot!(refused_source("#[cfg(feature = \"shell\")]\n#[sandbox]\npub struct ShellSandbox;"), @r#"
    error[K022]: the sandbox `ShellSandbox` is conditionally compiled
     --> src/server/shell.sandbox.rs:3:3
      |
    3 | #[cfg(feature = "shell")]
      |   ^^^
      |
      = help: the wrangler configuration is the same for every build: remove `cfg`, or declare the sandbox in another package

    1 error; nothing was written
    "#);
}

#[test]
fn a_directory_that_is_not_utf_8() {
    use std::os::unix::ffi::OsStrExt as _;
    let project = package();
    let dir = project.path("src").join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    fs_err::create_dir(&dir).expect("a directory");
    fs_err::write(dir.join("shell.sandbox.rs"), "#[sandbox]\npub struct ShellSandbox;\n").expect("a file");
    assert_snapshot!(refused(&project), @"
    error[K028]: the path `src/caf�/shell.sandbox.rs` is not UTF-8
     |
     = help: the generated modules contain this path: rename the directory or file

    1 error; nothing was written
    ");
}

#[test]
fn conditions_on_the_file_or_in_cfg_attr_count_too() {
    for text in [
        "#![cfg(unix)]\n#[sandbox]\npub struct ShellSandbox;\n",
        "#[sandbox]\n#[cfg_attr(unix, cfg(unix))]\npub struct ShellSandbox;\n",
        "#[cfg_attr(unix, sandbox)]\npub struct ShellSandbox;\n",
    ] {
        let project = package();
        project.write(SHELL, text);
        let output = refused(&project);
        assert!(
            output.starts_with("error[K022]: the sandbox `ShellSandbox` is conditionally compiled"),
            "{output}"
        );
    }
}
