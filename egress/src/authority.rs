//! The certificate authority of a state directory. With its certificates, TLS of the hosts whose requests must be read ends in the
//! proxy.
//!
//! Its key is in the state directory, which no sandbox sees, and only this user can read it. Each program that uses the state directory
//! signs certificates with it.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use data_encoding::BASE64;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustix::fs::{FlockOperation, flock};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, ServerConfig};
use sha2::{Digest as _, Sha256};

use super::Internet;
use crate::authorities;
use koze_core::egress::placeholder;
use koze_core::error::{Code, Error, Result};

/// The file with the key.
const KEY: &str = "egress-authority.key";
/// The file that is locked while the key is created.
const LOCK: &str = "egress-authority.lock";
/// The file with the certificates that programs in sandboxes trust: those that this machine trusts, and the authority's.
const BUNDLE: &str = "egress-certificates.pem";
/// How many certificates are kept.
const MAX_CERTIFICATES: usize = 256;

/// A certificate authority, and the TLS settings of the proxies that use it.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: Vec<u8>,
    /// The secret from which placeholders are derived.
    seed: [u8; 32],
    /// The key of all certificates for hosts.
    leaf: KeyPair,
    certificates: Mutex<HashMap<String, Arc<ServerConfig>>>,
    upstream: Arc<ClientConfig>,
    bundle: PathBuf,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Opens the authority of a state directory, and creates it if it is missing. This reads and writes files.
    ///
    /// # Errors
    /// [`Code::PermissionDenied`] if its key is not private, and [`Code::Unavailable`] if its files cannot be used.
    pub fn open(state: &Path, internet: &Internet) -> Result<Self> {
        let key = open_key(state)?;
        let seed = Sha256::digest(key.serialize_der()).into();
        let params = authority_params();
        let certificate =
            params.self_signed(&key).map_err(|error| failed("create its certificate", error))?;
        let bundle = state.join(BUNDLE);
        let root = certificate.der().to_vec();
        write_bundle(&bundle, &root).map_err(|error| failed("write its certificate", error))?;
        Ok(Authority {
            issuer: Issuer::new(params, key),
            root,
            seed,
            leaf: KeyPair::generate().map_err(|error| failed("create a key", error))?,
            certificates: Mutex::default(),
            upstream: authorities::client_config(internet)?,
            bundle,
        })
    }

    /// Returns the file with the certificates that programs in sandboxes trust.
    pub fn bundle(&self) -> &Path {
        &self.bundle
    }

    /// Returns its certificate, in DER.
    pub fn root(&self) -> &[u8] {
        &self.root
    }

    /// Returns the TLS settings for connections to hosts.
    pub(crate) fn upstream(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.upstream)
    }

    /// Returns the placeholder of a credential in a sandbox.
    pub(crate) fn placeholder(&self, sandbox: &str, name: &str) -> String {
        placeholder(&self.seed, sandbox, name)
    }

    /// Returns the TLS settings of a server with this host.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if no certificate can be signed for it.
    pub fn server(&self, host: &str) -> Result<Arc<ServerConfig>> {
        let mut known = self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = known.get(host) {
            return Ok(Arc::clone(config));
        }
        // A wildcard may match any number of names.
        if known.len() >= MAX_CERTIFICATES {
            known.clear();
        }
        let config = Arc::new(self.create_server(host)?);
        known.insert(host.to_owned(), Arc::clone(&config));
        Ok(config)
    }

    fn create_server(&self, host: &str) -> Result<ServerConfig> {
        let refused = |error| failed("sign a certificate", error);
        let mut params = CertificateParams::new(vec![host.to_owned()]).map_err(refused)?;
        params.distinguished_name = DistinguishedName::new();
        set_validity(&mut params);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&self.leaf, &self.issuer).map_err(refused)?.der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.leaf.serialize_der()));
        let invalid = |error| failed("configure TLS", error);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = versions.map_err(invalid)?.with_no_client_auth();
        let mut config = config.with_single_cert(vec![certificate], key).map_err(invalid)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Returns the parameters of the authority's certificate. They never change, because certificates are verified with them.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "koze egress proxy");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params);
    params
}

