//! Providers in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use koze_core::provider::memory::Memory;
use koze_core::provider::{Profile, Size};
use koze_core::script::Egress;
use koze_core::tool::{All, Catalog, Family, Input, ReadError};
use koze_core::{Profiles, Session};
use koze_core::{Provider, SessionId};
use koze_tests::conformance::{Capability, Host, IMAGES, ToolResult};
use serde_json::Value;

use crate::Hosted;

pub(crate) const MEMORY: Hosted = Hosted {
    name: "memory",
    lacks: &[
        Capability::Exec,
        Capability::Expose,
        Capability::Big,
        Capability::ManyFiles,
        Capability::Limits,
        Capability::Sleep,
        Capability::Keep,
        Capability::Restart,
        Capability::Database,
        Capability::StatementTime,
        Capability::Network,
        Capability::Browser,
    ],
    start: || Box::new(InProcess::new(Memory::new, Vec::new())),
};

/// The profiles of the tests' project: a large and a small one.
pub(crate) fn profiles() -> Profiles {
    let [default, other, reference] = IMAGES;
    let large = Size { memory_mib: 1024, disk_mb: 4000 };
    let small = Size { memory_mib: 128, disk_mb: 300 };
    let list = vec![
        Profile {
            tools: vec![Family::Agent, Family::Thread],
            ..Profile::new(default, "docker.io/cloudflare/sandbox:0.12.10", large)
        },
        Profile::new(other, reference, small),
    ];
    Profiles::new(list, default).expect("it is one of them")
}

/// Sessions on a provider, and a way to recreate the provider with the same storage.
struct InProcess<P> {
    begin: Box<dyn Fn() -> P + Send + Sync>,
    live: Mutex<Live<P>>,
    secrets: Vec<String>,
    profiles: fn() -> Profiles,
}

struct Live<P> {
    provider: P,
    sessions: HashMap<String, Arc<Session<P>>>,
}

impl<P: Provider + Clone + Send + 'static> InProcess<P> {
    fn new(begin: impl Fn() -> P + Send + Sync + 'static, secrets: Vec<String>) -> Self {
        let live = Mutex::new(Live { provider: begin(), sessions: HashMap::new() });
        InProcess { begin: Box::new(begin), live, secrets, profiles }
    }

    /// Returns the session with this name. Like a server, it keeps the sessions it knows.
    fn session(&self, session: &str) -> Arc<Session<P>> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let provider = live.provider.clone();
        let made = || {
            let id = SessionId::new("tenant", session).expect("a good name");
            Arc::new(Session::new(provider, id, (self.profiles)()))
        };
        Arc::clone(live.sessions.entry(session.to_owned()).or_insert_with(made))
    }
}

impl<P: Provider + Clone + Send + 'static> Host for InProcess<P> {
    fn call(&self, session: &str, tool: &str, input: Value) -> ToolResult {
        let session = self.session(session);
        taken(pollster::block_on(session.call_tool(tool, input)))
    }

    /// Parses the text as a program would.
    fn call_text_of(&self, toolset: &str, session: &str, tool: &str, input: &str) -> ToolResult {
        let session = self.session(session);
        let catalog = Catalog::<All>::select(session.profiles(), Some(toolset)).expect("it is served");
        match Input::read(input.as_bytes()).map_err(ReadError::into_tool_error) {
            Ok(input) => taken(pollster::block_on(catalog.call(&session, tool, input)).into()),
            Err(Ok(error)) => ToolResult { content: error.to_string(), is_error: true },
            Err(Err(error)) => panic!("{input}: {error}"),
        }
    }

    fn restart(&self) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.sessions.clear();
        live.provider = (self.begin)();
    }

    fn secrets(&self) -> Vec<String> {
        self.secrets.clone()
    }
}

fn taken(result: koze_core::tool::ToolResult) -> ToolResult {
    let koze_core::tool::ToolResult { content, is_error } = result;
    ToolResult { content, is_error }
}

/// A host of the workspaces, in memory.
pub(crate) fn workspaces_in_memory() -> Box<dyn Host> {
    let host = InProcess::new(Memory::new, Vec::new());
    Box::new(InProcess { profiles: crate::workspace::profiles, ..host })
}

/// A host of scripts, in this process.
pub(crate) fn scripts_in_memory() -> Box<dyn Host> {
    let host = InProcess::new(Memory::new, Vec::new());
    Box::new(InProcess { profiles: of_scripts, ..host })
}

