//! The engine of the tests itself.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use koze_tests::containers::Engine;

/// The engine, where there can be one; else it is said aloud that the test was left out, and where `CI` is set it fails.
pub(super) fn engine() -> Option<Arc<Engine>> {
    match Engine::shared(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("containers")) {
        Ok(engine) => Some(engine),
        Err(why) => {
            assert!(std::env::var_os("CI").is_none(), "no containers can be run: {why}");
            // What a test that passes prints is not shown, but for this way.
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            let _ =
                writeln!(std::io::stderr(), "\n{name} WAS LEFT OUT, for no containers can be run: {why}\n");
            None
        }
    }
}
