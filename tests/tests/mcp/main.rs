//! `koze mcp` as its clients see it: the official SDKs for TypeScript, the inspector, and bare HTTP.

mod clients;
mod follows;
mod http;
mod inspector;
mod server;
mod twice;
