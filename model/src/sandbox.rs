//! Parses and checks a single sandbox or container: a struct, its attribute and the names derived from its file.

use proc_macro2::{Span, TokenStream};
use syn::ItemStruct;

use crate::attrs::{self, Attributes};
use crate::backend::Backend;
use crate::depth;
use crate::image::Image;
use crate::kind::Kind;
use crate::names::{self, Names};
use crate::report::{Diagnostic, Report};
use crate::rules::Rule;
use crate::syntax;
use crate::value::Spanned;
use koze_protocol::Family;

/// A validated sandbox, or a container that runs a service: what a file declares.
#[derive(Debug, Clone)]
pub struct Sandbox {
    /// The source file, relative to the package, with `/`.
    pub file: String,
    /// The name of the struct, which is also the class of the Durable Object.
    pub class: Spanned<String>,
    /// Whether the struct is `pub`, and so may be visible outside the crate.
    pub public: bool,
    /// The names derived from the file's name.
    pub names: Names,
    /// The parsed attribute.
    pub attributes: Attributes,
}

impl Sandbox {
    /// Returns whether a command that gets this name means it: the name of its file, or its class.
    pub fn is_named(&self, name: &str) -> bool {
        self.names.base == name || self.class.value == name
    }

    /// Returns whether it is a sandbox or a container.
    pub fn kind(&self) -> Kind {
        self.names.kind
    }

    /// Returns whether koze's guest is in its image.
    pub fn has_guest(&self) -> bool {
        self.kind() == Kind::Sandbox && self.attributes.backend().has_own_guest()
    }

    /// Returns the container application: the key `name`, or the name derived from the file.
    pub fn container(&self) -> &str {
        self.attributes.name.as_ref().map_or(&self.names.container, |name| &name.value)
    }

    /// Parses a file that declares a sandbox or a container. Adds errors to `report`; `exists` returns whether a path relative to the file exists.
    ///
    /// `file` is its path relative to the package, with `/`; `text` is its content, without a byte order mark.
    pub fn read(
        file: &str,
        text: &str,
        exists: &dyn Fn(&str) -> bool,
        report: &mut Report,
    ) -> Option<Sandbox> {
        let kind = Kind::of_file(file).unwrap_or_default();
        let names = Names::of_file(file).map_err(Rule::from);
        let parsed = match depth::parse_file(text) {
            Ok(parsed) => parsed,
            Err(error) => {
                let span = match text.parse() {
                    Ok(tokens) => syntax::error_span(&error, &tokens),
                    Err(_) => error.span(),
                };
                // proc-macro2 reports all lexical errors with the same message.
                let message = match error.to_string() {
                    text if text.contains("token stream") => "unclosed bracket or literal".to_owned(),
                    text => text,
                };
                report.add(Rule::NotRust { message }, span);
                return None;
            }
        };
        let suggestion = names.as_ref().map_or_else(|_| kind.example_class().to_owned(), class_of);
        let found = syntax::find(&parsed, kind, &suggestion, report);
        let Some(found) = found else {
            if let Err(rule) = names {
                report.push(Diagnostic::at(rule, 0, None));
            }
            return None;
        };
        if let Some(condition) = parsed.attrs.iter().find(|attribute| syntax::is_condition(attribute)) {
            let class = found.item.ident.to_string();
            report.add(Rule::Conditional { kind, class }, condition.path().segments[0].ident.span());
            return None;
        }
        let mut item = found.item.clone();
        // The macro receives the item without its own attribute.
        item.attrs.remove(found.attribute);
        Sandbox::check(file, &item, &found.tokens, kind, names, exists, report)
    }

    /// Checks one struct. Adds errors to `report`, and returns the sandbox only if there are none.
    pub fn check(
        file: &str,
        item: &ItemStruct,
        tokens: &TokenStream,
        kind: Kind,
        names: Result<Names, Rule>,
        exists: &dyn Fn(&str) -> bool,
        report: &mut Report,
    ) -> Option<Sandbox> {
        let class = item.ident.to_string();
        let span = item.ident.span();
        let mut found = Report::new();

        let names = match names {
            Ok(names) if names.kind == kind => Some(names),
            Ok(_) => {
                found.add(
                    Rule::NotASandboxFile { kind, file: file.to_owned(), class: Some(class.clone()) },
                    span,
                );
                None
            }
            Err(rule) => {
                let rule = match rule {
                    Rule::NotASandboxFile { file, .. } => {
                        Rule::NotASandboxFile { kind, file, class: Some(class.clone()) }
                    }
                    other => other,
                };
                found.add(rule, span);
                None
            }
        };
        if let Some(again) = item.attrs.iter().find(|attribute| syntax::declares(attribute, kind)) {
            found.add(Rule::RepeatedKey { key: format!("#[{kind}]") }, again.path().segments[0].ident.span());
        }
        if let Some(condition) = item.attrs.iter().find(|attribute| syntax::is_condition(attribute)) {
            found.add(
                Rule::Conditional { kind, class: class.clone() },
                condition.path().segments[0].ident.span(),
            );
        }
        if !item.generics.params.is_empty() {
            found.add(Rule::Generic { kind, class: class.clone() }, span);
        }
        if let Some(why) = names::reserved_class(&class) {
            let class = class.trim_start_matches("r#").to_owned();
            found.add(Rule::ReservedClass { kind, class, why }, span);
        }
        let attributes = attrs::parse(tokens, kind, &mut found);
        check_service(&attributes, span, &mut found);
        if let Some(names) = &names {
            check_workspace(&attributes, names, span, &mut found);
        }
        check_paths(file, &attributes, exists, &mut found);

        let sandbox = names.filter(|_| !found.has_errors()).map(|names| Sandbox {
            file: file.to_owned(),
            class: Spanned::new(class, span),
            public: matches!(item.vis, syn::Visibility::Public(_)),
            names,
            attributes,
        });
        report.extend(found);
        sandbox
    }
}

