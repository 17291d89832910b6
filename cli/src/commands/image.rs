//! `koze image`: the store of unpacked images on this machine.

mod build;
mod names;
mod progress;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use koze_image::{Listed, Reference, Removed, Result, Store};
use serde_json::json;

use self::names::Named;
use self::progress::Bars;
use super::call_lines::visible;
use super::show;
use super::size::format_bytes;
use super::table::table;
use super::time::time;
use super::{since, size};
use crate::args::{self, ContainerEngine, ImageAction, ImageArgs, ListFormat};
use crate::image_build::{self, Failure};
use crate::images::readable_name;
use crate::provider::BuildEgress;

pub(super) fn run(args: &args::Image) -> std::result::Result<ExitCode, ExitCode> {
    match &args.action {
        ImageAction::Pull { names, place, from } => pull(names, place, *from),
        ImageAction::Build { names, place, engine, allow_host, internet, force } => {
            let egress = BuildEgress { internet: *internet, allowed_hosts: allow_host.clone() };
            build::run(names, place, *engine, egress, *force)
        }
        ImageAction::List { format } => list(*format),
        ImageAction::Rm { names, place } => remove(names, place),
        ImageAction::Prune { max_size, unused_for } => prune(max_size.as_deref(), unused_for.as_deref()),
        ImageAction::Import { file, name } => import(file, name.as_deref()),
        ImageAction::Export { name, file, place } => export(name, file, place),
    }
}

fn open() -> std::result::Result<Store, ExitCode> {
    Store::open(&Store::default_directory()).map_err(|error| report(&error))
}

/// Shows an error, which may quote what a registry or an archive says.
fn report(error: &koze_image::Error) -> ExitCode {
    show::failure(&visible(&error.to_string()))
}

/// Continues with the value, or shows the error.
fn check<T>(result: Result<T>) -> std::result::Result<T, ExitCode> {
    result.map_err(|error| report(&error))
}

fn pull(
    names: &[String],
    place: &ImageArgs,
    from: Option<ContainerEngine>,
) -> std::result::Result<ExitCode, ExitCode> {
    if let Some(engine) = from {
        build::check_answers(engine)?;
    }
    let images = if names.is_empty() { names::find_all(place)? } else { names::find(names, place)? };
    let store = open()?;
    let mut code = ExitCode::SUCCESS;
    for Named { reference, shown, recipe } in images {
        if recipe.is_some() {
            code =
                show::failure(&format!("`{shown}` comes from a Dockerfile: run `koze image build {shown}`"));
            continue;
        }
        let Some(reference) = reference else {
            code = show::failure(&shown);
            continue;
        };
        show::err(&format!("pulling {shown}\n"));
        let bars = Bars::new();
        let pulled = match from {
            Some(engine) => image_build::copy_image(engine, &store, &reference, &|event| bars.show(event)),
            None => store.pull(&reference, &|event| bars.show(event)).map_err(Failure::from),
        };
        bars.clear();
        match pulled {
            Ok(image) => show::out(&format!("{shown} {}\n", image.id)),
            Err(failure) => code = show::failure(&visible(&failure.to_string())),
        }
    }
    Ok(code)
}

fn import(file: &Path, name: Option<&str>) -> std::result::Result<ExitCode, ExitCode> {
    let name = name.map(names::parse).transpose()?;
    let store = open()?;
    let bars = Bars::new();
    let imported = store.import(file, name.as_ref(), &|event| bars.show(event));
    bars.clear();
    for (reference, image) in check(imported)? {
        show::out(&format!("{} {}\n", visible(&reference.to_string()), image.id));
    }
    Ok(ExitCode::SUCCESS)
}

