//! The ways into a lock that is thin or inflated: the same for rwlocks and mutexes.

use core::ffi::c_int;
use core::ptr;

use fairlock::platform::System;
use fairlock::wait::Wait;
use libc::{EAGAIN, EBUSY, ECANCELED, ENOMEM, ETIMEDOUT};

use super::until::Until;
use super::{SPIN_NS, if_aligned};
use crate::head::Entry;
use crate::registry::{self, Head, Slot, nap};
use crate::thread::Preload;
use crate::thread::cancel::{self, as_outside};
use crate::thread::{self, Recorded, State, jump};

/// How long a thread watches a thin lock that another holds before it inflates the lock, letting
/// others have its CPU: until a holder that lost its own has mostly got it back. In ns; compared
/// with the time since the thread came.
const WATCH_NS: u64 = 500_000;
/// An attempt to enter the thin lock at an address.
type Attempt = fn(&Head, usize) -> Entry<Preload>;
/// Who is inside is so in a thin lock, or in a slot.
pub(super) type Inside = Result<Option<&'static Slot>, c_int>;

/// A lock of the program's that begins with a [`Head`] somewhere in its bytes.
pub(crate) trait Inflatable: Sized {
    /// glibc's type.
    type Program;

    fn head(&self) -> &Head;

    /// The lock's slot; inflates the lock if it was thin. `None` if there is no memory for a slot.
    fn inflate(&self) -> Option<&'static Slot>;

    /// Whether it is this library's, not glibc's.
    fn is_ours(&self) -> bool;

    /// None if it is misaligned, and so glibc's.
    ///
    /// # Safety
    /// A lock that is initialised, and stays so until the caller is done with it: here and below.
    #[inline(always)]
    unsafe fn at<'a>(lock: *mut Self::Program) -> Option<&'a Self> {
        const { assert!(size_of::<Self>() == size_of::<Self::Program>()) };
        const { assert!(align_of::<Self>() <= align_of::<Self::Program>()) };
        // SAFETY: the caller's promise, and the layout.
        unsafe { if_aligned(lock.cast()) }
    }

    /// What is done by `ours` to a lock of ours, or to one of glibc's by `or_glibc_s`.
    #[inline(always)]
    unsafe fn served(
        lock: *mut Self::Program,
        ours: impl FnOnce(&Self) -> Result<(), c_int>,
        or_glibc_s: impl FnOnce() -> c_int + Copy,
    ) -> c_int {
        // SAFETY: the caller's promise.
        let lock = unsafe { Self::at(lock) }.filter(|lock| lock.is_ours());
        // Not `map_or_else`, which is not always inlined: of a read and its release in a program that is observed that was 28
        // instructions of 390.
        match lock {
            None => as_outside(or_glibc_s),
            Some(lock) => ours(lock).err().unwrap_or(0),
        }
    }

    fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    /// An attempt on the thin lock, unless such attempts are not to be made.
    #[inline(always)] // or it is called: 20 instructions of an uncontended write
    fn enter(&self, me: &State, attempt: Attempt) -> Entry<Preload> {
        let mut inflates = me.observes.get() && self.head().slot(self.address()).is_none();
        loop {
            if inflates && let Some(slot) = self.inflate() {
                return Entry::Inflated(slot);
            }
            match attempt(self.head(), self.address()) {
                // If there is no memory: another thread's attempt did not fail.
                Entry::Crowded => inflates = true,
                entry => return entry,
            }
        }
    }

    /// As [`enter`](Self::enter), watching the lock for a moment if somebody is in the way: most waits are short,
    /// and not worth an inflated lock. A real-time thread does so only as long as it does not give its CPU away,
    /// which no thread of a lower priority would get.
    #[inline(always)]
    fn wait_to_enter(&self, me: &State, attempt: Attempt, until: &Until) -> Entry<Preload> {
        // Mostly the lock is inflated: each call less is a tenth of a read beside others.
        match self.head().certain_slot(self.address()) {
            Some(slot) => Entry::Inflated(slot),
            None => self.watch_to_enter(me, attempt, until),
        }
    }

    #[inline(never)]
    fn watch_to_enter(&self, me: &State, attempt: Attempt, until: &Until) -> Entry<Preload> {
        let (mut began, mut urgent) = (None, None);
        loop {
            if jump::is_due() {
                return Entry::Conflict;
            }
            let entry = self.enter(me, attempt);
            if !matches!(entry, Entry::Conflict) || until.is_over() {
                return entry;
            }
            let now = Preload::now();
            let since = now - *began.get_or_insert(now);
            if since >= WATCH_NS {
                return entry;
            }
            if since < SPIN_NS {
                // A look takes the holder's cache line from it.
                while Preload::now() - now < SPIN_NS / 5 {
                    Preload::pause();
                }
            } else if *urgent.get_or_insert_with(|| Preload::priority() > 0) {
                return entry;
            } else {
                Preload::yield_now();
            }
        }
    }

