//! What the timer of tasks and those that tell it share: see [`offers`](super::offers). The processor's atomics: no model has
//! a timer.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// A timer that has the record `T`, and looks at places of type `S`. Both are never freed.
pub(super) struct Timer<S: 'static, T: 'static> {
    state: AtomicU32,
    /// Places that it has not seen yet, linked by their [`Link`]s.
    new: AtomicPtr<S>,
    /// The timer's record, while it dozes.
    dozing: AtomicPtr<T>,
    /// Until when it dozes. Until it knows that: as if it had no end.
    until: AtomicU64,
}

/// There was no need for a timer.
const NONE: u32 = 0;
/// There is one.
const RUNS: u32 = 1;
/// There can be none.
const LACKS: u32 = 2;

/// By what a place is linked in the list of those that the timer has not seen.
pub(super) struct Link<S>(AtomicPtr<S>);

impl<S> Link<S> {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }
}

impl<S, T> Timer<S, T> {
    pub(super) const fn new() -> Self {
        Self {
            state: AtomicU32::new(NONE),
            new: AtomicPtr::new(null_mut()),
            dozing: AtomicPtr::new(null_mut()),
            until: AtomicU64::new(u64::MAX),
        }
    }

    /// In the child of a fork, which has no timer. Relaxed: there is one thread.
    pub(super) fn enter_child(&self) {
        self.state.store(NONE, Ordering::Relaxed);
        self.new.store(null_mut(), Ordering::Relaxed);
        self.dozing.store(null_mut(), Ordering::Relaxed);
    }

    /// Whether there is a timer; it begins now if it has not, and `start` can start it.
    pub(super) fn runs(&self, start: impl FnOnce() -> bool) -> bool {
        // Relaxed: the timer takes what it is told from `new`.
        match self.state.load(Ordering::Relaxed) {
            NONE => self.begin(start),
            state => state == RUNS,
        }
    }

    #[cold]
    fn begin(&self, start: impl FnOnce() -> bool) -> bool {
        let order = Ordering::Relaxed;
        match self.state.compare_exchange(NONE, RUNS, order, order) {
            Ok(_) if start() => true,
            Ok(_) => {
                self.state.store(LACKS, order);
                false
            }
            Err(state) => state == RUNS,
        }
    }

    /// The timer is to see this place, which is in no list. The caller wakes it if it [dozes](Self::dozing) after that.
    pub(super) fn push(&self, place: &'static S, link: &Link<S>) {
        let own = core::ptr::from_ref(place).cast_mut();
        let mut first = self.new.load(Ordering::Relaxed);
        loop {
            link.0.store(first, Ordering::Relaxed);
            // SeqCst: the timer that dozes sees the place, or is seen to doze. Relaxed where it fails: nothing is followed.
            match self.new.compare_exchange_weak(first, own, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// The timer sees the new places, each of which has its link there.
    pub(super) fn take(&self, link: impl Fn(&S) -> &Link<S>, mut see: impl FnMut(&'static S)) {
        // SeqCst: as in `push`; and Acquire, for the links.
        let mut first: *const S = self.new.swap(null_mut(), Ordering::SeqCst);
        // SAFETY: null, or a place, which is never freed.
        while let Some(place) = unsafe { first.as_ref::<'static>() } {
            first = link(place).0.load(Ordering::Relaxed);
            see(place);
        }
    }

    /// The timer, which has this record, dozes from here on, or no longer. SeqCst: before it looks at the places for the last
    /// time.
    pub(super) fn doze(&self, record: Option<&'static T>) {
        let record = record.map_or(null_mut(), |record| core::ptr::from_ref(record).cast_mut());
        // Relaxed: those that change a place after that look see this, or what was stored since.
        self.until.store(u64::MAX, Ordering::Relaxed);
        self.dozing.store(record, Ordering::SeqCst);
    }

    /// The timer, which dozes and has looked at the places, does so until then.
    pub(super) fn doze_until(&self, until: u64) {
        self.until.store(until, Ordering::Relaxed);
    }

    /// The timer's record, if it dozes beyond this time. The caller has changed a place that the timer sees.
    pub(super) fn dozing_beyond(&self, time: u64) -> Option<&'static T> {
        self.dozing().filter(|_| self.until.load(Ordering::Relaxed) > time)
    }

    /// The timer's record, if it dozes. SeqCst: as in `push`.
    pub(super) fn dozing(&self) -> Option<&'static T> {
        // SAFETY: null or a record, which is never freed.
        unsafe { self.dozing.load(Ordering::SeqCst).as_ref() }
    }
}
