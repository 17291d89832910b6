//! `sandbox_create` and `sandbox_list`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::Result;
use crate::pool::{Images, Pool};
use crate::provider::Provider;
use crate::tool::dialect::Definition;
use crate::tool::input::within;
use crate::tool::{Reply, Tool};

/// Makes a sandbox.
#[derive(Debug)]
pub struct SandboxCreate;

/// What `sandbox_create` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Create {
    /// The new sandbox's name.
    #[schemars(regex(pattern = crate::id::NAME_PATTERN))]
    sandbox: String,
    /// The image it runs.
    #[serde(default)]
    image: Option<String>,
    /// Milliseconds it may idle before it sleeps; its files are kept.
    #[serde(default = "default_sleep")]
    #[schemars(range(min = 1000, max = 86_400_000))]
    sleep_after_ms: u64,
}

fn default_sleep() -> u64 {
    600_000
}

impl Tool for SandboxCreate {
    const NAME: &'static str = "sandbox_create";
    const DESCRIPTION: &'static str =
        "Make a sandbox of a name, or find it there. Gives whether it was created.";
    type Input = Create;

    async fn call<P: Provider>(pool: &Pool<P>, input: Create) -> Result<Reply> {
        let sleep = within("sleep_after_ms", input.sleep_after_ms, 1000..=86_400_000)?;
        let created =
            pool.create(&input.sandbox, input.image.as_deref(), Duration::from_millis(sleep)).await?;
        Reply::ok(json!({ "sandbox": input.sandbox, "created": created }))
    }
}

/// Says in the schema which images there are.
pub(super) fn name_images(definitions: &mut [Definition], images: &Images) {
    let names: Vec<&str> =
        images.list().iter().flat_map(|image| [image.name.as_str(), image.reference.as_str()]).collect();
    let ours = definitions.iter_mut().find(|definition| definition.name == SandboxCreate::NAME);
    if let Some(image) = ours.and_then(|ours| ours.schema.pointer_mut("/properties/image")) {
        *image = json!({
            "type": "string",
            "description": "The image it runs.",
            "enum": names,
            "default": images.default_image().name,
        });
    }
}

/// Lists the sandboxes.
#[derive(Debug)]
pub struct SandboxList;

/// What `sandbox_list` takes: nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

impl Tool for SandboxList {
    const NAME: &'static str = "sandbox_list";
    const DESCRIPTION: &'static str =
        "List the sandboxes of this session, with their images and whether they run or sleep.";
    type Input = Nothing;

    async fn call<P: Provider>(pool: &Pool<P>, _: Nothing) -> Result<Reply> {
        let list = pool.list().await?;
        let sandboxes: Vec<_> = list
            .into_iter()
            .map(|info| json!({ "name": info.name, "image": info.image, "status": info.status }))
            .collect();
        Reply::ok(json!({ "sandboxes": sandboxes }))
    }
}
