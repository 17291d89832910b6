//! The network of sandboxes in containers: the proxy, credentials and previews, over the connection to the guest. The internet is
//! servers on this machine, which sandboxes reach by name.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use koze_core::egress::{Credential, Placement};
use koze_core::provider::Settings;
use koze_core::sandbox::process::{Process as _, Program};
use koze_core::sandbox::{Place, Write};
use koze_core::{Code, Provider as _, Result, Sandbox as _};
use koze_engine::{Engine, EngineSandbox};
use koze_local::{Internet, Local, Secrets};
use koze_sidecar::Authority;
use koze_tests::conformance::origin;
use libtest_mimic::{Failed, Trial};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ServerConnection, StreamOwned};
use tempfile::TempDir;

use crate::engine::{can_run, id, run, settings};
use crate::in_process::{engine_image, open_engine};

/// The value of a credential.
const VALUE: &str = "the-value-of-the-key-0123456789";
/// A server with TLS, which gets the value.
const API: &str = "api.example";

pub(crate) fn trials() -> Vec<Trial> {
    if !can_run() {
        return Vec::new();
    }
    let trial = |name, play: fn() -> Result<()>| {
        Trial::test(name, move || play().map_err(Failed::from)).with_kind("engine")
    };
    vec![
        trial("containers_reach_allowed_hosts_through_the_proxy", allowed_hosts),
        trial("containers_pass_large_bodies_and_many_connections", large_and_many),
        trial("containers_without_a_network_fail_at_once", no_network),
        trial("containers_have_placeholders_of_credentials", credentials),
        trial("containers_have_the_policy_of_their_profile", refreshed),
        trial("containers_have_previews", previews),
    ]
}

struct Scene {
    state: TempDir,
    provider: Engine<Local>,
    sandbox: EngineSandbox,
}

impl Scene {
    async fn open(internet: Internet, secrets: Option<Secrets>, settings: Settings) -> Result<Self> {
        let state = TempDir::new().expect("a directory");
        let provider = open_engine(state.path()).with_internet(internet);
        let provider = match secrets {
            Some(secrets) => provider.with_secrets(secrets),
            None => provider,
        };
        let sandbox = provider.open(&id(), &settings).await?.sandbox;
        Ok(Scene { state, provider, sandbox })
    }

    /// Opens a sandbox that may reach the server of [`origin`].
    async fn with_origin() -> Result<Self> {
        let names = [(origin::NAME.to_owned(), origin::start())].into();
        Self::open(Internet { names, ..Internet::default() }, None, allowing(&[origin::NAME])).await
    }

    /// Returns the entries of the journal: host, whether it was allowed, and the rule.
    fn journal(&self) -> Vec<(String, bool, String)> {
        let entries = Local::egress(self.state.path()).expect("a journal");
        entries.into_iter().map(|entry| (entry.host, entry.allowed, entry.rule)).collect()
    }
}

fn allowing(hosts: &[&str]) -> Settings {
    let mut settings = settings(&engine_image());
    settings.profile.allowed_hosts = hosts.iter().map(|&host| host.to_owned()).collect();
    settings
}

