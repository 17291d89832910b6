//! Builds the Worker of a new project as worker-build does: with cargo, wasm-bindgen, wasm-opt and esbuild.
//! worker-build itself would take minutes to compile, and would download the tools it runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;
use serde_json::{Value, json};
use wasm_bindgen_cli_support::Bindgen;

use crate::setup::npm;
use crate::{Result, process};

const TARGET: &str = "wasm32-unknown-unknown";

/// The remedy for a missing tool.
pub(in crate::bench) const SETUP: &str = "run `cargo xtask setup`";

/// The default options of wasm-opt.
const OPTIMISED: &str = "-O";
/// The features that wasm-opt may use, and the option that keeps the function names that cargo left.
const FEATURES: [&str; 8] = [
    "--enable-mutable-globals",
    "--enable-sign-ext",
    "--enable-nontrapping-float-to-int",
    "--enable-bulk-memory",
    "--enable-multivalue",
    "--enable-reference-types",
    "--enable-exception-handling",
    "--debuginfo",
];

/// The files of the benchmark.
const BENCHMARK: [&str; 2] = ["answers.mjs", "rust.mjs"];
/// The Workers to compare with.
const BY_HAND: [&str; 2] = ["http", "mcp"];

/// A project with a built Worker.
pub(in crate::bench) struct Built {
    root: PathBuf,
    project: PathBuf,
    package: String,
}

impl Built {
    /// Creates the project and builds its Worker.
    pub(in crate::bench) fn new(root: &Path, koze: &Path) -> Result<Self> {
        Self::with(root, koze, "project", |_| Ok(()))
    }

    /// Creates a project with a Worker that runs scripts, also in dynamic Workers, and builds it.
    pub(in crate::bench) fn with_scripts(root: &Path, koze: &Path) -> Result<Self> {
        Self::with(root, koze, "scripts", |project| {
            let cargo = project.join("Cargo.toml");
            edit(&cargo, "/runtime\" }", "/runtime\", features = [\"script\"] }")?;
            edit(&cargo, "[dependencies]", "[package.metadata.koze.script]\n\n[dependencies]")?;
            let loaders = "{\n  \"worker_loaders\": [{ \"binding\": \"LOADER\" }],";
            edit(&project.join("wrangler.jsonc"), "{", loaders)?;
            rebuild(koze, project)
        })
    }

    /// Creates a project with a Worker that reads the requests of its sandboxes, and builds it.
    pub(in crate::bench) fn with_credentials(root: &Path, koze: &Path) -> Result<Self> {
        Self::with(root, koze, "credentials", |project| {
            let attribute =
                "#[sandbox(credentials(API_KEY(host = \"api.example.com\")), limits(requests = \"100/m\"), ";
            edit(&project.join("src/server/shell.sandbox.rs"), "#[sandbox(", attribute)?;
            rebuild(koze, project)
        })
    }

    /// Creates a project in a directory of this name, changes it, and builds its Worker.
    fn with(root: &Path, koze: &Path, name: &str, change: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        // A fixed path, so that cargo finds the results of earlier builds.
        let dir = root.join("target/bench-worker");
        // cargo names the module after the package, whatever its directory.
        let package = format!("bench-{name}");
        let built = Built { root: root.to_owned(), project: dir.join(name), package };
        if built.project.exists() {
            fs::remove_dir_all(&built.project)?;
        }
        fs::create_dir_all(&dir)?;
        let mut new = Command::new(koze);
        new.args(["new", name, "--name", &built.package, "--backend", "sdk", "--runtime-path"])
            .arg(root.join("runtime"));
        process::stdout(new.current_dir(&dir), "see what it said above")?;
        change(&built.project)?;
        let modules = root.join("tests/node_modules");
        fs::os::unix::fs::symlink(modules, built.project.join("node_modules"))?;
        // Use the versions of this workspace.
        fs::copy(root.join("Cargo.lock"), built.project.join("Cargo.lock"))?;
        let module = built.cargo()?;
        built.link(&module)?;
        Ok(built)
    }

    /// Returns the directory of the project.
    pub(in crate::bench) fn dir(&self) -> &Path {
        &self.project
    }

    /// Returns a tool of `tests/node_modules`, to run in the project.
    pub(in crate::bench) fn tool(&self, name: &str) -> Result<Command> {
        let mut command = npm::tool(&self.root, name)?;
        command
            .current_dir(&self.project)
            .env("CI", "true")
            .env("WRANGLER_HIDE_BANNER", "true")
            .env("WRANGLER_SEND_METRICS", "false");
        Ok(command)
    }

    /// Returns wrangler's output for a dry run of the upload without the guest, which only Workers with the SDK contain.
    pub(in crate::bench) fn dry_run_bare(&self) -> Result<String> {
        let guest = self.project.join("src/generated/koze/koze-guest.mjs");
        let whole = fs::read(&guest)?;
        fs::write(&guest, "export const PROGRAM = \"\";\n")?;
        let printed = self.dry_run(false);
        fs::write(&guest, whole)?;
        printed
    }

