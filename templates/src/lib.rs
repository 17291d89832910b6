//! The templates of the files that koze writes.
//!
//! Each template is valid in its own language: a placeholder is an identifier `__KOZE_…__`, and `//#region` and
//! `//#endregion` delimit parts that are repeated or left out. The caller renders them.

/// The module of all sandboxes, `src/generated/mod.rs`.
pub const MODULE: &str = include_str!("../files/generated/mod.rs");

/// The typed bindings, `src/generated/env.rs`.
pub const ENV: &str = include_str!("../files/generated/env.rs");

/// The tools and the images, `src/generated/tools.rs`.
pub const TOOLS: &str = include_str!("../files/generated/tools.rs");

/// The Worker's entry point, `src/generated/worker.mjs`.
pub const WORKER: &str = include_str!("../files/generated/worker.mjs");

/// The types of the entry point, `src/generated/worker.d.mts`.
pub const WORKER_TYPES: &str = include_str!("../files/generated/worker.d.mts");

/// The attributes of the generated files for Git, `src/generated/.gitattributes`.
pub const GIT_ATTRIBUTES: &str = include_str!("../files/generated/gitattributes");

/// The code shared by the base classes of all backends, `src/generated/koze/calls.mjs`.
pub const CALLS: &str = include_str!("../files/generated/koze/calls.mjs");

/// The base class of sandboxes with the backend `sdk`, `src/generated/koze/sdk/sdk.mjs`.
pub const SDK: &str = include_str!("../files/generated/koze/sdk/sdk.mjs");

/// The types of [`SDK`], `src/generated/koze/sdk/sdk.d.mts`.
pub const SDK_TYPES: &str = include_str!("../files/generated/koze/sdk/sdk.d.mts");

/// The code that runs the guest in the SDK's container, `src/generated/koze/sdk/placed.mjs`.
pub const PLACED: &str = include_str!("../files/generated/koze/sdk/placed.mjs");

/// The guest as a module, `src/generated/koze/koze-guest.mjs`, with [`PACKED_GUEST`] in base64.
pub const GUEST_MODULE: &str = include_str!(concat!(env!("OUT_DIR"), "/koze-guest.mjs"));

/// The requests of all backends' classes to the guest, `src/generated/koze/operations.mjs`.
pub const OPERATIONS: &str = include_str!("../files/generated/koze/operations.mjs");

/// The programs of a container, `src/generated/koze/processes.mjs`.
pub const PROCESSES: &str = include_str!("../files/generated/koze/processes.mjs");

/// The base class of sandboxes with the backend `native`, `src/generated/koze/native.mjs`.
pub const NATIVE: &str = include_str!("../files/generated/koze/native.mjs");

/// The types of [`NATIVE`], `src/generated/koze/native.d.mts`.
pub const NATIVE_TYPES: &str = include_str!("../files/generated/koze/native.d.mts");

/// The container of [`NATIVE`], `src/generated/koze/container.mjs`.
pub const NATIVE_CONTAINER: &str = include_str!("../files/generated/koze/container.mjs");

/// What [`NATIVE`] and [`SERVICE`] need of the platform's containers, `src/generated/koze/platform.mjs`.
pub const PLATFORM: &str = include_str!("../files/generated/koze/platform.mjs");

/// The base class of services in containers, `src/generated/koze/service.mjs`. It uses [`PLATFORM`].
pub const SERVICE: &str = include_str!("../files/generated/koze/service.mjs");

/// The types of [`SERVICE`], `src/generated/koze/service.d.mts`.
pub const SERVICE_TYPES: &str = include_str!("../files/generated/koze/service.d.mts");

/// The base class of sandboxes with the backend `managed`, `src/generated/koze/managed.mjs`.
pub const MANAGED: &str = include_str!("../files/generated/koze/managed.mjs");

/// The copy of files from another class into new sandboxes of [`MANAGED`], `src/generated/koze/copy.mjs`.
pub const COPY: &str = include_str!("../files/generated/koze/copy.mjs");