/// Runs a script that must succeed, and returns its output.
async fn succeed(sandbox: &EngineSandbox, script: &str) -> Result<String> {
    let output = run(sandbox, script).await?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.exit_code, 0, "{script}: {stderr}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn allowed_hosts() -> Result<()> {
    pollster::block_on(async {
        let scene = Scene::with_origin().await?;
        let sandbox = &scene.sandbox;
        let name = origin::NAME;
        assert_eq!(succeed(sandbox, &format!("curl -sS http://{name}/status/200")).await?, "a text");
        // A tunnel, as for HTTPS, in which the client ends its direction first.
        let tunnel = format!(
            "exec 3<> /dev/tcp/127.0.0.1/3128; printf 'CONNECT {name}:80 HTTP/1.1\\r\\nHost: {name}\\r\\n\\r\\n' >&3; \
             read -r line <&3; echo \"$line\"; read -r line <&3; \
             printf 'GET /status/200 HTTP/1.1\\r\\nHost: {name}\\r\\nConnection: close\\r\\n\\r\\n' >&3; tail -n 1 <&3"
        );
        let text = succeed(sandbox, &tunnel).await?;
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("a text"), "{text}");
        // Another host is refused, with the reason in the response, in the result and in the journal.
        let refused = run(sandbox, "curl -sS --fail-with-body http://other.example/").await?;
        let text = String::from_utf8_lossy(&refused.stdout).into_owned();
        let note = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.exit_code != 0 && text.starts_with("koze: "), "{refused:?}");
        assert!(
            note.contains("koze: egress_refused: the network policy of the sandbox refused other.example:80"),
            "{note}"
        );
        let argv = ["curl", "-sSf", "http://third.example:81/"].map(str::to_owned).to_vec();
        let program = Program::new(argv, "/");
        let process = sandbox.start(program).await?;
        let mut note = String::new();
        let mut cursor = 0;
        loop {
            let output = process.read(cursor, 1000, Duration::from_secs(10)).await?;
            let chunks = output.chunks.iter().map(|chunk| String::from_utf8_lossy(&chunk.bytes));
            note.extend(chunks);
            cursor = output.next;
            if output.exit.is_some() {
                break;
            }
        }
        assert!(note.contains("refused third.example:81"), "{note}");
        // Nor is this machine reached.
        let near = succeed(sandbox, "curl -sS http://192.168.0.1/; curl -sS http://169.254.169.254/").await?;
        assert_eq!(near.matches("is not on the internet").count(), 2, "{near}");
        let journal = scene.journal();
        assert!(journal.contains(&(name.to_owned(), true, format!("allowed_hosts: {name}"))), "{journal:?}");
        assert!(journal.iter().any(|(host, allowed, _)| host == "other.example" && !allowed), "{journal:?}");
        sandbox.destroy().await
    })
}

fn large_and_many() -> Result<()> {
    pollster::block_on(async {
        let scene = Scene::with_origin().await?;
        let (sandbox, name) = (&scene.sandbox, origin::NAME);
        let download = format!(
            "curl -sS http://{name}/bytes/30000000 | tr -d x | wc -c; curl -sS http://{name}/bytes/30000000 | wc -c"
        );
        assert_eq!(succeed(sandbox, &download).await?, "0\n30000000\n");
        // The response repeats what was sent.
        let upload = format!(
            "head -c 3000000 /dev/zero | tr '\\0' Z | curl -sS --data-binary @- http://{name}/echo | tr -cd Z | wc -c"
        );
        assert_eq!(succeed(sandbox, &upload).await?.trim(), "3000000");
        // A program that does not read delays only itself, and one that ends early nobody.
        let slow = format!(
            "curl -sS http://{name}/bytes/30000000 | (sleep 1000) & curl -sS http://{name}/bytes/30000000 | head -c 10; \
             curl -sS http://{name}/status/200; kill %1"
        );
        assert_eq!(succeed(sandbox, &slow).await?, "xxxxxxxxxxa text");
        // More at a time than the proxy serves.
        let many = format!(
            "for n in $(seq 60); do curl -sS http://{name}/bytes/100000 | wc -c & done | grep -c '^100000$'; wait"
        );
        assert_eq!(succeed(sandbox, &many).await?, "60\n");
        // Idle connections leave room for others.
        let idle = format!(
            "for n in $(seq 100); do eval \"exec $((n + 20))<> /dev/tcp/127.0.0.1/3128\"; done; curl -sS http://{name}/status/200"
        );
        assert_eq!(succeed(sandbox, &idle).await?, "a text");
        sandbox.destroy().await
    })
}

