//! Sandboxes on this machine: Linux namespaces, no container engine, no image.
//!
//! A sandbox is one process of ours, [`koze_guest`], alone with the programs it starts: in user, mount, process, IPC,
//! host name, network and control group namespaces of its own, as a user without any right, below a filter of system
//! calls. Of the host it sees `/usr` and a few files of `/etc`, to read. `/home/user`, `/workspace`, `/tmp` and
//! `/mnt/user-data` are its own, on disk below the state directory. It has no network but its own loopback.
//!
//! **The internet** is off, unless the profile has `internet` or `allowed_hosts`. Then programs find an HTTP proxy at
//! 127.0.0.1:3128 and its address in their environment (`HTTP_PROXY`, `HTTPS_PROXY`), and there is no other way out, no DNS
//! either. The proxy is in this process. It looks a name up once, and connects to an address it has checked: hosts that are
//! denied, or not among those that are allowed, and private, loopback, link-local, multicast and metadata addresses are
//! refused, and those of this machine itself. What a tunnel carries is not looked into: a server that several hosts share
//! may give one of them for another.
//!
//! **Previews.** [`Sandbox::expose`] gives `http://<port>-<name>-<token>.localhost:<p>/`. One listener on 127.0.0.1 serves
//! all previews for as long as [`Local`] is there; its port is remembered in the state directory, and so the URL of a sandbox
//! stays as it is, also when this program is started again. (Of several programs with one state directory at once, the first
//! has that port.) A request wakes a sandbox that sleeps, and keeps it awake until it is answered, a WebSocket until it is
//! closed. Whoever knows the URL reaches every port of that sandbox. Browsers know names below `localhost`; where a program
//! does not, `curl --resolve '<host>:<p>:127.0.0.1'`, or a request to 127.0.0.1:`p` with the URL's host and port in the
//! `Host` header, does the same.
//!
//! **What is limited how.** Where this process may create control groups, the kernel limits memory, processes and processors.
//! For that, this process may move to a group below its own, or to a delegated scope of systemd's. Elsewhere a watch sums up
//! the memory of the programs every 150 ms or so and kills them all when it is too much, so between two looks more can be taken;
//! memory in pipes and `/dev/shm` (64 MB) is not seen, and shared memory of the System V kind is refused. Files on disk are summed
//! up in the same way everywhere, a large tree less often. No single file is longer than the disk. 512 processes and threads are
//! the most; nearly as many for a second, and they are killed. A sandbox that takes the watch more than its budget of work is
//! over the limit, too. This process's soft limit of open files is raised.
//!
//! **Groups.** A plain user's other groups stay in force inside unless the system lets that user give them up: with
//! `newgidmap` (Debian's package `uidmap`) and an entry in `/etc/subgid`. What they may read of what is seen of the host, a
//! program may then read, too.
//!
//! `/proc/self/mountinfo` shows a program where the state directory lies on the host.
//!
//! ```no_run
//! # use koze_local::Local;
//! fn main() -> koze_core::Result<()> {
//!     // First of all: sandboxes are started by running this very program once more.
//!     koze_local::init();
//!     let provider = Local::new("/var/lib/koze")?;
//!     Ok(())
//! }
//! ```
//!
//! [`Sandbox::expose`]: koze_core::Sandbox::expose

#![cfg(target_os = "linux")]

mod background;
mod cgroup;
mod claim;
mod disk;
mod engine;
mod exec;
mod files;
mod filter;
mod launch;
mod layout;
mod network;
mod owner;
mod process;
#[doc(hidden)]
pub mod prove;
mod ready;
mod registry;
mod running;
mod sandbox;
mod staging;
mod store;
mod transfer;
mod watch;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

#[doc(hidden)]
pub use self::launch::Weakness;
use self::launch::Weaknesses;
#[doc(hidden)]
pub use self::network::connections::{Connections, Proof};
use self::network::egress;
pub use self::network::egress::Reached;
pub use self::network::objects::Objects;
use self::network::preview::Previews;
pub use self::process::LocalProcess;
use self::registry::Registry;
pub use self::sandbox::LocalSandbox;
use self::sandbox::{Inner, State};
pub use self::store::LocalStore;
use self::store::Stores;
use koze_core::Profiles;
use koze_core::error::{Code, Error, Result};
use koze_core::id::{SandboxId, SandboxName, SessionId};
use koze_core::provider::{Info, Opened, Provider, Settings};
use koze_core::sandbox::Status;

