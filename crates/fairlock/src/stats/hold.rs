//! One holder at a time: the writer of a lock, or one thread as its reader.

use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Of so many acquisitions by a thread the hold of one is timed, which takes two looks at a clock (25 ns
/// each, and an acquisition 5); but each one if somebody waits. In acquisitions; compared with the count
/// of those so far.
const HELD_SAMPLE: u64 = 64;

/// From where a lock was taken; `None`: not known, as in C.
pub(super) type Place = Option<&'static Location<'static>>;

/// What is known of a hold while it lasts, and how many there have been. Written by the holder
/// alone, or, of a place, by its thread; read by others.
///
/// All accesses are relaxed: whoever writes it next comes after by the order of the lock, or of the
/// thread; to others it is statistics.
#[repr(align(64))]
pub(super) struct Hold {
    count: AtomicU64,
    /// When it began, times two, and one more if it is a sample; zero if nobody looked at the clock.
    began: AtomicU64,
    at: AtomicPtr<Location<'static>>,
    /// How long it was waited for, if that is to be told; times two, and one more if to write.
    waited: AtomicU64,
}

/// How a lock is held, or wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Together with other readers.
    Read,
    /// Alone: a writer, the holder of a mutex, and an upgradable reader, who waits as a writer does.
    Write,
}

/// A hold that ended.
pub(super) struct Ended {
    /// `None`: nobody looked at the clock when it began.
    pub(super) began: Option<u64>,
    pub(super) is_sample: bool,
    pub(super) at: Place,
    pub(super) waited: Option<(Access, u64)>,
}

impl Hold {
    pub(super) fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            began: AtomicU64::new(0),
            at: AtomicPtr::new(ptr::null_mut()),
            waited: AtomicU64::new(0),
        }
    }

    /// How many holds there have been.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// One more, which is timed if `timed`, or if it is the turn of a sample.
    #[inline]
    pub(super) fn begin(&self, at: Place, timed: bool, now: impl FnOnce() -> u64) {
        let count = self.count();
        // No locked instruction: nobody else writes it meanwhile.
        self.count.store(count.wrapping_add(1), Ordering::Relaxed);
        let is_sample = count % HELD_SAMPLE == 0;
        let began = if timed || is_sample { now() << 1 | u64::from(is_sample) } else { 0 };
        self.go_on(at, began);
    }

    /// What `ended` goes on, otherwise than before or after a pause, since `began`. It is no further
    /// acquisition.
    pub(super) fn resume(&self, ended: &Ended, began: Option<u64>) {
        self.go_on(ended.at, began.map_or(0, |began| began << 1));
        if let Some((access, waited)) = ended.waited {
            self.tell(access, waited);
        }
    }

    #[inline]
    fn go_on(&self, at: Place, began: u64) {
        self.at.store(at.map_or(ptr::null(), ptr::from_ref).cast_mut(), Ordering::Relaxed);
        self.began.store(began, Ordering::Relaxed);
    }

    /// Tells, when the hold ends, how long it was waited for.
    pub(super) fn tell(&self, access: Access, waited: u64) {
        let waited = waited << 1 | u64::from(access == Access::Write);
        self.waited.store(waited, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        self.began.load(Ordering::Relaxed) != 0
    }

    pub(super) fn end(&self) -> Ended {
        let began = self.began.load(Ordering::Relaxed);
        let waited = self.waited.load(Ordering::Relaxed);
        self.began.store(0, Ordering::Relaxed);
        self.waited.store(0, Ordering::Relaxed);
        Ended {
            began: (began != 0).then_some(began >> 1),
            is_sample: began & 1 != 0,
            // SAFETY: null, or from a `&'static`.
            at: unsafe { self.at.load(Ordering::Relaxed).as_ref() },
            waited: (waited != 0).then_some((
                if waited & 1 == 0 { Access::Read } else { Access::Write },
                waited >> 1,
            )),
        }
    }
}
