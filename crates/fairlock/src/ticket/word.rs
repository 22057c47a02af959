//! The words of the lock: [`Word`], which says whose turn it is, and [`Hints`], for speed.

use core::sync::atomic::Ordering;

use crate::system::{Atomic, ConstZero, System};
use crate::wait::WaitContext;

/// A value of the lock word.
///
/// | bits | name | meaning |
/// |---|---|---|
/// | 0 | LOCK | a ticket's holder holds the lock, or waits for the solo holder before it |
/// | 1-22 | head | tickets served, modulo 2^22 |
/// | 23 | SLOWPATH | the list of parked waiters is not empty |
/// | 24 | INBOX | somebody parked since the holder last emptied the inbox |
/// | 25-40 | spent | the lock's largest batch less what is left of the current one |
/// | 41 | SERVING | a ticket has been served since the lock was idle: nobody holds it solo |
/// | 42-63 | tail | tickets taken, modulo 2^22 |
///
/// * A ticket is the tail before its taker added one. `tail - head` tickets
///   are outstanding: the holder's and the waiters'.
/// * The current batch has `left` more services to give, to the tickets below `head + left`: those
///   are *eligible*. Tickets of earlier batches have all been served, so tickets of this batch that
///   are not yet served may lie below `head`, by less than a batch.
/// * The batch is *open* while its last ticket has not been taken.
/// * A lock without tickets is [`IDLE`](Word::IDLE): free, or held solo (see
///   `solo`). The release that leaves nobody behind starts the tickets again at
///   zero, without SERVING: the next one that has LOCK may meet a solo holder.
/// * A ticket whose waiter has given up is *retired* (see `give_up`): counted in the
///   head, and in what its batch has spent, as if it had been served.
///
/// Everything that makes a waiter eligible, or makes a releaser look for parked waiters, is in this
/// one word. All its changes are read-modify-writes, so the word itself orders "the waiter raised
/// INBOX" and "the holder released": either the release saw the flag, or the flagging saw the
/// release. No fence is needed.
///
/// Twenty-two bits are enough. Linux has at most 2^22 threads (`PID_MAX_LIMIT`), of which not all
/// are at one lock; a thread waits with one ticket at a time and has given up at most one more; and
/// the tickets compared lie between a batch below `head` and the outstanding ones above it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

/// Bits of a ticket number.
const TICKET_BITS: u32 = 22;
/// Ticket numbers are modulo this.
const TICKETS: u32 = 1 << TICKET_BITS;
/// The largest batch there can be.
pub(super) const BATCH_LIMIT: u32 = 1 << 16;

const LOCK: u64 = 1;
const HEAD_SHIFT: u32 = 1;
const SLOWPATH: u64 = 1 << 23;
const INBOX: u64 = 1 << 24;
const SPENT_SHIFT: u32 = 25;
const SPENT_MASK: u64 = ((1 << 16) - 1) << SPENT_SHIFT;
const SERVING: u64 = 1 << 41;
const TAIL_SHIFT: u32 = 42;
const HEAD_MASK: u64 = (TICKETS as u64 - 1) << HEAD_SHIFT;

impl Word {
    /// Nobody holds the lock or waits for it.
    pub(super) const IDLE: Self = Self(0);
    /// The only ticket was taken from [`IDLE`](Self::IDLE), and holds the lock.
    pub(super) const SOLE: Self = Self(Self::TICKET | LOCK);
    /// Added to take a ticket. The tail is on top: its wrap falls off the word.
    const TICKET: u64 = 1 << TAIL_SHIFT;

    /// A free lock that has served `tickets` so far.
    #[cfg(test)]
    pub(super) fn after(tickets: u32) -> Self {
        let n = u64::from(tickets % TICKETS);
        let serving = if n == 0 { 0 } else { SERVING };
        Self(n << HEAD_SHIFT | n << TAIL_SHIFT | serving)
    }