/// Call this first in `main`, before anything starts a thread: `#[tokio::main]` is too late.
///
/// A sandbox is started by running this program once more. In that process this function does not return; elsewhere it
/// returns at once.
pub fn init() {
    launch::init();
}

/// What happens to the supplementary groups of the user who starts a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Groups {
    /// They have no effect in the sandbox: the user is root, has none, or the system lets koze drop them.
    Dropped,
    /// They stay in effect: the program `newgidmap` is not installed.
    NoHelper,
    /// They stay in effect: `/etc/subgid` has no entry for this user.
    NoSubordinate,
}

/// Returns what happens to this user's supplementary groups in sandboxes. The kernel lets a plain user drop them only with
/// the help of `newgidmap`.
#[must_use]
pub fn groups() -> Groups {
    launch::groups()
}

/// Whether groups can be made in this process's control group of version 2, for a controller: for a test.
#[doc(hidden)]
#[must_use]
pub fn own_group(controller: &str) -> bool {
    cgroup::own_group_for_test(controller)
}

/// Runs something on the thread that looks after sandboxes, and returns when it is done: a program that does little else
/// saves the way from one thread to another, twice for each call. What blocks does not belong there.
///
/// # Errors
/// [`Code::Unavailable`] where the system has no thread left, [`Code::Internal`] where the work panics.
pub fn block_on<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let (done, result) = std::sync::mpsc::channel();
    engine::engine()?.spawn(async move {
        let _ = done.send(work.await);
    });
    result.recv().map_err(|_| Error::new(Code::Internal, "a task on the engine's thread panicked"))
}

/// The sandboxes of a state directory.
///
/// Several programs may use one state directory. A sandbox is run by one of them at a time; for the others its calls
/// are [`Code::Unavailable`] until it sleeps there.
#[derive(Debug, Clone)]
pub struct Local(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: PathBuf,
    registry: Arc<Registry>,
    names: egress::Names,
    previews: Previews,
    stores: Stores,
    sandboxes: Mutex<HashMap<String, Arc<Inner>>>,
    weak: Weaknesses,
    /// Whether all sandboxes are one user of the host, although this is root.
    one_user: bool,
}

impl Shared {
    fn sandboxes(&self) -> Vec<Arc<Inner>> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// A sandbox that runs in this program. The registry need not be asked for it: nobody else can destroy it.
    fn running(&self, id: &SandboxId) -> Option<Arc<Inner>> {
        let all = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&id.key()).filter(|inner| inner.running().is_some()).cloned()
    }

    /// Takes out what is known of a sandbox in this program.
    fn forget(&self, key: &str) -> Option<Arc<Inner>> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }

    /// What is known of a sandbox in this program, made where nothing is. Where it was destroyed since, a new one.
    fn sandbox(self: &Arc<Self>, key: &str, name: &SandboxName, settings: Settings) -> Arc<Inner> {
        let mut all = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(key);
        let gone =
            |inner: &Inner| inner.state.try_lock().is_ok_and(|state| matches!(*state, State::Destroyed));
        if let Some(known) = known.filter(|inner| !gone(inner) && inner.settings == settings) {
            return Arc::clone(known);
        }
        let inner = Arc::new(Inner::new(key, name, settings, self));
        all.insert(key.to_owned(), Arc::clone(&inner));
        inner
    }
}

impl Local {
    /// Opens a state directory, made where it is missing. Nobody but this user may look into it.
    ///
    /// # Errors
    /// [`Code::Unsupported`] where [`init`] was not called, [`Code::Unavailable`] where the directory cannot be used.
    pub fn new(state: impl AsRef<Path>) -> Result<Self> {
        Self::on(state.as_ref(), egress::Names::default(), Weaknesses::default())
    }

