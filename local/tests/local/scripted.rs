//! A session whose scripts can use an internet, which is made of servers in this process.

use std::net::SocketAddr;
use std::sync::Arc;

use koze_core::script::Egress;
use koze_core::{Profiles, Session, SessionId};
use koze_local::{Internet, Local};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A session whose scripts can use an internet.
pub(crate) struct Scene {
    pub(crate) session: Session<Local>,
    pub(crate) local: Local,
    pub(crate) state: Arc<TempDir>,
}

impl Scene {
    pub(crate) fn new(internet: Internet, egress: Egress) -> Self {
        Scene::of(internet, Profiles::of_scripts().with_script_egress(egress))
    }

    pub(crate) fn of(internet: Internet, profiles: Profiles) -> Self {
        let state = tempfile::tempdir().unwrap();
        let local = Local::with_internet(state.path(), internet).unwrap();
        Scene::on(local, Arc::new(state), profiles, "scripts")
    }

    pub(crate) fn on(local: Local, state: Arc<TempDir>, profiles: Profiles, session: &str) -> Self {
        let session = Session::new(local.clone(), SessionId::new("tests", session).unwrap(), profiles);
        Scene { session, local, state }
    }

    /// One with a server by the names `origin.example` and `other.example`.
    pub(crate) fn with(server: SocketAddr) -> Self {
        Scene::new(internet(server), online())
    }

    pub(crate) async fn call(&self, tool: &str, input: Value) -> Result<Value, String> {
        let reply = self.session.call_tool(tool, input).await;
        let shown = reply.content.clone();
        // Never a path of this machine.
        assert!(!shown.contains(&*self.state.path().to_string_lossy()), "{shown}");
        if reply.is_error { Err(shown) } else { Ok(serde_json::from_str(&shown).unwrap()) }
    }

    /// Runs a script. Returns its result.
    pub(crate) async fn run(&self, code: &str) -> Value {
        self.call("run_sandbox_code", json!({ "code": code })).await.unwrap()["result"].take()
    }
}

/// Returns an internet in which `origin.example` and `other.example` are names of a server.
pub(crate) fn internet(server: SocketAddr) -> Internet {
    let names = ["origin.example", "other.example"].map(|name| (name.to_owned(), server));
    Internet { names: names.into(), ..Internet::default() }
}

pub(crate) fn online() -> Egress {
    Egress { internet: true, ..Egress::default() }
}
