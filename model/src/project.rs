//! Checks all sandboxes and containers of a project together.

use std::collections::HashMap;

use proc_macro2::Span;

use crate::backend::Backend;
use crate::kind::Kind;
use crate::report::{Diagnostic, Report};
use crate::rules::Rule;
use crate::sandbox::Sandbox;

/// Reports names that two sandboxes share, a second default, and sandboxes whose files cannot be copied.
///
/// The file indices in the diagnostics are indices into `sandboxes`.
pub fn check(sandboxes: &[Sandbox], report: &mut Report) {
    let mut bindings = Seen::new("binding", "it follows from both file names: rename one of the files");
    let mut bases =
        Seen::new("module", "a sandbox and a container have different names: rename one of the files");
    let mut classes =
        Seen::new("class", "a Durable Object class must be unique in a Worker: rename one of the structs");
    let mut containers = Seen::new(
        "container name",
        "an application's name must be unique in the account: give one of them another `name`",
    );
    let workspaces: Vec<Option<String>> = sandboxes.iter().map(Sandbox::workspace).collect();
    let mut named = Seen::new(
        "workspace",
        "tools are named after it: give one of them another `name` in `workspace(..)`",
    );
    let variants: Vec<Vec<String>> = sandboxes.iter().map(Sandbox::image_variants).collect();
    let mut images = Seen::new(
        "image",
        "agents choose a sandbox by the name of its image: rename one of the files, or one of the names in `images(..)`",
    );
    let modules: HashMap<&str, usize> =
        sandboxes.iter().enumerate().map(|(index, sandbox)| (sandbox.names.module.as_str(), index)).collect();
    let mut default: Option<(usize, &Sandbox, Span)> = None;

    for (index, sandbox) in sandboxes.iter().enumerate() {
        let class = sandbox.class.span;
        let name = sandbox.attributes.name.as_ref().map_or(class, |name| name.span);
        // Two files with the same binding also share the module and container name: one diagnostic is enough.
        let kind = sandbox.kind();
        if bindings.insert(&sandbox.names.binding, index, kind, class, report)
            && bases.insert(&sandbox.names.module, index, kind, class, report)
        {
            containers.insert(sandbox.container(), index, kind, name, report);
            let at = sandbox.attributes.images.as_ref().map_or(class, |images| images.span);
            for variant in &variants[index] {
                images.insert(variant, index, kind, at, report);
            }
        }
        classes.insert(&sandbox.class.value, index, kind, class, report);
        if let Some(name) = &workspaces[index] {
            let at = sandbox.attributes.workspace.as_ref().map_or(class, |workspace| workspace.span);
            named.insert(name, index, kind, at, report);
        }
        // The generated code re-exports the struct next to the modules, and types and modules share a namespace.
        if let Some(other) = modules.get(sandbox.class.value.as_str()) {
            let rule = Rule::Collision {
                kinds: [sandboxes[*other].kind(), kind],
                what: "class and module",
                name: sandbox.class.value.clone(),
                remedy: "a struct's name is in upper camel case: rename the struct",
            };
            let first = sandboxes[*other].class.span;
            report.push(Diagnostic::at(rule, index, Some(class)).with(
                *other,
                Some(first),
                "the module of this one",
            ));
        }
        check_copy(index, sandbox, sandboxes, report);
        if let Some(span) = sandbox.attributes.default {
            if let Some((first, other, at)) = default {
                let rule = Rule::SecondDefault {
                    class: sandbox.class.value.clone(),
                    first: other.class.value.clone(),
                };
                report.push(Diagnostic::at(rule, index, Some(span)).with(first, Some(at), "the first one"));
            } else {
                default = Some((index, sandbox, span));
            }
        }
    }
}

/// Reports a sandbox that copies the files of one that does not exist, or that outlast sleep elsewhere. Only the backend
/// `managed` has the key, so there are no chains.
fn check_copy(index: usize, sandbox: &Sandbox, sandboxes: &[Sandbox], report: &mut Report) {
    let Some(from) = &sandbox.attributes.copy_from else { return };
    let is_source = |other: &&Sandbox| other.kind() == Kind::Sandbox && other.names.base == from.value;
    let class = sandbox.class.value.clone();
    let name = from.value.clone();
    let rule = match sandboxes.iter().find(is_source) {
        None => Rule::NoCopySource { class, name },
        Some(other) if other.attributes.backend() == Backend::Managed => {
            Rule::ManagedCopySource { class, name }
        }
        Some(_) => return,
    };
    report.push(Diagnostic::at(rule, index, Some(from.span)));
}

/// The values of one kind of name so far.
struct Seen<'a> {
    what: &'static str,
    remedy: &'static str,
    places: HashMap<&'a str, (usize, Kind, Span)>,
}

impl<'a> Seen<'a> {
    fn new(what: &'static str, remedy: &'static str) -> Self {
        Seen { what, remedy, places: HashMap::new() }
    }

    /// Returns whether the value is new, and reports it otherwise.
    fn insert(&mut self, value: &'a str, file: usize, kind: Kind, span: Span, report: &mut Report) -> bool {
        if let Some((first, other, at)) = self.places.get(value) {
            let rule = Rule::Collision {
                kinds: [*other, kind],
                what: self.what,
                name: value.to_owned(),
                remedy: self.remedy,
            };
            report.push(Diagnostic::at(rule, file, Some(span)).with(*first, Some(*at), "first here"));
            return false;
        }
        self.places.insert(value, (file, kind, span));
        true
    }
}
