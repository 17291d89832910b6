//! The globals of a script: the functions of the host that `prelude.js` builds on.

use std::rc::Rc;
use std::time::Duration;

use rquickjs::function::Opt;
use rquickjs::object::Property;
use rquickjs::{Ctx, Exception, Function, Object, Persistent, Promise, Value};

use crate::compile;
use crate::csv;
use crate::json;
use crate::limits::{CALLS, DEPTH, NESTING, RESULT, TIMER, TIMERS, time_ms};
use crate::protocol::{FromScript, Json};
use crate::shared::{Pending, Shared};
use crate::web;

/// Defines a global that is not enumerable.
const DEFINE: &str = "((define) => (name, value) => define(globalThis, name, { value, writable: true, configurable: true, \
                      enumerable: false }))(Object.defineProperty)";

/// Adds the globals that all scripts have. Returns the function that encodes results.
pub(crate) fn add<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>) -> rquickjs::Result<Function<'js>> {
    let host = Object::new(ctx.clone())?;
    host.set("call", Function::new(ctx.clone(), calling(Rc::clone(shared)))?)?;
    host.set("load", Function::new(ctx.clone(), loading(Rc::clone(shared)))?)?;
    host.set("setTimer", Function::new(ctx.clone(), timing(Rc::clone(shared)))?)?;
    let logging = Rc::clone(shared);
    host.set("log", Function::new(ctx.clone(), move |line: String| logging.log(line))?)?;
    let clearing = Rc::clone(shared);
    host.set("clearTimer", Function::new(ctx.clone(), move |id: f64| clearing.clear_timer(whole(id)))?)?;
    host.set("parseCsv", Function::new(ctx.clone(), csv::parse)?)?;
    let drawing = Rc::clone(shared);
    host.set("random", Function::new(ctx.clone(), move || drawing.random())?.with_name("random")?)?;
    host.set("depth", DEPTH)?;
    compile::add_base64(ctx)?;
    host.set("define", own(ctx, shared, DEFINE)?)?;
    let timed = Rc::clone(shared);
    host.set("now", Function::new(ctx.clone(), move || timed.elapsed_ms())?.with_name("now")?)?;
    let encode: Object<'_> = own(ctx, shared, include_str!("encode.js"))?.call(())?;
    let result = encode.get("result")?;
    host.set("encode", encode)?;
    web::add(ctx, &host)?;
    let web: Object<'_> = own(ctx, shared, include_str!("web.js"))?.call((host.clone(),))?;
    host.set("web", web)?;
    own(ctx, shared, include_str!("prelude.js"))?.call::<_, ()>((host,))?;
    let resolve = Function::new(ctx.clone(), resolving(Rc::clone(shared)))?.with_name("resolve")?;
    ctx.globals().prop("resolve", Property::from(resolve).writable().configurable())?;
    Ok(result)
}

/// Compiles koze's own source. Returns the function that is its value.
fn own<'js>(ctx: &Ctx<'js>, shared: &Shared, code: &str) -> rquickjs::Result<Function<'js>> {
    let compiled = shared.compiler.own(code);
    compiled.map_err(|failure| Exception::throw_message(ctx, &failure.message))?.function(ctx)
}

// The explicit types tie the lifetimes of parameters and results together, which the compiler does not infer.

fn calling(
    shared: Rc<Shared>,
) -> impl for<'js> Fn(Ctx<'js>, String, Value<'js>, Value<'js>) -> rquickjs::Result<Promise<'js>> {
    move |ctx, name, fields, error| call(&ctx, &shared, &name, &fields, error)
}

fn loading(
    shared: Rc<Shared>,
) -> impl for<'js> Fn(Ctx<'js>, String) -> rquickjs::Result<Option<Function<'js>>> {
    move |ctx, name| load(&ctx, &shared, &name)
}

fn timing(shared: Rc<Shared>) -> impl for<'js> Fn(Ctx<'js>, Function<'js>, f64) -> rquickjs::Result<u64> {
    move |ctx, callback, delay| set_timer(&ctx, &shared, callback, delay)
}

fn resolving(shared: Rc<Shared>) -> impl for<'js> Fn(Ctx<'js>, Opt<Value<'js>>) -> rquickjs::Result<()> {
    move |ctx, value| shared.resolve(&ctx, value.0)
}

/// Sends a call to the host. Returns the promise of its answer.
fn call<'js>(
    ctx: &Ctx<'js>,
    shared: &Rc<Shared>,
    name: &str,
    fields: &Value<'js>,
    error: Value<'js>,
) -> rquickjs::Result<Promise<'js>> {
    let call =
        json::written(fields)?.and_then(|fields| Json::new(format!("{{\"{name}\":{}}}", fields.text())).ok());
    let Some(call) = call else {
        let text = format!(
            "the value is too large: it may have {} MiB of JSON, nested {NESTING} levels deep",
            RESULT >> 20
        );
        return Err(Exception::throw_range(ctx, &text));
    };
    let (promise, resolve, reject) = ctx.promise()?;
    let pending = Pending {
        resolve: Persistent::save(ctx, resolve),
        reject: Persistent::save(ctx, reject),
        error: Persistent::save(ctx, error),
    };
    let Some(id) = shared.expect(pending) else {
        let text = format!("at most {CALLS} calls can be pending at the same time: await some of them first");
        return Err(Exception::throw_range(ctx, &text));
    };
    shared.send(FromScript::Call { id, call });
    Ok(promise)
}

/// Compiles a library, and returns its function; undefined if there is no such library.
fn load<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>, name: &str) -> rquickjs::Result<Option<Function<'js>>> {
    let libraries = shared.libraries.borrow();
    let Some(code) = libraries.get(name) else { return Ok(None) };
    match shared.compiler.library(name, code) {
        Ok(bytecode) => bytecode.function(ctx).map(Some),
        Err(failure) => {
            let at = failure.place.map(|place| format!(" (line {}, column {})", place.line, place.column));
            let text = format!("library '{name}': {}{}", failure.message, at.unwrap_or_default());
            Err(Exception::throw_syntax(ctx, &text))
        }
    }
}

fn set_timer<'js>(
    ctx: &Ctx<'js>,
    shared: &Rc<Shared>,
    callback: Function<'js>,
    delay: f64,
) -> rquickjs::Result<u64> {
    let delay = Duration::from_millis(whole(delay)).min(TIMER);
    shared.set_timer(time_ms(delay), Persistent::save(ctx, callback)).ok_or_else(|| {
        let text =
            format!("at most {TIMERS} timers can be pending at the same time: await some of them first");
        Exception::throw_range(ctx, &text)
    })
}

/// Returns the whole part of a number, which is not negative.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates, and what is not a number is 0"
)]
fn whole(number: f64) -> u64 {
    number as u64
}
