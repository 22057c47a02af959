//! `RwLock`, and the locks of the proposals, by their raw methods.

use std::time::Duration;

use fairlock::platform::Native;
use fairlock::{Policy, RawRwLock, RawRwLockExt, WaitError, lock_api, published};

use super::{Lock, Pair};
use crate::torture::seat::{Refusal, Seat, Subject};
use crate::torture::visit::{How, Op, Section, Visit};

/// What is wrong on purpose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    ReadsBesideWriters,
    WritesAsReader,
    UpgradesInTwoSteps,
    EndsLate,
    EndsEarly,
}

struct Rw<L> {
    lock: L,
    pair: Pair,
    mistake: Mistake,
}

fn ours(policy: Policy) -> Box<dyn Subject> {
    let lock = RawRwLock::with_policy(policy);
    Box::new(Rw { lock, pair: Pair::default(), mistake: Mistake::None })
}

fn published(policy: published::Policy) -> Box<dyn Subject> {
    let lock = published::RawRwLock::with_policy(policy);
    Box::new(Rw { lock, pair: Pair::default(), mistake: Mistake::None })
}

fn wrong(mistake: Mistake) -> Box<dyn Subject> {
    let lock = RawRwLock::with_policy(Policy::DEFAULT);
    Box::new(Rw { lock, pair: Pair::default(), mistake })
}

pub(super) const LOCKS: &[Lock] = &[
    Lock { name: "rwlock", make: || ours(Policy::DEFAULT) },
    Lock { name: "rwlock:priorities", make: || ours(Policy::DEFAULT.with_priorities()) },
    // No bound is promised.
    Lock { name: "rwlock:handoff", make: || published(published::Policy::HANDOFF) },
    // No bound is promised.
    Lock { name: "rwlock:writer-phase", make: || published(published::Policy::WRITER_PHASE) },
];

pub(super) const BROKEN: &[Lock] = &[
    // Readers do not wait for writers.
    Lock { name: "broken:shared", make: || wrong(Mistake::ReadsBesideWriters) },
    // Writers share the lock.
    Lock { name: "broken:writers", make: || wrong(Mistake::WritesAsReader) },
    // An upgrade lets other writers in.
    Lock { name: "broken:upgrade", make: || wrong(Mistake::UpgradesInTwoSteps) },
    // A wait that times out returns a quarter of a minute later.
    Lock { name: "broken:late", make: || wrong(Mistake::EndsLate) },
    // A wait that times out before its time.
    Lock { name: "broken:early", make: || wrong(Mistake::EndsEarly) },
];

/// A lock, and what it can do beyond what all have.
trait Ways:
    RawRwLockExt<Platform = Native>
    + lock_api::RawRwLockFair
    + lock_api::RawRwLockDowngrade
    + lock_api::RawRwLockRecursive
    + Send
    + Sync
    + 'static
{
    const OPS: &'static [Op];

    /// The lock as one with upgrades and a bound, if it is one.
    fn ours(&self) -> Option<&RawRwLock> {
        None
    }

    /// Not asked of a lock in whose `OPS` there are no upgrades.
    fn upgrades(&self) -> &RawRwLock {
        self.ours().expect("a lock with upgrades")
    }
}

impl Ways for RawRwLock {
    const OPS: &'static [Op] = &[
        Op::Read,
        Op::Read,
        Op::Read,
        Op::Write,
        Op::Write,
        Op::ReadAgain,
        Op::Upgradable,
        Op::Upgrade,
        Op::TryUpgrade,
        Op::Downgrade,
        Op::DownAndUp,
    ];

    fn ours(&self) -> Option<&RawRwLock> {
        Some(self)
    }
}

impl Ways for published::RawRwLock {
    const OPS: &'static [Op] =
        &[Op::Read, Op::Read, Op::Read, Op::Write, Op::Write, Op::ReadAgain, Op::Downgrade];
}

/// How the lock is held, or wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeldAs {
    Read,
    Upgradable,
    Write,
}

impl<L: Ways> Rw<L> {
    fn take(&self, mode: HeldAs, visit: &Visit, seat: &Seat<'_>) -> bool {
        let lock = &self.lock;
        seat.acquire(visit, |request| {
            if let (Mistake::EndsEarly, Some(_)) = (self.mistake, visit.how.timeout()) {
                return Err(Refusal::Ended(WaitError::TimedOut));
            }
            let result = match (mode, self.mistake) {
                (HeldAs::Read, Mistake::ReadsBesideWriters) => Ok(()),
                (HeldAs::Read, _) | (HeldAs::Write, Mistake::WritesAsReader) => {
                    request.take(|| lock.try_lock_shared(), |wait| lock.read_with(wait))
                }
                (HeldAs::Upgradable, _) => {
                    let lock = lock.upgrades();
                    request
                        .take(|| lock.try_upgradable_read(), |wait| lock.upgradable_read_with(wait))
                }
                (HeldAs::Write, _) => {
                    request.take(|| lock.try_lock_exclusive(), |wait| lock.write_with(wait))
                }
            };
            if self.mistake == Mistake::EndsLate && matches!(result, Err(Refusal::Ended(_))) {
                std::thread::sleep(Duration::from_secs(15));
            }
            result
        })
        .is_some()
    }

    fn leave(&self, mode: HeldAs, visit: &Visit, seat: &Seat<'_>) {
        let lock = &self.lock;
        // SAFETY: the calling thread holds the lock in this mode: each caller has just taken it.
        seat.release(|| unsafe {
            // The lock as it was taken: see `take`.
            let mode = match (mode, self.mistake) {
                (HeldAs::Read, Mistake::ReadsBesideWriters) => return,
                (HeldAs::Write, Mistake::WritesAsReader) => HeldAs::Read,
                _ => mode,
            };
            match (mode, visit.fair) {
                (HeldAs::Read, true) => lock.unlock_shared_fair(),
                (HeldAs::Read, false) => lock.unlock_shared(),
                (HeldAs::Upgradable, true) => lock.upgrades().unlock_upgradable_fair(),
                (HeldAs::Upgradable, false) => lock.upgrades().unlock_upgradable(),
                (HeldAs::Write, true) => lock.unlock_exclusive_fair(),
                (HeldAs::Write, false) => lock.unlock_exclusive(),
            }
        });
    }

