//! `koze inspect`: shows a sandbox on this machine as JSON.

use std::process::ExitCode;
use std::time::Duration;

use koze_core::sandbox::Status;
use serde_json::{Value, json};

use super::local_session::{self, LocalSession};
use super::show;
use super::time::time;
use crate::args;
use crate::provider::{Measured, Surveyed};

pub(super) fn run(args: &args::Inspect) -> Result<ExitCode, ExitCode> {
    let session = LocalSession::find(&args.session)?;
    let sandbox = session.survey(&args.name).map_err(|error| local_session::failed(&error))?;
    let measured = if sandbox.status == Status::Running {
        let measured = local_session::wait(session.client().measure())?;
        measured.map_err(|error| local_session::failed(&error))?
    } else {
        Vec::new()
    };
    let measured = measured.into_iter().find(|measured| measured.name == args.name);
    show::out(&format!("{:#}\n", describe(&sandbox, measured.as_ref())));
    Ok(ExitCode::SUCCESS)
}

/// Describes a sandbox. The values of its variables may be secret, so only their names are shown.
fn describe(sandbox: &Surveyed, measured: Option<&Measured>) -> Value {
    let profile = &sandbox.settings.profile;
    let variables: Vec<_> = profile.env.iter().map(|(name, _)| name).collect();
    let mount = |(path, is_writable): &(String, bool)| json!({ "path": path, "writable": is_writable });
    let mounts: Vec<_> = sandbox.mounts.iter().map(mount).collect();
    json!({
        "session": sandbox.id.session.session(),
        "name": sandbox.id.name.as_str(),
        "image": profile.name,
        "reference": profile.reference,
        "root": sandbox.root.as_deref().unwrap_or("this machine"),
        "size": sandbox.settings.size,
        "status": sandbox.status,
        "created": sandbox.created.map(to_time),
        "last_used": to_time(sandbox.used),
        "sleep_after_seconds": sandbox.settings.sleep_after.as_secs(),
        "egress": {
            "internet": profile.internet,
            "allowed_hosts": profile.allowed_hosts,
            "denied_hosts": profile.denied_hosts,
        },
        "variables": variables,
        "mounts": mounts,
        "limits": {
            "memory_bytes": sandbox.limits.memory,
            "disk_bytes": sandbox.limits.disk,
            "processors": sandbox.limits.processors / 1000,
            "processes": sandbox.limits.processes,
        },
        "preview": sandbox.is_exposed,
        "running": measured.map(|measured| json!({
            "memory_bytes": measured.memory,
            "processor_time_ms": measured.processor_time.map(to_millis),
            "disk_bytes": measured.disk,
            "ports": measured.ports,
            "in_use": measured.is_in_use,
            "idle_ms": to_millis(measured.idle),
            "sleeps_in_ms": measured.sleeps_in.map(to_millis),
            "kernel_limits_memory": measured.has_memory_group,
            "kernel_limits_processors": measured.has_processor_group,
        })),
    })
}

/// Returns a time in seconds since the epoch as text.
pub(super) fn to_time(seconds: i64) -> String {
    time(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000))
}

/// Returns a duration in milliseconds.
pub(super) fn to_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
