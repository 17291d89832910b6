//! `koze mcp`: serves the tools over the Model Context Protocol, on standard input and output or over HTTP.

mod offer;
mod parent;

use std::process::ExitCode;

use super::local_session::{self, LocalSession};
use super::show;
use crate::args;
use crate::mcp::server::Server;
use crate::mcp::stdio;
use crate::mcp::supervised::Supervised;
use crate::serve::{HttpServer, Listen};

use self::offer::Project;
use self::parent::Parent;

pub(super) fn run(args: &args::Mcp) -> Result<ExitCode, ExitCode> {
    let parent = Parent::find();
    let listen = args.http.as_ref().map(|address| Listen::new(address, &args.allow_origin));
    let listen = listen.transpose().map_err(|why| show::usage(&why))?;
    let client = LocalSession::find(&args.session)?.client();
    let project = Project::new(args.session.clone(), args.tools.clone())?;
    let backend = Supervised::new(client, move || project.now());
    let runtime = local_session::start_runtime()?;
    let done = runtime.block_on(async {
        if let Some(listen) = listen {
            return over_http(backend, listen).await;
        }
        // The parent is the client, which starts a server of its own.
        tokio::select! {
            served = stdio::serve(create_server(backend)) => served,
            () = parent.wait_for_end() => Ok(()),
        }
    });
    // A thread may still wait for standard input.
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS).map_err(|why| show::failure(&why))
}

/// Serves until the process is stopped.
async fn over_http(backend: Supervised, listen: Listen) -> Result<(), String> {
    let http = HttpServer::bind(listen).await?;
    show::err(&format!("koze mcp: {}\n", http.url));
    if let Some(token) = &http.new_token {
        show::err(&format!("koze mcp: Authorization: Bearer {token}\n"));
    }
    http.serve(create_server(backend.clone()), backend).await;
    Ok(())
}

fn create_server(backend: Supervised) -> Server {
    let offer = backend.current_offer();
    Server::new(backend, &offer)
}
