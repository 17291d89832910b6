//! The value of a credential. Programs have a placeholder.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER_PERMISSIVE;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{ALLOWED_HOST, CREDENTIAL, CREDENTIAL_HOST, Target, nothing};
use koze_egress::{BUNDLE, PORT};

/// The longest mapping that is searched, in bytes.
const MAX_MAPPING: u64 = 64 << 20;
/// The longest file that is searched, in bytes.
const MAX_FILE: u64 = 4 << 20;
/// The timeout of a connection.
const TIME: Option<Duration> = Some(Duration::from_secs(10));
/// The directories with what koze and programs write.
const PLACES: [&str; 8] = ["/etc", "/home", "/workspace", "/tmp", "/var", "/run", "/dev/shm", "/mnt"];

/// Searches this program's environment, and that of every process.
pub(super) fn environment(target: &Target) -> io::Result<()> {
    let value = target.value();
    let processes = fs::read_dir("/proc")?.flatten().map(|entry| entry.path().join("environ"));
    let own = std::env::vars_os().any(|(_, text)| text.to_string_lossy().contains(&value));
    let is_in = |path| fs::read(path).is_ok_and(|text| contains(&text, &value));
    if own || processes.into_iter().any(is_in) { Ok(()) } else { Err(nothing("it is in no environment")) }
}

/// Searches the memory of every other process, among them one with this program's variables.
pub(super) fn memory(target: &Target) -> io::Result<()> {
    let value = target.value();
    let other = Other::start()?;
    let own = std::process::id().to_string();
    let mut has_read = false;
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        // This program has the value to compare with.
        if name.to_str().is_none_or(|name| name == own || name.parse::<u32>().is_err()) {
            continue;
        }
        let Ok(is_found) = is_in_memory(&entry.path(), &value) else { continue };
        has_read |= name.to_str() == Some(&other.0.id().to_string());
        if is_found {
            return Ok(());
        }
    }
    Err(nothing(if has_read { "it is in no process" } else { "no memory can be read" }))
}

/// A process that only waits.
struct Other(Child);

impl Other {
    fn start() -> io::Result<Self> {
        Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().map(Other)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_in_memory(process: &Path, value: &str) -> io::Result<bool> {
    let maps = fs::read_to_string(process.join("maps"))?;
    let mut memory = File::open(process.join("mem"))?;
    let address = |text: &str| u64::from_str_radix(text, 16).ok();
    let ranges = maps.lines().filter_map(|line| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        Some((address(start)?, address(end)?))
    });
    for (start, end) in ranges {
        let mut bytes = Vec::new();
        // Some mappings cannot be read.
        let read = memory
            .seek(SeekFrom::Start(start))
            .and_then(|_| (&mut memory).take((end - start).min(MAX_MAPPING)).read_to_end(&mut bytes));
        if read.is_ok() && contains(&bytes, value) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Keeps the variables in a file, as programs do, and searches the disk.
pub(super) fn disk(target: &Target) -> io::Result<()> {
    let mut kept = tempfile::NamedTempFile::new_in("/home/user")?;
    for (name, text) in std::env::vars_os() {
        writeln!(kept, "{}={}", name.display(), text.display())?;
    }
    kept.flush()?;
    let value = target.value();
    let is_in = |place: &&str| is_below(Path::new(place), &value);
    if PLACES.iter().any(is_in) { Ok(()) } else { Err(nothing("it is in no file")) }
}

/// Returns whether a file below a directory contains the value. What cannot be read contains nothing.
fn is_below(directory: &Path, value: &str) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => is_below(&path, value),
            Ok(kind) if kind.is_file() => is_in_file(&path, value),
            _ => false,
        }
    })
}

fn is_in_file(path: &Path, value: &str) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes).is_ok() && contains(&bytes, value)
}

/// Sends the credential to a host that it is not for, without TLS. That host tells whether it got the value.
pub(super) fn another_host(target: &Target) -> io::Result<()> {
    let mut proxy = connect()?;
    write!(
        proxy,
        "GET http://{ALLOWED_HOST}/ HTTP/1.1\r\nHost: {ALLOWED_HOST}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        credential()?
    )?;
    find(proxy, &target.secret)
}

/// Sends the credential to its host, which repeats it.
pub(super) fn echo(target: &Target) -> io::Result<()> {
    let mut proxy = connect()?;
    write!(proxy, "CONNECT {CREDENTIAL_HOST}:443 HTTP/1.1\r\nHost: {CREDENTIAL_HOST}:443\r\n\r\n")?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        proxy.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let name = ServerName::try_from(CREDENTIAL_HOST).map_err(io::Error::other)?;
    let session = ClientConnection::new(client_config(target)?, name).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(session, proxy);
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: {CREDENTIAL_HOST}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        credential()?
    )?;
    find(stream, &target.value())
}

/// Trusts what programs of the sandbox trust, and the authority of the host itself, whose certificate is there without koze's proxy.
fn client_config(target: &Target) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let own = HEXLOWER_PERMISSIVE.decode(target.authority.as_bytes()).map_err(io::Error::other)?;
    roots.add(CertificateDer::from(own)).map_err(io::Error::other)?;
    if let Ok(bundle) = CertificateDer::pem_file_iter(format!("/{BUNDLE}")) {
        roots.add_parsable_certificates(bundle.flatten());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// Connects to the proxy of the sandbox.
fn connect() -> io::Result<TcpStream> {
    let proxy = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT))?;
    proxy.set_read_timeout(TIME)?;
    proxy.set_write_timeout(TIME)?;
    Ok(proxy)
}

/// Returns what programs have of the credential.
fn credential() -> io::Result<String> {
    std::env::var(CREDENTIAL).map_err(|_| nothing("programs do not have the variable"))
}

/// Succeeds if a response contains a text.
fn find(mut stream: impl Read, text: &str) -> io::Result<()> {
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    if contains(&response, text) {
        return Ok(());
    }
    let response = String::from_utf8_lossy(&response);
    Err(nothing(response.lines().next().unwrap_or("the connection was closed")))
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
