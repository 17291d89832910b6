//! `koze new`: creates a complete project atomically.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use koze_model::names;

use super::backend;
use super::runtime::{self, Runtime};
use super::show;
use crate::args;
use crate::build::{self, Build, Options};
use crate::draft::Draft;
use crate::finding::{Findings, Stop};
use crate::output::{self, shell::single_quoted};
use crate::paths;
use crate::rules::Rule;
use crate::sdk::{self, Sdk};
use crate::wrangler::create;
use crate::write::{self, Failed, disk, input};

/// The prefix of the staging directory's name.
const STAGING: &str = ".koze-new-";

/// What depends on the backend in a new project.
struct Parts {
    files: &'static [(&'static str, &'static str)],
    /// The texts for the placeholders of `README.md`.
    readme: &'static [(&'static str, &'static str)],
}

const NATIVE: Parts = Parts {
    files: koze_templates::NATIVE_PROJECT,
    readme: &[
        (
            "__KOZE_IMAGE__",
            "| `src/server/shell.Dockerfile` | its image, with Python, Node, Git and curl: add the programs that the agent needs |\n\
             | `src/server/.koze-guest` | koze's guest, which `koze build` adds to the image: commit it |\n",
        ),
        ("__KOZE_BUILT__", "a sandbox file or its Dockerfile"),
        ("__KOZE_NPM__", "wrangler"),
        ("__KOZE_CHECKED__", ", without the image"),
        (
            "__KOZE_DOCKER__",
            "`npm run deploy` and `koze dev` build the image with Docker.\n\
             `npm run check` and `koze dev --local` do not need it.",
        ),
    ],
};

const MANAGED: Parts = Parts {
    files: koze_templates::MANAGED_PROJECT,
    readme: &[
        ("__KOZE_IMAGE__", ""),
        ("__KOZE_BUILT__", "a sandbox file"),
        ("__KOZE_NPM__", "wrangler"),
        ("__KOZE_CHECKED__", ""),
        (
            "__KOZE_DOCKER__",
            "The image `cloudflare/debian-trixie` is on Cloudflare's hosts, so\n\
             `npm run deploy` needs no Docker and pushes nothing. It has Node, and lacks Python, Git and curl: for these, write\n\
             `image = \"./shell.Dockerfile\"` in the attribute and a Dockerfile next to the sandbox, which Docker builds.\n\
             `koze dev` runs containers with Docker. `koze dev --local` does not need it.\n\
             \n\
             The containers are started by their Durable Objects, a public beta of Cloudflare since 2026-09-30: it may change,\n\
             and a class cannot go back to another backend.",
        ),
    ],
};

const SDK: Parts = Parts {
    files: koze_templates::SDK_PROJECT,
    readme: &[
        ("__KOZE_IMAGE__", ""),
        ("__KOZE_BUILT__", "a sandbox file"),
        ("__KOZE_NPM__", "wrangler and the sandbox SDK"),
        ("__KOZE_CHECKED__", ""),
        (
            "__KOZE_DOCKER__",
            "A deployment that builds images from a Dockerfile needs Docker, too; the\n\
             prebuilt images do not. `koze dev` runs containers with Docker, and pulls a prebuilt image only with a login\n\
             (`npx wrangler login`): a `src/server/shell.Dockerfile` with the line `FROM docker.io/cloudflare/sandbox:__KOZE_SDK__`\n\
             needs none. `koze dev --local` needs neither.",
        ),
    ],
};

/// A project to create.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    dir: &'a Path,
    name: &'a str,
    backend: args::Backend,
    runtime: &'a Runtime,
}

pub(super) fn run(args: &args::New) -> ExitCode {
    let mut findings = Findings::new(false);
    let done = create(args, &mut findings);
    if let Ok((build, name)) = &done {
        let dir = quote_path(&args.dir.display().to_string());
        show::out(&format!("created the package `{name}` in {dir}\n"));
        show::out(&output::human::sandboxes(build));
        if cfg!(unix) {
            show::out(&format!("try:  cd {dir} && koze call shell '{{\"command\": \"uname -a\"}}'\n"));
        }
        show::out(&format!(
            "next: cd {dir} && npm install && npm run check (its README.md says what these need)\n"
        ));
        if args.backend == args::Backend::Managed {
            show::out(&format!("{}\n", backend::BETA));
            show::out(
                "note: `cloudflare/debian-trixie` has Node, and lacks Python, Git and curl: set `image` to a Dockerfile for other programs\n",
            );
        }
        if args.backend == args::Backend::Sdk {
            show::out(&format!(
                "note: {}. `koze new` without `--backend sdk` creates a project without it, `koze migrate --backend native` moves this one\n",
                sdk::maintenance()
            ));
        }
    }
    show::findings(&findings);
    ExitCode::from(u8::from(done.is_err()))
}

