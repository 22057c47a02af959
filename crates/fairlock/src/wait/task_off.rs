//! Without the feature `async`: waiters are threads.

/// What a waiter that is a task has and a thread has not.
pub(crate) struct Task;

impl Task {
    #[inline(always)]
    pub(crate) const fn none() -> Self {
        Self
    }

    /// Whether it is a task that waits, and not a thread.
    #[inline(always)]
    pub(crate) const fn is_task(&self) -> bool {
        false
    }

    /// How long it may be missed.
    #[inline(always)]
    pub(crate) const fn grace_ns(&self) -> u64 {
        super::MISSED_NS
    }
}
