//! Ports of a sandbox, accessed like a browser.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use koze_core::sandbox::Status;
use koze_core::{Code, Provider, Sandbox, SessionId};
use koze_local::{Local, Objects};

use crate::Test;
use crate::server::{self, Browser, chunk, head};
use crate::stage::{Stage, command, id, out, settings, sh, until, within};

pub(crate) const TESTS: &[Test] = &[
    ("preview_answers", preview_answers),
    ("preview_hides_the_rest", preview_hides_the_rest),
    ("preview_streams", preview_streams),
    ("preview_upgrades", preview_upgrades),
    ("preview_of_misbehaving_servers", preview_of_misbehaving_servers),
    ("preview_of_misbehaving_clients", preview_of_misbehaving_clients),
    ("preview_sleeps_and_wakes", preview_sleeps_and_wakes),
    ("preview_outlives_its_provider", preview_outlives_its_provider),
    ("preview_of_two_providers", preview_of_two_providers),
    ("preview_a_thousand_times", preview_a_thousand_times),
    ("preview_of_a_killed_guest", preview_of_a_killed_guest),
    ("preview_is_out_of_reach", preview_is_out_of_reach),
    ("preview_passes_idle_connections", preview_passes_idle_connections),
    ("objects_pass_idle_connections", objects_pass_idle_connections),
];

fn preview_answers() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a-b").await;
        assert!(sandbox.capabilities().expose);
        assert_eq!(sandbox.expose(0).await.unwrap_err().code, Code::InvalidInput);
        let url = sandbox.expose(8080).await.unwrap();
        assert!(url.starts_with("http://8080-a-b-"), "{url}");
        let browser = Browser::new(&url);
        let (status, text) = browser.get("/echo");
        assert!(status == 502 && text.contains("nothing listens on port 8080 of the sandbox"), "{text}");
        server::inside(&sandbox, "127.0.0.1:8080").await;
        server::start(&sandbox, "[::1]:8081").await;
        let host = &browser.host;
        let (status, text) = browser.get("/echo?a=b&c=%20");
        assert_eq!(status, 200, "{text}");
        let (status, text) = browser.send(&format!(
            "POST /echo HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Host: else\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\n\
             X-Other: 2\r\nContent-Length: 4\r\n\r\nbody"
        ));
        assert_eq!(status, 200, "{text}");
        let echoed = text.split_once("\r\n\r\n").unwrap().1;
        assert!(
            echoed.starts_with("POST /echo HTTP/1.1\r\n") && echoed.ends_with("\r\n\r\nbody"),
            "{echoed}"
        );
        for line in [
            format!("Host: {host}"),
            format!("x-forwarded-host: {host}"),
            "x-forwarded-proto: http".into(),
            "X-Other: 2".into(),
        ] {
            assert_eq!(
                echoed.lines().filter(|found| found.eq_ignore_ascii_case(&line)).count(),
                1,
                "{line}: {echoed}"
            );
        }
        assert!(!echoed.contains("X-Mine") && !echoed.contains("else"), "{echoed}");
        // An absolute URL in the request line, and a name in capitals.
        let (status, _) = browser.send(&format!(
            "GET {}echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            url.to_uppercase().replace("HTTP://", "http://")
        ));
        assert_eq!(status, 200);
        // The same URL again, and another port of the same sandbox, which listens only on IPv6.
        assert_eq!(sandbox.expose(8080).await.unwrap(), url);
        let other = sandbox.expose(8081).await.unwrap();
        assert_eq!(other, url.replace("8080-", "8081-"));
        assert_eq!(Browser::new(&other).get("/echo").0, 200);
    })
}

