//! The credentials of Docker's configuration.

use std::env;
use std::path::PathBuf;

use docker_credential::{CredentialRetrievalError, DockerCredential};
use oci_client::Reference;
use oci_client::secrets::RegistryAuth;

/// The key of Docker Hub's credentials.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// The credentials for a registry.
pub(super) struct Credentials {
    pub(super) auth: RegistryAuth,
    /// Why configured credentials are not used. Most images need none, so this matters only if the registry refuses.
    pub(super) problem: Option<String>,
}

/// Finds the credentials for an image in `config.json` of Docker, or with its credential helpers.
pub(super) fn find(reference: &Reference) -> Credentials {
    let registry = reference.registry();
    let server = if registry == "docker.io" { DOCKER_HUB } else { registry };
    let anonymous = |problem| Credentials { auth: RegistryAuth::Anonymous, problem };
    match docker_credential::get_credential(server) {
        Ok(DockerCredential::UsernamePassword(name, password)) => {
            Credentials { auth: RegistryAuth::Basic(name, password), problem: None }
        }
        Ok(DockerCredential::IdentityToken(_)) => anonymous(Some(
            "the configured credentials are an identity token, which koze cannot use: log in with a user name and a password or access token".to_owned(),
        )),
        Err(CredentialRetrievalError::NoCredentialConfigured | CredentialRetrievalError::ConfigNotFound) => {
            anonymous(None)
        }
        Err(CredentialRetrievalError::ConfigReadError) if !has_config() => anonymous(None),
        // Helpers report in this way that they have none.
        Err(CredentialRetrievalError::HelperFailure { stdout, .. }) if stdout.contains("credentials not found") => {
            anonymous(None)
        }
        // Not what a helper has printed: it may contain secrets.
        Err(CredentialRetrievalError::HelperFailure { helper, .. }) => {
            anonymous(Some(format!("the credential helper `{helper}` failed")))
        }
        Err(error) => anonymous(Some(format!("the credentials in Docker's `config.json` cannot be used: {error}"))),
    }
}

fn has_config() -> bool {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".docker"));
    let directory = env::var_os("DOCKER_CONFIG").map(PathBuf::from).or_else(home);
    directory.is_some_and(|directory| directory.join("config.json").exists())
}