    /// The same for a test: names that lead to servers on this machine, which sandboxes reach unchecked.
    #[doc(hidden)]
    pub fn with_names(state: impl AsRef<Path>, names: HashMap<String, SocketAddr>) -> Result<Self> {
        Self::on(state.as_ref(), Arc::new(names), Weaknesses::default())
    }

    /// The same, with sandboxes that lack some of their protections: for the control runs of tests alone.
    #[doc(hidden)]
    pub fn weakened(state: impl AsRef<Path>, weak: Vec<Weakness>) -> Result<Self> {
        Self::on(state.as_ref(), egress::Names::default(), Weaknesses::new(weak))
    }

    /// The same, with names that lead to servers on this machine.
    #[doc(hidden)]
    pub fn weakened_with_names(
        state: impl AsRef<Path>,
        names: HashMap<String, SocketAddr>,
        weak: Vec<Weakness>,
    ) -> Result<Self> {
        Self::on(state.as_ref(), Arc::new(names), Weaknesses::new(weak))
    }

    fn on(state: &Path, names: egress::Names, weak: Weaknesses) -> Result<Self> {
        if !launch::ready() {
            let text = "call `koze_local::init()` first in `main`";
            return Err(Error::new(Code::Unsupported, text));
        }
        if !weak.has(&launch::Weakness::Pipes) {
            background::raise_descriptors();
        }
        let unusable = |error: io::Error| {
            Error::new(Code::Unavailable, format!("the state directory cannot be used: {}", error.kind()))
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(unusable)?;
        let state = fs::canonicalize(state).map_err(unusable)?;
        sweep(&state);
        let registry = Arc::new(Registry::open(&state)?);
        let (previews, stores, sandboxes) = (Previews::default(), Stores::default(), Mutex::default());
        let shared = Arc::new(Shared {
            state,
            registry,
            names,
            previews,
            stores,
            sandboxes,
            weak,
            one_user: owner::shared(),
        });
        let watched = Arc::downgrade(&shared);
        std::thread::Builder::new()
            .name("koze-watch".into())
            .spawn(move || {
                owner::sweep();
                watch::watch(&watched);
            })
            .map_err(unusable)?;
        if shared.registry.exposed()? {
            // URLs that were given out answer again. Where that cannot be, the next `expose` says so.
            let _ = shared.previews.serve(&shared);
        }
        Ok(Local(shared))
    }

    /// Makes the sandboxes of a session follow their profiles, where these say something else by now: what they reach, their
    /// variables and limits. One that runs and has to change is sent to sleep first; its files stay.
    ///
    /// # Errors
    /// Where the registry cannot be used, or a profile names hosts that are none.
    pub async fn refresh(&self, session: &SessionId, profiles: &Profiles) -> Result<()> {
        for profile in profiles.list() {
            egress::check(profile)?;
        }
        let (shared, session, profiles) = (Arc::clone(&self.0), session.clone(), profiles.clone());
        engine::run(async move {
            let registry = Arc::clone(&shared.registry);
            let listed = session.clone();
            let rows = engine::block(move || registry.list(&listed)).await?;
            for (name, settings) in rows {
                let profile = profiles.list().iter().find(|profile| profile.name == settings.profile.name);
                let Some(profile) = profile.filter(|profile| **profile != settings.profile).cloned() else {
                    continue;
                };
                let key = SandboxId { session: session.clone(), name: SandboxName::new(&name)? }.key();
                let known = shared.forget(&key);
                if let Some(known) = known {
                    known.sleep().await;
                }
                let registry = Arc::clone(&shared.registry);
                engine::block(move || registry.change(&key, &Settings { profile, ..settings })).await?;
            }
            Ok(())
        })
        .await
    }

    /// The sandboxes that a state directory has, of all sessions, for who only wants to look: nothing is started.
    ///
    /// # Errors
    /// Where the registry cannot be read.
    pub fn look(state: impl AsRef<Path>) -> Result<Vec<(SessionId, Info)>> {
        let registry = Registry::open(state.as_ref())?;
        let mut found = Vec::new();
        for session in registry.sessions()? {
            let infos = infos(&registry, state.as_ref(), &session)?;
            found.extend(infos.into_iter().map(|info| (session.clone(), info)));
        }
        Ok(found)
    }
}

impl Local {
    /// Where the sandboxes of a state directory went, or tried to, the oldest first. The journal has a limited size: of
    /// what was reached and of what was refused, the latest is kept, some thousands of each.
    ///
    /// # Errors
    /// [`Code::Unavailable`] where the journal cannot be read.
    pub fn egress(state: impl AsRef<Path>) -> Result<Vec<Reached>> {
        egress::read_journal(state.as_ref())
    }
}

impl Provider for Local {
    type Sandbox = LocalSandbox;
    type Store = LocalStore;

