//! `koze tools`.

use std::process::ExitCode;

use koze_core::tool::{All, Catalog};
use serde_json::Value;

use super::{project, show};
use crate::args::{self, Format};
use crate::build::Build;
use crate::finding::Findings;
use crate::output;

pub(super) fn run(args: &args::Tools) -> ExitCode {
    let mut findings = Findings::new(args.place.strict);
    let offered = project::offered(&args.place, &mut findings);
    if offered.is_err() && args.place.format == Format::Json {
        show::out(&output::json::render(&Build::default(), &findings));
        return ExitCode::FAILURE;
    }
    if args.place.format == Format::GitHub {
        // Standard output has the definitions.
        show::err(&project::annotations(&args.place, &findings));
    } else {
        show::findings(&findings);
    }
    let Ok((_, profiles)) = offered else { return ExitCode::FAILURE };
    let catalog = match Catalog::<All>::select(&profiles, args.tools.as_deref()) {
        Ok(catalog) => catalog,
        Err(error) => return show::failed(&error),
    };
    let definitions = catalog.definitions(&profiles);
    let list = definitions.iter().map(|definition| definition.to_json(args.dialect.into())).collect();
    show::out(&format!("{:#}\n", Value::Array(list)));
    ExitCode::SUCCESS
}