/// The types of [`MANAGED`], `src/generated/koze/managed.d.mts`.
pub const MANAGED_TYPES: &str = include_str!("../files/generated/koze/managed.d.mts");

/// The tracking of callers that wait for programs, `src/generated/koze/waiting.mjs`. `koze dev --local` uses it, too.
pub const WAITING: &str = include_str!("../files/generated/koze/waiting.mjs");

/// The streams of files and trees between sandboxes, `src/generated/koze/trees.mjs`.
pub const TREES: &str = include_str!("../files/generated/koze/trees.mjs");

/// The connection to the guest, `src/generated/koze/guest.mjs`.
pub const GUEST_CONNECTION: &str = include_str!("../files/generated/koze/guest.mjs");

/// The class of the objects that record the sandboxes of sessions and keep the values of their stores,
/// `src/generated/koze/sessions.mjs`.
pub const SESSIONS: &str = include_str!("../files/generated/koze/sessions.mjs");

/// The types of [`SESSIONS`], `src/generated/koze/sessions.d.mts`.
pub const SESSIONS_TYPES: &str = include_str!("../files/generated/koze/sessions.d.mts");

/// The class of the objects that run agents' scripts, `src/generated/koze/script-object.mjs`. The region `isolated` is kept where
/// the Worker has a binding `__KOZE_LOADER__` (a text) to load dynamic Workers, and the region `browser` where scripts have a browser:
/// `__KOZE_BROWSERS__` is a list of the names of its bindings.
pub const SCRIPT_OBJECT: &str = include_str!("../files/generated/koze/script-object.mjs");

/// The types of [`SCRIPT_OBJECT`], `src/generated/koze/script-object.d.mts`.
pub const SCRIPT_OBJECT_TYPES: &str = include_str!("../files/generated/koze/script-object.d.mts");

/// The databases of [`SCRIPT_OBJECT`], `src/generated/koze/script-database.mjs`.
pub const SCRIPT_DATABASE: &str = include_str!("../files/generated/koze/script-database.mjs");

/// The `fetch` of [`SCRIPT_OBJECT`], `src/generated/koze/script-fetch.mjs`. It uses [`EGRESS`].
pub const SCRIPT_FETCH: &str = include_str!("../files/generated/koze/script-fetch.mjs");

/// The browsers of [`SCRIPT_OBJECT`], `src/generated/koze/script-browser.mjs`, over the binding `browser`.
pub const SCRIPT_BROWSER: &str = include_str!("../files/generated/koze/script-browser.mjs");

/// The guard of [`SCRIPT_BROWSER`], `src/generated/koze/script-guard.mjs`. It uses [`SCRIPT_FETCH`].
pub const SCRIPT_GUARD: &str = include_str!("../files/generated/koze/script-guard.mjs");

/// The host of scripts, `src/generated/koze/scripts.mjs`.
pub const SCRIPTS: &str = include_str!("../files/generated/koze/scripts.mjs");

/// The types of [`SCRIPTS`], `src/generated/koze/scripts.d.mts`.
pub const SCRIPTS_TYPES: &str = include_str!("../files/generated/koze/scripts.d.mts");

/// The host of scripts in a dynamic Worker, `src/generated/koze/isolated.mjs`. `__KOZE_SCRIPTS_NAME__` and
/// `__KOZE_SCRIPTS_SOURCE__` are texts: the name of that Worker, which no other code has, and [`SCRIPTS`].
pub const ISOLATED_SCRIPTS: &str = include_str!("../files/generated/koze/isolated.mjs");

/// The engine that [`SCRIPTS`] runs, a module of WebAssembly. `cargo xtask script` builds it from `koze-script`.
pub const SCRIPT_ENGINE: &[u8] = include_bytes!("../files/script/koze-script.wasm");

/// The egress policy, `src/generated/koze/egress.mjs`.
pub const EGRESS: &str = include_str!("../files/generated/koze/egress.mjs");

