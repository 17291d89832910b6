//! The projects that are built.

use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::Result;

/// A generated Worker project in a directory of its own.
pub(super) struct Project {
    dir: PathBuf,
    sandboxes: usize,
}

impl Project {
    /// A project below `parent`. It is on disk after [`Project::restore`].
    pub(super) fn new(parent: &Path, sandboxes: usize) -> Self {
        Self { dir: parent.join(format!("bench-{sandboxes}")), sandboxes }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn sandboxes(&self) -> usize {
        self.sandboxes
    }

    /// Puts the project back to what it was before its first build.
    pub(super) fn restore(&self) -> Result<()> {
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir)?;
        }
        let server = self.dir.join("src/server");
        fs::create_dir_all(&server)?;
        fs::write(self.dir.join("Cargo.toml"), self.manifest())?;
        // An exact version, so that the graph of crates is never asked for the SDK.
        fs::write(
            self.dir.join("package.json"),
            "{\n  \"private\": true,\n  \"dependencies\": { \"@cloudflare/sandbox\": \"0.12.10\" }\n}\n",
        )?;
        fs::write(self.dir.join("src/lib.rs"), "//! A Worker with many sandboxes.\n")?;
        for number in 0..self.sandboxes {
            fs::write(
                server.join(format!("s{number:03}.sandbox.rs")),
                format!("use koze::prelude::*;\n\n#[sandbox]\npub struct S{number:03};\n"),
            )?;
        }
        Ok(())
    }

    /// How many files the build added.
    pub(super) fn written(&self) -> Result<usize> {
        // Cargo.toml, package.json and src/lib.rs stand beside the sandboxes.
        Ok(files(&self.dir)?.saturating_sub(self.sandboxes + 3))
    }

    fn manifest(&self) -> String {
        format!(
            "[package]\nname = \"bench-{}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [lib]\ncrate-type = [\"cdylib\"]\n\n[workspace]\n",
            self.sandboxes
        )
    }
}

/// The files in and below `dir`.
fn files(dir: &Path) -> Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        count += if entry.file_type()?.is_dir() { files(&entry.path())? } else { 1 };
    }
    Ok(count)
}
