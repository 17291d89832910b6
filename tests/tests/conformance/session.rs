//! The operations of a session other than tool calls.

use koze_core::provider::memory::Memory;
use koze_core::{Code, Session, SessionId};
use libtest_mimic::{Failed, Trial};

use crate::in_process::profiles;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("a_destroyed_one_is_gone", destroyed).with_kind("session"),
        Trial::test("tenants_share_nothing", tenants).with_kind("session"),
    ]
}

fn open(provider: &Memory, tenant: &str, session: &str) -> Session<Memory> {
    let id = SessionId::new(tenant, session).expect("good names");
    Session::new(provider.clone(), id, profiles())
}

fn destroyed() -> Result<(), Failed> {
    pollster::block_on(async {
        let session = open(&Memory::new(), "tenant", "session").with_max_sandboxes(1);
        session.sandbox("default").await?;
        session.destroy("default").await?;
        assert_eq!(session.list().await?, []);
        for (name, code) in
            [("default", Code::NotFound), ("other", Code::NotFound), ("A", Code::InvalidInput)]
        {
            assert_eq!(session.destroy(name).await.map_err(|error| error.code), Err(code), "{name}");
        }
        assert_eq!(session.list().await?, [], "none was made for it");
        session.sandbox("b").await?;
        assert_eq!(session.sandbox("c").await.map_err(|error| error.code).err(), Some(Code::Unavailable));
        Ok(())
    })
}

/// With naive joining, `a:b` with `c` would equal `a` with `b:c`.
fn tenants() -> Result<(), Failed> {
    pollster::block_on(async {
        let provider = Memory::new();
        let names = [("a:b", "c"), ("a", "b:c"), ("a", "b"), ("a,1:b", "c")];
        for (tenant, name) in names {
            let session = open(&provider, tenant, name);
            assert_eq!(session.list().await?, [], "{tenant} {name}");
            session.sandbox("default").await?;
        }
        let again = open(&provider, "a", "b:c");
        assert_eq!(again.list().await?.len(), 1, "the same session finds what it left");
        Ok(())
    })
}
