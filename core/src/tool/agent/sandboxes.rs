//! `sandbox_create` and `sandbox_list`.

use std::collections::BTreeSet;
use std::time::Duration;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::Result;
use crate::http::list_sandboxes;
use crate::profiles::Profiles;
use crate::provider::Provider;
use crate::session::{SLEEP_AFTER, SLEEP_AFTER_MS, Session};
use crate::tool::dialect::Definition;
use crate::tool::input::check_range;
use crate::tool::{Reply, Scope, Tool};

/// Creates a sandbox.
#[derive(Debug)]
pub struct SandboxCreate;

/// The input of `sandbox_create`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Create {
    /// The name of the sandbox.
    #[cfg_attr(test, schemars(regex(pattern = crate::id::NAME_PATTERN)))]
    sandbox: String,
    /// The image to run.
    #[serde(default)]
    image: Option<String>,
    /// The size of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(skip))]
    size: Option<String>,
    /// Idle time in milliseconds before the sandbox sleeps. Defaults to the value of its image, or to 600000. Sleep ends all
    /// processes. Files in a container are deleted; files of a local sandbox persist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1000, max = 86_400_000)))]
    sleep_after_ms: Option<u64>,
}

impl Tool for SandboxCreate {
    const NAME: &'static str = "sandbox_create";
    const DESCRIPTION: &'static str = "Create a named sandbox, or return the existing one. Returns created.";
    const SCOPE: Scope = Scope::Session;
    type Input = Create;

    async fn call<P: Provider>(session: &Session<P>, input: Create) -> Result<Reply> {
        let sleep = match input.sleep_after_ms {
            Some(sleep) => Some(Duration::from_millis(check_range("sleep_after_ms", sleep, SLEEP_AFTER_MS)?)),
            None => None,
        };
        let created =
            session.create(&input.sandbox, input.image.as_deref(), input.size.as_deref(), sleep).await?;
        let mut reply = json!({ "sandbox": input.sandbox, "created": created });
        let profile = session.profiles().find(input.image.as_deref())?;
        if let Some(note) = session.provider_note(profile) {
            reply["note"] = note.into();
        }
        Reply::ok(reply)
    }
}

/// Lists the profiles in the schema.
pub(super) fn name_profiles(definitions: &mut [Definition], profiles: &Profiles) {
    // Several profiles may have the same image, and the same sizes.
    let images =
        profiles.list().iter().flat_map(|profile| [profile.name.as_str(), profile.reference.as_str()]);
    let sizes = profiles.list().iter().flat_map(|profile| &profile.sizes).map(|size| size.name.as_str());
    let ours = definitions.iter_mut().find(|definition| definition.name == SandboxCreate::NAME);
    let Some(properties) = ours.and_then(|ours| ours.schema.get_mut("properties")) else { return };
    properties["image"] = json!({
        "type": "string",
        "description": "The image to run.",
        "enum": unique(images),
        "default": profiles.default_profile().name,
    });
    // The key exists only where there is a choice.
    let sizes = unique(sizes);
    if !sizes.is_empty() {
        properties["size"] = json!({
            "type": "string",
            "description": "The size of the machine. Defaults to that of the image.",
            "enum": sizes,
        });
    }
    // If the profiles differ, no single value is the default.
    if profiles.list().iter().all(|profile| profile.sleep_after.is_none_or(|sleep| sleep == SLEEP_AFTER)) {
        properties["sleep_after_ms"]["default"] =
            u64::try_from(SLEEP_AFTER.as_millis()).unwrap_or_default().into();
    }
}

/// Returns each name once, in the order of their first places.
fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(*name)).collect()
}

/// Lists the sandboxes.
#[derive(Debug)]
pub struct SandboxList;

/// The input of `sandbox_list`: an empty object.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

impl Tool for SandboxList {
    const NAME: &'static str = "sandbox_list";
    const DESCRIPTION: &'static str =
        "List the sandboxes of this session. Returns the name, image and status of each.";
    const SCOPE: Scope = Scope::Session;
    type Input = Nothing;

    async fn call<P: Provider>(session: &Session<P>, _: Nothing) -> Result<Reply> {
        Reply::ok(serde_json::to_value(list_sandboxes(session).await?).expect("a list is plain data"))
    }
}
