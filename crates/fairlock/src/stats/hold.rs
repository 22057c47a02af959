//! One holder at a time: the writer of a lock, or one thread as its reader.

use core::fmt;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Of this many acquisitions by a thread, one hold is timed, which takes two looks at a clock (25
/// ns each; an acquisition takes 5). While somebody waits, each hold is timed. In acquisitions;
/// compared with the count of those so far.
const HELD_SAMPLE: u64 = 64;

/// The place in the code where a lock was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A line of a Rust program.
    Line(&'static Location<'static>),
    /// The return address of a call from C; zero if it is not known.
    Address(usize),
}

impl Place {
    /// As a pointer, which is odd if it is an address, and null if that is not known. It has no need of the highest bit.
    #[inline]
    fn encode(self) -> *mut Location<'static> {
        const { assert!(align_of::<Location<'static>>() > 1) };
        match self {
            Self::Line(at) => ptr::from_ref(at).cast_mut(),
            Self::Address(0) => ptr::null_mut(),
            Self::Address(address) => ptr::without_provenance_mut(address << 1 | 1),
        }
    }

    /// None if it is an address that is not known.
    pub(super) fn known(self) -> Option<Self> {
        Self::decode(self.encode())
    }

    fn decode(at: *mut Location<'static>) -> Option<Self> {
        match at.addr() {
            0 => None,
            odd if odd & 1 != 0 => Some(Self::Address(odd >> 1)),
            // SAFETY: by `encode`, from a `&'static`.
            _ => Some(Self::Line(unsafe { &*at })),
        }
    }
}

/// Its file, line and column; or the address.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(at) => at.fmt(f),
            Self::Address(address) => write!(f, "{address:#x}"),
        }
    }
}

/// What is known of a hold while it lasts, and how many there have been. Written by the holder
/// alone, or, of a place, by its thread; read by others.
///
/// All accesses are relaxed: the thread that writes it next comes after by the order of the lock, or of the
/// thread; to others it is statistics.
#[repr(align(64))]
pub(super) struct Hold {
    count: AtomicU64,
    /// When it began, times two, and one more if it is a sample; zero if nobody looked at the clock.
    began: AtomicU64,
    /// As [`Place::encode`]s it; null before the first.
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
    /// `None`: nobody said so.
    pub(super) at: Option<Place>,
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
        self.go_on(at.encode(), began);
    }

    /// What `ended` goes on, otherwise than before or after a pause, since `began`. It is no further
    /// acquisition.
    pub(super) fn resume(&self, ended: &Ended, began: Option<u64>) {
        let at = ended.at.map_or(ptr::null_mut(), Place::encode);
        self.go_on(at, began.map_or(0, |began| began << 1));
        if let Some((access, waited)) = ended.waited {
            self.tell(access, waited);
        }
    }

    #[inline]
    fn go_on(&self, at: *mut Location<'static>, began: u64) {
        self.at.store(at, Ordering::Relaxed);
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
            at: Place::decode(self.at.load(Ordering::Relaxed)),
            waited: (waited != 0).then_some((
                if waited & 1 == 0 { Access::Read } else { Access::Write },
                waited >> 1,
            )),
        }
    }
}

#[cfg(all(test, not(fairlock_loom)))]
#[test]
fn an_address_that_is_not_known_is_no_place() {
    for place in [Place::Line(Location::caller()), Place::Address(1), Place::Address(0x5555_0123)] {
        assert_eq!(place.known(), Some(place));
    }
    assert_eq!(Place::Address(0).known(), None);
}
