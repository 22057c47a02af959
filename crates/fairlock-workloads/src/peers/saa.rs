//! The crate saa: one word, for threads and tasks.

use fairlock::lock_api::{Mutex, RwLock};
use saa::Lock;

use crate::locks::entry::LockEntry;
use crate::locks::typed::Typed;

/// The locks of this family.
pub fn entries() -> Vec<LockEntry> {
    vec![LockEntry::rw::<Typed<RwLock<Lock, ()>>>("saa").with_mutex::<Typed<Mutex<Lock, ()>>>()]
}
