//! Statements in the databases of scripts, in processes of their own.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::join_all;
use koze_core::error::{Code, Error};
use koze_core::provider::ScriptProvider as _;
use koze_core::sandbox::Sandbox as _;
use koze_core::script::{Egress, Query};
use koze_core::{Profiles, SessionId};
use koze_local::{Internet, Local};
use serde_json::{Value, json};

use crate::Test;
use crate::scripted::Scene;
use crate::stage::{Stage, within};

pub(crate) const TESTS: &[Test] = &[
    ("statements_that_are_killed_change_nothing", killed),
    ("statements_have_processes_of_their_own", confined),
    ("statements_that_wait_take_no_threads", waiting),
    ("statements_that_wait_are_limited", limited),
    ("statements_do_not_delay_the_end_of_a_sandbox", destroyed),
    ("arguments_of_pending_calls_are_limited", arguments),
    ("databases_of_many_agents_are_open_in_turn", agents),
];

/// One function that takes minutes.
const ENDLESS: &str = "instr(printf('%.*c', 2000000, 'a'), printf('%.*c', 1000000, 'a') || 'b')";
/// The threads that koze's pool for files has at most. It is full if each statement that waits takes one.
const POOL: usize = 512;

fn agent(name: &str) -> SessionId {
    SessionId::new("tests", name).unwrap()
}

async fn sql(local: &Local, name: &str, sql: &str) -> Result<Value, Error> {
    local.script_query(&agent(name), Query::Sql { sql: sql.to_owned(), params: Vec::new() }).await
}

fn killed() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        sql(&stage.local, "a", "create table t (x)").await.unwrap();
        sql(&stage.local, "a", "insert into t values (1)").await.unwrap();
        let insert = format!("insert into t select {ENDLESS} union all select 2");
        let mut endless = pin!(sql(&stage.local, "a", &insert));
        // Other agents go on.
        tokio::select! {
            other = sql(&stage.local, "b", "select 1") => assert_eq!(other.unwrap()["rows"], json!([[1]])),
            ended = &mut endless => panic!("it ended first: {ended:?}"),
        }
        let error = endless.await.unwrap_err();
        assert_eq!(error.code, Code::Timeout, "{error}");
        assert!(error.message.contains("5 s"), "{error}");
        // The database is as it was, and works.
        assert_eq!(sql(&stage.local, "a", "select x from t").await.unwrap()["rows"], json!([[1]]));
        sql(&stage.local, "a", "insert into t values (3)").await.unwrap();
        assert_eq!(sql(&stage.local, "a", "pragma quick_check").await.unwrap()["rows"], json!([["ok"]]));
        let memory = "with recursive n(i) as (select 1 union all select i + 1 from n limit 10000)
                      select randomblob(100000) as b from n order by b";
        let error = sql(&stage.local, "a", memory).await.unwrap_err();
        assert_eq!(error.code, Code::TooLarge, "{error}");
        assert!(error.message.contains("64 MiB"), "{error}");
        assert_eq!(sql(&stage.local, "a", "select count(*) from t").await.unwrap()["rows"], json!([[2]]));
    })
}

/// The processes of databases of this program.
fn processes() -> BTreeSet<u32> {
    let own = |path: PathBuf| {
        let number = path.file_name()?.to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let ours = field("PPid:")? == std::process::id().to_string() && field("Name:")? == "koze-database";
        (ours && !field("State:")?.starts_with('Z')).then_some(number)
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| own(entry.path())).collect()
}

fn confined() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        assert_eq!(sql(&stage.local, "a", "select 1").await.unwrap()["rows"], json!([[1]]));
        let mut seen = 0;
        for process in processes() {
            // Processes of other tests end at any time, or are still locked down.
            let place = PathBuf::from(format!("/proc/{process}"));
            let Ok(status) = std::fs::read_to_string(place.join("status")) else { continue };
            if !status.contains("Seccomp:\t2") {
                continue;
            }
            for line in
                ["NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "Threads:\t1"]
            {
                assert!(status.lines().any(|known| known == line), "{line}: {status}");
            }
            let Ok(limits) = std::fs::read_to_string(place.join("limits")) else { continue };
            for name in ["Max address space", "Max file size", "Max open files"] {
                let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
                assert!(!line.contains("unlimited"), "{line}");
            }
            seen += 1;
        }
        assert!(seen > 0, "the process of the database is there");
    })
}

