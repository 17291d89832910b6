//! Errors, with their places in the script.

use rquickjs::{CaughtError, Coerced, Ctx, Object, Value};

use crate::limits::{Limit, Limits, MESSAGE};
use crate::memory::Memory;
use crate::protocol::{Failure, Place};

/// The names of sources in stacks. They cannot occur in the names of functions, which have no `)`.
pub(crate) struct Source;

impl Source {
    /// A script that is a program.
    pub(crate) const SCRIPT: &str = "koze:script";
    /// A script within a function that starts on a line of its own.
    pub(crate) const BODY: &str = "koze:body";
    /// Koze's own source.
    pub(crate) const OWN: &str = "koze:own";
    const LIBRARY: &str = "koze:library:";

    /// A library, within a function that starts on a line of its own.
    pub(crate) fn library(name: &str) -> String {
        format!("{}{name}", Self::LIBRARY)
    }
}

/// Returns the failure for an error.
pub(crate) fn of<'js>(ctx: &Ctx<'js>, error: CaughtError<'js>, limits: &Limits) -> Failure {
    match error {
        CaughtError::Exception(exception) => of_value(ctx, &exception.into_value(), limits),
        CaughtError::Value(value) => of_value(ctx, &value, limits),
        CaughtError::Error(rquickjs::Error::Allocation) => Failure::limited(limits, Limit::Memory),
        CaughtError::Error(error) => plain(error.to_string()),
    }
}

/// Returns the failure for a thrown value.
pub(crate) fn of_value<'js>(ctx: &Ctx<'js>, thrown: &Value<'js>, limits: &Limits) -> Failure {
    // If no memory is left for an error, the engine throws null.
    if thrown.is_null() && Memory::has_refused(ctx) {
        return Failure::limited(limits, Limit::Memory);
    }
    let Some(object) = thrown.as_object().filter(|object| is_error(ctx, object)) else {
        // Errors of its own methods are ignored.
        let text = ctx.json_stringify(thrown.clone()).unwrap_or_else(|_| forget(ctx));
        let text = text.and_then(|text| text.to_string().ok());
        return plain(format!("uncaught: {}", text.unwrap_or_else(|| thrown.type_of().to_string())));
    };
    // A getter of the script may throw here, or return anything.
    let text = |key: &str| {
        let text = object.get::<_, Coerced<String>>(key).map(|text| text.0);
        text.unwrap_or_else(|_| forget(ctx))
    };
    let (name, message, stack) = (text("name"), text("message"), text("stack"));
    let place = place(&stack);
    let stack = own_frames(&stack);
    if name == "InternalError" && message == "out of memory" {
        return Failure { stack, place, ..Failure::limited(limits, Limit::Memory) };
    }
    let message = match (name.as_str(), message.as_str()) {
        ("", message) => message.to_owned(),
        (name, "") => name.to_owned(),
        (name, message) => format!("{name}: {message}"),
    };
    let name = (!name.is_empty()).then(|| shortened(name));
    Failure { name, stack, place, ..plain(message) }
}

/// Returns whether an object is an error: a `DOMException` is one that the engine does not count.
fn is_error<'js>(ctx: &Ctx<'js>, object: &Object<'js>) -> bool {
    let inherits = || {
        let exception: Object<'js> = ctx.globals().get("DOMException")?;
        Ok::<_, rquickjs::Error>(object.get_prototype() == Some(exception.get("prototype")?))
    };
    object.is_error() || inherits().unwrap_or_else(|_| forget(ctx))
}

/// Forgets an exception.
fn forget<T: Default>(ctx: &Ctx<'_>) -> T {
    drop(ctx.catch());
    T::default()
}

pub(crate) fn plain(message: String) -> Failure {
    Failure::new(shortened(message))
}

fn shortened(mut text: String) -> String {
    if text.len() > MESSAGE {
        text.truncate(text.floor_char_boundary(MESSAGE));
        text.push('…');
    }
    text
}

/// Returns the frames that are not koze's own, from the innermost one: `at NAME (line 1, column 2)`.
fn own_frames(stack: &str) -> Option<String> {
    let frames = stack.lines().filter_map(|line| {
        let place = frame(line)?;
        let name =
            line.trim_start().strip_prefix("at ")?.rsplit_once(" (").map_or("<anonymous>", |(name, _)| name);
        Some(format!("at {name} ({place})"))
    });
    let frames: Vec<String> = frames.collect();
    (!frames.is_empty()).then(|| shortened(frames.join("\n")))
}

/// Returns the place of the innermost frame that is not koze's own.
fn place(stack: &str) -> Option<Place> {
    stack.lines().find_map(frame)
}

fn frame(line: &str) -> Option<Place> {
    let at = line.rfind("koze:")?;
    let rest = line[at..].trim_end_matches(')');
    let mut parts = rest.rsplitn(3, ':');
    let (column, line) = (parts.next()?.parse().ok()?, parts.next()?.parse::<u32>().ok()?);
    let (library, line) = match parts.next()? {
        Source::SCRIPT => (None, line),
        Source::BODY => (None, line - 1),
        source => (Some(source.strip_prefix(Source::LIBRARY)?.to_owned()), line - 1),
    };
    // The line after the last one is the end of the function around it.
    (line > 0).then_some(Place { library, line, column })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_frame_of_the_author_counts() {
        let stack = "    at call (koze:own:3:7)\n    at f (native)\n    at g (koze:library:utils:4:9)\n    \
                     at <anonymous> (koze:body:2:1)\n";
        let found = Place { library: Some("utils".into()), line: 3, column: 9 };
        assert_eq!(place(stack), Some(found));
        assert_eq!(
            own_frames(stack).as_deref(),
            Some("at g (library utils, line 3, column 9)\nat <anonymous> (line 1, column 1)")
        );
        assert_eq!(own_frames("    at call (koze:own:3:7)\n    at f (native)\n"), None);
        assert_eq!(place("    at koze:script:5:2\n"), Some(Place { library: None, line: 5, column: 2 }));
        assert_eq!(place("    at koze:body:1:2\n"), None);
        assert_eq!(place("anything: 1:2"), None);
        assert_eq!(place("koze:body:0:99999999999"), None);
    }
}
