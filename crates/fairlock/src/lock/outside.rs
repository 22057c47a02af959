//! Visible readers of locks whose words are not of this crate: see [`visible`](super::visible). Such a word has a name, and
//! leads to a lock of this crate, the *inner* one, which has the units while the word has a name.

use core::sync::atomic::Ordering;

use super::RawRwLock;
use super::shown::{ENOUGH, LAST_PERIOD, Shown};
use super::slot::PooledPlatform;
use super::visible::{VisibleReaders, WORTH};
use super::word::{HELD, Word};
use crate::events::{self, Event};
use crate::platform::Thread;
use crate::wait::WATCH_NS;

/// An address stands for the place of a thread's record that a lock has.
impl<P: PooledPlatform> VisibleReaders<P> {
    /// A name that no lock had before (V1), if it is below `limit`: not zero, and even.
    pub fn name(&self, limit: u64) -> Option<u64> {
        let number = self.number(limit / 2)?;
        Some((number + 1) * 2).filter(|&name| name < limit)
    }

    /// Whether so many reads of a thread are a reason to look if a lock should be visible: now and then.
    #[inline(always)]
    pub fn is_enough(reads: u32) -> bool {
        reads % ENOUGH == 0
    }

    /// Whether a thread should have a lock watched that has left others so often while more readers were inside: less
    /// and less often.
    pub fn is_due(times: u32) -> bool {
        times.is_power_of_two() || times % LAST_PERIOD == 0
    }

    /// For how long nobody has written such a lock that becomes visible, in nanoseconds. Twice as long as for the locks of
    /// this crate, as their counted readers have cheaper ways; and as long as if other CPUs had to be interrupted, as where
    /// none had to be lately, that is no promise.
    pub fn worth_outside_ns(&self) -> u64 {
        2 * WORTH * self.cost().max(WATCH_NS)
    }

    /// The calling thread, `me`, is about to [`enter`](Self::enter) locks that have the place of this address.
    ///
    /// # Safety
    /// `me` is the record of the calling thread.
    pub unsafe fn prepare(&self, me: &'static Thread<P>, address: usize) {
        if self.list(me) {
            me.visible.reclaim(Shown::<P>::place(address));
        }
    }

    /// The calling thread, `me`, reads the lock of this name, if it is prepared and its place is free; `is_named` says
    /// whether the lock has that name still, and Acquires where it has.
    ///
    /// # Safety
    /// As [`prepare`](Self::prepare).
    #[inline(always)]
    pub unsafe fn enter(
        me: &Thread<P>,
        address: usize,
        name: u64,
        is_named: impl FnOnce() -> bool,
    ) -> bool {
        me.visible.is_ready() && Self::show(me, Shown::<P>::place(address), name, is_named)
    }

    /// The calling thread, `me`, leaves the lock of this name. False if the inner lock counts the reader; `None` if the
    /// thread does not show the name.
    ///
    /// # Safety
    /// As [`prepare`](Self::prepare); and the caller may end the read of a reader of this name.
    #[inline(always)]
    pub unsafe fn leave(&self, me: &Thread<P>, address: usize, name: u64) -> Option<bool> {
        if me.visible.is_ready() { self.hide(me, Shown::<P>::place(address), name) } else { None }
    }

    /// A lock becomes visible, if not too many readers are inside: `full` gets the units, and then `publish` changes the
    /// word, and returns whether it has.
    ///
    /// # Safety
    /// The caller is a reader inside `full`.
    pub unsafe fn show_readers(full: &RawRwLock<P>, publish: impl FnOnce() -> bool) -> bool {
        // Relaxed: no ownership depends on it.
        if full.words().change(Ordering::Relaxed, Word::with_units).is_err() {
            return false;
        }
        let is_shown = publish();
        if is_shown {
            events::count(Event::ReadersShown);
        } else {
            full.words().leave_readers(HELD);
        }
        is_shown
    }

    /// Revokes a name, for whose readers `full` has units: `close` takes it off the word, and returns whether it has. Then
    /// those that are inside are counted.
    ///
    /// # Safety
    /// `full` has the units of the readers of this name, as [`show_readers`](Self::show_readers) gives them, for as long as a
    /// word has the name. Where `close` returns true, the word had it until then, and no word has it any more.
    pub unsafe fn revoke_name(
        &self,
        name: u64,
        full: &RawRwLock<P>,
        close: impl FnOnce() -> bool,
    ) -> bool {
        let moved = self.revoke(name, close);
        moved.map(|moved| full.words().give_up_units(HELD - moved)).is_some()
    }

    /// Whether `full`, which has units, counts anybody beside them.
    pub fn counts_any(full: &RawRwLock<P>) -> bool {
        full.snapshot().readers > HELD
    }

