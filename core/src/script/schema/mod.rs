//! The schemas of created tools. An agent writes both the schema and the arguments, so neither may cost more than a moment.
//!
//! This is JSON Schema (draft 2020-12) as schemas of tools use it. The validators on crates.io add 800 KiB to the compressed
//! upload of a Worker, more than scripts themselves; one of them checks this one in tests.
//!
//! | module | job |
//! |---|---|
//! | `compile` | turns a schema into rules, and says what is wrong with it |
//! | `rule` | applies rules to a value |

mod compile;
mod rule;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::compile::Compiler;
use self::rule::{Checked, Schema};
use crate::error::{Code, Error, Result};

/// The longest schema, and the longest arguments, in bytes of JSON.
const MAX_SCHEMA: usize = 64 << 10;
const MAX_ARGUMENTS: usize = 1 << 20;
/// How many wrong places an error names.
const NAMED: usize = 10;

/// Checks the schema of a tool.
pub(crate) fn check(schema: &Value) -> Result<()> {
    compiled(schema).map(drop)
}

/// Checks the arguments of a tool. Names every place that is wrong, up to ten.
pub(crate) fn validate(schema: &Value, args: &Value) -> Result<()> {
    if args.to_string().len() > MAX_ARGUMENTS {
        let message = format!(
            "the arguments may have at most {MAX_ARGUMENTS} bytes of JSON: pass less, or store it with set_state"
        );
        return Err(Error::new(Code::TooLarge, message));
    }
    let Checked { mut errors, spent } = compiled(schema)?.check(args);
    if spent {
        let message = "the arguments take too long to compare with `parameter_schema`: pass less, or make the schema simpler";
        return Err(Error::new(Code::TooLarge, message));
    }
    errors.truncate(NAMED);
    if errors.is_empty() {
        return Ok(());
    }
    Err(invalid(&format!("the arguments do not match `parameter_schema`: {}", errors.join("; "))))
}

fn compiled(schema: &Value) -> Result<Schema> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(invalid("`parameter_schema` must be a JSON schema with `\"type\": \"object\"`"));
    }
    if schema.to_string().len() > MAX_SCHEMA {
        return Err(invalid(&format!("`parameter_schema` may have at most {MAX_SCHEMA} bytes of JSON")));
    }
    Compiler::new(schema).compile(schema)
}

fn invalid(message: &str) -> Error {
    Error::new(Code::InvalidInput, message)
}
