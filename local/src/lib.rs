//! Sandboxes on this machine: Linux namespaces, without a container engine.
//!
//! A sandbox is one koze process, [`koze_guest`], with the programs it starts. It has its own user, mount, PID, IPC,
//! UTS, network and cgroup namespaces, runs as a user without privileges, and is confined by a system call filter. Of
//! the host it sees `/usr` and a few files of `/etc`, read-only. `/home/user`, `/workspace`, `/tmp` and
//! `/mnt/user-data` are its own, stored on disk below the state directory. Its network has only a loopback interface.
//!
//! **Images.** With a store of images ([`Local::with_images`]), a new sandbox whose profile declares an image of the store has the image's
//! files as its root, in place of the host's `/usr` and `/etc`. All of its root is writable: an overlay keeps its changes. Its user is the
//! image's, often root, without capabilities. Only this user is mapped, and owns all files; changes of owners are reported as successful.
//!
//! **Internet access** is off, unless the profile sets `internet` or `allowed_hosts`. Then an HTTP proxy is available
//! at 127.0.0.1:3128, and the environment contains its address (`HTTP_PROXY`, `HTTPS_PROXY`). The connections of programs that do not use
//! it are redirected to it, if the kernel has nftables: see [`check_network`]. There is no other way out. The proxy runs in this process. It resolves a name once, and connects to an address that it has
//! checked. It rejects denied hosts, hosts that are not allowed, private, loopback, link-local, multicast and metadata
//! addresses, and the addresses of this machine. It does not inspect the content of a tunnel: a server that several
//! hosts share may serve one of them in place of another.
//!
//! **Credentials and rules for requests.** For hosts with a credential, a method or a path in the policy, TLS ends in the proxy, with a
//! certificate of an authority that this process creates in the state directory. Programs have a placeholder in place of each
//! credential; the proxy replaces it in requests to the declared host, over verified TLS. The values are those of
//! [`with_secrets`](Local::with_secrets), and never enter a sandbox.
//!
//! **Scripts** have no network at all. For their `fetch`, this process sends the requests, under the policy of the project's
//! scripts ([`Profiles::script_egress`]) and the same rules for addresses, on every redirect.
//!
//! **The browser** of scripts is Chromium in a sandbox of its own, without files on disk. It reaches the network through the same
//! proxy as a sandbox, under the policy of scripts. [`open_browser`](koze_core::provider::ScriptProvider::open_browser) starts it; it ends
//! when nothing used it for five minutes, and with this process.
//!
//! **Previews.** [`Sandbox::expose`] returns `http://<port>-<name>-<token>.localhost:<p>/`. One listener on 127.0.0.1
//! serves all previews while [`Local`] exists. Its port is stored in the state directory, so the URL of a sandbox stays
//! the same when this program restarts. (Of several concurrent programs with one state directory, the first gets that
//! port.) A request wakes a sleeping sandbox, and keeps it awake until the response is complete or the WebSocket is
//! closed. Anyone who knows the URL can reach every port of that sandbox. Browsers resolve names below `localhost`. For
//! programs that do not, use `curl --resolve '<host>:<p>:127.0.0.1'`, or send the request to 127.0.0.1:`p` with the
//! URL's host and port in the `Host` header.
//!
//! **Limits.** If this process can create control groups, the kernel limits memory, processes and CPU share. For that,
//! this process may move to a group below its own, or to a delegated systemd scope. Otherwise a watch adds up the
//! memory of the programs about every 150 ms, and kills them all if they exceed the limit, so they can briefly exceed
//! it between two checks. The watch does not see memory in pipes and `/dev/shm` (64 MB), and System V shared memory is
//! denied. Files on disk are always measured in this way, large trees less often. No single file can be longer than the
//! disk limit. A sandbox has at most 512 processes and threads; if it stays close to that number for a second, its
//! programs are killed. A sandbox that exceeds the watch's budget for checking it counts as over the limit, too. This
//! process's soft limit of open files is raised.
//!
//! **Groups.** An unprivileged user's supplementary groups stay in effect in the sandbox, unless the system lets that
//! user drop them: with `newgidmap` (Debian's package `uidmap`) and an entry in `/etc/subgid`. Programs can then read
//! what these groups may read of the visible host files.
//!
//! `/proc/self/mountinfo` reveals the path of the state directory on the host.
//!
//! ```no_run
//! # use koze_local::Local;
//! fn main() -> koze_core::Result<()> {
//!     // First of all: sandboxes are started by running this program again.
//!     koze_local::init();
//!     let provider = Local::new("/var/lib/koze")?;
//!     Ok(())
//! }
//! ```
//!
//! [`Sandbox::expose`]: koze_core::Sandbox::expose