    #[inline]
    pub(super) fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }

    #[inline]
    pub(super) fn is_serving(self) -> bool {
        self.0 & SERVING != 0
    }

    #[inline]
    pub(super) fn has_parked(self) -> bool {
        self.0 & SLOWPATH != 0
    }

    #[inline]
    pub(super) fn has_inbox(self) -> bool {
        self.0 & INBOX != 0
    }

    #[inline]
    pub(super) fn head(self) -> u32 {
        ((self.0 & HEAD_MASK) >> HEAD_SHIFT) as u32
    }

    #[inline]
    pub(super) fn tail(self) -> u32 {
        (self.0 >> TAIL_SHIFT) as u32
    }

    #[inline]
    fn spent(self) -> u32 {
        ((self.0 & SPENT_MASK) >> SPENT_SHIFT) as u32
    }

    /// Tickets taken and not yet served.
    #[inline]
    pub(super) fn outstanding(self) -> u32 {
        self.tail().wrapping_sub(self.head()) % TICKETS
    }

    /// Services left in the current batch of a lock whose largest batch is `max`.
    #[inline]
    pub(super) fn left(self, max: u32) -> u32 {
        max - self.spent()
    }

    /// Whether a ticket taken now would belong to the current batch.
    #[inline]
    pub(super) fn is_open(self, max: u32) -> bool {
        self.outstanding() < self.left(max)
    }

    /// Whether `ticket`, not yet served, belongs to the current batch.
    #[inline]
    pub(super) fn is_eligible(self, ticket: u32, max: u32) -> bool {
        // A ticket of the batch lies less than a batch below the head, or less
        // than `left` above it.
        let above = ticket.wrapping_sub(self.head()).wrapping_add(BATCH_LIMIT) % TICKETS;
        above < BATCH_LIMIT + self.left(max)
    }

    /// How many tickets will be served before `ticket` at the latest, if it is
    /// of a later batch.
    #[inline]
    pub(super) fn distance(self, ticket: u32) -> u32 {
        ticket.wrapping_sub(self.head()) % TICKETS
    }

    /// How many of the tickets before `ticket` are of a later batch than the current one.
    #[inline]
    pub(super) fn rank(self, ticket: u32, max: u32) -> u32 {
        self.distance(ticket) - self.left(max)
    }

    /// How many tickets will be served before `ticket` if they are in order.
    #[inline]
    pub(super) fn ahead(self, ticket: u32) -> u32 {
        if is_before(ticket, self.head()) { 0 } else { self.distance(ticket) }
    }

    /// How many later tickets were served before `ticket`, at least.
    #[inline]
    pub(super) fn overtook(self, ticket: u32) -> u32 {
        if is_before(ticket, self.head()) { self.head().wrapping_sub(ticket) % TICKETS } else { 0 }
    }

    /// Tickets served since the word was `earlier`.
    #[inline]
    pub(super) fn served_since(self, earlier: Self) -> u32 {
        self.head_since(earlier.head())
    }

    /// Tickets served since the head was `earlier`.
    #[inline]
    pub(super) fn head_since(self, earlier: u32) -> u32 {
        self.head().wrapping_sub(earlier) % TICKETS
    }

    /// Outstanding tickets of the current batch.
    #[inline]
    pub(super) fn outstanding_eligible(self, max: u32) -> u32 {
        self.outstanding().min(self.left(max))
    }

    #[inline]
    pub(super) fn locked(self) -> Self {
        Self(self.0 | LOCK)
    }

    #[inline]
    pub(super) fn with_ticket(self) -> Self {
        Self(self.0.wrapping_add(Self::TICKET))
    }

    #[inline]
    pub(super) fn with_inbox(self) -> Self {
        Self(self.0 | INBOX)
    }

    #[inline]
    pub(super) fn without_inbox(self) -> Self {
        Self(self.0 & !INBOX)
    }

    #[inline]
    pub(super) fn with_parked(self, parked: bool) -> Self {
        Self(if parked { self.0 | SLOWPATH } else { self.0 & !SLOWPATH })
    }

    /// The word after the holder's ticket was served: LOCK falls. The batch may be used up now:
    /// then what is left of it has to be set.
    #[inline]
    pub(super) fn released(self) -> Self {
        Self((self.retired().0 & !LOCK) | SERVING)
    }

    /// The same for a thread that has LOCK, but gave up waiting for the solo holder.
    #[inline]
    pub(super) fn withdrawn(self) -> Self {
        Self(self.retired().0 & !LOCK)
    }

    /// The word after a ticket of the batch was given up.
    #[inline]
    pub(super) fn retired(self) -> Self {
        let spent = (self.0.wrapping_add(1 << SPENT_SHIFT)) & SPENT_MASK;
        Self((self.skipped(1).0 & !SPENT_MASK) | spent)
    }

    /// The word after that many tickets were given up, the first ones of a batch that has not
    /// begun.
    #[inline]
    pub(super) fn skipped(self, tickets: u32) -> Self {
        // Only the head's own bits: its wrap must not reach SLOWPATH.
        let head = (self.0 + (u64::from(tickets) << HEAD_SHIFT)) & HEAD_MASK;
        Self((self.0 & !HEAD_MASK) | head)
    }

    /// The same with `left` services left in the batch.
    #[inline]
    pub(super) fn with_left(self, left: u32, max: u32) -> Self {
        Self((self.0 & !SPENT_MASK) | (u64::from(max - left) << SPENT_SHIFT))
    }

    /// The same with no services left in the batch but those of the tickets taken, of which there
    /// must be one: a batch without services would have the bits of a whole one.
    #[inline]
    pub(super) fn closed(self, max: u32) -> Self {
        debug_assert!(self.outstanding() > 0);
        self.with_left(self.outstanding_eligible(max), max)
    }
}

