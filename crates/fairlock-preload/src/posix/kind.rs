//! What `pthread_rwlockattr_setkind_np` asks for.
//!
//! glibc's default is the number of the kind that prefers readers, so a program that asks for that
//! kind could not be told from one that does not ask. Hence the attributes' functions are this
//! library's too, and use a number of their own for it.
//!
//! The side that a kind prefers waits with more than any real-time priority, and then the rules are
//! those that a lock has for priorities: such a reader passes all writers that wait, and while such
//! a writer waits the lock is closed.

use core::ffi::c_int;

use fairlock::platform::System;

use super::grace::GRACE_NS;
use crate::process::word::Count;
use crate::registry::nap;
use crate::thread::Preload;

/// `PTHREAD_RWLOCK_PREFER_READER_NP`: the default, for which nobody has to ask.
pub(super) const PREFER_READER: c_int = 0;
/// `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`.
const PREFER_WRITER: u32 = 2;
/// In attributes, and in a lock that is ours: somebody asked for [`PREFER_READER`].
pub(super) const ASKED_FOR_READER: c_int = 1 << 16;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Readers and writers take turns.
    Fair,
    Readers,
    Writers,
}

/// Above all real-time priorities.
const PREFERRED: u8 = 128;

impl Kind {
    pub(super) fn of_flags(flags: u32) -> Self {
        const READER: u32 = ASKED_FOR_READER as u32;
        match flags {
            READER => Kind::Readers,
            PREFER_WRITER => Kind::Writers,
            _ => Kind::Fair,
        }
    }

    /// By how much a reader's priority is raised.
    pub(super) fn reader_priority(self) -> u8 {
        if self == Kind::Readers { PREFERRED } else { 0 }
    }

    pub(super) fn writer_priority(self) -> u8 {
        if self == Kind::Writers { PREFERRED } else { 0 }
    }
}

/// How many writers that come first are in the queue or on their way to it: from the moment in
/// which they found the lock taken, no reader gets in before them.
#[repr(transparent)]
pub(super) struct Announced(Count);

impl Announced {
    pub(super) fn any(&self) -> bool {
        self.0.any()
    }

    pub(super) fn add(&self) {
        self.0.add();
    }

    pub(super) fn remove(&self) {
        self.0.remove();
    }

    /// Waits until there are none, or `queued` says that they are in the queue, where readers can
    /// queue behind them, or nothing moves: the writer does not run, or is in another copy of the lock.
    pub(super) fn wait(&self, queued: impl Fn() -> bool) {
        let began = Preload::now();
        while self.any() && !queued() {
            let waited = Preload::now() - began;
            if waited >= GRACE_NS {
                return;
            } else if waited < super::SPIN_NS {
                Preload::pause();
            } else {
                nap();
            }
        }
    }
}