/// What [`EGRESS`] uses for policies with methods, paths, credentials or limits, `src/generated/koze/requests.mjs`. It calls
/// [`REQUESTS_MODULE`].
pub const REQUESTS: &str = include_str!("../files/generated/koze/requests.mjs");

/// What the Rust Worker has for [`REQUESTS`], `src/generated/requests.rs`.
pub const REQUESTS_MODULE: &str = include_str!("../files/generated/requests.rs");

/// The types of [`EGRESS`], `src/generated/koze/egress.d.mts`.
pub const EGRESS_TYPES: &str = include_str!("../files/generated/koze/egress.d.mts");

/// The lines of a Dockerfile that install the guest.
pub const NATIVE_DOCKERFILE: &str = include_str!("../files/guest/install.Dockerfile");

/// The contract of the base classes, `src/generated/koze/contract.d.ts`.
pub const CONTRACT: &str = include_str!("../files/generated/koze/contract.d.ts");

/// The guest of containers (x86-64, static): the first process of a sandbox with the backend `native`, at
/// `/.koze/guest` in its image. Its version is that of this crate; `cargo xtask guest` builds it.
pub const GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/koze-guest"));

/// An archive with the directories of a thread, which a native image unpacks if its sandbox serves the tools `thread`: the
/// user of an image need not be able to create them.
pub const USER_DATA: &[u8] = include_bytes!("../files/guest/user-data.tar");

/// The guest, compressed with gzip.
pub const PACKED_GUEST: &[u8] = include_bytes!("../files/guest/koze-guest-x86_64.gz");

/// The wrangler configuration of a project that has none.
pub const WRANGLER: &str = include_str!("../files/wrangler.jsonc");

/// The base class of `koze dev --local`, for sandboxes on this machine.
pub const LOCAL: &str = include_str!("../files/dev/local.mjs");

/// The Worker's entry point for `koze dev --local`.
pub const LOCAL_WORKER: &str = include_str!("../files/dev/local-worker.mjs");

/// The sandbox of a new project.
pub const SHELL: &str = "src/server/shell.sandbox.rs";

/// The Dockerfile of a new sandbox with the backend `native`: an image with Python, Node, Git and curl.
pub const DOCKERFILE: &str = include_str!("../files/project/native/src/server/shell.Dockerfile");

/// The files of a new project, as pairs of path and text. Those of the backend follow: [`NATIVE_PROJECT`] or
/// [`SDK_PROJECT`].
pub const PROJECT: &[(&str, &str)] = &[
    // Cargo excludes directories with their own manifest from packages, so the manifest has another name here.
    ("Cargo.toml", include_str!("../files/project/manifest.toml")),
    ("README.md", include_str!("../files/project/README.md")),
    (".cargo/config.toml", include_str!("../files/project/cargo/config.toml")),
    (".gitignore", include_str!("../files/project/gitignore")),
    ("src/lib.rs", include_str!("../files/project/src/lib.rs")),
];

/// The files of a new project that depend on the backend, with the backend `native`.
pub const NATIVE_PROJECT: &[(&str, &str)] = &[
    ("package.json", include_str!("../files/project/native/package.json")),
    (SHELL, include_str!("../files/project/native/src/server/shell.sandbox.rs")),
    ("src/server/shell.Dockerfile", DOCKERFILE),
];

/// The files of a new project that depend on the backend, with the backend `managed`.
pub const MANAGED_PROJECT: &[(&str, &str)] = &[
    ("package.json", include_str!("../files/project/native/package.json")),
    (SHELL, include_str!("../files/project/managed/src/server/shell.sandbox.rs")),
];

/// The files of a new project that depend on the backend, with the backend `sdk`.
pub const SDK_PROJECT: &[(&str, &str)] = &[
    ("package.json", include_str!("../files/project/sdk/package.json")),
    (SHELL, include_str!("../files/project/sdk/src/server/shell.sandbox.rs")),
];
