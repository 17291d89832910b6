//! The Worker: wrangler, TypeScript and rustc accept what koze wrote, and Workers run.
//!
//! Each test covers all complete projects: those that `koze new` creates, and the `after` tree of each fixture.

mod agents;
mod archives;
mod bindings;
mod built;
mod containers;
mod deploy;
mod dev;
mod egress;
mod hostile;
mod native;
mod project;
mod refused;
mod runs;
mod rust;
mod scripted;
mod scripts;
mod sdk;
mod served;
mod types;
mod workspaces;
mod wrangler;
