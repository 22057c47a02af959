//! Which waiters are granted the lock, and how holders and waiters leave.

use core::sync::atomic::Ordering;
use core::time::Duration;

use super::RwSem;
use super::word::Flags;
use crate::events::Event;
use crate::platform::Platform;
use crate::wait::{Kind, MAX_WAKES, Queue, Waiter, WakeList};

/// Whose turn it is, as a queued writer finds it.
#[derive(PartialEq)]
pub(crate) enum Turn {
    /// The waiter took the lock.
    Taken,
    /// The lock is handed to the waiter as soon as it is free.
    Next,
    Later,
}

impl<P: Platform> RwSem<P> {
    // ---- under the queue lock ----

    /// A queued writer takes the lock if it is the head and the lock is free;
    /// past its deadline it sets `HANDOFF` instead.
    pub(crate) fn take_as_head(&self, q: &mut Queue<P>, waiter: &Waiter<P>) -> Turn {
        if !q.is_head(waiter) {
            return Turn::Later;
        }
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            // Rule 5: HANDOFF never keeps the head out, whoever set it.
            let (new, turn) = if word.is_free() {
                (word.with(Flags::WRITER_LOCKED).without(Flags::HANDOFF), Turn::Taken)
            } else if word.is_closed() {
                return Turn::Next;
            } else if self.is_due(waiter) {
                (word.with(Flags::HANDOFF), Turn::Next)
            } else {
                return Turn::Later;
            };
            // Acquire: owns the lock on success, if it was free (rule 3).
            match self.word.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    if turn == Turn::Next {
                        self.events.count(Event::WriteHandoff);
                    } else {
                        self.events.count(Event::WriteLock);
                        q.remove(waiter);
                        self.after_change(q, Flags::NONE);
                        self.note_writer(waiter.thread);
                    }
                    return turn;
                }
                Err(now) => word = now,
            }
        }
    }

    /// The lock was let go, or a waiter came or left: who may have it now? A
    /// writer at the head is woken if `wake_writer`.
    pub(crate) fn wake_check(&self, q: &mut Queue<P>, wake_writer: bool, wakes: &mut WakeList<P>) {
        let Some(head) = q.head() else { return };
        match head.kind {
            Kind::Reader => {
                if self.count_head_reader(head) {
                    self.grant_counted_readers(q, wakes);
                }
            }
            Kind::Writer => {
                if wake_writer {
                    self.events.count(Event::WakeWriter);
                    wakes.push(head.thread);
                }
            }
        }
    }

    /// Counts the reader at the head, unless a writer is inside; then, if the
    /// reader is past its deadline, sets `HANDOFF`, in one step with taking
    /// the count back if it was given too early.
    fn count_head_reader(&self, head: &Waiter<P>) -> bool {
        // Relaxed, here and below: whoever is granted the lock is so by
        // `grant_counted_readers`, which acquires it (rule 3).
        let mut word = self.word.load(Ordering::Relaxed);
        let mut counted = false;
        loop {
            if !word.is_written() {
                if counted {
                    return true;
                }
                counted = true;
                word = self.word.enter(Ordering::Relaxed).with_reader();
                continue;
            }
            let due = !word.is_closed() && self.is_due(head);
            if !counted && !due {
                return false;
            }
            let without = if counted { word.without_reader() } else { word };
            let new = without.with(Flags::HANDOFF.only_if(due));
            match self.word.compare_exchange_weak(word, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    if due {
                        self.events.count(Event::ReadHandoff);
                    }
                    return false;
                }
                Err(now) => word = now,
            }
        }
    }

    /// Grants the lock, which the word counts one reader of already, to all
    /// queued readers, or the first `MAX_WAKES` of them. Writers keep their
    /// places.
    fn grant_counted_readers(&self, q: &mut Queue<P>, wakes: &mut WakeList<P>) {
        let mut count = 0;
        let mut reader = q.first(Kind::Reader);
        while let Some(counted) = reader.filter(|_| count < MAX_WAKES) {
            count += 1;
            reader = q.after(counted);
        }
        // Rule 2: the word counts them all before the first is told. Acquire:
        // on their behalf, also of the one that is counted already (rule 3).
        self.word.enter_readers(count - 1, Ordering::Acquire);
        self.note_readers();
        for _ in 0..count {
            // SAFETY: the waiter is not used after it is told of its grant.
            let Some(reader) = (unsafe { q.take_first(Kind::Reader) }) else { break };
            self.events.count(Event::ReadLock);
            self.events.count(Event::WakeReader);
            reader.grant(wakes);
        }
        self.after_change(q, Flags::HANDOFF);
    }

    /// After waiters have left the queue, by whatever path (rule 6), or one has come
    /// to its head: clears `done`, and what has no meaning any more. Where the policy
    /// says so, it is the writers' phase exactly while a writer heads the queue.
    pub(crate) fn after_change(&self, q: &mut Queue<P>, done: Flags) {
        let gone = match q.head() {
            None => Flags::QUEUE,
            Some(head) if head.kind == Kind::Reader => done.with(Flags::WRITER_PHASE),
            Some(_) => {
                if self.policy.writer_phase {
                    self.begin_writer_phase();
                }
                done
            }
        };
        // Relaxed: announces nothing; see the word's table.
        if self.word.load(Ordering::Relaxed).has_any(gone) {
            self.word.clear(gone, Ordering::Relaxed);
        }
        if self.is_immediate() && !q.is_empty() {
            // The new head is past its deadline already.
            self.word.set(Flags::HANDOFF, Ordering::Relaxed);
        }
    }

    fn begin_writer_phase(&self) {
        if !self.word.load(Ordering::Relaxed).is_writer_phase() {
            self.word.set(Flags::WRITER_PHASE, Ordering::Relaxed);
        }
    }

    // ---- the ways out ----

    /// The lock was let go with somebody queued. The head is woken even if a spinner was faster: it
    /// must see its deadline pass.
    #[cold]
    pub(crate) fn wake_after_release(&self) {
        self.with_wakes(|q, wakes| self.wake_check(q, true, wakes));
    }

    /// Lets all queued readers in beside the calling reader, unless the lock is
    /// kept for the queue's head.
    pub(crate) fn let_readers_join(&self) {
        self.with_wakes(|q, wakes| {
            let word = self.word.load(Ordering::Relaxed);
            let kept = word.is_closed() || word.is_writer_phase();
            let waiting = q.first(Kind::Reader).is_some();
            let reader_heads = q.head().is_some_and(|head| head.kind == Kind::Reader);
            if waiting && (!kept || reader_heads) {
                // The caller holds the lock for reading, so the count stands. Relaxed: as in
                // `count_head_reader`.
                self.word.enter(Ordering::Relaxed);
                self.grant_counted_readers(q, wakes);
            }
        });
    }

    /// Runs `f` under the queue lock, then wakes those that it lists.
    pub(crate) fn with_wakes<R>(&self, f: impl FnOnce(&mut Queue<P>, &mut WakeList<P>) -> R) -> R {
        let (result, more) = self.with_wakes_once(f);
        if more {
            // Readers beyond the share of one wake may be left (rule 7).
            self.wake_after_release();
        }
        result
    }

    /// Also returns whether the list was full.
    #[inline(never)] // its frame is large, and is not to be there during waits
    fn with_wakes_once<R>(
        &self,
        f: impl FnOnce(&mut Queue<P>, &mut WakeList<P>) -> R,
    ) -> (R, bool) {
        let mut wakes = WakeList::new();
        let result = self.queue.with(|q| f(q, &mut wakes));
        let more = wakes.is_full();
        wakes.wake_all();
        (result, more)
    }

    // ---- deadlines ----

    /// Whether a waiter is past the time for which it may be passed over.
    pub(crate) fn is_due(&self, waiter: &Waiter<P>) -> bool {
        let due_at = |after| waiter.arrived.saturating_add(ns(after));
        self.policy.handoff_after.is_some_and(|after| P::now() >= due_at(after))
    }

    fn is_immediate(&self) -> bool {
        self.policy.handoff_after == Some(Duration::ZERO)
    }
}

/// A duration in nanoseconds, or the longest time that fits.
fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
