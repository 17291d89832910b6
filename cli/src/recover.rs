//! Restores what it can of a lost `koze.lock`: the generated entry point names the classes of the last build.
//!
//! Declared sandboxes need no recovery, because their entries are adopted. Classes that no file declares do: without a
//! record, koze would neither ask about their storage nor export them. The same is true of koze's own classes.

use std::collections::BTreeMap;

use koze_model::Backend;
use koze_model::names::Names;
use serde_json::Value;

use crate::discover::{Project, Sandboxes};
use crate::generate;
use crate::lock::{self, Kept, Lock, Locked};
use crate::own::Own;
use crate::wrangler::locate::Config;
use crate::write::input;

/// Adds the undeclared classes to the lock if there was no lock file.
pub fn undeclared(lock: &mut Lock, project: &Project, sandboxes: &Sandboxes, config: &Config) {
    let entry = project.dir.join(generate::ENTRY);
    let Ok(text) = input::read_text_in(&project.dir, &entry) else { return };
    for own in Own::ALL {
        let (class, binding) = (own.class().to_owned(), own.binding().to_owned());
        // Until koze 0.2, the module was next to the entry point.
        let exports =
            ["koze/", ""].map(|dir| format!("export {{ {class} }} from \"./{dir}{}\";", own.module()));
        if !project.enables(own) && text.lines().any(|line| exports.iter().any(|export| export == line)) {
            lock.set_own(own, Some(lock::LockedOwn { class, binding, migration: None }));
        }
    }
    let mut before = "";
    for line in text.lines() {
        let doc = std::mem::replace(&mut before, line);
        let Some((class, base)) =
            line.strip_prefix("export class ").and_then(|rest| rest.split_once(" extends "))
        else {
            continue;
        };
        if sandboxes.list.iter().any(|sandbox| sandbox.class.value == class) {
            continue;
        }
        let file = doc.split('`').nth(1).unwrap_or_default().to_owned();
        let names = Names::of_file(&file).ok();
        if base.starts_with("KozeKept") {
            let Some(binding) = find_binding(class, config) else { continue };
            lock.kept.push(Kept { name: class.to_owned(), class: class.to_owned(), binding });
        } else if let Some(names) = names {
            lock.sandboxes.push(Locked {
                name: names.base,
                file,
                class: class.to_owned(),
                binding: names.binding,
                migration: None,
                backend: backend_of(base).to_string(),
                container: String::new(),
                keys: Vec::new(),
                former_containers: Vec::new(),
                environments: BTreeMap::new(),
            });
        }
    }
}

/// Returns the backend that a base class of the entry point is for.
fn backend_of(base: &str) -> Backend {
    if ["KozeNative", "KozeService"].iter().any(|own| base.starts_with(own)) {
        Backend::Native
    } else if base.starts_with("KozeManaged") {
        Backend::Managed
    } else {
        Backend::Sdk
    }
}

/// Returns the binding of a class at the top level.
fn find_binding(class: &str, config: &Config) -> Option<String> {
    let bindings = config.document.value()["durable_objects"]["bindings"].as_array()?;
    let local = |binding: &&Value| binding["class_name"] == class && binding.get("script_name").is_none();
    Some(bindings.iter().find(local)?["name"].as_str()?.to_owned())
}
