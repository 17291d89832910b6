//! `koze ui`: a page that shows the sandboxes on this machine, or those of a server.

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use super::mcp::offer::Project;
use super::{local_session, show};
use crate::args;
use crate::commands::remote;
use crate::mcp::offers::Offers;
use crate::serve::Tenant;
use crate::serve::ui::{Remote, Sandboxes, UiServer};

/// The maximum number of sessions whose files and processes the page shows at a time.
const MAX_SESSIONS: usize = 64;

pub(super) fn run(args: &args::Ui) -> Result<ExitCode, ExitCode> {
    let mut shells = None;
    let (place, sandboxes) = match &args.remote.url {
        Some(url) => {
            let client = remote::find_client("ui", url).map_err(|why| show::usage(&why))?;
            let remote = Remote::new(client, args.session.clone());
            shells = Some(remote.shells());
            (url.clone(), Sandboxes::Server(remote))
        }
        None => find_machine(args)?,
    };
    let runtime = local_session::start_runtime()?;
    let done = runtime.block_on(serve(args, &place, sandboxes));
    if let Some(shells) = shells {
        // On this machine, their supervisors kill them.
        shells.kill_all();
    }
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS).map_err(|why| show::failure(&why))
}

/// Returns the state directory of this machine's sandboxes, and access to them.
fn find_machine(args: &args::Ui) -> Result<(String, Sandboxes), ExitCode> {
    let state = local_session::state(&args.state.project, args.state.state.as_deref())?;
    let project = Project::new(args.default_session(), args.offer())?;
    let offers = Offers::new(move || project.now());
    let place = state.dir().display().to_string();
    Ok((place, Sandboxes::Machine(Tenant::of_state(state, MAX_SESSIONS, offers))))
}

/// Serves until Ctrl-C or SIGTERM.
async fn serve(args: &args::Ui, place: &str, sandboxes: Sandboxes) -> Result<(), String> {
    let unheard = |error| format!("signals cannot be received: {error}");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unheard)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(unheard)?;
    let server = UiServer::bind(args.port, sandboxes, args.read_only).await?;
    show::err(&format!(
        "koze ui: {}\n\
         koze ui: open this URL in a browser on this machine. It contains a secret, and works until Ctrl-C\n\
         koze ui: the page shows the sandboxes in {place}{}\n",
        server.url(),
        if args.read_only { ", and changes nothing" } else { "" }
    ));
    tokio::select! {
        () = server.serve() => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}
