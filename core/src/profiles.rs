//! The sandbox profiles of a project.

use koze_protocol::Family;

use crate::egress::Credential;
use crate::error::{Code, Error, Result};
use crate::journal::JournalSettings;
use crate::provider::{LocalImage, Profile};
use crate::script::{Egress, SHORTEST_MASKED, ScriptCredentials};

/// The profiles of a project, as listed by `koze build`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Profiles {
    list: Vec<Profile>,
    default: usize,
    /// What scripts may reach, if the project serves the tools `script`, which need no sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scripts: Option<Egress>,
    /// The credentials of the requests of scripts.
    #[serde(default, skip_serializing_if = "ScriptCredentials::is_empty")]
    script_credentials: ScriptCredentials,
    /// Whether scripts have a browser.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    browser: bool,
    /// What the journal of tool calls records.
    #[serde(default, skip_serializing_if = "JournalSettings::is_default")]
    journal: JournalSettings,
}

impl Profiles {
    /// Creates the list of profiles with the name of the default one.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if no profile has the name `default`.
    pub fn new(list: Vec<Profile>, default: &str) -> Result<Self> {
        let Some(default) = list.iter().position(|profile| profile.name == default) else {
            let message = format!("`{default}` is not an image of this project");
            return Err(Error::new(Code::InvalidInput, message));
        };
        Ok(Profiles {
            list,
            default,
            scripts: None,
            script_credentials: ScriptCredentials::default(),
            browser: false,
            journal: JournalSettings::default(),
        })
    }

    /// Creates the profiles of a project that has no sandboxes and serves the tools `script`.
    pub fn of_scripts() -> Self {
        Profiles {
            list: Vec::new(),
            default: 0,
            scripts: Some(Egress::default()),
            script_credentials: ScriptCredentials::default(),
            browser: false,
            journal: JournalSettings::default(),
        }
    }

    /// Adds the tools `script`, and sets the hosts that scripts may reach.
    #[must_use]
    pub fn with_script_egress(self, egress: Egress) -> Self {
        Profiles { scripts: Some(egress), ..self }
    }

    /// Sets the credentials of the requests of scripts.
    #[must_use]
    pub fn with_script_credentials(self, credentials: Vec<Credential>) -> Self {
        Profiles { script_credentials: credentials.into(), ..self }
    }

    /// Sets whether scripts have a browser, which can reach the same hosts.
    #[must_use]
    pub fn with_script_browser(self, browser: bool) -> Self {
        Profiles { browser, ..self }
    }

    /// Sets the files that new sandboxes have on this machine.
    #[must_use]
    pub fn with_local_image(mut self, local_image: LocalImage) -> Self {
        for profile in &mut self.list {
            profile.local_image = local_image;
        }
        self
    }

    /// Sets what the journal of tool calls records.
    #[must_use]
    pub fn with_journal(self, journal: JournalSettings) -> Self {
        Profiles { journal, ..self }
    }

    /// Returns what the journal of tool calls records.
    pub fn journal(&self) -> JournalSettings {
        self.journal
    }

    /// Returns the variables of sandboxes that hold secrets, as their names say. Short values are left out, because they occur in
    /// ordinary text.
    pub(crate) fn declared_secrets(&self) -> Vec<(String, String)> {
        const WORDS: [&str; 5] = ["KEY", "SECRET", "TOKEN", "PASS", "CREDENTIAL"];
        let is_secret = |name: &str| WORDS.iter().any(|word| name.to_ascii_uppercase().contains(word));
        let all = self.list.iter().flat_map(|profile| &profile.env);
        let secrets = all.filter(|(name, value)| is_secret(name) && value.chars().count() >= SHORTEST_MASKED);
        secrets.cloned().collect()
    }

    /// Returns whether sandboxes or scripts have a credential with this name.
    pub fn declares_credential(&self, name: &str) -> bool {
        let of_sandboxes = self.list.iter().flat_map(|profile| &profile.credentials);
        of_sandboxes.chain(self.script_credentials.list()).any(|credential| credential.name == name)
    }

    /// Returns the credentials of the requests of scripts.
    pub fn script_credentials(&self) -> &ScriptCredentials {
        &self.script_credentials
    }

    /// Returns whether scripts have a browser.
    pub fn has_script_browser(&self) -> bool {
        self.browser && self.scripts.is_some()
    }

    /// Returns the hosts that scripts may reach, if the project serves the tools `script`.
    pub fn script_egress(&self) -> Option<&Egress> {
        self.scripts.as_ref()
    }

    /// Returns all profiles.
    pub fn list(&self) -> &[Profile] {
        &self.list
    }

    /// Returns the default profile.
    ///
    /// # Panics
    /// If there are none: see [`Profiles::of_scripts`].
    pub fn default_profile(&self) -> &Profile {
        &self.list[self.default]
    }

    /// Returns whether a profile serves a family of tools, or the project those that need no sandbox.
    pub fn serve(&self, family: Family) -> bool {
        if family == Family::Script {
            return self.scripts.is_some();
        }
        self.list.iter().any(|profile| profile.tools.contains(&family))
    }

    /// Returns the profiles that serve a family of tools. The default profile stays the default if it serves the family; otherwise
    /// the first one that does is the default. Returns nothing if no profile serves the family. The tools `script` need none,
    /// and get all of them.
    pub fn of(&self, family: Family) -> Option<Profiles> {
        if family == Family::Script {
            return self.scripts.as_ref().map(|_| self.clone());
        }
        let serves = |profile: &&Profile| profile.tools.contains(&family);
        let list: Vec<Profile> = self.list.iter().filter(serves).cloned().collect();
        let named = self.list.get(self.default).map(|profile| &profile.name);
        let default = list.iter().position(|profile| Some(&profile.name) == named);
        (!list.is_empty()).then_some(Profiles { list, default: default.unwrap_or(0), ..self.clone() })
    }

    /// Finds a profile by name or reference. Returns the default profile if `named` is `None`.
    ///
    /// # Errors
    /// [`Code::InvalidInput`], with the available names.
    pub fn find(&self, named: Option<&str>) -> Result<&Profile> {
        let Some(named) = named else { return Ok(self.default_profile()) };
        let found = self.list.iter().find(|profile| profile.name == named);
        found.or_else(|| self.list.iter().find(|profile| profile.reference == named)).ok_or_else(|| {
            let known: Vec<&str> = self.list.iter().map(|profile| profile.name.as_str()).collect();
            unknown_profile(named, &known)
        })
    }
}

/// Returns the error for an unknown profile.
pub fn unknown_profile(named: &str, known: &[&str]) -> Error {
    let message = format!("there is no image `{named}`: the images are {}", known.join(", "));
    Error::new(Code::InvalidInput, message)
}

/// Returns how to make a project serve a family.
pub(crate) fn how_to_serve(family: Family) -> String {
    match family {
        Family::Script => {
            "Add `[package.metadata.koze.script]` to its `Cargo.toml`. A Worker also needs `cargo add koze --features script` and \
             `koze build`"
                .to_owned()
        }
        _ => format!("Add `{family}` to the `tools` of a `#[sandbox]`, and run `koze build`"),
    }
}
