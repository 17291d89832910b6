//! The Worker: what koze wrote is taken by wrangler, by TypeScript and by rustc, and one Worker runs.
//!
//! Every test here is about each whole project there is: one that `koze new` makes, and the `after` tree of each
//! fixture.

mod bindings;
mod built;
mod containers;
mod deploy;
mod dev;
mod egress;
mod hostile;
mod native;
mod project;
mod runs;
mod rust;
mod sdk;
mod served;
mod types;
mod wrangler;
