//! The secrets of scripts: a file that only its owner can read.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use koze_core::error::{Code, Error, Result};
use koze_core::script::Secrets as Values;

/// The longest value in bytes, as of a variable in a Worker.
const MAX_VALUE: usize = 5 << 10;
/// The longest name in bytes.
const MAX_NAME: usize = 64;
/// How many secrets there can be.
const MAX_SECRETS: usize = 100;
/// The name of the file.
const FILE: &str = "secrets.json";

/// The secrets of a project's scripts, in a directory. Any number of programs can use it at the same time.
#[derive(Debug)]
pub struct Secrets {
    directory: PathBuf,
    /// What was read last, which holds until the file is replaced.
    known: Mutex<Option<(Stamp, Values)>>,
}

impl Clone for Secrets {
    fn clone(&self) -> Self {
        Secrets::at(&self.directory)
    }
}

/// A secret in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretInfo {
    /// Its name.
    pub name: String,
    /// When it was set, in milliseconds since 1970.
    pub updated: u64,
}

/// A secret in the file.
#[derive(Serialize, Deserialize)]
struct Stored {
    value: String,
    updated: u64,
}

type All = BTreeMap<String, Stored>;

/// Identifies the content of the file, which is never changed in place: device, inode, size, and the times of the last changes.
type Stamp = (u64, u64, u64, [i64; 4]);

impl Secrets {
    /// Returns the secrets of a directory. Neither it nor the file has to exist.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Secrets { directory: directory.into(), known: Mutex::default() }
    }

    /// Sets a secret. Scripts that start from now on have it.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if the name or the value is not valid, [`Code::TooLarge`] if there are too many, and
    /// [`Code::Unavailable`] if the file cannot be written.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        check_name(name)?;
        check_value(value)?;
        self.change(|all| {
            if all.len() >= MAX_SECRETS && !all.contains_key(name) {
                let message =
                    format!("there are {MAX_SECRETS} secrets already: remove some with `koze secret rm`");
                return Err(Error::new(Code::TooLarge, message));
            }
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            let updated = u64::try_from(now).unwrap_or(u64::MAX);
            all.insert(name.to_owned(), Stored { value: value.to_owned(), updated });
            Ok(())
        })
    }

    /// Removes a secret.
    ///
    /// # Errors
    /// [`Code::NotFound`] if it does not exist, [`Code::Unavailable`] if the file cannot be written.
    pub fn remove(&self, name: &str) -> Result<()> {
        let missing = || {
            let message =
                format!("there is no secret `{}`: `koze secret list` lists them", name.escape_debug());
            Error::new(Code::NotFound, message)
        };
        if !self.path().exists() {
            return Err(missing());
        }
        self.change(|all| all.remove(name).map(drop).ok_or_else(missing))
    }

    /// Lists the secrets by name, without their values.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the file cannot be read.
    pub fn list(&self) -> Result<Vec<SecretInfo>> {
        let info = |(name, Stored { updated, .. })| SecretInfo { name, updated };
        Ok(self.read()?.map(|(_, all)| all).unwrap_or_default().into_iter().map(info).collect())
    }

    /// Returns the values.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the file cannot be read, [`Code::PermissionDenied`] if others can.
    pub fn values(&self) -> Result<Values> {
        // No file operation of this is slow, because the directory is on this machine, and what is known is not read again.
        let stamp = match fs::symlink_metadata(self.path()) {
            Ok(about) => file_stamp(&about),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Values::default()),
            Err(error) => return Err(secrets_error(error)),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, values)) = &*known
            && *of == stamp
        {
            return Ok(values.clone());
        }
        let Some((stamp, all)) = self.read()? else { return Ok(Values::default()) };
        let values: Values = all.into_iter().map(|(name, stored)| (name, stored.value)).collect();
        *known = Some((stamp, values.clone()));
        Ok(values)
    }

    fn path(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// Reads the file. Returns nothing if it does not exist.
    fn read(&self) -> Result<Option<(Stamp, All)>> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let mut file = match options.open(self.path()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(secrets_error(error)),
        };
        let about = file.metadata().map_err(secrets_error)?;
        let is_own = about.is_file() && about.uid() == rustix::process::geteuid().as_raw();
        if !is_own || about.mode() & 0o077 != 0 {
            let message = "the file with the secrets is not private: other users can read or replace it. Delete it and set the secrets \
                           again, with new values";
            return Err(Error::new(Code::PermissionDenied, message));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(secrets_error)?;
        // Without the parser's error, which may quote the file.
        let all = serde_json::from_str(&text).map_err(|_| {
            Error::new(
                Code::Unavailable,
                "the file with the secrets is damaged: delete it and set the secrets again",
            )
        })?;
        Ok(Some((file_stamp(&about), all)))
    }

    /// Replaces the file by a changed one.
    fn change(&self, change: impl FnOnce(&mut All) -> Result<()>) -> Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory).map_err(secrets_error)?;
        let directory = File::open(&self.directory).map_err(secrets_error)?;
        // Held until this returns. Nothing else locks this directory.
        flock(&directory, FlockOperation::LockExclusive).map_err(|error| secrets_error(error.into()))?;
        let mut all = self.read()?.map(|(_, all)| all).unwrap_or_default();
        change(&mut all)?;
        let text = serde_json::to_vec(&all).map_err(|error| secrets_error(error.into()))?;
        let new = self.directory.join(format!("{FILE}.new"));
        // Of a program that was killed.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(secrets_error(error)),
            _ => {}
        }
        let written = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, self.path())?;
            directory.sync_all()
        };
        written().map_err(|error| {
            let _ = fs::remove_file(&new);
            secrets_error(error)
        })
    }
}

