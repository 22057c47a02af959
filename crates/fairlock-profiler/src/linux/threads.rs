//! What the program's threads do, seen from outside: the record knows of waits at locks, conditions, semaphores
//! and futexes, and threads may wait in other ways.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::fs;
use std::mem;
use std::ops::AddAssign;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use syscalls::x86_64::Sysno;

use crate::document::{InCall, OfThreads};
use crate::sum;
use crate::units::{percent_of_tenths, time};

/// How often they are looked at; less often where looking takes long.
const PERIOD: Duration = Duration::from_millis(10);
/// Looking takes no more than one part in so many of the time.
const PART: u32 = 20;
/// So many of the system calls are named in which most time is spent.
const CALLS: usize = 3;

/// All waits that the record knows, together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Those for locks.
    pub lost_ns: u64,
    /// Those for what nobody holds.
    pub slept_ns: u64,
}

impl Totals {
    /// What came after `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            lost_ns: self.lost_ns.saturating_sub(before.lost_ns),
            slept_ns: self.slept_ns.saturating_sub(before.slept_ns),
        }
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.lost_ns = sum([self.lost_ns, other.lost_ns]);
        self.slept_ns = sum([self.slept_ns, other.slept_ns]);
    }
}

/// Looks at a program's threads while it lives.
pub struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<()>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    all: Threads,
    /// Since somebody asked for it last.
    lately: Threads,
}

/// What threads did with their time: that of all together, as far as they were looked at.
#[derive(Clone, Default)]
pub struct Threads {
    ran: Duration,
    running: Duration,
    in_futexes: Duration,
    /// Asleep in other system calls, by their numbers.
    elsewhere: BTreeMap<u64, Duration>,
    /// Asleep, but the kernel does not say where.
    hidden: Duration,
    known: Totals,
    pub doing: Activities,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    Running,
    /// In a system call, by its number.
    In(u64),
    Hidden,
}

/// What each thread did when.
#[derive(Clone, Default)]
pub struct Activities {
    /// By the thread: since when it did what, by `CLOCK_MONOTONIC`. Of a look, each thread is once in it.
    of: HashMap<u32, Vec<(u64, Doing)>>,
    /// The last look.
    until_ns: u64,
}

/// The clock of records, and of [`Activities`].
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// So many changes of what a thread does are remembered.
const CHANGES: usize = 10_000;

impl Activities {
    fn note(&mut self, tid: u32, at: u64, doing: Doing) {
        let changes = self.of.entry(tid).or_default();
        if changes.last().is_none_or(|last| last.1 != doing) && changes.len() < CHANGES {
            changes.push((at, doing));
        }
    }

    /// What a thread did for most of a time, in words, and the part of the time in percent; none if it was not looked at.
    pub fn mostly(&self, tid: u32, since: u64, until: u64) -> Option<(String, u64)> {
        let changes = self.of.get(&tid)?;
        let ends = changes.iter().skip(1).map(|change| change.0).chain([self.until_ns]);
        let mut times = BTreeMap::<Doing, u64>::new();
        for (&(begin, doing), end) in changes.iter().zip(ends) {
            let time = end.min(until).saturating_sub(begin.max(since));
            let all = times.entry(doing).or_default();
            *all = sum([*all, time]);
        }
        let all = sum(times.values().copied());
        let (doing, most) = times.into_iter().max_by_key(|(_, time)| *time)?;
        let what = match doing {
            Doing::Running => "running, or without a CPU".to_owned(),
            Doing::In(call) => format!("in {}", name(call)),
            Doing::Hidden => "asleep".to_owned(),
        };
        (all > 0).then(|| (what, (u128::from(most) * 100 / u128::from(all)) as u64))
    }
}

