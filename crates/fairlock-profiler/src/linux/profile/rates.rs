//! What happened at a program's locks since the last look: a screen of `fairlock top`.

use std::cmp::Reverse;
use std::time::Duration;

use fairlock_profile::buckets;

use super::table::{LOCKS, share};
use super::{Profile, Seen, runs};
use crate::layout::{Column, Table, or_dash};
use crate::output::Room;
use crate::place::{CodePlace, file_name};
use crate::units::{count, digits, several, time};
use crate::{Charge, sum};

const NOTE: &str =
    "waited, p99, at: since the last look; longest: since the program began; waiting, held by: now";

/// A lock, and what an earlier look saw of it.
struct Since<'a> {
    now: Seen<'a>,
    earlier: Option<Seen<'a>>,
}

impl<'a> Since<'a> {
    fn of(now: Seen<'a>, earlier: &'a Profile) -> Self {
        let is_same = |process: &&super::Process| {
            let (process, now) = (&process.record, &now.process.record);
            (process.pid, process.began_ns) == (now.pid, now.began_ns)
        };
        let process = earlier.processes.iter().find(is_same);
        let earlier = process.and_then(|process| {
            let lock = process.record.locks.get(now.number)?;
            let is_same = lock.address == now.lock.address;
            is_same.then_some(Seen { process, number: now.number, lock })
        });
        Self { now, earlier }
    }

