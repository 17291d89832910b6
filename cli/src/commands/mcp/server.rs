//! What the protocol asks, answered by the sandboxes of a session.

use std::sync::Arc;
use std::time::Duration;

use koze::tool::mcp;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, InitializeResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::offer::Offer;
use crate::session::Client;

/// How often a client that asks for progress hears that a call still runs.
const PROGRESS: Duration = Duration::from_secs(1);

/// The tools of one session.
#[derive(Debug, Clone)]
pub(super) struct Server {
    client: Client,
    offer: Arc<Offer>,
}

impl Server {
    pub(super) fn new(client: Client, offer: Offer) -> Self {
        Server { client, offer: Arc::new(offer) }
    }

    /// Says every now and then that a call still runs.
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
            // Whoever does not hear it may still want the result.
            let _ = context.peer.notify_progress(progress).await;
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> InitializeResult {
        mcp::server()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.offer.tools().to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let input = Value::Object(request.arguments.unwrap_or_default());
        let call = self.client.call(self.offer.images(), &request.name, input);
        tokio::select! {
            result = call => Ok(mcp::result(result).into()),
            () = Self::tell_progress(&context) => unreachable!("it goes on for ever"),
            // Dropped, the call is cancelled. Nobody reads the answer.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }
}
