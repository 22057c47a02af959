//! The lock: taking a ticket, waiting for it, releasing.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::sync::atomic::Ordering;

use super::batch::{BatchSize, Step};
use super::park::{Inbox, Lot, Parked};
use super::word::Word;
use crate::events::{self, Event};
use crate::platform::{Atomic, ConstZero, Platform};
use crate::wait::Thread;

/// A ticket lock whose tickets are served in batches of a size `S`.
///
/// See the [module](super) for what it promises.
#[repr(C)] // the word first: what follows is touched with it
pub struct TicketLock<P: Platform, S: BatchSize> {
    word: P::AtomicU64,
    inbox: Inbox<P>,
    /// Non-zero while one of the waiters is the *heir*: it was overtaken time
    /// and again, so it sleeps on a timer and need not be kicked while the
    /// batch is open. A kick would cost the busy threads more than they gain.
    heir: P::AtomicU32,
    /// Belongs to the holder.
    own: UnsafeCell<Own<P, S>>,
    size: PhantomData<S>,
}

/// What only the holder of the lock touches.
struct Own<P: Platform, S: BatchSize> {
    lot: Lot<P>,
    pace: S::Pace,
    #[cfg(test)]
    served: super::Served,
}

// SAFETY: `own` is touched by the holder of the lock only, which takes it with
// Acquire and gives it away with Release; the pointers in it are to entries
// that stay alive while they are in it (invariant 1 of `park`).
unsafe impl<P: Platform, S: BatchSize> Sync for TicketLock<P, S> {}
// SAFETY: as above; a lock that can be moved has no waiters.
unsafe impl<P: Platform, S: BatchSize> Send for TicketLock<P, S> {}

/// How long a waiter spins before it parks, and after each kick: about what a
/// wake-up costs.
const SPIN_NS: u64 = 40_000;
/// The same for a waiter that cannot run soon: its turn comes after more
/// waiters than there are CPUs.
const SPIN_FAR_NS: u64 = 2_000;
/// The same for a waiter that could have gone first, but saw others do so
/// [`HOT_SECTIONS`] times: the lock is busy without it.
const SPIN_HOT_NS: u64 = 10_000;
const HOT_SECTIONS: u32 = 4;
/// A waiter of the current batch stays awake if the batch closes within this:
/// its turn comes before a kick could pay.
const SPIN_CLOSING_NS: u64 = 100_000;
/// Between two looks at the pace of others that may go first.
const RACE_NS: u64 = 500;
/// Between two looks at the lock once they have gone first time and again: at
/// least and at most.
const BACKOFF_NS: (u64, u64) = (1_000, 5_000);
/// How long the heir sleeps: the first time, and the longest. Less if the batch
/// closes sooner: it is awake then, and nobody has to kick it.
const NAP_NS: (u64, u64) = (200_000, 1_600_000);

/// Why a spin ended without the lock.
#[derive(Clone, Copy)]
enum InVain {
    /// The lock did not come free, or it was not yet our turn.
    Waiting,
    /// Others of the open batch were quicker, time and again. At their pace it
    /// closes after this many nanoseconds.
    Overtaken(u64),
}

impl InVain {
    fn is_overtaken(self) -> bool {
        matches!(self, InVain::Overtaken(_))
    }

    /// How long to sleep in order to be awake when the batch closes.
    fn until_closing(self) -> u64 {
        match self {
            InVain::Overtaken(closing) => closing.saturating_sub(SPIN_CLOSING_NS),
            InVain::Waiting => u64::MAX,
        }
    }
}

impl<P: Platform, S: BatchSize> TicketLock<P, S> {
    /// A free lock.
    pub fn new() -> Self {
        Self::with(P::AtomicU64::new(Word::IDLE.0), Inbox::new(), P::AtomicU32::new(0))
    }

    /// A free lock, for statics.
    pub const fn new_const() -> Self
    where
        P::AtomicU64: ConstZero,
        P::AtomicUsize: ConstZero,
        P::AtomicU32: ConstZero,
    {
        Self::with(ConstZero::ZERO, Inbox::new_const(), ConstZero::ZERO)
    }

    const fn with(word: P::AtomicU64, inbox: Inbox<P>, heir: P::AtomicU32) -> Self {
        let own = Own {
            lot: Lot::new(),
            pace: S::START,
            #[cfg(test)]
            served: super::Served::NEW,
        };
        Self { word, inbox, heir, own: UnsafeCell::new(own), size: PhantomData }
    }