/// The profiles of a project whose scripts may reach the internet.
fn of_scripts() -> Profiles {
    Profiles::of_scripts().with_script_egress(Egress { internet: true, ..Egress::default() })
}

#[cfg(target_os = "linux")]
pub(crate) use engine::{ENGINE, engine_image, open_engine, podman, start_engine_workspaces};
#[cfg(target_os = "linux")]
pub(crate) use local::{LOCAL, start, start_scripts, start_workspaces};

#[cfg(target_os = "linux")]
mod local {
    use koze_local::{Internet, Local};
    use koze_tests::conformance::origin;

    use super::{Host, Hosted, InProcess};

    pub(crate) const LOCAL: Hosted = Hosted { name: "local", lacks: &[], start };

    pub(crate) fn start() -> Box<dyn Host> {
        Box::new(started())
    }

    /// A host of the workspaces, on this machine.
    pub(crate) fn start_workspaces() -> Box<dyn Host> {
        Box::new(InProcess { profiles: crate::workspace::profiles, ..started() })
    }

    /// A host of scripts, on this machine.
    pub(crate) fn start_scripts() -> Box<dyn Host> {
        let state = tempfile::tempdir().expect("a directory");
        let secrets = vec![state.path().display().to_string()];
        let server = origin::start();
        let begin = move || {
            let names = [(origin::NAME.to_owned(), server)].into();
            let internet = Internet { names, ..Internet::default() };
            Local::with_internet(state.path(), internet).expect("a state directory")
        };
        Box::new(InProcess { profiles: with_a_browser, ..InProcess::new(begin, secrets) })
    }

    /// The profiles of a project whose scripts have a browser, too.
    fn with_a_browser() -> koze_core::Profiles {
        super::of_scripts().with_script_browser(true)
    }

    fn started() -> InProcess<Local> {
        let state = tempfile::tempdir().expect("a directory");
        let secrets = vec![state.path().display().to_string()];
        InProcess::new(move || Local::new(state.path()).expect("a state directory"), secrets)
    }
}

/// Sandboxes in containers of podman, as koze's command line opens them with `--engine podman`.
#[cfg(target_os = "linux")]
mod engine {
    use std::path::Path;
    use std::sync::{Arc, OnceLock};

    use koze_core::Profiles;
    use koze_core::provider::Profile;
    use koze_engine::{Engine, EngineKind};
    use koze_local::Local;
    use koze_tests::conformance::Capability;
    use koze_tests::containers;

    use super::{Host, Hosted, IMAGES, InProcess, profiles};

    pub(crate) const ENGINE: Hosted = Hosted {
        name: "engine",
        lacks: &[Capability::Browser, Capability::Big, Capability::ManyFiles, Capability::Limits],
        start,
    };

    /// Returns the container engine, which ends with this process.
    pub(crate) fn podman() -> &'static Arc<containers::Engine> {
        static PODMAN: OnceLock<Arc<containers::Engine>> = OnceLock::new();
        PODMAN.get_or_init(|| {
            let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("containers");
            containers::Engine::shared(&dir).expect("this machine can run containers")
        })
    }

    /// Returns the image of the sandboxes in its containers.
    pub(crate) fn engine_image() -> String {
        podman().base().0.clone()
    }

    /// Opens the sandboxes of a state directory.
    pub(crate) fn open_engine(state: &Path) -> Engine<Local> {
        let base = Local::new(state).expect("a state directory");
        Engine::at(&podman().host(), EngineKind::Podman, state, koze_templates::GUEST, base)
    }

    fn start() -> Box<dyn Host> {
        Box::new(started())
    }

    /// A host of the workspaces, in containers.
    pub(crate) fn start_engine_workspaces() -> Box<dyn Host> {
        Box::new(InProcess { profiles: || with_image(&crate::workspace::profiles(), "box"), ..started() })
    }

    fn started() -> InProcess<Engine<Local>> {
        let state = tempfile::tempdir().expect("a directory");
        let secrets = vec![state.path().display().to_string(), podman().host()];
        let host = InProcess::new(move || open_engine(state.path()), secrets);
        InProcess { profiles: || with_image(&profiles(), IMAGES[0]), ..host }
    }

    /// Lets the test's image stand in for those that the profiles declare.
    fn with_image(profiles: &Profiles, default: &str) -> Profiles {
        let image = engine_image();
        let stored = |profile: &Profile| Profile { stored: Some(image.clone()), ..profile.clone() };
        Profiles::new(profiles.list().iter().map(stored).collect(), default).expect("it is one of them")
    }
}
