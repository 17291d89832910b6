//! A Worker whose agents work in isolated Linux sandboxes.

use worker::{Context, Request, Response, Result, event};

mod generated;

/// Serves the tools and the ports of sandboxes. See `README.md`.
#[event(fetch)]
async fn fetch(request: Request, env: worker::Env, _context: Context) -> Result<Response> {
    generated::serve(request, env.into()).await
}