    /// A free lock that has already served `tickets`.
    #[cfg(test)]
    pub(super) fn after(tickets: u32) -> Self {
        Self::with(P::AtomicU64::new(Word::after(tickets).0), Inbox::new(), P::AtomicU32::new(0))
    }

    /// Takes the lock, waiting for it if need be.
    #[inline]
    pub fn lock(&self) {
        if !self.take_idle() {
            self.lock_contended();
        }
    }

    /// Takes the lock if that can be done at once without overtaking anybody
    /// of an earlier batch. May fail when another thread is just doing the same.
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.take_idle() || self.barge()
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[inline]
    pub unsafe fn unlock(&self) {
        // Release: the section happens before the next one.
        let released = self.word.compare_exchange(
            Word::SOLE.0,
            Word::IDLE.0,
            Ordering::Release,
            Ordering::Relaxed,
        );
        if let Err(word) = released {
            // SAFETY: the caller holds the lock.
            unsafe { self.unlock_contended(Word(word)) }
        }
    }

    /// Whether somebody holds the lock.
    pub fn is_locked(&self) -> bool {
        self.load().is_locked()
    }

    /// Whether somebody waits for the lock.
    pub fn is_contended(&self) -> bool {
        let word = self.load();
        word.outstanding() > u32::from(word.is_locked())
    }

    /// Relaxed: whatever is decided from it is confirmed by a
    /// read-modify-write of the word.
    #[inline]
    fn load(&self) -> Word {
        Word(self.word.load(Ordering::Relaxed))
    }

