//! TypeScript: the generated entry point and its types, and the templates.

use std::fmt::Write as _;
use std::path::Path;

use fs_err as fs;
use koze_tests::{Project, root, run};

use crate::project::{self, TIMEOUT, Worker};

/// The strictest settings that a user may have.
const TSCONFIG: &str = r#"{
  "compilerOptions": {
    "allowJs": true,
    "checkJs": true,
    "exactOptionalPropertyTypes": true,
    "lib": ["es2022"],
    "module": "preserve",
    "moduleResolution": "bundler",
    "noEmit": true,
    "noImplicitOverride": true,
    "noUncheckedIndexedAccess": true,
    "skipLibCheck": true,
    "strict": true,
    "target": "es2022",
    "types": ["@cloudflare/workers-types"],
    "verbatimModuleSyntax": true
  },
  "files": [FILES]
}
"#;

/// Runs tsc on files of a project, and returns its errors.
fn tsc(project: &Project, files: &[&str]) -> Result<(), String> {
    let files: Vec<_> = files.iter().map(|file| format!("{file:?}")).collect();
    project.write("tsconfig.json", TSCONFIG.replace("FILES", &files.join(", ")));
    let mut command = project.node("tsc");
    command.args(["--project", "tsconfig.json", "--pretty", "false"]);
    let output = run(command, TIMEOUT);
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(()) } else { Err(found) }
}

/// Returns a program that uses the types of the entry point: the Worker is a handler, and namespaces accept every
/// class.
fn usage(worker: &Worker) -> String {
    let sandboxes = worker.sandboxes();
    // Qualified by their module, because a class may have the name of a global.
    let mut text = "import worker, * as entry from \"./src/generated/worker.mjs\";\n\
         export const handler: ExportedHandler = worker;\n\
         export interface Env {\n"
        .to_owned();
    for sandbox in &sandboxes {
        let _ = writeln!(text, "  {}: DurableObjectNamespace<entry.{}>;", sandbox.binding, sandbox.class);
    }
    text += "}\nexport async function use(env: Env): Promise<number[]> {\n  const codes: number[] = [];\n";
    for sandbox in &sandboxes {
        let call = match (sandbox.kind.as_str(), sandbox.backend.as_str()) {
            ("container", _) => "fetch(\"http://service/\")).status",
            (_, "native" | "managed") => "koze({ status: {} })).ok ? 0 : 1",
            _ => "exec(\"true\")).exitCode",
        };
        let _ = writeln!(
            text,
            "  codes.push((await env.{0}.getByName(\"a\").{call});\n  \
             // @ts-expect-error: the class has no such method, and the stub's type knows.\n  \
             await env.{0}.getByName(\"a\").noSuchMethod();",
            sandbox.binding
        );
    }
    text + "  return codes;\n}\n"
}

#[test]
fn the_entry_point_and_its_types_pass() {
    for worker in project::all() {
        let project = &worker.project;
        project.write("build/index.js", fs::read(worker.build_dir().join("index.js")).expect("the stub"));
        let found = tsc(project, &["src/generated/worker.mjs"]);
        assert_eq!(found, Ok(()), "{}", worker.name);
        project.write("usage.mts", usage(&worker));
        // The types come from `worker.d.mts`, which TypeScript finds next to `worker.mjs`.
        let found = tsc(project, &["src/generated/worker.d.mts", "usage.mts"]);
        assert_eq!(found, Ok(()), "{}\n{}", worker.name, usage(&worker));
    }
}

/// Returns the templates, with declared types for the placeholders.
fn templates() -> Project {
    let project = Project::new();
    project.link_node_modules();
    let files = root().join("templates/files");
    let copied =
        [("generated", ""), ("generated/koze", "koze"), ("generated/koze/sdk", "koze/sdk"), ("dev", "koze")];
    for (from, to) in copied {
        for entry in fs::read_dir(files.join(from)).expect("the templates") {
            let path = entry.expect("a readable directory").path();
            let name = path.file_name().expect("a name");
            if path.is_file() {
                project.write(Path::new(to).join(name), fs::read(&path).expect("a template"));
            }
        }
    }
    project.write("placeholders.d.ts", fs::read(files.join("placeholders.d.ts")).expect("a template"));
    project
}

