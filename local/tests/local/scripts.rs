//! Scripts of agents, in processes of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use koze_core::provider::ScriptProvider as _;
use koze_core::script::{Call, Calls, Check, Limit, Limits, Ran, Start};
use koze_core::{SessionId, id};
use koze_local::Local;
use serde_json::{Value, json};

use crate::Test;
use crate::hostile::HOSTILE;
use crate::stage::{Stage, is_root, within};

pub(crate) const TESTS: &[Test] = &[
    ("scripts_run", run),
    ("scripts_have_no_way_out", no_way_out),
    ("scripts_that_are_hostile_end", hostile),
    ("scripts_go_on_beside_hostile_ones", others_go_on),
    ("scripts_of_other_agents_have_other_processes", other_processes),
    ("scripts_end_with_their_caller", caller),
    ("scripts_run_by_the_hundred", many),
];

/// A script that is still there after this time has not been ended. The machine may be busy with other tests, so it is far
/// above the limit: `cargo xtask bench --only script` measures how late scripts are ended.
const ENDLESS: Duration = Duration::from_secs(20);

#[derive(Default)]
struct State(Mutex<BTreeMap<String, Value>>);

impl Calls for State {
    async fn call(&self, call: Call) -> Result<Value, String> {
        match call {
            Call::StateGet { key } => Ok(self.0.lock().unwrap().get(&key).cloned().unwrap_or_default()),
            Call::StateSet { key, value } => {
                self.0.lock().unwrap().insert(key, value);
                Ok(Value::Null)
            }
            Call::Fetch(fetch) if fetch.url == "http://slow" => {
                std::future::pending::<()>().await;
                Ok(Value::Null)
            }
            _ => Err("not in this test".to_owned()),
        }
    }
}

fn agent(name: &str) -> SessionId {
    id::SessionId::new("tests", name).unwrap()
}

async fn ran(local: &Local, name: &str, time_ms: u64, code: &str) -> Ran {
    let limits = Limits { time_ms, ..Limits::default() };
    let start = Start { code: code.to_owned(), limits, ..Start::default() };
    local.run_script(&agent(name), start, &State::default()).await.unwrap()
}

fn run() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let code =
            "console.log('one'); await state.set('a', [1, 'ä']); console.warn('two'); return state.get('a')";
        let done = ran(&stage.local, "a", 10_000, code).await;
        assert_eq!((done.result, done.logs), (Ok(json!([1, "ä"])), vec!["one".into(), "[WARN] two".into()]));
        let done = ran(&stage.local, "a", 10_000, "console.log('before')\nnull.x").await;
        let failure = done.result.unwrap_err();
        assert_eq!(
            failure.place.map(|place| (place.line, place.column)),
            Some((2, 1)),
            "{}",
            failure.message
        );
        assert_eq!(done.logs, ["before"]);
        let done = ran(&stage.local, "a", 10_000, "await db.schema()").await;
        assert_eq!(done.result.unwrap_err().message, "Error: not in this test");
        // Messages are longer than a packet, in both directions.
        let code = "await state.set('long', 'x'.repeat(1000000)); return (await state.get('long')).length";
        assert_eq!(ran(&stage.local, "a", 10_000, code).await.result, Ok(json!(1_000_000)));
        let check = |code: &str| Check::Script(code.into());
        let checked = stage.local.check_script(&agent("a"), check("return 1")).await.unwrap();
        assert_eq!(checked, Ok(()));
        let failure = stage.local.check_script(&agent("a"), check("return (")).await.unwrap().unwrap_err();
        assert!(failure.message.starts_with("SyntaxError"), "{}", failure.message);
    })
}

/// The processes that run scripts of this program.
fn processes() -> BTreeSet<u32> {
    let own = |path: PathBuf| {
        let number = path.file_name()?.to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let ours = field("PPid:")? == std::process::id().to_string() && field("Name:")? == "koze-script";
        (ours && !field("State:")?.starts_with('Z')).then_some(number)
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| own(entry.path())).collect()
}

/// What the kernel says of a process that runs scripts.
const LOCKED: &[&str] =
    &["Seccomp:\t2", "NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000"];

