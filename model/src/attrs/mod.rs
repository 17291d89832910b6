//! The grammar of `#[sandbox(..)]` and `#[container(..)]`.
//!
//! [`parse`] takes the tokens between the parentheses. [`Key::all`] lists each key once, with the example that
//! messages quote; `literal` parses single values, `nested` the keys with nested keys.

mod credentials;
pub(crate) mod keys;
mod limits;
mod literal;
mod nested;
mod workspace;

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Meta, Token};

use crate::Family;
use crate::backend::Backend;
use crate::image::{self, Image};
use crate::instance::{self, Size};
use crate::kind::Kind;
use crate::report::{Diagnostic, Report};
use crate::rules::Rule;
use crate::value::Spanned;

pub use credentials::{Credential, Placement, allowing_entry, allows};
pub use keys::{KEYS, Key};
pub use limits::Limits;
pub use literal::{HOST_FORM, is_host, is_request};
pub use nested::{Constraints, Instance, NamedImages, Observability};
pub use workspace::{Code, NAME_FORM, Shell, Snapshot, Workspace, is_name};

/// Returns the names of the keys of an attribute.
fn key_names(kind: Kind) -> Vec<&'static str> {
    Key::all(kind).into_iter().map(|key| key.name).collect()
}

/// A parsed attribute. Keys that were not given are `None` or empty.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "each other field is the key of the same name: see Key::all")]
pub struct Attributes {
    /// Whose attribute it is.
    pub kind: Kind,
    pub image: Option<Spanned<Image>>,
    pub variant: Option<Spanned<String>>,
    pub instance_type: Option<Spanned<String>>,
    pub instance: Option<Spanned<Instance>>,
    pub max_instances: Option<Spanned<u32>>,
    pub name: Option<Spanned<String>>,
    pub sleep_after: Option<Spanned<String>>,
    pub env_vars: Vec<(String, String)>,
    pub internet: Option<Spanned<bool>>,
    pub allowed_hosts: Option<Spanned<Vec<String>>>,
    pub denied_hosts: Option<Spanned<Vec<String>>>,
    pub credentials: Option<Spanned<Vec<Credential>>>,
    pub limits: Option<Spanned<Limits>>,
    pub tools: Option<Spanned<Vec<Family>>>,
    pub workspace: Option<Spanned<Workspace>>,
    pub default: Option<Span>,
    pub backend: Option<Spanned<Backend>>,
    pub images: Option<Spanned<NamedImages>>,
    pub sizes: Option<Spanned<Vec<String>>>,
    pub keep_files: Option<Spanned<bool>>,
    pub processes: Option<Spanned<bool>>,
    pub copy_from: Option<Spanned<String>>,
    pub ssh: Option<Spanned<bool>>,
    pub entrypoint: Option<Spanned<Vec<String>>>,
    pub renamed_from: Option<Spanned<String>>,
    pub image_build_context: Option<Spanned<String>>,
    pub image_vars: Option<Spanned<Vec<(String, String)>>>,
    pub constraints: Option<Spanned<Constraints>>,
    pub rollout_step_percentage: Option<Spanned<Rollout>>,
    pub rollout_active_grace_period: Option<Spanned<u32>>,
    pub observability: Option<Spanned<Observability>>,
    pub port: Option<Spanned<u16>>,
    pub health: Option<Spanned<String>>,
}

/// The steps of a rollout, in percent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rollout {
    /// The same step, repeated.
    Every(u32),
    /// These steps, ascending; the last one is 100.
    Steps(Vec<u32>),
}

/// Parses the tokens between the parentheses of an attribute; no tokens give the defaults.
///
/// Adds errors to `report` and returns the valid parts, so that one mistake does not hide the next.
pub fn parse(tokens: &TokenStream, kind: Kind, report: &mut Report) -> Attributes {
    let mut attributes = Attributes { kind, ..Attributes::default() };
    let known = key_names(kind);
    let metas = match Punctuated::<Meta, Token![,]>::parse_terminated.parse2(tokens.clone()) {
        Ok(metas) => metas,
        Err(error) => {
            let span = crate::syntax::error_span(&error, tokens);
            report.add(Rule::BadAttribute { message: error.to_string() }, span);
            return attributes;
        }
    };
    let mut seen: Vec<(String, Span)> = Vec::new();
    for meta in &metas {
        let Some((key, span)) = literal::key(meta, report) else {
            continue;
        };
        if let Some((_, first)) = seen.iter().find(|(name, _)| *name == key) {
            report.push(Diagnostic::new(Rule::RepeatedKey { key: key.clone() }, span).with(
                0,
                Some(*first),
                "first given here",
            ));
            continue;
        }
        if !known.contains(&key.as_str()) {
            let of = format!("`#[{kind}]`");
            report.add(Rule::UnknownKey { key, of, known: known.clone() }, span);
            continue;
        }
        seen.push((key.clone(), span));
        attributes.take(&key, span, meta, report);
    }
    attributes.check_together(&seen, report);
    attributes
}

