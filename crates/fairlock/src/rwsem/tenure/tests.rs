//! What threads tell each other without the queue lock.

use super::*;
use crate::platform::Native;
use crate::rwsem::Policy;

/// A lock that the calling thread had last, with a queue, in a tenure without end.
fn busy() -> RwSem<Native> {
    let lock = RwSem::new(Policy::DEFAULT);
    lock.seem_busy();
    lock.holder.set_end(u64::MAX);
    lock
}

/// Steals of a lock in turns are counted at once; those of a shared one late, and no more than
/// there were.
#[test]
fn a_lock_is_told_of_its_steals_once() {
    let lock = busy();
    let tenure = InTenure::of(&lock, TenurePolicy::DEFAULT);
    let me = Native::thread();
    for in_turns in [false, true, false] {
        lock.holder.set_in_turns(in_turns);
        let before = lock.holder.steals();
        let told = || lock.holder.steals() - before;
        let mut steals = 0;
        let least = if in_turns { 100_000 } else { 1_000 };
        while steals < least || told() == 0 {
            assert!(tenure.steal_at_once(Access::Exclusive));
            assert!(tenure.write_release_at_once(me));
            steals += 1;
        }
        // Between two looks at the clock there are 32 at most.
        let late = if in_turns { 0 } else { 32 };
        assert!((1..=steals + late).contains(&told()), "{} of {steals}", told());
        assert!(!in_turns || told() == steals);
    }
}

/// While a writer waits for the reader inside, others hold off, but go in after a moment if it
/// does not come: it may have lost its CPU.
#[test]
fn readers_hold_off_for_a_writer_that_is_awake_and_not_for_ever() {
    let lock = busy();
    let tenure = InTenure::of(&lock, TenurePolicy::DEFAULT);
    let me = Native::thread();
    let readers = || lock.word.load(Ordering::Relaxed).readers();
    {
        let _waits = lock.holder.writer_waits();
        assert!(tenure.take_again(me, Access::Shared).is_none());
        assert!(lock.read_past_queue(me).is_none() && readers() == 0);
        assert!(tenure.compete(Access::Shared, &WaitContext::FOREVER) && readers() == 1);
    }
    // A writer that tries in vain tells nobody to hold off when it has done so.
    assert!(!tenure.compete(Access::Exclusive, &WaitContext::FOREVER));
    assert!(!lock.holder.has_awake_writer() && readers() == 1);
}
