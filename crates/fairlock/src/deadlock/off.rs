//! Without the feature `deadlock_detection`: nothing is noted, and this costs nothing.

/// How a lock is held, or wanted.
#[derive(Clone, Copy)]
pub(crate) enum Mode {
    Shared,
    Recursive,
    Upgradable,
    Exclusive,
}

#[inline(always)]
pub(crate) fn acquire<L>(
    _lock: &L,
    _mode: Mode,
    _attempt: impl FnOnce() -> bool,
    wait: impl FnOnce(),
) {
    wait();
}

#[inline(always)]
pub(crate) fn acquire_with<L, E>(
    _lock: &L,
    _mode: Mode,
    _can_end: bool,
    take: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    take()
}

#[inline(always)]
pub(crate) fn upgrade<L>(_lock: &L, _attempt: impl FnOnce() -> bool, wait: impl FnOnce()) {
    wait();
}

#[inline(always)]
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub(crate) fn acquire_again<L, R>(_lock: &L, wait: impl FnOnce() -> R) -> R {
    wait()
}

#[inline(always)]
pub(crate) fn acquired<L>(_lock: &L, _mode: Mode) {}

#[inline(always)]
pub(crate) fn changes<L>(_lock: &L, _from: Mode, _to: Mode) {}

#[inline(always)]
pub(crate) fn releases<L>(_lock: &L, _mode: Mode) {}
