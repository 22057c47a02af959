//! The default locks, [`RawRwLock`] and [`RawMutex`]: a word that is always the whole truth, and, while threads wait, a
//! slot that has only the queue.
//!
//! # From few ideas
//!
//! 1. *Any running thread may take an open, free lock*, past the queue (barging). That is what makes an unfair lock fast.
//! 2. *One waiter is next* (`NEXT`), and somebody is responsible for it: it is awake, or the thread that leaves the lock free
//!    wakes it (`WAKE_NEXT`), or a nap as short as a wake-up ends. Nobody sleeps at a free lock, and no sleeping thread
//!    owns it: a waiter takes the lock itself, when it runs.
//! 3. *A tenure has one end*, which nothing restarts. At the end the lock is closed, and goes to the waiter that is next. Sides
//!    alternate. The bound on a wait is the sum of the tenures ahead.
//! 4. *Age belongs to a thread and a lock*: it survives a failed attempt, and ends with an acquisition.
//! 5. *Waiting is asleep*: a thread is awake only for about as long as a sleep would cost.
//! 6. *Readers* of a lock that is read nearly always are in the records of their threads (`visible`); a writer that is awake
//!    is waited for.
//!
//! # One contended write
//!
//! 1. [`RawRwLock::write`]: one compare-exchange of the `word`, free to `WRITER`. A mutex: `held` only (`mutex`).
//! 2. The word found says why not. If only sleeping waiters are in the way, and it is not another thread's turn (`mode`),
//!    a second compare-exchange takes the lock past the queue: `steal_in_turn` (`steal`), which notes what that costs the
//!    waiter that is next: a holder that sees the end of the tenure 0.2 ms behind it yields its CPU when it leaves, and 4 ms
//!    behind it closes the lock.
//! 3. `compete` (`wait`): the thread looks for 13 us, or for 1.4 us where CPUs are short. If the lock is closed and free, it
//!    leaves it to the waiter that is next for 50 us, and then goes first. While readers are inside, a writer sets `AWAKE_WRITER`,
//!    and arriving readers pause.
//! 4. `wait`: the lock's slot (`slot`), or a fresh one from the pool; its queue lock; the word again (R3). Free and
//!    open: taken, and a fresh slot goes back. Otherwise the thread is queued in its own stack frame, and one step sets
//!    `WAITERS` and the slot's name (`arrive`, `turn`). The first waiter of the side whose tenure it is not is next.
//! 5. Queued (`wait_queued`): a waiter that is not next sleeps, with a timer that hardly ever fires (`late`). The one that is
//!    next watches for 10 us, sets `WAKE_NEXT` in the step that sees the lock taken, and sleeps: without a timer behind a
//!    writer, else until the end of the tenure. At the end it closes the lock, and stays awake.
//! 6. The holder leaves by one read-modify-write of the word (R5). If that saw `WAKE_NEXT` and left the lock free: the slot
//!    by its name, its queue lock, R4, the flag is cleared, the waiter that is next is unparked (`left`, `raw`). The flag
//!    stays until then: if that thread loses its CPU, the next one to leave does its duty.
//! 7. The waiter that is next takes the lock under the queue lock in one step (`take`), which opens it, begins a tenure
//!    (`clock`), and makes another waiter next: a writer leaves the wake-up of that to the next thread to queue, or to its own
//!    release; a reader invites two readers, each of which invites two.
//! 8. The thread that takes out the last waiter clears the queue's flags. The name stays, until 32 acquisitions of one
//!    thread have found nobody waiting (R6).
//!
//! # The rules
//!
//! | | |
//! |---|---|
//! | R1 | Who is inside is in the word, and nowhere else. |
//! | R2 to R4, R6 | How a slot is found, used and given back: see `slot`. |
//! | R5 | A release is one step on the word, and that step tells all that it needs. After it only slots and thread records are touched, and the word again only by R4. So a lock may be freed as soon as the next owner could have it. |
//! | R7 | A mutex is released by a plain store unless somebody may wait: see `mutex`. |
//!
//! # Why no wake-up is lost
//!
//! While somebody waits, one waiter is next. That waiter is awake, or a timer will wake it, or it is in a list of threads to
//! wake, or `WAKE_NEXT` is set for it. The flag was set in the same atomic step in which the lock was seen taken, so the
//! release that leaves the lock free sees it. It was set by the waiter itself; or by the thread that queued the waiter
//! (`queue_sleeping_writer`); or by the writer inside, when that writer took the lock as the waiter that was next before. In
//! the last case the next thread to queue clears the flag and wakes the waiter: that thread is about to sleep, whereas the
//! writer has work to do. A writer that downgrades also wakes the waiter for which the flag is set: readers may then
//! overlap without a gap. (The release of a mutex may miss the flag: then the waiter naps, by R7.)
//!
//! | what | where |
//! |---|---|
//! | the bits, and what they say; their memory | `word`, `words` |
//! | the locks | `rwlock`, `upgrade`, `mutex` |
//! | a word and its slot: finding, leaving, waking | `raw`, `slot`, `queue_lock` |
//! | past the queue; awake, queued; whose turn it is; a waiter that does not come | `steal`, `wait`, `turn`, `late` |
//! | tasks that wait; whose waits end | `task`, `future`, `offers`, `timer`; `limit`, `alarms` |
//! | how long a tenure is; whether threads share the lock or take turns | `clock`, `mode` |
//! | what threads tell each other without the queue lock; what a thread remembers | `holder`, `local` |
//! | readers that no lock counts | `visible`, `shown`; where words may be copied: `owners` |
//! | what testers and the preload library see | `hidden` |
//!
//! Source: competitive succession is Dice's term (2017); the bound by handoff is proposal 1; that a slot is looked up and
//! then validated under its lock is parking_lot's way; a grant for a length of time is ours.

