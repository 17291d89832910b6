//! A project on disk, its deployments, and what its user knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use fs_err as fs;
use koze_tests::{Snapshot, koze, run};
use serde_json::Value;
use tempfile::TempDir;
use walkdir::WalkDir;

use crate::config::{Format, environments};
use crate::hand::{self, Mode};
use crate::oracle::Worker;

/// The class names of sandboxes; the user's own classes are `Own0`, `Own1` …
pub(crate) const CLASSES: [&str; 7] =
    ["AlphaSandbox", "BetaSandbox", "Gamma", "DeltaSandbox", "Epsilon", "ZetaSandbox", "Eta"];

/// The possible paths of sandbox files.
pub(crate) const FILES: [&str; 6] = [
    "src/server/shell.sandbox.rs",
    "src/server/python.sandbox.rs",
    "src/agents/node.sandbox.rs",
    "src/server/code-runner.sandbox.rs",
    "src/agents/deep/bash.sandbox.rs",
    "src/deno.sandbox.rs",
];

/// The timeout of koze.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A sandbox file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) class: String,
    pub(crate) renamed_from: Option<String>,
    /// The other keys, one bit for each.
    pub(crate) attributes: u8,
    /// A custom container name.
    pub(crate) name: Option<String>,
}

impl Source {
    fn text(&self) -> String {
        let keys = [
            "max_instances = 3",
            "variant = \"python\"",
            "instance_type = \"basic\"",
            "sleep_after = \"10m\"",
            "internet = true",
            "env_vars(MODE = \"é\")",
            "rollout_step_percentage = 50",
            "constraints(regions = [\"WEUR\"])",
        ];
        let chosen = keys.iter().enumerate().filter(|(bit, _)| self.attributes & (1 << bit) != 0);
        let mut keys: Vec<String> = chosen.map(|(_, key)| (*key).to_owned()).collect();
        keys.extend(self.renamed_from.iter().map(|old| format!("renamed_from = \"{old}\"")));
        keys.extend(self.name.iter().map(|name| format!("name = \"{name}\"")));
        let keys = if keys.is_empty() { String::new() } else { format!("({})", keys.join(", ")) };
        format!("use koze::prelude::*;\n\n#[sandbox{keys}]\npub struct {};\n", self.class)
    }
}

/// Returns the base name of a file's sandbox.
pub(crate) fn base(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".sandbox.rs").unwrap_or(name)
}

/// Returns the binding of a file's sandbox.
pub(crate) fn binding(file: &str) -> String {
    format!("{}_SANDBOX", base(file).to_uppercase().replace('-', "_"))
}

/// The state that can be reverted as a whole.
#[derive(Clone)]
pub(crate) struct State {
    /// The sandbox files.
    pub(crate) sources: BTreeMap<String, Source>,
    /// The classes of the last build, by file.
    pub(crate) built: BTreeMap<String, String>,
    /// The classes whose storage was kept, with their sandboxes' names.
    pub(crate) kept: BTreeMap<String, String>,
    /// All renames so far, as pairs of old and new name.
    pub(crate) renames: Vec<(String, String)>,
    /// An account to which every build is deployed immediately.
    pub(crate) eager: BTreeMap<String, Worker>,
    /// `wrangler.*`, `koze.lock` and `src/generated`.
    files: Snapshot,
}

/// Counts what happened, so that a test can show that it exercised something.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) builds: u32,
    pub(crate) refused: u32,
    pub(crate) renames: u32,
    pub(crate) deletions: u32,
    pub(crate) kept: u32,
    pub(crate) deployments: u32,
    pub(crate) lagged: u32,
    pub(crate) rejected: u32,
}