/// The word in memory.
#[repr(transparent)]
pub(super) struct AtomicWord<P: System>(P::AtomicU64);

impl<P: System> AtomicWord<P> {
    pub(super) fn new(word: Word) -> Self {
        Self(P::AtomicU64::new(word.0))
    }

    #[inline(always)]
    pub(super) fn load(&self, order: Ordering) -> Word {
        Word(self.0.load(order))
    }

    /// From `word` to `next`, released with `order`, or what it is instead.
    #[inline(always)]
    pub(super) fn exchange(&self, word: Word, next: Word, order: Ordering) -> Result<(), Word> {
        let exchanged = self.0.compare_exchange(word.0, next.0, order, Ordering::Relaxed);
        exchanged.map(|_| ()).map_err(Word)
    }

    /// As `exchange`, for loops. Relaxed: it gives up nothing, and takes nothing.
    #[inline(always)]
    pub(super) fn adjust(&self, word: Word, next: Word) -> Result<(), Word> {
        let (relaxed, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        self.0.compare_exchange_weak(word.0, next.0, relaxed, failed).map(|_| ()).map_err(Word)
    }

    /// Takes a ticket: the tail of the word before. Relaxed: a ticket gives nothing yet.
    #[inline(always)]
    pub(super) fn take_ticket(&self) -> Word {
        Word(self.0.fetch_add(Word::TICKET, Ordering::Relaxed))
    }

    /// A waiter has put itself into the inbox; the word before. Release: publishes the push to the
    /// holder that sees INBOX. The thread that takes the lock by what is seen here does so by an exchange.
    #[inline(always)]
    pub(super) fn raise_inbox(&self) -> Word {
        Word(self.0.fetch_or(INBOX, Ordering::Release))
    }

    /// The holder is about to empty the inbox. Acquire: pairs with the waiter's raising of the flag.
    #[inline(always)]
    pub(super) fn lower_inbox(&self) -> Word {
        Word(self.0.fetch_and(!INBOX, Ordering::Acquire)).without_inbox()
    }

    /// Spins until the word is as `done` wants it; tells whether it was.
    pub(super) fn spin(
        &self,
        bound_ns: u64,
        until: &WaitContext<'_, P>,
        done: impl Fn(Word) -> bool,
    ) -> bool {
        until.spin(&self.0, bound_ns, |word| done(Word(word)))
    }
}

impl<P: System<AtomicU64: ConstZero>> ConstZero for AtomicWord<P> {
    const ZERO: Self = Self(ConstZero::ZERO);
}

#[cfg(all(test, fairlock_loom))]
impl<P: System<AtomicU64 = loom::sync::atomic::AtomicU64>> AtomicWord<P> {
    pub(super) fn access_mut(&mut self) {
        self.0.with_mut(|_| ());
    }
}

/// What is known of the lock beside its word.
///
/// | bits | meaning |
/// |---|---|
/// | 0 | there is a *responsible* waiter: one that was overtaken time and again, so it sleeps on a timer, and need not be kicked while the batch is open. A kick would cost the busy threads more than they gain |
/// | 1-3 | how often the batch may still be reopened (see `reopen`) |
/// | 4-63 | the lock's name (see `give_up`), or zero. More than can be given out: a name that came again, for a lock at the same address, would lead to tickets of another lock |
#[derive(Clone, Copy)]
pub(super) struct Hints(u64);

const RESPONSIBLE: u64 = 1;
const TIMES_SHIFT: u32 = 1;
const TIMES_MASK: u64 = 7 << TIMES_SHIFT;
const NAME_SHIFT: u32 = 4;

impl Hints {
    pub(super) fn has_responsible(self) -> bool {
        self.0 & RESPONSIBLE != 0
    }

