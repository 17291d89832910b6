//! The process of a database, in its sandbox.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use koze_script::protocol::Json;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::serve::{Next, Socket};
use super::connection::{Database, unusable_error};
use koze_core::error::Result;
use koze_core::script::Query;

/// Where the process sees the directory of the databases.
pub(super) const DIRECTORY: &str = "databases";

/// From the host to the process. Each is answered.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Opens the database in this file. This is the first message, and is answered with null.
    Open(String),
    /// See [`Query::Sql`].
    Sql { sql: String, params: Vec<Value> },
    /// See [`Query::Schema`].
    Schema,
}

impl From<Query> for Ask {
    fn from(query: Query) -> Self {
        match query {
            Query::Sql { sql, params } => Ask::Sql { sql, params },
            Query::Schema => Ask::Schema,
        }
    }
}

/// Answers queries of one database until the host is gone.
pub(in super::super::super) fn serve_queries(socket: OwnedFd) -> io::Result<()> {
    let wire = Socket::new(socket);
    let mut open: Option<Database> = None;
    while let Next::Message(ask) = wire.next(None) {
        let query = match ask {
            Ask::Open(file) => {
                let path = Path::new("/").join(DIRECTORY).join(file);
                let opened = Database::open(&path, true).map_err(unusable_error).map(|database| {
                    open = Some(database);
                    Json::null()
                });
                wire.send(&opened);
                continue;
            }
            Ask::Sql { sql, params } => Query::Sql { sql, params },
            Ask::Schema => Query::Schema,
        };
        let database = open.as_mut().ok_or(io::ErrorKind::InvalidData)?;
        let answer: Result<Json> = database.answer(&query);
        wire.send(&answer);
    }
    Ok(())
}
