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

/// The base class of sandboxes of the backend `sdk`, `src/generated/sdk.mjs`.
pub const SDK: &str = include_str!("../files/worker/sdk.mjs");

/// Its types, `src/generated/sdk.d.mts`.
pub const SDK_TYPES: &str = include_str!("../files/worker/sdk.d.mts");

/// What it runs in a container.
pub const SDK_SCRIPT: &str = include_str!("../files/worker/sdk.bash");

/// What every such base class answers, `src/generated/contract.d.ts`.
pub const CONTRACT: &str = include_str!("../files/worker/contract.d.ts");

/// The wrangler configuration of a project that has none.
pub const WRANGLER: &str = include_str!("../files/wrangler.jsonc");

/// The base of the classes of `koze dev --local`: sandboxes of this machine.
pub const LOCAL: &str = include_str!("../files/worker/local.mjs");

/// The Worker entry of `koze dev --local`.
pub const LOCAL_WORKER: &str = include_str!("../files/worker/local-worker.mjs");

/// The files of a new project: path, text.
pub const PROJECT: &[(&str, &str)] = &[
    // Cargo leaves out of a package what has a manifest of its own, so this one has another name here.
    ("Cargo.toml", include_str!("../files/project/manifest.toml")),
    ("README.md", include_str!("../files/project/README.md")),
    ("package.json", include_str!("../files/project/package.json")),
    (".cargo/config.toml", include_str!("../files/project/cargo/config.toml")),
    (".gitignore", include_str!("../files/project/gitignore")),
    ("src/lib.rs", include_str!("../files/project/src/lib.rs")),
    ("src/server/shell.sandbox.rs", include_str!("../files/project/src/server/shell.sandbox.rs")),
];
