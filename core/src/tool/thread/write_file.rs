//! `write_file`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::place::Given;
use super::{Told, cut, open_sandbox, to_reply};
use crate::error::{Code, Error, Result};
use crate::provider::Provider;
use crate::sandbox::{Sandbox, Write};
use crate::session::Session;
use crate::tool::{Reply, Scope, Tool};

/// Writes a file.
#[derive(Debug)]
pub struct WriteFile;

/// The input of `write_file`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Explain why you are writing to this file in short words. ALWAYS PROVIDE THIS PARAMETER FIRST.
    #[serde(rename = "description")]
    _description: String,
    /// The absolute path to the file to write to. ALWAYS PROVIDE THIS PARAMETER SECOND.
    path: String,
    /// The content to write to the file. ALWAYS PROVIDE THIS PARAMETER THIRD.
    content: String,
    /// Whether to append to the file instead of overwriting it. Default is False.
    #[serde(default)]
    append: bool,
}

/// The longest error, in characters.
const MAX_ERROR: usize = 2000;

/// The variable of a sandbox with the maximum size of a call's content in bytes.
const LIMIT: &str = "KOZE_WRITE_FILE_MAX_BYTES";

impl Tool for WriteFile {
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str = "Write text content to a file. Overwrites the file unless append is true. Missing parent directories are \
        created. Returns OK.";
    const SCOPE: Scope = Scope::Session;
    type Input = Input;

    fn wrong_input(error: Error) -> Result<Reply> {
        Ok(super::wrong_input(error))
    }

    async fn call<P: Provider>(session: &Session<P>, input: Input) -> Result<Reply> {
        let told = write_content(session, input).await;
        Ok(to_reply(told.map_err(|text| cut::keep_ends(text, 0, MAX_ERROR - "Error: ".len()))))
    }
}

async fn write_content<P: Provider>(session: &Session<P>, input: Input) -> Told {
    let Input { path, content, append, .. } = input;
    let given = Given::new(&path)?;
    if let Some(limit) = declared_limit(session).filter(|limit| !append && content.len() > *limit) {
        return Err(format!(
            "write_file content has {} bytes, and one call writes at most {limit}. Write the first part, then the others \
             with append set to true. To change a part of an existing file, use str_replace.",
            content.len()
        ));
    }
    let how = if append { Write::Append } else { Write::Replace };
    let written = open_sandbox(session).await?.write(given.to_place(), content.into_bytes(), how).await;
    match written {
        Ok(_) => Ok("OK".to_owned()),
        Err(error) => {
            let named = match error.code {
                Code::PermissionDenied => Some(format!("Permission denied writing to file: {path}")),
                Code::IsDirectory => Some(format!("Path is a directory, not a file: {path}")),
                _ => None,
            };
            Err(given.failure_text(&error, &format!("Failed to write file '{path}'"), named))
        }
    }
}

/// Returns the limit that the sandbox's attribute declares, if it declares one.
fn declared_limit<P: Provider>(session: &Session<P>) -> Option<usize> {
    let env = &session.profiles().default_profile().env;
    let (_, value) = env.iter().find(|(name, _)| name == LIMIT)?;
    value.parse().ok().filter(|limit| *limit > 0)
}