pub(super) fn create(args: &args::New, findings: &mut Findings) -> Result<(Build, String), Stop> {
    let dir = paths::normal(&std::path::absolute(&args.dir).unwrap_or_else(|_| args.dir.clone()));
    let shown = args.dir.display().to_string();
    let name = match &args.name {
        Some(name) => name.clone(),
        None => dir.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let parent = dir.parent().unwrap_or(&dir).to_owned();
    let directory_lock = if parent.is_dir() { Some(lock_parent(&parent, findings)?) } else { None };
    if let Some(done) = resume_move(&dir, args.backend, findings) {
        return done.map(|build| (build, name));
    }
    let empty = fs_err::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_none());
    let occupied = dir.is_symlink() || (dir.exists() && !empty);
    if occupied {
        return findings.fail(Rule::DirOccupied { dir: shown }, None);
    }
    if !is_package_name(&name) {
        let suggestion = suggest_name(&name);
        return findings.fail(Rule::BadPackageName { name, suggestion }, None);
    }
    let runtime = runtime::find(args.runtime_path.as_deref(), findings)?;

    let mut made = Vec::new();
    let done = match write::make_dirs(&parent, &mut made) {
        Ok(()) => {
            directory_lock.map_or_else(|| lock_parent(&parent, findings), Ok).and_then(|_directory_lock| {
                build_in_staging(
                    &parent,
                    &Wanted { dir: &dir, name: &name, backend: args.backend, runtime: &runtime },
                    findings,
                )
            })
        }
        Err(error) => findings.io(&error),
    };
    if done.is_err() {
        write::remove_empty(&made);
    }
    done.map(|build| (build, name))
}

/// Locks the parent directory against other runs, and deletes what a killed run left in it.
fn lock_parent(parent: &Path, findings: &mut Findings) -> Result<Arc<File>, Stop> {
    let directory_lock = build::lock_directory(parent, findings)?;
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let real = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if real && disk::is_temp_dir(&entry.file_name().to_string_lossy(), STAGING) {
            let _ = disk::remove_dir_all(&entry.path());
        }
    }
    Ok(directory_lock)
}

/// Builds the project in a staging directory next to its destination, so that lookups in parent directories give the
/// same results, and moves it into place.
fn build_in_staging(parent: &Path, wanted: &Wanted, findings: &mut Findings) -> Result<Build, Stop> {
    let staging = match disk::temp_dir(parent, STAGING) {
        Ok(staging) => staging,
        Err(error) => return findings.io(&error),
    };
    if let Err(error) = write_files(staging.path(), wanted) {
        return findings.io(&error);
    }
    let build = build_project(staging.path(), wanted.backend, true, findings)?;
    if let Err(failed) = move_into_place(staging.path(), wanted.dir) {
        return build::interrupted(failed, findings);
    }
    let _ = staging.keep();
    Ok(build)
}

fn build_project(
    dir: &Path,
    backend: args::Backend,
    staged: bool,
    findings: &mut Findings,
) -> Result<Build, Stop> {
    let mut build = Build::default();
    let sdk = Sdk { version: sdk::RECOMMENDED.to_owned(), source: "package.json".to_owned() };
    // Pass the configuration and the SDK explicitly, so that files in parent directories have no effect.
    let options = Options {
        project: dir.to_owned(),
        config: Some(dir.join("wrangler.jsonc")),
        sdk: (backend == args::Backend::Sdk).then_some(sdk),
        draft: Draft::default(),
        write: true,
        worker: true,
        directory_lock: None,
        staged,
    };
    build::run(&options, &mut build, findings)?;
    Ok(build)
}

/// Moves a finished project into place. An existing empty directory is filled entry by entry, not replaced, because it
/// may be the working directory of another process.
fn move_into_place(staging: &Path, dir: &Path) -> Result<(), Failed> {
    let nothing = |error| Failed { error, written: Vec::new() };
    if !dir.is_dir() {
        return disk::rename(staging, dir).map_err(nothing);
    }
    let moving = moving_path(dir);
    disk::rename(staging, &moving).map_err(nothing)?;
    move_in(&moving, dir).inspect_err(|failed| {
        if failed.written.is_empty() {
            let _ = disk::remove_dir_all(&moving);
        }
    })
}

