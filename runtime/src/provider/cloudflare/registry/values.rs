//! The values of a session's store, in the `SQLite` database of its registry.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use koze_core::store::{Expected, Listed, Range};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use worker::{Response, SqlStorage, SqlStorageValue};

use super::{answer, whole};

/// A request about values. Bytes are base64.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum Request {
    Get { key: String },
    Put { key: String, bytes: String, expected: Expected },
    Delete { key: String, expected: Expected },
    List { range: Range },
}

/// A value in a response.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) struct Stored {
    pub(in super::super) bytes: String,
    pub(in super::super) version: u64,
}

#[derive(Deserialize)]
struct Row {
    bytes: ByteBuf,
    version: f64,
}

#[derive(Deserialize)]
struct Version {
    version: f64,
}

#[derive(Deserialize)]
struct Entry {
    key: String,
    version: f64,
    size: f64,
}

/// Responds to a request. Nothing is awaited, so no other request changes the values in between.
pub(super) fn respond(sql: &SqlStorage, request: Request) -> worker::Result<Response> {
    sql.exec(
        "create table if not exists store_values (
            key text primary key, version integer not null, bytes blob not null
         ) strict",
        None,
    )?;
    match request {
        Request::Get { key } => answer(&Ok(get(sql, &key)?)),
        Request::Put { key, bytes, expected } => {
            let bytes = STANDARD.decode(bytes.as_bytes()).map_err(|error| error.to_string())?;
            answer(&Ok(put(sql, &key, bytes, expected)?))
        }
        Request::Delete { key, expected } => answer(&Ok(delete(sql, &key, expected)?)),
        Request::List { range } => answer(&Ok(list(sql, &range)?)),
    }
}

fn get(sql: &SqlStorage, key: &str) -> worker::Result<Option<Stored>> {
    let query = "select bytes, version from store_values where key = ?";
    let rows: Vec<Row> = sql.exec(query, vec![key.into()])?.to_array()?;
    let stored = |row: Row| Stored { bytes: STANDARD.encode(&row.bytes), version: number(row.version) };
    Ok(rows.into_iter().next().map(stored))
}

fn put(sql: &SqlStorage, key: &str, bytes: Vec<u8>, expected: Expected) -> worker::Result<Option<u64>> {
    if !expected.matches(version(sql, key)?) {
        return Ok(None);
    }
    sql.exec("create table if not exists store_versions (version integer not null) strict", None)?;
    let mut next: Vec<Version> =
        sql.exec("update store_versions set version = version + 1 returning version", None)?.to_array()?;
    if next.is_empty() {
        sql.exec("insert into store_versions (version) values (1)", None)?;
        next.push(Version { version: 1.0 });
    }
    let version = number(next[0].version);
    let bindings = vec![key.into(), whole(version), SqlStorageValue::Blob(bytes)];
    sql.exec("insert or replace into store_values (key, version, bytes) values (?, ?, ?)", bindings)?;
    Ok(Some(version))
}

fn delete(sql: &SqlStorage, key: &str, expected: Expected) -> worker::Result<bool> {
    let current = version(sql, key)?;
    if current.is_none() || !expected.matches(current) {
        return Ok(false);
    }
    sql.exec("delete from store_values where key = ?", vec![key.into()])?;
    Ok(true)
}

fn list(sql: &SqlStorage, range: &Range) -> worker::Result<Vec<Listed>> {
    let (start, excluded) = range.start();
    let from = if excluded { ">" } else { ">=" };
    let query = format!(
        "select key, version, length(bytes) as size from store_values
         where key {from} ?1 and substr(key, 1, length(?2)) = ?2 order by key limit ?3"
    );
    let limit = whole(range.bounded() as u64);
    let bindings = vec![start.into(), range.prefix.as_str().into(), limit];
    let rows: Vec<Entry> = sql.exec(&query, bindings)?.to_array()?;
    let listed = |row: Entry| Listed { key: row.key, version: number(row.version), size: number(row.size) };
    Ok(rows.into_iter().map(listed).collect())
}

fn version(sql: &SqlStorage, key: &str) -> worker::Result<Option<u64>> {
    let query = "select version from store_values where key = ?";
    let rows: Vec<Version> = sql.exec(query, vec![key.into()])?.to_array()?;
    Ok(rows.first().map(|row| number(row.version)))
}

/// Numbers in rows are JavaScript's. Versions and sizes are whole and small.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and not negative")]
fn number(value: f64) -> u64 {
    value as u64
}