impl Attributes {
    fn take(&mut self, key: &str, span: Span, meta: &Meta, report: &mut Report) {
        match key {
            "image" => self.image = literal::image(key, meta, report),
            "variant" => self.variant = literal::one_of(key, meta, &image::VARIANTS, report),
            "instance_type" => self.instance_type = literal::instance_type(meta, report),
            "instance" => self.instance = nested::instance(meta, report),
            "max_instances" => self.max_instances = literal::integer(key, meta, 1, report),
            "name" => self.name = literal::container_name(meta, report),
            "sleep_after" => self.sleep_after = literal::duration(key, meta, report),
            "env_vars" => {
                self.env_vars =
                    nested::variables(key, meta, report).map(|vars| vars.value).unwrap_or_default();
            }
            "internet" => self.internet = literal::boolean(key, meta, report),
            "allowed_hosts" => self.allowed_hosts = literal::hosts(self.kind, key, meta, report),
            "denied_hosts" => self.denied_hosts = literal::hosts(self.kind, key, meta, report),
            "credentials" => self.credentials = credentials::credentials(meta, report),
            "limits" => self.limits = limits::limits(meta, report),
            "tools" => self.tools = literal::tools(meta, report),
            "workspace" => self.workspace = workspace::workspace(meta, report),
            "default" => match meta {
                Meta::Path(_) => self.default = Some(span),
                _ => report.add(Rule::BadForm { key: key.to_owned(), expected: "no value".to_owned() }, span),
            },
            "backend" => self.backend = literal::backend(meta, report),
            "images" => self.images = nested::images(meta, report),
            "sizes" => self.sizes = literal::sizes(meta, report),
            "keep_files" => self.keep_files = literal::boolean(key, meta, report),
            "processes" => self.processes = literal::boolean(key, meta, report),
            "copy_from" => self.copy_from = literal::base_name(key, meta, report),
            "ssh" => self.ssh = literal::boolean(key, meta, report),
            "entrypoint" => self.entrypoint = literal::words(key, meta, report),
            "renamed_from" => self.renamed_from = literal::class(key, meta, report),
            "image_build_context" => self.image_build_context = literal::path(key, meta, report),
            "image_vars" => self.image_vars = nested::variables(key, meta, report),
            "constraints" => self.constraints = nested::constraints(meta, report),
            "rollout_step_percentage" => self.rollout_step_percentage = literal::rollout(meta, report),
            "rollout_active_grace_period" => {
                self.rollout_active_grace_period = literal::integer(key, meta, 0, report);
            }
            "observability" => self.observability = nested::observability(meta, report),
            "port" => self.port = literal::port(key, meta, report),
            "health" => self.health = literal::url_path(key, meta, report),
            other => unreachable!("the key {other} is listed, but not parsed"),
        }
    }

    /// Returns whether the sandbox serves a family of tools. A container serves none.
    pub fn serves(&self, family: Family) -> bool {
        let by_default = self.kind == Kind::Sandbox && family == Family::Agent;
        self.tools.as_ref().map_or(by_default, |tools| tools.value.contains(&family))
    }

    /// Returns the backend.
    pub fn backend(&self) -> Backend {
        self.backend.as_ref().map_or(self.kind.default_backend(), |backend| backend.value)
    }

    /// Returns whether the disk is saved before the container sleeps.
    pub fn keeps_files(&self) -> bool {
        self.keep_files.as_ref().is_some_and(|keep| keep.value)
    }

    /// Returns the images that the attribute itself declares, with `image` or `images`.
    pub fn declared_images(&self) -> impl Iterator<Item = &Spanned<Image>> {
        let several = self.images.iter().flat_map(|images| &images.value).map(|(_, image)| image);
        self.image.iter().chain(several)
    }

    /// Returns the idle time before the sandbox sleeps, if the attribute sets one.
    pub fn idle(&self) -> Option<Duration> {
        let seconds = self.sleep_after.as_ref().and_then(|sleep| literal::seconds(&sleep.value));
        seconds.map(Duration::from_secs)
    }