pub(crate) struct World {
    pub(crate) mode: Mode,
    pub(crate) format: Format,
    pub(crate) state: State,
    /// The state before the last build, unless something was deployed since.
    pub(crate) saved: Option<State>,
    /// The state after the last build.
    pub(crate) committed: Option<State>,
    /// The account with the occasional deployments of the history.
    pub(crate) account: BTreeMap<String, Worker>,
    /// The storage that `--delete-storage` has named, and its class.
    pub(crate) given_up: BTreeSet<String>,
    /// Deleted sandbox files.
    pub(crate) graveyard: Vec<(String, Source)>,
    /// The tags that the user wrote, each with its list's environment.
    pub(crate) user_tags: BTreeSet<(String, String)>,
    /// The classes that the user's own code exports.
    pub(crate) user_classes: BTreeSet<String>,
    /// The environments that `Cargo.toml` names.
    pub(crate) restricted: Option<Vec<String>>,
    /// The environments that `Cargo.toml` once omitted.
    pub(crate) skipped: BTreeSet<String>,
    /// The levels where koze may have left entries behind because its lock was lost.
    pub(crate) untidy: BTreeSet<String>,
    pub(crate) counts: Counts,
    /// The history in words.
    pub(crate) script: Vec<String>,
    number: usize,
    temp: TempDir,
}

impl World {
    pub(crate) fn new(mode: Mode, format: Format, dice: u16) -> World {
        // Use memory if possible, because koze syncs each file to disk.
        let memory = Path::new("/dev/shm");
        let temp =
            if memory.is_dir() { TempDir::with_prefix_in("koze-history-", memory) } else { TempDir::new() };
        let text = hand::seed(mode, format, dice);
        let config = format.parse(&text).expect("a configuration");
        let tags = config["migrations"].as_array().into_iter().flatten();
        let user_tags = tags
            .map(|migration| (String::new(), migration["tag"].as_str().unwrap_or_default().to_owned()))
            .collect();
        let world = World {
            mode,
            format,
            state: State {
                sources: BTreeMap::new(),
                built: BTreeMap::new(),
                kept: BTreeMap::new(),
                renames: Vec::new(),
                eager: BTreeMap::new(),
                files: Snapshot::new(),
            },
            saved: None,
            committed: None,
            account: BTreeMap::new(),
            given_up: BTreeSet::new(),
            graveyard: Vec::new(),
            user_tags,
            user_classes: BTreeSet::from(["Own0".to_owned()]),
            restricted: None,
            skipped: BTreeSet::new(),
            untidy: BTreeSet::new(),
            counts: Counts::default(),
            script: vec![format!("the configuration is\n{text}")],
            number: 0,
            temp: temp.expect("a temporary directory"),
        };
        world.write(format.file(), &text);
        world.write("src/lib.rs", "mod generated;\n");
        world.write("package.json", "{ \"dependencies\": { \"@cloudflare/sandbox\": \"0.12.10\" } }\n");
        world.write_manifest();
        world
    }

