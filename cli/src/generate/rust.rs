//! `mod.rs` and `env.rs`: a module for every sandbox file, and a typed accessor for every sandbox and binding.

use koze_model::Sandbox;
use koze_templates::{ENV, MODULE};

use super::env;
use super::template::{Fill, Template};
use crate::wrangler::bindings::Bindings;

/// `mod.rs` and `env.rs`, whose templates have the same placeholders; `served` says whether agents get tools, `registry`
/// whether their sandboxes are recorded.
pub(super) fn render(
    sandboxes: &[Sandbox],
    bindings: &Bindings,
    served: bool,
    registry: bool,
) -> [(&'static str, String); 2] {
    let fills: Vec<Fill> = sandboxes.iter().map(sandbox).collect();
    let accessors = env::fills(bindings, sandboxes);
    let standing = [Fill::default()];
    [("mod.rs", MODULE), ("env.rs", ENV)].map(|(name, template)| {
        let text = Template::new(template).render(&Fill::default(), &|region| match region {
            "sandbox" => fills.as_slice(),
            "binding" => accessors.as_slice(),
            "served" if served => &standing,
            "registry" if registry => &standing,
            "served" | "registry" => &[],
            other => unreachable!("the template has a region {other} that nobody fills"),
        });
        (name, text)
    })
}

fn sandbox(sandbox: &Sandbox) -> Fill {
    // From `src/generated` to a file below `src`.
    let path = format!("../{}", sandbox.file.strip_prefix("src/").unwrap_or(&sandbox.file));
    Fill {
        holes: vec![
            // A line end in a directory's name would end the comment or the string it stands in.
            ("__KOZE_SOURCE__", sandbox.file.escape_debug().to_string()),
            ("__KOZE_PATH__", path.escape_debug().to_string()),
            ("__KOZE_MODULE__", sandbox.names.module.clone()),
            ("__KOZE_CLASS__", sandbox.class.value.clone()),
            ("__KOZE_ACCESSOR__", sandbox.names.accessor.clone()),
            ("__KOZE_BINDING__", sandbox.names.binding.clone()),
        ],
        // A struct that is not public cannot be made so from outside.
        regions: vec![if sandbox.public { "public" } else { "private" }],
    }
}
