//! The files that koze writes, as files.
//!
//! Each is legal in its own language as it stands: a placeholder is an identifier `__KOZE_…__`, and a part that is
//! repeated or left out stands between `//#region` and `//#endregion`. Filling them in is the caller's work.

/// The module of all sandboxes, `src/generated/mod.rs`.
pub const MODULE: &str = include_str!("../files/generated/mod.rs");

/// The typed bindings, `src/generated/env.rs`.
pub const ENV: &str = include_str!("../files/generated/env.rs");

/// The tools and the images, `src/generated/tools.rs`.
pub const TOOLS: &str = include_str!("../files/generated/tools.rs");

/// The Worker entry, `src/generated/worker.mjs`.
pub const WORKER: &str = include_str!("../files/worker/worker.mjs");

/// Its types, `src/generated/worker.d.mts`.
pub const WORKER_TYPES: &str = include_str!("../files/worker/worker.d.mts");

/// What the base classes of all backends have in common, `src/generated/calls.mjs`.
pub const CALLS: &str = include_str!("../files/worker/calls.mjs");

/// The base class of sandboxes of the backend `sdk`, `src/generated/sdk.mjs`.
pub const SDK: &str = include_str!("../files/worker/sdk.mjs");

/// Its types, `src/generated/sdk.d.mts`.
pub const SDK_TYPES: &str = include_str!("../files/worker/sdk.d.mts");

/// What puts the guest into its container, `src/generated/placed.mjs`.
pub const PLACED: &str = include_str!("../files/worker/placed.mjs");

/// The guest as that has it, `src/generated/koze-guest.mjs`: [`PACKED_GUEST`] in base64, in the place of `__KOZE_PROGRAM__`.
pub const GUEST_MODULE: &str = include_str!("../files/worker/koze-guest.mjs");

/// What the classes of all backends ask the guest for, `src/generated/operations.mjs`.
pub const OPERATIONS: &str = include_str!("../files/worker/operations.mjs");

/// The base class of sandboxes of the backend `native`, `src/generated/native.mjs`.
pub const NATIVE: &str = include_str!("../files/worker/native.mjs");

/// Its types, `src/generated/native.d.mts`.
pub const NATIVE_TYPES: &str = include_str!("../files/worker/native.d.mts");

/// Its container, `src/generated/container.mjs`.
pub const NATIVE_CONTAINER: &str = include_str!("../files/worker/container.mjs");

/// What they know of who waits for programs, `src/generated/waiting.mjs`; `koze dev --local` takes it as well.
pub const WAITING: &str = include_str!("../files/worker/waiting.mjs");

/// The files and trees that go from sandbox to sandbox as streams, `src/generated/trees.mjs`.
pub const TREES: &str = include_str!("../files/worker/trees.mjs");

/// Its connection to the guest, `src/generated/guest.mjs`.
pub const GUEST_CONNECTION: &str = include_str!("../files/worker/guest.mjs");

/// What stands between it and the hosts that it may reach, `src/generated/egress.mjs`.
pub const EGRESS: &str = include_str!("../files/worker/egress.mjs");

/// Its types, `src/generated/egress.d.mts`.
pub const EGRESS_TYPES: &str = include_str!("../files/worker/egress.d.mts");

/// What installs the guest, at the end of a Dockerfile.
pub const NATIVE_DOCKERFILE: &str = include_str!("../files/worker/native.Dockerfile");

/// What every such base class answers, `src/generated/contract.d.ts`.
pub const CONTRACT: &str = include_str!("../files/worker/contract.d.ts");

/// The guest of containers (x86-64, static): what is the first process of a sandbox of the backend `native`, at
/// `/.koze/guest` of its image. Its version is that of this crate; `cargo xtask guest` makes it.
pub const GUEST: &[u8] = include_bytes!("../files/guest/koze-guest-x86_64");

/// The same, packed by gzip.
pub const PACKED_GUEST: &[u8] = include_bytes!("../files/guest/koze-guest-x86_64.gz");

/// The wrangler configuration of a project that has none.
pub const WRANGLER: &str = include_str!("../files/wrangler.jsonc");

/// The base of the classes of `koze dev --local`: sandboxes of this machine.
pub const LOCAL: &str = include_str!("../files/worker/local.mjs");

/// The Worker entry of `koze dev --local`.
pub const LOCAL_WORKER: &str = include_str!("../files/worker/local-worker.mjs");

/// The files of a new project that are others with the backend `native`: path, text.
pub const NATIVE_PROJECT: &[(&str, &str)] = &[
    ("package.json", include_str!("../files/project/native/package.json")),
    (SHELL, include_str!("../files/project/native/src/server/shell.sandbox.rs")),
];

/// The sandbox of a new project.
pub const SHELL: &str = "src/server/shell.sandbox.rs";

/// The files of a new project: path, text.
pub const PROJECT: &[(&str, &str)] = &[
    // Cargo leaves out of a package what has a manifest of its own, so this one has another name here.
    ("Cargo.toml", include_str!("../files/project/manifest.toml")),
    ("README.md", include_str!("../files/project/README.md")),
    ("package.json", include_str!("../files/project/package.json")),
    (".cargo/config.toml", include_str!("../files/project/cargo/config.toml")),
    (".gitignore", include_str!("../files/project/gitignore")),
    ("src/lib.rs", include_str!("../files/project/src/lib.rs")),
    (SHELL, include_str!("../files/project/src/server/shell.sandbox.rs")),
];
