//! `koze destroy`: destroys sandboxes on this machine and deletes their files.

use std::process::ExitCode;

use super::local_session::{self, LocalSession};
use super::show;
use crate::{args, provider, session};

pub(super) fn run(args: &args::Destroy) -> Result<ExitCode, ExitCode> {
    let session = LocalSession::find(&args.session)?;
    if !session.state.has(&session.session) {
        // Listing does not create a session.
        for name in &args.names {
            local_session::failed(&session::no_sandbox(name));
        }
        return Ok(ExitCode::from(u8::from(!args.all)));
    }
    local_session::wait(async {
        let names = if args.all {
            list_names(&session).map_err(|error| local_session::failed(&error))?
        } else {
            args.names.clone()
        };
        let client = session.client();
        let mut code = ExitCode::SUCCESS;
        for name in names {
            match client.destroy(&name).await {
                Ok(()) => show::out(&format!("destroyed {name}\n")),
                Err(error) => code = local_session::failed(&error),
            }
        }
        Ok(code)
    })?
}

fn list_names(session: &LocalSession) -> koze_core::Result<Vec<String>> {
    let found = provider::list_sandboxes(&session.state.sandboxes(&session.session))?;
    Ok(found.into_iter().map(|(_, info)| info.name.to_string()).collect())
}
