//! The table of all binding kinds of wrangler's configuration.
//!
//! Keys and names follow `wrangler types`. A test compares the table with wrangler's schema.

/// A kind of binding.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// The keys that lead from a level to the entries.
    pub keys: &'static [&'static str],
    /// Where an entry has its binding name.
    pub names: Names,
    /// Whether environments inherit it from the top level.
    pub inherited: bool,
    /// The noun for it in a sentence.
    pub noun: &'static str,
    /// The prefix of an accessor whose name would be invalid without one.
    pub prefix: &'static str,
    /// The return type of an accessor.
    pub gives: Gives,
}

/// Where the entries of a kind have their binding names.
#[derive(Debug, PartialEq, Eq)]
pub enum Names {
    /// In this property of each list element or of the only entry.
    Property(&'static str),
    /// The properties of an object.
    Keys,
    /// The elements of a list.
    Elements,
}

/// The return type of an accessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gives {
    /// An object of the crate `worker`: its type, and the method of `worker::Env` that returns it.
    Object(&'static str, &'static str),
    /// A string.
    Text,
    /// A secret, at least in some environment, of the crate's type for secrets.
    Secret,
    /// A number.
    Number,
    /// A Boolean.
    Boolean,
    /// Data of a type that the caller chooses.
    Json,
    /// A JavaScript value without a type in the crate.
    Raw,
}

use Gives::{Json, Object, Raw, Secret, Text};
use Names::{Elements, Keys, Property};

const fn kind(
    keys: &'static [&'static str],
    names: Names,
    noun: &'static str,
    prefix: &'static str,
    gives: Gives,
) -> Kind {
    Kind { keys, names, inherited: false, noun, prefix, gives }
}

const BINDING: Names = Property("binding");
const FETCHER: Gives = Object("Fetcher", "service");