fn no_network() -> Result<()> {
    pollster::block_on(async {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = server.local_addr().expect("its address").port();
        let scene = Scene::open(Internet::default(), None, settings(&engine_image())).await?;
        // Nothing listens in the container, names do not resolve, and there is no route.
        let script = format!(
            "curl -sS http://127.0.0.1:{port}/; echo $?; curl -sS http://127.0.0.1:3128/; echo $?; \
             curl -sS http://192.0.2.1/; echo $?; curl -sS http://name.example/; echo $?; env | grep -ci _proxy= || true"
        );
        assert_eq!(succeed(&scene.sandbox, &script).await?, "7\n7\n7\n6\n0\n");
        scene.sandbox.destroy().await
    })
}

/// Starts a server with TLS that answers each request with its head.
fn serve_echo(authority: &Authority) -> SocketAddr {
    let tls = authority.server(&[API]).expect("its certificate");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(std::result::Result::ok) {
            let session = ServerConnection::new(Arc::clone(&tls)).expect("a session");
            std::thread::spawn(move || echo(StreamOwned::new(session, stream)));
        }
    });
    address
}

fn echo(mut stream: StreamOwned<ServerConnection, TcpStream>) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_exact(&mut byte).is_err() {
            return;
        }
        head.push(byte[0]);
    }
    let plain = String::from_utf8_lossy(&head);
    // The second one shows that the value arrived, which the proxy masks.
    let seen = format!("{} {plain}", plain.contains(&format!("authorization: Bearer {VALUE}")));
    let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{seen}", seen.len());
    stream.conn.send_close_notify();
    let _ = stream.flush();
}

fn credentials() -> Result<()> {
    pollster::block_on(async {
        let authority = Authority::new().expect("an authority");
        let root = CertificateDer::from_pem_slice(authority.certificate().as_bytes()).expect("PEM");
        let names = [(API.to_owned(), serve_echo(&authority))].into();
        let internet = Internet { names, roots: vec![root.to_vec()], ..Internet::default() };
        let directory = TempDir::new().expect("a directory");
        let secrets = Secrets::at(directory.path());
        secrets.set("API_KEY", VALUE)?;
        let mut wanted = allowing(&[API]);
        wanted.profile.credentials =
            vec![Credential { name: "API_KEY".into(), host: API.into(), placement: Placement::Bearer }];
        let scene = Scene::open(internet, Some(secrets), wanted).await?;
        let sandbox = &scene.sandbox;
        let script = format!("curl -sS -H \"authorization: Bearer $API_KEY\" https://{API}/");
        for _ in 0..2 {
            let text = succeed(sandbox, &script).await?;
            assert!(text.starts_with("true GET / HTTP/1.1"), "{text}");
            // Masked in the response.
            assert!(!text.contains(VALUE), "{text}");
            // The variables and the certificates are those of every start.
            sandbox.sleep().await?;
        }
        // Neither the value nor the key of the authority is in the container.
        let search = format!(
            "grep -rls -e {} -e 'PRIVATE KEY' /proc/[0-9]*/environ /var /etc /home /tmp /workspace | wc -l; \
             echo \"$API_KEY\" | wc -c; grep -c 'BEGIN CERT' \"$CURL_CA_BUNDLE\"",
            // It is not in the command line itself.
            VALUE.replace('-', "[-]")
        );
        let found = succeed(sandbox, &search).await?;
        let counts: Vec<usize> = found.lines().map(|line| line.trim().parse().expect("a number")).collect();
        assert!(counts[0] == 0 && counts[1] > 1 && counts[2] > 0, "{found}");
        let journal = scene.journal();
        assert!(journal.iter().any(|(host, _, rule)| host == API && rule.contains("API_KEY")), "{journal:?}");
        sandbox.destroy().await
    })
}

