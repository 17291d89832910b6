//! What there is to take on the host, for the attempts to escape.
#![allow(unsafe_code, reason = "shared memory of System V's kind has no safe form")]

use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};

use koze::Sandbox;
use koze::provider::local::LocalSandbox;
use koze::sandbox::Write;
use tempfile::TempDir;

use crate::probes::Target;
use crate::stage::{Stage, at, is_root, open_to_all, out};

/// The user who a sandbox's user is on the host, where the host's is root and sandboxes share one.
const UNPRIVILEGED: u32 = 100_000;

const SECRET: &str = "the-secret-of-the-host";

/// Secrets, and who listens and runs. All of it goes with this.
pub(crate) struct Scene {
    pub(crate) target: Target,
    victim: Child,
    memory: libc::c_int,
    _dir: TempDir,
    _leaked: OwnedFd,
    _listening: (TcpListener, UnixListener, UnixListener),
    _neighbour: LocalSandbox,
}

impl Scene {
    pub(crate) async fn new(stage: &Stage) -> Self {
        static COUNT: AtomicI32 = AtomicI32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();

        let dir = tempfile::tempdir().unwrap();
        open_to_all(dir.path());
        for (name, mode) in [("secret", 0o644), ("open", 0o666)] {
            fs::write(dir.path().join(name), SECRET).unwrap();
            fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let in_directory = UnixListener::bind(dir.path().join("socket")).unwrap();
        fs::set_permissions(dir.path().join("socket"), fs::Permissions::from_mode(0o777)).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let abstract_name = format!("koze-test-{pid}-{count}");
        let name = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let listening = UnixListener::bind_addr(&name).unwrap();
        // Without CLOEXEC, as many programs open theirs.
        let flags = rustix::fs::OFlags::RDONLY;
        let leaked = rustix::fs::open(dir.path().join("secret"), flags, rustix::fs::Mode::empty()).unwrap();

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
        let victim = victim.spawn().unwrap();

        let key = i32::try_from(pid).unwrap().wrapping_mul(1000) + count;
        // SAFETY: makes a segment, which is mapped nowhere.
        let memory = unsafe { libc::shmget(key, 4096, libc::IPC_CREAT | libc::IPC_EXCL | 0o666) };
        assert!(memory >= 0, "{}", std::io::Error::last_os_error());

        let neighbour = stage.open("neighbour").await;
        neighbour.write(at("/workspace/secret"), SECRET.into(), Write::Replace).await.unwrap();
        let target = Target {
            dir: dir.path().to_owned(),
            secret: SECRET.to_owned(),
            neighbour: directory(stage).join("files/workspace/secret"),
            port: tcp.local_addr().unwrap().port(),
            abstract_name,
            victim: i32::try_from(victim.id()).unwrap(),
            memory: key,
            variable: variable(),
        };
        Scene {
            target,
            victim,
            memory,
            _dir: dir,
            _leaked: leaked,
            _listening: (tcp, in_directory, listening),
            _neighbour: neighbour,
        }
    }

    /// Nothing of it was changed.
    pub(crate) fn untouched(&self) {
        for name in ["secret", "open"] {
            assert_eq!(fs::read_to_string(self.target.dir.join(name)).unwrap(), SECRET);
        }
        assert_eq!(fs::read_dir(&self.target.dir).unwrap().count(), 3);
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        // SAFETY: takes away the segment that was made above.
        unsafe { libc::shmctl(self.memory, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

/// The directory of the only sandbox there is yet.
fn directory(stage: &Stage) -> PathBuf {
    let all = fs::read_dir(stage.state.path()).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.join("files").is_dir())
        .max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap())
        .unwrap()
}

/// A variable of this program's that no sandbox has of its own.
fn variable() -> String {
    const OWN: &[&str] = &[
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LC_CTYPE", "TMPDIR", "IMAGE", "PWD", "OLDPWD", "SHLVL",
        "_",
    ];
    let names = std::env::vars().filter(|(_, value)| !value.is_empty()).map(|(name, _)| name);
    names.into_iter().find(|name| !OWN.contains(&name.as_str())).expect("cargo sets some")
}

/// Puts this program into a sandbox. Copied there once more: a process that another test starts at this moment may have
/// what is written open for an instant, and what somebody may write cannot be run.
pub(crate) async fn put_probe(sandbox: &LocalSandbox) {
    let program = fs::read(std::env::current_exe().unwrap()).unwrap();
    sandbox.write(at("/home/user/written"), program, Write::Replace).await.unwrap();
    // A process of this program that is just being started may still have what was written open, and then it cannot be
    // run: a copy is nobody's but the sandbox's.
    out(sandbox, "cp written probe && chmod 755 probe && rm written").await;
}