fn preview_hides_the_rest() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (one, two) = (stage.open("one").await, stage.open("two").await);
        let urls = [one.expose(8080).await.unwrap(), two.expose(8080).await.unwrap()];
        let token = |url: &str| url.split('.').next().unwrap().rsplit('-').next().unwrap().to_owned();
        let tokens: HashSet<_> = urls.iter().map(|url| token(url)).collect();
        assert!(tokens.len() == 2 && tokens.iter().all(|token| token.len() == 32));
        let browser = Browser::new(&urls[0]);
        let right = &browser.host;
        let mut wrong = right.clone().into_bytes();
        let last = right.find('.').unwrap() - 1;
        wrong[last] = if wrong[last] == b'0' { b'1' } else { b'0' };
        let wrong = String::from_utf8(wrong).unwrap();
        let answers: HashSet<_> = [
            &wrong,
            // The token of another sandbox, an unknown name, a missing token, and an invalid name.
            &right.replace("-one-", "-two-"),
            &right.replace("-one-", "-three-"),
            &right.replace(&token(&urls[0]), ""),
            // At the host of a server that forwards requests, the token decides as well.
            &wrong.replace(".localhost", ".example"),
            &right.replace("8080-", "99999-"),
            &format!("localhost:{}", browser.port),
            &format!("127.0.0.1:{}", browser.port),
            &String::new(),
            &format!("{right}\r\nHost: {right}"),
        ]
        .into_iter()
        .map(|host| {
            let (status, text) =
                browser.send(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
            assert_eq!(status, 404, "{host}: {text}");
            text.lines().filter(|line| !line.starts_with("date:")).collect::<String>()
        })
        .collect();
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(browser.get("/").0, 502);
        one.destroy().await.unwrap();
        assert_eq!(browser.get("/").0, 404);
        // A new sandbox with that name is a different one.
        let again = stage.open("one").await.expose(8080).await.unwrap();
        assert_ne!(token(&again), token(&urls[0]));
        assert_eq!(browser.get("/").0, 404);
        assert_eq!(one.expose(8080).await.unwrap_err().code, Code::NotFound);
    })
}

fn preview_streams() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        server::inside(&sandbox, "127.0.0.1:8080").await;
        let browser = Browser::new(&sandbox.expose(8080).await.unwrap());
        // Each line comes back before the next is sent.
        let mut stream = browser.connect();
        write!(
            stream.get_mut(),
            "POST /lines HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
            browser.host
        )
        .unwrap();
        assert!(head(&mut stream).unwrap().starts_with("HTTP/1.1 200"));
        for line in ["data: one\n\n", "data: two\n\n"] {
            write!(stream.get_mut(), "{:x}\r\n{line}\r\n", line.len()).unwrap();
            assert_eq!(chunk(&mut stream).unwrap().unwrap(), line.as_bytes());
        }
        write!(stream.get_mut(), "0\r\n\r\n").unwrap();
        assert_eq!(chunk(&mut stream).unwrap(), None);
        let (status, text) = browser.get("/large");
        assert_eq!((status, text.split_once("\r\n\r\n").unwrap().1.len()), (200, 30_000_000));
    })
}

fn preview_upgrades() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        server::inside(&sandbox, "127.0.0.1:8080").await;
        let browser = Browser::new(&sandbox.expose(8080).await.unwrap());
        let mut stream = upgraded(&browser, "together");
        let mut answer = [0; 8];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"TOGETHER");
        stream.get_mut().write_all(b"later").unwrap();
        stream.read_exact(&mut answer[..5]).unwrap();
        assert_eq!(&answer[..5], b"LATER");
        // One direction ends, and the other continues.
        stream.get_mut().shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"BYE");
        assert_eq!(browser.get("/unasked").0, 502);
    })
}

/// An upgraded connection, with data that is sent along with the request.
fn upgraded(browser: &Browser, along: &str) -> std::io::BufReader<std::net::TcpStream> {
    let mut stream = browser.connect();
    let host = &browser.host;
    write!(
        stream.get_mut(),
        "GET /upgrade HTTP/1.1\r\nHost: {host}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: shout\r\n\r\n{along}"
    )
    .unwrap();
    let head = head(&mut stream).unwrap().to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101") && head.contains("upgrade: shout"), "{head}");
    stream
}

fn preview_of_misbehaving_servers() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        server::inside(&sandbox, "127.0.0.1:8080").await;
        let browser = Browser::new(&sandbox.expose(8080).await.unwrap());
        for path in ["/garbage", "/long-head", "/closes"] {
            let (status, text) = browser.get(path);
            assert_eq!(status, 502, "{path}: {text}");
        }
        let (status, text) = browser.get("/twice");
        assert!(status == 200 && text.contains("four"), "{text}");
        assert!(!text.to_ascii_lowercase().contains("content-length"), "{text}");
        let (status, text) = browser.get("/half");
        assert!(status == 200 && text.ends_with("half"), "{text}");
        assert_eq!(browser.get("/echo").0, 200);
    })
}

