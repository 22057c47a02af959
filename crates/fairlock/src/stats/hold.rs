//! One holder at a time: the writer of a lock, or one thread as its reader.

use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::boxed::Box;

use super::long_wait::LongWait;
use super::place::{Place, Want};
use super::threads::NONE;
use crate::platform::{Native, System};

/// Of this many acquisitions by a thread, one hold is timed, which takes two looks at a clock (25
/// ns each; an acquisition takes 5). While somebody waits, each hold is timed. In acquisitions;
/// compared with the count of those so far.
const HELD_SAMPLE: u64 = 64;

/// What is known of a hold while it lasts, and how many there have been; and of a thread's wait. Written by the holder
/// alone, or, of a place, by its thread; read by others.
///
/// Accesses are relaxed: a thread that writes it next comes after by the order of the lock, or of the
/// thread; to others it is statistics. But what a thread holds is stored before its wait is, with Release, and is looked at
/// after its wait, with Acquire: so of a thread that waits others see what it holds.
#[repr(align(64))]
pub(super) struct Hold {
    count: AtomicU64,
    /// When it began, times two, and one more if it is a sample; zero if nobody looked at the clock.
    began: AtomicU64,
    /// As [`Place::encode`]s it; null while nobody holds it.
    at: AtomicPtr<Location<'static>>,
    /// Of the writer: the [place](super::places) of its thread, or for an upgradable reader its
    /// complement. Of a place: likewise, if its thread has a range; the complement if it writes there.
    by: AtomicUsize,
    /// Of a reader: how often its thread has the lock beside the first time; see [`nest`](Self::nest).
    again: AtomicUsize,
    /// To be told when the hold ends: a `Box`, or null.
    told: AtomicPtr<LongWait>,
    /// Of a place: the wait of its thread; see [`Waits::encode`]. Zero: it does not wait.
    wait: AtomicU64,
    /// From where it waits.
    wait_at: AtomicPtr<Location<'static>>,
}

/// Whether a hold is timed.
#[derive(PartialEq)]
pub(super) enum Timed {
    No,
    Yes,
    /// As one of [`HELD_SAMPLE`].
    AsSample,
}

/// A wait that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waits {
    pub(super) since: u64,
    pub(super) want: Want,
    /// By a deadline, a signal or a token.
    pub(super) can_end: bool,
}

/// A wait that others see: whose, by its place; which; and from where.
pub(super) type Seen = (usize, Waits, Option<Place>);

impl Waits {
    /// Never zero.
    fn encode(self) -> u64 {
        self.since.max(1) << 5 | u64::from(self.can_end) << 3 | self.want as u64
    }

    /// The same wait, which has been told.
    fn told(noted: u64) -> u64 {
        noted | 1 << 4
    }

    fn decode(noted: u64) -> Option<Self> {
        let want = *Want::ALL.get(noted as usize & 7)?;
        (noted != 0).then_some(Self { since: noted >> 5, want, can_end: noted & 8 != 0 })
    }
}

/// A hold that ended.
pub(super) struct Ended {
    /// `None`: nobody looked at the clock when it began.
    pub(super) began: Option<u64>,
    pub(super) is_sample: bool,
    /// `None`: nobody said so.
    pub(super) at: Option<Place>,
    pub(super) told: Option<Box<LongWait>>,
}

/// A hold that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holds {
    /// As in [`Ended`].
    pub(super) began: Option<u64>,
    pub(super) at: Option<Place>,
    /// Only of the writer: the place of its thread.
    pub(super) by: usize,
    /// Of the writer: it is an upgradable reader. Of another thread: it writes a range.
    pub(super) is_other: bool,
}

impl Hold {
    pub(super) fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            began: AtomicU64::new(0),
            at: AtomicPtr::new(ptr::null_mut()),
            by: AtomicUsize::new(0),
            again: AtomicUsize::new(0),
            told: AtomicPtr::new(ptr::null_mut()),
            wait: AtomicU64::new(0),
            wait_at: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// How many holds there have been.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts those of a lock that is gone, too.
    pub(super) fn absorb(&self, count: u64) {
        self.count.fetch_add(count, Ordering::Relaxed);
    }

    /// One more, which is also timed if it is the turn of a sample.
    #[inline(always)] // or it is called: 10 instructions of 110
    pub(super) fn begin(&self, want: Want, at: Place, timed: Timed, now: impl FnOnce() -> u64) {
        let count = self.count();
        // No locked instruction: nobody else writes it meanwhile.
        self.count.store(count.wrapping_add(1), Ordering::Relaxed);
        let is_sample = count % HELD_SAMPLE == 0;
        if timed == Timed::Yes
            || is_sample
            || (want.nests() && !self.at.load(Ordering::Relaxed).is_null())
        {
            let timed = if is_sample { Timed::AsSample } else { timed };
            return self.begin_seldom(want, at, timed, now);
        }
        if want.is_of_parts() || want.may_be_given() {
            self.began.store(0, Ordering::Relaxed);
        }
        // Otherwise `began` is zero: `end` has left it so. Release: see `held`.
        self.at.store(at.encode(), Ordering::Release);
    }

