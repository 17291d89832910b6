//! curl: uploads, ranges and redirects.

use koze_core::egress::Placement;

use super::server::{Reply, Request};
use super::{Scene, VALUE, credential};
use crate::stage::within;

/// Larger than what curl sends without waiting for `100 Continue`.
const BIG: usize = 3 << 20;
const CONTENT: &str = "0123456789";

fn answer(request: &Request) -> Reply {
    if request.header("authorization") != format!("Bearer {VALUE}") {
        return Reply::status(401);
    }
    match (request.path(), request.header("range")) {
        ("/away", _) => Reply::status(302).with("location", "https://other.example/there"),
        ("/file", "bytes=2-5") => {
            let part = Reply::new("text/plain", &CONTENT[2..=5]).with("content-range", "bytes 2-5/10");
            Reply { status: 206, ..part }
        }
        ("/file", _) => Reply::new("text/plain", CONTENT).with("content-length", "10"),
        _ => Reply::new("text/plain", request.body.len().to_string()),
    }
}

pub(super) fn transfers() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let mut scene = Scene::new();
        scene.serve("api.example", answer).await;
        let early = scene.authority.serve("early.example", |head, stream| {
            assert!(head.contains(&format!("Bearer {VALUE}\r\n")), "{head}");
            write!(stream, "HTTP/1.1 413 Too large\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlarge")
        });
        scene.names.insert("early.example".to_owned(), early);
        scene.serve("other.example", |_| Reply::new("text/plain", "there")).await;
        let key = credential("API_KEY", "api.example", Placement::Bearer);
        let early = credential("EARLY", "early.example", Placement::Bearer);
        let stage = scene.open(&[key, early], &["other.example"]).await;
        let curl = |more: &str| format!("curl -sS --fail -H \"Authorization: Bearer $API_KEY\" {more}");
        assert_eq!(stage.run(&curl("https://api.example/file")).await, CONTENT);
        assert_eq!(stage.run(&curl("-r 2-5 https://api.example/file")).await, "2345");

        stage.run(&format!("head -c {BIG} /dev/urandom > big")).await;
        stage.received();
        assert_eq!(stage.run(&curl("-T big https://api.example/put")).await, BIG.to_string());
        let sent = stage.received();
        assert_eq!(sent[0].header("content-length"), BIG.to_string());
        let waits = stage.run(&curl("-v -o /dev/null -T big https://api.example/put 2>&1")).await;
        assert!(
            waits.contains("> Expect: 100-continue") && waits.contains("< HTTP/1.1 100 Continue"),
            "{waits}"
        );
        stage.received();
        assert_eq!(
            stage.run(&format!("cat big | {}", curl("-T - https://api.example/put"))).await,
            BIG.to_string()
        );
        let sent = stage.received();
        assert_eq!(sent[0].header("transfer-encoding"), "chunked");
        let form = curl("-F 'file=@big;filename=a' https://api.example/form");
        assert!(stage.run(&form).await.parse::<usize>().unwrap() > BIG);
        stage.received();

        assert!(stage.run(&curl("-I https://api.example/file")).await.contains("content-length: 10"));
        stage.received();
        // A server may answer before it has read the body, and close the connection.
        let early = "curl -sS -H \"Authorization: Bearer $EARLY\" -w ' %{http_code}' -H 'Expect:'";
        for _ in 0..5 {
            assert_eq!(stage.run(&format!("{early} -T big https://early.example/put")).await, "large 413");
        }

        // The value goes to the declared host alone. The other one is a tunnel, and its authority is unknown here. curl drops the header by itself, unless it is told to keep it.
        assert_eq!(stage.run(&curl("-k -L https://api.example/away")).await, "there");
        let requests = stage.received();
        assert_eq!(
            requests.iter().map(|request| request.host).collect::<Vec<_>>(),
            ["api.example", "other.example"]
        );
        assert_eq!(requests[1].header("authorization"), "");
        assert_eq!(stage.run(&curl("-k -L --location-trusted https://api.example/away")).await, "there");
        let requests = stage.record.take();
        let kept = requests[1].header("authorization");
        assert!(kept.starts_with("Bearer koze_cred_") && !kept.contains(VALUE), "{requests:?}");

        // A wrong placeholder is not replaced, and the server's answer is curl's error.
        let failed =
            stage.fail("curl -sS --fail -H 'Authorization: Bearer no' https://api.example/file").await;
        assert!(failed.contains("401"), "{failed}");
    })
}