    /// How often the batch may still be reopened.
    pub(super) fn times_left(self) -> u32 {
        ((self.0 & TIMES_MASK) >> TIMES_SHIFT) as u32
    }

    pub(super) fn name(self) -> Option<u64> {
        Some(self.0 >> NAME_SHIFT).filter(|&name| name != 0)
    }
}

/// The hints in memory. Relaxed throughout: no other memory is read on the strength of one, and
/// what must be in order with the word is (see `reopen`).
#[repr(transparent)]
pub(super) struct AtomicHints<P: System>(P::AtomicU64);

impl<P: System> AtomicHints<P> {
    pub(super) fn new() -> Self {
        Self(P::AtomicU64::new(0))
    }

    pub(super) fn load(&self) -> Hints {
        Hints(self.0.load(Ordering::Relaxed))
    }

    /// The caller becomes the responsible waiter, unless there is one.
    pub(super) fn become_responsible(&self) -> bool {
        !Hints(self.0.fetch_or(RESPONSIBLE, Ordering::Relaxed)).has_responsible()
    }

    /// The caller is responsible no longer.
    pub(super) fn leave_responsibility(&self) {
        self.0.fetch_and(!RESPONSIBLE, Ordering::Relaxed);
    }

    /// The holder says how often the batch may still be reopened. Nobody else changes that.
    pub(super) fn set_times_left(&self, times: u32) {
        let before = self.load().times_left();
        if times != before {
            let more = u64::from(times).wrapping_sub(u64::from(before));
            self.0.fetch_add(more << TIMES_SHIFT, Ordering::Relaxed);
        }
    }