fn no_way_out() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        assert_eq!(ran(&stage.local, "a", 10_000, "1 + 1").await.result, Ok(json!(2)));
        for process in processes() {
            let place = PathBuf::from(format!("/proc/{process}"));
            // Processes of other tests may still be locked down. They have no script yet.
            let mut status = std::fs::read_to_string(place.join("status"));
            for _ in 0..100 {
                if status.as_ref().is_ok_and(|status| LOCKED.iter().all(|line| status.contains(line))) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                status = std::fs::read_to_string(place.join("status"));
            }
            let Ok(status) = status else { continue };
            for line in LOCKED {
                assert!(status.lines().any(|known| known == *line), "{line}: {status}");
            }
            if !is_root() {
                // Only root sees more of a process that cannot be inspected.
                continue;
            }
            assert!(!status.contains("Uid:\t0\t"), "{status}");
            let Ok(open) = std::fs::read_dir(place.join("fd")) else { continue };
            let open: Vec<_> = open.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok()).collect();
            if open.is_empty() {
                // It has ended meanwhile, with the script of another test: a process that runs has its socket.
                continue;
            }
            assert!(open.len() == 1 && open[0].to_string_lossy().starts_with("socket:"), "{open:?}");
            let Ok(root) = std::fs::read_dir(place.join("root")) else { continue };
            assert_eq!(root.flatten().count(), 0);
            for (namespace, shared) in
                [("net", false), ("user", false), ("pid", false), ("mnt", false), ("ipc", false)]
            {
                let of =
                    |process: &str| std::fs::read_link(format!("/proc/{process}/ns/{namespace}")).unwrap();
                assert_eq!(of(&process.to_string()) == of("self"), shared, "{namespace}");
            }
            let limits = std::fs::read_to_string(place.join("limits")).unwrap();
            let space = limits.lines().find(|line| line.starts_with("Max address space")).unwrap();
            assert!(!space.contains("unlimited"), "{space}");
        }
        assert!(!processes().is_empty(), "a process waits for the next script");
    })
}

fn hostile() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        for (what, code, limit) in HOSTILE {
            let before = Instant::now();
            let done = ran(&stage.local, "hostile", 400, code).await;
            let took = before.elapsed();
            let failure = done.result.expect_err(what);
            assert!(took < ENDLESS, "{what}: {took:?}");
            if limit.is_some() {
                assert_eq!(failure.limit, *limit, "{what}: {}", failure.message);
            }
            assert!(!failure.message.is_empty(), "{what}");
        }
        assert_eq!(ran(&stage.local, "hostile", 10_000, "1 + 1").await.result, Ok(json!(2)));
    })
}

fn others_go_on() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let endless = HOSTILE.iter().filter(|(.., limit)| *limit == Some(Limit::Time));
        let hostile = endless.map(|(_, code, _)| ran(&stage.local, "hostile", 60_000, code));
        let mut hostile = pin!(futures_util::future::select_all(hostile.map(Box::pin)));
        for _ in 0..20 {
            let other = ran(&stage.local, "other", 10_000, "await state.set('a', 1); 1 + 1");
            tokio::select! {
                done = other => assert_eq!(done.result, Ok(json!(2))),
                (done, ..) = &mut hostile => panic!("a hostile script ended first: {:?}", done.result),
            }
        }
    })
}

fn other_processes() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        // What one script changes does not reach the next one, not even of the same agent.
        let poison = "Object.prototype.x = 1; Array.prototype.map = null; globalThis.y = 2; JSON.stringify = () => 'no'; 1";
        assert_eq!(ran(&stage.local, "a", 10_000, poison).await.result, Ok(json!(1)));
        for name in ["a", "b"] {
            let code = "[typeof ({}).x, typeof [].map, typeof y, JSON.stringify([1])]";
            let seen = ran(&stage.local, name, 10_000, code).await.result;
            assert_eq!(seen, Ok(json!(["undefined", "function", "undefined", "[1]"])), "{name}");
        }
    })
}

fn caller() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let abandoned = ran(&stage.local, "a", 20_000, "for (;;) {}");
        assert!(tokio::time::timeout(Duration::from_millis(300), abandoned).await.is_err());
        // Eight of an agent run at once: if abandoned ones went on, the next would wait for them.
        let before = Instant::now();
        let all = (0..8).map(|_| ran(&stage.local, "a", 10_000, "1"));
        for done in futures_util::future::join_all(all).await {
            assert_eq!(done.result, Ok(json!(1)));
        }
        assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
    })
}

fn many() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let names: Vec<String> = (0..20).map(|number| format!("agent-{}", number % 5)).collect();
        let all =
            (0..300).map(|number| {
                let name = &names[number % names.len()];
                let stage = &stage;
                async move {
                    (number, ran(&stage.local, name, 30_000, &format!("await null; return {number}")).await)
                }
            });
        for (number, done) in futures_util::future::join_all(all).await {
            assert_eq!(done.result, Ok(json!(number)));
        }
    })
}
