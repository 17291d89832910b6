//! The credentials of scripts. A script holds a placeholder, and `fetch` sends the value in its place.

use std::fmt;

#[cfg(feature = "script")]
use super::Secrets;
#[cfg(feature = "script")]
use super::injection::{Inject, Injection, Injector};
use crate::egress::Credential;
#[cfg(feature = "script")]
use crate::id::SessionId;

/// The credentials that scripts of a project may use, as those of a sandbox.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(from = "Vec<Credential>", into = "Vec<Credential>")]
pub struct ScriptCredentials {
    declared: Vec<Credential>,
    /// Only [`ScriptCredentials::from`] names the code, so that a Worker without credentials does not contain it.
    #[cfg(feature = "script")]
    injector: Option<&'static dyn Inject>,
}

impl From<Vec<Credential>> for ScriptCredentials {
    fn from(declared: Vec<Credential>) -> Self {
        ScriptCredentials {
            declared,
            #[cfg(feature = "script")]
            injector: Some(&Injector),
        }
    }
}

impl From<ScriptCredentials> for Vec<Credential> {
    fn from(credentials: ScriptCredentials) -> Self {
        credentials.declared
    }
}

impl fmt::Debug for ScriptCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.declared).finish()
    }
}

impl PartialEq for ScriptCredentials {
    fn eq(&self, other: &Self) -> bool {
        self.declared == other.declared
    }
}

impl Eq for ScriptCredentials {}

impl ScriptCredentials {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.declared.is_empty()
    }

    /// Returns the credentials.
    pub fn list(&self) -> &[Credential] {
        &self.declared
    }

    /// Adds their values, for the scripts of an agent.
    #[cfg(feature = "script")]
    pub(crate) fn with_values(&self, agent: &SessionId, secrets: &Secrets) -> Injection<'_> {
        let key = |injector: &dyn Inject, name: &str| {
            let value = secrets.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned());
            injector.key(agent, name, value)
        };
        let Some(injector) = self.injector else { return Injection::default() };
        let keys = self.declared.iter().map(|one| key(injector, &one.name)).collect();
        Injection { declared: &self.declared, keys, injector: Some(injector) }
    }
}
