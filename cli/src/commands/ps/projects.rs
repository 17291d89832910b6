//! `koze ps --all-projects`: the sandboxes of all packages, and how to remove those of packages that no longer exist.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use super::{HEAD, Row, collect_rows, show, to_cells, to_json};
use crate::args::{self, ListFormat};
use crate::commands::local::local_session;
use crate::commands::local::table::table;
use crate::output::shell::single_quoted;
use crate::session::State;

/// A package with a state directory.
struct Project {
    state: PathBuf,
    /// The package, if a koze that records it has used the directory.
    package: Option<PathBuf>,
    /// Its sandboxes.
    rows: Vec<Row>,
}

impl Project {
    /// Returns whether the package no longer exists.
    fn is_gone(&self) -> bool {
        self.package.as_ref().is_some_and(|package| !package.exists())
    }

    /// Returns the command that removes the state directory. A supervisor whose directory is gone exits.
    fn removal(&self) -> String {
        format!("rm -rf -- {}", single_quoted(&self.state.to_string_lossy()))
    }
}

pub(super) fn list(args: &args::Ps) -> Result<ExitCode, ExitCode> {
    let dirs = State::of_all_projects().map_err(|error| local_session::failed(&error))?;
    let mut code = ExitCode::SUCCESS;
    let mut projects = Vec::new();
    for dir in dirs {
        match local_session::wait(inspect_directory(dir, args.session.as_deref()))? {
            Ok(project) => projects.push(project),
            // The others are listed nevertheless.
            Err(error) => code = local_session::failed(&error),
        }
    }
    show::out(&match args.format {
        ListFormat::Json => in_json(&projects),
        ListFormat::Human => in_words(&projects),
    });
    Ok(code)
}

async fn inspect_directory(dir: PathBuf, session: Option<&str>) -> koze_core::Result<Project> {
    let state = State::at(dir.clone())?;
    let mut rows = collect_rows(&state, None).await?;
    rows.retain(|row| session.is_none_or(|session| session == row.sandbox.id.session.session()));
    Ok(Project { state: dir, package: state.project(), rows })
}

fn in_json(projects: &[Project]) -> String {
    let to_project = |project: &Project| {
        let sandboxes: Vec<_> = project.rows.iter().map(to_json).collect();
        json!({
            "project": project.package,
            "state": project.state,
            "exists": project.package.as_ref().map(|_| !project.is_gone()),
            "removal": project.is_gone().then(|| project.removal()),
            "sandboxes": sandboxes,
        })
    };
    let list: Vec<_> = projects.iter().map(to_project).collect();
    format!("{:#}\n", json!({ "projects": list }))
}

fn in_words(projects: &[Project]) -> String {
    if projects.is_empty() {
        return "no package has sandboxes on this machine\n".to_owned();
    }
    let mut text = String::new();
    for project in projects {
        let name = match &project.package {
            Some(package) => package.display().to_string(),
            None => format!("an unknown package, in {}", project.state.display()),
        };
        text.push_str(&name);
        if project.is_gone() {
            text.push_str(", which no longer exists; to remove its sandboxes and their files:\n  ");
            text.push_str(&project.removal());
        }
        text.push('\n');
        if project.rows.is_empty() {
            text.push_str("no sandboxes\n");
        } else {
            text.push_str(&table(HEAD, project.rows.iter().map(to_cells)));
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}
