//! The requests of a browser that its proxy refused: the browser itself does not say why.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use hyper::{StatusCode, Uri};

use super::super::http::Refusal as Answer;
use koze_core::error::Code;
use koze_core::script::Refusal;

/// How many refusals are kept.
const KEPT: usize = 100;

/// The refused requests, the oldest first.
#[derive(Debug, Default)]
pub(in super::super::super) struct Refusals(Mutex<VecDeque<Refusal>>);

impl Refusals {
    /// Adds a request, with the answer that it got.
    pub(super) fn add(&self, asked: &Uri, answer: &Answer) {
        let port = asked.port_u16().unwrap_or(if asked.scheme_str() == Some("https") { 443 } else { 80 });
        let host = asked.host().unwrap_or_default().to_owned();
        let refusal = Refusal { host, port, code: code(answer.status), message: answer.text.clone() };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KEPT {
            all.pop_front();
        }
        all.push_back(refusal);
    }

    /// Returns those since the last call of [`clear`](Self::clear).
    pub(in super::super::super) fn list(&self) -> Vec<Refusal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Forgets them.
    pub(in super::super::super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Returns the code of the error with this status.
pub(in super::super) fn code(status: StatusCode) -> Code {
    match status {
        StatusCode::BAD_REQUEST => Code::InvalidInput,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        _ => Code::Unavailable,
    }
}
