//! The targets on the host for escape attempts.
#![allow(unsafe_code, reason = "shared memory of System V's kind has no safe form")]

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use data_encoding::HEXLOWER;
use rustix::termios::Winsize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::janitor;
use super::probes::{CREDENTIAL_HOST, DENIED_HOST, TERMINAL, Target};
use super::stage::{Servers, Stage, at, open_to_all};
use super::{Fault, is_root};
use crate::LocalSandbox;
use koze_core::sandbox::{Sandbox, Write};
use koze_egress::{Authority, Internet, TRUST_VARIABLES};

/// The host user of sandboxes if koze runs as root and all sandboxes share one.
const UNPRIVILEGED: u32 = 100_000;

const SECRET: &str = "the-secret-of-the-host";

/// Secrets, listeners and processes. Dropping it removes them.
pub(super) struct Scene {
    pub(super) target: Target,
    _victim: Victim,
    _memory: Memory,
    _leaked: OwnedFd,
    _terminal: OwnedFd,
    _listening: (TcpListener, UnixListener, UnixListener),
    /// The servers that sandboxes reach by name.
    pub(super) servers: Servers,
    _serving: JoinSet<()>,
    pub(super) neighbour: LocalSandbox,
}

impl Scene {
    pub(super) async fn new(dir: &Path, stage: &Stage) -> Result<Self, Fault> {
        static COUNT: AtomicI32 = AtomicI32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();

        let root = dir;
        let dir = dir.join("host");
        fs::create_dir(&dir)?;
        open_to_all(&dir)?;
        for (name, mode) in [("secret", 0o644), ("open", 0o666)] {
            fs::write(dir.join(name), SECRET)?;
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode))?;
        }
        let in_directory = UnixListener::bind(dir.join("socket"))?;
        fs::set_permissions(dir.join("socket"), fs::Permissions::from_mode(0o777))?;
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let abstract_name = format!("koze-proof-{pid}-{count}");
        let name = UnixAddr::from_abstract_name(&abstract_name)?;
        let listening = UnixListener::bind_addr(&name)?;
        // Without CLOEXEC, as in many programs.
        let flags = rustix::fs::OFlags::RDONLY;
        let leaked = rustix::fs::open(dir.join("secret"), flags, rustix::fs::Mode::empty())?;

        let (open_terminal, terminal) = terminal()?;

        let mut victim = Command::new("sleep");
        victim
            .arg("1000")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        if is_root() {
            victim.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        }
        // Set after the change of user, which would reset it: if this program is killed, the kernel kills that process
        // too.
        let end_with_this = || {
            let kill = Some(rustix::process::Signal::KILL);
            Ok(rustix::process::set_parent_process_death_signal(kill)?)
        };
        // SAFETY: one system call.
        unsafe { victim.pre_exec(end_with_this) };
        let victim = Victim(victim.spawn()?);

        let key = pid.cast_signed().wrapping_mul(1000).wrapping_add(count);
        // SAFETY: creates a segment without mapping it.
        let memory = unsafe { libc::shmget(key, 4096, libc::IPC_CREAT | libc::IPC_EXCL | 0o666) };
        if memory < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        janitor::note_memory(root, memory)?;
        let memory = Memory(memory);

        // An authority of its own vouches for the host of the credential.
        let upstream = root.join("upstream");
        fs::create_dir(&upstream)?;
        let authority = Authority::open(&upstream, &Internet::default())?;
        let tls = TlsAcceptor::from(authority.server(CREDENTIAL_HOST)?);
        let mut serving = JoinSet::new();

        let neighbour = stage.open("neighbour").await?;
        neighbour.write(at("/workspace/secret"), SECRET.into(), Write::Replace).await?;
        let target = Target {
            dir: dir.clone(),
            secret: SECRET.to_owned(),
            neighbour: directory(stage)?.join("files/workspace/secret"),
            port: tcp.local_addr()?.port(),
            abstract_name,
            victim: victim.0.id().cast_signed(),
            memory: key,
            variable: variable(),
            terminal,
            authority: HEXLOWER.encode(authority.root()),
        };
        let servers = Servers {
            plain: serve_plain(&mut serving, &target).await?,
            tls: serve_tls(&mut serving, tls).await?,
            authority: authority.root().to_vec(),
            value: target.value(),
        };
        Ok(Scene {
            target,
            _victim: victim,
            _memory: memory,
            _leaked: leaked,
            _terminal: open_terminal,
            _listening: (tcp, in_directory, listening),
            servers,
            _serving: serving,
            neighbour,
        })
    }

    /// Returns whether nothing has changed.
    pub(super) fn is_untouched(&self) -> bool {
        let same = |name| fs::read_to_string(self.target.dir.join(name)).is_ok_and(|text| text == SECRET);
        let files = fs::read_dir(&self.target.dir).map(Iterator::count);
        same("secret") && same("open") && files.is_ok_and(|count| count == 3)
    }
}