    pub(crate) fn dir(&self) -> &Path {
        self.temp.path()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.dir().join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.dir().join(path)).unwrap_or_default()
    }

    pub(crate) fn config_text(&self) -> String {
        self.read(self.format.file())
    }

    pub(crate) fn config(&self) -> Value {
        self.format.parse(&self.config_text()).expect("a configuration that parses")
    }

    /// Returns a new number.
    pub(crate) fn next(&mut self) -> usize {
        self.number += 1;
        self.number
    }

    pub(crate) fn say(&mut self, line: impl Into<String>) {
        self.script.push(line.into());
    }

    /// Returns the levels that koze manages; the top level is the empty name.
    pub(crate) fn managed(&self) -> Vec<String> {
        let named = environments(&self.config());
        let ours =
            named.into_iter().filter(|name| self.restricted.as_ref().is_none_or(|list| list.contains(name)));
        std::iter::once(String::new()).chain(ours).collect()
    }

    pub(crate) fn write_manifest(&self) {
        let mut text =
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n".to_owned();
        if let Some(names) = &self.restricted {
            let _ = write!(text, "\n[package.metadata.koze]\nenvironments = {names:?}\n");
        }
        self.write("Cargo.toml", &text);
    }

    /// Writes a sandbox file.
    pub(crate) fn put(&mut self, file: &str, source: Source) {
        let text = source.text();
        self.say(format!("{file} is\n{text}"));
        self.write(file, &text);
        self.state.sources.insert(file.to_owned(), source);
    }

    /// Deletes a sandbox file.
    pub(crate) fn take(&mut self, file: &str) -> Option<Source> {
        let source = self.state.sources.remove(file)?;
        fs::remove_file(self.dir().join(file)).expect("the file is there");
        self.say(format!("{file} goes"));
        Some(source)
    }

    /// Returns every file of the project.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let entries = WalkDir::new(self.dir()).into_iter().map(|entry| entry.expect("a readable directory"));
        let files = entries.filter(|entry| entry.file_type().is_file());
        let read = |entry: walkdir::DirEntry| {
            let name =
                entry.path().strip_prefix(self.dir()).expect("a path in it").to_string_lossy().into_owned();
            (name, fs::read(entry.path()).expect("a readable file"))
        };
        files.map(read).collect()
    }

    /// Returns the current state, with the files that version control would contain.
    pub(crate) fn capture(&self) -> State {
        let mut files = self.snapshot();
        files.retain(|path, _| {
            path == self.format.file() || path == "koze.lock" || path.starts_with("src/generated/")
        });
        State { files, ..self.state.clone() }
    }

    /// Restores a state, including the sandbox files if `sources`.
    pub(crate) fn restore(&mut self, state: State, sources: bool) {
        for path in [
            "koze.lock",
            "src/generated/mod.rs",
            "src/generated/env.rs",
            "src/generated/tools.rs",
            "src/generated/tools.json",
            "src/generated/worker.mjs",
            "src/generated/worker.d.mts",
        ] {
            let _ = fs::remove_file(self.dir().join(path));
        }
        for (path, content) in &state.files {
            // A build may have deleted the directory of koze's code with the last file in it.
            let path = self.dir().join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("its directory");
            fs::write(path, content).expect("a file");
        }
        let now = std::mem::replace(&mut self.state, state);
        if sources {
            for file in now.sources.keys() {
                fs::remove_file(self.dir().join(file)).expect("the file is there");
            }
            for (file, source) in &self.state.sources {
                self.write(file, &source.text());
            }
        } else {
            self.state.sources = now.sources;
        }
    }

    /// Runs koze. Checks that it never panics, and that a failed or dry run changes nothing.
    pub(crate) fn koze(&mut self, args: &[&str]) -> Result<Run, String> {
        let before = self.snapshot();
        let mut command = koze();
        command
            .args(args)
            .current_dir(self.dir())
            .env("NO_COLOR", "1")
            .env("COLUMNS", "100")
            .env_remove("RUST_BACKTRACE");
        let output = run(command, TIMEOUT);
        let (stdout, stderr) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        let line = args.join(" ");
        self.say(format!("$ koze {line}  # {:?}\n{stderr}", output.status.code()));
        let code = output.status.code().ok_or_else(|| format!("koze {line} was ended: {}", output.status))?;
        if !(0..=2).contains(&code) || stderr.contains("panicked") {
            return Err(format!("koze {line} ended with {code}:\n{stderr}"));
        }
        let looks = args.contains(&"--check") || args.contains(&"--dry-run");
        let after = self.snapshot();
        if (code != 0 || looks) && before != after {
            return Err(format!("koze {line} changed files:\n{}", koze_tests::diff(&before, &after)));
        }
        Ok(Run { code, stdout, stderr })
    }
}

/// The result of a run of koze.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Returns whether there is an error with this code.
    pub(crate) fn has(&self, code: &str) -> bool {
        self.stderr.contains(&format!("error[{code}]"))
    }
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.builds += other.builds;
        self.refused += other.refused;
        self.renames += other.renames;
        self.deletions += other.deletions;
        self.kept += other.kept;
        self.deployments += other.deployments;
        self.lagged += other.lagged;
        self.rejected += other.rejected;
    }
}