const TEMPLATES: [&str; 30] = [
    "placeholders.d.ts",
    "worker.mjs",
    "worker.d.mts",
    "koze/calls.mjs",
    "koze/sdk/sdk.mjs",
    "koze/sdk/sdk.d.mts",
    "koze/native.mjs",
    "koze/native.d.mts",
    "koze/managed.mjs",
    "koze/managed.d.mts",
    "koze/waiting.mjs",
    "koze/container.mjs",
    "koze/processes.mjs",
    "koze/platform.mjs",
    "koze/service.mjs",
    "koze/service.d.mts",
    "koze/guest.mjs",
    "koze/trees.mjs",
    "koze/egress.mjs",
    "koze/egress.d.mts",
    "koze/requests.mjs",
    "koze/sessions.mjs",
    "koze/sessions.d.mts",
    "koze/scripts.mjs",
    "koze/scripts.d.mts",
    "koze/isolated.mjs",
    "koze/script-object.mjs",
    "koze/script-object.d.mts",
    "koze/script-database.mjs",
    "koze/script-fetch.mjs",
];

#[test]
fn the_templates_pass() {
    assert_eq!(tsc(&templates(), &TEMPLATES), Ok(()));
}

/// The class for testing the Rust Worker implements the contract.
#[test]
fn the_class_of_the_tests_implements_the_contract() {
    let project = templates();
    let class = fs::read(root().join("tests/tests/worker/served/memory.mjs")).expect("the class");
    project.write("koze/memory.mjs", class);
    assert_eq!(tsc(&project, &["koze/memory.mjs", "koze/contract.d.ts"]), Ok(()));
}

/// The hand-written Workers of the benchmark use the same contract.
#[test]
fn the_hand_written_workers_call_the_contract() {
    let project = templates();
    let entries = ["by-hand/http.ts", "by-hand/mcp.ts"];
    for file in ["answers.mjs", "by-hand/sandboxes.ts"].iter().chain(&entries) {
        // Next to `contract.d.ts`, which they import.
        let source = fs::read(root().join("tests/bench/worker").join(file)).expect("the benchmark");
        project.write(Path::new("koze").join(file), source);
    }
    for entry in entries {
        let entry = format!("koze/{entry}");
        let found = tsc(&project, &[&entry, "koze/answers.mjs", "koze/contract.d.ts"]);
        assert_eq!(found, Ok(()), "{entry}");
    }
}

/// The hand-written Worker of the benchmark for the backend `sdk` uses the SDK's real types.
#[test]
fn the_hand_written_worker_calls_the_sdk() {
    let project = templates();
    let source = fs::read(root().join("tests/bench/sdk/by-hand.ts")).expect("the benchmark");
    project.write("by-hand.ts", source);
    assert_eq!(tsc(&project, &["by-hand.ts"]), Ok(()));
}

#[test]
fn a_wrong_type_in_a_placeholder_fails() {
    for (right, wrong, field) in [
        ("__KOZE_SLEEP_AFTER__: string", "__KOZE_SLEEP_AFTER__: boolean", "sleepAfter"),
        ("__KOZE_SLEEP_AFTER_MS__: number", "__KOZE_SLEEP_AFTER_MS__: string", "sleepAfterMs"),
        ("__KOZE_INTERNET__: boolean", "__KOZE_INTERNET__: string", "enableInternet"),
        ("__KOZE_ALLOWED_HOSTS__: string[]", "__KOZE_ALLOWED_HOSTS__: number[]", "number[]"),
    ] {
        let project = templates();
        let placeholders = project.read("placeholders.d.ts");
        assert!(placeholders.contains(right), "{placeholders}");
        project.write("placeholders.d.ts", placeholders.replace(right, wrong));
        let found = tsc(&project, &TEMPLATES).expect_err(wrong);
        assert!(found.contains("worker.mjs(") && found.contains(field), "{found}");
    }
}

/// The files that `koze dev --local` writes.
const LOCAL: [&str; 5] =
    ["placeholders.d.ts", "koze/calls.mjs", "koze/waiting.mjs", "koze/local.mjs", "koze/local-worker.mjs"];

#[test]
fn the_local_templates_pass() {
    assert_eq!(tsc(&templates(), &LOCAL), Ok(()));
}

#[test]
fn a_local_class_with_another_contract_fails() {
    for (right, wrong, printed) in [
        ("  kozeUnpack(input, stream", "  kozeUnpac(input, stream", "kozeUnpack"),
        (
            "@returns {Promise<koze.Reply<koze.Extracted>>}",
            "@returns {Promise<koze.Reply<koze.State>>}",
            "kozeExtract",
        ),
        ("    write: ({ bytes, ...input }) =>", "    writ: ({ bytes, ...input }) =>", "writ"),
        ("await this.#call(\"expose\", input)", "this.#call(\"expose\", input)", "Reply<Done>"),
    ] {
        let project = templates();
        let class = project.read("koze/local.mjs");
        assert!(class.contains(right), "{class}");
        project.write("koze/local.mjs", class.replace(right, wrong));
        let found = tsc(&project, &LOCAL).expect_err(wrong);
        assert!(found.contains("local.mjs(") && found.contains(printed), "{found}");
    }
}
