//! `koze remove`: a build that deletes the storage of one class.

use std::process::ExitCode;

use super::build;
use crate::args;
use crate::build::Options;

pub(super) fn run(args: &args::Remove) -> ExitCode {
    // The command line demands `--delete-storage`: nothing else says what is to become of the storage.
    let options =
        Options { delete: Some(args.name.clone()), write: !args.dry_run, ..build::options(&args.place) };
    build::run_with(&args.place, &options, false)
}
