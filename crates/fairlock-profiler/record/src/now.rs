//! Which threads hold what now, and which wait: what a record says of a process that stands still.

use std::collections::{BTreeMap, HashMap};

use crate::layout::kind;
use crate::record::{Asleep, AtPlace, Record, Thread};

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
        // Each thread clears its own when it releases the lock. Of several readers, one that waits itself is what the
        // others wait for.
        let waits = |tid| self.thread(tid).is_some_and(|thread| thread.asleep.is_some());
        let known =
            holds.max_by_key(|(tid, holding)| (waits(*tid), holding.since_ns, holding.stack));
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

    /// The thread with this number, if it is one of this process and runs.
    pub fn thread(&self, tid: u32) -> Option<&Thread> {
        self.threads.iter().find(|thread| thread.tid == tid)
    }

    /// The name of a thread, as far as it is known: a thread that has ended has it in its waits. Or empty.
    pub fn name(&self, tid: u32) -> &str {
        let worst = self.locks.iter().filter_map(|lock| lock.contention.as_ref());
        let mut waits = self.waits.iter().chain(worst.flat_map(|found| &found.worst));
        let of_wait = || waits.find(|wait| wait.thread == tid).map(|wait| &*wait.name);
        let own = self.thread(tid).map(|thread| &*thread.name).filter(|name| !name.is_empty());
        own.or_else(of_wait).unwrap_or_default()
    }

    /// Which thread holds a lock; if that one waits for another lock, which thread holds that, and so on: the locks
    /// and their holders. The last one waits for no lock, or not for one whose holder is known, or is in a deadlock.
    pub fn chain(&self, lock: usize) -> Vec<(usize, Held)> {
        let mut chain = Vec::<(usize, Held)>::new();
        let mut next = Some(lock);
        while let Some(lock) = next.filter(|&lock| chain.iter().all(|link| link.0 != lock)) {
            let Some(held) = self.held_now(lock) else { break };
            chain.push((lock, held));
            next = self.thread(held.thread).and_then(|it| Some(it.asleep.as_ref()?.lock));
        }
        chain
    }

    /// Where a thread is that holds a lock: where it waits, if it does, or else where it took the lock, as far as that
    /// is known; or zero.
    pub fn place_of(&self, held: &Held) -> u32 {
        let asleep = self.thread(held.thread).and_then(|thread| thread.asleep.as_ref());
        let taken = if held.stack == 0 { held.first_stack } else { held.stack };
        asleep.map_or(taken, |asleep| asleep.stack)
    }

    /// Counts the waits for locks that had not ended at a time as if they had ended then, with the locks. What is not
    /// charged to other holders is charged to the thread at the end of the [`chain`](Self::chain).
    pub fn count_waits_until(&mut self, until_ns: u64) {
        let mut going_on = BTreeMap::<usize, Vec<Asleep>>::new();
        for asleep in self.threads.iter().filter_map(|thread| thread.asleep.as_ref()) {
            if kind::is_lock(self.locks[asleep.lock].kind) {
                going_on.entry(asleep.lock).or_default().push(asleep.clone());
            }
        }
        for (lock, waits) in going_on {
            let contention = self.locks[lock].contention.get_or_insert_default();
            for Asleep { stack, since_ns, reads, .. } in waits {
                let waited_ns = until_ns.saturating_sub(since_ns);
                let count = if reads { &mut contention.reads } else { &mut contention.writes };
                *count = count.saturating_add(1);
                contention.waited_ns = contention.waited_ns.saturating_add(waited_ns);
                contention.add_waits(1, waited_ns, 0);
                self.waiters.push(AtPlace { lock, reads, stack, count: 1, waited_ns });
            }
            let lost = contention.waited_ns;
            let charged = self.holders.iter().filter(|place| place.lock == lock);
            let charged = charged.fold(0, |sum: u64, place| sum.saturating_add(place.waited_ns));
            let chain = self.chain(lock);
            if let Some(since_ns) = chain.first().and_then(|(_, held)| held.since_ns) {
                let contention = self.locks[lock].contention.get_or_insert_default();
                contention.add_hold(until_ns.saturating_sub(since_ns));
            }
            // A circle has no end: each is charged for its own lock.
            let waits_for =
                chain.last().and_then(|(_, held)| self.thread(held.thread)?.asleep.as_ref());
            let is_circle = waits_for.is_some_and(|it| chain.iter().any(|link| link.0 == it.lock));
            let end = if is_circle { chain.first() } else { chain.last() };
            let stack = end.map_or(0, |(_, held)| self.place_of(held));
            if stack != 0 {
                let waited_ns = lost.saturating_sub(charged);
                self.holders.push(AtPlace { lock, reads: false, stack, count: 1, waited_ns });
            }
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
            let lock = self.threads[at].asleep.as_ref().filter(|asleep| !asleep.can_end)?.lock;
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
    use crate::record::{Contention, Holding, Lock, Wait};

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
    fn waits_that_go_on_are_counted_and_charged_to_the_end_of_the_chain() {
        let mut record = record(vec![waits(1, 0, 20, 2), waits(2, 1, 30, 3)]);
        record.locks.iter_mut().for_each(|lock| lock.kind = kind::MUTEX);
        record.threads.push(Thread { tid: 3, firsts: vec![(1, 9)], ..Thread::default() });
        record.holders.push(AtPlace { waited_ns: 5, ..AtPlace::default() });
        record.count_waits_until(100);
        let found = record.locks[0].contention.as_ref().unwrap();
        assert_eq!((found.writes, found.waited_ns, found.longest_ns), (1, 80, 80));
        let charged: Vec<_> =
            record.holders.iter().map(|it| (it.lock, it.stack, it.waited_ns)).collect();
        assert_eq!(charged, [(0, 0, 5), (0, 9, 75), (1, 9, 70)]);
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

    #[test]
    fn a_thread_that_has_ended_has_the_name_that_it_waited_under() {
        let wait = |thread, name: &str| Wait { thread, name: name.to_owned(), ..Wait::default() };
        let thread = Thread { tid: 3, name: "runs".to_owned(), ..Thread::default() };
        let record = Record {
            threads: vec![thread],
            waits: vec![wait(3, "before"), wait(4, "ended")],
            ..Record::default()
        };
        assert_eq!([3, 4, 5].map(|tid| record.name(tid)), ["runs", "ended", ""]);
    }
}
