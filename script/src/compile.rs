//! Compiles source to bytecode, in a separate context with the parser. The context of a script has no parser, so nothing in
//! it can turn text into code.
#![allow(unsafe_code, reason = "rquickjs has no safe functions for the bytecode of scripts")]

use std::borrow::Cow;

use rquickjs::context::intrinsic;
use rquickjs::{CatchResultExt as _, Context, Ctx, Error, Function, Value, qjs};

use crate::failure::{self, Source};
use crate::limits::{CODE, Limits, MEMORY, STACK};
use crate::memory::Memory;
use crate::protocol::Failure;

/// The compiled source of a script.
#[derive(Debug)]
pub(crate) enum Compiled {
    /// A program. Its promise resolves to an object with the value of its last expression.
    Program(Bytecode),
    /// A program whose value is an async function: the source has a `return`.
    Function(Bytecode),
}

/// Bytecode that this engine has written.
#[derive(Debug)]
pub(crate) struct Bytecode(Vec<u8>);

/// The compiler.
pub(crate) struct Compiler(Context);

impl Compiler {
    pub(crate) fn new() -> rquickjs::Result<Self> {
        let memory = Memory::new(MEMORY);
        let runtime = memory.runtime()?;
        runtime.set_max_stack_size(STACK);
        let context = Context::custom::<(intrinsic::Eval, intrinsic::RegExpCompiler)>(&runtime)?;
        context.with(|ctx| memory.attach(&ctx));
        Ok(Compiler(context))
    }

    /// Compiles a script: the body of an async function, or a program with a value.
    pub(crate) fn script(&self, code: &str) -> Result<Compiled, Failure> {
        check_length(code)?;
        let code = &*without_fences(code);
        if let Ok(bytecode) = self.compile(code, Source::SCRIPT, qjs::JS_EVAL_FLAG_ASYNC) {
            return Ok(Compiled::Program(bytecode));
        }
        // A program cannot contain `return`, and the body of a function has no value of its own. If neither compiles, the
        // errors of the function are easier to understand.
        let function = format!("(async function () {{\n{code}\n}})");
        self.compile(&function, Source::BODY, 0).map(Compiled::Function)
    }

    /// Compiles a library.
    pub(crate) fn library(&self, name: &str, code: &str) -> Result<Bytecode, Failure> {
        check_length(code)?;
        let code = without_fences(code);
        let function = format!("(function (module, exports, require) {{\n{code}\n}})");
        self.compile(&function, &Source::library(name), 0)
    }

    /// Compiles koze's own source.
    pub(crate) fn own(&self, code: &str) -> Result<Bytecode, Failure> {
        self.compile(code, Source::OWN, 0)
    }

    fn compile(&self, code: &str, name: &str, flags: u32) -> Result<Bytecode, Failure> {
        self.0.with(|ctx| {
            let written = write(&ctx, code, name, flags).catch(&ctx);
            written.map_err(|error| failure::of(&ctx, error, &Limits::default()))
        })
    }
}

/// Returns source without the fences of a block of Markdown around all of it. Its lines keep their numbers. In JavaScript,
/// such a text always fails: it calls a text as a function.
fn without_fences(code: &str) -> Cow<'_, str> {
    const FENCE: &str = "```";
    let inner = || {
        let start = code.len() - code.trim_start().len();
        let (language, rest) = code[start..].strip_prefix(FENCE)?.split_once('\n')?;
        let is_language = language.trim_end().chars().all(|one| one.is_ascii_alphanumeric());
        let (body, last) = rest.trim_end().rsplit_once('\n')?;
        (is_language && last.trim() == FENCE).then(|| {
            let lines = code[..start].matches('\n').count() + 1;
            "\n".repeat(lines) + body
        })
    };
    inner().map_or(Cow::Borrowed(code), Cow::Owned)
}

fn check_length(code: &str) -> Result<(), Failure> {
    if code.len() <= CODE {
        return Ok(());
    }
    let message = format!(
        "the source has {} bytes, but may have at most {CODE}: move parts of it to libraries",
        code.len()
    );
    Err(failure::plain(message))
}

fn write(ctx: &Ctx<'_>, code: &str, name: &str, flags: u32) -> rquickjs::Result<Bytecode> {
    let (source, name) = (std::ffi::CString::new(code)?, std::ffi::CString::new(name)?);
    let flags = qjs::JS_EVAL_TYPE_GLOBAL | qjs::JS_EVAL_FLAG_COMPILE_ONLY | flags;
    let flags = i32::try_from(flags).unwrap_or_default();
    let raw = ctx.as_raw().as_ptr();
    // SAFETY: both strings end with a zero byte, the length is that of the source, and the value belongs to the context.
    let program = unsafe {
        let value = qjs::JS_Eval(raw, source.as_ptr(), code.len() as _, name.as_ptr(), flags);
        owned(ctx, value)?
    };
    let mut length = 0;
    let flags = i32::try_from(qjs::JS_WRITE_OBJ_BYTECODE).unwrap_or_default();
    // SAFETY: the value is alive, and the function returns null or a buffer of this length, which is freed once.
    unsafe {
        let written = qjs::JS_WriteObject(raw, &raw mut length, program.as_raw(), flags);
        if written.is_null() {
            return Err(Error::Exception);
        }
        let length = usize::try_from(length).unwrap_or_default();
        let bytes = std::slice::from_raw_parts(written, length).to_vec();
        qjs::js_free(raw, written.cast());
        Ok(Bytecode(bytes))
    }
}

impl Bytecode {
    /// Runs it in a context. Returns its value.
    pub(crate) fn run<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<Value<'js>> {
        let raw = ctx.as_raw().as_ptr();
        let flags = i32::try_from(qjs::JS_READ_OBJ_BYTECODE).unwrap_or_default();
        // SAFETY: the same version of the engine has written the bytes. Running a function consumes its value.
        unsafe {
            let program = qjs::JS_ReadObject(raw, self.0.as_ptr(), self.0.len() as _, flags);
            if qjs::JS_VALUE_GET_NORM_TAG(program) == qjs::JS_TAG_EXCEPTION {
                return Err(Error::Exception);
            }
            owned(ctx, qjs::JS_EvalFunction(raw, program))
        }
    }

    /// Runs it in a context. Returns the function that is its value.
    pub(crate) fn function<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<Function<'js>> {
        self.run(ctx)?.into_function().ok_or(Error::Unknown)
    }
}

/// Takes ownership of a value of the engine, or returns its exception.
///
/// # Safety
/// The value must belong to this context, and nothing else may free it.
unsafe fn owned<'js>(ctx: &Ctx<'js>, value: qjs::JSValue) -> rquickjs::Result<Value<'js>> {
    if unsafe { qjs::JS_VALUE_GET_NORM_TAG(value) } == qjs::JS_TAG_EXCEPTION {
        return Err(Error::Exception);
    }
    // SAFETY: see above.
    Ok(unsafe { Value::from_raw(ctx.clone(), value) })
}

/// Adds `btoa` and `atob` to a context.
pub(crate) fn add_base64(ctx: &Ctx<'_>) -> rquickjs::Result<()> {
    // SAFETY: the context is alive.
    let added = unsafe { qjs::JS_AddIntrinsicAToB(ctx.as_raw().as_ptr()) };
    if added < 0 { Err(Error::Exception) } else { Ok(()) }
}