    /// Nobody has used `full` in the child of a fork yet. A thread that was about to give it units, or to take them off, is not
    /// there: it has those of a lock that is visible (`is_shown`), and else counts the readers of the last `name`.
    ///
    /// # Safety
    /// The calling thread is alone in the child of a fork. `full` has units for the readers of `name` only, and of no other name
    /// of its lock.
    pub unsafe fn enter_child_of(&self, full: &RawRwLock<P>, name: u64, is_shown: bool) {
        // Readers that another thread gave up are counted as minus one.
        let has_units = full.snapshot().readers >= HELD / 2;
        if is_shown || !has_units {
            return;
        }
        self.records().for_each(|shown| _ = shown.mark_all(name));
        full.words().leave_readers(HELD - self.count(name));
    }
}

#[cfg(all(test, feature = "std", target_os = "linux", not(fairlock_loom)))]
mod tests {
    use super::*;
    use crate::lock::Policy;
    use crate::platform::{System, linux::Linux};

    const ADDRESS: usize = 64;

    fn record() -> &'static Thread<Linux> {
        std::boxed::Box::leak(std::boxed::Box::new(Thread::new()))
    }

    /// Until the name is revoked; then the inner lock counts it.
    #[test]
    fn a_reader_of_a_lock_elsewhere_comes_and_leaves_by_the_name_that_it_shows() {
        let (readers, me) = (VisibleReaders::<Linux>::new(), record());
        let name = readers.name(u64::MAX).unwrap();
        // SAFETY: the record is this thread's, and it may end its reads.
        let enter = |is_named| unsafe { VisibleReaders::enter(me, ADDRESS, name, || is_named) };
        // SAFETY: as above.
        let prepare = || unsafe { readers.prepare(me, ADDRESS) };
        // SAFETY: as above.
        let leave = |name| unsafe { readers.leave(me, ADDRESS, name) };
        assert!(!enter(true), "not prepared");
        prepare();
        assert!(!enter(false), "the lock has another name");
        assert!(enter(true) && !enter(true), "its place is in use");
        assert_eq!(leave(readers.name(u64::MAX).unwrap()), None);
        assert_eq!(leave(name), Some(true));
        assert_eq!(leave(name), None);
        if !Linux::has_process_barrier() {
            return; // no lock becomes visible here
        }
        assert!(enter(true));
        let full = RawRwLock::new(Policy::DEFAULT);
        full.read();
        // SAFETY: taken above.
        assert!(unsafe { VisibleReaders::show_readers(&full, || true) });
        // SAFETY: as above. It has the units already.
        assert!(!unsafe { VisibleReaders::show_readers(&full, || true) });
        assert!(VisibleReaders::counts_any(&full));
        // SAFETY: as above.
        unsafe { full.unlock_read() };
        assert!(!VisibleReaders::counts_any(&full));
        // SAFETY: just given the units; nobody looks for the name.
        assert!(unsafe { readers.revoke_name(name, &full, || true) });
        assert_eq!(full.snapshot().readers, 1);
        assert!(!enter(true));
        prepare();
        assert!(enter(true), "who is counted needs its place no more");
        assert_eq!(leave(name), Some(true));
        assert_eq!(leave(name), None);
        // SAFETY: the inner lock counts the reader, as just said.
        unsafe { full.unlock_read() };
        assert!(!full.is_locked());
    }

    #[test]
    fn a_lock_has_one_thread_s_readers_or_the_units_of_a_visible_one_after_a_fork() {
        for (has_units, is_shown) in [(false, false), (true, false), (true, true)] {
            let (readers, me) = (VisibleReaders::<Linux>::new(), record());
            let name = readers.name(u64::MAX).unwrap();
            // SAFETY: the record is this thread's.
            unsafe {
                readers.prepare(me, ADDRESS);
                assert!(VisibleReaders::enter(me, ADDRESS, name, || true));
            }
            let full = RawRwLock::new(Policy::DEFAULT);
            let units = if has_units { HELD } else { 0 };
            // SAFETY: nobody is inside.
            unsafe { full.adopt_readers(units) };
            // SAFETY: these are all its units; nobody else uses the lock.
            unsafe { readers.enter_child_of(&full, name, is_shown) };
            let left = if is_shown { units } else { has_units.into() };
            assert_eq!(full.snapshot().readers, left);
            let is_uncounted = is_shown || !has_units;
            // SAFETY: entered above.
            assert_eq!(unsafe { readers.leave(me, ADDRESS, name) }, Some(is_uncounted));
        }
    }

    #[test]
    fn a_lock_is_looked_at_now_and_then_and_watched_less_and_less_often() {
        let looks = |reads| VisibleReaders::<Linux>::is_enough(reads);
        assert!(looks(ENOUGH) && looks(2 * ENOUGH) && !looks(ENOUGH + 1));
        let is_due = |times| VisibleReaders::<Linux>::is_due(times);
        assert!(
            [1, 2, 4, 3 * LAST_PERIOD].into_iter().all(is_due) && ![3, 5].into_iter().any(is_due)
        );
    }

    #[test]
    fn names_are_even_and_end_before_the_limit() {
        let readers = VisibleReaders::<Linux>::new();
        let names: std::vec::Vec<_> = (0..4).map_while(|_| readers.name(7)).collect();
        assert_eq!(names, [2, 4, 6]);
    }
}
