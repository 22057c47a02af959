//! What is counted of a lock while `FAIRLOCK_STATS` asks for it.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use fairlock::events::EventCounts;

/// Relaxed throughout: statistics.
pub(crate) struct Stats {
    /// How often the lock was taken each way.
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    /// How often the lock could not be had at once, and for how many nanoseconds in all; waits that
    /// were given up count.
    pub(crate) waits: AtomicU64,
    pub(crate) waited_ns: AtomicU64,
    pub(crate) longest_ns: AtomicU64,
    /// The number of the thread that writes; zero if none does.
    pub(crate) writer: AtomicU32,
    /// The program has destroyed the lock.
    pub(crate) destroyed: AtomicBool,
    /// The kind of lock: a `config::Kind`.
    pub(crate) kind: AtomicU8,
    pub(crate) events: EventCounts,
}

impl Stats {
    pub(crate) const fn new() -> Self {
        Self {
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            longest_ns: AtomicU64::new(0),
            writer: AtomicU32::new(0),
            destroyed: AtomicBool::new(false),
            kind: AtomicU8::new(0),
            events: EventCounts::new(),
        }
    }

    pub(crate) fn note_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_write(&self, tid: u32) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.note_writer(tid);
    }

    pub(crate) fn note_writer(&self, tid: u32) {
        self.writer.store(tid, Ordering::Relaxed);
    }

    pub(crate) fn note_wait(&self, ns: u64) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waited_ns.fetch_add(ns, Ordering::Relaxed);
        self.longest_ns.fetch_max(ns, Ordering::Relaxed);
    }

    /// Counts anew from now on; holders stay noted.
    pub(crate) fn reset(&self) {
        for count in [&self.reads, &self.writes, &self.waits, &self.waited_ns, &self.longest_ns] {
            count.store(0, Ordering::Relaxed);
        }
        self.events.reset();
    }
}