#![cfg(target_os = "linux")]

mod browser;
mod cgroup;
mod dev;
mod engine;
mod errors;
mod filter;
mod host;
mod launch;
mod layers;
mod network;
#[doc(hidden)]
pub mod prove;
mod provider;
mod sandbox;
mod script;
mod store;
mod survey;
mod watch;
mod weakness;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;

use self::browser::Browsers;
pub use self::dev::Objects;
use self::host::registry::Registry;
pub use self::host::trees;
use self::host::{owner, removal};
use self::launch::Task;
pub use self::launch::{Network, check_network};
use self::network::fetch::Fetching;
use self::provider::list_infos;
pub use self::sandbox::LocalSandbox;
use self::sandbox::ahead::{self, Ahead};
use self::sandbox::background;
pub use self::sandbox::handles::{NewFile, TreePipe};
use self::sandbox::image;
pub use self::sandbox::image::is_of_sandbox;
use self::sandbox::inner::{Inner, State};
pub use self::sandbox::process::{Attached, LocalProcess};
#[doc(inline)]
pub use self::sandbox::programs::find_programs;
use self::script::{Databases, Scripts};
pub use self::store::LocalStore;
#[doc(hidden)]
pub use self::weakness::Weakness;
use self::weakness::Weaknesses;
use koze_core::Profiles;
use koze_core::error::{Code, Error, Result};
use koze_core::id::{SandboxId, SandboxName, SessionId};
use koze_core::journal::CallRecord;
use koze_core::provider::{Info, Profile, Settings};
use koze_core::workspace::OpenLimits;
use koze_egress::Authority;
#[doc(hidden)]
pub use koze_egress::Internet;
use koze_egress::preview::Previews;
use koze_state::{CallJournal, Stores};
pub use koze_state::{
    CallsQuery, Connections, Measured, Proof, Reached, SandboxLimits, SecretInfo, Secrets, Surveyed,
    archives, block_on,
};

/// Returns those of the profiles whose new sandboxes have the files of their image, with the [store](koze_image::Store) in this
/// directory.
pub fn list_used_images<'a>(
    images: Option<&Path>,
    profiles: impl IntoIterator<Item = &'a Profile>,
) -> Vec<&'a Profile> {
    image::list_used(images, profiles)
}

/// Call this first in `main`, before anything starts a thread: `#[tokio::main]` is too late.
///
/// A sandbox is started by running this program once more. In that process this function does not return; elsewhere it
/// returns at once.
pub fn init() {
    launch::init(|task, socket| match task {
        Task::Guest => koze_guest::serve(socket),
        Task::Script => script::serve_scripts(socket),
        Task::Database => script::serve_queries(socket),
        Task::Network => Ok(()),
    });
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
    launch::groups_in_sandbox()
}

/// Returns the next step if the browser of scripts cannot trust the certificate authorities of this machine.
pub fn browser_hint() -> Option<&'static str> {
    browser::trust_hint()
}

/// Checks whether this machine has a browser for scripts: Chromium, in a place that sandboxes see.
///
/// # Errors
/// [`Code::Unavailable`] otherwise, with what to install.
pub fn check_browser() -> Result<()> {
    browser::check_browser()
}

/// Returns whether groups can be created in this process's version 2 control group, for a test.
#[doc(hidden)]
#[must_use]
pub fn own_group(controller: &str) -> bool {
    cgroup::own_group_for_test(controller)
}

/// The sandboxes of a state directory.
///
/// Several programs may use one state directory. One of them at a time runs a sandbox; in the others its calls fail
/// with [`Code::Unavailable`] until it sleeps there.
#[derive(Debug, Clone)]
pub struct Local(Arc<Shared>, OpenLimits, Option<Arc<CallJournal>>);

#[derive(Debug)]
struct Shared {
    state: PathBuf,
    registry: Arc<Registry>,
    ahead: Arc<Ahead>,
    internet: Arc<Internet>,
    previews: Previews,
    stores: Arc<Stores>,
    scripts: Scripts,
    databases: Arc<Databases>,
    fetching: Fetching,
    browsers: Browsers,
    sandboxes: Mutex<HashMap<String, Arc<Inner>>>,
    weak: Weaknesses,
    /// The secrets that scripts get, and that have the values of credentials.
    secrets: OnceLock<Arc<Secrets>>,
    /// The authority with whose certificates TLS ends in the proxies, once a sandbox needs it.
    authority: OnceLock<Arc<Authority>>,
    /// The directory of the images that new sandboxes use, if they are in it.
    images: OnceLock<PathBuf>,
    /// Whether sandboxes with an image have all of it, and no directories of their own.
    builds: AtomicBool,
    /// Whether the kernel mounts overlays here, as far as is known.
    overlays: AtomicBool,
    /// Whether all sandboxes share one host user, although this is root.
    one_user: bool,
}

