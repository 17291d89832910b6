//! The tests' container engine.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use koze_tests::containers::Engine;

/// Returns the engine if this machine can run one. Otherwise reports that the test was left out, or fails if `CI` is
/// set.
pub(super) fn engine() -> Option<Arc<Engine>> {
    match Engine::shared(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("containers")) {
        Ok(engine) => Some(engine),
        Err(why) => {
            assert!(std::env::var_os("CI").is_none(), "no containers can be run: {why}");
            // The output of passing tests is hidden unless it is written this way.
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            let _ =
                writeln!(std::io::stderr(), "\n{name} WAS LEFT OUT, for no containers can be run: {why}\n");
            None
        }
    }
}