fn file_stamp(about: &fs::Metadata) -> Stamp {
    let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()];
    (about.dev(), about.ino(), about.size(), times)
}

fn check_name(name: &str) -> Result<()> {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_good = name.starts_with(is_start)
        && name.len() <= MAX_NAME
        && name.chars().all(|c| is_start(c) || c.is_ascii_digit());
    if is_good {
        return Ok(());
    }
    let message = format!(
        "`{}` is not a valid name of a secret: use letters, digits and `_`, such as `API_KEY`, at most {MAX_NAME}",
        name.escape_debug()
    );
    Err(Error::new(Code::InvalidInput, message))
}

fn check_value(value: &str) -> Result<()> {
    let message = match value.len() {
        0 => "the value is empty: write it to standard input, for example `koze secret set NAME < FILE`"
            .to_owned(),
        length if length > MAX_VALUE => {
            format!("the value has {length} bytes, but may have at most {MAX_VALUE}")
        }
        _ if value.contains('\0') => "the value contains a zero byte, which no text has".to_owned(),
        _ => return Ok(()),
    };
    Err(Error::new(Code::InvalidInput, message))
}

fn secrets_error(error: io::Error) -> Error {
    let message = format!("the file with the secrets cannot be used: {}", error.kind());
    Error::new(Code::Unavailable, message).with_source(error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn names(secrets: &Secrets) -> Vec<String> {
        secrets.list().unwrap().into_iter().map(|info| info.name).collect()
    }

    fn values(secrets: &Secrets) -> Vec<(String, String)> {
        let values = secrets.values().unwrap();
        values.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn secrets_are_set_listed_and_removed() {
        let at = tempfile::tempdir().unwrap();
        // The directory is created, too.
        let directory = at.path().join("state");
        let (secrets, other) = (Secrets::at(&directory), Secrets::at(&directory));
        assert_eq!((names(&secrets), values(&secrets)), (vec![], vec![]));
        assert_eq!(secrets.remove("A").unwrap_err().code, Code::NotFound);
        assert!(!directory.exists());
        secrets.set("B", "two\nlines").unwrap();
        secrets.set("A", "ü").unwrap();
        let all = [("A".to_owned(), "ü".to_owned()), ("B".to_owned(), "two\nlines".to_owned())];
        assert_eq!((names(&other), values(&other)), (vec!["A".to_owned(), "B".to_owned()], all.to_vec()));
        // Another program sees the change at once, although it knows the former values.
        secrets.set("A", "o").unwrap();
        assert_eq!(values(&other)[0].1, "o");
        secrets.remove("A").unwrap();
        assert_eq!(secrets.remove("A").unwrap_err().code, Code::NotFound);
        assert_eq!(values(&other), all[1..]);
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(secrets.path()), mode(directory.clone())), (0o600, 0o700));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn names_and_values_are_checked() {
        let at = tempfile::tempdir().unwrap();
        let secrets = Secrets::at(at.path());
        let long = "a".repeat(MAX_NAME + 1);
        for name in ["", "1A", "A-B", "A B", "Ä", "A\n", &long] {
            assert_eq!(secrets.set(name, "value").unwrap_err().code, Code::InvalidInput, "{name}");
        }
        let long = "a".repeat(MAX_VALUE + 1);
        for value in ["", "a\0b", &long] {
            let error = secrets.set("A", value).unwrap_err();
            assert_eq!(error.code, Code::InvalidInput);
            assert!(!error.message.contains("aa"), "{error}");
        }
        for at in 0..MAX_SECRETS {
            secrets.set(&format!("A{at}"), &long[1..]).unwrap();
        }
        assert_eq!(secrets.set("B", "value").unwrap_err().code, Code::TooLarge);
        secrets.set("A0", "another value").unwrap();
    }

    #[test]
    fn only_a_private_file_is_read() {
        let at = tempfile::tempdir().unwrap();
        let secrets = Secrets::at(at.path());
        secrets.set("A", "a long value").unwrap();
        fs::set_permissions(secrets.path(), fs::Permissions::from_mode(0o640)).unwrap();
        for error in [secrets.values().unwrap_err(), secrets.set("B", "value").unwrap_err()] {
            assert!(error.code == Code::PermissionDenied && error.message.contains("not private"), "{error}");
        }
        fs::set_permissions(secrets.path(), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(values(&secrets).len(), 1);
        let target = at.path().join("elsewhere");
        fs::rename(secrets.path(), &target).unwrap();
        symlink(&target, secrets.path()).unwrap();
        assert_eq!(secrets.values().unwrap_err().code, Code::Unavailable);
        fs::remove_file(secrets.path()).unwrap();
        fs::write(&target, "{\"A\":{\"value\":\"a long value\"").unwrap();
        fs::rename(&target, secrets.path()).unwrap();
        fs::set_permissions(secrets.path(), fs::Permissions::from_mode(0o600)).unwrap();
        let error = secrets.values().unwrap_err();
        assert!(error.message.contains("damaged") && !error.message.contains("long"), "{error}");
    }

    #[test]
    fn debug_text_has_no_values() {
        let at = tempfile::tempdir().unwrap();
        let secrets = Secrets::at(at.path());
        secrets.set("NAME", "a long value").unwrap();
        let values = secrets.values().unwrap();
        let text = format!("{values:?} {secrets:?}");
        assert!(text.contains("NAME") && !text.contains("long value"), "{text}");
    }
}
