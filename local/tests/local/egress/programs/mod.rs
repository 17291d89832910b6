//! Programs that know nothing of koze use credentials: each has only the placeholder, and its server gets the value.
//!
//! Only the user who starts the tests runs them: they are about programs, not about users, and read files of this checkout.

mod curl;
mod git;
mod node;
mod python;
mod registries;
mod server;

use std::collections::HashMap;
use std::net::SocketAddr;

use data_encoding::BASE64;
use koze_core::Provider;
use koze_core::egress::{Credential, Placement};
use koze_core::provider::Size;
use koze_core::sandbox::{Sandbox as _, Write};
use koze_local::{Internet, Local, LocalSandbox, Secrets};
use tempfile::TempDir;

use self::server::{Record, Reply, Request};
use crate::Test;
use crate::fetch::Authority;
use crate::stage::{at, id, out, settings, sh};

pub(crate) const TESTS: &[Test] = &[
    ("programs_curl", curl::transfers),
    ("programs_git", git::clones_and_pushes),
    ("programs_node_openai", node::talks_to_a_model),
    ("programs_npm", registries::npm_installs),
    ("programs_python_aws", python::stores_objects),
    ("programs_python_openai", python::talks_to_a_model),
    ("programs_pip", registries::pip_installs),
];

/// The value of every credential.
const VALUE: &str = "the-real-value-0123456789";

/// Servers with TLS, and a provider whose sandboxes reach them by name.
struct Scene {
    authority: Authority,
    record: Record,
    names: HashMap<String, SocketAddr>,
}

/// A running sandbox with credentials.
struct Stage {
    sandbox: LocalSandbox,
    record: Record,
    secrets: Secrets,
    _local: Local,
    _directories: [TempDir; 2],
}

impl Scene {
    fn new() -> Self {
        Scene { authority: Authority::new(), record: Record::default(), names: HashMap::new() }
    }

    async fn serve(
        &mut self,
        host: &'static str,
        answer: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) {
        let address = self.record.serve(&self.authority, host, answer).await;
        self.names.insert(host.to_owned(), address);
    }

    /// Opens a sandbox with credentials, which may reach these hosts, too.
    async fn open(self, credentials: &[Credential], allowed: &[&str]) -> Stage {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let secrets = Secrets::at(directories[1].path());
        for credential in credentials {
            secrets.set(&credential.name, VALUE).unwrap();
        }
        let roots = vec![self.authority.root.clone()];
        let internet = Internet { names: self.names, roots, ..Internet::default() };
        let local = Local::with_internet(directories[0].path(), internet).unwrap();
        let local = local.with_secrets(Secrets::at(directories[1].path()));
        let mut settings = settings();
        settings.profile.credentials = credentials.to_vec();
        // The attribute of a project adds the hosts of credentials by itself.
        let hosts = credentials.iter().map(|credential| &credential.host[..]).chain(allowed.iter().copied());
        settings.profile.allowed_hosts = hosts.map(str::to_owned).collect();
        settings.profile.size = Size { memory_mib: 1024, disk_mb: 1000 };
        let sandbox = local.open(&id("a"), &settings).await.unwrap().sandbox;
        Stage { sandbox, record: self.record, secrets, _local: local, _directories: directories }
    }
}

impl Stage {
    /// Runs a script, which must succeed, and returns what it prints.
    async fn run(&self, script: &str) -> String {
        let printed = out(&self.sandbox, script).await;
        assert!(!printed.contains(VALUE), "{script}: {printed}");
        printed
    }

    /// Runs a script, which must fail, and returns what it prints.
    async fn fail(&self, script: &str) -> String {
        let output = sh(&self.sandbox, script).await;
        let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.exit_code != 0 && !printed.contains(VALUE), "{script}: {printed}");
        printed
    }

    /// Unpacks an archive in the home directory of the sandbox.
    async fn unpack(&self, tar: Vec<u8>) {
        self.sandbox.write(at("/home/user/archive.tar"), tar, Write::Replace).await.unwrap();
        self.run("tar -xf archive.tar && rm archive.tar").await;
    }

    /// Returns the requests since the last call. None of them has a placeholder.
    fn received(&self) -> Vec<Request> {
        let requests = self.record.take();
        for request in &requests {
            assert!(!format!("{request:?}").contains("koze_cred_"), "{request:?}");
        }
        requests
    }
}

fn credential(name: &str, host: &str, placement: Placement) -> Credential {
    Credential { name: name.into(), host: host.into(), placement }
}

/// Returns a header of basic authentication with the value.
fn basic(user: &str) -> String {
    format!("Basic {}", BASE64.encode(format!("{user}:{VALUE}").as_bytes()))
}

/// Returns an answer to requests without this header.
fn unauthorized(request: &Request, expected: &str) -> Option<Reply> {
    let is_right = request.header("authorization") == expected;
    (!is_right).then(|| Reply::status(401).with("www-authenticate", "Basic realm=\"tests\""))
}
