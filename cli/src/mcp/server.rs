//! The MCP server, backed by the sandboxes of a session.

use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt as _;
use koze_core::progress::notices::{INTERVAL, Notice, Notices};
use koze_core::progress::{self, Event, Progress};
use koze_core::sandbox::process::Chunk;
use koze_core::tool::instructions::{Host, describe};
use koze_core::tool::{All, Catalog, Family, Input, Reply, mcp};
use koze_core::{Code, Error, ToolResult};
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, DiscoverResult, GetTaskParams,
    GetTaskResult, InitializeRequestParams, InitializeResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ReadResourceRequestMethod,
    ReadResourceRequestParams, ReadResourceResponse, TASKS_EXTENSION_ID, Tool, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::{MissedTickBehavior, interval};

use super::offering::Offering;
use super::supervised::Supervised;
use super::tasks::Call;
use super::{apps, sealed};
use crate::provider::find_programs;

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

    /// Selects the tools of another toolset. If the server was started with one, all families must be in it.
    ///
    /// # Errors
    /// Returns an error if the project or the server does not serve the toolset.
    pub(crate) fn select(&self, toolset: &str) -> koze_core::Result<Self> {
        let mut offering = self.offering.clone();
        offering.toolset = Some(toolset.to_owned());
        let offer = Offer::new(offering)?;
        let served = self.catalog.families();
        match (&self.offering.toolset, offer.catalog.families().iter().find(|name| !served.contains(name))) {
            (Some(all), Some(family)) => {
                let message = format!(
                    "this server does not serve the tools `{family}`: it was started with `--tools {all}`"
                );
                Err(Error::new(Code::InvalidInput, message))
            }
            _ => Ok(offer),
        }
    }
}

/// An MCP server for the tools of one session.
#[derive(Clone)]
pub(crate) struct Server {
    backend: Supervised,
    /// The families that it introduces itself with.
    families: Vec<Family>,
}

/// The tool that lists those that an agent has created.
const LIST: &str = "list_tools";

/// Returns the tools that the agent of the session has created.
async fn created_tools(backend: &Supervised) -> Vec<Tool> {
    let listed = ToolResult::from(backend.call(LIST, json!({}).into(), None).await);
    // If the store cannot be read, every call says so.
    let listed = serde_json::from_str::<Listed>(&listed.content).ok();
    // A name with the value of a secret is masked, and cannot be called.
    let tool = |CreatedTool { name, description, parameter_schema }: CreatedTool| {
        (!name.contains('[')).then(|| Tool::new(name, description, parameter_schema))
    };
    listed.map_or_else(Vec::new, |listed| listed.tools.into_iter().filter_map(tool).collect())
}

/// The reply of [`LIST`].
#[derive(Deserialize)]
struct Listed {
    tools: Vec<CreatedTool>,
}

#[derive(Deserialize)]
struct CreatedTool {
    name: String,
    description: String,
    parameter_schema: Map<String, Value>,
}

impl Server {
    /// Creates the server of a backend.
    ///
    /// # Errors
    /// As [`Supervised::current_offer`].
    pub(crate) fn new(backend: Supervised) -> koze_core::Result<Self> {
        let families = backend.current_offer()?.catalog.families().to_vec();
        Ok(Server { backend, families })
    }

    /// Runs a call, and tells the client if it changed the list of tools.
    async fn answer_call(
        self,
        tool: String,
        input: Input,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let reply = self.run_call(&tool, input, &context).await;
        let result = CallToolResult::from(mcp::called(reply)?);
        let changes = |offer: Arc<Offer>| offer.catalog.changes(&tool);
        if result.is_error != Some(true) && self.backend.current_offer().is_ok_and(changes) {
            // A client that is gone does not need to know.
            let _ = context.peer.notify_tool_list_changed().await;
        }
        Ok(result)
    }

    /// Runs a call. If the client asked for progress, notifies it of what the programs of the call print, and periodically
    /// that the call is still running.
    async fn run_call(
        &self,
        tool: &str,
        input: Input,
        context: &RequestContext<RoleServer>,
    ) -> koze_core::Result<Reply> {
        let backend = self.backend.named(&client_name(context));
        let Some(token) = context.meta.get_progress_token() else {
            return backend.call(tool, input, None).await;
        };
        let mut teller = Teller { context, token, notices: Notices::new() };
        let (progress, reports) = Progress::channel();
        let mut events = pin!(progress::follow(backend.call(tool, input, Some(progress)), reports));
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            tokio::select! {
                biased;
                event = events.next() => match event {
                    // The program waits until the client has it.
                    Some(Event::Output(chunk)) => teller.send_output(&chunk).await,
                    Some(Event::Done(result)) => return result,
                    None => unreachable!("the result is the last event"),
                },
                _ = ticks.tick() => teller.still_running().await,
            }
        }
    }
}

