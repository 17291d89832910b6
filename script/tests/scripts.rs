//! Scripts, in this process. `tests/tests/script` runs the same cases in WebAssembly.

mod cases;
mod checks;
mod native;
mod schemas;

use native::send;
