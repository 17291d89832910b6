//! Generates `mod.rs` and `env.rs`: a module for every file of a sandbox or container, and a typed accessor for each of
//! them and for every binding.

use koze_core::Profiles;
use koze_model::{Kind, Sandbox};
use koze_templates::{ENV, MODULE};

use super::env;
use super::requests::reads_requests;
use super::template::{Fill, Template};
use crate::wrangler::bindings::Bindings;

/// Renders `mod.rs` and `env.rs`, whose templates share placeholders. `offered` holds what agents get.
pub(super) fn render(
    sandboxes: &[Sandbox],
    bindings: &Bindings,
    offered: Option<&Profiles>,
) -> [(&'static str, String); 2] {
    let modules: Vec<Fill> = sandboxes.iter().map(sandbox_fill).collect();
    let of = |kind: Kind| sandboxes.iter().filter(move |sandbox| sandbox.kind() == kind);
    let [in_env, services] = Kind::ALL.map(|kind| of(kind).map(sandbox_fill).collect::<Vec<Fill>>());
    let accessors = env::fills(bindings, sandboxes);
    let standing = [Fill::default()];
    let once = |wanted: bool| if wanted { &standing[..] } else { &[] };
    [("mod.rs", MODULE), ("env.rs", ENV)].map(|(name, template)| {
        let text = Template::new(template).render(&Fill::default(), &|region| match region {
            "sandbox" if name == "mod.rs" => modules.as_slice(),
            "sandbox" => in_env.as_slice(),
            "service" => services.as_slice(),
            "binding" => accessors.as_slice(),
            "requests" => once(sandboxes.iter().any(reads_requests)),
            "served" => once(offered.is_some()),
            "profiles" => once(offered.is_some_and(|offered| !offered.list().is_empty())),
            "no-profiles" => once(offered.is_some_and(|offered| offered.list().is_empty())),
            other => unreachable!("the template has a region {other} that nobody fills"),
        });
        (name, text)
    })
}

fn sandbox_fill(sandbox: &Sandbox) -> Fill {
    // Relative to `src/generated`.
    let path = format!("../{}", sandbox.file.strip_prefix("src/").unwrap_or(&sandbox.file));
    Fill {
        holes: vec![
            // A newline in a directory name would end the comment or string.
            ("__KOZE_SOURCE__", sandbox.file.escape_debug().to_string()),
            ("__KOZE_PATH__", path.escape_debug().to_string()),
            ("__KOZE_KIND__", sandbox.kind().word().to_owned()),
            ("__KOZE_MODULE__", sandbox.names.module.clone()),
            ("__KOZE_CLASS__", sandbox.class.value.clone()),
            ("__KOZE_ACCESSOR__", sandbox.names.accessor.clone()),
            ("__KOZE_BINDING__", sandbox.names.binding.clone()),
        ],
        // Code outside the module cannot construct a private struct.
        regions: vec![if sandbox.public { "public" } else { "private" }],
    }
}
