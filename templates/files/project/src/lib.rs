//! A Worker with isolated Linux sandboxes.

use koze::SandboxClass;
use worker::{Context, Request, Response, Result, event};

mod generated;

use generated::ShellSandbox;

/// Answers every request with the sandboxes this Worker has.
#[event(fetch)]
async fn fetch(_request: Request, env: worker::Env, _context: Context) -> Result<Response> {
    let env = generated::Env::from(env);
    // The same key is the same sandbox. Its container starts with the first call.
    let sandbox = env.shell_sandbox().get("hello")?;
    Response::ok(format!(
        "{}: {sandbox:?} in the container application {}\n",
        ShellSandbox::BINDING,
        ShellSandbox::CONTAINER,
    ))
}