    /// Checks keys that exclude or require each other.
    fn check_together(&self, seen: &[(String, Span)], report: &mut Report) {
        let place = |key: &str| seen.iter().find(|(name, _)| name == key).map(|(_, span)| *span);
        let mut exclusive = |key: &str, other: &str, why: &str| {
            if let (Some(at), Some(first)) = (place(key), place(other)) {
                let rule =
                    Rule::Exclusive { key: key.to_owned(), other: other.to_owned(), why: why.to_owned() };
                report.push(Diagnostic::new(rule, at).with(0, Some(first), "the other one"));
            }
        };
        exclusive(
            "variant",
            "image",
            "`variant` selects a variant of the default image: keep only one of them",
        );
        exclusive(
            "images",
            "image",
            "`images` names several images, `image` is the only one: keep only one of them",
        );
        exclusive(
            "instance",
            "instance_type",
            "`instance` is a custom size, `instance_type` one of Cloudflare's: keep only one of them",
        );
        if Family::OF_SANDBOXES.into_iter().all(|family| !self.serves(family)) {
            let why = "the default sandbox must serve tools: remove `default`, or add a family to `tools`";
            exclusive("default", "tools", why);
        }
        if let Some(at) = place("workspace")
            && !self.serves(Family::Workspace)
        {
            report.add(Rule::WorkspaceNotServed {}, at);
        }
        self.check_credentials(report);
        self.check_backend(&place, report);
        if let (Some(steps), Some(max)) = (&self.rollout_step_percentage, &self.max_instances)
            && let Rollout::Steps(list) = &steps.value
            && list.len() > max.value as usize
        {
            let rule = Rule::BadValue {
                key: "rollout_step_percentage".to_owned(),
                found: format!("{} steps", list.len()),
                expected: format!("no more steps than `max_instances`, {}", max.value),
            };
            report.add(rule, steps.span);
        }
    }
}

impl Attributes {
    /// Returns the hosts that the sandbox may reach, or `None` if there is no such list: those of `allowed_hosts`, and those of
    /// credentials. A host that `allowed_hosts` names is not added, because its entry may be narrower.
    pub fn allowlist(&self) -> Option<Vec<String>> {
        let hosts = self.credentials.iter().flat_map(|all| &all.value).map(|one| &one.host.value);
        let has_internet = self.internet.as_ref().is_some_and(|internet| internet.value);
        if self.allowed_hosts.is_none() && (has_internet || self.credentials.is_none()) {
            return None;
        }
        let mut list = self.allowed_hosts.as_ref().map_or_else(Vec::new, |allowed| allowed.value.clone());
        for host in hosts {
            if !list.iter().any(|entry| credentials::allows(entry, host)) {
                list.push(host.clone());
            }
        }
        Some(list)
    }

    /// Returns whether the traffic of the sandbox has to be intercepted.
    pub fn has_egress_policy(&self) -> bool {
        self.allowed_hosts.is_some()
            || self.denied_hosts.is_some()
            || self.credentials.is_some()
            || self.limits.is_some()
    }

    /// Checks that no variable takes the place of a credential's placeholder.
    fn check_credentials(&self, report: &mut Report) {
        for Credential { name, host, .. } in self.credentials.iter().flat_map(|all| &all.value) {
            if self.env_vars.iter().any(|(variable, _)| variable == name) {
                let expected =
                    "names that `env_vars` does not have: the variable with this name holds a placeholder";
                literal::bad_value::<()>("credentials", name, expected, host.span, report);
            }
        }
    }

    /// Returns the size of the instance. Values that a custom size omits are those of `lite`.
    pub fn size(&self) -> Size {
        let named = |attribute: &Spanned<String>| instance::size(&attribute.value);
        let size = self.instance_type.as_ref().map_or(instance::LITE, named);
        self.instance.as_ref().map_or(size, |own| Size {
            memory_mib: own.value.memory_mib.unwrap_or(instance::LITE.memory_mib),
            disk_mb: own.value.disk_mb.unwrap_or(instance::LITE.disk_mb),
        })
    }

