//! Counts the memory of a runtime, and limits it.
//!
//! `QuickJS` has a limit of its own, but does not report it reliably: if no memory is left for an error either, it throws
//! `null`, as a script may.
#![allow(unsafe_code, reason = "the allocator of an engine deals in pointers")]

use std::cell::Cell;
use std::rc::Rc;

use rquickjs::allocator::{Allocator, RustAllocator};
use rquickjs::{Ctx, JsLifetime, Runtime};

/// The approximate overhead of an allocation, in bytes.
const OVERHEAD: usize = 8;

/// The memory that is left for errors when the limit has been reached, in bytes.
const RESERVE: usize = 64 << 10;

/// The memory of a runtime.
#[derive(Debug, Clone)]
pub(crate) struct Memory(Rc<Counts>);

#[derive(Debug)]
struct Counts {
    used: Cell<usize>,
    limit: Cell<usize>,
    has_refused: Cell<bool>,
}

// SAFETY: it holds no values of a runtime.
unsafe impl JsLifetime<'_> for Memory {
    type Changed<'to> = Memory;
}

impl Memory {
    /// Creates a memory with a limit in bytes.
    pub(crate) fn new(limit: u64) -> Self {
        let memory = Counts { used: Cell::default(), limit: Cell::default(), has_refused: Cell::default() };
        let memory = Memory(Rc::new(memory));
        memory.set_limit(limit);
        memory
    }

    /// Creates a runtime with this memory.
    pub(crate) fn runtime(&self) -> rquickjs::Result<Runtime> {
        Runtime::new_with_alloc(self.clone())
    }

    /// Makes the memory accessible to the functions of a context.
    pub(crate) fn attach(&self, ctx: &Ctx<'_>) {
        ctx.store_userdata(self.clone()).expect("nothing else uses it now");
    }

    pub(crate) fn set_limit(&self, limit: u64) {
        self.0.limit.set(usize::try_from(limit).unwrap_or(usize::MAX - RESERVE));
    }

    /// Returns whether the limit of a context's memory was ever reached.
    pub(crate) fn has_refused(ctx: &Ctx<'_>) -> bool {
        ctx.userdata::<Memory>().is_some_and(|memory| memory.0.has_refused.get())
    }

    /// Returns whether `more` bytes are available. Records it if they are not.
    fn admits(&self, more: usize) -> bool {
        let counts = &*self.0;
        let reserve = if counts.has_refused.get() { RESERVE } else { 0 };
        let admits = counts.used.get().saturating_add(more) <= counts.limit.get().saturating_add(reserve);
        if !admits {
            counts.has_refused.set(true);
        }
        admits
    }

    /// Counts an allocation.
    ///
    /// # Safety
    /// The pointer is null, or that of an allocation of [`RustAllocator`] that exists.
    unsafe fn count(&self, pointer: *mut u8) -> *mut u8 {
        if pointer.is_null() {
            // The machine or the WebAssembly module has no memory left.
            self.0.has_refused.set(true);
            return pointer;
        }
        // SAFETY: the caller's.
        self.0.used.set(self.0.used.get() + unsafe { Self::size(pointer) });
        pointer
    }

    /// Uncounts an allocation.
    ///
    /// # Safety
    /// The pointer is that of an allocation of [`RustAllocator`] that exists.
    unsafe fn forget(&self, pointer: *mut u8) {
        // SAFETY: the caller's.
        self.0.used.set(self.0.used.get() - unsafe { Self::size(pointer) });
    }

    /// # Safety
    /// The pointer is that of an allocation of [`RustAllocator`] that exists.
    unsafe fn size(pointer: *mut u8) -> usize {
        // SAFETY: the caller's.
        unsafe { RustAllocator::usable_size(pointer) + OVERHEAD }
    }
}

// SAFETY: all allocations come from `RustAllocator`; null is a failed allocation.
unsafe impl Allocator for Memory {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if !self.admits(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the pointer has just been allocated.
        unsafe { self.count(RustAllocator.alloc(size)) }
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        // `calloc` panics if the product overflows. Such a size is never admitted.
        if !self.admits(count.saturating_mul(size)) {
            return std::ptr::null_mut();
        }
        // SAFETY: the pointer has just been allocated.
        unsafe { self.count(RustAllocator.calloc(count, size)) }
    }

    unsafe fn dealloc(&mut self, pointer: *mut u8) {
        // SAFETY: the caller's, for both.
        unsafe {
            self.forget(pointer);
            RustAllocator.dealloc(pointer);
        }
    }

    unsafe fn realloc(&mut self, pointer: *mut u8, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's.
        let more = new_size.saturating_sub(unsafe { RustAllocator::usable_size(pointer) });
        if !self.admits(more) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's. The old pointer is invalid only if a new one was returned.
        unsafe {
            let size = Self::size(pointer);
            let new = self.count(RustAllocator.realloc(pointer, new_size));
            if !new.is_null() {
                self.0.used.set(self.0.used.get() - size);
            }
            new
        }
    }

    unsafe fn usable_size(pointer: *mut u8) -> usize {
        // SAFETY: the caller's.
        unsafe { RustAllocator::usable_size(pointer) }
    }
}
