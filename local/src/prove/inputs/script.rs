//! Statements in the databases of scripts.

use std::io;

use koze_core::id::SessionId;
use koze_core::provider::Provider;
use koze_core::script::Query;
use serde_json::Value;

use super::Target;

/// Counts without end. A statement is stopped between its steps.
pub(super) fn endless_statement(target: &Target) -> io::Result<()> {
    query(target, "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n")?;
    Ok(())
}

/// Runs a statement as a script does.
fn query(target: &Target, sql: &str) -> io::Result<Value> {
    let stage = target.stage()?;
    let agent = SessionId::new("koze", "proof").map_err(io::Error::other)?;
    let query = Query::Sql { sql: sql.to_owned(), params: Vec::new() };
    let work = async move { stage.local.script_query(&agent, query).await };
    crate::block_on(work).and_then(|done| done).map_err(io::Error::other)
}
