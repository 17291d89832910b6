//! What it costs that the egress proxy reads requests and puts credentials into them, and that a connection is redirected to it, beside a
//! tunnel through the same proxy. `cargo
//! xtask bench` runs this, and shows what it prints: one JSON document.
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use koze_core::egress::{Credential, Placement};
use koze_core::id::{SandboxId, SandboxName};
use koze_core::provider::{Profile, Settings, Size};
use koze_core::sandbox::Command;
use koze_core::{Provider as _, Sandbox as _, SessionId};
use koze_local::{Internet, Local, LocalSandbox, Secrets};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

const HOST: &str = "api.example";
/// The size of the download in MiB, and that of a quick run.
const LARGE: [usize; 2] = [1024, 128];
/// The sandbox whose connections do not use the proxy.
const REDIRECTED: usize = 3;

/// Sends requests over one connection. Prints their times in microseconds, and then that of a download. Its arguments are the number
/// of requests and the size of the download in bytes, and whether it uses the proxy.
const CLIENT: &str = r#"
import http.client, json, os, ssl, sys, time
runs, size = int(sys.argv[1]), int(sys.argv[2])
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
if sys.argv[3] == "proxy":
    client = http.client.HTTPSConnection("127.0.0.1", 3128, context=context)
    client.set_tunnel("api.example", 443)
else:
    client = http.client.HTTPSConnection("api.example", 443, context=context)
headers = {"Authorization": "Bearer " + os.environ.get("API_KEY", "none")}
def get(path):
    start = time.perf_counter()
    client.request("GET", path, headers=headers)
    response = client.getresponse()
    buffer, read = bytearray(1 << 18), 0
    while count := response.readinto(buffer): read += count
    assert response.status == 200, response.status
    return (time.perf_counter() - start) * 1e6, read
get("/1000")
small = [get("/1000")[0] for _ in range(runs)]
took, read = get("/" + str(size))
assert read == size, read
print(json.dumps([small, took]))
"#;

fn main() {
    koze_local::init();
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (rows, notes) = koze_local::block_on(measure(quick)).expect("it ends well");
    println!("{}", json!({ "rows": rows, "notes": notes }));
}

async fn measure(quick: bool) -> (Vec<Value>, Vec<String>) {
    let (state, secrets) = (temporary(), temporary());
    let authority = Authority::new();
    let names = HashMap::from([(HOST.to_owned(), authority.serve(HOST))]);
    let internet = Internet { names, roots: vec![authority.root], ..Internet::default() };
    let values = Secrets::at(secrets.path());
    values.set("API_KEY", "a-value-of-the-benchmark").expect("a secret");
    let local = Local::with_internet(state.path(), internet).expect("sandboxes on this machine");
    let local = local.with_secrets(values);
    let key = Credential { name: "API_KEY".into(), host: HOST.into(), placement: Placement::Bearer };
    let sandboxes = [
        open(&local, "credential", &[], vec![key]).await,
        open(&local, "rule", &["GET api.example/**"], Vec::new()).await,
        open(&local, "tunnel", &[], Vec::new()).await,
        open(&local, "redirected", &[], Vec::new()).await,
    ];
    let (rounds, requests, mib) = if quick { (2, 100, LARGE[1]) } else { (5, 400, LARGE[0]) };
    let (mut small, mut large) = ([const { Vec::new() }; 4], [const { Vec::new() }; 4]);
    let before = memory("VmRSS:");
    for _ in 0..rounds {
        for (at, sandbox) in sandboxes.iter().enumerate() {
            let how = if at == REDIRECTED { "redirected" } else { "proxy" };
            let (times, took) = send(sandbox, requests, mib << 20, how).await;
            small[at].extend(times);
            large[at].push(took);
        }
    }
    let row = |what: &str, how: &str, us: &[f64], peer_us: &[f64]| json!({ "case": format!("{what} {how}"), "us": us, "peer": "a tunnel through the proxy", "peer_us": peer_us });
    let mut rows = Vec::new();
    for (what, [credential, rule, tunnel, redirected]) in
        [("1 kB".to_owned(), &small), (format!("{mib} MiB"), &large)]
    {
        rows.push(row(&what, "with a credential", credential, tunnel));
        rows.push(row(&what, "with a rule for requests", rule, tunnel));
        rows.push(row(&what, "over a redirected connection", redirected, tunnel));
    }
    let note = format!(
        "this process, with the proxy and the server, had {before} KiB of memory before the downloads, and at most {} KiB",
        memory("VmHWM:")
    );
    (rows, vec![note])
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

async fn open(local: &Local, name: &str, allowed: &[&str], credentials: Vec<Credential>) -> LocalSandbox {
    let size = Size { memory_mib: 1024, disk_mb: 1000 };
    let profile = Profile {
        internet: allowed.is_empty(),
        allowed_hosts: allowed.iter().map(|&host| host.to_owned()).collect(),
        credentials,
        ..Profile::new(name, "docker.io/library/debian:12", size)
    };
    let session = SessionId::new("bench", "egress").expect("a name");
    let id = SandboxId { session, name: SandboxName::new(name).expect("a name") };
    let settings = Settings { profile, sleep_after: Duration::from_mins(10), size: None };
    local.open(&id, &settings).await.expect("a sandbox").sandbox
}

/// Runs the client. Returns the times of its requests, and that of the download.
async fn send(sandbox: &LocalSandbox, requests: usize, bytes: usize, how: &str) -> (Vec<f64>, f64) {
    let argv = ["python3", "-c", CLIENT, &requests.to_string(), &bytes.to_string(), how];
    let command = Command {
        argv: argv.map(str::to_owned).to_vec(),
        working_dir: "/home/user".into(),
        env: Vec::new(),
        timeout: Duration::from_mins(5),
        max_output: 1 << 20,
    };
    let output = sandbox.exec(command).await.expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("the client failed: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Returns a line of what the kernel knows of this process, in KiB.
fn memory(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
}

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: Vec<u8>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).expect("a certificate").der().to_vec();
        Authority { issuer: Issuer::new(params, key), root }
    }

    /// Starts a server, which answers `/N` with N bytes.
    fn serve(&self, name: &str) -> SocketAddr {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("versions of TLS").with_no_client_auth();
        let config = Arc::new(config.with_single_cert(vec![certificate], key).expect("a certificate"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let config = Arc::clone(&config);
                // A client may end the connection at any time.
                thread::spawn(move || drop(answer_requests(stream, config)));
            }
        });
        at
    }
}

fn answer_requests(stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    let piece = vec![b'x'; 64 << 10];
    loop {
        let mut path = String::new();
        let mut line = String::new();
        while stream.read_line(&mut line)? > 2 {
            if let Some(request) = line.strip_prefix("GET /") {
                request.split(' ').next().unwrap_or_default().clone_into(&mut path);
            }
            line.clear();
        }
        let Ok(length) = path.parse::<usize>() else { return Ok(()) };
        let out = stream.get_mut();
        write!(out, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")?;
        let mut left = length;
        while left > 0 {
            let count = left.min(piece.len());
            out.write_all(&piece[..count])?;
            left -= count;
        }
        out.flush()?;
    }
}
