//! Thin locks: eight bytes that are the whole lock while nobody waits, and say where the full
//! one is while somebody does.
//!
//! A full lock is in a `Slot` of a pool, and slots are never freed: a thread that is late may still
//! touch one. Of the thin lock nothing is touched after the step that lets its next owner free it,
//! and its address means nothing: it may be moved.
//!
//! ```text
//! thin --> inflated   a slot adopts exactly whom the thin word counts; then the word names it
//! inflated --> thin   in place of a release, by a holder who is alone and whom nobody waits for; a
//!                     reader seals the slot first, and is still counted there
//! ```
//!
//! (A reader/writer lock that is only read may be visible, thin or inflated: see `visible`. Where a mutex
//! is inflated, its holder stays in the thin word, and whoever has the full lock first waits for that
//! holder: see `mutex`.)
//!
//! What makes this safe:
//!
//! 1. *A full lock that no word names is sealed*: held, by nobody in particular, so no attempt on
//!    it succeeds. The first thread that comes to wait for it, when a word names it already,
//!    unseals it. So nobody waits for a sealed lock: a thread that reads already, and comes again,
//!    would wait for a writer that waits for it. And an attempt that finds a seal takes that off: a
//!    seal is no holder.
//! 2. *A slot that somebody holds, or has pinned, is not taken from its lock.* Only a thread that
//!    holds it alone, with nobody pinned (`CLOSING` keeps them out), changes the word so that it
//!    names the slot no longer.
//! 3. So a thread that has taken or pinned a slot, and *then* finds that the word names it
//!    (*verifies*), is at the right lock, and stays there. Otherwise it lets go, and begins again.
//!    (A thread that comes too late to pin makes the lock thin itself, so that nobody waits for the thread
//!    that was about to do so. A pinned slot is given to no other lock, so its name stays unambiguous.)
//! 4. *A thread that is to wait pins first*: nobody waits at another lock. An attempt may hold
//!    another lock for a moment, as any passing thread might.
//!
//! | what | where |
//! |---|---|
//! | the words: of locks, of slots, of the list of a pool | `word` |
//! | how a lock comes to a full one, and becomes thin again; the full locks, which locks have one after the other | `inflate` |
//! | what a thread remembers, to guess whether a lock is inflated | `local`, `marks` |
//! | the reader/writer lock | `rwsem` |
//! | its readers that no lock counts | `visible`, `local` |
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
