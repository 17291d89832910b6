//! Ends the code contexts of a sandbox that goes to sleep.

use std::time::Duration;

use futures_util::future::join_all;
use koze_core::workspace::is_context_label;
use tokio::time::timeout;

use super::input;
use super::record::Record;
use crate::sandbox::running::Running;

/// How long their interpreters may take to end. Shorter than another program waits for the sandbox: see `claim`.
const GRACE: Duration = Duration::from_secs(2);
/// How many bytes one read takes at most.
const PIECE: usize = 256 << 10;

/// Ends their interpreters, as the end of their input does, so that they write what is buffered.
pub(crate) async fn end_contexts(running: &Running) {
    if running.has_ended() {
        return;
    }
    let records: Vec<_> = {
        let roster = running.processes.roster();
        let contexts = roster.iter().filter(|(_, record)| record.label().is_some_and(is_context_label));
        contexts.map(|(_, record)| record.clone()).collect()
    };
    // Those that take longer end with the sandbox.
    let _ = timeout(GRACE, join_all(records.iter().map(|record| end_process(record)))).await;
}

async fn end_process(record: &Record) {
    if input::close_input(record, GRACE).await.is_err() {
        return;
    }
    let mut news = record.news.subscribe();
    let mut cursor = 0;
    loop {
        news.mark_unchanged();
        // A program whose output nobody reads would wait for that.
        let Ok(read) = record.read(cursor, PIECE) else { return };
        if read.exit.is_some() || record.check().is_err() {
            return;
        }
        if read.next == cursor && news.changed().await.is_err() {
            return;
        }
        cursor = read.next;
    }
}
