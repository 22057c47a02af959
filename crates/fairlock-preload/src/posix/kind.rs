//! What `pthread_rwlockattr_setkind_np` asks for.
//!
//! glibc's default is the number of the kind that prefers readers, so a program that asks for that
//! kind could not be told from one that does not ask. Hence the attributes' functions are this
//! library's too, and use a number of their own for it.
//!
//! The side that a kind prefers waits with more than any real-time priority, and then the rules are
//! those that a lock has for priorities: such a reader passes all writers that wait, and while such
//! a writer waits the lock is closed.
//!
//! # Readers that the holders wait for
//!
//! A thread that reads may wait for another one to read the same lock and come back. If the other
//! stands behind a writer, which waits for the first, none of the three ever goes on. POSIX allows
//! that; but glibc's default kind lets readers pass, and programs rely on it.
//!
//! So where nothing moves readers join those inside, past the writers: when a writer has waited for
//! [`GRACE_NS`], and none has got in meanwhile. They may do so for as long again; then not for
//! twice as long, and so on, each interval twice the last. If nobody waits for anybody, and the
//! readers' sections are just long, those inside leave in the first interval that is longer than a
//! section, and a writer gets in.

use core::ffi::c_int;

use fairlock::lock::RawRwLock;
use fairlock::platform::System;

use crate::process::word::Count;
use crate::thread::{Preload, nap};
use crate::word::{Still, Turns};

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

    /// By how much the priority is raised of those whom this kind prefers: these, or not.
    pub(super) fn priority_if(self, prefers: Self) -> u8 {
        if self == prefers { PREFERRED } else { 0 }
    }
}

/// Waits until no writers are announced, or `queued` says that they are in the queue, where readers can
/// queue behind them, or nothing moves: the writer does not run, or is in another copy of the lock.
pub(super) fn wait_for_announced(announced: &Count, queued: impl Fn() -> bool) {
    let began = Preload::now();
    while announced.any() && !queued() {
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

/// For how long nothing may move. A reader that waits looks twice as often. In ns; compared with
/// the time since a writer last got in or began to wait, or since a thread that waits in no queue came.
pub(super) const GRACE_NS: u64 = 50_000_000;

/// Whether a reader that cannot get in behind the writers that wait for `lock` may join those inside.
pub(super) fn may_pass(lock: &RawRwLock<Preload>, still: &Still, turns: &Turns) -> bool {
    let now = Preload::now();
    let still = still.note(turns, now);
    still >= GRACE_NS
        && lock
            .first_writer_since()
            .is_some_and(|arrived| is_open(still.min(now.saturating_sub(arrived))))
}

/// Whether readers may pass when nothing has moved for `still_ns`: not for one grace, then for one,
/// then not for two, then for four, and so on.
fn is_open(still_ns: u64) -> bool {
    (still_ns / GRACE_NS).checked_ilog2().is_some_and(|doublings| doublings % 2 == 0)
}

#[cfg(test)]
mod grace_tests {
    use super::*;

    #[test]
    fn the_intervals_double() {
        let open: Vec<_> = (0..64).filter(|&n| is_open(n * GRACE_NS + 1)).collect();
        let expected: Vec<_> = (1..2).chain(4..8).chain(16..32).collect();
        assert_eq!(open, expected);
    }
}
