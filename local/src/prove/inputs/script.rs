//! Statements in the databases of scripts, and calls of scripts.

use std::fs;
use std::io;
use std::time::Duration;

use futures_util::future::join_all;
use koze_core::id::SessionId;
use koze_core::provider::ScriptProvider;
use koze_core::script::{Call, Calls, Json, Limits, Query, Start};
use serde_json::Value;

use super::Target;

/// The threads that a program with many waiting statements has at most.
const THREADS: usize = 100;

/// Counts without end. A statement is stopped between its steps.
pub(super) fn endless_statement(target: &Target) -> io::Result<()> {
    query(target, "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n")
}

/// Searches for minutes in one step of a statement.
pub(super) fn endless_function(target: &Target) -> io::Result<()> {
    query(
        target,
        "select instr(printf('%.*c', 2000000, 'a'), printf('%.*c', 1000000, 'a') || 'b')
         + instr(printf('%.*c', 2100000, 'a'), printf('%.*c', 1000000, 'a') || 'b')",
    )
}

/// Fills a table that is in memory.
pub(super) fn temporary_table(target: &Target) -> io::Result<()> {
    let of = "with recursive n(i) as (select 1 union all select i + 1 from n limit 1000) select zeroblob(1000000) as b from n";
    query(target, &format!("create table temp.t as {of}"))
}

/// Sorts what does not fit into memory.
pub(super) fn sort(target: &Target) -> io::Result<()> {
    query(
        target,
        "with recursive n(i) as (select 1 union all select i + 1 from n limit 10000)
         select randomblob(100000) as b from n order by b",
    )
}

/// Keeps all rows of a query, to tell new ones from them.
pub(super) fn recursive_query(target: &Target) -> io::Result<()> {
    query(
        target,
        "with recursive n(i, b) as (select 1, zeroblob(1000000) union select i + 1, randomblob(1000000) from n limit 1000)
         select count(*) from n",
    )
}

/// Makes statements wait, and counts the threads.
pub(super) fn waiting_statements(target: &Target) -> io::Result<()> {
    let stage = target.stage()?;
    let agent = agent()?;
    let endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";
    let work = async move {
        let all = (0..900).map(|_| stage.local.script_query(&agent, sql(endless)));
        // They are started, and waited for no longer.
        let _ = tokio::time::timeout(Duration::from_secs(2), join_all(all)).await;
        fs::read_dir("/proc/self/task").map(Iterator::count)
    };
    let threads = crate::block_on(work).map_err(io::Error::other)??;
    if threads > THREADS { Ok(()) } else { Err(io::Error::other(format!("{threads} threads"))) }
}

/// Holds the arguments of calls that are not answered.
pub(super) fn arguments(target: &Target) -> io::Result<()> {
    let code = "const text = 'x'.repeat(3900000); for (let i = 0; i < 600; i++) state.set('a', text); \
                await new Promise((done) => setTimeout(done, 20000))";
    script(target, code, Null { answer: None })
}

/// Holds the answers to calls, which a script that computes does not read.
pub(super) fn answers(target: &Target) -> io::Result<()> {
    let code = "for (let i = 0; i < 900; i++) state.get('a'); const end = Date.now() + 8000; while (Date.now() < end);";
    let answer = Json::from(&Value::from("x".repeat(2 << 20)));
    script(target, code, Null { answer: Some(answer) })
}

/// Answers calls with a long text, or not at all.
struct Null {
    answer: Option<Json>,
}

impl Calls for Null {
    async fn call(&self, _: Call) -> Result<Value, String> {
        Err("only its text is answered".to_owned())
    }

    async fn answer(&self, _: &Json) -> Result<Json, String> {
        match &self.answer {
            Some(answer) => Ok(answer.clone()),
            None => std::future::pending().await,
        }
    }
}

fn agent() -> io::Result<SessionId> {
    SessionId::new("koze", "proof").map_err(io::Error::other)
}

fn sql(text: &str) -> Query {
    Query::Sql { sql: text.to_owned(), params: Vec::new() }
}

/// Runs a statement as a script does.
fn query(target: &Target, text: &str) -> io::Result<()> {
    let stage = target.stage()?;
    let agent = agent()?;
    let query = sql(text);
    finish(async move { stage.local.script_query(&agent, query).await.map(drop) })
}

/// Runs a script.
fn script(target: &Target, code: &str, calls: Null) -> io::Result<()> {
    let stage = target.stage()?;
    let agent = agent()?;
    let start = Start { code: code.to_owned(), limits: Limits::default(), ..Start::default() };
    let ran = crate::block_on(async move { stage.local.run_script(&agent, start, &calls).await });
    let ran = ran.and_then(|ran| ran).map_err(io::Error::other)?;
    // Its end is no success: only a bound that was passed is.
    Err(io::Error::other(ran.result.map_or_else(|failure| failure.message, |_| "it ended".to_owned())))
}

/// Waits for work on the engine's thread. Its success is that of the attempt.
fn finish(work: impl Future<Output = koze_core::Result<()>> + Send + 'static) -> io::Result<()> {
    crate::block_on(work).and_then(|done| done).map_err(io::Error::other)
}
