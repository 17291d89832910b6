//! Processes of a sandbox: programs that keep running after the call that started them. Their output is kept here on
//! the host, where programs in the sandbox cannot change it.

mod attached;
mod contexts;
mod ends;
mod handle;
mod input;
mod output;
mod record;
mod start;
pub(crate) mod table;

pub use self::attached::Attached;
pub(super) use self::attached::start_attached;
pub(crate) use self::contexts::end_contexts;
pub use self::handle::LocalProcess;
