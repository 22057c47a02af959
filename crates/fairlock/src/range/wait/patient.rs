//! How waiters that may be overtaken learn that their range is free.
//!
//! They sleep while running threads use the ranges that they wait for. No waiter should sleep at a
//! range that is free for longer than a wake-up takes; and a range in constant use should not pay
//! for a wake-up at each release. Hence:
//!
//! * While all of them sleep, a thread that leaves a range that they wait for wakes the waiters
//!   that can go on now. If none can, and the last look was only a moment ago, ranges are in use,
//!   and the first waiter is woken instead.
//! * While one of them is awake, leaving a range wakes nobody: the awake waiter looks for waiters
//!   that can go on, and wakes them, before it sleeps again or leaves.
//! * If ranges were left repeatedly since that waiter was woken, but it did not get its own, they
//!   are in use, and the waiter looks again by itself a moment later. Otherwise it sleeps until it
//!   is woken.
//!
//! So a range in use pays for a wake-up each time a waiter gets its range, and for an occasional
//! look of one waiter; a range out of use pays for one wake-up.
//!
//! The lock shows this state to threads that leave a range: see `shown`.
//!
//! Most threads that leave a range need not even look there. A waiter that sleeps does so for
//! whatever is in its way: a range in the tree, a slot, or a slot in a stripe. Slots that somebody
//! sleeps for are *watched*: their bits are set in `Shown::watched`, or `WATCHED` in the word of
//! their stripe.
//!
//! **Why nobody sleeps at a free range.** A thread that leaves a slot first leaves it, then looks
//! whether it is watched, and whether a waiter is awake. A waiter that goes to sleep for a slot, or
//! lets others sleep for it, first shows that, then looks whether the slot is still in the way; all
//! of it under the tree lock. One of the two sees the other. The thread that leaves changes the
//! word with Acquire; between the showing and the look the waiter changes that word, too, with
//! Release. If the waiter's change comes first, what it shows is seen; if it comes second, its look
//! sees the slot left. A range leaves the tree under the tree lock, and `settle` then looks for
//! waiters.
//!
//! If it is unknown whether a slot is in the way, as it is just being taken or left, the waiter
//! looks again soon.

use core::sync::atomic::Ordering;

use super::shown::{ASLEEP, AWAKE, BUSY, NOBODY};
use super::waiter::{InWay, RangeWaiter};
use crate::events::Event;
use crate::platform::{Atomic, PooledPlatform};
use crate::range::policy::HANDOFF_SHARE;
use crate::range::slots::word::{Flags, Packed, SLOTS, STRIPE_SLOTS};
use crate::range::span::Span;
use crate::range::tree::queue::{NOTHING, Queue};
use crate::range::{Core, SLOT_LOOKS};
use crate::wait::{FEW_WAKES, WAKE_NS, WakeList};

/// Which waiters to look for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sought {
    All,
    /// Those that sleep for this.
    For(InWay),
    /// Those that wait for a part of this span, which has left the tree.
    At(Span),
    /// All, even those that wait for others that are awake.
    Late,
}

/// Until when a waiter sleeps.
pub(in crate::range) enum Rest {
    Until(Option<u64>),
    /// Not at all: where it stands has changed.
    Not,
}

impl<P: PooledPlatform> Core<P> {
    // ---- who leaves a range ----

    /// A watched slot was left or downgraded.
    #[cold]
    pub(in crate::range) fn tell_patient(&self, slot: usize) {
        loop {
            // Relaxed: see the module documentation.
            match self.shown.patient.load(Ordering::Relaxed) {
                NOBODY => {
                    // Threads that leave a slot of this stripe need not come here any more.
                    return self.with_queue(|q| {
                        if q.patient.is_empty() {
                            self.unwatch(slot);
                        }
                    });
                }
                ASLEEP => return self.wake_patient(slot),
                BUSY => {
                    let steals = &P::thread().lock.steals;
                    let look = if steals.count() { steals.look::<P>() } else { None };
                    if let Some(look) = look {
                        self.wake_if_late(look.now);
                    }
                    return;
                }
                shown => {
                    // Relaxed: a count. Before the waiter sleeps `settle` looks at the slots.
                    let counted = self.shown.patient.compare_exchange(
                        shown,
                        shown + 1,
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    );
                    if counted.is_ok() {
                        return self.wake_if_late(P::now());
                    }
                }
            }
        }
    }

