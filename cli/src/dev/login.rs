//! Detects whether wrangler is logged in to Cloudflare, without running it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::dotenv;

/// The variables that hold credentials.
const VARIABLES: [&str; 3] = ["CLOUDFLARE_API_TOKEN", "CLOUDFLARE_API_KEY", "CF_API_TOKEN"];
/// The files in the working directory from which wrangler also reads the variables.
const FILES: [&str; 2] = [".env", ".env.local"];
/// The keys in the files that `wrangler login` writes.
const TOKENS: [&str; 2] = ["oauth_token", "refresh_token"];

/// Returns whether wrangler finds credentials in this directory.
pub fn is_there(dir: &Path) -> bool {
    let set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let in_files = || {
        let texts = FILES.iter().filter_map(|file| fs::read_to_string(dir.join(file)).ok());
        texts.into_iter().any(|text| VARIABLES.iter().any(|name| dotenv::given(&text, name).is_some()))
    };
    VARIABLES.iter().any(set) || in_files() || has_stored_credentials()
}

/// Returns whether `wrangler login` has stored credentials.
fn has_stored_credentials() -> bool {
    wrangler_dirs().iter().any(|home| {
        let files = fs::read_dir(home.join("config")).into_iter().flatten().flatten();
        let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
        texts.into_iter().any(|text| TOKENS.iter().any(|token| text.contains(token)))
    })
}

/// The directories that may hold them: the home directory and the platform's configuration directories.
fn wrangler_dirs() -> Vec<PathBuf> {
    let named = |name| env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let home = named("HOME").or_else(|| named("USERPROFILE"));
    let below = |path: &str| home.as_ref().map(|home| home.join(path));
    let settings = named("XDG_CONFIG_HOME").or_else(|| below(".config"));
    let dirs = [home.clone(), settings, below("Library/Preferences"), named("APPDATA")];
    dirs.into_iter().flatten().map(|dir| dir.join(".wrangler")).collect()
}
