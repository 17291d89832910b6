//! Decides what a statement may do, as it is compiled: not its text counts, but what it would do.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

/// The pragmas that only read, and that Durable Objects allow, too.
const PRAGMAS: &[&str] = &[
    "data_version",
    "foreign_key_check",
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
];
/// The functions that reach out of the database, or into `SQLite`.
const FUNCTIONS: &[&str] = &["fts3_tokenizer", "load_extension"];
/// The tables that show how the database is stored.
const TABLES: &[&str] = &["dbstat"];
/// The modules of virtual tables.
const MODULES: &[&str] = &["fts5", "fts5vocab"];

/// Why the authorizer refused a statement.
#[derive(Debug, Clone, Default)]
pub(super) struct Refusal(Arc<Mutex<Option<String>>>);

impl Refusal {
    /// Takes the reason of the last refusal.
    pub(super) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the authorizer, which keeps the first reason.
    pub(super) fn authorizer(&self) -> impl FnMut(AuthContext<'_>) -> Authorization + Send + 'static {
        let kept = Arc::clone(&self.0);
        move |context| match refusal_reason(&context.action, context.database_name) {
            None => Authorization::Allow,
            Some(reason) => {
                kept.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
                Authorization::Deny
            }
        }
    }
}

/// Why what is not in the database is refused: it is in memory.
const TEMPORARY: &str = "temporary tables, views, triggers and indexes are not allowed: use a common table expression (WITH), or a \
    table";

/// Returns why an action on a database is refused.
fn refusal_reason(action: &AuthAction<'_>, database: Option<&str>) -> Option<String> {
    use AuthAction::{
        AlterTable, Analyze, Attach, CreateIndex, CreateTable, CreateTempIndex, CreateTempTable,
        CreateTempTrigger, CreateTempView, CreateTrigger, CreateView, CreateVtable, Delete, Detach,
        DropIndex, DropTable, DropTempIndex, DropTempTable, DropTempTrigger, DropTempView, DropTrigger,
        DropView, DropVtable, Function, Insert, Pragma, Read, Recursive, Reindex, Savepoint, Select,
        Transaction, Update,
    };
    let refused = |text: &str| Some(text.to_owned());
    // `CREATE TABLE temp.t` creates a table like others, in another database.
    let reads = matches!(action, Read { .. } | Select | Function { .. } | Pragma { .. } | Recursive);
    if !reads && database.is_some_and(|database| database.eq_ignore_ascii_case("temp")) {
        return refused(TEMPORARY);
    }
    match action {
        Read { table_name, .. } if is_one(TABLES, table_name) => {
            Some(format!("the table {table_name} is not allowed"))
        }
        CreateIndex { .. }
        | CreateTable { .. }
        | CreateTrigger { .. }
        | CreateView { .. }
        | Delete { .. }
        | DropIndex { .. }
        | DropTable { .. }
        | DropTrigger { .. }
        | DropView { .. }
        | Insert { .. }
        | Read { .. }
        | Select
        | Update { .. }
        | AlterTable { .. }
        | Reindex { .. }
        | Analyze { .. }
        | Recursive
        | DropVtable { .. } => None,
        // The statement may be VACUUM, which attaches its copy.
        Attach { .. } | Detach { .. } => {
            refused("ATTACH, DETACH and VACUUM are not allowed: an agent has one database")
        }
        Transaction { .. } | Savepoint { .. } => refused(
            "transactions are not allowed: each statement is one of its own, so write what belongs together as one statement",
        ),
        CreateTempIndex { .. }
        | CreateTempTable { .. }
        | CreateTempTrigger { .. }
        | CreateTempView { .. }
        | DropTempIndex { .. }
        | DropTempTable { .. }
        | DropTempTrigger { .. }
        | DropTempView { .. } => refused(TEMPORARY),
        CreateVtable { module_name, .. } => (!is_one(MODULES, module_name)).then(|| {
            format!("virtual tables can use {} only, and not `{module_name}`", MODULES.join(" and "))
        }),
        Pragma { pragma_name, .. } => (!is_one(PRAGMAS, pragma_name))
            .then(|| format!("PRAGMA {pragma_name} is not allowed: these are: {}", PRAGMAS.join(", "))),
        Function { function_name } => {
            is_one(FUNCTIONS, function_name).then(|| format!("the function {function_name} is not allowed"))
        }
        // Also those of later versions.
        _ => refused("this kind of statement is not allowed"),
    }
}

fn is_one(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}