#![allow(rustdoc::private_intra_doc_links, reason = "the essay is for readers of the sources")]

#[cfg(feature = "async")]
mod alarms;
mod clock;
#[cfg(feature = "async")]
mod future;
mod hidden;
mod holder;
#[cfg(all(test, feature = "std", not(any(fairlock_loom, miri))))]
mod interrupted_test;
mod late;
#[cfg(feature = "async")]
mod limit;
mod local;
mod mode;
mod mutex;
#[cfg(all(test, fairlock_loom))]
mod mutex_loom;
#[cfg(feature = "async")]
mod offers;
mod owners;
#[cfg(all(test, fairlock_loom))]
mod owners_loom;
#[cfg(all(test, feature = "std", not(any(fairlock_loom, miri))))]
mod owners_test;
mod policy;
mod queue_lock;
#[cfg(all(test, fairlock_loom))]
mod queue_lock_loom;
mod raw;
mod rwlock;
#[cfg(all(test, fairlock_loom))]
mod rwlock_loom;
mod shown;
mod slot;
#[cfg(all(test, fairlock_loom))]
mod slots_loom;
mod steal;
#[cfg(all(test, fairlock_loom))]
mod stray_loom;
#[cfg(all(test, feature = "std", not(miri)))]
mod stray_test;
#[cfg(feature = "async")]
mod task;
#[cfg(all(test, fairlock_loom, feature = "async"))]
mod task_loom;
#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests;
#[cfg(feature = "async")]
mod timer;
mod turn;
mod upgrade;
mod visible;
mod wait;
mod word;
mod words;

#[cfg(feature = "async")]
pub(crate) use future::not_too_many;
#[cfg(feature = "async")]
pub use future::{RawLockFuture, RawRwLockFuture};
#[doc(hidden)]
pub use hidden::{InOneStep, Snapshot};
pub(crate) use late::{Line, Lookout};
#[cfg(all(feature = "async", feature = "std", not(fairlock_loom)))]
pub(crate) use limit::Limit;
#[cfg(feature = "async")]
pub use limit::{GivesUp, LimitedFuture};
pub(crate) use local::LockLocal;
pub use mutex::{AtOnce, RawMutex, Seat};
pub use owners::VisibleOwners;
pub use policy::{Percent, Policy};
pub(crate) use raw::Raw;
pub use rwlock::RawRwLock;
pub use shown::Periods;
pub(crate) use shown::Shown;
pub(crate) use slot::{FewWakes, Queued};
pub use slot::{PooledPlatform, Slot, Slots};
#[cfg(feature = "async")]
pub(crate) use task::{Task, TaskLine, TaskLock, Waiting};
pub use visible::VisibleReaders;
pub(crate) use word::{Flags, Word};
pub(crate) use words::Names;
