//! How fast scripts are on this machine, beside Node.js. `cargo xtask bench` runs this, and shows what it prints: one JSON
//! document.
#![cfg(target_os = "linux")]

use std::process::Command;
use std::time::{Duration, Instant};

use koze_core::script::{Call, Calls, Limits, Query, Start};
use koze_core::time::millis;
use koze_core::{Provider as _, SessionId};
use koze_local::Local;
use serde_json::{Value, json};

/// How many scripts run at once.
const AT_ONCE: usize = 1000;

fn main() {
    koze_local::init();
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (rows, notes) = koze_local::block_on(measure(quick)).expect("it ends well");
    println!("{}", json!({ "rows": rows, "notes": notes }));
}

/// Answers every call at once.
struct Null;

impl Calls for Null {
    async fn call(&self, _: Call) -> Result<Value, String> {
        Ok(Value::Null)
    }
}

async fn measure(quick: bool) -> (Vec<Value>, Vec<String>) {
    let state = tempfile::tempdir().expect("a temporary directory");
    let local = Local::new(state.path()).expect("sandboxes on this machine");
    let runs = if quick { 100 } else { 1000 };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 0..=runs {
        let time = script(&local, "warm", "1+1").await;
        // The first one starts its process.
        if run > 0 {
            ours.push(time);
        }
        if theirs.len() < 20 {
            let start = Instant::now();
            match Command::new("node").args(["-e", "1+1"]).status() {
                Ok(status) if status.success() => theirs.push(start.elapsed()),
                _ => {}
            }
        }
    }
    let mut rows = vec![row("`1+1`, warm", &ours, "node -e, cold", &theirs)];
    let mut calls = Vec::new();
    for _ in 0..runs {
        calls.push(script(&local, "warm", "for (let i = 0; i < 100; i++) await state.get('a')").await);
    }
    rows.push(row("100 calls of the host", &calls, "node -e, cold", &theirs));
    let mut agents = Vec::new();
    for agent in 0..runs / 10 {
        agents.push(script(&local, &format!("agent-{agent}"), "1+1").await);
    }
    rows.push(row("`1+1` of a new agent", &agents, "node -e, cold", &theirs));
    rows.push(row("`db.sql` of 1,000 rows", &rows_of(&local, runs / 10).await, "node -e, cold", &theirs));
    (rows, vec![at_once(&local).await, late(&local, runs / 50).await])
}

async fn script(local: &Local, agent: &str, code: &str) -> Duration {
    let (agent, start) = (id(agent), Start { code: code.to_owned(), ..Start::default() });
    let begin = Instant::now();
    let ran = local.run_script(&agent, start, &Null).await.expect("it runs");
    assert!(ran.result.is_ok(), "{ran:?}");
    begin.elapsed()
}

async fn rows_of(local: &Local, runs: usize) -> Vec<Duration> {
    let query = |sql: &str| Query::Sql { sql: sql.to_owned(), params: Vec::new() };
    let fill = "create table t as with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) \
                select i, 'text ' || i as text from n";
    local.script_query(&id("rows"), query(fill)).await.expect("a table");
    let mut times = Vec::new();
    for _ in 0..runs {
        let begin = Instant::now();
        let found = local.script_query(&id("rows"), query("select * from t")).await.expect("rows");
        times.push(begin.elapsed());
        assert_eq!(found["row_count"], 1000);
    }
    times
}

/// Runs many scripts of ten agents at once.
async fn at_once(local: &Local) -> String {
    let begin = Instant::now();
    let all = (0..AT_ONCE).map(|number| {
        let agent = format!("at-once-{}", number % 10);
        async move { script(local, &agent, "await null; 1").await }
    });
    futures_util::future::join_all(all).await;
    format!("{AT_ONCE} scripts of 10 agents at once took {} ms", begin.elapsed().as_millis())
}

/// Runs scripts that do not end, in a loop and in a built-in function, which cannot be interrupted.
async fn late(local: &Local, runs: usize) -> String {
    let limit = Duration::from_millis(200);
    let mut latest = Duration::ZERO;
    for code in ["for (;;) {}", "/^(a+)+$/.test('a'.repeat(40) + 'b')"].repeat(runs) {
        // The first one starts a process, and the next one would wait for it.
        script(local, "late", "1").await;
        let limits = Limits { time_ms: millis(limit), ..Limits::default() };
        let start = Start { code: code.to_owned(), limits, ..Start::default() };
        let begin = Instant::now();
        let ran = local.run_script(&id("late"), start, &Null).await.expect("it runs");
        latest = latest.max(begin.elapsed().saturating_sub(limit));
        assert!(ran.result.is_err(), "{ran:?}");
    }
    format!(
        "of {} scripts that do not end, the last one ended {} ms after its limit",
        2 * runs,
        latest.as_millis()
    )
}

fn id(agent: &str) -> SessionId {
    SessionId::new("bench", agent).expect("a name")
}

fn row(case: &str, times: &[Duration], peer: &str, peer_times: &[Duration]) -> Value {
    let micros = |times: &[Duration]| times.iter().map(|time| time.as_secs_f64() * 1e6).collect::<Vec<_>>();
    json!({ "case": case, "us": micros(times), "peer": peer, "peer_us": micros(peer_times) })
}
