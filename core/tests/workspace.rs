//! The workspaces of a session: limits, guards and capabilities.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use koze_core::id::SandboxId;
use koze_core::provider::memory::{Memory, MemorySandbox, MemoryStore};
use koze_core::provider::{Info, Opened, Profile, ScriptProvider, Settings, Size};
use koze_core::tool::Family;
use koze_core::workspace::{
    Capability, OpenLimits, Phase, ShellConfig, WorkspaceConfig, WorkspaceFailed, WorkspaceState,
};
use koze_core::{Code, Error, Profiles, Provider, Result, Session, SessionId};

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

fn profiles(configs: impl IntoIterator<Item = WorkspaceConfig>) -> Profiles {
    let profile = |config: WorkspaceConfig| Profile {
        tools: vec![Family::Workspace],
        workspace: Some(config.clone()),
        ..Profile::new(config.name, "debian", Size { memory_mib: 1, disk_mb: 1 })
    };
    let list: Vec<Profile> = configs.into_iter().map(profile).collect();
    let default = list[0].name.clone();
    Profiles::new(list, &default).unwrap()
}

fn session<P: Provider>(provider: P, name: &str, config: WorkspaceConfig) -> Session<P> {
    Session::new(provider, SessionId::new("tenant", name).unwrap(), profiles([config]))
}

fn code<T: std::fmt::Debug>(result: std::result::Result<T, WorkspaceFailed>) -> (Code, String) {
    let failed = result.unwrap_err();
    (failed.error.code, failed.to_string())
}

/// Sandboxes in memory that take a while to be found or created, and fail at first.
#[derive(Clone, Default)]
struct Slow {
    memory: Memory,
    limits: OpenLimits,
    in_flight: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    /// When each was looked for.
    found: Arc<Mutex<Vec<Instant>>>,
    failures: Arc<AtomicUsize>,
}

impl Slow {
    async fn during<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(2)).await;
        let failing =
            self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let result = match failing {
            Ok(_) => Err(Error::new(Code::Unavailable, "the platform is busy")),
            Err(_) => work.await,
        };
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

impl ScriptProvider for Slow {}

impl Provider for Slow {
    type Sandbox = MemorySandbox;
    type Store = MemoryStore;

    fn open_limits(&self) -> &OpenLimits {
        &self.limits
    }

    async fn open(&self, id: &SandboxId, settings: &Settings) -> Result<Opened<MemorySandbox>> {
        self.during(self.memory.open(id, settings)).await
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Opened<MemorySandbox>>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        self.during(self.memory.find(id)).await
    }

    async fn list(&self, session: &SessionId) -> Result<Vec<Info>> {
        self.memory.list(session).await
    }

    fn store(&self, session: &SessionId) -> Result<MemoryStore> {
        self.memory.store(session)
    }
}

#[test]
fn a_session_opens_few_at_the_same_time() {
    run(async {
        let slow = Slow::default();
        let many = profiles((0..100).map(|number| WorkspaceConfig::new(format!("w{number}"))));
        let id = SessionId::new("tenant", "a").unwrap();
        let session = Session::new(slow.clone(), id, many).with_max_opens(5);
        let opened = session.workspaces().open_all().await.unwrap();
        assert_eq!(opened.len(), 100);
        assert_eq!(slow.most.load(Ordering::SeqCst), 5, "as many as allowed, and no more");
    });
}

#[test]
fn a_provider_opens_few_of_all_sessions_and_resolves_them_spread() {
    run(async {
        let slow = Slow { limits: OpenLimits::new(50), ..Slow::default() };
        let before: Vec<_> =
            (0..1000).map(|n| session(slow.clone(), &n.to_string(), WorkspaceConfig::new("box"))).collect();
        let workspaces: Vec<_> = before.iter().map(Session::workspaces).collect();
        let opened = join_all(workspaces.iter().map(|workspaces| workspaces.open("box"))).await;
        assert!(opened.iter().all(std::result::Result::is_ok));
        assert_eq!(slow.most.swap(0, Ordering::SeqCst), 50);
        slow.found.lock().unwrap().clear();
        // After a restart, nothing is known of them.
        let after: Vec<_> =
            (0..1000).map(|n| session(slow.clone(), &n.to_string(), WorkspaceConfig::new("box"))).collect();
        let workspaces: Vec<_> = after.iter().map(Session::workspaces).collect();
        let resolved = join_all(workspaces.iter().map(|workspaces| workspaces.resolve("box"))).await;
        assert!(resolved.iter().all(std::result::Result::is_ok));
        let most = slow.most.load(Ordering::SeqCst);
        assert!((1..=50).contains(&most), "{most}");
        let found = slow.found.lock().unwrap();
        let (first, last) = (found.iter().min().unwrap(), found.iter().max().unwrap());
        assert_eq!(found.len(), 1000);
        assert!(last.duration_since(*first) >= Duration::from_millis(200), "they are spread");
    });
}

#[test]
fn a_profile_is_limited_to_its_instances() {
    run(async {
        let slow = Slow::default();
        let config = || WorkspaceConfig { max_instances: Some(3), ..WorkspaceConfig::new("box") };
        let sessions: Vec<_> = (0..20).map(|n| session(slow.clone(), &n.to_string(), config())).collect();
        let workspaces: Vec<_> = sessions.iter().map(Session::workspaces).collect();
        let opened = join_all(workspaces.iter().map(|workspaces| workspaces.open("box"))).await;
        assert!(opened.iter().all(std::result::Result::is_ok));
        assert_eq!(slow.most.load(Ordering::SeqCst), 3);
    });
}

