//! `db_sql` and `db_schema`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::member::deserialize_bounded;
use crate::error::Result;
use crate::provider::Provider;
use crate::script::Query;
use crate::session::Session;
use crate::tool::{Reply, Scope, Tool};

pub(super) struct DbSql;
pub(super) struct DbSchema;

/// The input of `db_sql`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Statement {
    /// One statement of `SQLite`, with `?` for parameters.
    sql: String,
    /// The parameters: texts, numbers, booleans, null, or BLOBs as {base64}.
    #[serde(default, deserialize_with = "deserialize_bounded")]
    params: Vec<Value>,
}

/// The input of `db_schema`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

impl Tool for DbSql {
    const NAME: &'static str = "db_sql";
    const DESCRIPTION: &'static str = "Run one SQL statement in a SQLite database of your own, which scripts use as db.sql(sql, \
        params). Returns columns, rows (a list for each), row_count and truncated, at most 1000 rows; or changes and \
        last_insert_rowid. At most 5 s and 100 MB.";
    const SCOPE: Scope = Scope::Session;
    type Input = Statement;

    async fn call<P: Provider>(session: &Session<P>, Statement { sql, params }: Statement) -> Result<Reply> {
        Reply::ok(session.provider().script_query(session.agent(), Query::Sql { sql, params }).await?)
    }
}

impl Tool for DbSchema {
    const NAME: &'static str = "db_schema";
    const DESCRIPTION: &'static str = "List the tables, views and indexes of the database. Returns tables, with their columns, and indexes.";
    const SCOPE: Scope = Scope::Session;
    type Input = Nothing;

    async fn call<P: Provider>(session: &Session<P>, _: Nothing) -> Result<Reply> {
        Reply::ok(session.provider().script_query(session.agent(), Query::Schema).await?)
    }
}
