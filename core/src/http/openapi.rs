//! The description of all HTTP routes as [OpenAPI 3.1](https://spec.openapis.org/oas/v3.1.1.html). A test makes it from the types of the
//! bodies, and it is committed, so that a Worker does not contain the code that makes it.

/// The document, at `GET /openapi.json`.
pub const DOCUMENT: &str = include_str!("openapi.json");

#[cfg(test)]
mod operation;
#[cfg(test)]
mod routes;
#[cfg(test)]
mod tests;