fn preview_of_misbehaving_clients() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        server::inside(&sandbox, "127.0.0.1:8080").await;
        let browser = Browser::new(&sandbox.expose(8080).await.unwrap());
        let host = &browser.host;
        // Idle clients, incomplete requests and disconnects do not block others.
        let silent: Vec<_> = (0..20).map(|_| browser.connect()).collect();
        for half in ["GET / HT", "GET /never HTTP/1.1\r\nHost: "] {
            browser.connect().get_mut().write_all(half.as_bytes()).unwrap();
        }
        let mut gone = browser.connect();
        write!(gone.get_mut(), "GET /never HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        drop(gone);
        assert_eq!(browser.get("/echo").0, 200);
        drop(silent);
        // One body, whatever the headers say about its length, and nothing after it.
        let (status, text) = browser.send(&format!(
            "POST /echo HTTP/1.1\r\nHost: {host}\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n\
             4\r\nbody\r\n0\r\n\r\n"
        ));
        let text = text.to_ascii_lowercase();
        assert!(
            status == 200 && text.ends_with("\r\n\r\nbody") && text.contains("connection: close"),
            "{text}"
        );
        assert!(!text.contains("content-length: 6"), "{text}");
        for bad in [
            format!("POST /echo HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"),
            format!("POST /echo HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked, x\r\n\r\n"),
            "nonsense\r\n\r\n".into(),
        ] {
            assert_eq!(browser.send(&bad).0, 400, "{bad}");
        }
        let long = "x".repeat(1 << 20);
        let status = browser.send(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nX: {long}\r\n\r\n")).0;
        assert!(status == 431 || status == 0, "{status}");
        assert_eq!(
            browser.send(&format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).0,
            405
        );
        assert_eq!(browser.get("/echo").0, 200);
    })
}

fn preview_sleeps_and_wakes() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let mut settings = settings();
        settings.sleep_after = Duration::from_millis(500);
        let sandbox = stage.local.open(&id("a"), &settings).await.unwrap().sandbox;
        server::inside(&sandbox, "127.0.0.1:8080").await;
        let browser = Browser::new(&sandbox.expose(8080).await.unwrap());
        // An open connection keeps it awake.
        let mut stream = upgraded(&browser, "");
        tokio::time::sleep(Duration::from_secs(2)).await;
        stream.get_mut().write_all(b"up").unwrap();
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"UP");
        // A request whose browser has disconnected does not.
        let mut gone = browser.connect();
        write!(gone.get_mut(), "GET /never HTTP/1.1\r\nHost: {}\r\n\r\n", browser.host).unwrap();
        drop((stream, gone));
        until("it sleeps", async || sandbox.status().await.unwrap() == Status::Sleeping).await;
        // A request wakes it; its programs have ended.
        assert_eq!(browser.get("/echo").0, 502);
        assert_eq!(sandbox.status().await.unwrap(), Status::Running);
        server::start(&sandbox, "127.0.0.1:8080").await;
        assert_eq!(browser.get("/echo").0, 200);
    })
}

fn preview_outlives_its_provider() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let Stage { local, state } = Stage::new();
        let sandbox = local.open(&id("a"), &settings()).await.unwrap().sandbox;
        server::inside(&sandbox, "127.0.0.1:8080").await;
        let url = sandbox.expose(8080).await.unwrap();
        let browser = Browser::new(&url);
        assert_eq!(browser.get("/echo").0, 200);
        drop((sandbox, local));
        until("nobody listens", async || std::net::TcpStream::connect(("127.0.0.1", browser.port)).is_err())
            .await;
        let local = Local::new(state.path()).unwrap();
        // It exists, although this provider has not opened it.
        assert_eq!(browser.get("/echo").0, 502);
        let sandbox = local.open(&id("a"), &settings()).await.unwrap().sandbox;
        server::start(&sandbox, "127.0.0.1:8080").await;
        assert_eq!(browser.get("/echo").0, 200);
        assert_eq!(sandbox.expose(8080).await.unwrap(), url);
    })
}

fn preview_of_two_providers() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        server::inside(&sandbox, "127.0.0.1:8080").await;
        let browser = Browser::new(&sandbox.expose(8080).await.unwrap());
        let other = Local::new(stage.state.path()).unwrap();
        let theirs = other.open(&id("b"), &settings()).await.unwrap().sandbox;
        let there = Browser::new(&theirs.expose(8080).await.unwrap());
        assert_ne!(there.port, browser.port);
        // The right name and token, at the program that does not run the sandbox.
        let wrong = Browser { host: browser.host.clone(), port: there.port };
        let (status, text) = wrong.get("/echo");
        assert!(status == 503 && text.contains("another koze process"), "{text}");
        assert_eq!(browser.get("/echo").0, 200);
    })
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn preview_a_thousand_times() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        server::inside(&sandbox, "127.0.0.1:8080").await;
        let browser = Browser::new(&sandbox.expose(8080).await.unwrap());
        assert_eq!(browser.get("/echo").0, 200);
        let mut stream = browser.connect();
        for n in 0..1000 {
            let body = format!("number {n}");
            let length = body.len();
            write!(
                stream.get_mut(),
                "POST /echo HTTP/1.1\r\nHost: {}\r\nContent-Length: {length}\r\n\r\n{body}",
                browser.host
            )
            .unwrap();
            let head = head(&mut stream).unwrap();
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
            let mut echoed = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut echoed).unwrap();
            assert!(echoed.ends_with(body.as_bytes()), "{n}");
        }
        // Two programs at once.
        let at_once: Vec<_> = (0..8)
            .map(|_| {
                let browser = Browser { host: browser.host.clone(), port: browser.port };
                std::thread::spawn(move || (0..25).for_each(|_| assert_eq!(browser.get("/echo").0, 200)))
            })
            .collect();
        for thread in at_once {
            thread.join().unwrap();
        }
        drop(stream);
        // Other tests of this process open descriptors too; a leak would be one per request.
        let few = async || {
            let sockets = |inode: &str| inode.starts_with("socket:");
            let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let targets = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            targets.filter(|target| sockets(&target.to_string_lossy())).count() < 400 && descriptors() < 900
        };
        until("the connections are closed", few).await;
    })
}

