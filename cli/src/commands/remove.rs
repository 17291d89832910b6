//! `koze remove`: builds without the named sandboxes.

use std::process::ExitCode;

use super::build;
use crate::args;
use crate::build::Options;
use crate::draft::{Draft, Removal, Storage};

pub(super) fn run(args: &args::Remove) -> ExitCode {
    // clap requires exactly one of the three flags.
    let storage = match (args.delete_storage, args.never_deployed) {
        (true, _) => Storage::Delete,
        (false, true) => Storage::Never,
        (false, false) => Storage::Keep,
    };
    let removal = Some(Removal { names: args.names.clone(), storage });
    let draft = Draft { removal, ..Draft::default() };
    let options = Options { draft, write: !args.dry_run, ..build::options(&args.place) };
    build::run_with(&args.place, &options, false)
}