impl Shared {
    /// Returns this program's sandboxes, and those of browsers.
    fn sandboxes(&self) -> Vec<Arc<Inner>> {
        let sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        sandboxes.values().cloned().chain(self.browsers.sandboxes()).collect()
    }

    /// Returns a sandbox that runs in this program. The registry need not be read, because no other program can destroy
    /// it.
    fn running(&self, id: &SandboxId) -> Option<Arc<Inner>> {
        let all = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&id.key()).filter(|inner| inner.running().is_some()).cloned()
    }

    /// Removes this program's state of a sandbox.
    fn forget(&self, key: &str) -> Option<Arc<Inner>> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }

    /// Returns this program's state of a sandbox, and creates it if it is missing or was destroyed.
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
    /// Opens a state directory, and creates it if it is missing. Only this user can access it.
    ///
    /// # Errors
    /// [`Code::Unsupported`] if [`init`] was not called, [`Code::Unavailable`] if the directory cannot be used.
    pub fn new(state: impl AsRef<Path>) -> Result<Self> {
        Self::on(state.as_ref(), Internet::default(), Weaknesses::default())
    }

    /// The same for a test: names of servers on this machine, which sandboxes reach unchecked.
    #[doc(hidden)]
    pub fn with_names(state: impl AsRef<Path>, names: HashMap<String, SocketAddr>) -> Result<Self> {
        Self::on(state.as_ref(), Internet { names, ..Internet::default() }, Weaknesses::default())
    }

    /// The same, with more of an internet: what names resolve to, and what is at addresses.
    #[doc(hidden)]
    pub fn with_internet(state: impl AsRef<Path>, internet: Internet) -> Result<Self> {
        Self::on(state.as_ref(), internet, Weaknesses::default())
    }

    fn on(state: &Path, internet: Internet, weak: Weaknesses) -> Result<Self> {
        if !launch::is_ready() {
            let text = "call `koze_local::init()` first in `main`";
            return Err(Error::new(Code::Unsupported, text));
        }
        if !weak.has(&Weakness::Pipes) {
            background::raise_descriptors();
        }
        let unusable = |error: io::Error| {
            Error::new(Code::Unavailable, format!("the state directory cannot be used: {}", error.kind()))
                .with_source(error)
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(unusable)?;
        let state = fs::canonicalize(state).map_err(unusable)?;
        removal::finish_removals(&state);
        ahead::sweep_prepared(&state);
        let registry = Arc::new(Registry::open(&state)?);
        let (previews, stores, sandboxes) =
            (Previews::default(), store::open_stores(&state), Mutex::default());
        let scripts = Scripts::new(&state, &weak);
        let databases = Arc::new(Databases::new(&state, &weak));
        let internet = Arc::new(internet);
        let fetching = Fetching::new(&state, Arc::clone(&internet));
        let shared = Arc::new(Shared {
            state,
            registry,
            ahead: Arc::default(),
            internet,
            previews,
            stores,
            scripts,
            databases,
            fetching,
            browsers: Browsers::default(),
            sandboxes,
            weak,
            secrets: OnceLock::new(),
            authority: OnceLock::new(),
            images: OnceLock::new(),
            builds: AtomicBool::new(false),
            overlays: AtomicBool::new(true),
            one_user: owner::has_shared_user(),
        });
        let watched = Arc::downgrade(&shared);
        std::thread::Builder::new()
            .name("koze-watch".into())
            .spawn(move || {
                owner::remove_stale_claims();
                watch::watch_sandboxes(&watched);
            })
            .map_err(unusable)?;
        if shared.registry.exposed()? {
            // Serve existing URLs again. If that fails, the next `expose` reports it.
            let _ = network::preview::serve_previews(&shared);
        }
        Ok(Local(shared, OpenLimits::default(), None))
    }

    /// Sets how many workspaces of all sessions are opened at the same time.
    #[must_use]
    pub fn with_max_opens(self, opens: usize) -> Self {
        Local(self.0, OpenLimits::new(opens), self.2)
    }

    /// Copies the files of snapshots instead of mounting overlays over them, as where the kernel refuses those, for a test.
    #[doc(hidden)]
    #[must_use]
    pub fn without_overlays(self) -> Self {
        self.0.overlays.store(false, Ordering::Relaxed);
        self
    }

    /// Sets the directory of a [store of images](koze_image::Store), which need not exist yet. A new sandbox whose profile declares an
    /// image that is in the store has that image's files as its root, and keeps them until it is destroyed. Other sandboxes see the
    /// programs of this machine. By default, there is no store.
    #[must_use]
    pub fn with_images(self, directory: PathBuf) -> Self {
        let _ = self.0.images.set(directory);
        self
    }

    /// Makes these sandboxes suitable for building images: a sandbox with an image has no directories of its own in place of the image's
    /// (`/tmp`, `/workspace` and others), so that [`LocalSandbox::image_changes`] has everything that its programs change.
    #[must_use]
    pub fn for_builds(self) -> Self {
        self.0.builds.store(true, Ordering::Relaxed);
        self
    }

    /// Sets how long a browser of scripts runs without a call. By default, five minutes.
    #[must_use]
    pub fn with_browser_idle(self, idle: Duration) -> Self {
        self.0.browsers.set_idle(idle);
        self
    }

    /// Sets the secrets that scripts get, and that have the values of credentials. By default, there are none.
    #[must_use]
    pub fn with_secrets(self, secrets: Secrets) -> Self {
        let _ = self.0.secrets.set(Arc::new(secrets));
        self
    }

    /// Records tool calls in the journal in a file, an `SQLite` database, which the first call creates. Secrets that were set with
    /// [`with_secrets`](Self::with_secrets) before are masked. The latest 10,000 calls are kept, in at most 32 MiB. By default,
    /// there is no journal.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if no thread can be created.
    pub fn with_journal(self, file: impl Into<PathBuf>) -> Result<Self> {
        let journal = CallJournal::open(file.into(), self.0.secrets.get().cloned())?;
        Ok(Local(self.0, self.1, Some(Arc::new(journal))))
    }

    /// Waits until the journal has all calls that were recorded, for at most a few seconds. A program calls this before it ends.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the threads of this provider cannot be created.
    pub async fn flush_journal(&self) -> Result<()> {
        let Some(journal) = self.2.clone() else { return Ok(()) };
        engine::run_blocking(move || {
            journal.flush();
            Ok(())
        })
        .await
    }

    /// Returns calls of the journal in a file, oldest first. A journal that does not exist has none.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if it cannot be read.
    pub fn calls(file: impl AsRef<Path>, query: &CallsQuery) -> Result<Vec<CallRecord>> {
        koze_state::read_calls(file.as_ref(), query)
    }

    /// Updates the sandboxes of a session to their profiles: egress, variables and limits. A running sandbox that has
    /// to change is first put to sleep; its files are kept.
    ///
    /// # Errors
    /// If the registry cannot be used, or a profile has invalid hosts.
    pub async fn refresh(&self, session: &SessionId, profiles: &Profiles) -> Result<()> {
        koze_egress::check_all(profiles)?;
        let (shared, session, profiles) = (Arc::clone(&self.0), session.clone(), profiles.clone());
        engine::run_to_completion(async move {
            let registry = Arc::clone(&shared.registry);
            let listed = session.clone();
            let rows = engine::run_blocking(move || registry.list(&listed)).await?;
            for (name, settings) in rows {
                let profile = profiles.list().iter().find(|profile| profile.name == settings.profile.name);
                let Some(profile) = profile.cloned() else { continue };
                // A size that the project no longer offers is replaced by the profile's own.
                let sized = profile.clone().with_size(settings.size.as_deref()).unwrap_or(profile);
                if sized == settings.profile {
                    continue;
                }
                let key = SandboxId { session: session.clone(), name: SandboxName::new(&name)? }.key();
                let known = shared.forget(&key);
                if let Some(known) = known {
                    known.sleep().await;
                }
                let registry = Arc::clone(&shared.registry);
                engine::run_blocking(move || registry.change(&key, &Settings { profile: sized, ..settings }))
                    .await?;
            }
            Ok(())
        })
        .await
    }

    /// Puts the sandboxes that run in this program to sleep, even if they are in use. Code contexts get two seconds to write
    /// what they have buffered. Without this call, the end of the program kills the sandboxes.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the threads of this provider cannot be created.
    pub async fn sleep(&self) -> Result<()> {
        let shared = Arc::clone(&self.0);
        engine::run_to_completion(async move {
            join_all(shared.sandboxes().iter().map(|sandbox| sandbox.sleep())).await;
            Ok(())
        })
        .await
    }

    /// Lists the sandboxes of a state directory, of all sessions, without starting anything.
    ///
    /// # Errors
    /// If the registry cannot be read.
    pub fn look(state: impl AsRef<Path>) -> Result<Vec<(SessionId, Info)>> {
        let registry = Registry::open(state.as_ref())?;
        let mut found = Vec::new();
        for session in registry.sessions()? {
            let infos = list_infos(&registry, state.as_ref(), &session)?;
            found.extend(infos.into_iter().map(|info| (session.clone(), info)));
        }
        Ok(found)
    }
}
