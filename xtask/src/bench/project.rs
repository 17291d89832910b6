//! Generates the projects to build.

use std::path::{Path, PathBuf};

use fs_err as fs;
use serde_json::json;

use crate::Result;

/// A generated Worker project in its own directory.
pub(super) struct Project {
    dir: PathBuf,
    sandboxes: usize,
    environments: usize,
}

impl Project {
    /// Describes a project below `parent`. [`Project::restore`] writes it to disk.
    pub(super) fn new(parent: &Path, sandboxes: usize, environments: usize) -> Self {
        Self { dir: parent.join(format!("bench-{sandboxes}-{environments}")), sandboxes, environments }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn sandboxes(&self) -> usize {
        self.sandboxes
    }

    pub(super) fn environments(&self) -> usize {
        self.environments
    }

    /// Returns the file of a sandbox.
    pub(super) fn file(&self, number: usize) -> PathBuf {
        self.dir.join(format!("src/server/s{number:03}.sandbox.rs"))
    }

    /// Returns the content of a sandbox file with these attribute arguments.
    pub(super) fn source(number: usize, arguments: &str) -> String {
        format!("use koze::prelude::*;\n\n#[sandbox{arguments}]\npub struct S{number:03};\n")
    }

    /// Resets the project to its state before the first build.
    pub(super) fn restore(&self) -> Result<()> {
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir)?;
        }
        fs::create_dir_all(self.dir.join("src/server"))?;
        fs::write(self.dir.join("Cargo.toml"), self.manifest())?;
        // With an exact version, koze never queries the dependency graph for the SDK.
        fs::write(
            self.dir.join("package.json"),
            "{\n  \"private\": true,\n  \"dependencies\": { \"@cloudflare/sandbox\": \"0.12.10\" }\n}\n",
        )?;
        fs::write(self.dir.join("src/lib.rs"), "//! A Worker with many sandboxes.\n")?;
        for number in 0..self.sandboxes {
            fs::write(self.file(number), Self::source(number, ""))?;
        }
        if self.environments > 0 {
            let environments = (0..self.environments).map(|number| (format!("e{number}"), json!({})));
            let config = json!({
                "name": "bench",
                "main": "src/generated/worker.mjs",
                "compatibility_date": "2026-04-21",
                "env": environments.collect::<serde_json::Map<_, _>>(),
            });
            fs::write(self.dir.join("wrangler.jsonc"), format!("{config:#}\n"))?;
        }
        Ok(())
    }

    /// Returns the number of files that the build added.
    pub(super) fn written(&self) -> Result<usize> {
        // The project also has Cargo.toml, package.json, src/lib.rs and possibly wrangler.jsonc.
        Ok(files(&self.dir)?.saturating_sub(self.sandboxes + 3 + usize::from(self.environments > 0)))
    }

    fn manifest(&self) -> String {
        format!(
            "[package]\nname = \"bench-{}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [lib]\ncrate-type = [\"cdylib\"]\n\n[workspace]\n",
            self.sandboxes
        )
    }
}

/// Counts the files in and below `dir`.
fn files(dir: &Path) -> Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        count += if entry.file_type()?.is_dir() { files(&entry.path())? } else { 1 };
    }
    Ok(count)
}
