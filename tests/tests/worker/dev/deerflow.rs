//! The adapter for `DeerFlow` in `examples`, on `koze dev --local`.

use std::process::Command;

use koze_tests::{root, run};

use super::run::Dev;
use crate::project::TIMEOUT;
use crate::served::rust_worker;

const TOKEN: &str = "a token of the adapter";

#[test]
fn the_adapter_works() {
    let worker = rust_worker();
    worker.project.write(".dev.vars", format!("KOZE_TOKEN=\"{TOKEN}\"\n"));
    let dev = Dev::start(&worker);
    let mut check = Command::new("python3");
    // Without bytecode next to the sources.
    check.args(["-B", "check.py"]).current_dir(root().join("examples/deerflow"));
    check.env("KOZE_URL", &dev.url).env("KOZE_TOKEN", TOKEN);
    let output = run(check, TIMEOUT);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{}", dev.all_output());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n");
}