    /// All sleep: wakes those that can go on.
    fn wake_patient(&self, slot: usize) {
        self.with_queue_and_wakes(|q, wakes| {
            let left = self.unwatch(slot);
            let (_, blocked) = self.wake_free(q, Sought::For(left), wakes);
            // Ranges are in use if one is left more often than it is worth to wake a thread.
            let in_use = self.shown.note_look(P::now()) < WAKE_NS;
            // Another thread may have been quicker.
            if q.patient.awake() == 0 && in_use {
                if let Some(blocked) = blocked {
                    self.wake(q, blocked, wakes);
                }
            }
            if q.patient.awake() > 0 {
                if let InWay::Slot(slot) = left {
                    // How often the slot is left from now on tells whether it is in use.
                    self.shown.show_watched(self.shown.watched() | 1 << slot);
                }
            }
        });
    }

    /// Under the tree lock: nobody sleeps for this slot any more, or for any of its stripe. Returns
    /// what they slept for.
    fn unwatch(&self, slot: usize) -> InWay {
        match slot.checked_sub(SLOTS) {
            None => {
                self.shown.show_watched(self.shown.watched() & !(1 << slot));
                InWay::Slot(slot)
            }
            Some(slot) => {
                let stripe = slot / STRIPE_SLOTS;
                // Relaxed: a thread that leaves a slot too early for it looks in vain.
                self.striped.all()[stripe].word.clear(Flags::WATCHED, Ordering::Relaxed);
                InWay::Stripe(stripe)
            }
        }
    }

    /// Ranges are left, and the waiter that is awake does not look: it has no CPU. Once in a while others
    /// are woken, and queued, beside it.
    fn wake_if_late(&self, now: u64) {
        // Relaxed: how often this happens is a matter of speed.
        if now.saturating_sub(self.shown.looked.load(Ordering::Relaxed)) < HANDOFF_SHARE {
            return;
        }
        self.with_queue_and_wakes(|q, wakes| {
            self.shown.note_look(now);
            self.enqueue_overdue(q, now, wakes);
            self.wake_free(q, Sought::Late, wakes);
        });
    }

    /// Queues waiters whose time is long over: they have no CPU.
    fn enqueue_overdue(&self, q: &mut Queue<P>, now: u64, wakes: &mut WakeList<P>) {
        let is_overdue = |first: &RangeWaiter<P>, waiters| {
            let end = self.policy.patience_end(first.arrived, waiters);
            end.is_some_and(|end| now > end.saturating_add(HANDOFF_SHARE))
        };
        while let Some(first) = q.patient.first() {
            if !is_overdue(first, q.patient.len()) {
                return;
            }
            let first = core::ptr::from_ref(first);
            self.enqueue_up_to(q, first, wakes);
        }
    }

    /// A listed waiter did not get its range. Returns until when it sleeps.
    pub(in crate::range) fn rest(&self, waiter: &RangeWaiter<P>) -> Rest {
        self.with_queue_and_wakes(|q, wakes| {
            let now = P::now();
            let end = self.policy.patience_end(waiter.arrived, q.patient.len());
            if end.is_some_and(|end| now >= end) {
                self.look(q, waiter, wakes);
                self.enqueue_up_to(q, waiter, wakes);
                return Rest::Not;
            }
            if !waiter.is_awake() {
                return Rest::Until(end);
            }
            if q.patient.awake() == 1 {
                let since = self.shown.note_look(now);
                // Relaxed: how often slots were left.
                let shown = self.shown.patient.swap(AWAKE, Ordering::Relaxed);
                let in_use =
                    shown == BUSY || u64::from(shown.saturating_sub(AWAKE)) * WAKE_NS > since;
                let woken = if in_use { self.wake_free(q, Sought::All, wakes).0 } else { 0 };
                let looks_again = in_use || self.in_way(q, waiter) == InWay::Unknown;
                if woken == 0 && looks_again {
                    self.watch(q, waiter);
                    // A wake-up is what this saves others.
                    let nap = now.saturating_add(WAKE_NS);
                    return Rest::Until(Some(end.map_or(nap, |end| end.min(nap))));
                }
            }
            // If no other waiter is awake, `settle` shows that, and looks.
            q.patient.note_asleep(waiter);
            Rest::Until(end)
        })
    }