impl Watch {
    /// Of a process, and its children.
    pub fn of(pid: u32) -> Self {
        let (stop, stopped) = mpsc::channel();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        let thread = thread::spawn(move || {
            let mut last = Instant::now();
            let mut pause = PERIOD;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let now = Instant::now();
                let mut look = Threads { ran: now - last, ..Threads::default() };
                look.doing.until_ns = monotonic_ns();
                look.look(pid, now - last);
                let mut seen = shared.lock().unwrap_or_else(PoisonError::into_inner);
                seen.all += look.clone();
                seen.lately += look;
                drop(seen);
                last = now;
                pause = PERIOD.max(now.elapsed() * PART);
            }
        });
        Self { stop, thread, seen }
    }

    /// What was seen since this was asked for last.
    pub fn since_last(&self) -> Threads {
        mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner).lately)
    }

    /// All that was seen.
    pub fn end(self) -> Threads {
        drop(self.stop);
        let _ = self.thread.join(); // all that it knows is known here
        mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner).all)
    }
}

impl Doing {
    /// By what the kernel says of the thread; none if it has ended.
    fn of(stat: &str, syscall: impl FnOnce() -> Option<String>) -> Option<Self> {
        // The name before it may have any letters.
        let (_, state) = stat.rsplit_once(") ")?;
        Some(match state.as_bytes().first()? {
            b'R' => Self::Running,
            b'S' | b'D' => syscall().map_or(Self::Hidden, |call| {
                // In none, as at a page fault.
                Self::In(call.split(' ').next().unwrap_or_default().parse().unwrap_or(u64::MAX))
            }),
            _ => return None,
        })
    }
}

impl AddAssign for Threads {
    fn add_assign(&mut self, other: Self) {
        self.ran += other.ran;
        self.running += other.running;
        self.in_futexes += other.in_futexes;
        self.hidden += other.hidden;
        self.known += other.known;
        self.doing.until_ns = self.doing.until_ns.max(other.doing.until_ns);
        for (tid, changes) in other.doing.of {
            changes.into_iter().for_each(|(at, doing)| self.doing.note(tid, at, doing));
        }
        for (call, time) in other.elsewhere {
            *self.elsewhere.entry(call).or_default() += time;
        }
    }
}

