//! The certificate authorities that this machine trusts in addition to Mozilla's: a company's proxy has its own.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use super::egress::Internet;

/// Returns the authorities of this machine's store, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`, that are not Mozilla's. What cannot be read
/// is trusted by no program of this machine either.
pub(in super::super) fn added_authorities(internet: &Internet) -> Vec<CertificateDer<'static>> {
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
