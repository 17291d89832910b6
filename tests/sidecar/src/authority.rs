//! A certificate authority for the tests, which can certify any name.

use std::error::Error;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

/// A certificate authority with its own key.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    /// Creates an authority with a new key.
    ///
    /// # Errors
    /// Returns an error if no key can be generated.
    pub fn new() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority of koze's tests");
        let certificate = params.self_signed(&key)?.pem();
        Ok(Authority { issuer: Issuer::new(params, key), certificate })
    }

    /// Returns its own certificate as PEM. Clients that trust it trust all certificates it issues.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the TLS configuration of a server with these names.
    ///
    /// # Errors
    /// Returns an error if a name is invalid.
    pub fn server(&self, names: &[&str]) -> Result<Arc<ServerConfig>, Box<dyn Error + Send + Sync>> {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())?;
        let certificate = params.signed_by(&key, &self.issuer)?.der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der())?;
        Ok(Arc::new(ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key)?))
    }
}