/// The binding kinds.
pub const KINDS: &[Kind] = &[
    // The type depends on the variable's value.
    kind(&["vars"], Keys, "variable", "var", Json),
    kind(&["secrets", "required"], Elements, "secret", "secret", Secret),
    kind(&["kv_namespaces"], BINDING, "KV namespace", "kv", Object("KvStore", "kv")),
    kind(&["r2_buckets"], BINDING, "R2 bucket", "r2", Object("Bucket", "bucket")),
    kind(&["d1_databases"], BINDING, "D1 database", "d1", Object("D1Database", "d1")),
    kind(&["queues", "producers"], BINDING, "queue", "queue", Object("Queue", "queue")),
    kind(&["services"], BINDING, "service", "service", FETCHER),
    kind(
        &["durable_objects", "bindings"],
        Property("name"),
        "Durable Object namespace",
        "durable_object",
        Object("ObjectNamespace", "durable_object"),
    ),
    kind(&["ai"], BINDING, "Workers AI binding", "ai", Object("Ai", "ai")),
    kind(
        &["analytics_engine_datasets"],
        BINDING,
        "Analytics Engine dataset",
        "analytics_engine",
        Object("AnalyticsEngineDataset", "analytics_engine"),
    ),
    kind(
        &["hyperdrive"],
        BINDING,
        "Hyperdrive configuration",
        "hyperdrive",
        Object("Hyperdrive", "hyperdrive"),
    ),
    kind(&["send_email"], Property("name"), "e-mail sender", "send_email", Object("SendEmail", "send_email")),
    kind(
        &["ratelimits"],
        Property("name"),
        "rate limiter",
        "rate_limiter",
        Object("RateLimiter", "rate_limiter"),
    ),
    kind(
        &["secrets_store_secrets"],
        BINDING,
        "Secrets Store secret",
        "secret_store",
        Object("SecretStore", "secret_store"),
    ),
    kind(
        &["dispatch_namespaces"],
        BINDING,
        "dispatch namespace",
        "dispatch_namespace",
        Object("DynamicDispatcher", "dynamic_dispatcher"),
    ),
    kind(&["mtls_certificates"], BINDING, "mTLS certificate", "mtls_certificate", FETCHER),
    kind(&["vpc_services"], BINDING, "VPC service", "vpc_service", FETCHER),
    kind(&["vpc_networks"], BINDING, "VPC network", "vpc_network", FETCHER),
    Kind {
        inherited: true,
        ..kind(&["assets"], BINDING, "collection of static assets", "assets", Object("Fetcher", "assets"))
    },
    kind(
        &["version_metadata"],
        BINDING,
        "version of the Worker",
        "version_metadata",
        Object("WorkerVersionMetadata", "get_binding"),
    ),
    // The type depends on the binding's `type`.
    kind(&["unsafe", "bindings"], Property("name"), "unsafe binding", "unsafe", Raw),
    // Kinds without a type in the crate.
    kind(&["workflows"], BINDING, "workflow", "workflow", Raw),
    kind(&["vectorize"], BINDING, "Vectorize index", "vectorize", Raw),
    kind(&["ai_search_namespaces"], BINDING, "AI Search namespace", "ai_search_namespace", Raw),
    kind(&["ai_search"], BINDING, "AI Search instance", "ai_search", Raw),
    kind(&["agent_memory"], BINDING, "agent memory namespace", "agent_memory", Raw),
    kind(&["browser"], BINDING, "browser", "browser", Raw),
    kind(&["analytics"], BINDING, "Analytics SQL binding", "analytics", Raw),
    kind(&["images"], BINDING, "Images binding", "images", Raw),
    kind(&["media"], BINDING, "Media Transformations binding", "media", Raw),
    kind(&["stream"], BINDING, "Stream binding", "stream", Raw),
    kind(&["pipelines"], BINDING, "pipeline", "pipeline", Raw),
    kind(&["k2"], BINDING, "K2 stream", "k2", Raw),
    kind(&["artifacts"], BINDING, "Artifacts namespace", "artifacts", Raw),
    kind(&["unsafe_hello_world"], BINDING, "Hello World binding", "hello_world", Raw),
    kind(&["flagship"], BINDING, "Flagship application", "flagship", Raw),
    kind(&["worker_loaders"], BINDING, "Worker loader", "worker_loader", Raw),
    Kind {
        inherited: true,
        ..kind(&["logfwdr", "bindings"], Property("name"), "logfwdr destination", "logfwdr", Raw)
    },
    // Files, which only the top level can have.
    Kind { inherited: true, ..kind(&["text_blobs"], Keys, "text file", "text_blob", Text) },
    Kind { inherited: true, ..kind(&["data_blobs"], Keys, "data file", "data_blob", Raw) },
    Kind { inherited: true, ..kind(&["wasm_modules"], Keys, "WebAssembly module", "wasm_module", Raw) },
];

/// A kind that wrangler added after this koze was released.
pub const UNKNOWN: Kind = kind(&[], BINDING, "binding", "binding", Raw);

/// The keys that never contain a binding.
pub const OTHERS: &[&str] = &[
    "$schema",
    "access",
    "account_id",
    "addresses",
    "alias",
    "base_dir",
    "build",
    "cache",
    "cloudchamber",
    "compatibility_date",
    "compatibility_flags",
    "compliance_region",
    "connect",
    "containers",
    "define",
    "dependencies_instrumentation",
    "dev",
    "env",
    "exports",
    "find_additional_modules",
    "first_party_worker",
    "jsx_factory",
    "jsx_fragment",
    "keep_names",
    "keep_vars",
    "limits",
    "logpush",
    "main",
    "migrations",
    "minify",
    "name",
    "no_bundle",
    "observability",
    "pages_build_output_dir",
    "placement",
    "preserve_file_names",
    "preview_urls",
    "previews",
    "python_modules",
    "route",
    "routes",
    "rules",
    "send_metrics",
    "site",
    "streaming_tail_consumers",
    "tail_consumers",
    "triggers",
    "tsconfig",
    "upload_source_maps",
    "workers_dev",
];
