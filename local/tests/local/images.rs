//! Sandboxes whose root is an image. The images have a few programs of this machine.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use koze_core::provider::{LocalImage, Settings};
use koze_core::{Code, Provider as _, Sandbox as _};
use koze_image::{Reference, Store};
use koze_local::prove::{self, Prover};
use koze_local::{Local, LocalSandbox, is_of_sandbox};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::Test;
use crate::loaded::list_loaded;
use crate::server;
use crate::stage::{command, id, out, settings, sh, within};

pub(crate) const TESTS: &[Test] = &[
    ("images_are_roots", roots),
    ("images_keep_what_a_sandbox_changes", changes),
    ("images_have_their_user", users),
    ("images_lead_nowhere_by_links", links),
    ("images_hold_attempts_as_root", attempts),
    ("images_have_a_network", network),
    ("images_that_are_gone_are_named", gone),
    ("images_are_chosen_once", chosen_once),
    ("images_are_left_out_on_request", left_out),
    ("images_that_are_declared_are_necessary", declared),
];

type Result = std::result::Result<(), libtest_mimic::Failed>;

const PROGRAMS: [&str; 22] = [
    "bash", "cat", "chmod", "chown", "cp", "echo", "env", "find", "grep", "head", "id", "ls", "mkdir",
    "mknod", "mv", "rm", "sh", "sleep", "stat", "touch", "tr", "true",
];

/// The attempts that say nothing about the host if the root is an image: `/usr` is the sandbox's own, and changes of owners are reported as
/// successful.
const NOT_OF_IMAGES: [&str; 2] = ["write_to_usr", "change_an_inode_of_the_host"];

/// A layer in the making.
struct Layer(tar::Builder<Vec<u8>>);

impl Layer {
    fn new() -> Self {
        Layer(tar::Builder::new(Vec::new()))
    }

    fn entry(mut self, kind: tar::EntryType, path: &str, mode: u32, content: &[u8]) -> Self {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.append_data(&mut header, path, content).unwrap();
        self
    }

    fn directory(self, path: &str) -> Self {
        self.entry(tar::EntryType::Directory, path, 0o755, b"")
    }

    fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.entry(tar::EntryType::Regular, path, 0o644, content.as_ref())
    }

    fn link(mut self, path: &str, target: &str) -> Self {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_mode(0o777);
        header.set_size(0);
        self.0.append_link(&mut header, path, target).unwrap();
        self
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

/// Returns a layer with programs of this machine, and what they load.
fn programs() -> Layer {
    let find = |name: &&str| {
        ["/usr/bin", "/bin"]
            .iter()
            .map(|directory| Path::new(directory).join(name))
            .find(|path| path.exists())
    };
    let programs: Vec<PathBuf> = PROGRAMS.iter().filter_map(find).collect();
    assert_eq!(programs.len(), PROGRAMS.len());
    // This program runs in them, too.
    let all = [&programs[..], &[std::env::current_exe().unwrap()]].concat();
    let mut files = list_loaded(&all);
    files.extend(programs);
    files.into_iter().fold(Layer::new(), |layer, path| {
        let name = path.to_str().unwrap().trim_start_matches('/').to_owned();
        layer.entry(tar::EntryType::Regular, &name, 0o755, &fs::read(&path).unwrap())
    })
}

/// A store of images.
struct Images {
    place: TempDir,
}

impl Images {
    fn new() -> Self {
        Images { place: tempfile::tempdir().unwrap() }
    }

    fn directory(&self) -> PathBuf {
        self.place.path().join("images")
    }

    /// Stores an image with these layers above that of the programs.
    fn add(&self, name: &str, config: &Value, layers: Vec<Layer>) {
        let layers: Vec<_> = std::iter::once(programs()).chain(layers).map(Layer::bytes).collect();
        let digest = |bytes: &[u8]| -> String { data_encoding::HEXLOWER.encode(&Sha256::digest(bytes)) };
        let diff_ids: Vec<_> = layers.iter().map(|layer| format!("sha256:{}", digest(layer))).collect();
        let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let rootfs = json!({ "type": "layers", "diff_ids": diff_ids });
        let config =
            json!({ "os": "linux", "architecture": architecture, "rootfs": rootfs, "config": config });
        let names: Vec<_> = (0..layers.len()).map(|index| format!("{index}/layer.tar")).collect();
        let manifest = json!([{ "Config": "config.json", "RepoTags": [name], "Layers": names }]);
        let mut saved =
            Layer::new().file("manifest.json", manifest.to_string()).file("config.json", config.to_string());
        for (name, layer) in names.iter().zip(&layers) {
            saved = saved.file(name, layer);
        }
        let path = self.place.path().join("saved.tar");
        File::create(&path).unwrap().write_all(&saved.bytes()).unwrap();
        let stored = Store::open(&self.directory())
            .unwrap()
            .import(&path, Some(&name.parse().unwrap()), &|_| {})
            .unwrap();
        assert_eq!(stored.len(), 1);
    }

    fn local(&self) -> Local {
        Local::new(self.place.path().join("state")).unwrap().with_images(self.directory())
    }
}

fn with_image(name: &str) -> Settings {
    let mut settings = settings();
    name.clone_into(&mut settings.profile.reference);
    settings
}

async fn open(local: &Local, name: &str, image: &str) -> LocalSandbox {
    local.open(&id(name), &with_image(image)).await.unwrap().sandbox
}

fn roots() -> Result {
    within(async {
        let images = Images::new();
        let lower = Layer::new()
            .file("etc/passwd", "root:x:0:0::/root:/bin/sh\n")
            .file("data/kept", "lower")
            .file("data/changed", "lower")
            .file("data/hidden", "lower")
            .file("full/lower", "lower");
        let upper = Layer::new()
            .file("data/changed", "upper")
            .file("data/.wh.hidden", "")
            .file("full/.wh..wh..opq", "")
            .file("full/upper", "upper");
        let config = json!({ "Env": ["PATH=/usr/bin:/bin", "OF_IMAGE=a=b"], "WorkingDir": "/data" });
        images.add("example.com/app:1", &config, vec![lower, upper]);
        let sandbox = open(&images.local(), "a", "example.com/app:1").await;

        assert_eq!(
            out(&sandbox, "cat /data/kept /data/changed; ls /data /full").await,
            "lowerupper/data:\nchanged\nkept\n\n/full:\nupper"
        );
        assert_eq!(
            out(&sandbox, "echo $OF_IMAGE $IMAGE $HOME; id -u; id -g; pwd").await,
            "a=b of the image /home/user\n0\n0\n/home/user"
        );
        assert_eq!(
            out(&sandbox, "grep Cap /proc/self/status | tr -d '0\\t\\n'").await,
            "CapInh:CapPrm:CapEff:CapBnd:CapAmb:"
        );
        // The programs of this machine are not there.
        assert_eq!(sh(&sandbox, "tar --version").await.exit_code, 127);
        // Packages set owners.
        assert_eq!(out(&sandbox, "touch /etc/x && chown 5:6 /etc/x && stat -c %u:%g /etc/x").await, "0:0");
    })
}

fn changes() -> Result {
    within(async {
        let images = Images::new();
        images.add("app", &json!({}), vec![Layer::new().directory("opt").file("etc/motd", "image")]);
        let local = images.local();
        let (a, b) = (open(&local, "a", "app").await, open(&local, "b", "app").await);
        out(&a, "echo a > /etc/motd; mkdir /new; touch /new/file; rm /usr/bin/tr; echo w > /workspace/w")
            .await;
        assert_eq!(
            out(&b, "cat /etc/motd; ls -d /new 2>&1 || true; ls /usr/bin/tr").await,
            "imagels: cannot access '/new': No such file or directory\n/usr/bin/tr"
        );
        local.sleep().await.unwrap();
        let a = open(&local, "a", "app").await;
        assert_eq!(
            out(&a, "cat /etc/motd; ls /new; ls /usr/bin/tr 2>&1 || true; cat /workspace/w").await,
            "a\nfile\nls: cannot access '/usr/bin/tr': No such file or directory\nw"
        );
        a.destroy().await.unwrap();
        let a = open(&local, "a", "app").await;
        assert_eq!(out(&a, "cat /etc/motd").await, "image");
    })
}

fn users() -> Result {
    within(async {
        let images = Images::new();
        let names = Layer::new()
            .file("etc/passwd", "root:x:0:0::/root:/bin/sh\nnode:x:1234:4321::/home/node:/bin/sh\n")
            .file("etc/group", "root:x:0:\ntools:x:77:\n");
        let config = |user: &str| json!({ "User": user });
        images.add("named", &config("node"), vec![names]);
        images.add("numbers", &config("55:66"), Vec::new());
        images.add("unknown", &config("nobody-knows"), Vec::new());
        let local = images.local();
        for (image, shown) in [("named", "1234 4321"), ("numbers", "55 66")] {
            let sandbox = open(&local, image, image).await;
            assert_eq!(out(&sandbox, "echo $(id -u) $(id -g); touch /home/user/x /workspace/x").await, shown);
        }
        let error = local.open(&id("unknown"), &with_image("unknown")).await.unwrap_err();
        assert!(error.message.contains("has no user `nobody-knows`"), "{error:?}");
        assert!(local.find(&id("unknown")).await.unwrap().is_none(), "it was not created");
    })
}

/// An image may have links in all places where the sandbox needs something of its own.
fn links() -> Result {
    within(async {
        let images = Images::new();
        let host = images.place.path().join("host");
        fs::create_dir_all(host.join("deep")).unwrap();
        fs::write(host.join("hosts"), "of the host").unwrap();
        let outside = host.to_str().unwrap();
        let mut layer = Layer::new()
            .link("etc/hosts", &format!("{outside}/hosts"))
            .link("etc/hostname", "/proc/self/environ");
        for place in ["dev", "proc", "sys", "home", "workspace", "tmp", "mnt", "run", "var"] {
            layer = layer.link(place, outside);
        }
        images.add("links", &json!({}), vec![layer]);
        let sandbox = open(&images.local(), "a", "links").await;
        assert_eq!(out(&sandbox, "cat /proc/self/comm; echo x > /workspace/x; cat /etc/hostname; head -c 4 /dev/zero | tr '\\0' 0").await, "cat\na\n0000");
        assert_eq!(fs::read_to_string(host.join("hosts")).unwrap(), "of the host");
        let entries: BTreeSet<_> =
            fs::read_dir(&host).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(entries, BTreeSet::from(["deep".into(), "hosts".into()]));
    })
}

/// All attempts to escape, as root of an image.
fn attempts() -> Result {
    within(async {
        let images = Images::new();
        images.add("proof", &json!({ "Env": ["PATH=/usr/bin:/bin"] }), Vec::new());
        let prover = async || {
            let dir = tempfile::tempdir().unwrap();
            let prover = Prover::on_image(dir.path(), images.directory()).await.unwrap();
            (dir, prover)
        };
        let (mut dir, mut one) = prover().await;
        let mut taken = Vec::new();
        for name in prove::attempts().filter(|name| !NOT_OF_IMAGES.contains(name)) {
            let mut tried = one.run_protected(name).await;
            if tried.is_err() {
                // What an attempt before it left behind was just killed, and it with it.
                (dir, one) = prover().await;
                tried = one.run_protected(name).await;
            }
            if let Err(how) = tried.unwrap_or_else(|fault| panic!("{name}: {fault}")) {
                taken.push(format!("{name}: {how}"));
            }
        }
        drop((one, dir));
        assert!(taken.is_empty(), "{taken:#?}");

        let sandbox = open(&images.local(), "a", "proof").await;
        for refused in [
            "chmod 600 /dev/null",
            "touch /dev/null",
            "touch /dev/new",
            "touch /var/lib/koze/new",
            "rm /var/lib/koze/limits/meminfo",
            "mknod /tmp/null c 1 3",
            "echo 1 > /proc/sys/net/ipv4/ip_forward",
            "echo 1 > /proc/sys/kernel/shmmax",
            "cat /proc/1/environ",
            "ls /proc/1/fd/",
            "ls /proc/1/root/",
        ] {
            assert_ne!(sh(&sandbox, refused).await.exit_code, 0, "{refused}");
        }
        // The guest is still there.
        assert_eq!(out(&sandbox, "kill -9 1; echo there").await, "there");
    })
}

/// The connections of an image's programs are redirected to the proxy, whatever its own settings are.
fn network() -> Result {
    within(async {
        let images = Images::new();
        let layer = Layer::new()
            .file("etc/nsswitch.conf", "hosts: files dns\n")
            .link("etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf");
        images.add("network", &json!({ "Env": ["PATH=/usr/bin:/bin"] }), vec![layer]);
        let names = HashMap::from([("origin.example".to_owned(), server::here())]);
        let local = Local::with_names(images.place.path().join("state"), names).unwrap();
        let local = local.with_images(images.directory());
        let mut settings = with_image("network");
        settings.profile.allowed_hosts = vec!["origin.example".to_owned()];
        let sandbox = local.open(&id("a"), &settings).await.unwrap().sandbox;
        assert_eq!(
            out(&sandbox, "id -u; grep nameserver /etc/resolv.conf").await,
            "0\nnameserver 127.0.0.53"
        );
        let fetch = "bash -c 'exec 3<>/dev/tcp/origin.example/80; printf \"GET /echo HTTP/1.0\\r\\n\\r\\n\" >&3; cat <&3'";
        assert!(out(&sandbox, fetch).await.contains("GET /echo HTTP/1."));
        assert_ne!(sh(&sandbox, &fetch.replace("origin", "other")).await.exit_code, 0);
        // An image that is built from it does not have the settings.
        assert!(sandbox.image_changes().join("etc/resolv.conf").exists());
        assert!(is_of_sandbox(Path::new("etc/resolv.conf")));
    })
}

fn gone() -> Result {
    within(async {
        let images = Images::new();
        images.add("app", &json!({}), Vec::new());
        let local = images.local();
        let sandbox = open(&local, "a", "app").await;
        out(&sandbox, "echo kept > /etc/kept").await;
        let store = Store::open(&images.directory()).unwrap();
        let name: Reference = "app".parse().unwrap();
        // Its layers stay while the sandbox runs.
        store.remove(&name).unwrap();
        assert_eq!(out(&sandbox, "cat /etc/kept").await, "kept");
        local.sleep().await.unwrap();
        store.prune(Some(0), None).unwrap();
        let error = sandbox.exec(command(&["true"])).await.unwrap_err();
        assert_eq!(error.code, Code::Unavailable);
        assert!(error.message.contains("run `koze image pull app`"), "{error:?}");

        // Nothing of the sandbox's own is lost.
        images.add("app", &json!({}), Vec::new());
        assert_eq!(out(&sandbox, "cat /etc/kept").await, "kept");
    })
}

/// A sandbox keeps what it was created with.
fn chosen_once() -> Result {
    within(async {
        let images = Images::new();
        let local = images.local();
        let host = open(&local, "host", "app").await;
        assert_eq!(out(&host, "id -u").await, "1000");
        images.add("app", &json!({}), Vec::new());
        local.sleep().await.unwrap();
        assert_eq!(out(&host, "id -u").await, "1000");
        assert_eq!(out(&open(&local, "new", "app").await, "id -u").await, "0");
        images.add("app", &json!({ "User": "7" }), Vec::new());
        local.sleep().await.unwrap();
        assert_eq!(out(&open(&local, "new", "app").await, "id -u").await, "0");
        assert_eq!(out(&open(&local, "newer", "app").await, "id -u").await, "7");
    })
}

/// Returns the settings of a sandbox with these files.
fn with_files(name: &str, local_image: LocalImage) -> Settings {
    let mut settings = with_image(name);
    settings.profile.local_image = local_image;
    settings
}

fn left_out() -> Result {
    within(async {
        let images = Images::new();
        images.add("python:1.2", &json!({}), Vec::new());
        let local = images.local();
        let on_host = with_files("python:1.2", LocalImage::Host);
        let host = local.open(&id("host"), &on_host).await.unwrap().sandbox;
        assert_eq!(out(&host, "id -u").await, "1000");
        let note = local.note(&on_host.profile).unwrap();
        assert!(note.contains("does not use the image `python:1.2`"), "{note}");
        assert!(note.contains("in place of Python 1.2") && !note.contains("koze image pull"), "{note}");
        let missing = local.note(&with_image("node:1").profile).unwrap();
        assert!(missing.contains("in place of Node 1; `koze image pull"), "{missing}");
        assert_eq!(local.note(&with_image("python:1.2").profile), None);
    })
}

fn declared() -> Result {
    within(async {
        let images = Images::new();
        let local = images.local();
        let open = async |name: &str| {
            let mut settings = with_files(name, LocalImage::Declared);
            if name.ends_with("Dockerfile") {
                settings.profile.stored = Some("koze.invalid/app/a:1".into());
            }
            local.open(&id("a"), &settings).await.map(|opened| opened.sandbox)
        };
        for (image, next) in [
            // Nothing listens there.
            ("127.0.0.1:1/app:1", "run `koze image pull 127.0.0.1:1/app:1`"),
            ("./src/server/a.Dockerfile", "run `koze image build python`"),
            ("cloudflare/debian-trixie", "declare another one"),
        ] {
            let error = open(image).await.unwrap_err();
            assert_eq!(error.code, Code::Unavailable, "{error:?}");
            assert!(error.message.contains(image) && error.message.contains(next), "{error:?}");
        }
        // No sandbox was created meanwhile.
        images.add("app", &json!({}), Vec::new());
        assert_eq!(out(&open("app").await.unwrap(), "id -u").await, "0");
    })
}
