//! The operations of a pool other than tool calls.

use koze_core::provider::memory::Memory;
use koze_core::{Code, Pool, SessionId};
use libtest_mimic::{Failed, Trial};

use crate::in_process::profiles;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("a_destroyed_one_is_gone", destroyed).with_kind("pool"),
        Trial::test("tenants_share_nothing", tenants).with_kind("pool"),
    ]
}

fn pool(provider: &Memory, tenant: &str, session: &str) -> Pool<Memory> {
    let id = SessionId::new(tenant, session).expect("good names");
    Pool::new(provider.clone(), id, profiles())
}

fn destroyed() -> Result<(), Failed> {
    pollster::block_on(async {
        let pool = pool(&Memory::new(), "tenant", "session").with_max_sandboxes(1);
        pool.sandbox("default").await?;
        pool.destroy("default").await?;
        assert_eq!(pool.list().await?, []);
        for (name, code) in
            [("default", Code::NotFound), ("other", Code::NotFound), ("A", Code::InvalidInput)]
        {
            assert_eq!(pool.destroy(name).await.map_err(|error| error.code), Err(code), "{name}");
        }
        assert_eq!(pool.list().await?, [], "none was made for it");
        pool.sandbox("b").await?;
        assert_eq!(pool.sandbox("c").await.map_err(|error| error.code).err(), Some(Code::Unavailable));
        Ok(())
    })
}

/// With naive joining, `a:b` with `c` would equal `a` with `b:c`.
fn tenants() -> Result<(), Failed> {
    pollster::block_on(async {
        let provider = Memory::new();
        let names = [("a:b", "c"), ("a", "b:c"), ("a", "b"), ("a,1:b", "c")];
        for (tenant, session) in names {
            let pool = pool(&provider, tenant, session);
            assert_eq!(pool.list().await?, [], "{tenant} {session}");
            pool.sandbox("default").await?;
        }
        let again = pool(&provider, "a", "b:c");
        assert_eq!(again.list().await?.len(), 1, "the same session finds what it left");
        Ok(())
    })
}
