//! Addresses near this machine, which no script reaches.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use koze_core::script::Egress;
use koze_local::{Internet, Local};

use super::scene::{Server, refused};
use crate::scripted::{Scene, online};
use crate::stage::within;

/// Hosts that are this machine or its surroundings, in every notation.
const NEARBY: &[&str] = &[
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "0x7f.1",
    "0x7f000001",
    "0177.0.0.1",
    "017700000001",
    "2130706433",
    "%31%32%37.0.0.1",
    "127%2e0%2e0%2e1",
    "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
    "127\u{3002}0\u{3002}0\u{3002}1",
    "localhost",
    "LOCALHOST.",
    "0.0.0.0",
    "0",
    "0.1.2.3",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "0xa9fea9fe",
    "2852039166",
    "0251.0376.0251.0376",
    "168.63.129.16",
    "100.64.0.1",
    "100.100.100.200",
    "192.0.0.192",
    "192.88.99.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "[::]",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::127.0.0.1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::FFFF:169.254.169.254]",
    "[::ffff:0:10.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::127.0.0.1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2001::1]",
    "[2001:0:c633:6401:0:63bf:80ff:fffe]",
    "[2606:4700::5efe:127.0.0.1]",
    "[2606:4700::200:5efe:10.0.0.1]",
    "[100::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[fec0::1]",
    "[ff02::1]",
];

/// Ways to write a request to a nearby address that are not URLs.
const NO_URLS: &[&str] =
    &["[::1%25lo]", "[127.0.0.1]", "127.0.0.0x1.1", "1.2.3.4.5", "127.0.0.256", "user@127.0.0.1", ":a@[::1]"];

pub(super) fn nearby() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::redirecting();
        let port = server.at.port();
        let scene = Scene::new(Internet { servers: everywhere(server.at), ..Internet::default() }, online());
        for host in NEARBY {
            let done = scene.fetch(&format!("http://{host}:{port}/")).await;
            refused(&done, "permission_denied", "scripts cannot reach private or local networks");
        }
        for host in NO_URLS {
            refused(&scene.fetch(&format!("http://{host}:{port}/")).await, "invalid_input", "URL");
        }
        for scheme in [
            "file:///etc/passwd",
            "ftp://127.0.0.1/",
            "gopher://127.0.0.1/",
            "unix:/run/a",
            "ws://127.0.0.1/",
        ] {
            refused(&scene.fetch(scheme).await, "invalid_input", "`https:` or `http:`");
        }
        // Also if the table allows them.
        let allowed = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}"));
        let egress = Egress { allowed_hosts: allowed.to_vec(), ..Egress::default() };
        let scene = Scene::new(Internet::default(), egress);
        for host in allowed {
            let done = scene.fetch(&format!("http://{host}/")).await;
            refused(&done, "permission_denied", "scripts cannot reach private or local networks");
        }
        assert_eq!(server.accepted(), 0);
        // The control: without the check, each of them reaches the server.
        let scene = Scene::new(unchecked(server.at), online());
        for host in NEARBY {
            let done = scene.fetch(&format!("http://{host}:{port}/")).await;
            assert_eq!(done.expect(host)["body"], "here", "{host}");
        }
        assert_eq!(server.accepted(), NEARBY.len());
    })
}

/// Returns the addresses of [`NEARBY`].
fn nearby_addresses() -> Vec<IpAddr> {
    NEARBY.iter().filter_map(|host| host.trim_matches(['[', ']']).parse().ok()).collect()
}

/// An internet with a server at all of these addresses, to which connections lead if they are made.
fn everywhere(server: SocketAddr) -> HashMap<IpAddr, SocketAddr> {
    nearby_addresses().into_iter().map(|address| (address.to_canonical(), server)).collect()
}

/// The same, without the check of addresses: for controls.
fn unchecked(server: SocketAddr) -> Internet {
    let names = ["origin.example", "other.example"].map(|name| (name.to_owned(), server));
    Internet { names: names.into(), servers: everywhere(server), unchecked: true, ..Internet::default() }
}