/// Clocks of sandboxes are those of the machine, and nobody revokes these certificates.
fn set_validity(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2099, 1, 1);
}

/// Reads the key, and creates it if it is missing. Several programs may do so at the same time.
fn open_key(state: &Path) -> Result<KeyPair> {
    let unusable = |error| failed("use its key", error);
    let lock =
        OpenOptions::new().create(true).append(true).mode(0o600).open(state.join(LOCK)).map_err(unusable)?;
    // Held until this returns.
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| unusable(error.into()))?;
    let path = state.join(KEY);
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    match options.open(&path) {
        Ok(file) => read_key(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = KeyPair::generate().map_err(|error| failed("create a key", error))?;
            replace_file(&path, key.serialize_pem().as_bytes(), 0o600).map_err(unusable)?;
            Ok(key)
        }
        Err(error) => Err(unusable(error)),
    }
}

fn read_key(mut file: File) -> Result<KeyPair> {
    let unusable = |error| failed("use its key", error);
    let about = file.metadata().map_err(unusable)?;
    let is_own = about.is_file() && about.uid() == rustix::process::geteuid().as_raw();
    if !is_own || about.mode() & 0o077 != 0 {
        let text = format!(
            "the key of the egress proxy's certificate authority is not private: delete `{KEY}` in the state directory, and a new one is \
             created"
        );
        return Err(Error::new(Code::PermissionDenied, text));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unusable)?;
    // Without the parser's error, which may quote the file.
    KeyPair::from_pem(&text).map_err(|_| {
        let text = format!(
            "the key of the egress proxy's certificate authority is damaged: delete `{KEY}` in the state directory, and a new one is created"
        );
        Error::new(Code::Unavailable, text)
    })
}

/// Writes the certificates that this machine trusts, and the authority's.
fn write_bundle(path: &Path, own: &[u8]) -> io::Result<()> {
    let all = rustls_native_certs::load_native_certs().certs;
    let text: String = all.iter().map(|certificate| &**certificate).chain([own]).map(to_pem).collect();
    replace_file(path, text.as_bytes(), 0o644)
}

fn to_pem(certificate: &[u8]) -> String {
    let text = BASE64.encode(certificate);
    let lines = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line) + "\n");
    format!("-----BEGIN CERTIFICATE-----\n{}-----END CERTIFICATE-----\n", lines.collect::<String>())
}

/// Writes a file completely or not at all.
fn replace_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let new = path.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
    let written = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    written().inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}

fn failed(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let text = format!("the egress proxy's certificate authority cannot {what}");
    Error::new(Code::Unavailable, text).with_source(error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn programs_share_one_private_key() {
        let state = tempfile::tempdir().unwrap();
        let open = || Authority::open(state.path(), &Internet::default()).unwrap();
        let all: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let placeholder = all[0].placeholder("sandbox", "A");
        assert!(all.iter().all(|authority| authority.placeholder("sandbox", "A") == placeholder));
        let mode = |name: &str| fs::metadata(state.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(KEY), mode(BUNDLE)), (0o600, 0o644));
        let bundle = fs::read_to_string(state.path().join(BUNDLE)).unwrap();
        assert!(bundle.contains("BEGIN CERTIFICATE") && !bundle.contains("PRIVATE KEY"));
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 3, "nothing else is left");
    }

    #[test]
    fn a_key_that_others_can_read_or_that_is_damaged_is_refused() {
        let state = tempfile::tempdir().unwrap();
        Authority::open(state.path(), &Internet::default()).unwrap();
        let key = state.path().join(KEY);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
        let error = Authority::open(state.path(), &Internet::default()).unwrap_err();
        assert!(error.message.contains("not private"), "{error}");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&key, "-----BEGIN PRIVATE KEY-----\nabcd").unwrap();
        let error = Authority::open(state.path(), &Internet::default()).unwrap_err();
        assert!(error.message.contains("damaged") && !error.message.contains("abcd"), "{error}");
        fs::remove_file(&key).unwrap();
        std::os::unix::fs::symlink("/dev/null", &key).unwrap();
        assert_eq!(Authority::open(state.path(), &Internet::default()).unwrap_err().code, Code::Unavailable);
    }
}
