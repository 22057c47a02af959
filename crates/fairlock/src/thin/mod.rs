//! Thin locks: eight bytes that are the whole lock while nobody waits, and otherwise say where the
//! full lock is.
//!
//! A full lock is in a `Slot` of a pool, and slots are never freed: a thread that is late may still
//! touch one. The thin lock itself is not touched after the step that lets its next owner free it,
//! and its address means nothing: it may be moved.
//!
//! ```text
//! thin --> inflated   a slot adopts exactly whom the thin word counts; then the word names it
//! inflated --> thin   in place of a release, by a holder who is alone and whom nobody waits for; a
//!                     reader seals the slot first, and is still counted there
//! ```
//!
//! (A reader/writer lock that is only read may be visible, thin or inflated: see `visible`. When a
//! mutex is inflated, its holder stays in the thin word, and the first holder of the full lock
//! waits for that holder: see `mutex`.)
//!
//! What makes this safe:
//!
//! 1. *A full lock that no word names is sealed*: held by no thread, so no attempt on it succeeds.
//!    When a word names the lock already, the first thread that comes to wait for it unseals it. So
//!    nobody waits for a sealed lock. (Otherwise a thread that already reads and comes again could
//!    wait for a writer that waits for it.) An attempt that finds a seal takes the seal off, as a
//!    seal is no holder.
//! 2. *A slot that somebody holds or has pinned is not taken from its lock.* Only a thread that
//!    holds the full lock alone, while no pin is set (`CLOSING` keeps new ones out), changes the
//!    word so that it no longer names the slot.
//! 3. So a thread that has taken or pinned a slot, and *then* finds that the word names the slot
//!    (*verifies*), is at the right lock, and stays there. Otherwise it lets go, and begins again.
//!    (A thread that comes too late to pin makes the lock thin itself, so that nobody waits for the
//!    thread that was about to do so. A pinned slot is given to no other lock, so its name stays
//!    unambiguous.)
//! 4. *A thread that has to wait pins first*, so that it never waits at another thin lock's full
//!    lock. An attempt may hold such a lock for a moment, as any passing thread might.
//!
//! | what | where |
//! |---|---|
//! | the words: of locks, of slots, of the list of a pool | `word` |
//! | how a lock inflates, and becomes thin again; the full locks that thin locks have one after the other | `inflate` |
//! | what a thread remembers, to guess whether a lock is inflated | `local`, `marks` |
//! | the reader/writer lock | `rwsem` |
//! | its visible readers, which no lock counts | `visible`, `local` |
//! | the mutex | `mutex` |

#[cfg(feature = "std")]
mod hidden;
mod inflate;
mod local;
mod marks;
mod mutex;
#[cfg(all(test, fairlock_loom))]
mod mutex_loom;
mod rwsem;
#[cfg(all(test, fairlock_loom))]
mod thin_loom;
mod visible;
mod word;

#[cfg(feature = "std")]
pub use hidden::{SlotSnapshot, ThinSnapshot};
#[cfg(all(test, not(miri)))] // pool.rs
pub(crate) use inflate::Heap;
pub use inflate::{FullMutex, PooledPlatform, Slot, Slots};
pub(crate) use local::Marks;
pub use local::Periods;
pub(crate) use local::Shown;
pub use mutex::{Seat, ThinMutex};
pub use rwsem::ThinRwSem;
pub use visible::VisibleReaders;
