//! Sandboxes in real containers: the class and the guest as `koze build` combines them, behind a Worker that wrangler
//! runs, with podman as its Docker engine.

mod calls;
mod conformance;
mod credentials;
mod egress;
mod engine;
mod faults;
mod images;
mod managed;
mod moved;
mod project;
mod service;
mod sleep;
