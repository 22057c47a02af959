//! Simulated threads: coroutines, each with a stack of its own.

use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use corosensei::stack::{DefaultStack, Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::memory::LINE_BYTES;

/// Enough for a panic with a backtrace, which is the deepest that happens.
const STACK_BYTES: usize = 64 * 1024;

/// What a thread that panicked says.
pub(crate) type Panic = Box<dyn Any + Send>;

std::thread_local! {
    /// The yielder of the fiber that runs on this OS thread; null if none runs.
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(ptr::null()) };
}

/// A fiber's stack. Stacks of different fibers begin at different offsets in a page: all fibers use
/// the same few frames, and a cache has room for few lines of equal offset.
pub(crate) struct FiberStack {
    stack: DefaultStack,
    offset: usize,
}

/// At how many offsets stacks begin, a cache line apart.
const OFFSETS: usize = 4096 / LINE_BYTES;

impl FiberStack {
    /// The `nth` stack.
    pub(crate) fn new(nth: usize) -> std::io::Result<Self> {
        // None on Windows: a stack there has one page at first, and grows as it is used from that
        // page on; what is put below it would hit the guard page. Elsewhere an odd multiple, so
        // that neighbours are apart.
        let offset = if cfg!(windows) { 0 } else { nth * 13 % OFFSETS * LINE_BYTES };
        Ok(Self { stack: DefaultStack::new(STACK_BYTES)?, offset })
    }

    /// The addresses that it may use.
    pub(crate) fn addresses(&self) -> std::ops::Range<usize> {
        self.stack.limit().get()..self.stack.base().get()
    }
}

// SAFETY: the inner stack's promises hold: less than a page of it is not used, and on Windows none;
// the guard page is there, and the alignment is that of a cache line.
unsafe impl Stack for FiberStack {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.stack.base().get() - self.offset).expect("above its limit")
    }

    fn limit(&self) -> StackPointer {
        self.stack.limit()
    }

    #[cfg(windows)]
    fn teb_fields(&self) -> corosensei::stack::StackTebFields {
        self.stack.teb_fields()
    }

    #[cfg(windows)]
    fn update_teb_fields(&mut self, stack_limit: usize, guaranteed_stack_bytes: usize) {
        self.stack.update_teb_fields(stack_limit, guaranteed_stack_bytes);
    }
}

/// A thread's code and stack. A fiber that has not ended is leaked, not unwound: it may be queued
/// for a lock that outlives the simulation.
pub(crate) struct Fiber<'env> {
    coroutine: ManuallyDrop<Coroutine<(), (), Result<(), Panic>, FiberStack>>,
    /// The body may use what lives that long; it is only resumed by way of this.
    lifetime: PhantomData<&'env ()>,
}

impl<'env> Fiber<'env> {
    pub(crate) fn new(stack: FiberStack, body: Box<dyn FnOnce() + 'env>) -> Self {
        let run = move |yielder: &Yielder<(), ()>, ()| {
            YIELDER.set(yielder);
            catch_unwind(AssertUnwindSafe(body))
        };
        // SAFETY: the body runs in `resume` only, hence within 'env; a fiber that does not end is
        // never dropped.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, run) };
        Self { coroutine: ManuallyDrop::new(coroutine), lifetime: PhantomData }
    }

    /// Takes its stack, to be used again. A fiber that has not ended never goes on.
    ///
    /// # Safety
    /// Nobody refers to its frames, and nothing depends on what they would have dropped.
    pub(crate) unsafe fn into_stack(self) -> FiberStack {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once, as `this` is not used or dropped afterwards.
        let mut coroutine = unsafe { ManuallyDrop::take(&mut this.coroutine) };
        // SAFETY: the caller's promise.
        unsafe { coroutine.force_reset() };
        coroutine.into_stack()
    }

    /// Runs the fiber until it suspends (`None`) or ends.
    #[inline(always)]
    pub(crate) fn resume(&mut self) -> Option<Result<(), Panic>> {
        let outcome = self.coroutine.resume(());
        YIELDER.set(ptr::null());
        match outcome {
            CoroutineResult::Yield(()) => None,
            CoroutineResult::Return(result) => Some(result),
        }
    }
}

impl Drop for Fiber<'_> {
    fn drop(&mut self) {
        if self.coroutine.done() {
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.coroutine) };
        }
    }
}

/// Suspends the fiber that calls this until it is resumed.
#[inline]
pub(crate) fn suspend() {
    let yielder = YIELDER.get();
    assert!(!yielder.is_null(), "only a simulated thread can be suspended");
    // SAFETY: set by the fiber that runs now, whose yielder lives as long as it does.
    unsafe { &*yielder }.suspend(());
    YIELDER.set(yielder);
}
