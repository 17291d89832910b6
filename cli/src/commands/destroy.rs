//! `koze destroy`: ends sandboxes of this machine, and takes their files away.

use std::process::ExitCode;

use koze_local::Local;

use super::here::{self, Here};
use super::show;
use crate::{args, session};

pub(super) fn run(args: &args::Destroy) -> ExitCode {
    destroy(args).unwrap_or_else(|code| code)
}

fn destroy(args: &args::Destroy) -> Result<ExitCode, ExitCode> {
    let here = Here::find(&args.here)?;
    if !here.state.has(&here.session) {
        // Looking makes nothing.
        for name in &args.names {
            here::failed(&session::no_sandbox(name));
        }
        return Ok(ExitCode::from(u8::from(!args.all)));
    }
    here::wait(async {
        let names =
            if args.all { all(&here).map_err(|error| here::failed(&error))? } else { args.names.clone() };
        let client = here.client();
        let mut code = ExitCode::SUCCESS;
        for name in names {
            match client.destroy(&name).await {
                Ok(()) => show::out(&format!("destroyed {name}\n")),
                Err(error) => code = here::failed(&error),
            }
        }
        Ok(code)
    })?
}

fn all(here: &Here) -> koze_core::Result<Vec<String>> {
    let found = Local::look(here.state.sandboxes(&here.session))?;
    Ok(found.into_iter().map(|(_, info)| info.name.to_string()).collect())
}