    /// Reports keys that the backend does not support.
    fn check_backend(&self, place: &dyn Fn(&str) -> Option<Span>, report: &mut Report) {
        let backend = self.backend();
        let mut refuse = |key: &str, why: &str| {
            let Some(at) = place(key) else { return };
            let rule = Rule::NotOfBackend { key: key.to_owned(), backend, why: why.to_owned() };
            let diagnostic = Diagnostic::new(rule, at);
            report.push(match place("backend") {
                Some(first) => diagnostic.with(0, Some(first), "the backend"),
                None => diagnostic,
            });
        };
        match backend {
            Backend::Sdk if self.kind == Kind::Container => {
                let span = place("backend").unwrap_or_else(Span::call_site);
                let expected = "`native` or `managed`: the SDK is for sandboxes";
                literal::bad_value::<()>("backend", backend.word(), expected, span, report);
            }
            Backend::Sdk => {
                let why = "the SDK's image has its own program: remove `entrypoint`, or write `backend = \"native\"`";
                refuse("entrypoint", why);
                for key in OF_MANAGED {
                    refuse(key, &only_managed(key));
                }
                if let Some(image) = &self.image
                    && let Image::Registry(reference) = &image.value
                    && image::is_official(reference)
                {
                    report.add(Rule::NotASandboxImage { image: reference.clone() }, image.span);
                }
            }
            Backend::Native => {
                let why = "variants are images of the SDK: set an image, such as `image = \"python:3.12-slim\"`, or add a Dockerfile next to the source file";
                refuse("variant", why);
                for key in OF_MANAGED {
                    refuse(key, &only_managed(key));
                }
            }
            Backend::Managed => {
                let why = "variants are images of the SDK: set an image, such as `image = \"python:3.12-slim\"`, or add a Dockerfile next to the source file";
                refuse("variant", why);
                let why = "Cloudflare chooses where Durable Object-managed Containers run: remove `constraints`, or write `backend = \"native\"`";
                refuse("constraints", why);
                for key in ["rollout_step_percentage", "rollout_active_grace_period"] {
                    refuse(
                        key,
                        &format!(
                            "no rollout replaces the containers of a Durable Object, which start with the new image when they start next: remove `{key}`"
                        ),
                    );
                }
                if self.kind == Kind::Container {
                    let why = "Cloudflare does not limit the number of Durable Object-managed Containers of a class: remove `max_instances`";
                    refuse("max_instances", why);
                    self.check_managed_image(report);
                }
                self.check_managed_size(report);
            }
        }
        if backend != Backend::Managed
            && let Some(image) = self.image.as_ref().filter(|image| image.value == Image::Platform)
        {
            let rule = Rule::NotOfBackend {
                key: format!("image = \"{}\"", image::PLATFORM_IMAGE),
                backend,
                why: "only Durable Object-managed Containers start this image: write `backend = \"managed\"`, or choose another image".to_owned(),
            };
            report.add(rule, image.span);
        }
    }

    /// Checks that wrangler builds the image of a service that a Durable Object starts.
    fn check_managed_image(&self, report: &mut Report) {
        let Some(image) = &self.image else { return };
        if let Image::Registry(reference) = &image.value {
            let rule = Rule::NotOfBackend {
                key: format!("image = \"{reference}\""),
                backend: Backend::Managed,
                why: format!(
                    "Durable Object-managed Containers start only images that wrangler builds: add a Dockerfile with the line `FROM {reference}` next to the source file, and remove `image`"
                ),
            };
            report.add(rule, image.span);
        }
    }

    /// Checks the size of a container that a Durable Object starts: the platform rejects another one only at the start.
    fn check_managed_size(&self, report: &mut Report) {
        let mut refuse_basic = |key: &str, name: &str, span: Span| {
            if name == "basic" {
                let expected = "another size: Durable Object-managed Containers do not have `basic`; write `lite`, or `instance(vcpu = 1, memory_mib = 3072, disk_mb = 4000)`";
                literal::bad_value::<()>(key, name, expected, span, report);
            }
        };
        if let Some(name) = &self.instance_type {
            refuse_basic("instance_type", &name.value, name.span);
        }
        if let Some(names) = &self.sizes {
            for name in &names.value {
                refuse_basic("sizes", name, names.span);
            }
        }
        if let Some(instance) = &self.instance
            && let Err((found, expected)) = instance.value.check_managed()
        {
            literal::bad_value::<()>("instance", &found, &expected, instance.span, report);
        }
    }
}

/// The keys that only the backend `managed` has.
const OF_MANAGED: [&str; 5] = ["images", "sizes", "keep_files", "copy_from", "ssh"];

/// Returns the advice for a key of [`OF_MANAGED`] with another backend.
fn only_managed(key: &str) -> String {
    format!(
        "only Durable Object-managed Containers have `{key}`: remove it, or write `backend = \"managed\"`"
    )
}

#[cfg(test)]
mod tests;
