//! Functions of C that replace those of the engine's C library, with which the compressed module would be 8 % larger.
//!
//! - The mathematical functions are those of the host's `Math`, which need no tables.
//! - The allocator is that of Rust, which is there anyway.
//! - Numbers in JSON are read as those in scripts are.
#![allow(unsafe_code, reason = "functions of C are unsafe, and so are imports and exports of WebAssembly")]

use std::ffi::{c_char, c_int};
use std::ptr;

use rquickjs::allocator::{Allocator as _, RustAllocator};

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
