//! The certificate authorities that this machine trusts in addition to Mozilla's: a company's proxy has its own.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use crate::Internet;
use koze_core::error::{Code, Error, Result};

/// Returns the TLS settings for connections to servers, which trust Mozilla's authorities, and those of this machine.
///
/// # Errors
/// [`Code::Internal`] if TLS cannot be configured.
pub fn client_config(internet: &Internet) -> Result<Arc<ClientConfig>> {
    let failed = |error| Error::new(Code::Internal, "TLS cannot be configured").with_source(error);
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    roots.add_parsable_certificates(added_authorities(internet));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = versions.map_err(failed)?.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Returns the authorities of this machine's store, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`, that are not Mozilla's. What cannot be read
/// is trusted by no program of this machine either.
pub fn added_authorities(internet: &Internet) -> Vec<CertificateDer<'static>> {
    let mut all = rustls_native_certs::load_native_certs().certs;
    all.extend(internet.roots.iter().map(|root| CertificateDer::from(root.clone())));
    all.retain(is_added);
    all
}

fn is_added(certificate: &CertificateDer<'static>) -> bool {
    let mut store = RootCertStore::empty();
    if store.add(certificate.clone()).is_err() {
        return false;
    }
    let is_known = |root| webpki_roots::TLS_SERVER_ROOTS.contains(root);
    !store.roots.iter().all(is_known)
}
