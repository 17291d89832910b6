//! The routes for the sandboxes of a session.

use std::time::Duration;

use super::body::{CreateSandbox, CreatedSandbox, SandboxDetails, SandboxEgress, SandboxEntry, SandboxList};
use super::request::{Refusal, Response, with_status};
use crate::error::{Code, Error, Result};
use crate::id::SandboxName;
use crate::provider::Provider;
use crate::sandbox::Sandbox as _;
use crate::session::{SLEEP_AFTER_MS, Session};
use crate::time::now;
use crate::tool::input::check_range;

/// Lists the sandboxes.
pub(crate) async fn list_sandboxes<P: Provider>(session: &Session<P>) -> Result<SandboxList> {
    let now = now();
    let infos = session.list().await?;
    Ok(SandboxList { sandboxes: infos.iter().map(|info| SandboxEntry::new(info, now)).collect() })
}

/// Creates a sandbox unless it exists.
pub(super) async fn create<P: Provider>(
    session: &Session<P>,
    wanted: CreateSandbox,
) -> std::result::Result<Response, Refusal> {
    let CreateSandbox { name, image, size, sleep_after_ms } = wanted;
    let sleep_after = match sleep_after_ms {
        Some(sleep) => Some(Duration::from_millis(check_range("sleep_after_ms", sleep, SLEEP_AFTER_MS)?)),
        None => None,
    };
    let created = session.create(&name, image.as_deref(), size.as_deref(), sleep_after).await?;
    Ok(with_status(if created { 201 } else { 200 }, &CreatedSandbox { name, created }))
}

/// Describes a sandbox. Works without a list of the sandboxes, which a Worker without the registry does not have.
pub(super) async fn describe<P: Provider>(session: &Session<P>, name: &str) -> Result<SandboxDetails> {
    let name = SandboxName::new(name)?;
    let found = session.find_sandbox(&name).await?;
    let none = || Error::new(Code::NotFound, format!("there is no sandbox `{name}` in this session"));
    let opened = found.ok_or_else(none)?;
    let profile = session.profiles().list().iter().find(|profile| profile.name == opened.profile);
    let egress = profile.map(|profile| SandboxEgress {
        internet: profile.internet,
        allowed_hosts: profile.allowed_hosts.clone(),
        denied_hosts: profile.denied_hosts.clone(),
    });
    let variables = profile.iter().flat_map(|profile| &profile.env).map(|(name, _)| name.clone());
    Ok(SandboxDetails {
        name: name.to_string(),
        status: opened.sandbox.status().await?,
        reference: profile.map(|profile| profile.reference.clone()),
        size: opened.size,
        egress,
        variables: variables.collect(),
        image: opened.profile,
    })
}