/// Opens a terminal that every user may use. Returns its master and its path.
fn terminal() -> Result<(OwnedFd, PathBuf), Fault> {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let (ws_row, ws_col) = TERMINAL;
    rustix::termios::tcsetwinsize(&master, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 })?;
    let path = PathBuf::from(ptsname(&master, Vec::new())?.into_string()?);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
    Ok((master, path))
}

/// Serves two hosts. A request for the one that is not allowed, or with the value of the credential, gets the secret.
async fn serve_plain(serving: &mut JoinSet<()>, target: &Target) -> std::io::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let value = target.value();
    serving.spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let respond = respond(client, |head| {
                let is_other = head.contains(&format!("\r\nHost: {DENIED_HOST}\r\n"));
                if is_other || head.contains(&value) { SECRET.to_owned() } else { "nothing".to_owned() }
            });
            let _ = tokio::time::timeout(Duration::from_secs(10), respond).await;
        }
    });
    Ok(address)
}

/// Serves the host of the credential, which repeats the head of each request.
async fn serve_tls(serving: &mut JoinSet<()>, tls: TlsAcceptor) -> std::io::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    serving.spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let respond = async { respond(tls.accept(client).await?, str::to_owned).await };
            let _ = tokio::time::timeout(Duration::from_secs(10), respond).await;
        }
    });
    Ok(address)
}

async fn respond(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    body: impl Fn(&str) -> String,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && client.read_buf(&mut head).await? > 0 {}
    let body = body(&String::from_utf8_lossy(&head));
    let response =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    client.write_all(response.as_bytes()).await?;
    client.shutdown().await
}

/// A process that runs while this is held.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A System V shared memory segment, which outlives a program that does not remove it.
struct Memory(libc::c_int);

impl Drop for Memory {
    fn drop(&mut self) {
        janitor::remove_memory(self.0);
    }
}

/// Returns the directory of the only existing sandbox.
fn directory(stage: &Stage) -> Result<PathBuf, Fault> {
    let all = fs::read_dir(&stage.state)?.flatten().map(|entry| entry.path());
    let newest = all.filter(|path| path.join("files").is_dir());
    newest
        .max_by_key(|path| fs::metadata(path).and_then(|about| about.modified()).ok())
        .ok_or("no sandbox is there".into())
}

/// Returns the name of a variable that sandboxes do not set themselves. Without one, the attempt finds nothing.
fn variable() -> String {
    const OWN: &[&str] = &[
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LC_CTYPE",
        "TMPDIR",
        "IMAGE",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
        "NODE_USE_ENV_PROXY",
        "OMP_NUM_THREADS",
        "PIP_BREAK_SYSTEM_PACKAGES",
    ];
    let names = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    let names = names.filter_map(|(name, _)| name.into_string().ok());
    names
        .filter(|name| !TRUST_VARIABLES.contains(&name.as_str()))
        .find(|name| !OWN.contains(&name.as_str()) && !name.to_ascii_lowercase().ends_with("_proxy"))
        .unwrap_or_default()
}
