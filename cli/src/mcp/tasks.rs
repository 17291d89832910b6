//! Calls that take long, as tasks that their client asks about: the extension `io.modelcontextprotocol/tasks`.

use std::future::pending;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, CallToolResult, CreateTaskResult, DetailedTask};
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use tokio::time::sleep;

use super::server::canceled_error;

/// How long a call may take before its client gets a task in place of the result: a task costs more requests than it saves if the
/// result is near.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a task may run, and how long its result is kept afterwards.
const LIFETIME: Duration = Duration::from_hours(1);
/// How long clients should wait before they ask again.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How many tasks run at the same time at most. Further calls are answered with their results.
const MAX_RUNNING: usize = 64;

/// A call of a tool. Dropping it cancels it.
pub(super) type Call = BoxFuture<'static, Result<CallToolResult, ErrorData>>;

/// The tasks of the clients of a server, which have IDs that nobody can guess. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct Tasks {
    manager: TaskManager,
}

impl Tasks {
    /// Returns the result of a call, or a task if the result is not there soon. `canceled` is ready once the client no longer waits
    /// for either.
    pub(super) async fn finish_or_continue(
        &self,
        mut call: Call,
        canceled: impl Future<Output = ()>,
    ) -> Result<CallToolResponse, ErrorData> {
        let is_late = async {
            sleep(PATIENCE).await;
            if self.manager.running_task_count() >= MAX_RUNNING {
                pending::<()>().await;
            }
        };
        tokio::select! {
            result = &mut call => return result.map(CallToolResponse::from),
            () = canceled => return Err(canceled_error()),
            () = is_late => {}
        }
        let options = TaskOptions::new()
            .with_ttl_ms(to_millis(LIFETIME))
            .with_poll_interval_ms(to_millis(POLL_INTERVAL));
        let task = self.manager.spawn(options, |context| {
            Box::pin(async move {
                tokio::select! {
                    result = call => result.map_err(TaskExit::from),
                    () = context.cancelled() => Err(TaskExit::Cancelled),
                }
            })
        });
        Ok(CreateTaskResult::new(task).into())
    }

    /// Returns a task, with its result if it has ended.
    pub(super) fn get(&self, id: &str) -> Result<DetailedTask, ErrorData> {
        self.manager.get_task(id)
    }

    /// Cancels a task.
    pub(super) fn cancel(&self, id: &str) -> Result<(), ErrorData> {
        self.manager.cancel_task(id)
    }
}

fn to_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("the constants are small")
}
