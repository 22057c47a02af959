//! The batched ticket lock: fair by construction, and still fast when there
//! are more threads than CPUs.
//!
//! A ticket lock serves its waiters in order of arrival, and collapses when the next in line is not
//! running. Here tickets come in *batches*: batches are served in order, and within the current
//! batch any running waiter may go first. So fewer waiters overtake a waiter than a batch has
//! tickets, and each gets its turn before the next batch starts.
//!
//! * [`BatchedTicketLock`]: batches of a fixed size; with size 1 it is a plain ticket lock.
//! * [`AdaptiveTicketLock`]: batches whose size follows what the end of a batch costs
//!   ([`Adaptive`]), up to a maximum. Nearly as fast as an unfair lock, and still nobody waits
//!   much longer than a batch takes.
//!
//! While nobody waits, nobody takes a ticket: see `solo`.
//!
//! Waiters spin for a bounded time and then park; a release kicks them. While the batch still gives
//! out tickets, releases kick sparingly, since any running thread can take the lock without a
//! wake-up. Once the batch gives out no more, only its stragglers keep the next batch waiting. Then
//! a release kicks as many as can run at once, and the first waiters of the next batch yield their
//! CPUs to them. If the stragglers still do not come, because the system runs something else, the
//! batch goes on without them for a while: see `reopen`.
//!
//! A wait may end at a deadline, by a signal or by a token (feature `alloc`): `give_up` says
//! what becomes of the ticket.
//!
//! `word` says what the bits are and why no fence is needed, `park` where waiters sleep and why
//! nothing touches the lock after its release, and `solo` why a plain store can release the lock.

mod batch;
mod check;
mod contended;
mod give_up;
mod lock;
mod park;
mod places;
mod release;
mod reopen;
mod solo;
mod wait;
mod word;

pub use batch::{Adaptive, BatchSize, Fixed};
pub(crate) use contended::Contended;
pub use lock::TicketLock;
pub(crate) use places::Places;

/// A ticket lock with batches of `BATCH` tickets, a power of two up to 65,536.
pub type BatchedTicketLock<P, const BATCH: u32 = 8> = TicketLock<P, Fixed<BATCH>>;

/// A ticket lock whose batches have 1 to `MAX` tickets: as many as take 40 times as long as the
/// end of a batch was measured to cost, but at least 1 and at most 6 milliseconds.
///
/// The end of a batch is expensive: each of its tickets must be served before the next batch
/// begins, also those of threads that sleep or have lost their CPU. So a batch should last much
/// longer than its end. Short sections make large batches, long ones small batches; a lock
/// without waiters has none.
///
/// A waiter is overtaken by fewer than `MAX` later ones.
///
/// ```
/// use fairlock::platform::Native;
/// use fairlock::ticket::AdaptiveTicketLock;
///
/// static LOCK: AdaptiveTicketLock<Native> = AdaptiveTicketLock::new_const();
///
/// LOCK.lock();
/// assert!(!LOCK.try_lock());
/// // SAFETY: locked above.
/// unsafe { LOCK.unlock() };
/// ```
pub type AdaptiveTicketLock<P, const MAX: u32 = 65_536> = TicketLock<P, Adaptive<MAX>>;

/// Whose turn it is: for tests that count how often a waiter is overtaken.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
struct Served {
    ticket: u32,
    head: u32,
}

#[cfg(test)]
impl Served {
    const NEW: Self = Self { ticket: 0, head: 0 };
}

#[cfg(all(test, fairlock_loom))]
mod give_up_loom;
#[cfg(all(test, fairlock_loom))]
mod steps_loom;
#[cfg(all(test, not(fairlock_loom)))]
mod tests;
#[cfg(all(test, fairlock_loom))]
mod ticket_loom;