pub(super) fn nearby_names() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::redirecting();
        let public: IpAddr = "203.0.113.80".parse().unwrap();
        let addresses = nearby_addresses();
        assert!(addresses.len() > 35, "{addresses:?}");
        let servers: HashMap<IpAddr, SocketAddr> =
            addresses.iter().chain([&public]).map(|address| (*address, server.at)).collect();
        for address in addresses {
            let answers = HashMap::from([
                ("near.example".to_owned(), vec![vec![address]]),
                ("both.example".to_owned(), vec![vec![address, public]]),
            ]);
            let scene =
                Scene::new(Internet { answers, servers: servers.clone(), ..Internet::default() }, online());
            let done = scene.fetch("http://near.example/").await;
            refused(&done, "permission_denied", "near.example is not on the internet");
            // Of several addresses, the public one is used.
            assert_eq!(scene.fetch("http://both.example/").await.unwrap()["body"], "here", "{address}");
            let reached = |entry: &koze_local::Reached| (entry.allowed, entry.address);
            let mut seen: Vec<_> = Local::egress(scene.state.path()).unwrap().iter().map(reached).collect();
            seen.sort_unstable();
            assert_eq!(seen, [(false, None), (true, Some(public))], "{address}");
            let answers = HashMap::from([("near.example".to_owned(), vec![vec![address]])]);
            let control =
                Internet { answers, servers: servers.clone(), unchecked: true, ..Internet::default() };
            let done = Scene::new(control, online()).fetch("http://near.example/").await;
            assert_eq!(done.expect("the control")["body"], "here", "{address}");
        }
        assert_eq!(server.accepted(), 2 * nearby_addresses().len());
    })
}

pub(super) fn nearby_redirects() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let server = Server::redirecting();
        let target = Server::redirecting();
        let public: IpAddr = "203.0.113.80".parse().unwrap();
        let answers = ["origin.example", "other.example"].map(|name| (name.to_owned(), vec![vec![public]]));
        let mut servers = everywhere(target.at);
        servers.insert(public, server.at);
        let scene =
            Scene::new(Internet { answers: answers.into(), servers, ..Internet::default() }, online());
        let control = Scene::new(unchecked(server.at), online());
        let port = target.at.port();
        for host in NEARBY.iter().filter(|host| host.is_ascii()) {
            let url = format!("http://origin.example/to/http://{host}:{port}/");
            assert_eq!(control.fetch(&url).await.expect("the control")["body"], "here", "{host}");
            refused(&scene.fetch(&url).await, "permission_denied", "is not on the internet");
            // After another redirect.
            let url = format!("http://origin.example/to/http://other.example/to/http://{host}:{port}/");
            refused(&scene.fetch(&url).await, "permission_denied", "is not on the internet");
        }
        for host in NO_URLS {
            let url = format!("http://origin.example/to/http://{host}/");
            refused(&scene.fetch(&url).await, "invalid_input", "is not followed");
        }
        for to in ["file:///etc/passwd", "ftp://a.example/", "data:text/plain,a"] {
            let url = format!("http://origin.example/to/{to}");
            refused(&scene.fetch(&url).await, "invalid_input", "`https:` or `http:`");
        }
        let code = format!(
            "try {{ await fetch('http://origin.example/to/http://127.0.0.1:{port}/') }} catch (error) {{ return error.message }}"
        );
        assert!(scene.run(&code).await.as_str().unwrap().contains("is not on the internet"));
        assert_eq!(target.accepted(), 0);
        assert!(server.accepted() > NEARBY.len());
    })
}

/// The first answer is public, the second one is not. Each connection goes to an address that was checked for it.
pub(super) fn rebinding() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let public: IpAddr = "203.0.113.80".parse().unwrap();
        let outside = Server::redirecting();
        let inside = Server::redirecting();
        let near = inside.at.ip();
        let answers = HashMap::from([("moves.example".to_owned(), vec![vec![public], vec![near]])]);
        let internet =
            Internet { answers, servers: HashMap::from([(public, outside.at)]), ..Internet::default() };
        let scene = Scene::new(internet, online());
        let port = inside.at.port();
        let url = format!("http://moves.example:{port}/to/http://moves.example:{port}/");
        refused(&scene.fetch(&url).await, "permission_denied", "moves.example is not on the internet");
        refused(&scene.fetch(&url).await, "permission_denied", "moves.example is not on the internet");
        assert_eq!((outside.accepted(), inside.accepted()), (1, 0));
        let reached = |entry: &koze_local::Reached| (entry.allowed, entry.address);
        let mut seen: Vec<_> = Local::egress(scene.state.path()).unwrap().iter().map(reached).collect();
        seen.sort_unstable();
        assert_eq!(seen, [(false, None), (false, None), (true, Some(public))]);
        // The control.
        let answers = HashMap::from([("moves.example".to_owned(), vec![vec![public], vec![near]])]);
        let servers = HashMap::from([(public, outside.at)]);
        let scene =
            Scene::new(Internet { answers, servers, unchecked: true, ..Internet::default() }, online());
        assert_eq!(
            scene.fetch(&url).await.expect("the control")["url"],
            format!("http://moves.example:{port}/")
        );
        assert_eq!((outside.accepted(), inside.accepted()), (2, 1));
    })
}