impl Sandbox {
    /// Returns the names of its images, the default one first: those in `images`, or that of the file.
    pub fn image_names(&self) -> Vec<&str> {
        match &self.attributes.images {
            Some(images) => images.value.iter().map(|(name, _)| name.as_str()).collect(),
            None => vec![&self.names.base],
        }
    }

    /// Returns the variants of the generated `Profile`, one for each image. A service has none, because agents do not use it.
    pub(crate) fn image_variants(&self) -> Vec<String> {
        if self.kind() == Kind::Container {
            return Vec::new();
        }
        self.image_names().into_iter().map(names::variant).collect()
    }

    /// Returns the name of its workspace: the key `name`, or the name derived from the file. Returns nothing if the sandbox
    /// does not serve the tools `workspace`.
    pub fn workspace(&self) -> Option<String> {
        workspace_name(&self.attributes, &self.names)
    }
}

fn workspace_name(attributes: &Attributes, names: &Names) -> Option<String> {
    let declared = attributes.workspace.as_ref().and_then(|workspace| workspace.value.name.as_ref());
    let name = declared.map_or_else(|| names.base.replace('_', "-"), |name| name.value.clone());
    attributes.serves(Family::Workspace).then_some(name)
}

/// Checks that the file's name can be the name of the workspace, if the attribute does not set one.
fn check_workspace(attributes: &Attributes, names: &Names, class: Span, report: &mut Report) {
    if let Some(name) = workspace_name(attributes, names)
        && !attrs::is_name(&name)
    {
        let span = attributes.workspace.as_ref().map_or(class, |workspace| workspace.span);
        let key = "workspace(name)".to_owned();
        report.add(Rule::BadValue { key, found: name, expected: attrs::NAME_FORM.to_owned() }, span);
    }
}

/// Checks that a container has the keys that it needs; `class` is the span of its struct.
fn check_service(attributes: &Attributes, class: Span, report: &mut Report) {
    if attributes.kind != Kind::Container {
        return;
    }
    let mut require = |key: &'static str, why: &'static str, span: Span| {
        report.add(Rule::MissingKey { kind: Kind::Container, key, why }, span);
    };
    if attributes.port.is_none() {
        require("port", "the class forwards requests to this port of the container", class);
    }
    if attributes.backend() == Backend::Managed && attributes.entrypoint.is_none() {
        let why = "a Durable Object starts its container with a program and its arguments, and not with those of the image";
        require("entrypoint", why, attributes.backend.as_ref().map_or(class, |backend| backend.span));
    }
}

/// Checks that the Dockerfiles named in the attribute exist, and that keys of their builds apply to an image.
fn check_paths(file: &str, attributes: &Attributes, exists: &dyn Fn(&str) -> bool, report: &mut Report) {
    let images: Vec<&Spanned<Image>> = attributes.declared_images().collect();
    for Spanned { value, span } in &images {
        if let Image::Dockerfile(path) = value
            && !exists(path)
        {
            let directory = file.rsplit_once('/').map_or(".", |(directory, _)| directory);
            report.add(Rule::NoDockerfile { path: path.clone(), looked_in: directory.to_owned() }, *span);
        }
    }
    if images.iter().any(|image| matches!(image.value, Image::Dockerfile(_))) {
        return;
    }
    let Some(first) = images.first() else { return };
    let only_for_dockerfiles = [
        ("image_build_context", attributes.image_build_context.as_ref().map(|path| path.span)),
        ("image_vars", attributes.image_vars.as_ref().map(|vars| vars.span)),
    ];
    for (key, span) in only_for_dockerfiles {
        if let Some(span) = span {
            report.add(not_built(key, &first.value), span);
        }
    }
}

fn not_built(key: &str, image: &Image) -> Rule {
    let image = image.text();
    Rule::Exclusive {
        key: key.to_owned(),
        other: "image".to_owned(),
        why: format!("`{key}` is for Dockerfiles, and `{image}` is not built from one: remove `{key}`"),
    }
}

/// Returns the class for the names of a file: `PythonSandbox` for `python.sandbox.rs`.
pub fn class_of(names: &Names) -> String {
    use heck::ToUpperCamelCase;
    format!("{}{}", names.base.to_upper_camel_case(), names.kind.class_suffix())
}

#[cfg(test)]
mod tests;