    /// Returns wrangler's output for a dry run of the upload.
    pub(in crate::bench) fn dry_run(&self, with_sdk: bool) -> Result<String> {
        let mut config = json!({
            "name": self.package,
            "main": "src/generated/worker.mjs",
            "compatibility_date": "2026-04-21",
            "compatibility_flags": ["nodejs_compat"],
        });
        if !with_sdk {
            let instead = self.root.join("tests/bench/worker/no-sdk.mjs");
            config["alias"] = json!({ "@cloudflare/sandbox": instead });
        }
        // Without the build command and the project's blocks, which the upload does not need.
        fs::write(self.project.join("upload.json"), config.to_string())?;
        let mut wrangler = self.tool("wrangler")?;
        wrangler.args(["deploy", "--dry-run", "--config", "upload.json", "--outdir", "dist"]);
        process::stdout(&mut wrangler, SETUP)
    }

    /// Writes the files of the benchmark to the project.
    pub(in crate::bench) fn write_benchmark(&self) -> Result<()> {
        let from = self.root.join("tests/bench/worker");
        for file in BENCHMARK {
            fs::copy(from.join(file), self.project.join(file))?;
        }
        for name in BY_HAND {
            self.by_hand(&from.join(format!("by-hand/{name}.ts")), &format!("{name}.mjs"))?;
        }
        Ok(())
    }

    /// Bundles a Worker written by hand into the project's directory.
    pub(in crate::bench) fn by_hand(&self, source: &Path, bundle: &str) -> Result<()> {
        let mut esbuild = self.tool("esbuild")?;
        esbuild.arg(source).arg(format!("--outfile={bundle}")).args([
            "--bundle",
            "--minify",
            "--format=esm",
            "--conditions=workerd",
            "--external:cloudflare:*",
            "--external:node:*",
            "--log-level=warning",
        ]);
        process::stdout(&mut esbuild, SETUP).map(drop)
    }

    /// Builds the wasm module with the profile of the project.
    fn cargo(&self) -> Result<PathBuf> {
        let target = self.root.join("target/bench-worker");
        let mut cargo = process::cargo(&self.project);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            // Remove the variables that cargo set for this program.
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_PROFILE_") {
                cargo.env_remove(&*name);
            }
        }
        cargo.args(["build", "--release", "--lib", "--target", TARGET]).env("CARGO_TARGET_DIR", &target);
        process::stdout(&mut cargo, "install rustup, which brings cargo")?;
        let module = format!("{}.wasm", self.package.replace('-', "_"));
        Ok(target.join(TARGET).join("release").join(module))
    }

    /// Links the module and its JavaScript where worker-build does.
    fn link(&self, module: &Path) -> Result<()> {
        let build = self.project.join("build");
        let mut bindgen = Bindgen::new();
        bindgen.input_path(module).out_name("rust").typescript(false);
        // Include the code that restarts the module after a panic.
        bindgen.reset_state_function(true).force_enable_abort_handler(true);
        bindgen
            .module(true)
            .and_then(|bindgen| bindgen.generate(&build))
            .map_err(|error| format!("{error:#}"))?;
        let glue = build.join("rust.js");
        // esbuild does not support source phase imports. wrangler's plain import of wasm gives the same compiled
        // module.
        fs::write(&glue, fs::read_to_string(&glue)?.replace("import source ", "import "))?;
        self.optimise(&build.join("rust_bg.wasm"))?;
        let shim = build.join("shim.mjs");
        fs::copy(self.root.join("tests/tests/worker/shim.mjs"), &shim)?;
        let mut esbuild = self.tool("esbuild")?;
        esbuild.arg(&shim).current_dir(&build).args([
            "--bundle",
            "--minify",
            "--format=esm",
            "--external:./rust_bg.wasm",
            "--external:cloudflare:*",
            "--outfile=index.js",
            "--log-level=warning",
        ]);
        process::stdout(&mut esbuild, SETUP)?;
        for file in [glue, shim] {
            fs::remove_file(file)?;
        }
        let snippets = build.join("snippets");
        if snippets.exists() {
            fs::remove_dir_all(snippets)?;
        }
        Ok(())
    }

    /// Runs wasm-opt with the options of the package.
    fn optimise(&self, module: &Path) -> Result<()> {
        let mut cargo = process::cargo(&self.project);
        cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
        let metadata: Value = serde_json::from_str(&process::stdout(&mut cargo, "install rustup")?)?;
        let configured = &metadata["packages"][0]["metadata"]["wasm-pack"]["profile"]["release"]["wasm-opt"];
        let configured: Vec<&str> =
            configured.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut optimise = self.tool("wasm-opt")?;
        optimise.arg(module).arg("-o").arg(module).args(FEATURES);
        optimise.args(if configured.is_empty() { vec![OPTIMISED] } else { configured });
        process::stdout(&mut optimise, SETUP).map(drop)
    }
}

/// Replaces a text that a file must have.
fn edit(path: &Path, from: &str, to: &str) -> Result<()> {
    let text = fs::read_to_string(path)?;
    if !text.contains(from) {
        return Err(format!("{}: no {from:?}", path.display()).into());
    }
    Ok(fs::write(path, text.replacen(from, to, 1))?)
}

/// Runs `koze build` in a project.
fn rebuild(koze: &Path, project: &Path) -> Result<()> {
    let mut build = Command::new(koze);
    process::stdout(build.arg("build").current_dir(project), "see what it said above").map(drop)
}
