//! Names the configuration that has sandboxes of Linux namespaces: `cfg(namespaces)`.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(namespaces)");
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    if is_linux && env::var_os("CARGO_FEATURE_NAMESPACES").is_some() {
        println!("cargo::rustc-cfg=namespaces");
    }
}
