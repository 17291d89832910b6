//! The permission to leave protections out. This file imports nothing, because modules that `prove` uses name it.

/// The permission to leave protections out. Only `prove` can create it, so no other module can leave one out.
#[derive(Debug)]
pub(crate) struct Permit(());

impl Permit {
    pub(super) fn new() -> Self {
        Permit(())
    }
}