fn export(name: &str, file: &Path, place: &ImageArgs) -> std::result::Result<ExitCode, ExitCode> {
    let images = names::find(&[name.to_owned()], place)?;
    let (reference, shown) = match images.as_slice() {
        [Named { reference: Some(reference), shown, .. }] => (reference, shown),
        [Named { reference: None, shown, .. }] => return Err(show::failure(shown)),
        several => {
            let names: Vec<_> = several.iter().map(|image| image.shown.as_str()).collect();
            return Err(show::usage(&format!(
                "a file contains one image: choose one of {}",
                names.join(", ")
            )));
        }
    };
    check(open()?.export(reference, file))?;
    show::out(&format!("wrote {shown} to {}\n", file.display()));
    Ok(ExitCode::SUCCESS)
}

fn list(format: ListFormat) -> std::result::Result<ExitCode, ExitCode> {
    // Listing creates nothing.
    let listed = if Store::default_directory().exists() { check(open()?.list())? } else { Vec::new() };
    match format {
        ListFormat::Human => show::out(&in_words(&listed)),
        ListFormat::Json => {
            let images: Vec<_> = listed.iter().map(in_json).collect();
            show::out(&format!("{:#}\n", json!({ "images": images })));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn in_words(listed: &[Listed]) -> String {
    if listed.is_empty() {
        let next =
            "`koze image pull` downloads those of the project, and `koze image build` builds its Dockerfiles";
        return format!("no images: {next}\n");
    }
    let row = |image: &Listed| {
        let size = if image.is_complete { format_bytes(image.bytes) } else { "incomplete".to_owned() };
        let id = image.id.trim_start_matches("sha256:").chars().take(12).collect();
        let name = match readable_name(&image.reference) {
            Some(name) => format!("{name} (built)"),
            None => image.reference.clone(),
        };
        [name, id, image.layers.to_string(), size, used(image)]
    };
    table(["IMAGE", "ID", "LAYERS", "SIZE", "USED"], listed.iter().map(row))
}

fn in_json(image: &Listed) -> serde_json::Value {
    json!({
        "reference": image.reference,
        "id": image.id,
        "layers": image.layers,
        "bytes": image.bytes,
        "used": used(image),
        "complete": image.is_complete,
    })
}

fn used(image: &Listed) -> String {
    let since = image.used.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    time(u64::try_from(since.as_millis()).unwrap_or_default())
}

fn remove(names: &[String], place: &ImageArgs) -> std::result::Result<ExitCode, ExitCode> {
    let images = names::find(names, place)?;
    let store = open()?;
    let mut code = ExitCode::SUCCESS;
    for Named { reference, shown, .. } in images {
        let Some(reference) = reference else {
            code = show::failure(&shown);
            continue;
        };
        let Some(removed) = check(store.remove(&reference))? else {
            let why = format!("the store has no image `{shown}`: `koze image list` lists them");
            code = show::failure(&why);
            continue;
        };
        show::out(&describe(&removed));
    }
    Ok(code)
}

fn prune(max_size: Option<&str>, unused_for: Option<&str>) -> std::result::Result<ExitCode, ExitCode> {
    let usage = |text: String| show::usage(&text);
    let max_bytes =
        max_size.map(size::parse).transpose().map_err(|why| usage(format!("--max-size: {why}")))?;
    let duration = |text: &str| {
        since::parse_duration(text).ok_or_else(|| {
            usage(format!(
                "--unused-for: `{}` is not a duration: write one such as 12h or 30d",
                text.escape_debug()
            ))
        })
    };
    let unused_for = unused_for.map(duration).transpose()?;
    show::out(&describe(&check(open()?.prune(max_bytes, unused_for))?));
    Ok(ExitCode::SUCCESS)
}

/// Returns what was removed, as lines.
fn describe(removed: &Removed) -> String {
    let mut text = String::new();
    for reference in &removed.references {
        let _ = writeln!(text, "removed {}", visible(reference));
    }
    if removed.held > 0 {
        let held = removed.held;
        let _ =
            writeln!(text, "sandboxes still use {held} layers, which the next `koze image prune` removes");
    }
    let _ = writeln!(text, "freed {}", format_bytes(removed.bytes));
    text
}

/// Returns a reference for people. It may come from a repository of somebody else.
fn show_reference(reference: &Reference) -> String {
    visible(&reference.to_string())
}
