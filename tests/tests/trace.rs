//! The spans and events that a host program can record.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use koze_core::provider::memory::Memory;
use koze_core::provider::{Profile, Size};
use koze_core::{Profiles, Session, SessionId};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Records spans as `name field=value`, and events after an arrow.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("koze_core")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        let mut lines = self.0.lock().unwrap();
        lines.push(fields.0);
        Id::from_u64(lines.len() as u64)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields("->".to_owned());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn recorded(tool: &str, input: Value) -> Vec<String> {
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        let profile = Profile::new("base", "debian:13", Size { memory_mib: 256, disk_mb: 2000 });
        let profiles = Profiles::new(vec![profile], "base").unwrap();
        let session = Session::new(Memory::new(), SessionId::new("tenant", "s").unwrap(), profiles);
        pollster::block_on(session.call_tool(tool, input))
    });
    lines.0.lock().unwrap().clone()
}

#[test]
fn calls_open_sandboxes_and_run_programs() {
    assert_eq!(
        recorded("write_file", json!({ "path": "a", "content": "secret" })),
        [r#"call session="s" family="agent" tool="write_file""#, r#"open sandbox="default" profile="base""#,]
    );
    let [call, open, exec, failed @ ..] = &recorded("shell", json!({ "command": "echo secret" }))[..] else {
        panic!("three spans")
    };
    assert!(call.starts_with("call") && open.starts_with("open"), "{call}, {open}");
    assert_eq!(exec, "exec timeout=30");
    // Once where the program failed, and once where the call did.
    assert_eq!(failed.len(), 2, "{failed:?}");
    for line in failed {
        assert!(line.starts_with("-> ") && line.contains(r#" code="unsupported" error=""#), "{line}");
        assert!(!line.contains("secret"), "{line}");
    }
}
