//! Lists the tables, views and indexes of a database.

use koze_script::limits::RESULT;
use koze_script::protocol::Json;
use rusqlite::{Connection, Row};
use serde::Serialize;
use serde_json::{Value, json};

use super::connection::Database;
use super::run::encode_answer;
use koze_core::error::Result;

/// How many tables, views and indexes are listed.
const LISTED: usize = 1000;

/// The answer.
#[derive(Default, Serialize)]
struct Schema {
    tables: Vec<Json>,
    indexes: Vec<Json>,
    /// Whether there are more.
    truncated: bool,
}

pub(super) fn read_schema(database: &mut Database) -> Result<Json> {
    let refusal = database.refusal.clone();
    database.timed(|connection| {
        encode_answer(&collect_schema(connection).map_err(|error| Database::failed(&refusal, &error))?)
    })
}

fn collect_schema(connection: &Connection) -> rusqlite::Result<Schema> {
    // `sqlite_` is reserved: the tables of SQLite itself.
    let mut statement = connection.prepare(
        "select type, name, tbl_name, sql from sqlite_schema
         where type in ('table', 'view', 'index') and substr(name, 1, 7) <> 'sqlite_' order by name",
    )?;
    let (mut schema, mut bytes) = (Schema::default(), 0);
    let mut entries = statement.query([])?;
    while let Some(row) = entries.next()? {
        let kind: String = row.get(0)?;
        let entry = describe_entry(connection, &kind, row)?;
        bytes += entry.text().len();
        if schema.tables.len() + schema.indexes.len() == LISTED || bytes > RESULT / 2 {
            schema.truncated = true;
            break;
        }
        if kind == "index" { schema.indexes.push(entry) } else { schema.tables.push(entry) }
    }
    Ok(schema)
}

/// Describes a table, view or index.
fn describe_entry(connection: &Connection, kind: &str, row: &Row<'_>) -> rusqlite::Result<Json> {
    let name: String = row.get(1)?;
    let sql: Option<String> = row.get(3)?;
    Ok(Json::from(&if kind == "index" {
        json!({ "name": name, "table": row.get::<_, String>(2)?, "sql": sql })
    } else {
        json!({ "name": name, "type": kind, "columns": list_columns(connection, &name)?, "sql": sql })
    }))
}

fn list_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Value>> {
    let query = "select name, type, \"notnull\", dflt_value, pk from pragma_table_info(?)";
    let mut statement = connection.prepare_cached(query)?;
    let column = |row: &Row<'_>| {
        Ok(json!({
            "name": row.get::<_, String>(0)?, "type": row.get::<_, String>(1)?, "not_null": row.get::<_, bool>(2)?,
            "default": row.get::<_, Option<String>>(3)?, "primary_key": row.get::<_, i64>(4)? > 0,
        }))
    };
    statement.query_map([table], column)?.collect()
}