    /// Begins a hold that is timed, or while the record of another one is here.
    #[cold]
    #[inline(never)]
    fn begin_seldom(&self, want: Want, at: Place, timed: Timed, now: impl FnOnce() -> u64) {
        if want.nests() && !self.at.load(Ordering::Relaxed).is_null() {
            return self.nest(now());
        }
        self.again.store(0, Ordering::Relaxed);
        let began = match timed {
            Timed::No => 0,
            Timed::Yes => now() << 1,
            Timed::AsSample => now() << 1 | 1,
        };
        self.go_on(at.encode(), began);
    }

    /// The thread reads the lock, and acquires it for reading once more: the first hold goes on until the last release.
    /// It is timed from here on, if it was not before, so that each release looks here.
    fn nest(&self, now: u64) {
        self.again.store(self.again.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if !self.is_timed() {
            self.began.store(now << 1, Ordering::Relaxed);
        }
    }

    /// By which thread, and how: see [`Holds`]. Before [`begin`](Self::begin): see [`held`](Self::held).
    #[inline]
    pub(super) fn set_by(&self, place: usize, is_other: bool) {
        self.by.store(if is_other { !place } else { place }, Ordering::Relaxed);
    }

    /// What `ended` goes on, otherwise than before or after a pause, since `began`. It does not count as an
    /// acquisition.
    pub(super) fn resume(&self, want: Want, ended: Ended, began: Option<u64>) {
        if want.nests() && !self.at.load(Ordering::Relaxed).is_null() {
            // An upgradable reader that reads the lock, too, becomes a reader.
            return self.nest(began.unwrap_or_else(Native::now));
        }
        let at = ended.at.unwrap_or(Place::Address(0)).encode();
        self.go_on(at, began.map_or(0, |began| began << 1));
        if let Some(told) = ended.told {
            self.tell(told);
        }
    }

    #[inline]
    fn go_on(&self, at: *mut Location<'static>, began: u64) {
        self.began.store(began, Ordering::Relaxed);
        // Release: see `held`.
        self.at.store(at, Ordering::Release);
    }

    /// Tells of the wait when the hold ends.
    pub(super) fn tell(&self, wait: Box<LongWait>) {
        self.put_told(Box::into_raw(wait));
    }

    fn put_told(&self, told: *mut LongWait) -> Option<Box<LongWait>> {
        if told.is_null() && self.told.load(Ordering::Relaxed).is_null() {
            return None;
        }
        let before = self.told.swap(told, Ordering::Relaxed);
        // SAFETY: by `tell`, from a box, and only the thread that takes it out has it.
        (!before.is_null()).then(|| unsafe { Box::from_raw(before) })
    }

    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        self.began.load(Ordering::Relaxed) != 0
    }

    /// Ends a hold that was not timed.
    #[inline]
    pub(super) fn end_untimed(&self) {
        self.at.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// None: the thread has the lock still.
    pub(super) fn end(&self) -> Option<Ended> {
        if let Some(again) = self.again.load(Ordering::Relaxed).checked_sub(1) {
            self.again.store(again, Ordering::Relaxed);
            return None;
        }
        let began = self.began.load(Ordering::Relaxed);
        let at = Place::decode(self.at.load(Ordering::Relaxed));
        self.began.store(0, Ordering::Relaxed);
        self.end_untimed();
        Some(Ended {
            began: (began != 0).then_some(began >> 1),
            is_sample: began & 1 != 0,
            at,
            told: self.put_told(ptr::null_mut()),
        })
    }

    /// The hold that lasts now.
    pub(super) fn held(&self) -> Option<Holds> {
        // Acquire: with the place comes the thread that took the lock there, or one that took it later.
        let at = self.at.load(Ordering::Acquire);
        let began = self.began.load(Ordering::Relaxed);
        let by = self.by.load(Ordering::Relaxed);
        let is_other = by != NONE && by > usize::MAX / 2;
        (!at.is_null()).then(|| Holds {
            began: (began != 0).then_some(began >> 1),
            at: Place::decode(at),
            by: if is_other { !by } else { by },
            is_other,
        })
    }

    /// The thread of this place begins to wait.
    pub(super) fn begin_wait(&self, wait: Waits, at: Place) {
        self.wait_at.store(at.encode(), Ordering::Relaxed);
        // Release: with the wait comes from where, and what the thread holds.
        self.wait.store(wait.encode(), Ordering::Release);
    }

    /// It waits no more.
    pub(super) fn end_wait(&self) {
        self.wait.store(0, Ordering::Relaxed);
    }

    /// The wait of the thread of this place, and from where.
    pub(super) fn wait(&self) -> Option<(Waits, Option<Place>)> {
        // Acquire: see `begin_wait`.
        let wait = Waits::decode(self.wait.load(Ordering::Acquire))?;
        Some((wait, Place::decode(self.wait_at.load(Ordering::Relaxed))))
    }

    /// Whether the calling thread is the first that is to tell of this wait.
    pub(super) fn is_to_tell(&self, wait: Waits) -> bool {
        let (noted, order) = (wait.encode(), Ordering::Relaxed);
        self.wait.compare_exchange(noted, Waits::told(noted), order, order).is_ok()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.put_told(ptr::null_mut());
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_what_was_noted_of_it() {
        for want in Want::ALL {
            for can_end in [false, true] {
                let wait = Waits { since: 7 << 50, want, can_end };
                assert_eq!(Waits::decode(wait.encode()), Some(wait));
                assert_eq!(Waits::decode(Waits::told(wait.encode())), Some(wait));
            }
        }
        assert_eq!(Waits::decode(0), None);
    }
}
