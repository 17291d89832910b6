//! `koze serve`: the sandboxes of this machine over HTTP, for several tenants.

use std::collections::HashMap;
use std::env::VarError;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;

use koze_core::http::Tokens;
use koze_core::http::tokens::{InvalidSecret, TENANT, TOKEN, TOKENS};
use tokio::signal::unix::{SignalKind, signal};

use super::local_session;
use super::mcp::offer::Project;
use super::show;
use super::with_wrangler::opened;
use crate::args::{self, Format, ProjectArgs};
use crate::dev::{environment, secrets, token};
use crate::mcp::offers::Offers;
use crate::provider::EngineKind;
use crate::serve::{HttpServer, Listen, Previews, Tenant};
use crate::session::State;

pub(super) fn run(args: &args::Serve) -> Result<ExitCode, ExitCode> {
    let state = local_session::state(&args.state.project, args.state.state.as_deref())?;
    let state = state.with_engine(args.engine.map(EngineKind::from));
    let listen = Listen::new(SocketAddr::new(args.host, args.port), &args.allow_origin)
        .map_err(|why| show::usage(&why))?
        .with_any_host();
    let previews = args.preview_url.as_deref().map(Previews::new).transpose();
    let previews = previews.map_err(|why| show::usage(&why))?;
    let project = Project::new(args.default_session(), args.offer.clone())?;
    let (tokens, created) = read_tokens(args, &state)?;
    let offers = Offers::new(move || project.now());
    let runtime = local_session::start_runtime()?;
    let done = runtime.block_on(serve(args, &state, listen, (tokens, created), offers, previews));
    // The calls that run are canceled: their clients are gone.
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS).map_err(|why| show::failure(&why))
}

/// Serves until Ctrl-C or SIGTERM.
async fn serve(
    args: &args::Serve,
    state: &State,
    listen: Listen,
    (tokens, created): (Tokens, Option<String>),
    offers: Offers,
    previews: Option<Previews>,
) -> Result<(), String> {
    let unheard = |error| format!("signals cannot be received: {error}");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unheard)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(unheard)?;
    let mut tenants = HashMap::new();
    let mut places = String::new();
    for name in tokens.tenants() {
        let state = find_state(state, name).map_err(|error| error.message)?;
        let _ = writeln!(places, "koze serve: tenant `{name}`: {}", state.dir().display());
        let tenant = Tenant::of_state(state, args.max_sessions, offers.clone());
        tenants.insert(name.to_owned(), tenant.with_previews(previews.clone()));
    }
    let http = HttpServer::bind(listen).await?;
    show::err(&format!("koze serve: {}\n", http.url));
    if let Some(token) = created {
        show::err(&format!(
            "koze serve: Authorization: Bearer {token}\n\
             koze serve: neither {TOKEN} nor {TOKENS} is set, so only programs on this machine can connect\n"
        ));
    }
    show::err(&places);
    if !args.host.is_loopback() {
        show::err("koze serve: requests are not encrypted: put a proxy with TLS in front of this server\n");
    }
    tokio::select! {
        () = http.serve(tokens, tenants, previews) => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// Returns the state directory of a tenant. The default one has that of the project, so that the other commands show its sandboxes.
fn find_state(state: &State, tenant: &str) -> koze_core::Result<State> {
    if tenant == TENANT { Ok(state.clone()) } else { state.of_tenant(tenant) }
}

/// Returns the tokens, and the one that koze created because the user has set none.
fn read_tokens(args: &args::Serve, state: &State) -> Result<(Tokens, Option<String>), ExitCode> {
    let (one, several) = find_secrets(args)?;
    let read = |one: Option<&str>, several: Option<&str>| {
        Tokens::read(one, several)
            .map_err(|InvalidSecret { name, why }| show::failure(&format!("{name} cannot be used: {why}")))
    };
    if let Some(tokens) = read(one.as_deref(), several.as_deref())? {
        return Ok((tokens, None));
    }
    if !args.host.is_loopback() {
        let host = args.host;
        return Err(show::usage(&format!(
            "--host: {host} can be reached from elsewhere, so clients need a token: set {TOKEN}, or {TOKENS} for several tenants"
        )));
    }
    state.make().map_err(|error| local_session::failed(&error))?;
    let created = token::remembered(state.dir())
        .map_err(|error| show::failure(&format!("cannot store a token: {error}")))?;
    let tokens = read(Some(&created), None)?.expect("it has a token");
    Ok((tokens, Some(created)))
}

/// Returns the secrets `KOZE_TOKEN` and `KOZE_TOKENS`: from the environment if one is there, or else those of the Worker in
/// development.
fn find_secrets(args: &args::Serve) -> Result<(Option<String>, Option<String>), ExitCode> {
    let of_environment = |name: &str| match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(show::failure(&format!("{name} is not UTF-8"))),
    };
    let set = (of_environment(TOKEN)?, of_environment(TOKENS)?);
    if set.0.is_some() || set.1.is_some() {
        return Ok(set);
    }
    let place = ProjectArgs {
        project: args.state.project.clone(),
        config: args.config.clone(),
        strict: false,
        format: Format::Human,
    };
    let (project, config) = opened(&place)?;
    let environment = environment::found(&project.dir).map_err(|why| show::failure(&why))?;
    let find = |name: &str| {
        secrets::find_value(name, config.document.value(), environment.as_deref(), config.dir())
            .map_err(|why| show::failure(&why))
    };
    Ok((find(TOKEN)?, find(TOKENS)?))
}
