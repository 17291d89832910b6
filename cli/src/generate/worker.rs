//! Generates `worker.mjs` and `worker.d.mts`, the Worker's entry point and its types, and the base classes.

use koze_model::image::{Image, PLATFORM_IMAGE};
use koze_model::names::Names;
use koze_model::{Backend, Kind, Sandbox};
use koze_templates::{
    CALLS, CONTRACT, COPY, EGRESS, EGRESS_TYPES, GUEST_CONNECTION, GUEST_MODULE, MANAGED, MANAGED_TYPES,
    NATIVE, NATIVE_CONTAINER, NATIVE_TYPES, OPERATIONS, PLACED, PLATFORM, PROCESSES, REQUESTS, SDK,
    SDK_TYPES, SERVICE, SERVICE_TYPES, SESSIONS, SESSIONS_TYPES, TREES, WAITING, WORKER, WORKER_TYPES,
};
use serde_json::{Map, Value, json};

use super::requests::{self, reads_requests};
use super::template::{Fill, Template};
use super::{MARK, constant_content};
use crate::write::Content;

/// The Rust Worker that worker-build produces, relative to `src/generated`.
const RUST_WORKER: &str = "../../build/index.js";

/// The base class of a class.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    Sdk,
    Native,
    Service,
}

impl Base {
    fn for_sandbox(sandbox: &Sandbox) -> Base {
        match (sandbox.kind(), sandbox.has_guest()) {
            (Kind::Container, _) => Base::Service,
            (Kind::Sandbox, true) => Base::Native,
            (Kind::Sandbox, false) => Base::Sdk,
        }
    }
}

