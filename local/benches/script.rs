//! How fast scripts are on this machine, beside other engines, and how much memory their processes take. `cargo xtask bench`
//! runs this, and shows what it prints: one JSON document.
//!
//! `--peers NODE PROGRAM` names the engines to compare with: `tests/bench/script/peers.mjs`.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use koze_core::provider::ScriptProvider as _;
use koze_core::script::{Call, Calls, Limits, Start};
use koze_core::time::millis;
use koze_core::tool::{All, Catalog, Content};
use koze_core::{Profiles, Session, SessionId};
use koze_local::Local;
use serde_json::{Value, json};

/// How many scripts run at once.
const AT_ONCE: usize = 1000;

fn main() {
    koze_local::init();
    let arguments: Vec<String> = std::env::args().collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let peers = arguments.iter().position(|argument| argument == "--peers");
    let peers = peers.map(|at| Peers::start(&arguments[at + 1], &arguments[at + 2]));
    let (rows, notes) = koze_local::block_on(measure(quick, peers)).expect("it ends well");
    println!("{}", json!({ "rows": rows, "notes": notes }));
}

/// Other engines, each of which runs `1+1` in a new isolate when it is asked to. They run in one Node.
struct Peers {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _child: Child,
}

impl Peers {
    fn start(node: &str, program: &str) -> Self {
        let mut child = Command::new(node)
            .arg(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{node}: {error}"));
        let (input, output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        Peers { input, output: BufReader::new(output), _child: child }
    }

    /// Returns how long an engine took, which it measures itself.
    fn time(&mut self, engine: &str) -> Duration {
        writeln!(self.input, "{engine}").expect("Node reads");
        let mut micros = String::new();
        self.output.read_line(&mut micros).expect("Node answers");
        let micros: f64 = micros.trim().parse().unwrap_or_else(|_| panic!("{engine}: {micros:?}"));
        Duration::from_secs_f64(micros / 1e6)
    }
}

/// Answers every call at once.
struct Null;

impl Calls for Null {
    async fn call(&self, _: Call) -> Result<Value, String> {
        Ok(Value::Null)
    }
}

async fn measure(quick: bool, mut peers: Option<Peers>) -> (Vec<Value>, Vec<String>) {
    let state = tempfile::tempdir().expect("a temporary directory");
    let local = Local::new(state.path()).expect("sandboxes on this machine");
    let runs = if quick { 100 } else { 1000 };
    let warm = Tools::new(&local, "warm");
    let [mut ours, mut quickjs, mut isolated] = [(); 3].map(|()| Vec::new());
    for run in 0..=runs {
        let time = warm.run("1+1").await;
        // The first one starts its process.
        if run == 0 {
            continue;
        }
        ours.push(time);
        if let Some(peers) = &mut peers {
            quickjs.push(peers.time("quickjs-emscripten"));
            isolated.push(peers.time("isolated-vm"));
        }
    }
    let mut rows = vec![
        row("run_sandbox_code `1+1`, warm", &ours, "quickjs-emscripten, cold", &quickjs),
        row("the same", &ours, "isolated-vm, cold", &isolated),
    ];
    let mut agents = Vec::new();
    for agent in 0..runs / 10 {
        agents.push(Tools::new(&local, &format!("agent-{agent}")).run("1+1").await);
    }
    rows.push(row("`1+1` of a new agent", &agents, "isolated-vm, cold", &isolated));
    let mut calls = Vec::new();
    for _ in 0..runs {
        calls.push(script(&local, "warm", "for (let i = 0; i < 100; i++) await state.get('a')").await);
    }
    rows.push(row("100 calls of the host", &calls, "", &[]));
    let (tool, inside) = rows_of(&local, runs / 10).await;
    rows.push(row("db_sql of 1,000 rows", &tool, "", &[]));
    rows.push(row("`db.sql` of 1,000 rows in a script", &inside, "", &[]));
    (rows, vec![memory(&local).await, at_once(&local).await, late(&local, runs / 50).await])
}

/// The tools of an agent.
struct Tools {
    session: Session<Local>,
    catalog: Catalog<All>,
}

impl Tools {
    fn new(local: &Local, agent: &str) -> Self {
        let session = Session::new(local.clone(), id(agent), Profiles::of_scripts());
        let catalog = Catalog::select(session.profiles(), Some("script")).expect("it is served");
        Tools { session, catalog }
    }

    /// Calls a tool. Returns its result, and the time until then.
    async fn call(&self, tool: &str, input: Value) -> (Value, Duration) {
        let begin = Instant::now();
        let reply = self.catalog.call(&self.session, tool, input).await.expect("a reply");
        let time = begin.elapsed();
        assert!(!reply.is_error, "{tool}: {reply:?}");
        let Content::Json(value) = reply.content else { panic!("{tool}: {:?}", reply.content) };
        (value, time)
    }

    async fn run(&self, code: &str) -> Duration {
        self.call("run_sandbox_code", json!({ "code": code })).await.1
    }
}

async fn script(local: &Local, agent: &str, code: &str) -> Duration {
    let (agent, start) = (id(agent), Start { code: code.to_owned(), ..Start::default() });
    let begin = Instant::now();
    let ran = local.run_script(&agent, start, &Null).await.expect("it runs");
    assert!(ran.result.is_ok(), "{ran:?}");
    begin.elapsed()
}

/// Reads 1,000 rows: with the tool, and within a script.
async fn rows_of(local: &Local, runs: usize) -> (Vec<Duration>, Vec<Duration>) {
    let tools = Tools::new(local, "rows");
    let fill = "create table t as with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) \
                select i, 'text ' || i as text from n";
    tools.call("db_sql", json!({ "sql": fill })).await;
    let [mut of_tool, mut inside] = [(); 2].map(|()| Vec::new());
    // In milliseconds: scripts have no finer clock.
    let code = "const begin = Date.now(); let rows = 0;\n\
                for (let i = 0; i < 20; i++) rows += (await db.sql('select * from t')).row_count;\n\
                return [rows, (Date.now() - begin) / 20]";
    for _ in 0..runs {
        let (found, time) = tools.call("db_sql", json!({ "sql": "select * from t" })).await;
        assert_eq!(found["row_count"], 1000);
        of_tool.push(time);
        let (ran, _) = tools.call("run_sandbox_code", json!({ "code": code })).await;
        assert_eq!(ran["result"][0], 20_000);
        inside.push(Duration::from_secs_f64(ran["result"][1].as_f64().expect("a time") / 1000.0));
    }
    (of_tool, inside)
}

/// Returns the memory of the processes that wait for scripts: the one that has run none, and those that have.
async fn memory(local: &Local) -> String {
    // Until the prepared process is ready.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = processes();
    // A new agent takes the prepared process, and the next one is prepared.
    Tools::new(local, "memory").run("1+1").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let after = processes();
    let (fresh, used): (Vec<_>, Vec<_>) = after.into_iter().partition(|process| !before.contains(process));
    let shown = |processes: &[u32]| {
        let found: Vec<_> = processes.iter().filter_map(|process| Memory::of(*process)).collect();
        let mean = |field: fn(&Memory) -> u64| {
            found.iter().map(field).sum::<u64>() / u64::try_from(found.len()).unwrap_or(u64::MAX).max(1)
        };
        format!(
            "{} KB private, {} KB proportional and {} KB resident",
            mean(|memory| memory.private),
            mean(|memory| memory.proportional),
            mean(|memory| memory.resident),
        )
    };
    if fresh.len() != 1 || used.iter().any(|process| Memory::of(*process).is_none()) {
        return "the memory of idle processes was not measured: only root can read it".to_owned();
    }
    format!(
        "memory of an idle process: {}; of the {} that have run scripts: {} on average",
        shown(&fresh),
        used.len(),
        shown(&used)
    )
}

/// The memory of a process, in KiB.
struct Memory {
    /// What it shares with no other process.
    private: u64,
    /// That, and its share of the rest.
    proportional: u64,
    /// All of it.
    resident: u64,
}

impl Memory {
    fn of(process: u32) -> Option<Self> {
        let sums = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
        let sum = |name: &str| {
            let line = sums.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
        };
        Some(Memory {
            private: sum("Private_Clean:")? + sum("Private_Dirty:")?,
            proportional: sum("Pss:")?,
            resident: sum("Rss:")?,
        })
    }
}

/// Returns the processes of scripts of this program.
fn processes() -> Vec<u32> {
    let own = |path: std::path::PathBuf| {
        let number = path.file_name()?.to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let ours = field("PPid:")? == std::process::id().to_string() && field("Name:")? == "koze-script";
        (ours && !field("State:")?.starts_with('Z')).then_some(number)
    };
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| own(entry.path())).collect()
}

/// Runs many scripts of ten agents at once.
async fn at_once(local: &Local) -> String {
    let begin = Instant::now();
    let all = (0..AT_ONCE).map(|number| {
        let agent = format!("at-once-{}", number % 10);
        async move {
            let start = Start { code: "await null; 1".to_owned(), ..Start::default() };
            local.run_script(&id(&agent), start, &Null).await.is_ok_and(|ran| ran.result == Ok(json!(1)))
        }
    });
    let good = futures_util::future::join_all(all).await;
    let errors = good.iter().filter(|good| !**good).count();
    format!("{AT_ONCE} scripts of 10 agents at once: {errors} errors, {} ms", begin.elapsed().as_millis())
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