    /// What came of the attempt `entry`, in the end: if the caller is not inside, it waits in the
    /// inflated lock, which `take` takes until a time.
    fn wait_inside(
        &self,
        me: &State,
        entry: Entry<Preload>,
        attempt: Attempt,
        until: &Until,
        take: impl Fn(&Slot, &Until) -> Result<(), c_int>,
    ) -> Inside {
        match self.inside(entry, true, |slot| take(slot, until)) {
            Err(ENOMEM) => self.look_until_inside(me, attempt, until, take),
            taken => taken,
        }
    }

    /// As [`wait_inside`](Self::wait_inside), while there is no memory to wait there: the caller
    /// tries from time to time, in no order.
    #[cold]
    #[inline(never)]
    fn look_until_inside(
        &self,
        me: &State,
        attempt: Attempt,
        until: &Until,
        take: impl Fn(&Slot, &Until) -> Result<(), c_int>,
    ) -> Inside {
        loop {
            nap();
            if jump::is_due() {
                return Err(ECANCELED);
            }
            let (entry, waits) = (self.enter(me, attempt), thread::has_record());
            let moment = if waits { until } else { &Until::Monotonic(0) };
            match self.inside(entry, waits, |slot| take(slot, moment)) {
                taken @ (Ok(_) | Err(EAGAIN) | Err(ECANCELED)) => return taken,
                Err(_) if until.is_over() => return Err(ETIMEDOUT),
                Err(_) => {}
            }
        }
    }

    /// What came of the attempt `entry`: if the caller is not inside, `take` takes the inflated
    /// lock. A thread that `waits` inflates the lock for that: ENOMEM if there is no memory to wait. ECANCELED if the
    /// thread is to end.
    fn inside(
        &self,
        entry: Entry<Preload>,
        waits: bool,
        take: impl Fn(&'static Slot) -> Result<(), c_int>,
    ) -> Inside {
        let found = match entry {
            Entry::Entered => return Ok(None),
            Entry::Full => return Err(EAGAIN),
            Entry::Conflict if !waits => return Err(EBUSY),
            _ if waits && !thread::has_record() => return Err(ENOMEM),
            Entry::Conflict | Entry::Crowded => None,
            Entry::Inflated(slot) => Some(slot),
        };
        let _record = Recorded::begin();
        let taken = self.inside_slot(found, waits, &take);
        if cancel::gives_up(taken.map(|_| ())) {
            taken.into_iter().for_each(leave);
            return Err(ECANCELED);
        }
        taken.map(Some)
    }

    /// Takes the inflated lock; `found` may be its slot.
    fn inside_slot(
        &self,
        found: Option<&'static Slot>,
        waits: bool,
        take: impl Fn(&'static Slot) -> Result<(), c_int>,
    ) -> Result<&'static Slot, c_int> {
        let inflate = || self.inflate().ok_or(if waits { ENOMEM } else { EBUSY });
        let mut slot = found.map_or_else(inflate, Ok)?;
        loop {
            let _use = thread::Use::of(slot.number);
            if self.head().is_inflated_to(slot, self.address()) {
                slot.note_use();
                return take(registry::here(slot)).map(|()| slot);
            }
            slot = inflate()?;
        }
    }
}

/// Leaves a lock that the caller has just taken.
#[cold]
fn leave(slot: &'static Slot) {
    let sem = registry::here(slot).sem();
    // SAFETY: the caller is inside: alone, or as a reader.
    unsafe { if sem.is_write_locked() { sem.unlock_write() } else { sem.unlock_read() } }
}

pub(super) fn write_slot(slot: &Slot, me: &State, until: &Until) -> Result<(), c_int> {
    if write_fast(slot, me) { Ok(()) } else { wait_to_write(slot, me, until) }
}

pub(super) fn write_fast(slot: &Slot, me: &State) -> bool {
    // Statistics count what goes past the queue, which `take_write_at_once` does not.
    if me.observes.get() { slot.sem().try_write() } else { slot.sem().take_write_at_once() }
}

pub(super) fn wait_to_write(slot: &Slot, me: &State, until: &Until) -> Result<(), c_int> {
    timed(slot, me, || match until {
        Until::Forever => {
            slot.sem().write_with(cancel::ending(Wait::FOREVER)).map_err(super::until::errno)
        }
        until => until.wait(|deadline| slot.sem().write_with(wait_until(deadline))),
    })
}

/// The calling thread's wait until a time.
pub(super) fn wait_until(deadline: u64) -> Wait<'static, Preload> {
    cancel::ending(Wait::until_nanos(deadline))
}

pub(super) fn try_write_slot(slot: &Slot) -> Result<(), c_int> {
    if slot.sem().try_write() { Ok(()) } else { Err(EBUSY) }
}

/// Waits, and notes for how long if statistics are asked for.
#[inline(always)]
pub(super) fn timed<T>(slot: &Slot, me: &State, wait: impl FnOnce() -> T) -> T {
    if !me.observes.get() {
        return wait();
    }
    let began = Preload::now();
    let result = wait();
    slot.stats.note_wait(Preload::now() - began);
    result
}