    // ---- under the tree lock ----

    /// Makes what is shown follow who is listed and awake, and wakes those that can go on if nobody
    /// else would.
    #[inline]
    pub(in crate::range) fn settle_patient(&self, q: &mut Queue<P>, wakes: &mut WakeList<P>) {
        let left = core::mem::replace(&mut q.left, NOTHING);
        if !q.patient.is_empty() || q.shows_patient != NOBODY {
            let left = (left != NOTHING).then(|| Span::closed(left.0, left.1));
            self.settle_listed(q, left, wakes);
        }
    }

    #[inline(never)]
    fn settle_listed(&self, q: &mut Queue<P>, left: Option<Span>, wakes: &mut WakeList<P>) {
        if q.patient.is_empty() {
            self.shown.show(&mut q.shows_patient, NOBODY);
            self.shown.show_watched(0);
            return;
        }
        if q.patient.awake() == 0 && q.shows_patient != ASLEEP {
            self.shown.show(&mut q.shows_patient, ASLEEP);
            self.word.order_look();
            self.wake_free(q, Sought::All, wakes);
        } else if let Some(left) = left {
            self.wake_free(q, Sought::At(left), wakes);
        }
        if q.patient.awake() > 0 && q.shows_patient != AWAKE {
            self.shown.show(&mut q.shows_patient, AWAKE);
        }
    }

