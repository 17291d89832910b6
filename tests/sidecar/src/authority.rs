//! An authority for certificates, of whoever made it alone: for any name there is.

use std::error::Error;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

/// It, with a key that nobody else has.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// Where no key can be made.
    pub fn new() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority of koze's tests");
        let certificate = params.self_signed(&key)?.pem();
        Ok(Authority { issuer: Issuer::new(params, key), certificate })
    }

    /// Its own certificate, as PEM: who trusts it trusts those that it gives.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// How a server of these names speaks TLS.
    ///
    /// # Errors
    /// Where one is no name.
    pub fn server(&self, names: &[&str]) -> Result<Arc<ServerConfig>, Box<dyn Error + Send + Sync>> {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())?;
        let certificate = params.signed_by(&key, &self.issuer)?.der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der())?;
        Ok(Arc::new(ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key)?))
    }
}
