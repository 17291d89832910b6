//! `koze mcp --http`: the server over HTTP, for one session.

use std::collections::HashMap;
use std::net::SocketAddr;

use koze_core::http::Tokens;
use koze_core::http::tokens::{MIN_TOKEN, TENANT};

use crate::commands::show;
use crate::dev::token;
use crate::mcp::offers::Offers;
use crate::serve::{HttpServer, Listen, Tenant};
use crate::session::Client;

/// The environment variable that holds the token.
const TOKEN: &str = "KOZE_MCP_TOKEN";

/// Validates the arguments.
pub(super) fn listen(address: &str, origins: &[String]) -> Result<Listen, String> {
    let address: SocketAddr = address
        .parse()
        .map_err(|_| format!("--http: `{address}` is not an address such as 127.0.0.1:8080"))?;
    if !address.ip().is_loopback() {
        let text = "the tools run commands, so they are served only on the loopback interface";
        return Err(format!("--http: {address} can be reached from elsewhere: {text}"));
    }
    Listen::new(address, origins)
}

/// Serves until the process is stopped.
pub(super) async fn serve(client: Client, offers: Offers, listen: Listen) -> Result<(), String> {
    let (token, is_new) = read_or_create_token()?;
    let tokens = Tokens::read(Some(&token), None);
    let tokens = tokens.ok().flatten().ok_or_else(|| format!("{TOKEN} is not a valid token"))?;
    let http = HttpServer::bind(listen).await.map_err(|why| format!("--http: {why}"))?;
    show::err(&format!("koze mcp: {}\n", http.mcp_url()));
    if is_new {
        show::err(&format!("koze mcp: Authorization: Bearer {token}\n"));
    }
    let tenant = Tenant::of_session(client, offers);
    http.serve(tokens, HashMap::from([(TENANT.to_owned(), tenant)]), None).await;
    Ok(())
}

/// Returns the token, and whether it was generated.
fn read_or_create_token() -> Result<(String, bool), String> {
    match std::env::var(TOKEN) {
        Ok(token) if token.len() < MIN_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(format!(
                "{TOKEN} is not a valid token: use at least {MIN_TOKEN} letters, digits and symbols, without spaces"
            ))
        }
        Ok(token) => Ok((token, false)),
        Err(std::env::VarError::NotUnicode(_)) => Err(format!("{TOKEN} is not UTF-8")),
        Err(std::env::VarError::NotPresent) => {
            let token = token::generate();
            Ok((token.map_err(|error| format!("the system has no source of random numbers: {error}"))?, true))
        }
    }
}
