//! Tracing spans for tool calls, for the opening of sandboxes, and for their programs.
//!
//! koze installs no subscriber, so nothing is recorded unless the host program does. Spans contain the names of tools,
//! sandboxes and profiles, but no inputs, commands or outputs, because these may contain secrets. Without the feature
//! `tracing` there are no spans.

/// Runs an operation in a span.
macro_rules! within {
    ($name:literal { $($field:ident = $value:expr),* $(,)? }, $operation:expr) => {{
        #[cfg(feature = "tracing")]
        let result = $crate::trace::run_in_span(tracing::debug_span!($name, $($field = $value),*), $operation).await;
        #[cfg(not(feature = "tracing"))]
        let result = $operation.await;
        result
    }};
}
pub(crate) use within;

/// Emits an event: its level, its message and its fields.
macro_rules! event {
    ($level:ident $message:literal { $($field:ident = $value:expr),* $(,)? }) => {{
        #[cfg(feature = "tracing")]
        tracing::$level!($($field = $value,)* $message);
        #[cfg(not(feature = "tracing"))]
        let _ = ($message, $(&$value,)*);
    }};
}
pub(crate) use event;

/// Runs an operation in its span, and records there why it failed, with the source that its caller does not see.
#[cfg(feature = "tracing")]
pub(crate) async fn run_in_span<T>(
    span: tracing::Span,
    operation: impl Future<Output = crate::Result<T>>,
) -> crate::Result<T> {
    use std::error::Error as _;

    use tracing::Instrument as _;

    // On the heap, because every layer of futures counts towards the compiler's recursion limit in the programs of users.
    let result = Box::pin(operation).instrument(span.clone()).await;
    if let Err(error) = &result {
        let source = error.source().map(tracing::field::display);
        tracing::debug!(parent: &span, code = error.code.as_str(), error = error.message, source, "failed");
    }
    result
}
