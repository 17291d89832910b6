//! Keys with nested keys: `instance(..)`, `env_vars(..)`, `constraints(..)`, `observability(..)`.

use proc_macro2::Span;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Meta, Token};

use super::literal;
use crate::image::Image;
use crate::instance::managed;
use crate::names;
use crate::report::{Diagnostic, Report};
use crate::rules::Rule;
use crate::value::Spanned;

/// A custom instance size. wrangler fills in what is not given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Instance {
    /// The number of processors.
    pub vcpu: Option<f64>,
    /// Memory in MiB.
    pub memory_mib: Option<u32>,
    /// Disk in MB.
    pub disk_mb: Option<u32>,
}

impl Instance {
    /// Checks the limits of Durable Object-managed Containers. They need all three values.
    ///
    /// # Errors
    /// Returns what was found and what is expected.
    pub fn check_managed(&self) -> Result<(), (String, String)> {
        let (Some(vcpu), Some(memory), Some(disk)) = (self.vcpu, self.memory_mib, self.disk_mb) else {
            let given: Vec<&str> = [
                self.vcpu.map(|_| "vcpu"),
                self.memory_mib.map(|_| "memory_mib"),
                self.disk_mb.map(|_| "disk_mb"),
            ]
            .into_iter()
            .flatten()
            .collect();
            let found = if given.is_empty() { "nothing".to_owned() } else { given.join(" and ") };
            return Err((found, "all of `vcpu`, `memory_mib` and `disk_mb`".to_owned()));
        };
        if !managed::VCPU.contains(&vcpu) {
            return Err((format!("vcpu = {vcpu}"), "1 to 4 processors".to_owned()));
        }
        let least = (vcpu * f64::from(managed::MEMORY_MIB_PER_VCPU)).ceil();
        if f64::from(memory) < least || memory > managed::MAX_MEMORY_MIB {
            let expected = format!(
                "at least {} MiB for each processor, and at most {} MiB: {least} or more for {vcpu}",
                managed::MEMORY_MIB_PER_VCPU,
                managed::MAX_MEMORY_MIB
            );
            return Err((format!("memory_mib = {memory}"), expected));
        }
        if !managed::DISK_MB.contains(&disk) {
            let (least, most) = (managed::DISK_MB.start(), managed::DISK_MB.end());
            return Err((format!("disk_mb = {disk}"), format!("{least} to {most} MB")));
        }
        Ok(())
    }
}

/// The images of `images(..)`, in their order.
pub type NamedImages = Vec<(String, Spanned<Image>)>;

/// The constraints on where containers may run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Constraints {
    /// Region codes.
    pub regions: Vec<String>,
    /// `eu`, `fedramp` or `us`.
    pub jurisdiction: Option<String>,
}

/// The settings for logs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observability {
    /// `enabled`.
    pub enabled: Option<bool>,
    /// `logs(enabled = ..)`.
    pub logs_enabled: Option<bool>,
}

const REGIONS: &[&str] = &["ENAM", "WNAM", "EEUR", "WEUR", "APAC", "SAM", "ME", "OC", "AFR"];

/// Parses the entries of `key(..)`, without duplicate keys.
pub(super) fn entries(key: &str, meta: &Meta, report: &mut Report) -> Option<Vec<(String, Span, Meta)>> {
    let Meta::List(list) = meta else {
        return literal::bad_form(key, "keys in parentheses", meta.path().span(), report);
    };
    let metas = match list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) {
        Ok(metas) => metas,
        Err(error) => {
            let span = crate::syntax::error_span(&error, &list.tokens);
            report.add(Rule::BadAttribute { message: error.to_string() }, span);
            return None;
        }
    };
    let mut entries: Vec<(String, Span, Meta)> = Vec::new();
    for meta in metas {
        let (name, span) = literal::key(&meta, report)?;
        if let Some((_, first, _)) = entries.iter().find(|(seen, ..)| *seen == name) {
            let rule = Rule::RepeatedKey { key: name };
            report.push(Diagnostic::new(rule, span).with(0, Some(*first), "first given here"));
            return None;
        }
        entries.push((name, span, meta));
    }
    Some(entries)
}