#[test]
fn concurrent_first_calls_attach_once() {
    run(async {
        let slow = Slow::default();
        let session = session(slow.clone(), "a", WorkspaceConfig::new("box"));
        let workspaces = session.workspaces();
        let all = join_all((0..20).map(|_| workspaces.get("box"))).await;
        assert!(all.iter().all(std::result::Result::is_ok));
        assert_eq!(slow.memory.list(session.id()).await.unwrap().len(), 1);
    });
}

#[test]
fn transient_errors_are_retried_and_others_are_not() {
    run(async {
        let slow = Slow::default();
        slow.failures.store(2, Ordering::SeqCst);
        let session = session(slow.clone(), "a", WorkspaceConfig::new("box"));
        session.workspaces().get("box").await.unwrap();
        let (code, text) = code(session.workspaces().get("other").await);
        assert_eq!(code, Code::NotFound);
        assert_eq!(
            text,
            "the workspace `other` failed: not_found: this project does not declare it: its workspaces are box"
        );
    });
}

#[test]
fn sessions_do_not_share_unless_they_say_so() {
    run(async {
        let memory = Memory::new();
        let own = || WorkspaceConfig::new("box");
        let (one, two) = (session(memory.clone(), "a", own()), session(memory.clone(), "b", own()));
        let fs = |session: &Session<Memory>| {
            let workspaces = session.workspaces();
            async move { workspaces.get("box").await.unwrap().fs().unwrap().clone() }
        };
        fs(&one).await.write("f", b"1".to_vec()).await.unwrap();
        assert_eq!(fs(&two).await.read("f").await.unwrap_err().code, Code::NotFound);
        let explicit = || WorkspaceConfig { id: Some("common".into()), ..own() };
        let (code, text) = code(session(memory.clone(), "a", explicit()).workspaces().open("box").await);
        assert!(code == Code::InvalidInput && text.contains("cross-tenant"), "{text}");
        let shared = || WorkspaceConfig { share_across_sessions: true, ..explicit() };
        let (one, two) = (session(memory.clone(), "a", shared()), session(memory.clone(), "b", shared()));
        fs(&one).await.write("f", b"1".to_vec()).await.unwrap();
        assert_eq!(fs(&two).await.read("f").await.unwrap(), b"1");
        let elsewhere = SessionId::new("another tenant", "a").unwrap();
        let elsewhere = Session::new(memory, elsewhere, profiles([shared()]));
        assert_eq!(fs(&elsewhere).await.read("f").await.unwrap_err().code, Code::NotFound);
    });
}

#[test]
fn capabilities_are_checked_when_opened_and_when_called() {
    run(async {
        let declared = WorkspaceConfig { shell: Some(ShellConfig::default()), ..WorkspaceConfig::new("box") };
        let lacking = session(Memory::new(), "a", declared);
        let (code_of, text) = code(lacking.workspaces().open("box").await);
        assert!(
            code_of == Code::Unsupported && text.contains("remove `shell` from `workspace(..)`"),
            "{text}"
        );
        let only_files = session(Memory::new(), "a", WorkspaceConfig::new("box"));
        let workspace = only_files.workspaces().open("box").await.unwrap();
        let (code_of, text) = code(workspace.shell());
        assert!(
            code_of == Code::Unsupported && text.contains("does not declare the capability `shell`"),
            "{text}"
        );
        assert!(workspace.fs().is_ok());
    });
}

#[test]
fn a_workspace_is_opened_resolved_closed_and_reset() {
    run(async {
        let memory = Memory::new();
        let config = WorkspaceConfig { destroy_on_close: true, ..WorkspaceConfig::new("box") };
        let first = session(memory.clone(), "a", config.clone());
        let workspaces = first.workspaces();
        let described = |phase, last_error| WorkspaceState {
            name: "box".into(),
            profile: "box".into(),
            dir: "/workspace".into(),
            capabilities: vec![Capability::Fs],
            shared: false,
            phase,
            last_error,
        };
        assert_eq!(workspaces.describe(), [described(Phase::Declared, None)]);
        let (_, text) = code(workspaces.resolve("box").await);
        assert!(text.contains("it was never opened"), "{text}");
        let state = workspaces.describe().remove(0);
        assert_eq!((state.phase, state.last_error.unwrap().code), (Phase::Failed, Code::NotFound));
        let opened = workspaces.open("box").await.unwrap();
        opened.fs().unwrap().write("f", b"1".to_vec()).await.unwrap();
        assert_eq!(workspaces.describe(), [described(Phase::Open, None)]);
        let again = session(memory.clone(), "a", config);
        let resolved = again.workspaces().resolve("box").await.unwrap();
        assert_eq!(resolved.fs().unwrap().read("f").await.unwrap(), b"1");
        let reset = workspaces.reset("box").await.unwrap();
        assert_eq!(reset.fs().unwrap().read("f").await.unwrap(), b"1", "the files are kept");
        workspaces.close_all().await.unwrap();
        assert_eq!(workspaces.describe(), [described(Phase::Closed, None)]);
        assert!(memory.list(first.id()).await.unwrap().is_empty(), "it was destroyed");
        let kept = session(memory.clone(), "b", WorkspaceConfig::new("box"));
        kept.workspaces().open("box").await.unwrap();
        kept.workspaces().close("box").await.unwrap();
        assert_eq!(memory.list(kept.id()).await.unwrap().len(), 1, "it sleeps when it is idle");
    });
}