/// Returns the name of a client, for the journal: that of the request, or of the initialization in older versions of the protocol.
fn client_name(context: &RequestContext<RoleServer>) -> String {
    let of_request = context.meta.client_info().map(|client| client.name);
    let of_connection = || context.peer.peer_info().map(|client| client.client_info.name.clone());
    of_request.or_else(of_connection).unwrap_or_else(|| "MCP".to_owned())
}

/// Returns whether a client shows pages in its chat.
fn shows_apps(context: &RequestContext<RoleServer>) -> bool {
    apps::is_supported(context.client_capabilities().as_ref())
}

/// Sends the progress of a call to its client.
struct Teller<'a> {
    context: &'a RequestContext<RoleServer>,
    token: ProgressToken,
    notices: Notices,
}

impl Teller<'_> {
    async fn send_output(&mut self, chunk: &Chunk) {
        if let Some(notice) = self.notices.output(chunk) {
            self.send_notice(notice).await;
        }
    }

    async fn still_running(&mut self) {
        let notice = self.notices.still_running();
        self.send_notice(notice).await;
    }

    async fn send_notice(&self, Notice { progress, message }: Notice) {
        let mut progress = ProgressNotificationParam::new(self.token.clone(), progress);
        progress.message = message;
        // A client that misses a notification may still want the result.
        let _ = self.context.peer.notify_progress(progress).await;
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> InitializeResult {
        let profiles = self.backend.profiles();
        let host = Host::Machine(find_programs(profiles.list()));
        let mut info = mcp::server(&self.families, describe(&self.families, &profiles, &host));
        let extensions = info.capabilities.extensions.get_or_insert_default();
        extensions.insert(TASKS_EXTENSION_ID.to_owned(), Map::new());
        info
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut info = self.negotiate_initialize(&request)?;
        if apps::is_supported(Some(&request.capabilities)) {
            apps::announce(&mut info.capabilities);
        }
        Ok(info)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let mut info = self.get_info();
        if shows_apps(&context) {
            apps::announce(&mut info.capabilities);
        }
        Ok(DiscoverResult::from_server_info(self.supported_protocol_versions().into_owned(), info))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = if shows_apps(&context) { vec![apps::resource()] } else { Vec::new() };
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if !shows_apps(&context) {
            return Err(ErrorData::method_not_found::<ReadResourceRequestMethod>());
        }
        apps::read_resource(&request.uri).map(ReadResourceResponse::from)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let offer =
            self.backend.current_offer().map_err(|error| ErrorData::internal_error(error.message, None))?;
        let mut tools = offer.tools.clone();
        if offer.catalog.creates() {
            tools.extend(created_tools(&self.backend).await);
        }
        if shows_apps(&context) {
            // A created tool with this name cannot be called by such a client.
            tools.retain(|tool| tool.name != apps::TOOL);
            tools.push(apps::tool());
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let input = match sealed::open(request.arguments.unwrap_or_default()) {
            Ok(input) => input,
            Err(error) => return Ok(CallToolResult::from(mcp::reply(Err(error))).into()),
        };
        if request.name == apps::TOOL && shows_apps(&context) {
            return Ok(apps::call(&self.backend, &input).await.into());
        }
        let knows_tasks = context.client_capabilities().is_some_and(|client| client.supports_tasks());
        let canceled = context.ct.clone();
        // Without its type, because every layer of futures counts towards the compiler's recursion limit.
        let call: Call = Box::pin(self.clone().answer_call(request.name.into_owned(), input, context));
        if knows_tasks {
            return self.backend.tasks().finish_or_continue(call, canceled.cancelled()).await;
        }
        tokio::select! {
            result = call => result.map(CallToolResponse::from),
            // Dropping the call cancels it. The client ignores the response.
            () = canceled.cancelled() => Err(canceled_error()),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.backend.tasks().get(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // No call asks its client for anything, and so nothing waits for an answer.
        self.backend.tasks().get(&request.task_id).map(drop)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.backend.tasks().cancel(&request.task_id)
    }
}

/// Returns the answer to a call that its client canceled, which ignores it.
pub(super) fn canceled_error() -> ErrorData {
    ErrorData::internal_error("the call was canceled", None)
}
