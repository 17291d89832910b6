//! The client, with a browser that answers from a table. `local/tests/local/browser.rs` has a real one.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde_json::{Value, json};

use super::client::Client;
use super::page::Page;
use super::{Refusal, TIME, Wire};
use crate::error::{Code, Result};
use crate::script::WaitUntil;
use crate::time::Start;

/// What a browser does with a command.
type Answer = fn(&str, &Value) -> Does;

enum Does {
    /// It answers, after these events.
    Result(Value, Vec<(&'static str, Value)>),
    /// It refuses.
    Refuses(&'static str),
    /// It does not answer.
    Nothing,
}

/// A browser.
#[derive(Clone)]
struct Fake {
    answer: Answer,
    refusals: Vec<Refusal>,
    /// The next step after a certificate of an unknown authority.
    hint: Option<&'static str>,
    sent: Arc<Mutex<Vec<Value>>>,
    incoming: Arc<Mutex<VecDeque<String>>>,
    /// Whether waiting for a message never ends, in place of ending at once.
    waits: bool,
    /// Whether the page sends events without end, and nothing else.
    floods: bool,
}

impl Fake {
    fn new(answer: Answer) -> Self {
        let (sent, incoming) = (Arc::default(), Arc::default());
        Fake { answer, refusals: Vec::new(), hint: None, sent, incoming, waits: false, floods: false }
    }

    fn methods(&self) -> Vec<String> {
        let sent = self.sent.lock().unwrap();
        sent.iter().map(|command| command["method"].as_str().unwrap().to_owned()).collect()
    }

    fn client(&self) -> Client<Fake> {
        Client::new(self.clone(), Start::now(), TIME)
    }

    fn attach(&self) -> Result<Page<Fake>> {
        pollster::block_on(Page::attach(self.client()))
    }
}

impl Wire for Fake {
    fn send(&mut self, message: String) -> Result<()> {
        let command: Value = serde_json::from_str(&message).unwrap();
        let mut incoming = self.incoming.lock().unwrap();
        match (self.answer)(command["method"].as_str().unwrap(), &command["params"]) {
            Does::Result(result, events) => {
                for (method, params) in events {
                    incoming.push_back(
                        json!({ "method": method, "params": params, "sessionId": "s" }).to_string(),
                    );
                }
                incoming.push_back(json!({ "id": command["id"], "result": result }).to_string());
            }
            Does::Refuses(message) => {
                incoming.push_back(
                    json!({ "id": command["id"], "error": { "code": -32000, "message": message } })
                        .to_string(),
                );
            }
            Does::Nothing => {}
        }
        self.sent.lock().unwrap().push(command);
        Ok(())
    }

    async fn receive(&mut self, _: Duration) -> Result<Option<String>> {
        if self.floods {
            let event = lifecycle("t", "1", "load");
            return Ok(Some(json!({ "method": event.0, "params": event.1, "sessionId": "s" }).to_string()));
        }
        let next = self.incoming.lock().unwrap().pop_front();
        if next.is_none() && self.waits {
            return std::future::pending().await;
        }
        Ok(next)
    }

    fn refusals(&self) -> Vec<Refusal> {
        self.refusals.clone()
    }

    fn authority_hint(&self) -> Option<&str> {
        self.hint
    }
}

fn plain(result: Value) -> Does {
    Does::Result(result, Vec::new())
}

/// A browser with a page, and one that the page has opened.
fn usual(method: &str, params: &Value) -> Does {
    match method {
        "Target.getTargets" => plain(json!({ "targetInfos": [
            { "targetId": "w", "type": "worker" },
            { "targetId": "popup", "type": "page", "openerId": "t" },
            { "targetId": "t", "type": "page" },
        ] })),
        "Target.attachToTarget" => plain(json!({ "sessionId": "s" })),
        "Target.createTarget" => plain(json!({ "targetId": "new" })),
        "Page.createIsolatedWorld" => plain(json!({ "executionContextId": 7 })),
        "Page.navigate" => Does::Result(
            json!({ "loaderId": "2" }),
            vec![
                lifecycle("t", "1", "load"),
                lifecycle("frame", "2", "load"),
                lifecycle("t", "2", "init"),
                // It redirects itself.
                lifecycle("t", "3", "init"),
                lifecycle("t", "3", "DOMContentLoaded"),
                lifecycle("t", "3", "load"),
            ],
        ),
        "Runtime.callFunctionOn" => {
            let value = match params["arguments"][0]["value"]["action"].as_str() {
                Some("about") => json!({ "url": "http://a.example/", "title": "A", "status": 200 }),
                Some("click") => json!({ "x": 1, "y": 2 }),
                Some("text") => json!({ "text": "text" }),
                _ => Value::Null,
            };
            plain(json!({ "result": { "value": value } }))
        }
        _ => plain(json!({})),
    }
}

fn lifecycle(frame: &str, loader: &str, name: &str) -> (&'static str, Value) {
    ("Page.lifecycleEvent", json!({ "frameId": frame, "loaderId": loader, "name": name }))
}

#[test]
fn a_page_is_attached_to_and_left() {
    let fake = Fake::new(usual);
    let mut page = fake.attach().unwrap();
    assert_eq!(pollster::block_on(page.read_text(None)).unwrap(), "text");
    pollster::block_on(page.click_element("a")).unwrap();
    drop(page);
    let methods = fake.methods();
    let position = |method: &str| methods.iter().position(|sent| sent == method).unwrap();
    assert_eq!(methods[0], "Browser.setDownloadBehavior");
    assert!(position("Target.closeTarget") < position("Target.attachToTarget"), "{methods:?}");
    assert_eq!(methods.iter().filter(|method| *method == "Input.dispatchMouseEvent").count(), 3);
    assert_eq!(methods.last().unwrap(), "Target.detachFromTarget");
    assert!(!methods.contains(&"Runtime.terminateExecution".to_owned()), "{methods:?}");
    let sent = fake.sent.lock().unwrap();
    let of = |method: &str| sent.iter().find(|command| command["method"] == method).unwrap();
    assert_eq!(of("Browser.setDownloadBehavior")["params"]["behavior"], "deny");
    assert_eq!(of("Target.closeTarget")["params"]["targetId"], "popup");
    assert_eq!(of("Target.attachToTarget")["params"], json!({ "targetId": "t", "flatten": true }));
    assert_eq!(of("Page.enable")["sessionId"], "s");
    assert!(of("Target.getTargets").get("sessionId").is_none());
}

#[test]
fn messages_of_others_are_ignored() {
    let fake = Fake::new(usual);
    {
        let mut incoming = fake.incoming.lock().unwrap();
        // Answers to a client that was dropped.
        for id in 0..50 {
            incoming
                .push_back(json!({ "id": 0x3fff_0000 + id, "result": { "targetInfos": [] } }).to_string());
        }
        for other in
            ["", "{", "[]", "null", r#"{"method":"Inspector.targetCrashed","params":{},"sessionId":"old"}"#]
        {
            incoming.push_back(other.to_owned());
        }
    }
    let mut page = fake.attach().unwrap();
    assert_eq!(pollster::block_on(page.read_text(None)).unwrap(), "text");
}

#[test]
fn a_document_is_waited_for() {
    let fake = Fake::new(usual);
    let mut page = fake.attach().unwrap();
    for until in [WaitUntil::Load, WaitUntil::DomContentLoaded] {
        let about = pollster::block_on(page.navigate_to("http://a.example/", until)).unwrap();
        assert_eq!(about, json!({ "url": "http://a.example/", "title": "A", "status": 200 }));
    }
    let error =
        pollster::block_on(page.navigate_to("http://a.example/", WaitUntil::NetworkIdle)).unwrap_err();
    assert_eq!(error.code, Code::Timeout);
    assert!(error.message.starts_with("the page is open, but did not reach `networkidle`"), "{error}");
}

#[test]
fn a_page_that_does_not_respond_is_replaced() {
    let fake = Fake::new(|method, params| match method {
        // The new page responds.
        "Page.createIsolatedWorld" if params["frameId"] == "t" => Does::Nothing,
        _ => usual(method, params),
    });
    let mut page = fake.attach().unwrap();
    let error = pollster::block_on(page.check_open()).unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    let sent = fake.sent.lock().unwrap().clone();
    let closed: Vec<_> = sent.iter().filter(|command| command["method"] == "Target.closeTarget").collect();
    assert!(closed.iter().any(|command| command["params"]["targetId"] == "t"), "{closed:?}");
    assert_eq!(page.target, "new");
    // One that crashes, too.
    let crash = |method: &str, params: &Value| match method {
        "Page.enable" => Does::Result(json!({}), vec![("Inspector.targetCrashed", json!({}))]),
        _ => usual(method, params),
    };
    assert!(Fake::new(crash).attach().is_err(), "the new page crashes as well");
}

#[test]
fn a_call_that_is_dropped_leaves_the_page() {
    let mut fake = Fake::new(|method, params| match method {
        "Runtime.evaluate" => Does::Nothing,
        _ => usual(method, params),
    });
    fake.waits = true;
    {
        let mut page = fake.attach().unwrap();
        page.client.set_settled(false);
        let mut evaluating = pin!(page.evaluate_code("for (;;) {}"));
        let polled = evaluating.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
    }
    let methods = fake.methods();
    let last = &methods[methods.len() - 3..];
    assert_eq!(last, ["Runtime.terminateExecution", "Page.stopLoading", "Target.detachFromTarget"]);
}

#[test]
fn events_without_end_do_not_delay_the_end() {
    let fake = Fake { floods: true, ..Fake::new(usual) };
    let mut client = Client::new(fake, Start::now(), Duration::from_millis(20));
    let error = pollster::block_on(client.call_browser("Target.getTargets", json!({}))).unwrap_err();
    assert_eq!(error.code, Code::Timeout);
    // Without a page, no event is kept.
    assert!(pollster::block_on(client.next_event(Duration::from_millis(20))).unwrap().is_none());
}

#[test]
fn dialogs_are_answered() {
    let fake = Fake::new(|method, params| match method {
        "Runtime.evaluate" => {
            let dialog =
                |kind: &str| ("Page.javascriptDialogOpening", json!({ "type": kind, "message": "?" }));
            let asked = ["alert", "confirm", "prompt", "beforeunload"].map(dialog);
            Does::Result(json!({ "result": { "type": "number", "value": 1 } }), asked.into())
        }
        _ => usual(method, params),
    });
    let mut page = fake.attach().unwrap();
    assert_eq!(pollster::block_on(page.evaluate_code("1")).unwrap(), 1);
    let sent = fake.sent.lock().unwrap();
    let answers = sent.iter().filter(|command| command["method"] == "Page.handleJavaScriptDialog");
    let answers: Vec<_> = answers.map(|command| command["params"]["accept"].as_bool().unwrap()).collect();
    assert_eq!(answers, [true, false, false, true]);
}

#[test]
fn refusals_explain_pages_that_cannot_be_opened() {
    let refusal = |host: &str, port| Refusal {
        host: host.to_owned(),
        port,
        code: Code::PermissionDenied,
        message: format!("no {host}"),
    };
    let failed_with = |why: &'static str, refusals: Vec<Refusal>, hint: Option<&'static str>| {
        let answer: Answer = match why {
            "net::ERR_TUNNEL_CONNECTION_FAILED" => |method, params| match method {
                "Page.navigate" => {
                    plain(json!({ "errorText": "net::ERR_TUNNEL_CONNECTION_FAILED", "loaderId": "2" }))
                }
                _ => usual(method, params),
            },
            "net::ERR_CERT_AUTHORITY_INVALID" => |method, params| match method {
                "Page.navigate" => {
                    plain(json!({ "errorText": "net::ERR_CERT_AUTHORITY_INVALID", "loaderId": "2" }))
                }
                _ => usual(method, params),
            },
            _ => |method, params| match method {
                "Page.navigate" => Does::Refuses("Cannot navigate to invalid URL"),
                _ => usual(method, params),
            },
        };
        let fake = Fake { refusals, hint, ..Fake::new(answer) };
        let mut page = fake.attach().unwrap();
        pollster::block_on(page.navigate_to("https://a.example/", WaitUntil::Load)).unwrap_err()
    };
    let failed = |why, refusals| failed_with(why, refusals, None);
    let tunnel = "net::ERR_TUNNEL_CONNECTION_FAILED";
    let both = vec![refusal("a.example", 443), refusal("b.example", 443)];
    assert_eq!(failed(tunnel, both).message, "no a.example");
    assert_eq!(failed(tunnel, vec![refusal("b.example", 443)]).message, "no b.example", "a redirect");
    let untrusted = failed("net::ERR_CERT_AUTHORITY_INVALID", vec![refusal("b.example", 443)]);
    assert!(
        untrusted.message.contains("(net::ERR_CERT_AUTHORITY_INVALID): the connection is not secure"),
        "{untrusted}"
    );
    let hinted = failed_with("net::ERR_CERT_AUTHORITY_INVALID", Vec::new(), Some("install it"));
    assert!(hinted.message.ends_with("(net::ERR_CERT_AUTHORITY_INVALID): install it"), "{hinted}");
    let invalid = failed("", Vec::new());
    assert!(invalid.message.contains("Cannot navigate to invalid URL (Page.navigate)"), "{invalid}");
}