    /// By how much a number has grown.
    fn more(&self, number: fn(&Seen<'a>) -> u64) -> u64 {
        number(&self.now).saturating_sub(self.earlier.as_ref().map_or(0, number))
    }

    fn lost(&self) -> u64 {
        self.more(Seen::lost)
    }

    fn taken(&self) -> u64 {
        self.more(Seen::taken)
    }

    fn p99(&self) -> Option<u64> {
        let found = self.now.contention().filter(|_| self.more(Seen::waits) > 1)?;
        let mut waits = found.waits_by_time.clone();
        let earlier = self.earlier.as_ref().and_then(Seen::contention);
        for (count, earlier) in waits.iter_mut().zip(earlier.iter().flat_map(|e| &e.waits_by_time))
        {
            *count = count.saturating_sub(*earlier);
        }
        Some(buckets::percentile(&waits, 0.99).min(found.longest_ns))
    }

    /// The place to which most of the time lost since is charged.
    fn place(&self) -> Option<CodePlace> {
        let worst = |charge| {
            let mut places = self.now.places(charge);
            for (place, time) in self.earlier.iter().flat_map(|earlier| earlier.places(charge)) {
                if let Some(now) = places.get_mut(&place) {
                    *now = now.saturating_sub(time);
                }
            }
            places.into_iter().filter(|(_, time)| *time > 0).max_by_key(|(_, time)| *time)
        };
        worst(Charge::Holder).or_else(|| worst(Charge::Waiter)).map(|(place, _)| place)
    }
}

impl Profile {
    /// As many locks as there are lines for, those first at which most time was lost since; and above them what
    /// threads did since.
    pub fn rates(
        &self,
        earlier: &Self,
        time: Duration,
        threads: Option<String>,
        room: Room,
    ) -> String {
        let mut locks: Vec<_> =
            self.locks().into_iter().map(|now| Since::of(now, earlier)).collect();
        let totals = totals(self, &locks, time);
        let deadlocks = self.deadlocks().into_iter();
        let totals = deadlocks.chain([totals]).chain(threads).collect::<Vec<_>>().join("\n");
        locks.retain(|since| since.taken() > 0 || since.lost() > 0);
        locks.sort_by_cached_key(|since| Reverse((since.lost(), since.taken())));
        let screen = |most: usize| {
            let (shown, others) = locks.split_at(most);
            let mut text = match shown {
                [] => format!("{totals}\n"),
                _ => table(shown, time).titled(&totals, NOTE, room.columns),
            };
            if !others.is_empty() {
                text +=
                    &format!("{} more of the locks that were taken\n", count(others.len() as u64));
            }
            text
        };
        let screens = (0..=locks.len().min(LOCKS)).rev().map(screen);
        room.first_that_fits(screens).unwrap_or_else(|| format!("{totals}\n"))
    }
}

/// What the processes did that still run, since they began and since the last look.
fn totals<'a>(profile: &Profile, locks: &[Since<'a>], passed: Duration) -> String {
    let running: Vec<_> =
        profile.processes.iter().map(|process| &process.record).filter(|it| runs(it.pid)).collect();
    let who = match running[..] {
        [] => return "no program that runs has taken a pthread lock".to_owned(),
        [one] => format!("{} ({})", file_name(&one.program), one.pid),
        [first, ..] => {
            format!(
                "{} and others, {}",
                file_name(&first.program),
                several(running.len(), "process")
            )
        }
    };
    let runs = |pid| running.iter().any(|record| record.pid == pid);
    let own: Vec<_> = locks.iter().filter(|it| runs(it.now.process.record.pid)).collect();
    let all = |number: fn(&Seen<'a>) -> u64| sum(own.iter().map(|since| number(&since.now)));
    let more = |number: fn(&Seen<'a>) -> u64| sum(own.iter().map(|since| since.more(number)));
    format!(
        "{who}: {}, taken {}, {} lost\nin the last {}: taken {}/s, {} lost a second",
        several(own.len(), "lock"),
        several(all(Seen::taken), "time"),
        time(all(Seen::lost)),
        time(passed.as_nanos() as u64),
        digits(per_second(more(Seen::taken), passed)),
        time(per_second(more(Seen::lost), passed) as u64),
    )
}

fn per_second(number: u64, passed: Duration) -> f64 {
    number as f64 / passed.as_secs_f64().max(f64::MIN_POSITIVE)
}

fn table(locks: &[Since<'_>], passed: Duration) -> Table {
    Table::of(
        locks,
        [
            (Column::place("lock"), &|since| since.now.name()),
            (Column::figure("lost/s"), &|it| time(per_second(it.lost(), passed) as u64)),
            (Column::figure("taken/s"), &|it| digits(per_second(it.taken(), passed))),
            (Column::figure("waited").rank(2), &|it| share(it.more(Seen::waits), it.taken())),
            (Column::figure("p99").rank(3), &|since| or_dash(since.p99(), time)),
            (Column::figure("waiting").rank(4), &|since| count(since.now.waiting_now() as u64)),
            (Column::figure("longest").rank(1), &|since| or_dash(since.now.longest(), time)),
            (Column::name("held by").rank(5), &|since| {
                or_dash(since.now.holder_now(), |name| name)
            }),
            (Column::place("at"), &|since| or_dash(since.place(), |place| place.short())),
        ],
    )
}

#[cfg(test)]
mod tests {
    use fairlock_profile::{Contention, Lock, Record};

    use super::super::{Activities, Callers, Files, Idle, Names, Process};
    use super::*;

    /// A process with many locks, each of which was taken so often, and waited for half as often.
    fn look(taken: impl Fn(u64) -> u64) -> Profile {
        let mut record = Record::default();
        record.pid = std::process::id();
        record.locks = (0..60)
            .map(|number| {
                let mut waits_by_time = vec![0; buckets::COUNT];
                let writes = taken(number) / 2;
                waits_by_time[buckets::of(1_000)] = writes;
                let (waited_ns, longest_ns) = (writes * 1_000, 1_000);
                let found = Contention {
                    writes,
                    waited_ns,
                    longest_ns,
                    waits_by_time,
                    ..Contention::default()
                };
                let (address, contention) = (8 * (number + 1), Some(Box::new(found)));
                Lock { address, writes: taken(number), contention, ..Lock::default() }
            })
            .collect();
        let names = Names::of(&record, &mut Files::default());
        let callers = Callers::default();
        let process = Process { names, record, callers, until_ns: None };
        Profile { processes: vec![process], idle: Idle::None, doing: Activities::default() }
    }

    const SCREEN: Room = Room { columns: Some(80), rows: Some(24) };

    #[test]
    fn what_happened_before_the_last_look_is_in_no_rate() {
        // The lock that was taken most is idle now.
        let earlier = look(|number| if number == 3 { 1_000_000 } else { 100 });
        let now = look(|number| if number == 3 { 1_000_000 } else { 100 + 40 * number });
        let text = now.rates(&earlier, Duration::from_millis(500), None, SCREEN);
        let rows: Vec<_> = text.lines().filter(|line| line.starts_with("0x")).collect();
        let cells: Vec<_> =
            rows[0].split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect();
        assert_eq!(
            cells,
            ["0x1e0", "2.36 ms", "4,720", "50.0 %", "959 ns", "0", "1.00 us", "-", "-"],
            "{text}"
        );
        assert!(!text.contains("0x20 "), "{text}");
        assert!(
            text.lines().nth(1).unwrap().starts_with("in the last 500 ms: taken 141,360/s"),
            "{text}"
        );
        assert!(text.contains(&format!("{} more of the locks", 58 - rows.len())), "{text}");
    }

    #[test]
    fn a_screen_has_no_more_lines_than_the_terminal() {
        let (earlier, now) = (look(|_| 0), look(|_| 40));
        for rows in [1, 2, 3, 7, 10, 24, 25] {
            let room = Room { rows: Some(rows), ..SCREEN };
            let lines = room.lines(&now.rates(&earlier, Duration::from_secs(1), None, room));
            assert!(lines < rows.max(3), "{lines} lines for {rows}");
            assert!(rows < 10 || lines == rows - 1, "{lines} lines for {rows}");
        }
    }
}
