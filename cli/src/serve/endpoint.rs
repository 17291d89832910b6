//! The HTTP endpoint: authenticates clients, and routes requests.

use std::collections::HashMap;

use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use hyper::{Method, Request, StatusCode};
use koze_core::http::openapi::DOCUMENT;
use koze_core::http::{ABOUT, Query, Resource, Route, Tokens, describe_tools, find_route};
use koze_core::tool::instructions::Host;
use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;

use super::answer::{Answer, json_text, no_content, refuse, refuse_error, refuse_method, refused, text};
use super::origins::Origins;
use super::previews::Previews;
use super::tenants::Tenant;
use super::{calls, files, log, machine, mcp, sandboxes, terminal};
use crate::provider::{Proof, find_programs};

/// The HTTP endpoint.
pub(super) struct Endpoint {
    tokens: Tokens,
    /// One for each tenant of the tokens.
    tenants: HashMap<String, Tenant>,
    origins: Origins,
    protocol: StreamableHttpServerConfig,
    previews: Option<Previews>,
}

impl Endpoint {
    /// Creates the endpoint for tenants with tokens.
    pub(super) fn new(
        tokens: Tokens,
        tenants: HashMap<String, Tenant>,
        origins: Origins,
        accepts_any_host: bool,
    ) -> Self {
        Endpoint { tokens, tenants, origins, protocol: mcp::settings(accepts_any_host), previews: None }
    }

    /// Returns the endpoint of a server that has a host for previews.
    pub(super) fn with_previews(self, previews: Option<Previews>) -> Self {
        Endpoint { previews, ..self }
    }

    /// Answers a request. A client with a token gives `proof`.
    pub(super) async fn answer(&self, request: Request<Incoming>, proof: &Proof) -> Answer {
        // Before the routes: the path of such a request is for the sandbox.
        if let Some(previews) = &self.previews
            && let Some(label) = previews.find_label(&request)
        {
            return previews.forward(&label, request, &self.tokens, proof).await;
        }
        let origin = request.headers().get(ORIGIN).cloned();
        if !self.origins.allow(request.headers()) {
            return refused(
                StatusCode::FORBIDDEN,
                "forbidden",
                "this origin is not allowed: see --allow-origin",
            );
        }
        let mut answer = if Origins::is_preflight(&request) {
            no_content()
        } else if request.uri().path() == "/" {
            if request.method() == Method::GET { text(ABOUT) } else { refuse_method("GET") }
        } else {
            self.answer_client(request, proof).await
        };
        if let Some(origin) = origin {
            Origins::add_headers(origin, answer.headers_mut());
        }
        answer
    }

    async fn answer_client(&self, request: Request<Incoming>, proof: &Proof) -> Answer {
        let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let tenant = match self.tokens.tenant(header) {
            Ok(tenant) => tenant,
            Err(message) => {
                let mut answer = refused(StatusCode::UNAUTHORIZED, "unauthorized", message);
                answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                return answer;
            }
        };
        proof.give();
        self.answer_tenant(tenant, request).await
    }

    /// Answers a request of a tenant, which the caller has authenticated.
    pub(super) async fn answer_tenant(&self, tenant: &str, request: Request<Incoming>) -> Answer {
        let tenant = self.tenants.get(tenant).expect("each tenant of the tokens has an entry");
        let uri = request.uri();
        match find_route(request.method().as_str(), uri.path(), uri.query()) {
            // Boxed, because its state is large.
            Ok((route, query)) => match Box::pin(self.answer_route(tenant, route, query, request)).await {
                Ok(answer) | Err(answer) => answer,
            },
            Err(refusal) => refuse(refusal),
        }
    }

    async fn answer_route(
        &self,
        tenant: &Tenant,
        route: Route,
        query: Query,
        request: Request<Incoming>,
    ) -> Result<Answer, Answer> {
        let toolset = query.get("tools").map(String::as_str);
        let open = |session: &str| tenant.open(session, toolset);
        match route {
            Route::Tools => {
                let offer = tenant
                    .offers
                    .select(toolset)
                    .and_then(|offers| offers.current())
                    .map_err(refuse_error)?;
                let host = Host::Machine(find_programs(offer.offering.profiles.list()));
                let tools = describe_tools(&offer.catalog, &offer.offering.profiles, &host, &query);
                Ok(json_text(StatusCode::OK, tools.map_err(refuse_error)?.to_string()))
            }
            Route::OpenApi => Ok(json_text(StatusCode::OK, DOCUMENT)),
            Route::Call { session, tool } => {
                calls::answer(&open(&session).map_err(refuse_error)?, tool, request).await
            }
            Route::File { session, sandbox, path, access } => Ok(files::answer(
                &open(&session).map_err(refuse_error)?,
                (&sandbox, &path),
                access,
                &query,
                request,
            )
            .await),
            Route::Sandboxes { session, path } => {
                let place = (Resource::Sandboxes, path);
                sandboxes::answer(&open(&session).map_err(refuse_error)?, place, query, request).await
            }
            Route::Snapshots { session, path } => {
                let place = (Resource::Snapshots, path);
                sandboxes::answer(&open(&session).map_err(refuse_error)?, place, query, request).await
            }
            Route::Terminal { session, sandbox } => {
                let opened = open(&session).map_err(refuse_error)?;
                terminal::open(opened, &tenant.terminals, &sandbox, &query, request).await
            }
            Route::Log { session } => {
                log::answer(&open(&session).map_err(refuse_error)?, &query).await.map_err(refuse_error)
            }
            Route::Sessions => machine::list_sessions(tenant).await.map_err(refuse_error),
            Route::Egress { session } => {
                let opened = tenant.open(&session, toolset).map_err(refuse_error)?;
                machine::read_egress(&opened, &query).await.map_err(refuse_error)
            }
            Route::Usage { session } => {
                machine::read_usage(&open(&session).map_err(refuse_error)?).await.map_err(refuse_error)
            }
            Route::Mcp => mcp::answer(tenant, &self.protocol, &query, request).await,
        }
    }
}
