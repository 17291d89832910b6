//! Copies a file or tree from one object to another as a stream: one call of each, regardless of the number of files.
//! Cloudflare limits the calls of a request, and each takes time.

use std::time::Duration;

use super::CloudflareSandbox;
use super::object::{BACKOFF, Refused, WITHIN, jittered};
use super::waiting::Waiting;
use super::{call, contract};
use koze_core::error::{Error, Result};
use koze_core::sandbox::Place;
use koze_core::time::{millis, now, sleep};

/// The timeout of a stream. The classes abort a stalled stream much earlier.
pub(super) const TIMEOUT: Duration = Duration::from_mins(62);

/// Copies to a path that does not exist. Returns the total size of the files, or `None` if either class does not
/// support streams.
///
/// An error of the source arrives through the stream, as an error of its receiver.
pub(super) async fn copy(
    from: &CloudflareSandbox,
    source: Place<'_>,
    to: &CloudflareSandbox,
    target: Place<'_>,
) -> Result<Option<u64>> {
    let except = target.path.rsplit('/').next().unwrap_or_default().to_owned();
    let pack = contract::Pack { root: source.root.into(), path: source.path.into(), except };
    let unpack =
        contract::Unpack { root: target.root.into(), path: target.path.into(), call: to.call_name() };
    let mut object = to.object().clone();
    let until = now().saturating_add(millis(WITHIN));
    let mut wait = BACKOFF.0;
    loop {
        let packed = match from.ask(call::pack(&pack, WITHIN)).await {
            Err(Refused::Unstreamed) => return Ok(None),
            packed => packed?,
        };
        // Dropped with this call, which cancels the receiver and the sender.
        let waiting = Waiting::new();
        match object.call(call::unpack(&unpack, &packed.stream, waiting.function(), TIMEOUT)).await {
            Ok(unpacked) => return Ok(Some(unpacked.bytes)),
            Err(Refused::Unstreamed) => return Ok(None),
            Err(Refused::Unopened) if now() < until => object = to.open().await?,
            Err(Refused::Retry(_)) if now().saturating_add(millis(wait)) < until => {
                sleep(jittered(wait)).await;
                wait = (wait * 2).min(BACKOFF.1);
            }
            Err(refused) => return Err(Error::from(refused)),
        }
    }
}
