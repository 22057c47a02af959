//! Readers that the holders wait for.
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

use fairlock::platform::System;

use crate::registry::Slot;
use crate::thread::Preload;
use crate::word::Turns;

/// For how long nothing may move. A reader that waits looks twice as often. In ns; compared with
/// the time since a writer last got in or began to wait, or since a thread that waits in no queue came.
pub(super) const GRACE_NS: u64 = 50_000_000;

/// Whether a reader that cannot get in behind the writers that wait may join those inside.
pub(super) fn may_pass(slot: &Slot, turns: &Turns) -> bool {
    let now = Preload::now();
    let still = slot.still.note(turns, now);
    still >= GRACE_NS
        && slot
            .sem()
            .first_writer_since()
            .is_some_and(|arrived| is_open(still.min(now.saturating_sub(arrived))))
}

/// Whether readers may pass when nothing has moved for `still_ns`: not for one grace, then for one,
/// then not for two, then for four, and so on.
fn is_open(still_ns: u64) -> bool {
    (still_ns / GRACE_NS).checked_ilog2().is_some_and(|doublings| doublings % 2 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_intervals_double() {
        let open: Vec<_> = (0..64).filter(|&n| is_open(n * GRACE_NS + 1)).collect();
        let expected: Vec<_> = (1..2).chain(4..8).chain(16..32).collect();
        assert_eq!(open, expected);
    }
}
