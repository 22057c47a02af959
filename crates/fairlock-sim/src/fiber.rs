//! Simulated threads: coroutines, each with a stack of its own.

use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// Enough for a panic with a backtrace, which is the deepest that happens.
const STACK_BYTES: usize = 64 * 1024;

/// What a thread that panicked says.
pub(crate) type Panic = Box<dyn Any + Send>;

std::thread_local! {
    /// That of the fiber that runs on this OS thread; null in none.
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(ptr::null()) };
}

/// A thread's code and stack. One that has not ended is leaked, not unwound: it
/// may be queued for a lock that outlives the simulation.
pub(crate) struct Fiber<'env> {
    coroutine: ManuallyDrop<Coroutine<(), (), Result<(), Panic>, DefaultStack>>,
    /// It may use what lives that long, and is only resumed by way of this.
    lifetime: PhantomData<&'env ()>,
}

impl<'env> Fiber<'env> {
    pub(crate) fn new(body: Box<dyn FnOnce() + 'env>) -> std::io::Result<Self> {
        Ok(Self::on(Self::stack()?, body))
    }

    /// A stack for a fiber.
    pub(crate) fn stack() -> std::io::Result<DefaultStack> {
        DefaultStack::new(STACK_BYTES)
    }

    /// On a stack that is there already.
    pub(crate) fn on(stack: DefaultStack, body: Box<dyn FnOnce() + 'env>) -> Self {
        let run = move |yielder: &Yielder<(), ()>, ()| {
            YIELDER.set(yielder);
            catch_unwind(AssertUnwindSafe(body))
        };
        // SAFETY: the body runs in `resume` only, hence within 'env; if it does not
        // end it is never dropped.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, run) };
        Self { coroutine: ManuallyDrop::new(coroutine), lifetime: PhantomData }
    }

    /// Its stack, to be used again. A fiber that has not ended never will.
    ///
    /// # Safety
    /// Nobody refers to its frames, and nobody misses what they would have dropped.
    pub(crate) unsafe fn into_stack(self) -> DefaultStack {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once, as `this` is not used or dropped afterwards.
        let mut coroutine = unsafe { ManuallyDrop::take(&mut this.coroutine) };
        // SAFETY: the caller's promise.
        unsafe { coroutine.force_reset() };
        coroutine.into_stack()
    }

    /// Runs it until it suspends, `None`, or ends.
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
