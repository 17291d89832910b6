//! Sandboxes behind Durable Objects: what a Worker's tools run in.

pub mod contract;
