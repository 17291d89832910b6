//! The MCP server, backed by the sandboxes of a session.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use koze_core::tool::{All, Catalog, Family, mcp};
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, InitializeResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::duplicate_keys;
use super::offering::Offering;

/// The interval of progress notifications.
const PROGRESS: Duration = Duration::from_secs(1);

/// Provides the tools and runs the calls of a server.
pub(crate) trait Backend: Clone + Send + Sync + 'static {
    /// Returns the current offer.
    fn offer(&self) -> impl Future<Output = Arc<Offer>> + Send;

    /// Calls a tool. Dropping the future cancels the call.
    fn call(&self, tool: &str, input: Value) -> impl Future<Output = CallToolResult> + Send;
}

/// A project's offering and the tool definitions for it.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    pub(crate) offering: Offering,
    pub(crate) catalog: Catalog<All>,
    tools: Vec<Tool>,
}

impl Offer {
    /// Selects the tools for the profiles of a project.
    ///
    /// # Errors
    /// Returns an error if the project does not serve the toolset.
    pub(crate) fn new(offering: Offering) -> koze_core::Result<Self> {
        let catalog = Catalog::select(&offering.profiles, offering.toolset.as_deref())?;
        let tools = mcp::tools(catalog.definitions(&offering.profiles));
        Ok(Offer { offering, catalog, tools })
    }
}

/// An MCP server for the tools of one session.
#[derive(Debug, Clone)]
pub(crate) struct Server<B> {
    backend: B,
    /// The families that it introduces itself with.
    families: Vec<Family>,
}

impl<B: Backend> Server<B> {
    /// Creates the server of a backend that makes this offer.
    pub(crate) fn new(backend: B, offer: &Offer) -> Self {
        Server { backend, families: offer.catalog.families().to_vec() }
    }

    /// Notifies the client periodically that a call is still running, if it asked for progress.
    async fn tell_progress(context: &RequestContext<RoleServer>) {
        let Some(token) = context.meta.get_progress_token() else { return std::future::pending().await };
        let since = Instant::now();
        let mut ticks = interval(PROGRESS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let seconds = since.elapsed().as_secs();
            let progress = ProgressNotificationParam::new(token.clone(), since.elapsed().as_secs_f64())
                .with_message(format!("running for {seconds} s"));
            // A client that misses a notification may still want the result.
            let _ = context.peer.notify_progress(progress).await;
        }
    }
}

impl<B: Backend> ServerHandler for Server<B> {
    fn get_info(&self) -> InitializeResult {
        mcp::server(&self.families, mcp::Files::Kept)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.backend.offer().await.tools.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let input = request.arguments.unwrap_or_default();
        if let Some(error) = duplicate_keys::error_in(&input) {
            return Ok(mcp::reply(Err(error)).into());
        }
        let input = Value::Object(input);
        let call = self.backend.call(&request.name, input);
        tokio::select! {
            result = call => Ok(result.into()),
            () = Self::tell_progress(&context) => unreachable!("it runs without a time limit"),
            // Dropping the call cancels it. Nobody reads the response.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was canceled", None)),
        }
    }
}
