//! The requests that the proxy of a sandbox refused: many programs do not say why they failed, and neither does a browser.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use hyper::{StatusCode, Uri};

use crate::http::Refusal as Answer;
use koze_core::egress::describe_target;
use koze_core::error::Code;
use koze_core::script::Refusal;

/// How many refusals are kept.
const KEPT: usize = 100;

/// The refused requests, the oldest first.
#[derive(Debug, Default)]
pub struct Refusals {
    last: Mutex<VecDeque<Refusal>>,
    /// How many there were.
    count: AtomicUsize,
}

impl Refusals {
    /// Adds a request, with the answer that it got.
    pub(crate) fn add_request(&self, asked: &Uri, answer: &Answer) {
        let port = asked.port_u16().unwrap_or(if asked.scheme_str() == Some("https") { 443 } else { 80 });
        self.add(asked.host().unwrap_or_default().to_owned(), port, answer);
    }

    /// Adds a request to a host, which is written as in a URL.
    pub(crate) fn add(&self, host: String, port: u16, answer: &Answer) {
        let refusal =
            Refusal { host, port, code: code_of_status(answer.status), message: answer.text.clone() };
        let mut all = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KEPT {
            all.pop_front();
        }
        all.push_back(refusal);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many there were.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns the hosts that the policy refused after the first `count` requests, with their ports.
    fn hosts_after(&self, count: usize) -> BTreeSet<String> {
        let all = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let new = self.count().saturating_sub(count);
        let by_policy = all.iter().rev().take(new).filter(|refusal| refusal.code == Code::PermissionDenied);
        by_policy.map(|refusal| describe_target(&refusal.host, refusal.port)).collect()
    }

    /// Names the hosts that the policy refused after the first `count` requests, if there were any: to a program, this looks like any
    /// other failure of a proxy.
    pub fn describe_after(&self, count: usize) -> Option<String> {
        let hosts: Vec<String> = self.hosts_after(count).into_iter().collect();
        (!hosts.is_empty()).then(|| {
            format!("egress_refused: the network policy of the sandbox refused {}", hosts.join(", "))
        })
    }

    /// Returns those since the last call of [`clear`](Self::clear).
    pub fn list(&self) -> Vec<Refusal> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Forgets them.
    pub fn clear(&self) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Returns the code of the error with this status.
pub fn code_of_status(status: StatusCode) -> Code {
    match status {
        StatusCode::BAD_REQUEST => Code::InvalidInput,
        StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => Code::PermissionDenied,
        _ => Code::Unavailable,
    }
}