    /// Wakes those that can go on now and do not wait for each other, nor for a waiter that is
    /// awake. Returns how many it woke, and the first that cannot go on.
    fn wake_free<'q>(
        &self,
        q: &'q Queue<P>,
        look: Sought,
        wakes: &mut WakeList<P>,
    ) -> (usize, Option<&'q RangeWaiter<P>>) {
        // Few are woken at once: these wake the next ones.
        let mut ahead: [Option<&RangeWaiter<P>>; FEW_WAKES] = [None; FEW_WAKES];
        let (mut count, mut woken, mut watched) = (0, 0, 0);
        let (mut first_blocked, mut blocked) = (None, None::<&RangeWaiter<P>>);
        for waiter in q.patient.iter() {
            if count == FEW_WAKES {
                break;
            }
            if waiter.is_awake() {
                if look != Sought::Late {
                    ahead[count] = Some(waiter);
                    count += 1;
                }
                continue;
            }
            let concerned = match look {
                Sought::All | Sought::Late => true,
                Sought::For(left) => waiter.sleeps_for() == left,
                Sought::At(span) => waiter.span.overlaps(&span),
            };
            if !concerned || ahead[..count].iter().flatten().any(|other| other.conflicts(waiter)) {
                continue;
            }
            let in_way = match blocked {
                Some(other) if waiter.asks_for_more_than(other) => {
                    waiter.sleep_for(other.sleeps_for());
                    other.sleeps_for()
                }
                _ => self.watch(q, waiter),
            };
            if let InWay::Slot(slot) = in_way {
                watched |= 1 << slot;
            }
            if !matches!(in_way, InWay::Nobody | InWay::Unknown) {
                blocked = Some(waiter);
                first_blocked = first_blocked.or(blocked);
                continue;
            }
            self.wake(q, waiter, wakes);
            ahead[count] = Some(waiter);
            count += 1;
            woken += 1;
        }
        if look == Sought::All {
            // The others sleep for somebody in the tree, or until a waiter that is awake has
            // looked.
            self.shown.show_watched(watched);
        }
        (woken, first_blocked)
    }

    fn wake(&self, q: &Queue<P>, waiter: &RangeWaiter<P>, wakes: &mut WakeList<P>) {
        q.patient.note_awake(waiter);
        wakes.push(waiter.thread);
        self.events.count(Event::wake(waiter.kind));
    }

    /// Returns who is in the way of a waiter. From now on that holder tells when it leaves.
    pub(in crate::range) fn watch(&self, q: &Queue<P>, waiter: &RangeWaiter<P>) -> InWay {
        loop {
            let in_way = self.in_way(q, waiter);
            let is_there = match in_way {
                InWay::Slot(slot) => {
                    let watched = self.shown.watched();
                    let is_watched = watched & (1 << slot) != 0;
                    if !is_watched {
                        self.shown.show_watched(watched | 1 << slot);
                        self.word.order_look();
                    }
                    is_watched
                }
                InWay::Stripe(stripe) => {
                    // AcqRel: see the module documentation.
                    let word =
                        self.striped.all()[stripe].word.set(Flags::WATCHED, Ordering::AcqRel);
                    self.striped.look_at(stripe, word, waiter.span, waiter.kind).is_err()
                }
                InWay::Nobody | InWay::Unknown | InWay::Tree => true,
            };
            if is_there {
                waiter.sleep_for(in_way);
                return in_way;
            }
        }
    }

    /// Who is in the way of a waiter that is not in the tree.
    fn in_way(&self, q: &Queue<P>, waiter: &RangeWaiter<P>) -> InWay {
        let (span, kind) = (waiter.span, waiter.kind);
        if q.ranges.conflicts(span, kind) {
            return InWay::Tree;
        }
        let mut found = InWay::Nobody;
        // Acquire: a slot that is taken does not show its last holder's range.
        let word = self.word.load(Ordering::Acquire);
        for slot in word.rivals(kind) {
            let mut looks = SLOT_LOOKS;
            // Relaxed: the waiter is not given its range by this look.
            let mut packed = self.slots[slot].load(Ordering::Relaxed);
            while packed == 0 && looks > 0 {
                P::pause();
                looks -= 1;
                packed = self.slots[slot].load(Ordering::Relaxed);
            }
            if packed == 0 {
                found = InWay::Unknown;
            } else if Packed(packed).overlaps(span) {
                return InWay::Slot(slot);
            }
        }
        let Some(regions) = &q.ranges.regions else { return found };
        for stripe in regions.stripes(span) {
            // Relaxed: `watch` looks again, with an exchange.
            let word = self.striped.all()[stripe].word.load(Ordering::Relaxed);
            if self.striped.look_at(stripe, word, span, kind).is_err() {
                return InWay::Stripe(stripe);
            }
        }
        found
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use core::ops::Range;
    use core::time::Duration;
    use std::vec::Vec;

    use super::*;
    use crate::events::EventCounts;
    use crate::platform::{Native, System, WaitOutcome};
    use crate::range::slots::word::SlotBits;
    use crate::range::wait::Missed;
    use crate::range::{HeldIn, RangePolicy, RangeRwLock, RangeWriteGuard};
    use crate::wait::{Kind, WaitError};

    type Lock = RangeRwLock<Native>;
    type Waiter = RangeWaiter<Native>;

    /// Where ranges are held.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Held {
        Slots,
        Stripes,
        Tree,
    }

    /// Where waiters may be overtaken for ever.
    fn lock(held: Held) -> Lock {
        let lock = Lock::with_policy(RangePolicy { overtaken_for: Duration::MAX });
        lock.set_traced(held == Held::Tree);
        assert!(held != Held::Stripes || lock.stripe(12));
        lock
    }

    fn waiter(range: Range<u64>, kind: Kind, arrived: u64) -> Waiter {
        Waiter::new(Native::thread(), Span::new(range).unwrap(), kind, arrived)
    }

    fn writer(range: Range<u64>) -> Waiter {
        waiter(range, Kind::Writer, 0)
    }

    /// Runs `f` while the waiters are listed. None of them runs: no timer helps one that is not woken.
    fn listed(lock: &Lock, waiters: &[Waiter], f: impl FnOnce()) {
        lock.core.with_queue(|q| {
            // SAFETY: they are in the caller's frame, and taken out below.
            waiters.iter().for_each(|waiter| unsafe { lock.core.list(q, waiter) }.unwrap());
        });
        f();
        let granted = lock.core.with_queue_and_wakes(|q, wakes| {
            waiters.iter().filter_map(|waiter| q.take_out(waiter, wakes)).collect::<Vec<_>>()
        });
        granted.into_iter().for_each(|id| lock.core.release_node(id));
    }

    fn awake<const N: usize>(waiters: &[Waiter; N]) -> [bool; N] {
        waiters.each_ref().map(|waiter| waiter.is_awake())
    }

    fn shown(lock: &Lock) -> u32 {
        lock.core.shown.patient.load(Ordering::Relaxed)
    }

    fn looked(lock: &Lock) -> &<Native as System>::AtomicU64 {
        &lock.core.shown.looked
    }

    /// Whether one of so many that leave a range wakes the waiter, which sleeps for it each time.
    fn is_noticed(lock: &Lock, waiter: &Waiter, most: u32) -> bool {
        (0..most).any(|_| {
            let held = lock.write(0..10).unwrap();
            lock.core.with_queue(|q| lock.core.watch(q, waiter));
            drop(held);
            waiter.is_awake()
        })
    }

    /// Whether who leaves this range looks for those that sleep for it.
    fn is_watched(lock: &Lock, guard: &RangeWriteGuard<'_, Native>) -> bool {
        match guard.hold.place() {
            HeldIn::Slot(slot) => lock.core.shown.is_watched(slot),
            HeldIn::Striped(slot) => lock.core.seat(slot).word.load(Ordering::Relaxed).is_watched(),
            _ => true,
        }
    }

    /// The grant came first (defect 6).
    #[test]
    fn a_range_that_was_granted_is_held_although_its_wait_is_over() {
        let (lock, waiter) = (&lock(Held::Tree), writer(0..10));
        let entered = lock.core.with_queue_and_wakes(|q, wakes| {
            // SAFETY: it is granted its range at once, and so in no list.
            unsafe { lock.core.enqueue(q, &waiter, None, wakes) }
        });
        assert!(entered.is_ok());
        let hold = lock.core.leave(&waiter, WaitError::TimedOut).unwrap();
        assert!(lock.try_read(5..6).is_err());
        let HeldIn::Node(id) = hold.place() else { panic!("it is in the tree") };
        lock.core.release_node(id);
        assert!(!lock.is_locked());
    }

    #[test]
    fn whoever_leaves_what_a_waiter_sleeps_for_wakes_it() {
        static COUNTS: EventCounts = EventCounts::new();
        let me = Native::thread();
        for place in [Held::Slots, Held::Stripes, Held::Tree] {
            let lock = &lock(place);
            lock.set_events(Some(&COUNTS));
            for (kind, downgrades) in
                [(Kind::Writer, false), (Kind::Reader, false), (Kind::Reader, true)]
            {
                let (held, also) = (lock.write(0..10).unwrap(), lock.write(8192..8200).unwrap());
                let waiters = [waiter(5..15, kind, 0), writer(8192..8193)];
                listed(lock, &waiters, || {
                    assert_eq!((awake(&waiters), shown(lock)), ([false, false], ASLEEP));
                    me.parker.forget_notification();
                    let before = COUNTS.get(Event::wake(kind));
                    let reader = match downgrades {
                        true => Some(held.downgrade()),
                        false => {
                            drop(held);
                            None
                        }
                    };
                    assert_eq!((awake(&waiters), shown(lock)), ([true, false], AWAKE), "{place:?}");
                    assert_eq!(me.parker.park(Some(0), false), WaitOutcome::Woken);
                    assert_eq!(COUNTS.get(Event::wake(kind)), before + 1);
                    assert!(is_watched(lock, &also));
                    drop(reader);
                });
                assert_eq!(shown(lock), NOBODY);
            }
        }
    }

    #[test]
    fn whoever_gives_up_a_part_wakes_those_that_sleep_for_it() {
        for place in [Held::Slots, Held::Stripes, Held::Tree] {
            let lock = &lock(place);
            let mut held = lock.write(0..10).unwrap();
            let waiters = [writer(0..5), writer(5..10)];
            listed(lock, &waiters, || {
                held.shrink(5..10).unwrap();
                assert_eq!(awake(&waiters), [true, false], "{place:?}");
            });
        }
    }

    #[test]
    fn a_range_that_nobody_sleeps_for_is_not_watched_when_it_was_left() {
        for place in [Held::Slots, Held::Stripes] {
            let lock = &lock(place);
            let held = lock.write(0..10).unwrap();
            listed(lock, &[writer(5..15)], || assert!(is_watched(lock, &held)));
            drop(held);
            assert!(!is_watched(lock, &lock.write(0..10).unwrap()));
        }
    }

    /// Nobody can go on. If the last look was a moment ago one is woken to see how often ranges are left.
    #[test]
    fn a_waiter_that_cannot_go_on_is_woken_where_ranges_are_in_use() {
        for in_use in [false, true] {
            let lock = &lock(Held::Slots);
            let held = [lock.write(0..10).unwrap(), lock.write(10..20).unwrap()];
            let waiters = [writer(5..15)];
            listed(lock, &waiters, || {
                looked(lock).store(if in_use { u64::MAX } else { 0 }, Ordering::Relaxed);
                let [first, second] = held;
                drop(first);
                assert_eq!(awake(&waiters), [in_use]);
                assert!(is_watched(lock, &second));
                assert_eq!(is_watched(lock, &lock.write(0..10).unwrap()), in_use);
            });
        }
    }

    /// A waiter that is awake and did not get its range looks again soon where ranges come and go, and sleeps
    /// where they do not.
    #[test]
    fn a_waiter_that_is_awake_looks_again_soon_if_ranges_were_left_meanwhile() {
        let lock = &lock(Held::Slots);
        let mut held = Some(lock.write(0..10).unwrap());
        let waiters = [writer(0..5)];
        let [first] = &waiters;
        listed(lock, &waiters, || {
            drop(held.take());
            for busy in [true, false] {
                assert!(first.is_awake());
                for left in 0..if busy { BUSY } else { 0 } {
                    drop(held.take());
                    assert_eq!(shown(lock), BUSY.min(AWAKE + left));
                    held = Some(lock.write(0..10).unwrap());
                    lock.core.with_queue(|q| lock.core.watch(q, first));
                }
                assert_eq!(shown(lock), if busy { BUSY } else { AWAKE });
                let Rest::Until(until) = lock.core.rest(first) else { panic!("its time is over") };
                assert_eq!((until.is_some(), first.is_awake()), (busy, busy));
                assert!(until.is_none_or(|until| until <= Native::now() + WAKE_NS));
            }
            assert_eq!(shown(lock), ASLEEP);
        });
    }

    /// Nobody is told of a range that was left before the lock showed that all sleep.
    #[test]
    fn a_waiter_does_not_go_to_sleep_at_a_range_that_is_free() {
        let lock = &lock(Held::Slots);
        let held = lock.write(0..10).unwrap();
        let waiters = [writer(0..5)];
        listed(lock, &waiters, || {
            drop(held);
            assert_eq!((awake(&waiters), shown(lock)), ([true], AWAKE));
            assert!(matches!(lock.core.rest(&waiters[0]), Rest::Until(None)));
            assert_eq!(awake(&waiters), [true]);
        });
    }

    #[test]
    fn a_waiter_whose_time_is_over_is_queued_and_if_it_does_not_run_by_others() {
        let lock = &Lock::new();
        let held = lock.write(0..20).unwrap();
        let waiters = [0, 1_000, 2_000].map(|arrived| waiter(0..5, Kind::Writer, arrived));
        listed(lock, &waiters, || {
            let queued = || lock.core.with_queue(|q| (q.ranges.waiting(), q.patient.len()));
            // The machine has run for longer than that.
            assert!(matches!(lock.core.rest(&waiters[0]), Rest::Not));
            assert_eq!(queued(), (1, 2));
            let end = RangePolicy::DEFAULT.patience_end(1_000, 2).unwrap() + HANDOFF_SHARE;
            for (now, expected) in [(end, (1, 2)), (end + 1, (2, 1)), (end + 1_001, (3, 0))] {
                looked(lock).store(0, Ordering::Relaxed);
                lock.core.wake_if_late(now);
                assert_eq!(queued(), expected);
            }
        });
        drop(held);
    }

    /// The waiter that is awake has no CPU: others are woken beside it, but not all the time.
    #[test]
    fn beside_a_waiter_that_does_not_look_others_are_woken() {
        let lock = &lock(Held::Slots);
        let waiters = [0..5, 1..5, 2..5, 20..25].map(writer);
        let held = [lock.write(0..10).unwrap(), lock.write(20..30).unwrap()];
        listed(lock, &waiters, || {
            let [first, _second] = held;
            drop(first);
            assert_eq!(awake(&waiters), [true, false, false, false]);
            let before = looked(lock).load(Ordering::Relaxed);
            lock.core.wake_if_late(before + HANDOFF_SHARE - 1);
            assert_eq!(awake(&waiters), [true, false, false, false]);
            lock.core.wake_if_late(before + HANDOFF_SHARE);
            assert_eq!(awake(&waiters), [true, true, false, false]);
            assert_eq!(looked(lock).load(Ordering::Relaxed), before + HANDOFF_SHARE);
            // The thread that leaves a range that is in use sees it, too, once in a while.
            looked(lock).store(0, Ordering::Relaxed);
            assert!(is_noticed(lock, &waiters[2], 1_000));
        });
    }

    /// Also where somebody in the tree may count its slot.
    #[test]
    fn a_waiter_is_told_of_a_slot_whose_writer_becomes_a_reader() {
        let lock = &lock(Held::Slots);
        let held = lock.write(0..10).unwrap();
        let HeldIn::Slot(slot) = held.hold.place() else { panic!("slots are free") };
        let waiters = [waiter(5..15, Kind::Reader, 0)];
        listed(lock, &waiters, || {
            lock.core.downgrade_slot_queued(slot, Span::new(0..10).unwrap());
            assert_eq!(awake(&waiters), [true]);
        });
        core::mem::forget(held);
        lock.core.release_slot(slot, Kind::Reader);
    }

    /// The thread that leaves a range sees it at once; once in a while where many have left one.
    #[test]
    fn who_leaves_a_range_wakes_others_beside_a_waiter_that_does_not_look() {
        for (left, most) in [(AWAKE, 1), (BUSY, 1_000)] {
            let lock = &lock(Held::Slots);
            let waiters = [0..5, 1..5].map(writer);
            let held = lock.write(0..10).unwrap();
            listed(lock, &waiters, || {
                drop(held);
                assert_eq!((awake(&waiters), shown(lock)), ([true, false], AWAKE));
                lock.core.shown.patient.store(left, Ordering::Relaxed);
                looked(lock).store(0, Ordering::Relaxed);
                assert!(is_noticed(lock, &waiters[1], most));
            });
        }
    }

    /// The thread that takes it may have no CPU.
    #[test]
    fn nobody_waits_awake_for_a_slot_that_is_just_being_taken() {
        let lock = &lock(Held::Slots);
        drop(lock.write(0..5).unwrap());
        lock.core.word.take_slot(SlotBits::new(3, Kind::Writer));
        let waiter = writer(0..5);
        assert!(lock.core.with_queue(|q| matches!(lock.core.in_way(q, &waiter), InWay::Unknown)));
        let (word, own) = (lock.core.word.load(Ordering::Relaxed), SlotBits::new(4, Kind::Writer));
        let seen = lock.core.look_at_rivals(word, own, waiter.span, Kind::Writer, false);
        assert!(matches!(seen, Err(Missed::Slot(3))));
        lock.core.release_slot(3, Kind::Writer);
    }

    #[test]
    fn a_waiter_that_nobody_is_in_the_way_of_is_listed_as_awake() {
        let lock = &lock(Held::Slots);
        let held = lock.write(0..10).unwrap();
        let waiters = [writer(5..15), writer(20..25)];
        listed(lock, &waiters, || assert_eq!(awake(&waiters), [false, true]));
        drop(held);
    }

    /// A reader may go on where a writer may not, and in a part where the whole is not free.
    #[test]
    fn a_wait_in_vain_says_nothing_of_those_who_ask_for_less() {
        let [reader, less] = [5..15, 5..10].map(|range| waiter(range, Kind::Reader, 0));
        let writer = writer(5..15);
        assert!(writer.asks_for_more_than(&reader) && reader.asks_for_more_than(&less));
        assert!(!reader.asks_for_more_than(&writer) && !less.asks_for_more_than(&reader));
    }

    /// The second one asks for what the first one asks for, so nobody looks what is in its way.
    #[test]
    fn those_that_ask_for_the_same_sleep_for_the_same_holder() {
        let lock = &lock(Held::Slots);
        let held = [lock.write(0..10).unwrap(), lock.write(10..20).unwrap()];
        let waiters = [5..15, 5..15].map(|range| waiter(range, Kind::Reader, 0));
        listed(lock, &waiters, || {
            looked(lock).store(0, Ordering::Relaxed);
            let [first, second] = held;
            drop(first);
            assert_eq!(awake(&waiters), [false, false]);
            drop(second);
            assert_eq!(awake(&waiters), [true, true]);
        });
    }
}
