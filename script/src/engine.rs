//! One run of a script.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rquickjs::context::intrinsic;
use rquickjs::object::Property;
use rquickjs::promise::PromiseState;
use rquickjs::{
    CatchResultExt as _, Context, Ctx, Error, Function, Object, Persistent, Promise, Runtime, Value,
};

use crate::compile::{Compiled, Compiler};
use crate::failure;
use crate::globals;
use crate::json;
use crate::limits::{Limit, Limits, MEMORY, STACK};
use crate::memory::Memory;
use crate::protocol::{Check, Failure, FromScript, Json, Place, Secrets, Start};
use crate::rejections::Rejections;
use crate::schema;
use crate::shared::{Encoded, Shared};

/// The host of an engine.
pub trait Host: 'static {
    /// Receives a message from the script: a call or a line of the log.
    fn send(&mut self, message: FromScript);
    /// Returns whether the script has to end because its time is over. Called often.
    fn is_over(&mut self) -> bool;
    /// Returns the milliseconds since an arbitrary but fixed point in time.
    fn now(&mut self) -> u64;
}

/// The state of a script.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// It waits for answers, or for the next timer, which is due in so many milliseconds.
    Waiting(Option<u64>),
    /// It has ended.
    Done(Result<Json, Failure>),
}

/// One run of a script. Its globals are set up before the script is known.
pub struct Engine {
    // Fields are dropped in this order: values before their runtime.
    main: Option<Persistent<Promise<'static>>>,
    kind: Kind,
    context: Context,
    runtime: Runtime,
    memory: Memory,
    shared: Rc<Shared>,
}

