//! Runs one statement.

use koze_script::limits::RESULT;
use koze_script::protocol::Json;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::{Batch, Connection, Statement, params_from_iter};
use serde::Serialize;
use serde_json::{Value, json};

use super::authorize::Refusal;
use super::connection::Database;
use super::values::{from_json, to_json};
use koze_core::contract::MAX_SAFE_INTEGER;
use koze_core::error::{Code, Error, Result};

/// How many rows a query returns.
const ROWS: usize = 1000;
/// The longest statement in bytes, and the most parameters: the limits of Durable Objects.
const MAX_SQL: usize = 100_000;
const MAX_PARAMS: usize = 100;

/// Runs a statement. Returns its rows if it has columns, and what it changed otherwise.
pub(super) fn run_statement(database: &mut Database, sql: &str, params: &[Value]) -> Result<Json> {
    if sql.len() > MAX_SQL {
        let text =
            format!("the statement has {} bytes, but may have at most {MAX_SQL}: use parameters", sql.len());
        return Err(Error::new(Code::TooLarge, text));
    }
    if params.len() > MAX_PARAMS {
        let text = format!("there are {} parameters, but at most {MAX_PARAMS} are allowed", params.len());
        return Err(Error::new(Code::TooLarge, text));
    }
    let params = params.iter().map(from_json).collect::<Result<Vec<_>>>()?;
    let refusal = database.refusal.clone();
    database.timed(|connection| {
        let failed = |error: rusqlite::Error| Database::failed(&refusal, &error);
        let mut statement = only_statement(connection, sql, &refusal)?;
        let expected = statement.parameter_count();
        if expected != params.len() {
            let text = format!("the statement has {expected} parameters, but `params` has {}", params.len());
            return Err(Error::new(Code::InvalidInput, text));
        }
        if statement.column_count() == 0 {
            let before = connection.total_changes();
            statement.execute(params_from_iter(&params)).map_err(failed)?;
            let changes = connection.total_changes() - before;
            let answer =
                json!({ "changes": changes, "last_insert_rowid": row_id(connection.last_insert_rowid()) });
            return Ok(Json::from(&answer));
        }
        encode_answer(&read_rows(&mut statement, &params).map_err(failed)?)
    })
}

/// Returns the number of a row: as text if JavaScript would round it.
fn row_id(row: i64) -> Value {
    if row.unsigned_abs() > MAX_SAFE_INTEGER { row.to_string().into() } else { row.into() }
}

/// Compiles the only statement of a text.
fn only_statement<'a>(connection: &'a Connection, sql: &str, refusal: &Refusal) -> Result<Statement<'a>> {
    let mut batch = Batch::new(connection, sql);
    let first = batch.next().map_err(|error| Database::failed(refusal, &error))?;
    let invalid = |text: &str| Err(Error::new(Code::InvalidInput, text));
    let Some(first) = first else { return invalid("there is no statement") };
    // A second one may not even compile before the first one has run.
    match batch.next() {
        Ok(None) => Ok(first),
        Ok(Some(_)) | Err(_) => invalid("one call runs one statement: call again for the next one"),
    }
}

/// The answer to a statement with columns.
#[derive(Serialize)]
struct Found {
    columns: Vec<String>,
    row_count: usize,
    rows: Vec<Json>,
    truncated: bool,
}

fn read_rows(statement: &mut Statement<'_>, params: &[rusqlite::types::Value]) -> rusqlite::Result<Found> {
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut found = statement.query(params_from_iter(params))?;
    let (mut rows, mut bytes, mut truncated) = (Vec::new(), 0, false);
    while let Some(row) = found.next()? {
        let values = (0..columns.len()).map(|column| Ok(to_json(row.get_ref(column)?)));
        let row = Json::from(&Value::Array(values.collect::<rusqlite::Result<_>>()?));
        bytes += row.text().len();
        if rows.len() == ROWS || bytes > RESULT / 2 {
            truncated = true;
            break;
        }
        rows.push(row);
    }
    Ok(Found { columns, row_count: rows.len(), rows, truncated })
}

/// Returns an answer as JSON.
pub(super) fn encode_answer(answer: &impl Serialize) -> Result<Json> {
    serde_json::to_string(answer).and_then(Json::new).map_err(|error| {
        Error::new(Code::Internal, "the answer of the database cannot be encoded").with_source(error)
    })
}
