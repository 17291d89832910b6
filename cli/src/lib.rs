//! The `koze` command.
pub mod wrangler;
