//! Visible locks that are copied, and lose their numbers to others while threads read them, in every interleaving of two or three
//! threads, with every value the memory model lets them read. See `rwlock_loom`.
//!
//! One lock can be visible at a time here: the second one takes the number away from the first.

use super::stray_test::Stray;
use super::words::Names;
use super::{Policy, RawRwLock};
use crate::fault::Fault;
#[cfg(fairlock_faults)]
use crate::models::controls;
use crate::models::{self, Scene, enough, many, models};

type Guarded = models::Guarded<RawRwLock<Stray>>;

struct Both([Guarded; 2]);

/// What a thread does once, at the first lock.
#[derive(Clone, Copy)]
enum Visit {
    Read,
    TryRead,
    Write,
    TryWrite,
    /// The readers of the lock become visible.
    Show,
    /// The same at the second lock.
    ShowOther,
    ReadOther,
    WriteOther,
    /// The second lock, which nobody else uses, becomes a copy of the first.
    Copy,
}
use Visit::*;

impl Scene for Both {
    type Visit = Visit;

    /// How often the first value was changed.
    fn visit(&self, visit: Visit) -> u32 {
        let [guarded, other] = &self.0;
        match visit {
            Read => {
                guarded.lock.read();
                guarded.read(true)
            }
            TryRead => guarded.read(guarded.lock.try_read()),
            Write => {
                guarded.lock.write();
                guarded.write(true)
            }
            TryWrite => guarded.write(guarded.lock.try_write()),
            Show => {
                guarded.lock.show_readers();
                0
            }
            ShowOther => {
                other.lock.show_readers();
                0
            }
            ReadOther => {
                other.lock.read();
                other.read(true)
            }
            WriteOther => {
                other.lock.write();
                other.write(true);
                0
            }
            Copy => {
                let word = guarded.lock.words().load();
                // Not a holder, or one that waits: the copy would be held.
                if word.is_visible() && word.counted_beside() == 0 {
                    other.lock.words().put(word);
                }
                0
            }
        }
    }

    fn check(&self, written: u32) {
        for guarded in &self.0 {
            let lock = &guarded.lock;
            assert!(!lock.has_waiters() && !lock.is_locked());
            assert!(lock.try_write(), "nobody is inside");
            // SAFETY: just taken.
            unsafe { lock.unlock_write() };
        }
        assert_eq!(self.0[0].seen(), written);
    }
}

fn check(fault: Option<Fault>, threads: &'static [&'static [Visit]]) {
    let guarded = || Guarded::new(RawRwLock::new(Policy::DEFAULT));
    // A mistake may be met late.
    let builder = if fault.is_some() { many() } else { enough() };
    models::check(&builder, fault, move || Both([guarded(), guarded()]), threads);
}

models! {
    check;
    a_reader_and_a_writer: [&[Show, Read, Read], &[Write]];
    a_number_goes_to_another_lock_beside_a_reader: [&[Show, Read, Read], &[ShowOther, Write]];
    a_number_goes_to_another_lock_beside_two: [&[Show, Read, Read], &[ShowOther], &[Write]];
    a_number_goes_to_another_lock_beside_attempts: [&[Show, TryRead, TryRead], &[ShowOther, TryWrite]];
    a_number_goes_to_another_lock_and_back: [&[Show, Read, Show, Read], &[ShowOther, ReadOther, Write]];
    a_number_goes_to_another_lock_beside_its_writers: [&[Show, Read], &[ShowOther, WriteOther], &[Write]];
    a_copy_is_written_beside_a_reader: [&[Show, Read, Read], &[Copy, WriteOther, Write]];
    a_copy_is_written_beside_two: [&[Show, Read, Read], &[Copy, WriteOther], &[Write]];
    a_copy_is_read_beside_a_writer: [&[Show, Read], &[Copy, ReadOther, ReadOther], &[Write]];
    a_copy_is_made_visible: [&[Show, Read, Read], &[Copy, ReadOther, ShowOther, WriteOther, Write]];
}

#[cfg(fairlock_faults)]
controls! {
    trusts_copies: "";
    sweeps_unfenced: "Causality violation";
    sweeps_shown: "";
    shows_unowned: "Causality violation";
}

#[cfg(fairlock_faults)]
mod broken {
    use super::*;

    #[test]
    #[ignore = "fails: a negative control"]
    fn trusts_copies() {
        check(Some(Fault::TrustsCopies), &[&[Show, Read, Read], &[Copy, WriteOther, Write]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn sweeps_unfenced() {
        check(Some(Fault::SweepsUnfenced), &[&[Show, Read, Read], &[ShowOther, Write]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn sweeps_shown() {
        check(Some(Fault::SweepsShown), &[&[Show, Read, Read], &[ShowOther, Write]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn shows_unowned() {
        check(Some(Fault::ShowsUnowned), &[&[Show, Read, Read], &[ShowOther, Write]]);
    }
}