pub(super) fn unknown(key: &str, of: &str, known: &[&'static str], span: Span, report: &mut Report) {
    let rule = Rule::UnknownKey { key: key.to_owned(), of: format!("`{of}`"), known: known.to_vec() };
    report.add(rule, span);
}

/// The variable that limits the content of a call of `write_file`, which koze itself reads.
const WRITE_LIMIT: &str = "KOZE_WRITE_FILE_MAX_BYTES";

/// Parses `env_vars(NAME = "value")`, keeping the order.
pub(super) fn variables(
    key: &str,
    meta: &Meta,
    report: &mut Report,
) -> Option<Spanned<Vec<(String, String)>>> {
    let mut variables = Vec::new();
    for (name, span, meta) in entries(key, meta, report)? {
        let portable = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        // In a JavaScript object literal, `__proto__` would set the prototype.
        if !portable || name == "__proto__" {
            report.add(Rule::BadVariable { key: key.to_owned(), name }, span);
            continue;
        }
        // The message should mention `env_vars`, whose example shows the form.
        if let Meta::NameValue(_) = &meta
            && let Some(value) = literal::text(key, &meta, report)
        {
            if name == WRITE_LIMIT && !value.value.parse::<usize>().is_ok_and(|limit| limit > 0) {
                let expected = "a number of bytes, at least 1, such as \"81920\"";
                literal::bad_value::<()>(&name, &value.value, expected, value.span, report);
            }
            variables.push((name, value.value));
        } else if !matches!(&meta, Meta::NameValue(_)) {
            literal::bad_form::<()>(key, "names with a string each", span, report);
        }
    }
    Some(Spanned::new(variables, meta.path().span()))
}

pub(super) fn instance(meta: &Meta, report: &mut Report) -> Option<Spanned<Instance>> {
    let mut instance = Instance::default();
    for (name, span, entry) in entries("instance", meta, report)? {
        match name.as_str() {
            "vcpu" => instance.vcpu = literal::number(&name, &entry, report).map(|number| number.value),
            "memory_mib" => {
                instance.memory_mib = literal::integer(&name, &entry, 1, report).map(|number| number.value);
            }
            "disk_mb" => {
                instance.disk_mb = literal::integer(&name, &entry, 1, report).map(|number| number.value);
            }
            _ => unknown(&name, "instance", &["vcpu", "memory_mib", "disk_mb"], span, report),
        }
    }
    Some(Spanned::new(instance, meta.path().span()))
}

/// Parses `images(python = "python:3.12-slim", node = "./node.Dockerfile")`, keeping the order: the first one is the
/// default.
pub(super) fn images(meta: &Meta, report: &mut Report) -> Option<Spanned<NamedImages>> {
    let mut images = Vec::new();
    for (name, span, entry) in entries("images", meta, report)? {
        if !matches!(&entry, Meta::NameValue(_)) {
            literal::bad_form::<()>("images", "names with an image each", span, report);
        } else if !names::is_image_name(&name) {
            literal::bad_value::<()>("images", &name, names::IMAGE_FORM, span, report);
        } else if let Some(image) = literal::image(&name, &entry, report) {
            images.push((name, image));
        }
    }
    if images.is_empty() {
        return literal::bad_form("images", "names with an image each", meta.path().span(), report);
    }
    Some(Spanned::new(images, meta.path().span()))
}

pub(super) fn constraints(meta: &Meta, report: &mut Report) -> Option<Spanned<Constraints>> {
    let mut constraints = Constraints::default();
    for (name, span, entry) in entries("constraints", meta, report)? {
        match name.as_str() {
            "regions" => {
                for region in literal::texts(&name, &entry, report)?.value {
                    if REGIONS.contains(&region.value.as_str()) {
                        constraints.regions.push(region.value);
                    } else {
                        let expected = format!("a list of {}", crate::rules::listed(REGIONS));
                        literal::bad_value::<()>(&name, &region.value, &expected, region.span, report);
                    }
                }
            }
            "jurisdiction" => {
                constraints.jurisdiction =
                    literal::one_of(&name, &entry, &["eu", "fedramp", "us"], report).map(|text| text.value);
            }
            _ => unknown(&name, "constraints", &["regions", "jurisdiction"], span, report),
        }
    }
    Some(Spanned::new(constraints, meta.path().span()))
}

pub(super) fn observability(meta: &Meta, report: &mut Report) -> Option<Spanned<Observability>> {
    let mut observability = Observability::default();
    for (name, span, entry) in entries("observability", meta, report)? {
        match name.as_str() {
            "enabled" => {
                observability.enabled = literal::boolean(&name, &entry, report).map(|value| value.value);
            }
            "logs" => {
                for (name, span, entry) in entries("logs", &entry, report)? {
                    match name.as_str() {
                        "enabled" => {
                            observability.logs_enabled =
                                literal::boolean(&name, &entry, report).map(|value| value.value);
                        }
                        _ => unknown(&name, "logs", &["enabled"], span, report),
                    }
                }
            }
            _ => unknown(&name, "observability", &["enabled", "logs"], span, report),
        }
    }
    match (observability.enabled, observability.logs_enabled) {
        (None, None) => literal::bad_form(
            "observability",
            "`enabled` or `logs(enabled = ..)`",
            meta.path().span(),
            report,
        ),
        (Some(one), Some(other)) if one != other => {
            let expected = "one answer: `enabled` and `logs(enabled = ..)` must agree";
            literal::bad_value("observability", "true and false", expected, meta.path().span(), report)
        }
        _ => Some(Spanned::new(observability, meta.path().span())),
    }
}
