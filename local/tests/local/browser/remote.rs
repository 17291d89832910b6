//! The browser for the Worker of `koze dev --local`.

use std::net::TcpStream;
use std::time::Duration;

use koze_core::SessionId;
use koze_core::script::Egress;
use koze_local::{Local, Objects};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{self, HandshakeError, Message, WebSocket};

use super::scene::{Site, html};
use crate::scripted::{internet, online};
use crate::stage::within;

/// A client of the server of `koze dev --local`, as the object of an agent is one.
struct Remote {
    socket: WebSocket<TcpStream>,
    id: u32,
}

impl Remote {
    /// Connects. Returns the status and the body of a response without a WebSocket.
    fn connect(objects: &Objects, agent: &str, egress: &Egress) -> Result<Self, (u16, String)> {
        let input = json!({ "egress": egress, "time_ms": 25_000 }).to_string();
        let input =
            percent_encoding::utf8_percent_encode(&input, percent_encoding::NON_ALPHANUMERIC).to_string();
        let url = objects.url();
        let mut request = url.replacen("http:", "ws:", 1).into_client_request().unwrap();
        for (name, value) in [
            ("koze-token", objects.token()),
            ("koze-operation", "kozeBrowser"),
            ("koze-agent", agent),
            ("koze-browser", &input),
        ] {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Remote { socket, id: 0 }),
            Err(HandshakeError::Failure(tungstenite::Error::Http(response))) => {
                let body = String::from_utf8(response.body().clone().unwrap_or_default()).unwrap();
                Err((response.status().as_u16(), body))
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn next(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.socket.read().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// Sends a command. Returns its answer, and what koze said meanwhile.
    fn call(&mut self, method: &str, params: &Value, session: Option<&str>) -> (Value, Vec<Value>) {
        self.id += 1;
        let mut command = json!({ "id": self.id, "method": method, "params": params });
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        self.socket.send(Message::text(command.to_string())).unwrap();
        let mut told = Vec::new();
        loop {
            let message = self.next();
            if message["id"] == self.id {
                return (message["result"].clone(), told);
            }
            if message["method"].as_str().is_some_and(|method| method.starts_with("Koze.")) {
                told.push(message);
            }
        }
    }

    /// Opens a page in a new target. Returns the answer, and what koze said.
    fn open(&mut self, url: &str) -> (Value, Vec<Value>) {
        let (target, _) = self.call("Target.createTarget", &json!({ "url": "about:blank" }), None);
        let how = json!({ "targetId": target["targetId"], "flatten": true });
        let (attached, _) = self.call("Target.attachToTarget", &how, None);
        self.call("Page.navigate", &json!({ "url": url }), attached["sessionId"].as_str())
    }
}

pub(super) fn serves_workers() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let site = Site::new(|_, _| html("<title>Home</title>"));
        let state = tempfile::tempdir().unwrap();
        let local = Local::with_internet(state.path(), internet(site.at)).unwrap();
        let objects = Objects::serve(local.clone(), SessionId::new("tests", "dev").unwrap()).unwrap();
        let served = objects;
        tokio::task::spawn_blocking(move || {
            let [agent, other] = ["a", "b"].map(|digit| digit.repeat(64));
            let mut remote = Remote::connect(&served, &agent, &online()).ok().unwrap();
            let (opened, told) = remote.open("http://origin.example/");
            assert!(opened["loaderId"].is_string() && opened["errorText"].is_null(), "{opened}");
            assert!(told.is_empty(), "{told:?}");
            // A refusal comes before the answer that it explains.
            let (refused, told) = remote.open("https://127.0.0.1/");
            assert_eq!(refused["errorText"], "net::ERR_TUNNEL_CONNECTION_FAILED", "{refused}");
            assert_eq!(told[0]["method"], "Koze.refused");
            assert_eq!(told[0]["params"]["host"], "127.0.0.1");
            assert_eq!(told[0]["params"]["code"], "permission_denied");
            // Another agent has another browser, and the next call of this one waits for its turn.
            let mut second = Remote::connect(&served, &other, &online()).ok().unwrap();
            let pages = |remote: &mut Remote| {
                let (targets, _) = remote.call("Target.getTargets", &json!({}), None);
                targets["targetInfos"].as_array().unwrap().iter().filter(|one| one["type"] == "page").count()
            };
            assert_eq!(pages(&mut second), pages(&mut remote) - 2);
            let before = pages(&mut remote);
            drop(remote);
            let mut remote = Remote::connect(&served, &agent, &online()).ok().unwrap();
            assert_eq!(pages(&mut remote), before, "its pages have stayed");
            // It ends, and says so.
            remote.socket.send(Message::text(r#"{"id":900,"method":"Browser.close"}"#)).unwrap();
            let ended = loop {
                let message = remote.next();
                if message["method"] == "Koze.ended" {
                    break message;
                }
            };
            let text = "the browser has ended: navigate again, which starts a new one";
            assert_eq!(ended["params"], json!({ "code": "unavailable", "message": text }));
            // Hosts that cannot be parsed are errors before there is a connection.
            let wrong = Egress { allowed_hosts: vec!["a b".to_owned()], ..Egress::default() };
            let (status, body) = Remote::connect(&served, &agent, &wrong).err().unwrap();
            assert_eq!(status, 503, "{body}");
            assert!(serde_json::from_str::<Value>(&body).unwrap()["message"].is_string(), "{body}");
            let (status, _) = Remote::connect(&served, "../a", &online()).err().unwrap();
            assert_eq!(status, 400);
        })
        .await
        .unwrap();
    })
}
