//! `koze mcp`: the tools over the Model Context Protocol, on standard input and output or over HTTP.

mod http;
mod offer;
mod origins;
mod server;
mod stdio;

use std::process::ExitCode;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;

use self::offer::Offer;
use self::server::Server;
use super::here::{self, Here};
use super::show;
use crate::args;

/// The largest request in bytes: a file that a model writes, as JSON.
const MAX_REQUEST: usize = 64 << 20;

pub(super) fn run(args: &args::Mcp) -> ExitCode {
    serve(args).unwrap_or_else(|code| code)
}

fn serve(args: &args::Mcp) -> Result<ExitCode, ExitCode> {
    let place = args.http.as_ref().map(|address| http::Place::new(address, &args.allow_origin));
    let place = place.transpose().map_err(|why| {
        show::err(&format!("error: {why}\n"));
        ExitCode::from(2)
    })?;
    let here = Here::find(&args.here)?;
    let server = Server::new(here.client(), Offer::new(args.here.clone())?);
    let done = here::wait(async {
        match place {
            Some(place) => http::serve(server, place).await,
            None => on_stdio(server).await,
        }
    })?;
    Ok(done.map_or_else(
        |why| {
            show::err(&format!("error: {why}\n"));
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    ))
}

/// Until standard input ends.
async fn on_stdio(server: Server) -> Result<(), String> {
    let (read, write) = stdio::streams();
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(MAX_REQUEST);
    match server.serve(transport).await {
        Ok(running) => running.waiting().await.map(drop).map_err(|error| error.to_string()),
        // It only looked whether somebody is here.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