    /// Reads while the thread reads.
    fn read_again(&self, visit: &Visit, seat: &Seat<'_>) {
        let lock = &self.lock;
        // As long as this takes, the lock is held.
        let again =
            Visit { how: if visit.how == How::Wait { How::Wait } else { How::Try }, ..*visit };
        let had = seat.upgrade(&again, |request| {
            request.take(|| lock.try_lock_shared_recursive(), |wait| lock.read_recursive_with(wait))
        });
        if had {
            self.pair.read(seat, Section::Nothing);
            // SAFETY: just taken.
            unsafe { lock.unlock_shared() };
        }
    }

    /// The upgradable reader becomes the writer; no other writer may come in between.
    fn upgrade(&self, visit: &Visit, seat: &Seat<'_>) -> bool {
        let lock = self.lock.upgrades();
        let before = self.pair.read(seat, visit.section);
        // SAFETY: the thread holds the lock upgradably, here and below.
        let attempt = || unsafe { lock.try_upgrade() };
        let upgraded = seat.upgrade(visit, |request| match (visit.op, self.mistake) {
            (_, Mistake::UpgradesInTwoSteps) => {
                // SAFETY: as above.
                unsafe { lock.unlock_upgradable() };
                std::thread::yield_now();
                lock.write();
                Ok(())
            }
            (Op::TryUpgrade, _) => attempt().then_some(()).ok_or(Refusal::Busy),
            // SAFETY: as above.
            _ => request.take(attempt, |wait| unsafe { lock.upgrade_with(wait) }),
        });
        if upgraded && self.pair.read(seat, Section::Nothing) != before {
            seat.fail("exclusion: a writer came in during an upgrade");
        }
        upgraded
    }

    /// From writer to upgradable reader, and back.
    fn down_and_up(&self, visit: &Visit, seat: &Seat<'_>) -> HeldAs {
        let before = self.pair.read(seat, Section::Nothing);
        // SAFETY: the thread has taken the lock for writing.
        unsafe { self.lock.upgrades().downgrade_to_upgradable() };
        if self.pair.read(seat, visit.section) != before {
            seat.fail("exclusion: a writer came in during a downgrade");
        }
        if !self.upgrade(visit, seat) {
            return HeldAs::Upgradable;
        }
        self.pair.write(seat, visit.section);
        HeldAs::Write
    }
}

impl<L: Ways> Subject for Rw<L> {
    fn ops(&self) -> &'static [Op] {
        match self.mistake {
            Mistake::None | Mistake::EndsLate | Mistake::EndsEarly => L::OPS,
            Mistake::UpgradesInTwoSteps => &[Op::Upgrade, Op::Write],
            Mistake::ReadsBesideWriters | Mistake::WritesAsReader => &[Op::Read, Op::Write],
        }
    }

    fn visit(&self, visit: &Visit, seat: &Seat<'_>) {
        let mut mode = match visit.op {
            Op::Read | Op::ReadAgain => HeldAs::Read,
            Op::Upgradable | Op::Upgrade | Op::TryUpgrade => HeldAs::Upgradable,
            _ => HeldAs::Write,
        };
        if !self.take(mode, visit, seat) {
            return;
        }
        match visit.op {
            Op::Upgrade | Op::TryUpgrade => {
                let how = if visit.op == Op::TryUpgrade { How::Try } else { visit.how };
                if self.upgrade(&Visit { how, ..*visit }, seat) {
                    self.pair.write(seat, visit.section);
                    mode = HeldAs::Write;
                }
            }
            Op::ReadAgain => {
                self.pair.read(seat, visit.section);
                self.read_again(visit, seat);
            }
            Op::Downgrade => {
                self.pair.write(seat, visit.section);
                let before = self.pair.read(seat, Section::Nothing);
                // SAFETY: taken for writing above.
                unsafe { self.lock.downgrade() };
                mode = HeldAs::Read;
                if self.pair.read(seat, visit.section) != before {
                    seat.fail("exclusion: a writer came in during a downgrade");
                }
            }
            Op::DownAndUp => mode = self.down_and_up(visit, seat),
            Op::Write => self.pair.write(seat, visit.section),
            _ => drop(self.pair.read(seat, visit.section)),
        }
        self.leave(mode, visit, seat);
    }

    fn planned_ns(&self, others: usize) -> Option<u64> {
        Some(self.lock.ours()?.planned_wait_ns(self.grants(others)))
    }

    /// Between those of one side come those of the other.
    fn grants(&self, others: usize) -> usize {
        2 * others + 3
    }

    fn state(&self) -> String {
        let lock = &self.lock;
        let held = match (lock.is_locked_exclusive(), lock.is_locked()) {
            (true, _) => "a writer inside",
            (false, true) => "readers inside",
            (false, false) => "free",
        };
        let waiters = if lock.has_waiters() { "threads queued" } else { "nobody queued" };
        let form =
            lock.ours().map_or("full", |lock| if lock.has_slot() { "slot" } else { "no slot" });
        format!("{held}, {waiters}, {form}")
    }

    fn is_idle(&self) -> bool {
        !self.lock.is_locked() && !self.lock.has_waiters()
    }

    fn check_guarded(&self) -> Result<(), String> {
        self.pair.check_idle()
    }
}