impl Threads {
    /// Each thread has been for so long in the state in which it is now.
    fn look(&mut self, pid: u32, time: Duration) {
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return };
        for thread in threads.flatten() {
            // Whatever cannot be read is of a thread that has ended meanwhile.
            let read = |file: &str| fs::read_to_string(thread.path().join(file));
            if let Ok(stat) = read("stat")
                && let Some(doing) = Doing::of(&stat, || read("syscall").ok())
            {
                *self.place(doing) += time;
                let tid = thread.file_name().to_str().and_then(|name| name.parse().ok());
                tid.into_iter().for_each(|tid| self.doing.note(tid, self.doing.until_ns, doing));
            }
            let children = read("children").unwrap_or_default();
            children.split_whitespace().flat_map(str::parse).for_each(|pid| self.look(pid, time));
        }
    }

    /// Where the time of a thread counts.
    fn place(&mut self, doing: Doing) -> &mut Duration {
        const FUTEXES: [u64; 3] = [202, 449, 455];
        match doing {
            Doing::Running => &mut self.running,
            Doing::In(call) if FUTEXES.contains(&call) => &mut self.in_futexes,
            Doing::In(call) => self.elsewhere.entry(call).or_default(),
            Doing::Hidden => &mut self.hidden,
        }
    }

    /// The same with what a record or our locks know.
    pub fn with(self, known: Totals) -> Self {
        Self { known, ..self }
    }

    fn all(&self) -> Duration {
        let elsewhere = self.elsewhere.values().sum::<Duration>();
        self.running + self.in_futexes + elsewhere + self.hidden
    }

    /// The system calls in which most time was slept, and the time.
    fn calls(&self) -> Vec<(String, Duration)> {
        let mut calls: Vec<_> =
            self.elsewhere.iter().map(|(&call, &time)| (name(call), time)).collect();
        calls.sort_by_key(|&(_, time)| Reverse(time));
        calls
    }

    /// A line, for people; none if nothing was seen.
    pub fn line(&self) -> Option<String> {
        let parts = self.document()?;
        let shares = parts.tenths();
        let mut line = format!(
            "{}, {:.1} threads on average: running or ready {} of their time, lost at locks {}, waiting for what nobody \
             holds {}, in futexes beyond that {}, asleep elsewhere {}",
            time(parts.watched_ns),
            self.all().as_secs_f64() / self.ran.as_secs_f64(),
            percent_of_tenths(shares.running),
            percent_of_tenths(shares.lost),
            percent_of_tenths(shares.slept),
            percent_of_tenths(shares.unknown_futexes),
            percent_of_tenths(shares.elsewhere.iter().sum()),
        );
        let calls = parts.elsewhere.iter().zip(shares.elsewhere).take(CALLS);
        let most = calls.map(|(of, share)| format!("{} {}", of.call, percent_of_tenths(share)));
        let most = most.collect::<Vec<_>>().join(", ");
        // Writing to a string does not fail.
        if !most.is_empty() {
            let _ = write!(line, " ({most})");
        }
        if parts.hidden_ns > 0 {
            let hidden = percent_of_tenths(shares.hidden);
            let _ = write!(line, ", asleep in unknown places {hidden}");
        }
        Some(line)
    }

    /// The same, and what is not known of futexes.
    pub fn text(&self) -> String {
        let (Some(line), Some(parts)) = (self.line(), self.document()) else {
            return String::new();
        };
        let unknown = match parts.unknown_futexes_ns {
            0 => "",
            _ => {
                "in futexes beyond that, the record has nothing: joins, barriers, locks of the C library, and of \
                 programs that call the kernel by themselves. `fairlock snapshot PID` names them while they last\n"
            }
        };
        format!("\n{line}\n{unknown}")
    }

    /// For a document; none if nothing was seen. What the record knows of waits was seen as something else: as
    /// sleep in futexes or in unknown places, or, of threads that waited awake, as running.
    pub fn document(&self) -> Option<OfThreads> {
        let ns = |time: Duration| time.as_nanos() as u64;
        let known = sum([self.known.lost_ns, self.known.slept_ns]);
        let mut missing = known;
        let mut without_known = |time: Duration| {
            let known = missing.min(ns(time));
            missing -= known;
            ns(time) - known
        };
        let unknown_futexes_ns = without_known(self.in_futexes);
        let hidden_ns = without_known(self.hidden);
        let running_ns = without_known(self.running);
        // More was waited by processes and at times that were not looked at: as many parts of both are left out.
        let seen = u128::from(known - missing);
        let lost_ns = u128::from(self.known.lost_ns) * seen / u128::from(known.max(1));
        let calls = self.calls().into_iter();
        (!self.all().is_zero()).then(|| OfThreads {
            watched_ns: ns(self.ran),
            threads_ns: ns(self.all()),
            running_ns,
            lost_ns: lost_ns as u64,
            slept_ns: (seen - lost_ns) as u64,
            unknown_futexes_ns,
            elsewhere: calls.map(|(call, time)| InCall { call, slept_ns: ns(time) }).collect(),
            hidden_ns,
        })
    }
}

