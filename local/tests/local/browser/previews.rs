//! Previews of sandboxes of the session, in its browser.

use std::sync::Arc;

use koze_core::script::Egress;
use koze_core::{Provider, Sandbox, SandboxId, SandboxName};
use koze_local::{Internet, Local};
use serde_json::json;

use super::scene::{Site, browser, fails};
use crate::scripted::{Scene, internet, online};
use crate::server::{self, Browser};
use crate::stage::{settings, within};

const FOREIGN: &str =
    "permission_denied: this is not a preview of a sandbox of this session, and the browser opens no others";

/// Starts a server in a sandbox of a scene's session. Returns the URL of its preview.
async fn preview(scene: &Scene, name: &str) -> String {
    let id = SandboxId { session: scene.session.id().clone(), name: SandboxName::new(name).unwrap() };
    let sandbox = scene.local.open(&id, &settings()).await.unwrap().sandbox;
    server::inside(&sandbox, "127.0.0.1:8080").await;
    sandbox.expose(8080).await.unwrap()
}

/// They need no hosts in the table.
pub(super) fn opens() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::of("");
        let scene = Scene::browsing(internet(site.at), Egress::default());
        let url = preview(&scene, "web").await;
        let host = Browser::new(&url).host;
        let opened = scene.run(&format!("return browser.navigate('{url}echo?a=b')")).await;
        assert_eq!((&opened["url"], &opened["status"]), (&json!(format!("{url}echo?a=b")), &json!(200)));
        let text = scene.text().await;
        assert!(text.starts_with("GET /echo?a=b HTTP/1.1") && text.contains(&host), "{text}");
        assert!(text.contains("x-forwarded-proto: http") && !text.contains("roxy"), "{text}");
        let socket = "new Promise((done) => {
            const socket = new WebSocket('/socket');
            socket.onmessage = ({ data }) => done(data);
            socket.onerror = () => done('failed');
        })";
        assert_eq!(scene.evaluate(socket).await, Ok(json!("hi")));
        let other_port = url.replace("http://8080-", "http://8081-");
        fails(&scene.open(&other_port).await, "unavailable: nothing listens on port 8081 of the sandbox");
        // Nothing else is reached without hosts in the table, neither by a call nor by the page.
        fails(
            &scene.open("http://origin.example/").await,
            "permission_denied: scripts of this project may not",
        );
        scene.open(&format!("{url}echo")).await.unwrap();
        let fetching =
            "fetch('http://origin.example/', { mode: 'no-cors' }).then(() => 'reached', () => 'refused')";
        // The proxy's own answer is opaque, too.
        scene.evaluate(fetching).await.unwrap();
        assert!(site.asked().is_empty());
        let journal = Local::egress(scene.state.path()).unwrap();
        assert!(journal.iter().all(|entry| !entry.allowed && entry.host == "origin.example"), "{journal:?}");
    })
}

pub(super) fn of_its_session() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = Scene::browsing(Internet::default(), online());
        let url = preview(&scene, "web").await;
        let other = Scene::on(scene.local.clone(), Arc::clone(&scene.state), browser(online()), "other");
        let foreign = preview(&other, "web").await;
        let Browser { port, host } = Browser::new(&foreign);
        assert_eq!(Browser::new(&foreign).get("/echo").0, 200, "the control");
        scene.open(&format!("{url}echo")).await.unwrap();
        let unknown = url.replacen("-web-", "-web-0", 1);
        for url in [&foreign, &unknown, &url.replacen("-web-", "-web2-", 1)] {
            fails(&scene.open(url).await, FOREIGN);
        }
        // Neither a page nor a redirect reaches it.
        scene.open(&format!("{url}echo")).await.unwrap();
        let socket = format!(
            "new Promise((done) => {{
                const socket = new WebSocket('ws://{host}/socket');
                socket.onmessage = ({{ data }}) => done(data);
                socket.onerror = () => done('failed');
            }})"
        );
        assert_eq!(scene.evaluate(&socket).await, Ok(json!("failed")));
        // The rest of the loopback interface stays out of reach, and the error does not advise to allow it.
        for hosts in
            [Egress::default(), online(), Egress { allowed_hosts: vec!["a.example".into()], ..online() }]
        {
            let scene = Scene::on(scene.local.clone(), Arc::clone(&scene.state), browser(hosts), "scripts");
            for host in ["127.0.0.1", "localhost", "[::1]", "8080-web.localhost"] {
                for port in [port, 8080] {
                    let done = scene.open(&format!("http://{host}:{port}/")).await;
                    fails(&done, "permission_denied: ");
                    let error = done.unwrap_err();
                    assert!(
                        error.contains(" is not on the internet: scripts cannot reach private"),
                        "{error}"
                    );
                    assert!(error.ends_with(" use the URL that `browse` returns"), "{error}");
                }
            }
        }
        // Of two sessions with one agent, each opens its own.
        let same = Scene { session: other.session.clone().with_agent("scripts").unwrap(), ..other };
        assert_eq!(same.open(&format!("{foreign}echo")).await.unwrap()["status"], 200);
        fails(&same.open(&url).await, FOREIGN);
        fails(&scene.open(&foreign).await, FOREIGN);
        // The user can deny them.
        let denied = Egress { denied_hosts: vec!["*.localhost".to_owned()], ..online() };
        let scene = Scene::on(scene.local.clone(), Arc::clone(&scene.state), browser(denied), "scripts");
        let done = scene.open(&url).await;
        assert!(done.unwrap_err().contains("`denied_hosts` in `[package.metadata.koze.script]` lists it"));
    })
}
