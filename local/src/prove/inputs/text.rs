//! Text that costs far more than its length to read: nested commands, and JSON that is all values.

use std::hint::black_box;
use std::io;
use std::thread;

use koze_core::provider::memory::Memory;
use koze_core::provider::{Profile, Size};
use koze_core::tool::{All, Catalog, Family, Input};
use koze_core::workspace::{ShellConfig, WorkspaceConfig};
use koze_core::{Profiles, Session, SessionId};
use serde_json::{Value, json};

use super::Target;
use crate::weakness::Weakness;

/// The stack of a thread that answers calls.
const STACK: usize = 2 << 20;
/// The length of the JSON.
const LENGTH: usize = 19_000_000;

/// Runs a command that begins a condition within a condition, in a workspace that allows some programs.
pub(super) fn nested_command(target: &Target) -> io::Result<()> {
    let command = "if ".repeat(20_000);
    if target.weak.contains(&Weakness::Nesting) {
        // As a parser of the whole language reads it.
        return on_thread(move || conditions(&mut command.split_whitespace()).map(drop));
    }
    on_thread(move || call("workspace__proof__run", json!({ "command": command }).into()))
}

/// Reads one condition, with a frame as small as that of such a parser ever is.
fn conditions<'a>(words: &mut impl Iterator<Item = &'a str>) -> io::Result<usize> {
    let frame = black_box([0_u8; 512]);
    let depth = if words.next() == Some("if") { 1 + conditions(words)? } else { 0 };
    Ok(depth + usize::from(frame[depth % frame.len()]))
}

/// Calls a tool with a member that it does not have, which is a list of millions of lists.
pub(super) fn millions_of_values(target: &Target) -> io::Result<()> {
    let text = format!(r#"{{"command":"true","x":[{}0]}}"#, "[0],".repeat(LENGTH / 4));
    let input = if target.weak.contains(&Weakness::Values) {
        serde_json::from_str::<Value>(&text).map_err(io::Error::other)?.into()
    } else {
        Input::read(text.as_bytes()).map_err(|error| match error.into_tool_error() {
            Ok(error) => io::Error::other(error),
            Err(error) => error.into(),
        })?
    };
    call("workspace__proof__run", input)
}

fn on_thread(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().stack_size(STACK).spawn(work)?;
    thread.join().map_err(|_| io::Error::other("the thread panicked"))?
}

/// Calls a tool of a workspace that allows one program.
fn call(tool: &'static str, input: Input) -> io::Result<()> {
    let workspace = WorkspaceConfig {
        shell: Some(ShellConfig { allow: Some(vec!["true".to_owned()]), ..ShellConfig::default() }),
        ..WorkspaceConfig::new("proof")
    };
    let profile = Profile {
        tools: vec![Family::Workspace],
        workspace: Some(workspace),
        ..Profile::new("proof", "proof", Size { memory_mib: 64, disk_mb: 64 })
    };
    let work = async move {
        let profiles = Profiles::new(vec![profile], "proof")?;
        let catalog = Catalog::<All>::select(&profiles, None)?;
        let session = Session::new(Memory::new(), SessionId::new("koze", "proof")?, profiles);
        catalog.call(&session, tool, input).await
    };
    crate::block_on(work).and_then(|done| done).map(drop).map_err(io::Error::other)
}