/// The threads of koze's pool for files. Other tests of this program use it, too.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "koze-files").count()
}

fn waiting() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = Scene::new(Internet::default(), Egress::default());
        scene.call("db_sql", json!({ "sql": "create table t (x)" })).await.unwrap();
        let code = "await Promise.all(Array.from({ length: 900 }, (_, i) => db.sql('insert into t values (?)', [i]))); \
                    await Promise.all(Array.from({ length: 900 }, (_, i) => state.get('k' + i))); \
                    return (await db.sql('select count(*) from t')).rows[0][0]";
        let mut ran = pin!(scene.run(code));
        let mut most = 0;
        let result = loop {
            tokio::select! {
                result = &mut ran => break result,
                () = tokio::time::sleep(Duration::from_millis(1)) => most = most.max(threads()),
            }
        };
        assert_eq!(result, json!(900));
        assert!((1..POOL).contains(&most), "{most}");
    })
}

fn limited() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let long = "x".repeat(2_000_000);
        let query = || Query::Sql { sql: "select length(?)".to_owned(), params: vec![long.as_str().into()] };
        let agent = agent("a");
        let all = join_all((0..100).map(|_| stage.local.script_query(&agent, query()))).await;
        let refused: Vec<_> = all.iter().filter_map(|answer| answer.as_ref().err()).collect();
        assert!(!refused.is_empty() && refused.len() < 60, "{}", refused.len());
        for error in refused {
            assert_eq!(error.code, Code::TooLarge, "{error}");
            assert!(error.message.contains("128 MiB"), "{error}");
        }
        // The others have run, and there is room again.
        let answered = all.iter().flatten().all(|answer| answer["rows"] == json!([[2_000_000]]));
        assert!(answered);
        assert!(stage.local.script_query(&agent, query()).await.is_ok());
    })
}

fn destroyed() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("one").await;
        let agent = agent("a");
        let query = Query::Sql { sql: format!("select {ENDLESS}"), params: Vec::new() };
        let mut statements =
            pin!(join_all((0..900).map(|_| stage.local.script_query(&agent, query.clone()))));
        tokio::select! {
            _ = &mut statements => panic!("they are without end"),
            () = tokio::time::sleep(Duration::from_millis(200)) => {}
        }
        // The first statement takes 5 s.
        let mut first = pin!(sql(&stage.local, "a", "select 1"));
        tokio::select! {
            destroyed = sandbox.destroy() => destroyed.unwrap(),
            _ = &mut statements => panic!("it waited for statements"),
            _ = &mut first => panic!("it waited for a statement"),
        }
    })
}

fn arguments() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = Scene::of(Internet::default(), Profiles::of_scripts());
        // Behind a statement that takes long, the others wait.
        let code = format!(
            "const text = 'x'.repeat(2000000), all = [db.sql(`select {ENDLESS}`)]; \
             for (let i = 0; i < 20; i++) all.push(db.sql('select length(?)', [text])); await Promise.all(all)"
        );
        let error = scene.call("run_sandbox_code", json!({ "code": code })).await.unwrap_err();
        let error: Value = serde_json::from_str(&error).unwrap();
        assert_eq!(error["limit"], "memory", "{error}");
        assert!(error["error"].as_str().unwrap().contains("16 MiB: await some of them first"), "{error}");
        // One after the other, only one is pending.
        let code = "const text = 'x'.repeat(2000000); \
                    for (let i = 0; i < 10; i++) await db.sql('select length(?)', [text]); return 'done'";
        assert_eq!(scene.run(code).await, json!("done"));
    })
}

fn agents() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let names: Vec<String> = (0..20).map(|number| format!("agent-{number}")).collect();
        for step in ["create table t (x)", "insert into t values (1)", "insert into t values (2)"] {
            for answer in join_all(names.iter().map(|name| sql(&stage.local, name, step))).await {
                answer.unwrap();
            }
        }
        for name in &names {
            let found = sql(&stage.local, name, "select sum(x) from t").await.unwrap();
            assert_eq!(found["rows"], json!([[3]]), "{name}");
        }
    })
}
