//! Who holds what now, and who waits: what a record says of a process that stands still.

use std::collections::HashMap;

use crate::record::{Asleep, Record, Thread};

/// A thread that holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The thread's number. It may be of another process, or have ended.
    pub thread: u32,
    /// A time since when it has held the lock, if one is known: then it had the lock.
    pub since_ns: Option<u64>,
    /// The thread took the lock at that time.
    pub is_exact: bool,
    /// Where the thread took it; zero: not known.
    pub stack: u32,
    /// Where the thread took that lock for the first time; zero: not known.
    pub first_stack: u32,
}

impl Record {
    /// The threads that wait for a lock, or for what nobody holds, the first to come first.
    pub fn waiting(&self, lock: usize) -> Vec<(&Thread, &Asleep)> {
        let asleep = |thread| -> Option<(_, &Asleep)> {
            let thread: &Thread = thread;
            Some((thread, thread.asleep.as_ref().filter(|asleep| asleep.lock == lock)?))
        };
        let mut waiting: Vec<_> = self.threads.iter().filter_map(asleep).collect();
        waiting.sort_by_key(|(_, asleep)| asleep.since_ns);
        waiting
    }

    /// Which thread holds a lock, as far as is known. Of a lock that nobody waits for that is so only if its holder
    /// took it while others waited.
    pub fn held_now(&self, lock: usize) -> Option<Held> {
        let waiting = self.waiting(lock);
        let contention = self.locks.get(lock).and_then(|lock| lock.contention.as_ref());
        let holds = self.threads.iter().flat_map(|thread| {
            let of_lock = thread.holds.iter().filter(|holding| holding.lock == lock);
            of_lock.map(|holding| (thread.tid, holding))
        });
        // Each thread clears its own when it releases the lock.
        let known = holds.max_by_key(|(_, holding)| (holding.since_ns, holding.stack));
        let held = |thread, since_ns, is_exact, stack| {
            let mut firsts =
                self.threads.iter().filter(|it| it.tid == thread).flat_map(|it| &it.firsts);
            let first_stack = firsts.find(|first| first.0 == lock).map_or(0, |first| first.1);
            Held { thread, since_ns, is_exact, stack, first_stack }
        };
        let known = known.map(|(thread, holding)| {
            held(thread, holding.since_ns, holding.since_ns.is_some(), holding.stack)
        });
        // What a waiter saw when it came, unless the lock was released since.
        let released = contention.map_or(0, |found| found.released_ns);
        let seen = waiting.iter().rev().find(|(_, asleep)| asleep.holder != 0);
        let seen = seen.filter(|(_, asleep)| asleep.since_ns >= released);
        let seen = seen.map(|(_, asleep)| {
            let same = waiting.iter().find(|(_, it)| it.holder == asleep.holder);
            let since = same.map_or(asleep.since_ns, |(_, first)| first.since_ns);
            let since_ns = Some(since.max(released));
            held(asleep.holder, since_ns, false, 0)
        });
        let found = known.or(seen);
        let since_ns = contention.map(|found| found.held_since_ns).filter(|&since| since != 0);
        let now = self.owners.get(&lock).filter(|&&owner| owner != 0);
        match now {
            // The other one has released it since.
            Some(&thread) if found.is_none_or(|found| found.thread != thread) => {
                Some(held(thread, since_ns, false, 0))
            }
            _ => found.map(|held| Held { since_ns: held.since_ns.or(since_ns), ..held }),
        }
    }

    /// Threads of which each waits for a lock that the next one holds, and the last for one that the first one holds; a
    /// thread that waits for a lock of its own is one by itself. In the order of their numbers in
    /// [`threads`](Self::threads), where each is in one of them at most.
    pub fn deadlocks(&self) -> Vec<Vec<usize>> {
        let places: HashMap<u32, usize> =
            self.threads.iter().enumerate().map(|(at, thread)| (thread.tid, at)).collect();
        let mut holders = HashMap::new();
        let mut next = |at: usize| -> Option<usize> {
            let lock = self.threads[at].asleep.as_ref()?.lock;
            let held = *holders.entry(lock).or_insert_with(|| self.held_now(lock));
            places.get(&held?.thread).copied()
        };
        let next: Vec<Option<usize>> = (0..self.threads.len()).map(&mut next).collect();
        let mut begun_from = vec![None; next.len()];
        let mut found = Vec::new();
        for first in 0..next.len() {
            let (mut at, mut path) = (Some(first), Vec::new());
            while let Some(here) = at.filter(|&here| begun_from[here].is_none()) {
                begun_from[here] = Some(first);
                path.push(here);
                at = next[here];
            }
            let again = at.filter(|&again| begun_from[again] == Some(first));
            let begins = again.and_then(|again| path.iter().position(|&it| it == again));
            found.extend(begins.map(|begins| path.split_off(begins)));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Contention, Holding, Lock};

    /// A thread that waits since a time for a lock that another one held then.
    fn waits(tid: u32, lock: usize, since_ns: u64, holder: u32) -> Thread {
        let asleep = Some(Asleep { lock, since_ns, holder, ..Asleep::default() });
        Thread { tid, asleep, ..Thread::default() }
    }

    fn record(threads: Vec<Thread>) -> Record {
        Record { locks: vec![Lock::default(); 3], threads, ..Record::default() }
    }

    #[test]
    fn who_holds_a_lock_is_what_the_last_waiter_saw() {
        let mut record = record(vec![waits(1, 0, 20, 7), waits(2, 0, 10, 7), waits(3, 0, 5, 6)]);
        let order: Vec<u32> = record.waiting(0).iter().map(|(thread, _)| thread.tid).collect();
        assert_eq!(order, [3, 2, 1]);
        let held = record.held_now(0).unwrap();
        assert_eq!((held.thread, held.since_ns, held.is_exact), (7, Some(10), false));
        assert_eq!(record.held_now(1), None);
        let found = Contention { released_ns: 30, ..Contention::default() };
        record.locks[0].contention = Some(Box::new(found));
        assert_eq!(record.held_now(0), None, "that one has released it");
    }

    #[test]
    fn a_holder_that_took_it_meanwhile_says_so_itself() {
        let mut record = record(vec![waits(1, 0, 20, 7), Thread { tid: 8, ..Thread::default() }]);
        record.threads[1].holds.push(Holding { lock: 0, stack: 5, since_ns: Some(25) });
        let held = record.held_now(0).unwrap();
        assert_eq!((held.thread, held.since_ns, held.stack), (8, Some(25), 5));
        record.owners.insert(0, 9);
        assert_eq!(record.held_now(0).unwrap().thread, 9, "the lock knows best");
    }

    #[test]
    fn each_deadlock_is_found_once_and_without_those_that_only_wait_for_it() {
        let threads =
            vec![waits(1, 0, 10, 2), waits(2, 1, 10, 3), waits(3, 0, 10, 2), waits(4, 2, 10, 4)];
        let mut record = record(threads);
        assert_eq!(record.deadlocks(), [vec![1, 2], vec![3]]);
        record.threads[1].asleep = None;
        assert_eq!(record.deadlocks(), [vec![3]]);
    }
}
