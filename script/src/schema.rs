//! The schemas of created tools, and the arguments of their calls. An agent writes both, so they are compared within the limits
//! of a script, in a context that the script never sees.

use rquickjs::context::intrinsic;
use rquickjs::{CatchResultExt as _, Coerced, Context, Runtime};

use crate::compile::Compiler;
use crate::failure;
use crate::json;
use crate::limits::{Limit, Limits};
use crate::memory::Memory;
use crate::protocol::{Failure, Json};

/// What `schema.js` needs.
type Intrinsics = (intrinsic::RegExpCompiler, intrinsic::RegExp, intrinsic::Json, intrinsic::MapSet);

/// Checks a schema and, if there are any, the arguments of a call.
///
/// # Errors
/// What is wrong with them, or the limit that was reached.
pub(crate) fn check(
    runtime: &Runtime,
    compiler: &Compiler,
    schema: &Json,
    args: Option<&Json>,
) -> Result<(), Failure> {
    let program = compiler.own(include_str!("schema.js"))?;
    let context =
        Context::custom::<Intrinsics>(runtime).map_err(|error| failure::plain(error.to_string()))?;
    let wrong = context.with(|ctx| {
        let check = || {
            let args = args.map(|args| json::value(&ctx, args)).transpose()?;
            program.function(&ctx)?.call::<_, Option<Coerced<String>>>((json::value(&ctx, schema)?, args))
        };
        let checked = check().catch(&ctx).map_err(|error| failure::of(&ctx, error, &Limits::default()));
        // Whatever it says then: a pattern that does not fit into the memory is no valid pattern to the engine.
        if Memory::has_refused(&ctx) { Err(limited(Limit::Memory)) } else { checked }
    })?;
    match wrong {
        None => Ok(()),
        Some(message) => Err(Failure { arguments: true, ..failure::plain(message.0) }),
    }
}

/// Returns the failure for a limit that a check has reached.
pub(crate) fn limited(limit: Limit) -> Failure {
    let what = match limit {
        Limit::Time => "take too long",
        Limit::Memory | Limit::Result => "need too much memory",
    };
    let message = format!(
        "`parameter_schema` and the arguments {what} to check: pass less, or make the schema and its patterns simpler"
    );
    Failure { arguments: true, limit: Some(limit), ..failure::plain(message) }
}
