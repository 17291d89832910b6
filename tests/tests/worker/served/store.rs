//! The store of a session, in the registry's database and in an R2 bucket of workerd.

use super::host::Host;

#[test]
fn stores_follow_their_contract() {
    let host = Host::with_bucket();
    assert_eq!(host.own("store", "session=a", ""), Ok("8 cases".into()));
    // The cases leave nothing behind.
    assert_eq!(host.own("store", "session=a", ""), Ok("8 cases".into()));
}

#[test]
fn missing_bindings_are_named() {
    let missing = host_error(&Host::start());
    assert!(
        missing.starts_with("unsupported: this Worker does not record its sandboxes: set `registry = true`"),
        "{missing}"
    );
    let host = Host::with(
        &serde_json::json!({ "bindings": { "KOZE_TOKEN": super::host::TOKEN }, "registry": true }),
    );
    let missing = host_error(&host);
    assert_eq!(
        missing,
        "unsupported: the Worker has no R2 bucket `BLOBS`: add it to `r2_buckets`, and deploy again"
    );
}

fn host_error(host: &Host) -> String {
    host.own("store", "session=a", "").expect_err("a binding is missing")
}