/// Returns the path of a finished project whose entries are being moved into an empty directory.
fn moving_path(dir: &Path) -> PathBuf {
    dir.with_file_name(format!(
        ".koze-into-{}.koze-tmp",
        dir.file_name().unwrap_or_default().to_string_lossy()
    ))
}

fn move_in(moving: &Path, dir: &Path) -> Result<(), Failed> {
    let mut written = Vec::new();
    let mut move_all = || {
        for entry in fs_err::read_dir(moving)? {
            let entry = entry?;
            let to = dir.join(entry.file_name());
            if to.symlink_metadata().is_ok() {
                return Err(std::io::Error::other(format!("`{}` already exists", to.display())));
            }
            disk::rename(&entry.path(), &to)?;
            written.push(entry.file_name().to_string_lossy().into_owned());
        }
        disk::remove_dir_all(moving)
    };
    move_all().map_err(|error| Failed { error, written })
}

/// Resumes the move that a killed run left unfinished. Returns `None` if there was none.
fn resume_move(dir: &Path, backend: args::Backend, findings: &mut Findings) -> Option<Result<Build, Stop>> {
    let moving = moving_path(dir);
    // A link could lead to files of others.
    if !dir.is_dir() || !moving.is_dir() || moving.is_symlink() {
        return None;
    }
    let done = move_in(&moving, dir).or_else(|failed| build::interrupted(failed, findings));
    Some(done.and_then(|()| build_project(dir, backend, false, findings)))
}

fn write_files(staging: &Path, wanted: &Wanted) -> std::io::Result<()> {
    let Wanted { dir, name, backend, runtime } = *wanted;
    let parts = match backend {
        args::Backend::Native => NATIVE,
        args::Backend::Managed => MANAGED,
        args::Backend::Sdk => SDK,
    };
    let dependency = runtime.dependency(dir);
    let container = create::worker_name(name).replace('_', "-");
    for (path, template) in koze_templates::PROJECT.iter().chain(parts.files) {
        let name = if *path == koze_templates::SHELL { &container } else { name };
        let mut text = template.replace("__KOZE_NAME__", name).replace("__KOZE_DEPENDENCY__", &dependency);
        for (placeholder, part) in parts.readme {
            text = text.replace(placeholder, part);
        }
        text = text.replace("__KOZE_SDK__", sdk::RECOMMENDED);
        if *path == "Cargo.toml" && in_workspace(dir) {
            text.push_str("\n# This package is not a member of the surrounding workspace.\n[workspace]\n");
        }
        let path = staging.join(path);
        write::make_dirs(path.parent().unwrap_or(staging), &mut Vec::new())?;
        disk::write(&path, text.as_bytes())?;
    }
    disk::write(&staging.join("wrangler.jsonc"), create::config(name).as_bytes())
}

/// Returns whether a manifest in a parent directory declares a workspace.
fn in_workspace(dir: &Path) -> bool {
    dir.ancestors().skip(1).any(|dir| {
        let manifest = input::read_text(&dir.join("Cargo.toml")).unwrap_or_default();
        manifest
            .parse::<toml_edit::Document<String>>()
            .is_ok_and(|manifest| manifest.contains_key("workspace"))
    })
}

/// Returns a valid package name that resembles this one.
fn suggest_name(name: &str) -> String {
    let stem: String = create::worker_name(name)
        .trim_start_matches(|c: char| !c.is_ascii_alphabetic())
        .chars()
        .take(50)
        .collect();
    let stem = stem.trim_end_matches('-').to_owned();
    let agent = format!("{stem}-agent");
    [stem, agent].into_iter().find(|name| is_package_name(name)).unwrap_or_else(|| "my-agent".to_owned())
}

/// Returns whether cargo accepts the name and it leaves room for `-shell` in the container's name.
fn is_package_name(name: &str) -> bool {
    let characters = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let crate_name = name.replace('-', "_");
    // cargo rejects keywords and its reserved names.
    let taken = syn::parse_str::<syn::Ident>(&crate_name).is_err()
        || [
            "test",
            "core",
            "std",
            "alloc",
            "proc_macro",
            "koze",
            "worker",
            "build",
            "deps",
            "examples",
            "incremental",
        ]
        .contains(&crate_name.as_str());
    let container = format!("{}-shell", create::worker_name(name).replace('_', "-"));
    characters && !taken && names::is_container_name(&container)
}

/// Quotes a path for a shell.
fn quote_path(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_./-".contains(c);
    if path.chars().all(plain) { path.to_owned() } else { single_quoted(path) }
}