fn preview_of_a_killed_guest() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        server::inside(&sandbox, "127.0.0.1:8080").await;
        let browser = Browser::new(&sandbox.expose(8080).await.unwrap());
        let mut open = upgraded(&browser, "");
        let waiting = {
            let browser = Browser { host: browser.host.clone(), port: browser.port };
            std::thread::spawn(move || browser.get("/never"))
        };
        until("it has come", async || {
            // Two connections to port 8080: the open one, and this one.
            let connections = "grep -c ':1F90 [0-9A-F:]* 01 ' /proc/net/tcp || true";
            out(&sandbox, connections).await.parse::<u32>().unwrap() == 2
        })
        .await;
        sandbox.destroy().await.unwrap();
        assert_eq!(waiting.join().unwrap().0, 502);
        assert_eq!(open.read(&mut [0]).unwrap_or(0), 0);
        assert_eq!(browser.get("/echo").0, 404);
    })
}

fn preview_is_out_of_reach() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let (one, two) = (stage.open("one").await, stage.online("two", &[], &[]).await);
        server::inside(&one, "127.0.0.1:8080").await;
        let browser = Browser::new(&one.expose(8080).await.unwrap());
        assert_eq!(browser.get("/echo").0, 200, "the control");
        // Neither directly nor through the proxy, under any name.
        let host = &browser.host;
        let direct = format!("exec 3<>/dev/tcp/127.0.0.1/{}", browser.port);
        assert_ne!(two.exec(command(&["bash", "-c", &direct])).await.unwrap().exit_code, 0);
        for target in
            [host.clone(), format!("localhost:{}", browser.port), format!("127.0.0.1:{}", browser.port)]
        {
            let request = format!(
                "GET http://{target}/echo HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n"
            );
            let script = format!("exec 3<>/dev/tcp/127.0.0.1/3128; printf '{request}' >&3; head -1 <&3");
            let answer = two.exec(command(&["bash", "-c", &script])).await.unwrap();
            let answer = String::from_utf8(answer.stdout).unwrap();
            assert!(
                answer.starts_with("HTTP/1.1 403") || answer.starts_with("HTTP/1.1 502"),
                "{target}: {answer}"
            );
        }
        assert_ne!(
            sh(&one, "grep -q :0C38 /proc/net/tcp").await.exit_code,
            0,
            "no proxy where there is no internet"
        );
    })
}

fn preview_passes_idle_connections() -> Result<(), libtest_mimic::Failed> {
    within(async {
        for _ in 0..3 {
            let stage = Stage::new();
            let browser = Browser::new(&stage.open("a").await.expose(8080).await.unwrap());
            // Nothing listens there, and the preview reports it.
            if server::passes_idle_ones(browser.port, || assert_eq!(browser.get("/").0, 502)) {
                return;
            }
        }
        panic!("the browser waited until idle connections were closed");
    })
}

fn objects_pass_idle_connections() -> Result<(), libtest_mimic::Failed> {
    within(async {
        for _ in 0..3 {
            let stage = Stage::new();
            let session = SessionId::new("tests", "local").unwrap();
            let objects = Objects::serve(stage.local.clone(), session).unwrap();
            let worker = Browser::new(&format!("{}/", objects.url()));
            let token = objects.token();
            let request = format!("GET / HTTP/1.1\r\nkoze-token: {token}\r\nConnection: close\r\n\r\n");
            // With the token, other errors are reported in detail.
            if server::passes_idle_ones(worker.port, || assert_eq!(worker.send(&request).0, 400)) {
                return;
            }
        }
        panic!("the Worker waited until idle connections were closed");
    })
}
