//! What a workspace tells through `tracing`. Alone in its file: a call site that another thread, without a subscriber,
//! reaches first stays silent for the whole process.

#![cfg(feature = "tracing")]

use std::sync::{Arc, Mutex};

use koze_core::provider::memory::Memory;
use koze_core::provider::{Profile, Size};
use koze_core::tool::Family;
use koze_core::workspace::WorkspaceConfig;
use koze_core::{Profiles, Session, SessionId};

/// Collects the messages of events.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(tracing::Level, String)>>>);

struct Message(String);

impl tracing::field::Visit for Message {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("koze_core")
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push((*event.metadata().level(), message.0));
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn the_life_of_a_workspace_is_logged() {
    let log = Log::default();
    let _subscribed = tracing::subscriber::set_default(log.clone());
    let shared = WorkspaceConfig {
        id: Some("common".into()),
        share_across_sessions: true,
        ..WorkspaceConfig::new("box")
    };
    let profile = Profile {
        tools: vec![Family::Workspace],
        workspace: Some(shared),
        ..Profile::new("box", "debian", Size { memory_mib: 1, disk_mb: 1 })
    };
    let profiles = Profiles::new(vec![profile], "box").unwrap();
    let id = SessionId::new("tenant", "a").unwrap();
    let session = Session::new(Memory::new(), id, profiles);
    let workspaces = session.workspaces();
    workspaces.open("box").await.unwrap();
    workspaces.get("box").await.unwrap();
    workspaces.close("box").await.unwrap();
    workspaces.resolve("box").await.unwrap();
    let (warn, info) = (tracing::Level::WARN, tracing::Level::INFO);
    let logged = log.0.lock().unwrap();
    let logged: Vec<_> = logged.iter().map(|(level, text)| (*level, text.as_str())).collect();
    let expected = [
        (warn, "shared workspace id detected"),
        (info, "workspace opened"),
        (info, "workspace closed"),
        (warn, "shared workspace id detected"),
        (info, "workspace resolved"),
    ];
    assert_eq!(logged, expected);
}