/// Renders the entry point and its types, whose templates share regions.
pub(super) fn render(
    sandboxes: &[Sandbox],
    kept: &[&str],
    registry: bool,
    scripts: bool,
) -> [(&'static str, String); 2] {
    let rust_worker = ("__KOZE_WORKER__", RUST_WORKER.to_owned());
    let outer = Fill { holes: vec![rust_worker.clone()], regions: Vec::new() };
    let reads = sandboxes.iter().any(reads_requests);
    let policies = ("__KOZE_POLICIES__", to_literal(&requests::policies(sandboxes)));
    let policies = [Fill { holes: vec![rust_worker, policies], regions: Vec::new() }];
    let of = |base: Base| sandboxes.iter().filter(move |sandbox| Base::for_sandbox(sandbox) == base);
    let [classes, native, services] =
        [Base::Sdk, Base::Native, Base::Service].map(|base| of(base).map(class_fill).collect::<Vec<Fill>>());
    let uses = |backend| of(Base::Native).any(|sandbox| sandbox.attributes.backend() == backend);
    let has_proxy = of(Base::Sdk).any(|sandbox| sandbox.attributes.has_egress_policy());
    let has_gate =
        of(Base::Native).chain(of(Base::Service)).any(|sandbox| sandbox.attributes.has_egress_policy());
    let kept: Vec<Fill> = kept
        .iter()
        .map(|class| Fill { holes: vec![("__KOZE_KEPT__", (*class).to_owned())], regions: Vec::new() })
        .collect();
    let standing = [Fill::default()];
    let once = |wanted: bool| if wanted { &standing[..] } else { &[] };
    let gates = [Fill { regions: if reads { vec!["reads"] } else { Vec::new() }, ..Fill::default() }];
    let gate = |wanted: bool| if wanted { &gates[..] } else { &[] };
    [("worker.mjs", WORKER), ("worker.d.mts", WORKER_TYPES)].map(|(name, template)| {
        let text = Template::new(template).render(&outer, &|region| match region {
            "base" => once(!classes.is_empty()),
            "native-base" => once(uses(Backend::Native)),
            "managed-base" => once(uses(Backend::Managed)),
            "service-base" => once(!services.is_empty()),
            "kept-base" => once(!kept.is_empty()),
            "guest" => once(sandboxes.iter().any(sends_guest)),
            "requests" if reads => &policies,
            "requests" => &[],
            "egress" => gate(has_proxy),
            "native-egress" => gate(has_gate),
            "registry" => once(registry),
            "scripts" => once(scripts),
            "class" => &classes,
            "native" => &native,
            "service" => &services,
            "kept" => &kept,
            other => unreachable!("the template has a region {other} that nobody fills"),
        });
        (name, text)
    })
}

/// Returns the files of the base classes, one per backend, and the egress policy, which scripts use too. They are the same for
/// all projects.
pub(super) fn bases(sandboxes: &[Sandbox], scripts: bool) -> Vec<(&'static str, Content)> {
    let uses = |base| sandboxes.iter().any(|one| Base::for_sandbox(one) == base);
    let is_managed = |one: &Sandbox| one.has_guest() && one.attributes.backend() == Backend::Managed;
    let mut files = Vec::new();
    if uses(Base::Sdk) {
        files.extend([("sdk/sdk.mjs", SDK), ("sdk/sdk.d.mts", SDK_TYPES), ("sdk/placed.mjs", PLACED)]);
    }
    if uses(Base::Sdk) || sandboxes.iter().any(sends_guest) {
        files.push(("koze-guest.mjs", GUEST_MODULE));
    }
    if uses(Base::Native) {
        files.extend([
            ("native.mjs", NATIVE),
            ("native.d.mts", NATIVE_TYPES),
            ("container.mjs", NATIVE_CONTAINER),
        ]);
    }
    if sandboxes.iter().any(is_managed) {
        files.extend([("managed.mjs", MANAGED), ("managed.d.mts", MANAGED_TYPES), ("copy.mjs", COPY)]);
    }
    if !files.is_empty() {
        files.extend([
            ("operations.mjs", OPERATIONS),
            ("guest.mjs", GUEST_CONNECTION),
            ("trees.mjs", TREES),
            ("processes.mjs", PROCESSES),
        ]);
    }
    let any = !files.is_empty();
    if uses(Base::Service) {
        files.extend([("service.mjs", SERVICE), ("service.d.mts", SERVICE_TYPES)]);
    }
    if uses(Base::Native) || uses(Base::Service) {
        files.push(("platform.mjs", PLATFORM));
    }
    if scripts || sandboxes.iter().any(|sandbox| sandbox.attributes.has_egress_policy()) {
        files.extend([("egress.mjs", EGRESS), ("egress.d.mts", EGRESS_TYPES)]);
    }
    if sandboxes.iter().any(reads_requests) {
        files.push(("requests.mjs", REQUESTS));
    }
    if any {
        files.extend([("calls.mjs", CALLS), ("waiting.mjs", WAITING)]);
    }
    let mut files: Vec<_> = files.into_iter().map(|(name, text)| (name, constant_content(text))).collect();
    if any {
        let contract = format!("// {MARK}\n//\n{CONTRACT}");
        files.push(("contract.d.ts", contract.into_bytes().into()));
    }
    files
}

/// Returns the files of the registry of sandboxes.
pub(super) fn registry() -> [(&'static str, Content); 2] {
    [("sessions.mjs", SESSIONS), ("sessions.d.mts", SESSIONS_TYPES)]
        .map(|(name, text)| (name, constant_content(text)))
}

/// Returns whether containers of a sandbox may start without koze's guest, or with an older one on a saved disk, so that the
/// class has to send it.
fn sends_guest(sandbox: &Sandbox) -> bool {
    if !sandbox.has_guest() {
        return false;
    }
    let attributes = &sandbox.attributes;
    attributes.keeps_files() || attributes.declared_images().any(|image| image.value == Image::Platform)
}

/// Fills in what the class of a sandbox with the backend `managed` passes to each start.
fn managed_fill(sandbox: &Sandbox, fill: &mut Fill) {
    let attributes = &sandbox.attributes;
    let platform = |image: &Image| match image {
        Image::Platform => json!(PLATFORM_IMAGE),
        _ => Value::Null,
    };
    let images: Map<String, Value> = if let Some(images) = &attributes.images {
        images.value.iter().map(|(name, image)| (name.clone(), platform(&image.value))).collect()
    } else {
        let image = attributes.image.as_ref().map_or(Value::Null, |image| platform(&image.value));
        [(sandbox.names.base.clone(), image)].into_iter().collect()
    };
    let words = attributes.entrypoint.as_ref().map_or(&[][..], |words| &words.value);
    fill.regions.push("managed");
    if sends_guest(sandbox) {
        fill.regions.push("send-guest");
    }
    if let Some(from) = &attributes.copy_from {
        let source = Names::of_base(Kind::Sandbox, &from.value);
        fill.regions.push("copy-from");
        fill.holes.push(("__KOZE_COPY_FROM__", to_literal(&json!(source.binding))));
    }
    fill.holes.extend([
        ("__KOZE_IMAGES__", images_literal(&images)),
        ("__KOZE_INSTANCE__", to_literal(&instance_size(sandbox))),
        ("__KOZE_WORDS__", to_literal(&json!(words))),
        ("__KOZE_KEEP_FILES__", attributes.keeps_files().to_string()),
    ]);
}

/// Fills in the service of a container.
fn service_fill(sandbox: &Sandbox, fill: &mut Fill) {
    let attributes = &sandbox.attributes;
    let port = attributes.port.as_ref().map_or(0, |port| port.value);
    fill.holes.push(("__KOZE_PORT__", port.to_string()));
    if let Some(health) = &attributes.health {
        fill.regions.push("health");
        fill.holes.push(("__KOZE_HEALTH__", to_literal(&json!(health.value))));
    }
    if let Some(words) = &attributes.entrypoint {
        fill.regions.push("entrypoint");
        fill.holes.push(("__KOZE_WORDS__", to_literal(&json!(words.value))));
    }
    if attributes.backend() == Backend::Managed {
        let image = match attributes.image.as_ref().map(|image| &image.value) {
            Some(Image::Platform) => PLATFORM_IMAGE,
            _ => &sandbox.names.base,
        };
        fill.regions.push("owned");
        fill.holes.extend([
            ("__KOZE_IMAGE__", to_literal(&json!(image))),
            ("__KOZE_INSTANCE__", to_literal(&instance_size(sandbox))),
        ]);
    }
}

/// Returns the size that a class passes to each start.
fn instance_size(sandbox: &Sandbox) -> Value {
    let attributes = &sandbox.attributes;
    match &attributes.instance {
        Some(own) => json!({
            "vcpu": own.value.vcpu, "memoryMib": own.value.memory_mib, "diskMb": own.value.disk_mb,
        }),
        None => json!(attributes.instance_type.as_ref().map_or("lite", |kind| &kind.value)),
    }
}

/// Renders names that need not be JavaScript identifiers.
fn images_literal(images: &Map<String, Value>) -> String {
    let entries: Vec<String> =
        images.iter().map(|(name, image)| format!("{}: {image}", json!(name))).collect();
    format!("{{ {} }}", entries.join(", "))
}

fn class_fill(sandbox: &Sandbox) -> Fill {
    let attributes = &sandbox.attributes;
    let is_managed = attributes.backend() == Backend::Managed;
    let base = if is_managed { "KozeManaged" } else { "KozeNative" };
    let internet = attributes.internet.as_ref().is_some_and(|internet| internet.value);
    let mut fill = Fill {
        holes: vec![
            ("__KOZE_CLASS__", sandbox.class.value.clone()),
            ("__KOZE_SERVICE__", sandbox.class.value.clone()),
            ("__KOZE_NATIVE__", sandbox.class.value.clone()),
            ("__KOZE_BASE__", base.to_owned()),
            // A directory name could otherwise end the comment.
            ("__KOZE_SOURCE__", sandbox.file.replace("*/", "*\\/")),
            ("__KOZE_BINDING__", sandbox.names.binding.clone()),
            ("__KOZE_INTERNET__", internet.to_string()),
            ("__KOZE_SLEEP_AFTER_MS__", attributes.idle().unwrap_or_default().as_millis().to_string()),
        ],
        regions: Vec::new(),
    };
    let mut part = |region, hole, value: Value| {
        fill.regions.push(region);
        fill.holes.push((hole, to_literal(&value)));
    };
    if let Some(sleep) = &attributes.sleep_after {
        part("sleep_after", "__KOZE_SLEEP_AFTER__", json!(sleep.value));
    }
    let allowlist = attributes.allowlist();
    let no_lists = allowlist.is_none() && attributes.has_egress_policy();
    if let Some(hosts) = allowlist {
        part("allowed_hosts", "__KOZE_ALLOWED_HOSTS__", json!(hosts));
    }
    let denied = attributes.denied_hosts.as_ref().map(|hosts| hosts.value.clone());
    // Requests are intercepted if there is a list.
    if let Some(hosts) = denied.or_else(|| no_lists.then(Vec::new)) {
        part("denied_hosts", "__KOZE_DENIED_HOSTS__", json!(hosts));
    }
    if let Some(vars) = env_vars(sandbox) {
        fill.regions.push("env_vars");
        fill.holes.push(("__KOZE_ENV_VARS__", vars));
    }
    if sandbox.attributes.has_egress_policy() {
        fill.regions.push("egress");
    }
    match sandbox.kind() {
        Kind::Container => service_fill(sandbox, &mut fill),
        Kind::Sandbox if attributes.backend() == Backend::Managed => managed_fill(sandbox, &mut fill),
        Kind::Sandbox => {}
    }
    fill
}

/// Renders the environment variables of a class, if it has any: those of its attribute, and placeholders of credentials.
fn env_vars(sandbox: &Sandbox) -> Option<String> {
    let attributes = &sandbox.attributes;
    let vars: Map<String, Value> =
        attributes.env_vars.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    if attributes.credentials.is_some() {
        let class = json!(sandbox.class.value);
        let placeholders = format!("...requests.environment({class}, this.ctx.id.toString())");
        let own = vars.iter().map(|(name, value)| format!("{name}: {value}"));
        let all: Vec<String> = [placeholders].into_iter().chain(own).collect();
        return Some(format!("{{ {} }}", all.join(", ")));
    }
    (!vars.is_empty()).then(|| to_literal(&Value::Object(vars)))
}

/// Renders data as a JavaScript literal on one line. JSON is a subset of JavaScript.
fn to_literal(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let entries: Vec<String> =
                object.iter().map(|(key, value)| format!("{key}: {}", to_literal(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(to_literal).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}
