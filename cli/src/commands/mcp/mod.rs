//! `koze mcp`: serves the tools over the Model Context Protocol, on standard input and output or over HTTP, and configures
//! clients that start it.

mod config;
mod http;
pub(in crate::commands) mod offer;
#[cfg_attr(not(namespaces), path = "parent_id.rs")]
mod parent;

use std::process::ExitCode;

use super::local_session::{self, LocalSession};
use super::show;
use crate::args;
use crate::mcp::offers::Offers;
use crate::mcp::server::Server;
use crate::mcp::stdio;
use crate::mcp::supervised::Supervised;

use self::offer::Project;
use self::parent::Parent;

pub(super) fn run(args: &args::Mcp) -> Result<ExitCode, ExitCode> {
    if let Some(client) = args.print_config {
        return config::print(args, client);
    }
    if let Some(client) = args.write {
        return config::write(args, client);
    }
    let parent = Parent::find();
    let listen = args.http.as_ref().map(|address| http::listen(address, &args.allow_origin));
    let listen = listen.transpose().map_err(|why| show::usage(&why))?;
    let client = LocalSession::find(&args.session)?.client();
    let project = Project::new(args.session.clone(), args.offer.clone())?;
    let offers = Offers::new(move || project.now());
    let runtime = local_session::start_runtime()?;
    let done = runtime.block_on(async {
        if let Some(listen) = listen {
            return http::serve(client, offers, listen).await;
        }
        let backend = Supervised::new(client, offers);
        let server = Server::new(backend).map_err(|error| error.message)?;
        // The parent is the client, which starts a server of its own.
        tokio::select! {
            done = stdio::serve(server) => done,
            () = parent.wait_for_end() => Ok(()),
        }
    });
    // A thread may still wait for standard input.
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS).map_err(|why| show::failure(&why))
}
