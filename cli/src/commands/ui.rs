//! `koze ui`: a page that shows the sandboxes on this machine.

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use super::local_session;
use super::mcp::offer::Project;
use super::show;
use crate::args;
use crate::mcp::offers::Offers;
use crate::serve::Tenant;
use crate::serve::ui::UiServer;
use crate::session::State;

/// The maximum number of sessions whose files and processes the page shows at a time.
const MAX_SESSIONS: usize = 64;

pub(super) fn run(args: &args::Ui) -> Result<ExitCode, ExitCode> {
    let state = local_session::state(&args.state.project, args.state.state.as_deref())?;
    let project = Project::new(args.default_session(), args.offer())?;
    let offers = Offers::new(move || project.now());
    let runtime = local_session::start_runtime()?;
    let done = runtime.block_on(serve(args, state, offers));
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS).map_err(|why| show::failure(&why))
}

/// Serves until Ctrl-C or SIGTERM.
async fn serve(args: &args::Ui, state: State, offers: Offers) -> Result<(), String> {
    let unheard = |error| format!("signals cannot be received: {error}");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unheard)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(unheard)?;
    let place = state.dir().display().to_string();
    let server =
        UiServer::bind(args.port, Tenant::of_state(state, MAX_SESSIONS, offers), args.read_only).await?;
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
