//! Two records of one process as one.

use std::collections::BTreeMap;

use crate::layout::LINE;
use crate::record::{Record, Thread};

impl Record {
    /// Adds what another record says of the same process: its locks and what threads do at them. Threads with one number
    /// are one thread.
    pub fn join(&mut self, other: Self) {
        let first = self.locks.len();
        let stacks = self.take_stacks(other.stacks, other.lines);
        let stack = |number: &mut u32| *number = stacks.get(number).copied().unwrap_or(0);
        self.locks.extend(other.locks.into_iter().map(|mut lock| {
            stack(&mut lock.first_stack);
            for wait in lock.contention.iter_mut().flat_map(|found| &mut found.worst) {
                wait.lock += first;
                [&mut wait.stack, &mut wait.holder_stack].into_iter().for_each(stack);
            }
            lock
        }));
        for (to, from) in [(&mut self.waiters, other.waiters), (&mut self.holders, other.holders)] {
            to.extend(from.into_iter().map(|mut place| {
                place.lock += first;
                stack(&mut place.stack);
                place
            }));
        }
        self.waits.extend(other.waits.into_iter().map(|mut wait| {
            wait.lock += first;
            [&mut wait.stack, &mut wait.holder_stack].into_iter().for_each(stack);
            wait
        }));
        for mut thread in other.threads {
            if let Some(asleep) = &mut thread.asleep {
                asleep.lock += first;
                stack(&mut asleep.stack);
            }
            for holding in &mut thread.holds {
                holding.lock += first;
                stack(&mut holding.stack);
            }
            for (lock, taken) in &mut thread.firsts {
                *lock += first;
                stack(taken);
            }
            self.take_thread_of_other(thread);
        }
        if self.modules.is_empty() {
            self.modules = other.modules;
        }
        self.lost = self.lost.saturating_add(other.lost);
        self.as_of_ns = self.as_of_ns.or(other.as_of_ns);
    }

    fn take_thread_of_other(&mut self, other: Thread) {
        match self.threads.iter_mut().find(|thread| thread.tid == other.tid) {
            None => self.threads.push(other),
            Some(thread) => {
                thread.holds.extend(other.holds);
                thread.firsts.extend(other.firsts);
                // The name that the program gave it is longer; and it waits for a lock by what is known here as a futex.
                if !other.name.is_empty() {
                    thread.name = other.name;
                }
                thread.asleep = other.asleep.or(thread.asleep.take());
            }
        }
    }

    /// The numbers that these have here.
    fn take_stacks(
        &mut self,
        stacks: BTreeMap<u32, Vec<u64>>,
        lines: BTreeMap<u32, crate::record::Line>,
    ) -> BTreeMap<u32, u32> {
        let frames = stacks.into_iter().map(|(number, frames)| (number, self.add_stack(frames)));
        let mut numbers: BTreeMap<u32, u32> = frames.collect();
        numbers.extend(lines.into_iter().map(|(number, line)| (number, self.add_line(line))));
        numbers
    }

    /// Adds a stack, whose [frames](crate::layout::frame) these are; its number.
    pub fn add_stack(&mut self, frames: Vec<u64>) -> u32 {
        let next = self.stacks.last_key_value().map_or(1, |(last, _)| last + 1);
        let same = self.stacks.iter().find(|(_, known)| **known == frames);
        let number = same.map_or(next, |(number, _)| *number);
        self.stacks.entry(number).or_insert(frames);
        number
    }

    /// Adds a place in a source file; its number among the stacks.
    pub fn add_line(&mut self, line: crate::record::Line) -> u32 {
        let next = self.lines.last_key_value().map_or(LINE, |(last, _)| last + 1);
        let same = self.lines.iter().find(|(_, known)| **known == line);
        let number = same.map_or(next, |(number, _)| *number);
        self.lines.entry(number).or_insert(line);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_records_say_of_a_thread_is_known_of_one() {
        use crate::layout::kind;
        use crate::record::{Asleep, Holding, Line, Lock};

        let thread = |name: &str, waits_for: usize, holds: usize, stack| Thread {
            tid: 7 + waits_for as u32,
            name: name.to_owned(),
            asleep: Some(Asleep { lock: waits_for, stack, ..Asleep::default() }),
            holds: vec![Holding { lock: holds, stack, since_ns: Some(1) }],
            ..Thread::default()
        };
        let lock = |kind| Lock { kind, address: 8, ..Lock::default() };
        let mut record = Record { locks: vec![lock(kind::MUTEX); 2], ..Record::default() };
        let stack = record.add_stack(vec![5]);
        record.threads = vec![thread("8", 1, 0, stack)];
        record.threads[0].holds.clear();
        let mut other = Record { locks: vec![lock(kind::NAMED)], ..Record::default() };
        let line = other.add_line(Line { file: "a.rs".to_owned(), line: 3 });
        other.threads = vec![Thread { tid: 8, ..thread("waits", 0, 0, line) }];
        other.threads[0].asleep = None;
        record.join(other);
        assert_eq!((record.locks.len(), record.threads.len()), (3, 1));
        let thread = &record.threads[0];
        assert_eq!((thread.tid, &*thread.name), (8, "waits"));
        assert_eq!(thread.asleep.as_ref().map(|it| it.lock), Some(1));
        assert_eq!(
            (thread.holds[0].lock, record.line(thread.holds[0].stack).unwrap().line),
            (2, 3)
        );
    }
}
