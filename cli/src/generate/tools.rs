//! Generates `tools.rs` and `tools.json`: the handlers and definitions of the agents' tools.

use koze_core::Images;
use koze_core::provider::Image;
use koze_core::tool::dialect::Dialect;
use koze_core::tool::{All, Catalog, Families, Family};
use koze_model::Sandbox;
use koze_templates::TOOLS;
use serde_json::{Value, json};

use super::MARK;
use super::env::code;
use super::template::{Fill, Template};

/// Renders the handlers and definitions. `offered` holds the images that agents may name, if any sandbox serves agents.
pub(super) fn render(sandboxes: &[Sandbox], offered: Option<&Images>) -> [(&'static str, String); 2] {
    [("tools.rs", handlers(sandboxes, offered)), ("tools.json", definitions(offered))]
}

fn handlers(sandboxes: &[Sandbox], offered: Option<&Images>) -> String {
    let served: Vec<Fill> = offered.map(whole).into_iter().collect();
    let list = sandboxes.iter().filter_map(|sandbox| {
        let images = offered?;
        let image = images.list().iter().find(|image| image.name == sandbox.names.base)?;
        Some(one(sandbox, image, image.name == images.default_image().name))
    });
    let list: Vec<Fill> = list.collect();
    Template::new(TOOLS).render(&Fill::default(), &|region| match region {
        "served" => &served,
        "image" => &list,
        other => unreachable!("the template has a region {other} that nobody fills"),
    })
}

/// Returns the values of the template outside its repeated regions.
fn whole(images: &Images) -> Fill {
    let names: Vec<&str> = images.list().iter().map(|image| image.name.as_str()).collect();
    let families = All::ALL.iter().filter(|one| images.serve(**one)).map(|one| family(*one));
    Fill {
        holes: vec![
            ("__KOZE_COUNT__", names.len().to_string()),
            ("__KOZE_NAMES__", literals(&names)),
            ("__KOZE_FAMILIES__", families.collect::<Vec<_>>().join(", ")),
        ],
        regions: Vec::new(),
    }
}

fn one(sandbox: &Sandbox, image: &Image, default: bool) -> Fill {
    let mut fill = Fill {
        holes: vec![
            ("__KOZE_DOC__", format!("That of {}: {}.", code(&sandbox.file), code(&image.reference))),
            ("__KOZE_VARIANT__", sandbox.names.variant.clone()),
            ("__KOZE_BINDING__", sandbox.names.binding.clone()),
            ("__KOZE_NAME__", image.name.clone()),
            ("__KOZE_REFERENCE__", image.reference.escape_debug().to_string()),
            ("__KOZE_INTERNET__", image.internet.to_string()),
            ("__KOZE_MEMORY__", image.size.memory_mib.to_string()),
            ("__KOZE_DISK__", image.size.disk_mb.to_string()),
        ],
        regions: Vec::new(),
    };
    if default {
        fill.regions.push("default");
    }
    let mut part = |region, hole, value: Option<String>| {
        if let Some(value) = value {
            fill.regions.push(region);
            fill.holes.push((hole, value));
        }
    };
    let some = |text: String| (!text.is_empty()).then_some(text);
    let env: Vec<String> = image.env.iter().map(|(name, value)| format!("({name:?}, {value:?})")).collect();
    part("allowed_hosts", "__KOZE_ALLOWED_HOSTS__", some(literals(&image.allowed_hosts)));
    part("denied_hosts", "__KOZE_DENIED_HOSTS__", some(literals(&image.denied_hosts)));
    part("env", "__KOZE_ENV__", some(env.join(", ")));
    let tools = || image.tools.iter().map(|one| format!("::koze::tool::Family::{one:?}")).collect::<Vec<_>>();
    part("tools", "__KOZE_IMAGE_TOOLS__", (image.tools != [Family::Agent]).then(|| tools().join(", ")));
    if let Some((unit, number)) = image.sleep_after.map(|sleep| largest(sleep.as_secs())) {
        part("sleep_after", "__KOZE_UNIT__", Some(unit.to_owned()));
        fill.holes.push(("__KOZE_TIME__", number.to_string()));
    }
    fill
}

/// Converts seconds to the largest unit that divides them, with its constructor.
fn largest(seconds: u64) -> (&'static str, u64) {
    match seconds {
        _ if seconds.is_multiple_of(3600) => ("from_hours", seconds / 3600),
        _ if seconds.is_multiple_of(60) => ("from_mins", seconds / 60),
        _ => ("from_secs", seconds),
    }
}

/// The type of a family's tools.
fn family(family: Family) -> &'static str {
    match family {
        Family::Agent => "::koze::tool::agent::Agent",
        other => unreachable!("no sandbox can serve the tools `{other}` yet"),
    }
}

/// Joins texts as Rust literals.
fn literals<T: std::fmt::Debug>(texts: &[T]) -> String {
    texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ")
}

fn definitions(offered: Option<&Images>) -> String {
    // Without a default toolset there is nothing to list.
    let of = |images: &Images| Some(Catalog::<All>::select(images, None).ok()?.definitions(images));
    let definitions = offered.and_then(of).unwrap_or_default();
    let tools: Vec<Value> = definitions.iter().map(|tool| tool.to_json(Dialect::Mcp)).collect();
    format!("{:#}\n", json!({ "$comment": MARK, "tools": tools }))
}
