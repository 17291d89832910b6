//! `koze mcp`: serves the tools over the Model Context Protocol, on standard input and output or over HTTP.

mod http;
mod offer;
mod origins;

use std::process::ExitCode;
use std::sync::Arc;

use super::here::{self, Here as Place};
use super::show;
use crate::args;
use crate::mcp::server::Server;
use crate::mcp::stdio::{self, Begin, Streams};
use crate::session::client::Served;

use self::offer::{Here, Project};

pub(super) fn run(args: &args::Mcp) -> ExitCode {
    serve(args).unwrap_or_else(|code| code)
}

fn serve(args: &args::Mcp) -> Result<ExitCode, ExitCode> {
    let place = args.http.as_ref().map(|address| http::Place::new(address, &args.allow_origin));
    let place = place.transpose().map_err(|why| {
        show::err(&format!("error: {why}\n"));
        ExitCode::from(2)
    })?;
    let client = Place::find(&args.here)?.client();
    let here = Here { client, project: Arc::new(Project::new(args.here.clone(), args.tools.clone())?) };
    let done = here::wait(async {
        match place {
            Some(place) => http::serve(Server(here), place).await,
            None => on_stdio(here).await,
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

/// Serves until standard input ends. The supervisor serves the client directly. If it stops first, this process takes
/// over and passes each call to the next supervisor.
async fn on_stdio(here: Here) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot read from the client: {error}");
    let Some(streams) = Streams::standard().map_err(failed)? else {
        return stdio::serve_blocking(Server(here)).await;
    };
    let begin = match here.client.serve_mcp(&streams, || here.project.now().offering.clone()).await {
        Ok(Served::ToItsEnd(done)) => return done,
        Ok(Served::ForAWhile { unread }) => Begin::Midway { unread },
        // The client learns about it with each call.
        Err(_) => Begin::Anew,
    };
    stdio::serve(Server(here), streams, begin).await
}
