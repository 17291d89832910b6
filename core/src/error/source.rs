//! The source of an error. A Worker keeps it with the feature `tracing` only: it adds 6 KiB to the compressed upload.

pub(super) use self::stored::Source;

#[cfg(any(not(target_arch = "wasm32"), feature = "tracing"))]
mod stored {
    use std::error::Error;
    use std::sync::Arc;

    /// The error that caused another one.
    #[derive(Debug, Clone, Default)]
    pub(in super::super) struct Source(Option<Arc<dyn Error + Send + Sync>>);

    impl Source {
        pub(in super::super) fn new(error: impl Error + Send + Sync + 'static) -> Self {
            Source(Some(Arc::new(error)))
        }

        pub(in super::super) fn get(&self) -> Option<&(dyn Error + 'static)> {
            self.0.as_deref().map(|error| error as _)
        }
    }
}

#[cfg(not(any(not(target_arch = "wasm32"), feature = "tracing")))]
mod stored {
    use std::error::Error;

    /// Nothing.
    #[derive(Debug, Clone, Default)]
    pub(in super::super) struct Source;

    impl Source {
        pub(in super::super) fn new(_: impl Error + Send + Sync + 'static) -> Self {
            Source
        }

        pub(in super::super) fn get(&self) -> Option<&(dyn Error + 'static)> {
            None
        }
    }
}