/// A system call's name, or its number; of 64-bit x86, which the library is for.
pub fn name(call: u64) -> String {
    let known = usize::try_from(call).ok().and_then(Sysno::new);
    match known {
        Some(known) => known.name().to_owned(),
        None if call == u64::MAX => "no system call".to_owned(),
        None => format!("system call {call}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_apart_by_where_they_sleep() {
        let mut threads = Threads { ran: Duration::from_secs(5), ..Threads::default() };
        let seen = [
            ("1 (a) R 0", None),
            ("1 (a) R ) S 0", Some("202 0x1 0x80")),
            ("1 (a) S 0", Some("230 0x202 0x1")),
            ("1 (a) D 0", Some("running")),
            ("1 (a) S 0", None),
            ("1 (a) Z 0", None),
        ];
        for (stat, call) in seen {
            if let Some(doing) = Doing::of(stat, || call.map(str::to_owned)) {
                *threads.place(doing) += Duration::from_secs(1);
            }
        }
        let known = Totals { lost_ns: 100_000_000, slept_ns: 650_000_000 };
        let verdict = threads.with(known);
        let text = verdict.text();
        for said in [
            "5.00 s, 1.0 threads on average: running or ready 20.0 %",
            "lost at locks 2.0 %, waiting for what nobody holds 13.0 %, in futexes beyond that 5.0 %",
            "asleep elsewhere 40.0 % (clock_nanosleep 20.0 %, no system call 20.0 %)",
            "in unknown places 20.0 %",
            "the record has nothing: joins",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
        let document = verdict.document().unwrap();
        assert_eq!(
            (document.threads_ns, document.unknown_futexes_ns),
            (5_000_000_000, 250_000_000)
        );
    }

    /// A thread that waits awake runs, and what nobody looked at was not seen as anything.
    #[test]
    fn shares_of_the_threads_time_add_up_to_it() {
        let of = |running, in_futexes, hidden, calls: &[u64], known: [u64; 2]| {
            let elsewhere = calls.iter().enumerate();
            let [running, in_futexes, hidden] =
                [running, in_futexes, hidden].map(Duration::from_millis);
            let threads = Threads {
                ran: Duration::from_secs(1),
                doing: Activities::default(),
                running,
                in_futexes,
                hidden,
                elsewhere: elsewhere
                    .map(|(n, &ms)| (n as u64, Duration::from_millis(ms)))
                    .collect(),
                known: Totals::default(),
            };
            let [lost_ns, slept_ns] = known.map(|ms| ms * 1_000_000);
            let threads = threads.with(Totals { lost_ns, slept_ns });
            let parts = threads.document().unwrap();
            let calls = parts.elsewhere.iter().map(|of| of.slept_ns);
            let asleep = parts.slept_ns + parts.unknown_futexes_ns + parts.hidden_ns;
            let all = parts.running_ns + parts.lost_ns + asleep + calls.sum::<u64>();
            assert_eq!(all, parts.threads_ns);
            threads.line().unwrap()
        };
        for line in [
            of(1, 1, 0, &[1], [0, 0]),
            of(1, 1, 1, &[1, 1, 1, 1], [0, 0]),
            of(500, 480, 0, &[20], [300, 210]),
            of(100, 0, 800, &[], [400, 100]),
            of(10, 10, 0, &[3], [900, 7_000]),
        ] {
            // Those in system calls are within another.
            let (before, rest) = line.split_once(" (").unwrap_or((&line, ""));
            let whole = format!("{before}{}", rest.split_once(')').unwrap_or_default().1);
            let words: Vec<&str> = whole.split([' ', ',']).collect();
            let shares = words.windows(2).filter(|pair| pair[1] == "%").map(|pair| pair[0]);
            let tenths = shares.map(|share| share.replace('.', "").parse::<u64>().unwrap());
            assert_eq!(tenths.sum::<u64>(), 1_000, "{line}");
        }
        let awake = of(500, 480, 0, &[20], [300, 210]);
        assert!(awake.contains("ready 47.0 % of their time, lost at locks 30.0 %"), "{awake}");
    }

    #[test]
    fn what_a_thread_did_for_most_of_a_time_is_known() {
        let mut doing = Activities::default();
        doing.note(7, 100, Doing::Running);
        [200, 300].into_iter().for_each(|at| doing.note(7, at, Doing::In(74)));
        doing.note(7, 1_000, Doing::Running);
        doing.until_ns = 2_000;
        assert_eq!(doing.mostly(7, 100, 1_000), Some(("in fsync".to_owned(), 88)));
        assert_eq!(doing.mostly(7, 1_500, 1_600).unwrap().0, "running, or without a CPU");
        assert_eq!((doing.mostly(7, 0, 100), doing.mostly(8, 0, 1_000)), (None, None));
    }

    #[test]
    fn nothing_is_said_of_what_was_not_seen() {
        let verdict = Threads::default().with(Totals { lost_ns: 7, slept_ns: 0 });
        assert!(verdict.text().is_empty() && verdict.document().is_none());
    }
}