/// A sandbox that runs when its profile changes gets the new policy, and keeps its files.
fn refreshed() -> Result<()> {
    pollster::block_on(async {
        let scene = Scene::with_origin().await?;
        let script = format!("curl -sS http://{}/status/200", origin::NAME);
        assert_eq!(succeed(&scene.sandbox, &script).await?, "a text");
        scene
            .sandbox
            .write(Place { root: "/", path: "/workspace/kept" }, b"kept".to_vec(), Write::Replace)
            .await?;
        let narrower = allowing(&["other.example"]).profile;
        let profiles = koze_core::Profiles::new(vec![narrower], "shell")?;
        scene.provider.refresh(&id().session, &profiles).await?;
        let refused = run(&scene.sandbox, &format!("{script}; cat kept; exit 1")).await?;
        let text = String::from_utf8_lossy(&refused.stdout).into_owned();
        assert!(text.starts_with("koze: ") && text.ends_with("kept"), "{text}");
        // An entry that is not valid is an error before anything changes.
        let other = koze_core::SandboxId { name: koze_core::SandboxName::new("b")?, ..id() };
        let error = scene.provider.open(&other, &allowing(&["http://x"])).await.map(drop);
        assert_eq!(error.expect_err("it is not a host").code, Code::InvalidInput);
        scene.sandbox.destroy().await
    })
}

/// Sends a request to a preview. Returns the head of the response and its body.
fn get(url: &str, path: &str) -> (String, Vec<u8>) {
    let host = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/')).expect("a URL");
    let (_, port) = host.rsplit_once(':').expect("a port");
    let mut stream =
        TcpStream::connect((Ipv4Addr::LOCALHOST, port.parse().expect("a port"))).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_mins(1))).expect("a timeout");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("a request");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("a response");
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let body = response.split_off(end + 4);
    (String::from_utf8_lossy(&response).into_owned(), body)
}

/// A server in Perl: `/big` is a long response.
const SERVER: &str = r#"
use Socket;
socket(S, PF_INET, SOCK_STREAM, 6); setsockopt(S, SOL_SOCKET, SO_REUSEADDR, 1);
bind(S, sockaddr_in(8000, INADDR_LOOPBACK)) or die; listen(S, 9);
print "listens\n"; close STDOUT;
while (accept(C, S)) {
    my $line = <C>; $line =~ m{^GET (\S+)}; my $path = $1;
    while (<C>) { last if /^\r?$/ }
    my $body = $path eq "/big" ? "z" x 20000000 : "here is $path";
    print C "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
    close C;
}
"#;

fn previews() -> Result<()> {
    pollster::block_on(async {
        let scene = Scene::open(Internet::default(), None, settings(&engine_image())).await?;
        let sandbox = &scene.sandbox;
        let path = Place { root: "/", path: "/workspace/server.pl" };
        sandbox.write(path, SERVER.as_bytes().to_vec(), Write::Replace).await?;
        let start = || async {
            let script =
                "rm -f log; nohup perl server.pl > log 2>&1 & until grep -q listens log; do sleep 0.02; done";
            succeed(sandbox, script).await
        };
        let url = sandbox.expose(8000).await?;
        let (head, body) = get(&url, "/");
        let text = String::from_utf8_lossy(&body).into_owned();
        assert!(head.contains(" 502 ") && text.contains("nothing listens on port 8000"), "{head} {text}");
        start().await?;
        let (head, body) = get(&url, "/a?b=c");
        assert!(head.starts_with("HTTP/1.1 200") && body == b"here is /a?b=c", "{head}");
        let (_, body) = get(&url, "/big");
        assert!(body.len() == 20_000_000 && body.iter().all(|byte| *byte == b'z'), "{}", body.len());
        // The URL stays the same, without the token nothing answers, and a request wakes the sandbox.
        assert_eq!(sandbox.expose(8000).await?, url);
        let (before, after) = url.rsplit_once(".localhost").expect("a host");
        let other = if before.ends_with('0') { "1" } else { "0" };
        let wrong = format!("{}{other}.localhost{after}", &before[..before.len() - 1]);
        assert!(get(&wrong, "/").0.starts_with("HTTP/1.1 404"));
        sandbox.sleep().await?;
        assert!(get(&url, "/").0.contains(" 502 "));
        start().await?;
        assert_eq!(get(&url, "/").1, b"here is /");
        let error = sandbox.expose(0).await.expect_err("it is no port");
        assert_eq!(error.code, Code::InvalidInput);
        sandbox.destroy().await?;
        assert!(get(&url, "/").0.starts_with("HTTP/1.1 404"));
        Ok(())
    })
}