    fn note(&self) -> Option<&str> {
        Some(if self.0.one_user {
            "local sandboxes do not use an image: they have this machine's /usr, read-only, with the programs \
             in it. All sandboxes share one user of this machine because its user namespace maps no others"
        } else {
            "local sandboxes do not use an image: they have this machine's /usr, read-only, with the programs in it"
        })
    }

    async fn open(&self, id: &SandboxId, settings: &Settings) -> Result<Opened<LocalSandbox>> {
        egress::check(&settings.profile)?;
        let (shared, id, settings) = (Arc::clone(&self.0), id.clone(), settings.clone());
        engine::run(async move {
            let registry = Arc::clone(&shared.registry);
            let wanted = (id.clone(), settings);
            let (stored, created) = engine::block(move || registry.enter(&wanted.0, &wanted.1)).await?;
            let profile = stored.profile.name.clone();
            let inner = shared.sandbox(&id.key(), &id.name, stored);
            if created && let Err(error) = inner.wake().await {
                // What could never run was never made.
                let registry = Arc::clone(&shared.registry);
                engine::block(move || registry.leave(&id.key())).await?;
                return Err(error);
            }
            Ok(Opened { sandbox: LocalSandbox(inner), profile, created })
        })
        .await
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Opened<LocalSandbox>>> {
        let opened = |inner: Arc<Inner>| {
            let profile = inner.settings.profile.name.clone();
            Opened { sandbox: LocalSandbox(inner), profile, created: false }
        };
        if let Some(inner) = self.0.running(id) {
            return Ok(Some(opened(inner)));
        }
        let (shared, id) = (Arc::clone(&self.0), id.clone());
        engine::block(move || {
            let stored = shared.registry.find(&id.key())?;
            Ok(stored.map(|stored| opened(shared.sandbox(&id.key(), &id.name, stored))))
        })
        .await
    }

    async fn list(&self, session: &SessionId) -> Result<Vec<Info>> {
        let (shared, session) = (Arc::clone(&self.0), session.clone());
        engine::block(move || infos(&shared.registry, &shared.state, &session)).await
    }

    fn store(&self, session: &SessionId) -> Result<LocalStore> {
        Ok(LocalStore::new(&self.0, session))
    }
}

/// The sandboxes of a session, in the order of their names.
fn infos(registry: &Registry, state: &Path, session: &SessionId) -> Result<Vec<Info>> {
    let info = |(name, settings): (String, Settings)| {
        let name = SandboxName::new(&name)?;
        let id = SandboxId { session: session.clone(), name: name.clone() };
        let running = claim::claimed(&layout::directory(state, &id.key()));
        let status = if running { Status::Running } else { Status::Sleeping };
        Ok(Info { name, profile: settings.profile.name, status })
    };
    registry.list(session)?.into_iter().map(info).collect()
}

/// Where a destroyed sandbox's files go, all at once, before they are taken away one by one.
fn gone_name(directory: &Path) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    directory.with_file_name(format!("gone-{}-{now}", std::process::id()))
}

/// Takes away what programs have left that ended while they destroyed a sandbox.
fn sweep(state: &Path) {
    for entry in fs::read_dir(state).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("gone-") {
            let _ = clear(&entry.path());
        }
    }
}

/// Takes a directory away, whatever its owner made of the permissions in it.
fn clear(directory: &Path) -> io::Result<()> {
    let (Some(above), Some(name)) = (directory.parent(), directory.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    koze_guest::tree::remove(fs::File::open(above)?.as_fd(), name, true)
}
