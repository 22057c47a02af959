//! The unfair queue lock: a test-and-set lock for whose next turn only the head
//! of a queue waits, beside newcomers that may take it first.

use fairlock::platform::Platform;

use super::mcs::Mcs;
use super::tas::TestAndSet;
use crate::locks::BenchMutex;

pub struct UnfairQueue<P: Platform> {
    lock: TestAndSet<P>,
    queue: Mcs<P>,
}

impl<P: Platform> BenchMutex for UnfairQueue<P> {
    fn create() -> Self {
        Self { lock: TestAndSet::create(), queue: Mcs::create() }
    }

    #[inline(always)]
    fn hold<R>(&self, section: impl FnOnce() -> R) -> R {
        if !self.lock.try_acquire() {
            self.queue.hold(|| self.lock.acquire_contended());
        }
        let result = section();
        self.lock.release();
        result
    }
}
