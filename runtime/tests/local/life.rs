use crate::Test;
use std::process::ExitCode;
pub(crate) const SUPERVISOR: &str = "--supervisor";
pub(crate) fn supervise() -> ExitCode {
    ExitCode::SUCCESS
}
pub(crate) const TESTS: &[Test] = &[];
