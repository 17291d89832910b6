//! Lists the tables and views of a database.

use rusqlite::{Connection, Row};
use serde_json::{Value, json};

use super::Database;
use koze_core::error::Result;

/// How many tables, views and indexes are listed.
const LISTED: usize = 1000;

pub(super) fn schema(database: &Database) -> Result<Value> {
    read(&database.connection).map_err(|error| Database::failed(&database.refusal, &error))
}

fn read(connection: &Connection) -> rusqlite::Result<Value> {
    // `sqlite_` is reserved: the tables of SQLite itself.
    let query = format!(
        "select type, name, tbl_name, sql from sqlite_schema
         where type in ('table', 'view', 'index') and substr(name, 1, 7) <> 'sqlite_' order by name limit {LISTED}"
    );
    let mut statement = connection.prepare(&query)?;
    let entry = |row: &Row<'_>| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, String>(2)?,
            row.get::<_, Option<String>>(3)?,
        ))
    };
    let entries = statement.query_map([], entry)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let (mut tables, mut indexes) = (Vec::new(), Vec::new());
    for (kind, name, table, sql) in entries {
        if kind == "index" {
            indexes.push(json!({ "name": name, "table": table, "sql": sql }));
        } else {
            let columns = columns(connection, &name)?;
            tables.push(json!({ "name": name, "type": kind, "columns": columns, "sql": sql }));
        }
    }
    Ok(json!({ "tables": tables, "indexes": indexes }))
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Value>> {
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
