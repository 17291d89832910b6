//! Which hosts and requests a policy allows.

use super::*;
use crate::provider::Size;

fn profile(internet: bool, allowed: &[&str], denied: &[&str]) -> Profile {
    let all = |hosts: &[&str]| hosts.iter().map(|&host| host.to_owned()).collect();
    Profile {
        internet,
        allowed_hosts: all(allowed),
        denied_hosts: all(denied),
        ..Profile::new("a", "a:1", Size { memory_mib: 1, disk_mb: 1 })
    }
}

fn policy(profile: &Profile) -> Policy {
    Policy::of(profile).unwrap().unwrap()
}

fn reaches(profile: &Profile, host: &str) -> bool {
    policy(profile).judge(&Host::parse(host).unwrap(), 443).is_ok()
}

#[test]
fn off_by_default() {
    assert_eq!(Policy::of(&profile(false, &[], &[])).unwrap(), None);
    assert_eq!(Policy::of(&profile(false, &[], &["a.example"])).unwrap(), None);
    assert!(reaches(&profile(true, &[], &[]), "any.example"));
    // As in a Worker, allowed hosts can be reached even if internet access is off.
    let some = profile(false, &["a.example"], &[]);
    assert!(reaches(&some, "a.example") && !reaches(&some, "b.example"));
}

#[test]
fn patterns() {
    let profile =
        profile(true, &["a.example", "*.b.example", "203.0.113.7", "*.c.d"], &["*.x.b.example", "c.c.d"]);
    for host in
        ["a.example", "A.EXAMPLE.", "y.b.example", "y.y.b.example", "203.0.113.7", "x.b.example", "e.c.d"]
    {
        assert!(reaches(&profile, host), "{host}");
    }
    for host in [
        "b.example",
        "y.a.example",
        "ya.example",
        "yb.example",
        "203.0.113.8",
        "[::1]",
        "y.x.b.example",
        "c.c.d",
    ] {
        assert!(!reaches(&profile, host), "{host}");
    }
    // One address in two notations.
    assert!(reaches(&profile, "[::ffff:203.0.113.7]"));
}

#[test]
fn ports() {
    let profile = profile(
        true,
        &[
            "a.example",
            "b.example:8080",
            "*.c.example",
            "*.c.example:22",
            "203.0.113.7:81",
            "[2001:db8::1]:81",
        ],
        &["d.a.example", "x.c.example:80"],
    );
    for (host, port, wanted) in [
        ("a.example", 80, true),
        ("a.example", 443, true),
        ("a.example", 22, false),
        ("a.example", 8080, false),
        ("b.example", 8080, true),
        ("b.example", 80, false),
        ("b.example", 443, false),
        ("y.c.example", 443, true),
        ("y.c.example", 22, true),
        ("y.c.example", 25, false),
        ("203.0.113.7", 81, true),
        ("203.0.113.7", 80, false),
        ("[2001:db8::1]", 81, true),
        ("[2001:db8::1]", 80, false),
        ("x.c.example", 80, false),
        ("x.c.example", 443, true),
    ] {
        let judged = policy(&profile).judge(&Host::parse(host).unwrap(), port);
        assert_eq!(judged.is_ok(), wanted, "{host} {port}: {judged:?}");
        // The control.
        let weak = policy(&profile).weakened(true).judge(&Host::parse(host).unwrap(), port);
        assert_eq!(weak.is_ok(), host != "x.c.example", "{host} {port}");
    }
    // Without lists of hosts, ports are not restricted.
    let all = self::profile(true, &[], &["a.example"]);
    for (host, port, wanted) in [("b.example", 22, true), ("a.example", 22, false), ("a.example", 443, false)]
    {
        assert_eq!(policy(&all).judge(&Host::parse(host).unwrap(), port).is_ok(), wanted, "{host} {port}");
    }
}

#[test]
fn embedded_addresses() {
    let profile = profile(true, &[], &["203.0.113.7", "198.51.100.1:80"]);
    let cases: serde_json::Value = serde_json::from_str(include_str!("../addresses.json")).unwrap();
    let denied: Host = Host::parse("203.0.113.7").unwrap();
    for case in cases.as_array().unwrap() {
        let address = case["address"].as_str().unwrap();
        let host = Host::Address(address.parse().unwrap());
        let holds = case["holds"].as_array().unwrap().iter().any(|held| held == "203.0.113.7");
        let wanted = !holds && host != denied;
        assert_eq!(policy(&profile).judge(&host, 443).is_ok(), wanted, "{address}");
        let found =
            policy(&profile).judge_found(&Host::Name("a.example".into()), address.parse().unwrap(), 443);
        assert_eq!(found.is_ok(), wanted, "{address}");
    }
    let weak = policy(&profile).weakened(true);
    let mapped = Host::Address("64:ff9b::203.0.113.7".parse().unwrap());
    assert!(weak.judge(&mapped, 443).is_ok(), "the control");
    let found = policy(&profile).judge_found(&mapped, "198.51.100.1".parse().unwrap(), 443);
    assert!(found.is_ok(), "of another port");
    // A rule for a name does not apply to the addresses that it resolves to.
    let refused =
        policy(&profile).judge_found(&Host::Name("a.example".into()), "203.0.113.7".parse().unwrap(), 1);
    let text = "this sandbox may not reach a.example: `denied_hosts` lists its address 203.0.113.7";
    assert_eq!(refused.unwrap_err().text, text);
}

#[test]
fn names_within_tunnels() {
    let name = |text: &str| Host::parse(text).unwrap();
    let some = policy(&profile(false, &["a.example", "*.b.example", "203.0.113.7"], &["x.b.example"]));
    for (tunnel, inner, wanted) in [
        ("a.example", "a.example", true),
        ("a.example", "c.b.example", true),
        ("a.example", "other.example", false),
        ("a.example", "x.b.example", false),
        ("203.0.113.7", "other.example", true),
        ("203.0.113.7", "x.b.example", false),
    ] {
        assert_eq!(some.judge_inner(&name(tunnel), &name(inner), 443).is_ok(), wanted, "{tunnel} {inner}");
        assert!(
            some.clone().weakened(true).judge_inner(&name(tunnel), &name(inner), 443).is_ok(),
            "the control"
        );
    }
    let all = policy(&profile(true, &[], &["x.b.example"]));
    assert!(all.judge_inner(&name("a.example"), &name("b.example"), 443).is_ok());
    assert!(all.judge_inner(&name("a.example"), &name("x.b.example"), 443).is_err());
}

#[test]
fn invalid_hosts() {
    for host in [
        "",
        "*",
        "*.",
        "a*b.example",
        "https://a.example",
        "a.example:",
        "a.example:0",
        "a.example:080",
        "a.example:65536",
        "a.example:+80",
        "a.example:443//x",
        "get a.example",
        ":80",
        "2001:db8::1",
        "*.*.example",
        "*.1.2.3.4",
        "0x7f.1",
    ] {
        for profile in [profile(true, &[host], &[]), profile(false, &[], &[host])] {
            let error = Policy::of(&profile).unwrap_err();
            assert_eq!(error.code, Code::InvalidInput, "{host}");
        }
    }
}
