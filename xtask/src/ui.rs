//! `cargo xtask ui`: builds the page of `koze ui`, and the one for chats, from `ui/`. The files are committed, because `cargo install` has no Node. The same
//! esbuild, whose version the lock file pins, builds the same bytes.

use std::path::Path;
use std::process::{Command, ExitCode};

use fs_err as fs;

use crate::committed::{Args, packed};
use crate::{Result, process, setup};

/// The sources.
const SOURCES: &str = "ui";
/// Where the built files are committed.
const BUILT: &str = "cli/src/serve/ui/built";
/// The built files of the page.
const FILES: [&str; 4] = ["app.css", "app.js", "icon.svg", "index.html"];
/// The built files that the page loads when a terminal is opened.
const LATER: [&str; 2] = ["xterm.css", "xterm.js"];
/// The page for chats, in one file.
const TIMELINE: &str = "timeline.html";
/// The maximum size of the files of the page together, compressed, in bytes.
const MAX_SIZE: usize = 150_000;
/// The maximum size of the page for chats, compressed, in bytes.
const MAX_TIMELINE: usize = 40_000;

const MISSING: &str = "install Node 20 or newer, which brings npm";

pub(crate) fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let sources = root.join(SOURCES);
    setup::npm::install_ui(&sources)?;
    run_node(&sources, &["node_modules/typescript/bin/tsc", "--project", "."])?;
    let out = root.join("target/ui");
    fs::create_dir_all(&out)?;
    let out_text = out.to_str().ok_or("the path of the checkout is not UTF-8")?;
    run_node(&sources, &["build.mjs", out_text])?;

    let mut size = 0;
    let mut timeline = 0;
    let mut changed = Vec::new();
    for name in FILES.into_iter().chain(LATER).chain([TIMELINE]) {
        let built = fs::read(out.join(name))?;
        if FILES.contains(&name) {
            size += packed(&built)?.len();
        }
        if name == TIMELINE {
            timeline = packed(&built)?.len();
        }
        if fs::read(root.join(BUILT).join(name)).is_ok_and(|committed| committed == built) {
            continue;
        }
        changed.push(name);
        if !args.check {
            fs::create_dir_all(root.join(BUILT))?;
            fs::write(root.join(BUILT).join(name), built)?;
        }
    }
    for (page, size, most) in [("the page", size, MAX_SIZE), (TIMELINE, timeline, MAX_TIMELINE)] {
        if size > most {
            return Err(format!("{page} has {size} bytes compressed, and {most} are the most").into());
        }
    }
    if args.check && !changed.is_empty() {
        return Err(format!(
            "`{BUILT}` differs from what its source builds ({}): run `cargo xtask ui`, and commit the result",
            changed.join(", ")
        )
        .into());
    }
    let done = if changed.is_empty() { "is what its source builds" } else { "was written" };
    eprintln!("ui: {BUILT} {done}, {} kB compressed", size.div_ceil(1000));
    Ok(ExitCode::SUCCESS)
}

fn run_node(directory: &Path, args: &[&str]) -> Result<()> {
    let mut node = Command::new("node");
    node.args(args).current_dir(directory);
    if process::status(&mut node, MISSING)?.success() {
        return Ok(());
    }
    Err(format!("`{}` failed in {}; it says why above", process::line(&node), directory.display()).into())
}
