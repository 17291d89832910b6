//! `koze mcp` from the clients' side: the official SDKs for TypeScript, the inspector, and plain HTTP.

mod calls;
mod clients;
mod credentials;
mod duplicate_keys;
mod files;
mod follows;
mod http;
mod inspector;
mod instructions;
mod lines;
mod log;
mod long_calls;
mod memory;
mod openapi;
mod parents;
mod previews;
mod quick_start;
mod remote;
mod resume;
mod serve;
mod server;
mod snapshots;
mod tasks;
mod terminal;
mod trees;
mod watch;
