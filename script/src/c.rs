//! Functions of C that the module does not have from its C library. With those, it would be a tenth larger.
//!
//! - The mathematical functions are those of the host's `Math`, which need no tables.
//! - The allocator is that of Rust, which is there anyway.
//! - Numbers in JSON are read as those in scripts are.
//! - Of `printf` there is what the engine uses.
#![allow(unsafe_code, reason = "functions of C are unsafe, and so are imports and exports of WebAssembly")]

use std::ffi::{CStr, c_char, c_int};
use std::{ptr, slice};

use rquickjs::allocator::{Allocator as _, RustAllocator};

use crate::print;

/// Defines functions by those of `Math` with the same names.
macro_rules! of_math {
    ($($function:ident($($number:ident),+);)+) => {
        mod math {
            #[link(wasm_import_module = "Math")]
            unsafe extern "C" {
                $(pub(super) safe fn $function($($number: f64),+) -> f64;)+
            }
        }

        $(
            #[unsafe(no_mangle)]
            extern "C" fn $function($($number: f64),+) -> f64 {
                math::$function($($number),+)
            }
        )+
    };
}

of_math! {
    acos(x);
    acosh(x);
    asin(x);
    asinh(x);
    atan(x);
    atan2(y, x);
    atanh(x);
    cbrt(x);
    cos(x);
    cosh(x);
    exp(x);
    expm1(x);
    hypot(x, y);
    log(x);
    log10(x);
    log1p(x);
    log2(x);
    // In C, powers of 1 and -1 are different. The engine handles them itself.
    pow(base, exponent);
    sin(x);
    sinh(x);
    tan(x);
    tanh(x);
}

#[unsafe(no_mangle)]
extern "C" fn malloc(size: usize) -> *mut u8 {
    RustAllocator.alloc(size)
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, size: usize) -> *mut u8 {
    RustAllocator.calloc(count, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(pointer: *mut u8, size: usize) -> *mut u8 {
    if pointer.is_null() {
        return malloc(size);
    }
    // SAFETY: the caller's: the pointer is that of an allocation of these functions.
    unsafe {
        if size == 0 {
            free(pointer);
            return ptr::null_mut();
        }
        RustAllocator.realloc(pointer, size)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(pointer: *mut u8) {
    if !pointer.is_null() {
        // SAFETY: see above.
        unsafe { RustAllocator.dealloc(pointer) }
    }
}

/// The memory that [`js_atod`] computes in, which is more than it needs.
type Scratch = [u64; 64];

unsafe extern "C" {
    /// Reads a number in a radix, as `Number` does.
    fn js_atod(
        text: *const c_char,
        end: *mut *const c_char,
        radix: c_int,
        flags: c_int,
        scratch: *mut Scratch,
    ) -> f64;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strtod(text: *const c_char, end: *mut *const c_char) -> f64 {
    let mut scratch = [0; 64];
    // SAFETY: the caller's, for the text and the pointer to its end. The latter may be null for both.
    unsafe { js_atod(text, end, 10, 0, &raw mut scratch) }
}

/// The arguments of a variadic function. Clang passes their address: each is after the one before, at a multiple of its size.
#[repr(transparent)]
struct Arguments(*const u8);

impl Arguments {
    /// # Safety
    /// The next argument must be of this type.
    unsafe fn next<T: Copy>(&mut self) -> T {
        // SAFETY: the caller's.
        unsafe {
            let at = self.0.add(self.0.align_offset(align_of::<T>())).cast::<T>();
            self.0 = at.add(1).cast();
            at.read()
        }
    }
}

// SAFETY of all: the compiler of C compares formats with their arguments.
impl print::Arguments for Arguments {
    fn int(&mut self) -> i32 {
        unsafe { self.next() }
    }

    fn long_long(&mut self) -> i64 {
        unsafe { self.next() }
    }

    fn text(&mut self, limit: usize) -> &[u8] {
        unsafe {
            let text: *const u8 = self.next();
            // With a limit, a text need not have a zero byte.
            let length = (0..limit).take_while(|index| *text.add(*index) != 0).count();
            slice::from_raw_parts(text, length)
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vsnprintf(
    buffer: *mut u8,
    size: usize,
    format: *const c_char,
    mut arguments: Arguments,
) -> c_int {
    // SAFETY: the caller's: the buffer has this size, and the format ends with a zero byte.
    unsafe {
        let printed = print::format(CStr::from_ptr(format).to_bytes(), &mut arguments);
        if let Some(last) = size.checked_sub(1) {
            let length = printed.len().min(last);
            buffer.copy_from_nonoverlapping(printed.as_ptr(), length);
            buffer.add(length).write(0);
        }
        c_int::try_from(printed.len()).unwrap_or(c_int::MAX)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn snprintf(
    buffer: *mut u8,
    size: usize,
    format: *const c_char,
    arguments: Arguments,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { vsnprintf(buffer, size, format, arguments) }
}

/// Prints nothing: there is no output.
#[unsafe(no_mangle)]
extern "C" fn printf(_format: *const c_char, _arguments: Arguments) -> c_int {
    0
}