impl Engine {
    /// Prepares a run.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(host: impl Host) -> Result<Self, Failure> {
        let made = || {
            let memory = Memory::new(MEMORY);
            let runtime = memory.runtime()?;
            runtime.set_max_stack_size(STACK);
            let context = Context::custom::<Intrinsics>(&runtime)?;
            let shared = Rc::new(Shared {
                compiler: Compiler::new()?,
                libraries: RefCell::default(),
                host: RefCell::new(Box::new(host)),
                logs: RefCell::default(),
                calls: RefCell::default(),
                timers: RefCell::default(),
                last: Cell::default(),
                encode: RefCell::default(),
                resolved: RefCell::default(),
                rejections: Rejections::default(),
                limits: Cell::default(),
                is_over: Cell::default(),
                random: Cell::default(),
                began: Cell::default(),
            });
            context
                .with(|ctx| {
                    memory.attach(&ctx);
                    let added = globals::add(&ctx, &shared).map(|encode| {
                        *shared.encode.borrow_mut() = Some(Persistent::save(&ctx, encode));
                    });
                    added.catch(&ctx).map_err(|error| failure::of(&ctx, error, &Limits::default()).message)
                })
                .map_err(|message| Error::new_into_js_message("koze", "globals", message))?;
            let over = Rc::clone(&shared);
            runtime.set_interrupt_handler(Some(Box::new(move || over.is_over())));
            let tracking = Rc::clone(&shared);
            runtime.set_host_promise_rejection_tracker(Some(Box::new(
                move |ctx, promise, reason, is_handled| {
                    tracking.rejections.track(&ctx, promise, reason, is_handled);
                },
            )));
            Ok::<_, Error>(Engine { main: None, kind: Kind::Value, context, runtime, memory, shared })
        };
        made().map_err(|error| failure::plain(format!("the engine cannot start: {error}")))
    }

    /// Starts the script.
    pub fn start(&mut self, start: Start) -> State {
        let state = self.begin(start);
        self.reported(state)
    }

    fn begin(&mut self, start: Start) -> State {
        self.shared.limits.set(start.limits);
        self.shared.random.set(start.seed.into());
        self.shared.began.set(self.shared.host.borrow_mut().now());
        let compiled = match self.shared.compiler.script(&start.code) {
            Ok(compiled) => compiled,
            Err(failure) => return State::Done(Err(failure)),
        };
        self.kind = if matches!(compiled, Compiled::Program(_)) { Kind::Program } else { Kind::Value };
        self.memory.set_limit(start.limits.memory);
        *self.shared.libraries.borrow_mut() = start.libraries;
        if let Some(schema) = &start.schema
            && let Err(failure) = self.check_schema(schema, start.args.as_ref())
        {
            return State::Done(Err(failure));
        }
        let started = self.context.with(|ctx| {
            let begin = || {
                if let Some(args) = &start.args {
                    let args = json::value(&ctx, args)?;
                    ctx.globals().prop("args", Property::from(args).writable().configurable())?;
                }
                if !start.browser {
                    ctx.globals().remove("browser")?;
                }
                add_secrets(&ctx, &start.secrets)?;
                let promise = match compiled {
                    Compiled::Program(program) => program.run(&ctx)?,
                    Compiled::Function(program) => program.function(&ctx)?.call::<_, Value<'_>>(())?,
                };
                let promise = Promise::from_value(promise)?;
                Ok::<_, Error>(Persistent::save(&ctx, promise))
            };
            begin().catch(&ctx).map_err(|error| failure::of(&ctx, error, &start.limits))
        });
        match started {
            Ok(main) => self.main = Some(main),
            Err(failure) => return State::Done(Err(self.judged(failure))),
        }
        self.drive()
    }

    /// Passes the answer to a call to the script, and continues it.
    pub fn answer(&mut self, id: u64, result: Result<Json, String>) -> State {
        let state = self.settle(id, result);
        self.reported(state)
    }

    fn settle(&mut self, id: u64, result: Result<Json, String>) -> State {
        let Some(pending) = self.shared.calls.borrow_mut().remove(&id) else { return self.drive() };
        let settled = self.context.with(|ctx| {
            let settle = || match result {
                Ok(value) => pending.resolve.restore(&ctx)?.call::<_, ()>((json::value(&ctx, &value)?,)),
                Err(message) => {
                    let error = pending.error.restore(&ctx)?;
                    if let Some(error) = error.as_object() {
                        error.prop("message", Property::from(message).writable().configurable())?;
                    }
                    pending.reject.restore(&ctx)?.call::<_, ()>((error,))
                }
            };
            settle().catch(&ctx).map_err(|error| failure::of(&ctx, error, &self.shared.limits.get()))
        });
        match settled {
            Ok(()) => self.drive(),
            Err(failure) => State::Done(Err(self.judged(failure))),
        }
    }

    /// Continues the script because of its timers.
    pub fn timer(&mut self) -> State {
        let state = self.run_timers();
        self.reported(state)
    }

    fn run_timers(&mut self) -> State {
        loop {
            let now = self.shared.host.borrow_mut().now();
            let callback = {
                let mut timers = self.shared.timers.borrow_mut();
                match timers.first_entry() {
                    Some(first) if first.key().0 <= now => first.remove(),
                    _ => break,
                }
            };
            let called = self.context.with(|ctx| {
                let call = || callback.restore(&ctx)?.call::<_, Value<'_>>(()).map(drop);
                call().catch(&ctx).map_err(|error| failure::of(&ctx, error, &self.shared.limits.get()))
            });
            if let Err(failure) = called {
                return State::Done(Err(self.judged(failure)));
            }
            let state = self.drive();
            if matches!(state, State::Done(_)) {
                return state;
            }
        }
        self.drive()
    }

    /// Runs all pending jobs.
    fn drive(&mut self) -> State {
        loop {
            if self.shared.is_over() {
                return State::Done(Err(self.judged(failure::plain(String::new()))));
            }
            match self.runtime.execute_pending_job() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    // A failed job rejects its promise, unless the script has to end.
                    let failure = self.context.with(|ctx| {
                        let thrown = ctx.catch();
                        failure::of_value(&ctx, &thrown, &self.shared.limits.get())
                    });
                    drop(error);
                    if self.shared.is_over.get() || failure.limit.is_some() {
                        return State::Done(Err(self.judged(failure)));
                    }
                }
            }
        }
        match self.settled() {
            Some(Settled::Again) => self.drive(),
            Some(Settled::Done(result)) => State::Done(result.map_err(|failure| self.judged(failure))),
            None if self.shared.is_idle() => {
                let resolved = self.shared.resolved.borrow_mut().take();
                match resolved.map(|resolved| self.settled_with(resolved)) {
                    Some(Settled::Again) => self.drive(),
                    Some(Settled::Done(result)) => State::Done(result),
                    None => {
                        let text = "the script awaits a promise that nothing can settle: no call and no timer is pending";
                        State::Done(Err(failure::plain(text.to_owned())))
                    }
                }
            }
            None => {
                let first = self.shared.timers.borrow().keys().next().map(|(due, _)| *due);
                let now = self.shared.host.borrow_mut().now();
                State::Waiting(first.map(|due| due.saturating_sub(now)))
            }
        }
    }

    /// Returns the result of the script's promise, if it has settled.
    fn settled(&mut self) -> Option<Settled> {
        let main = self.main.clone()?;
        let limits = self.shared.limits.get();
        // Its own handle, because the next promise is stored meanwhile.
        let context = self.context.clone();
        context.with(|ctx| {
            let main = main.restore(&ctx).ok()?;
            match main.state() {
                PromiseState::Pending => None,
                PromiseState::Rejected => {
                    let thrown = match main.result::<Value<'_>>() {
                        Some(Err(_)) => ctx.catch(),
                        _ => Value::new_undefined(ctx.clone()),
                    };
                    Some(Settled::Done(Err(failure::of_value(&ctx, &thrown, &limits))))
                }
                PromiseState::Resolved => {
                    let value = main.result::<Value<'_>>().and_then(Result::ok);
                    let next = self.fulfilled(&ctx, value).catch(&ctx);
                    Some(next.unwrap_or_else(|error| Settled::Done(Err(failure::of(&ctx, error, &limits)))))
                }
            }
        })
    }

    /// Returns the result for the value of the script's promise, or continues with another promise.
    fn fulfilled<'js>(&mut self, ctx: &Ctx<'js>, mut value: Option<Value<'js>>) -> rquickjs::Result<Settled> {
        let kind = std::mem::replace(&mut self.kind, Kind::Value);
        if kind == Kind::Encoded {
            let text = value.unwrap_or_else(|| Value::new_undefined(ctx.clone()));
            return self.shared.written(&text).map(Settled::Done);
        }
        let has_resolved = self.shared.resolved.borrow().is_some();
        if kind == Kind::Program {
            // The engine returns the value of a program in an object.
            value = value.and_then(|value| value.as_object()?.get("value").ok());
            // A program that only consists of a function means its result.
            if !has_resolved && let Some(function) = value.as_ref().and_then(Value::as_function) {
                let args = ctx.globals().get::<_, Value<'_>>("args")?;
                value = Some(function.call((args,))?);
            }
        }
        // The value of the last expression may be a promise, too.
        if let Some(promise) = value.as_ref().and_then(Value::as_promise) {
            self.main = Some(Persistent::save(ctx, promise.clone()));
            return Ok(Settled::Again);
        }
        let resolved = self.shared.resolved.borrow_mut().take();
        if let Some(resolved) = resolved {
            return Ok(self.settled_with(resolved));
        }
        let encoded = self.shared.encoded(ctx, value);
        // `resolve` counts first, even if the encoding called it.
        let resolved = self.shared.resolved.borrow_mut().take();
        let encoded = resolved.map_or(encoded, Ok)?;
        Ok(self.settled_with(encoded))
    }

    fn settled_with(&mut self, encoded: Encoded) -> Settled {
        match encoded {
            Encoded::Done(result) => Settled::Done(result),
            Encoded::Later(promise) => {
                self.main = Some(promise);
                self.kind = Kind::Encoded;
                Settled::Again
            }
        }
    }

    /// Logs the rejections that nothing has handled, if the script has ended.
    fn reported(&self, state: State) -> State {
        if matches!(state, State::Done(_)) {
            let limits = self.shared.limits.get();
            self.context.with(|ctx| {
                let main = self.main.clone().and_then(|main| main.restore(&ctx).ok());
                for line in self.shared.rejections.take(&ctx, main.as_ref().map(Promise::as_value), &limits) {
                    self.shared.log(line);
                }
            });
        }
        state
    }

    /// Returns the failure of a script. If its time is over, that is the reason.
    fn judged(&self, failure: Failure) -> Failure {
        if self.shared.is_over.get() {
            // Without a place, because a loop that calls nothing does not update it.
            return Failure::limited(&self.shared.limits.get(), Limit::Time);
        }
        failure
    }

    /// Checks what an agent wrote without running it.
    ///
    /// # Errors
    /// The first error in it.
    pub fn check(&self, check: &Check) -> Result<(), Failure> {
        let compiler = &self.shared.compiler;
        match check {
            Check::Script(code) => compiler.script(code).map(drop),
            Check::Library(code) => compiler.library("", code).map(drop).map_err(|failure| Failure {
                place: failure.place.map(|place| Place { library: None, ..place }),
                ..failure
            }),
            Check::Schema(schema) => self.check_schema(schema, None),
        }
    }

    fn check_schema(&self, schema: &Json, args: Option<&Json>) -> Result<(), Failure> {
        let checked = schema::check(&self.runtime, &self.shared.compiler, schema, args);
        checked.map_err(|failure| if self.shared.is_over() { schema::limited(Limit::Time) } else { failure })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The runtime aborts if a value outlives it.
        self.shared.calls.borrow_mut().clear();
        self.shared.timers.borrow_mut().clear();
        self.shared.resolved.borrow_mut().take();
        self.shared.encode.borrow_mut().take();
        self.shared.rejections.clear();
        self.runtime.set_host_promise_rejection_tracker(None);
        self.runtime.set_interrupt_handler(None);
    }
}

/// What the promise that an engine waits for resolves to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An object with the value of a program's last expression.
    Program,
    /// The result.
    Value,
    /// The JSON of the result.
    Encoded,
}

enum Settled {
    /// To another promise.
    Again,
    Done(Result<Json, Failure>),
}

/// The intrinsics of a script's context, without the parser.
type Intrinsics = (
    intrinsic::Date,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
    intrinsic::WeakRef,
    intrinsic::DOMException,
);

fn add_secrets(ctx: &Ctx<'_>, secrets: &Secrets) -> rquickjs::Result<()> {
    let object = Object::new(ctx.clone())?;
    for (name, value) in secrets.iter() {
        object.prop(name, Property::from(value).enumerable())?;
    }
    let freeze: Function<'_> = ctx.globals().get::<_, Object<'_>>("Object")?.get("freeze")?;
    freeze.call::<_, ()>((object.clone(),))?;
    ctx.globals().prop("secrets", Property::from(object).configurable())
}
