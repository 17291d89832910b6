//! `koze mcp` from the clients' side: the official SDKs for TypeScript, the inspector, and plain HTTP.

mod clients;
mod follows;
mod http;
mod inspector;
mod server;
mod twice;