    #[inline]
    fn take_idle(&self) -> bool {
        // Acquire: every way to own the lock is one (rule 3).
        let taken = self.word.compare_exchange(
            Word::IDLE.0,
            Word::SOLE.0,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        #[cfg(test)]
        if taken.is_ok() {
            self.note(0);
        }
        taken.is_ok()
    }

    /// Takes a ticket and the lock together, if the lock is free and the
    /// ticket would be of the current batch.
    #[inline]
    fn barge(&self) -> bool {
        let word = self.load();
        !word.is_locked()
            && word.is_open(S::MAX)
            && self.exchange(word, word.with_ticket().locked(), word.tail()).is_ok()
    }

    /// One attempt to become the holder, with `ticket`.
    #[inline]
    fn exchange(&self, word: Word, locked: Word, ticket: u32) -> Result<(), Word> {
        // Acquire: every way to own the lock is one (rule 3).
        match self.word.compare_exchange(word.0, locked.0, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {
                #[cfg(test)]
                self.note(ticket);
                let _ = ticket;
                Ok(())
            }
            Err(now) => Err(Word(now)),
        }
    }

    /// Takes the lock with `ticket` if it is free and the ticket's turn has
    /// come, as seen in `word`.
    fn take(&self, mut word: Word, ticket: u32) -> bool {
        while can_take::<S>(word, ticket) {
            match self.exchange(word, word.locked(), ticket) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    #[inline(never)]
    fn lock_contended(&self) {
        if self.barge() {
            return;
        }
        // Relaxed: a ticket gives nothing yet.
        let before = Word(self.word.fetch_add(Word::TICKET, Ordering::Relaxed));
        let ticket = before.tail();
        if self.take(before.with_ticket(), ticket) {
            return;
        }
        if let Err(why) = self.spin(ticket) {
            events::count(Event::TakenSlow);
            self.lock_parked(ticket, why);
        }
    }

    /// Waits awake for a bounded time.
    fn spin(&self, ticket: u32) -> Result<(), InVain> {
        let still = P::AtomicU32::new(0);
        let mut started = P::now();
        let first = self.load();
        let mut raced = false;
        loop {
            let word = self.load();
            if self.take(word, ticket) {
                return Ok(());
            }
            let now = P::now();
            let mine = word.is_eligible(ticket, S::MAX);
            let racing = mine && word.is_open(S::MAX);
            if raced && !racing {
                // The batch has closed: only its stragglers are ahead now.
                started = now;
            }
            raced = racing;
            let spun = now.wrapping_sub(started);
            let (bound, why) = if racing {
                patience(word.served_since(first), word.left(S::MAX), spun)
            } else if !mine && word.distance(ticket) > P::cpus() as u32 {
                (SPIN_FAR_NS, InVain::Waiting)
            } else {
                (SPIN_NS, InVain::Waiting)
            };
            if spun >= bound {
                return Err(why);
            }
            if let InVain::Overtaken(closing) = why {
                // The holder keeps its cache lines while we look only now and
                // then; more often towards the end.
                let pause = (closing / 8).clamp(BACKOFF_NS.0, BACKOFF_NS.1);
                P::spin_until(&still, pause, |_| false);
            } else {
                // If others may go first, count how often they do.
                let bound = if racing { RACE_NS } else { bound - spun };
                let can_take = |word| can_take::<S>(Word(word), ticket);
                if P::spin_until(&self.word, bound, can_take) {
                    continue;
                }
                if !racing {
                    return Err(why);
                }
            }
            // A clock that stands still is a model checker's: one look is all.
            if P::now() == started {
                return Err(why);
            }
        }
    }

    /// Parks until kicked, spins again, and so on until the lock is taken.
    #[cold]
    fn lock_parked(&self, ticket: u32, mut why: InVain) {
        let thread = P::thread();
        let entry = Parked::new(ticket, thread);
        loop {
            // Relaxed: who is heir is a matter of speed.
            let heir = why.is_overtaken() && self.heir.swap(1, Ordering::Relaxed) == 0;
            let taken = self.park(&entry, heir.then_some(why));
            if heir {
                // Before the release that lets the lock be freed, if taken.
                self.heir.store(0, Ordering::Relaxed);
            }
            if taken {
                // SAFETY: the lock was taken.
                return unsafe { self.unlist(&entry) };
            }
            match self.spin(ticket) {
                Ok(()) => return,
                Err(again) => why = again,
            }
        }
    }

    /// Sleeps until kicked: false. True if the lock was taken meanwhile; the
    /// entry may still be listed then. The heir says how its last spin went.
    fn park(&self, entry: &Parked<P>, mut heir: Option<InVain>) -> bool {
        // SAFETY: the entry is in no list, and `lock_parked` keeps its frame
        // until it is out of them again, with the lock held (invariant 1).
        unsafe { self.inbox.push(entry, heir.is_some()) };
        // AcqRel: the release publishes the push to the holder that sees
        // INBOX; the acquire is `take`'s.
        let word = Word(self.word.fetch_or(Word::INBOX, Ordering::AcqRel)).with_inbox();
        if !faulty!(S, ParksBlindly) && self.take(word, entry.ticket) {
            events::count(Event::TakenSlowPickup);
            return true;
        }
        // The lock was held, or serving another batch, after INBOX was up: a
        // release will look for us (invariant 3).
        let mut nap = NAP_NS.0;
        while entry.is_linked() {
            let until = heir.map(|why| P::now() + nap.min(why.until_closing()));
            entry.thread.ticket_parker.park(until, false);
            if !entry.is_linked() {
                break;
            }
            // The timer, or a kick meant for an earlier wait.
            if heir.is_none() {
                if self.take(self.load(), entry.ticket) {
                    return true;
                }
                continue;
            }
            match self.spin(entry.ticket) {
                Ok(()) => return true,
                Err(why) => heir = Some(why),
            }
            nap = (2 * nap).min(NAP_NS.1);
        }
        false
    }

    /// Takes the calling holder's own entry out of inbox and lot.
    ///
    /// # Safety
    /// The caller holds the lock.
    unsafe fn unlist(&self, entry: &Parked<P>) {
        // SAFETY: the caller holds the lock.
        let own = unsafe { &mut *self.own.get() };
        own.lot.collect(&self.inbox, self.load(), S::MAX);
        if entry.is_linked() {
            own.lot.remove(entry);
        }
    }

    /// # Safety
    /// The caller holds the lock; `word` is a value it had since.
    #[inline(never)]
    unsafe fn unlock_contended(&self, mut word: Word) {
        // SAFETY: the caller holds the lock; not used after the release.
        let own = unsafe { &mut *self.own.get() };
        let step = S::pace(&mut own.pace, word.0, P::now);
        let mut kicks = Kicks::new();
        loop {
            let released = if word.outstanding() == 1 {
                // Nobody waits, so nobody is in the lists (invariant 2).
                Word::IDLE
            } else {
                if word.has_inbox() {
                    // The flag first, then the inbox: who pushes after the
                    // inbox was emptied raises the flag again, and the
                    // exchange below fails. Acquire: pairs with the waiter's
                    // raising of the flag.
                    if faulty!(S, LooksTooEarly) {
                        own.lot.collect(&self.inbox, word, S::MAX);
                    }
                    let flagged = self.word.fetch_and(!Word::INBOX, Ordering::Acquire);
                    word = Word(flagged).without_inbox();
                    if !faulty!(S, LooksTooEarly) {
                        own.lot.collect(&self.inbox, word, S::MAX);
                    }
                }
                let mut next = word.released();
                match step {
                    Step::Continue => {}
                    Step::Close => {
                        let left = next.outstanding_eligible(S::MAX);
                        next = next.with_left(left, S::MAX);
                    }
                    Step::Next(size) => next = next.with_left(size, S::MAX),
                }
                if !own.lot.is_empty() {
                    if matches!(step, Step::Next(_)) {
                        own.lot.count_ready(next, S::MAX);
                    }
                    choose::<P, S>(&mut own.lot, next, &mut kicks);
                }
                next.with_parked(!own.lot.is_empty())
            };
            // Release: the section, and what was done to `own`, happen before
            // the next holder's. From here on the lock may be gone.
            match self.word.compare_exchange(
                word.0,
                released.0,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => word = Word(now),
            }
        }
        if faulty!(S, TouchesReleased) {
            self.load();
        }
        if word.has_parked() {
            events::count(Event::ReleasedSlow);
        }
        kicks.send();
    }

    /// Records, under the lock just taken, whose turn it was.
    #[cfg(test)]
    fn note(&self, ticket: u32) {
        let head = self.load().head();
        // SAFETY: the caller holds the lock.
        unsafe { (*self.own.get()).served = super::Served { ticket, head } };
    }

    /// The service under way.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[cfg(test)]
    pub(super) unsafe fn served(&self) -> super::Served {
        // SAFETY: the caller holds the lock.
        unsafe { (*self.own.get()).served }
    }
}

#[cfg(all(test, loom))]
impl<S: BatchSize> TicketLock<crate::platform::loom::Loom, S> {
    /// Has loom check that every access so far happens before this one.
    pub(super) fn access_mut(&mut self) {
        self.word.with_mut(|_| ());
        self.heir.with_mut(|_| ());
        self.inbox.access_mut();
    }
}

#[inline]
fn can_take<S: BatchSize>(word: Word, ticket: u32) -> bool {
    !word.is_locked() && word.is_eligible(ticket, S::MAX)
}

/// How long to spin for a lock that others may take first, when `sections`
/// have passed in `spun` and the batch has `left` more.
fn patience(sections: u32, left: u32, spun: u64) -> (u64, InVain) {
    if sections < HOT_SECTIONS {
        (SPIN_NS, InVain::Waiting)
    } else {
        let closing = spun * u64::from(left) / u64::from(sections);
        let soon = closing < SPIN_CLOSING_NS;
        let bound = if soon { 2 * SPIN_CLOSING_NS } else { SPIN_HOT_NS };
        (bound, InVain::Overtaken(closing))
    }
}

/// Takes out of the lot whom the release to `next` has to kick.
///
/// While the batch is open running threads may take the lock, and a kick would
/// only slow them down: one waiter of the batch awake, or waking by its timer,
/// is enough for a lock that falls idle to be taken. Once the batch is closed
/// nobody but its stragglers may take the lock: as many as can run.
fn choose<P: Platform, S: BatchSize>(lot: &mut Lot<P>, next: Word, kicks: &mut Kicks<P>) {
    let waiting = next.outstanding_eligible(S::MAX);
    let mut awake = waiting - lot.ready();
    let wanted = if !next.is_open(S::MAX) {
        waiting.min(P::cpus() as u32 + 1)
    } else {
        u32::from(!lot.has_napping())
    };
    while awake < wanted && !kicks.is_full() {
        let Some(thread) = lot.pop_ready() else { break };
        kicks.push(thread);
        awake += 1;
    }
}

/// Kicks of one release at most. The rest is left to those that were kicked:
/// they run by then, and kick others when they release.
const MOST_KICKS: usize = 8;

/// Threads to kick once the lock is released.
struct Kicks<P: Platform> {
    len: usize,
    threads: [Option<&'static Thread<P>>; MOST_KICKS],
}

impl<P: Platform> Kicks<P> {
    fn new() -> Self {
        Self { len: 0, threads: [None; MOST_KICKS] }
    }

    fn is_full(&self) -> bool {
        self.len == MOST_KICKS
    }

    fn push(&mut self, thread: &'static Thread<P>) {
        self.threads[self.len] = Some(thread);
        self.len += 1;
    }

    /// Thread records are never freed (rules 11 and 12): a kick that comes
    /// late is one spurious wake-up.
    fn send(self) {
        for thread in self.threads.into_iter().take(self.len).flatten() {
            events::count(Event::ReleasedSlowKicked);
            thread.ticket_parker.unpark();
        }
    }
}

impl<P: Platform, S: BatchSize> Default for TicketLock<P, S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, S: BatchSize> core::fmt::Debug for TicketLock<P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TicketLock")
            .field("locked", &self.is_locked())
            .field("waiting", &self.is_contended())
            .finish_non_exhaustive()
    }
}
