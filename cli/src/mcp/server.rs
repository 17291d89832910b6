//! What the protocol asks, answered by the sandboxes of a session.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use koze::tool::{ToolResult, agent};
use koze::{Code, Error, Images};
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, InitializeResult,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often a client that asks for progress hears that a call still runs.
const PROGRESS: Duration = Duration::from_secs(1);

/// The longest result that comes as structured content, too: it has every byte twice.
const LONGEST_TWICE: usize = 1 << 20;
/// The longest result as it is sent: the SDK for TypeScript takes a longer message than 10 MB for the end of the server.
const LONGEST: usize = 8 << 20;

/// What a client's model is told of all the tools together.
const INSTRUCTIONS: &str = "Tools to work in isolated Linux sandboxes. Each sandbox has files and processes of its own, which last \
                            from call to call; the first use of a name makes it. Without a name, the sandbox is `default`.";

/// What the tools of a server are, and who runs them.
pub(crate) trait Backend: Clone + Send + Sync + 'static {
    /// What is offered at the moment.
    fn offer(&self) -> impl Future<Output = Arc<Offer>> + Send;

    /// Calls a tool. Dropped before it is done, the call is cancelled.
    fn call(&self, tool: &str, input: Value) -> impl Future<Output = ToolResult> + Send;
}

/// The tools, with the images of the project as its files have them.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) images: Images,
    tools: Vec<Tool>,
}

impl Offer {
    /// The tools over these images.
    pub(crate) fn new(images: Images) -> Self {
        let tools = agent::definitions(&images)
            .into_iter()
            .map(|definition| {
                let Value::Object(schema) = definition.schema else { unreachable!("a schema is an object") };
                Tool::new(definition.name, definition.description, schema)
            })
            .collect();
        Offer { images, tools }
    }
}

/// The tools of one session.
#[derive(Debug, Clone)]
pub(crate) struct Server<B>(pub(crate) B);

impl<B: Backend> Server<B> {
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

impl<B: Backend> ServerHandler for Server<B> {
    fn get_info(&self) -> InitializeResult {
        InitializeResult::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("koze", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.0.offer().await.tools.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let input = Value::Object(request.arguments.unwrap_or_default());
        let call = self.0.call(&request.name, input);
        tokio::select! {
            result = call => Ok(in_mcp(result).into()),
            () = Self::tell_progress(&context) => unreachable!("it goes on for ever"),
            // Dropped, the call is cancelled. Nobody reads the answer.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }
}

/// A result as the protocol has it; JSON comes as structured content, too.
fn in_mcp(ToolResult { content, is_error }: ToolResult) -> CallToolResult {
    let length = serde_json::to_string(&content).map_or(0, |escaped| escaped.len());
    if length > LONGEST {
        let text = format!(
            "it is done, but its result would be {length} bytes, and {LONGEST} are the most: read a file in parts, and \
             send a command's output to a file"
        );
        return CallToolResult::error(vec![ContentBlock::text(Error::new(Code::TooLarge, text).to_string())]);
    }
    let structured = (content.len() <= LONGEST_TWICE).then(|| serde_json::from_str(&content).ok()).flatten();
    let content = vec![ContentBlock::text(content)];
    let mut result = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = structured.filter(Value::is_object);
    result
}
