//! `RangeRwLock` over an array of pairs.

use fairlock::RangeRwLock;
use fairlock::WaitError;
use fairlock::range::{RangeAccess, RangeError, RangePolicy};

use super::{Lock, Pair, wake_ups};
use crate::torture::seat::{Refusal, Request, Seat, Subject};
use crate::torture::visit::{Op, POSITIONS, Section, Visit};

fn made(policy: RangePolicy, leaves_out_last: bool) -> Box<dyn Subject> {
    let pairs = (0..POSITIONS).map(|_| Pair::default()).collect();
    Box::new(Ranges { lock: RangeRwLock::with_policy(policy), pairs, leaves_out_last })
}

pub(super) const LOCKS: &[Lock] = &[
    Lock { name: "range", make: || made(RangePolicy::DEFAULT, false) },
    Lock { name: "range:fifo", make: || made(RangePolicy::FIFO, false) },
];

pub(super) const BROKEN: &[Lock] = &[
    // A range lock that leaves out the last position.
    Lock { name: "broken:range", make: || made(RangePolicy::DEFAULT, true) },
];

struct Ranges {
    lock: RangeRwLock,
    pairs: Vec<Pair>,
    leaves_out_last: bool,
}

/// Asks for a range in the way of the request.
fn ask<G>(
    request: Request<'_>,
    attempt: impl FnOnce() -> Result<G, RangeError>,
    wait: impl FnOnce(fairlock::Wait<'_>) -> Result<G, RangeError>,
) -> Result<G, Refusal> {
    let result = match request {
        Request::Try => attempt(),
        Request::With(how) => wait(how),
    };
    result.map_err(|error| match error {
        RangeError::TimedOut => Refusal::Ended(WaitError::TimedOut),
        RangeError::Cancelled => Refusal::Ended(WaitError::Cancelled),
        RangeError::Interrupted => Refusal::Ended(WaitError::Interrupted),
        RangeError::Busy => Refusal::Busy,
        _ => Refusal::Ended(WaitError::TooManyReaders),
    })
}

impl Ranges {
    fn read_all(&self, seat: &Seat<'_>, (start, last): (u64, u64), section: Section) {
        let mut section = Some(section);
        for position in start..=last {
            self.pairs[position as usize].read(seat, section.take().unwrap_or(Section::Nothing));
        }
    }

    fn write_all(&self, seat: &Seat<'_>, (start, last): (u64, u64), section: Section) {
        let pairs = &self.pairs[start as usize..=last as usize];
        pairs.iter().for_each(|pair| pair.begin(seat));
        section.stay();
        pairs.iter().for_each(|pair| pair.finish(seat));
    }

    fn read(&self, visit: &Visit, seat: &Seat<'_>, asked: (u64, u64)) {
        let range = asked.0..=asked.1;
        let taken = seat.acquire(visit, |request| {
            let again = range.clone();
            ask(request, || self.lock.try_read(range), |wait| self.lock.read_with(again, wait))
        });
        let Some(guard) = taken else { return };
        self.read_all(seat, visit.range, visit.section);
        if visit.op == Op::ReadAgain {
            let again = self.lock.read_recursive(asked.0..=asked.1);
            if again.is_err() {
                seat.fail("a range that is read cannot be read recursively");
            }
            self.read_all(seat, visit.range, Section::Nothing);
        }
        seat.release(|| drop(guard));
    }

    fn write(&self, visit: &Visit, seat: &Seat<'_>, asked: (u64, u64)) {
        let range = asked.0..=asked.1;
        let taken = seat.acquire(visit, |request| {
            let again = range.clone();
            ask(request, || self.lock.try_write(range), |wait| self.lock.write_with(again, wait))
        });
        let Some(mut guard) = taken else { return };
        let (start, last) = visit.range;
        let middle = start + (last - start).div_ceil(2);
        self.write_all(seat, visit.range, visit.section);
        match visit.op {
            Op::Downgrade => {
                let guard = guard.downgrade();
                self.read_all(seat, visit.range, visit.section);
                seat.release(|| drop(guard));
            }
            Op::Shrink if guard.shrink(start..=middle).is_ok() => {
                self.write_all(seat, (start, middle), visit.section);
                seat.release(|| drop(guard));
            }
            Op::Split if middle > start => match guard.split_at(middle) {
                Ok((low, high)) => {
                    drop(high);
                    self.write_all(seat, (start, middle - 1), visit.section);
                    seat.release(|| drop(low));
                }
                Err(whole) => {
                    seat.fail(format!("{start}..={last} is not to be split at {middle}"));
                    seat.release(|| drop(whole));
                }
            },
            _ => seat.release(|| drop(guard)),
        }
    }
}

impl Subject for Ranges {
    fn ops(&self) -> &'static [Op] {
        if self.leaves_out_last {
            return &[Op::Read, Op::Write];
        }
        &[
            Op::Read,
            Op::Read,
            Op::Write,
            Op::Write,
            Op::ReadAgain,
            Op::Downgrade,
            Op::Shrink,
            Op::Split,
        ]
    }

    fn visit(&self, visit: &Visit, seat: &Seat<'_>) {
        let (start, last) = visit.range;
        let asked = (start, if self.leaves_out_last && last > start { last - 1 } else { last });
        match visit.op {
            Op::Read | Op::ReadAgain => self.read(visit, seat, asked),
            _ => self.write(visit, seat, asked),
        }
    }

    fn planned_ns(&self, others: usize) -> Option<u64> {
        // So long it may be overtaken: `RangePolicy::overtaken_for`.
        const SHARE_NS: u64 = 600_000;
        let overtaken = match self.lock.policy().overtaken_for.as_nanos() as u64 {
            0 => 0,
            least => least.max((others as u64 + 1) * SHARE_NS),
        };
        Some(overtaken + wake_ups(others))
    }

    fn state(&self) -> String {
        let mut text = String::from("ranges");
        for range in self.lock.ranges() {
            let access = if range.access == RangeAccess::Read { "read" } else { "written" };
            let waits = if range.waiting { "to be " } else { "" };
            text.push_str(&format!(
                ", {}..={} {waits}{access}",
                range.span.start(),
                range.span.last()
            ));
        }
        text
    }

    fn is_idle(&self) -> bool {
        !self.lock.is_locked() && self.lock.ranges().is_empty()
    }

    fn check_guarded(&self) -> Result<(), String> {
        self.pairs.iter().try_for_each(Pair::check_idle)
    }
}
