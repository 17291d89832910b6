//! Ends the sidecar of a container that is gone.
//!
//! workerd keeps a sidecar as long as its Durable Object, which `wrangler dev` keeps until it ends. podman polls every
//! running container four times a second, so the sidecars of the containers of a whole suite would use a processor.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::thread::sleep;
use std::time::Duration;

use crate::detached;

/// How often the network is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// How many times in a row nothing may listen there. A container that has gone to sleep is back before.
const QUIET: u32 = 15;
/// The state of a socket that listens.
const LISTEN: &str = "0A";

/// Exits once the container has listened on ports of its own, and no longer does. Call it when all ports of the sidecar are
/// open.
pub(crate) fn watch() -> io::Result<()> {
    let own = listening()?;
    detached(move || {
        let (mut seen, mut quiet) = (false, 0);
        while !seen || quiet < QUIET {
            sleep(LOOK);
            let used = !listening()?.is_subset(&own);
            seen |= used;
            quiet = if used { 0 } else { quiet + 1 };
        }
        std::process::exit(0)
    });
    Ok(())
}

/// Returns the addresses in this network on which anything listens.
fn listening() -> io::Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = match fs::read_to_string(table) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            text => text?,
        };
        for line in text.lines().skip(1) {
            let mut fields = line.split_whitespace().skip(1);
            if let (Some(address), _, Some(LISTEN)) = (fields.next(), fields.next(), fields.next()) {
                all.insert(address.to_owned());
            }
        }
    }
    Ok(all)
}
