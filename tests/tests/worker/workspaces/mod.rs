//! The tools `workspace` of the Rust Worker in workerd: with native sandboxes and with those of the SDK in stand-ins for
//! their containers, and with the sandboxes of `koze dev --local`.

mod conformance;
mod project;
mod routes;
mod streams;

pub(crate) use project::{Backend, serve_with};
