//! `koze mcp`: the tools over the Model Context Protocol, on standard input and output or over HTTP.

mod http;
mod origins;
mod server;

use std::process::ExitCode;

use rmcp::ServiceExt as _;
use rmcp::transport::io::stdio_pipes;

use self::server::Server;
use super::here::{self, Here};
use super::show;
use crate::args;

pub(super) fn run(args: &args::Mcp) -> ExitCode {
    serve(args).unwrap_or_else(|code| code)
}

fn serve(args: &args::Mcp) -> Result<ExitCode, ExitCode> {
    let here = Here::find(&args.here)?;
    let server = Server::new(here.client(), here::images(&args.here)?);
    let done = here::wait(async {
        match &args.http {
            Some(address) => http::serve(server, address, &args.allow_origin).await,
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
    let running = server.serve(stdio_pipes()).await.map_err(|error| error.to_string())?;
    running.waiting().await.map(drop).map_err(|error| error.to_string())
}