    /// The lock's name, which it gets now if it has none: `new` makes one, not zero.
    pub(super) fn name(&self, new: impl Fn() -> u64) -> u64 {
        let mut hints = self.load();
        let mut made = None;
        loop {
            if let Some(name) = hints.name() {
                return name;
            }
            let name = *made.get_or_insert_with(|| new() << NAME_SHIFT);
            let (relaxed, failed) = (Ordering::Relaxed, Ordering::Relaxed);
            match self.0.compare_exchange(hints.0, hints.0 | name, relaxed, failed) {
                Ok(_) => return name >> NAME_SHIFT,
                Err(now) => hints = Hints(now),
            }
        }
    }
}

impl<P: System<AtomicU64: ConstZero>> ConstZero for AtomicHints<P> {
    const ZERO: Self = Self(ConstZero::ZERO);
}

#[cfg(all(test, fairlock_loom))]
impl<P: System<AtomicU64 = loom::sync::atomic::AtomicU64>> AtomicHints<P> {
    pub(super) fn access_mut(&mut self) {
        self.0.with_mut(|_| ());
    }
}

/// Whether ticket `a` was taken before ticket `b`.
#[inline]
pub(super) fn is_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) % TICKETS >= TICKETS / 2
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the word stands for, in numbers that do not wrap.
    #[derive(Clone, Copy, Debug)]
    struct Model {
        head: u64,
        tail: u64,
        left: u32,
        locked: bool,
        parked: bool,
        inbox: bool,
        serving: bool,
    }

    impl Model {
        fn word(self, max: u32) -> Word {
            let tickets = |n: u64| n % u64::from(TICKETS);
            let mut word = Word(
                tickets(self.head) << HEAD_SHIFT
                    | tickets(self.tail) << TAIL_SHIFT
                    | u64::from(self.locked),
            )
            .with_left(self.left, max)
            .with_parked(self.parked);
            if self.inbox {
                word = word.with_inbox();
            }
            if self.serving {
                word = Word(word.0 | SERVING);
            }
            word
        }
    }

    prop_compose! {
        fn model()(max_bits in 0..=16u32)(
            max_bits in Just(max_bits),
            head in prop_oneof![0..100u64, u64::from(TICKETS) - 50..u64::from(TICKETS) + 50, any::<u32>().prop_map(u64::from)],
            outstanding in prop_oneof![0..10u64, 0..2_000_000u64],
            left in 1..=1u32 << max_bits,
            locked in any::<bool>(),
            parked in any::<bool>(),
            inbox in any::<bool>(),
            serving in any::<bool>(),
        ) -> (Model, u32) {
            let outstanding = outstanding.max(u64::from(locked));
            (Model { head, tail: head + outstanding, left, locked, parked, inbox, serving }, 1 << max_bits)
        }
    }

    proptest! {
        #[test]
        fn fields_do_not_mix((m, max) in model()) {
            let word = m.word(max);
            prop_assert_eq!(u64::from(word.head()), m.head % u64::from(TICKETS));
            prop_assert_eq!(u64::from(word.tail()), m.tail % u64::from(TICKETS));
            prop_assert_eq!(u64::from(word.outstanding()), m.tail - m.head);
            prop_assert_eq!(word.left(max), m.left);
            prop_assert_eq!(word.is_locked(), m.locked);
            prop_assert_eq!(word.has_parked(), m.parked);
            prop_assert_eq!(word.has_inbox(), m.inbox);
            prop_assert_eq!(word.is_serving(), m.serving);
        }

        #[test]
        fn a_ticket_moves_the_tail_only((m, max) in model()) {
            let after = Model { tail: m.tail + 1, ..m };
            prop_assert!(m.word(max).with_ticket() == after.word(max));
        }

        #[test]
        fn a_release_moves_the_head_and_spends_one_service((m, max) in model()) {
            prop_assume!(m.locked && m.left > 1);
            let after = Model { head: m.head + 1, left: m.left - 1, locked: false, ..m };
            prop_assert!(m.word(max).withdrawn() == after.word(max));
            let after = Model { serving: true, ..after };
            prop_assert!(m.word(max).released() == after.word(max));
        }

        #[test]
        fn the_last_release_of_a_batch_leaves_the_other_fields((m, max) in model(), left in 1..=1u32 << 16) {
            prop_assume!(m.locked);
            let left = left.min(max);
            let after = Model { head: m.head + 1, left, locked: false, serving: true, ..m };
            let m = Model { left: 1, ..m };
            prop_assert!(m.word(max).released().with_left(left, max) == after.word(max));
        }

        #[test]
        fn a_ticket_given_up_moves_the_head_only((m, max) in model(), tickets in 0..100u32) {
            let after = Model { head: m.head + u64::from(tickets), tail: m.tail, ..m };
            prop_assert!(m.word(max).skipped(tickets) == after.word(max));
            prop_assume!(m.left > 1);
            let after = Model { head: m.head + 1, left: m.left - 1, ..m };
            prop_assert!(m.word(max).retired() == after.word(max));
        }

        #[test]
        fn eligible_are_those_below_head_plus_left((m, max) in model(), offset in -65_535..2_000_000i64) {
            let ticket = m.head as i64 + offset;
            prop_assume!(ticket >= 0 && offset > -i64::from(max));
            let word = m.word(max);
            prop_assert_eq!(
                word.is_eligible(ticket as u64 as u32 % TICKETS, max),
                offset < i64::from(m.left)
            );
        }

        #[test]
        fn a_rank_counts_from_the_end_of_the_batch((m, max) in model(), rank in 0..2_000_000u32) {
            let first = m.head + u64::from(m.left);
            let ticket = (first + u64::from(rank)) as u32 % TICKETS;
            prop_assert!(!m.word(max).is_eligible(ticket, max));
            prop_assert_eq!(m.word(max).rank(ticket, max), rank);
        }

        #[test]
        fn open_means_that_the_next_ticket_is_eligible((m, max) in model()) {
            let word = m.word(max);
            prop_assert_eq!(word.is_open(max), word.is_eligible(word.tail(), max));
            prop_assert_eq!(
                u64::from(word.outstanding_eligible(max)),
                (m.tail - m.head).min(u64::from(m.left))
            );
        }

        #[test]
        fn a_closed_batch_has_room_for_the_tickets_taken_only((m, max) in model()) {
            prop_assume!(m.tail > m.head);
            let (open, closed) = (m.word(max), m.word(max).closed(max));
            prop_assert!(!closed.is_open(max));
            prop_assert_eq!(closed.outstanding_eligible(max), open.outstanding_eligible(max));
            prop_assert!(closed.with_left(m.left, max) == open);
        }

        #[test]
        fn tickets_are_ordered_across_the_wrap(a in any::<u32>(), ahead in 1..TICKETS / 2) {
            let (a, b) = (a % TICKETS, a.wrapping_add(ahead) % TICKETS);
            prop_assert!(is_before(a, b) && !is_before(b, a));
        }
    }
}
