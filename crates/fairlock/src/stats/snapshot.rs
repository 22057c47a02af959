//! The numbers of all named locks at one time.

use core::fmt::{self, Write};
use core::time::Duration;
use std::string::String;
use std::vec::Vec;

use super::histogram::Times;
use super::place::{Access, Place};

/// What was counted of the locks of one name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockStats {
    /// The name. Several locks may have the same; their numbers are added, with those of dropped ones.
    pub name: String,
    /// So many locks of this name are in use.
    pub locks: usize,
    /// The numbers of readers; zero for a mutex.
    pub reads: SideStats,
    /// The numbers of writers, of holders of a mutex, and of upgradable readers.
    pub writes: SideStats,
    /// Waits at condition variables with this mutex: each from the release of the mutex until the
    /// thread holds it again, whether or not it was notified.
    pub conditions: Times,
    /// The longest of these.
    pub longest_condition: Option<Longest>,
}

/// The numbers of one side of a lock: its readers or its writers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SideStats {
    /// How often the lock was taken. Exact.
    pub acquisitions: u64,
    /// Waits: how long it took to acquire the lock, or to give up, after a failed first attempt.
    /// All are timed.
    pub waited: Times,
    /// How many of the waits ended without the lock: deadline, signal or token.
    pub given_up: u64,
    /// How often a waiter was overtaken, in all: a later thread acquired the lock first. Too low if
    /// waiters ahead gave up.
    pub passed_over: u64,
    /// How often the most overtaken waiter was overtaken.
    pub most_passed_over: u64,
    /// The longest wait.
    pub longest_wait: Option<Longest>,
    /// How long the lock was held, from samples: the first acquisition of each thread (for writes:
    /// of all threads), and then one of 64. [`longest`](Times::longest) includes all holds that
    /// somebody waited for.
    pub held: Times,
    /// The longest hold. If a hold was not sampled, and somebody began to wait during it, only the
    /// time from then on counts.
    pub longest_hold: Option<Longest>,
    /// Threads and tasks that wait now, longest first. Threads: of the first 4,096 threads that use named locks at a time.
    pub waiting: Vec<Now>,
    /// Threads that hold the lock now, longest first. A thread that has several reads of a lock
    /// is here until it has released the last. One that forgets a guard stays here, and another thread may have its name later.
    /// With the feature `send_guard`, a thread is here until it has released once; one whose guard another thread drops is here
    /// until it reads that lock again.
    pub held_now: Vec<Now>,
}

/// A thread that waits or holds now, or a task that waits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Now {
    /// For how long by now. If a hold is not timed, since somebody began to wait; `None` if nobody waits.
    pub time: Option<Duration>,
    /// The name of the thread: Rust's, cut off after 32 bytes, or else the system's, or else its number. Of a task that waits,
    /// that of the thread that has polled it last.
    pub thread: String,
    /// Whether a task waits, and no thread.
    pub is_task: bool,
    /// From where it wants the lock, or where it took it.
    pub at: Option<Place>,
    pub(super) name: Option<String>,
}

/// Threads that wait for each other for ever: each for a lock that the next one holds, and the last one for one that the
/// first one holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Deadlock {
    /// These threads.
    pub threads: Vec<Stuck>,
}

/// A thread of a [`Deadlock`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stuck {
    /// Its name, as [`Now::thread`].
    pub thread: String,
    /// What it holds, and the thread before it waits for. `None`: it waits before that thread, which reads.
    pub holds: Option<Claim>,
    /// What it waits for.
    pub wants: Claim,
    /// For how long by now.
    pub waited: Duration,
}

/// A lock that a thread holds or wants.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// The name of the lock.
    pub lock: String,
    /// How.
    pub access: Access,
    /// From where.
    pub at: Option<Place>,
    pub(super) name: Option<String>,
}

/// What took longest.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Longest {
    /// How long.
    pub time: Duration,
    /// The name of the thread: Rust's, or else the system's, or else its number. If the guard was
    /// sent to another thread, the name of the thread that dropped it.
    pub thread: String,
    /// Where in the code it took the lock.
    pub at: Option<Place>,
    /// The name of that place, if it is an address whose name is known: see
    /// [`Snapshot::with_names`].
    pub(super) name: Option<String>,
    /// The number of the thread; see `threads::number_of`.
    #[cfg_attr(not(all(target_os = "linux", not(miri))), allow(dead_code, reason = "for records"))]
    pub(super) number: usize,
    /// When it ended.
    #[cfg_attr(not(all(target_os = "linux", not(miri))), allow(dead_code, reason = "for records"))]
    pub(super) until: u64,
}

impl Claim {
    pub(crate) fn new(lock: String, access: Access, at: Option<Place>) -> Self {
        Self { lock, access, at, name: None }
    }
}

impl LockStats {
    /// Both sides, of which one may be unused.
    pub fn sides(&self) -> [(Access, &SideStats); 2] {
        [(Access::Read, &self.reads), (Access::Write, &self.writes)]
    }

    pub(super) fn side_mut(&mut self, access: Access) -> &mut SideStats {
        match access {
            Access::Read => &mut self.reads,
            Access::Write => &mut self.writes,
        }
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            name: self.name.clone(),
            locks: self.locks,
            reads: self.reads.since(&earlier.reads),
            writes: self.writes.since(&earlier.writes),
            conditions: self.conditions.since(&earlier.conditions),
            longest_condition: newer(&self.longest_condition, &earlier.longest_condition),
        }
    }
}

/// What took longest, if it is not what had taken longest before.
fn newer(now: &Option<Longest>, earlier: &Option<Longest>) -> Option<Longest> {
    let before = earlier.as_ref().map_or(Duration::ZERO, |it| it.time);
    now.clone().filter(|now| now.time > before)
}

impl SideStats {
    /// Whether nobody has wanted the lock in this way.
    pub fn is_unused(&self) -> bool {
        self.acquisitions == 0 && self.waited.count == 0 && self.waiting.is_empty()
    }

    fn since(&self, earlier: &Self) -> Self {
        let is_new = self.most_passed_over > earlier.most_passed_over;
        Self {
            acquisitions: self.acquisitions.saturating_sub(earlier.acquisitions),
            waited: self.waited.since(&earlier.waited),
            given_up: self.given_up.saturating_sub(earlier.given_up),
            passed_over: self.passed_over.saturating_sub(earlier.passed_over),
            most_passed_over: if is_new { self.most_passed_over } else { 0 },
            longest_wait: newer(&self.longest_wait, &earlier.longest_wait),
            held: self.held.since(&earlier.held),
            longest_hold: newer(&self.longest_hold, &earlier.longest_hold),
            waiting: self.waiting.clone(),
            held_now: self.held_now.clone(),
        }
    }
}

/// Read or write.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// How long, by whom, and from where.
impl fmt::Display for Longest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1?} by {}{}", self.time, self.thread, At(&self.name, self.at))
    }
}

/// For how long, by whom, and from where.
impl fmt::Display for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(time) = self.time {
            write!(f, "{time:.1?} ")?;
        }
        let (thread, at) = (&self.thread, At(&self.name, self.at));
        if self.is_task {
            return write!(f, "by a task, polled by {thread}{at}");
        }
        write!(f, "by {thread}{at}")
    }
}

/// The lock, and from where.
impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.lock, At(&self.name, self.at))
    }
}

/// On one line: each thread, what it holds, and what it waits for.
impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DEADLOCK: ")?;
        for (i, Stuck { thread, holds, wants, waited }) in self.threads.iter().enumerate() {
            let comma = if i == 0 { "" } else { "; " };
            write!(f, "{comma}{thread}")?;
            match holds {
                Some(holds) => write!(f, " holds {holds},")?,
                None => f.write_str(" is ahead in the queue,")?,
            }
            write!(f, " waits for {wants} ({waited:.1?})")?;
        }
        Ok(())
    }
}

/// A place, if it is known.
struct At<'a>(&'a Option<String>, Option<Place>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (Some(name), _) => write!(f, " at {name}"),
            (None, Some(at)) => write!(f, " at {at}"),
            (None, None) => Ok(()),
        }
    }
}

/// The numbers of all named locks at one time, by name.
///
/// Each number is read on its own, so while a lock is in use, an acquisition may be in one number
/// and not yet in another. The numbers are exact once the threads have been joined.
#[derive(Clone, Debug)]
pub struct Snapshot {
    locks: Vec<LockStats>,
    deadlocks: Vec<Deadlock>,
}

impl Snapshot {
    /// `locks` are in the order of their names.
    pub(super) fn new(locks: Vec<LockStats>, deadlocks: Vec<Deadlock>) -> Self {
        Self { locks, deadlocks }
    }

    /// All of them.
    pub fn locks(&self) -> &[LockStats] {
        &self.locks
    }

    /// The locks of this name.
    pub fn get(&self, name: &str) -> Option<&LockStats> {
        self.locks.iter().find(|lock| lock.name == name)
    }

    /// Threads that wait for each other for ever, at named locks.
    ///
    /// What is reported is a deadlock: none of its threads can go on, unless another thread releases a lock for them. (But a
    /// thread whose guard for reading was dropped by another thread seems to hold the lock still.) A circle in which a reader
    /// waits behind a writer is reported after a second. Not found: waits that can end, by a deadline, a signal or a token; threads at
    /// condition variables, and those that wait for permits; circles with a lock that has no name, or that was taken while
    /// statistics were off. The feature `deadlock_detection` finds also those without names.
    ///
    /// ```no_run
    /// std::thread::spawn(|| {
    ///     loop {
    ///         std::thread::sleep(std::time::Duration::from_secs(10));
    ///         for deadlock in fairlock::stats::snapshot().deadlocks() {
    ///             // DEADLOCK: checkout holds accounts at src/pay.rs:31:20, waits for journal at …
    ///             eprintln!("{deadlock}");
    ///         }
    ///     }
    /// });
    /// ```
    pub fn deadlocks(&self) -> &[Deadlock] {
        &self.deadlocks
    }

    /// What was counted since `earlier`: the same, with the differences of all counts, and percentiles of what came since. What
    /// took longest is there only if it has taken longer than anything before `earlier`. Without a difference: what
    /// goes on now, and deadlocks.
    ///
    /// ```
    /// use fairlock::stats::{self, NamedExt};
    ///
    /// let orders = fairlock::Mutex::named("orders", 0);
    /// *orders.lock() += 1;
    /// let earlier = stats::snapshot();
    /// *orders.lock() += 1;
    /// let minute = stats::snapshot().since(&earlier);
    /// assert_eq!(minute.get("orders").unwrap().writes.acquisitions, 1);
    /// ```
    pub fn since(&self, earlier: &Self) -> Self {
        let since = |lock: &LockStats| {
            earlier.get(&lock.name).map_or_else(|| lock.clone(), |before| lock.since(before))
        };
        let locks = self.locks.iter().map(since).collect();
        Self { locks, deadlocks: self.deadlocks.clone() }
    }

    /// The same, but addresses are printed as the names that `name` returns for them.
    #[doc(hidden)] // for libfairlock
    pub fn with_names(mut self, name: impl Fn(usize) -> Option<String>) -> Self {
        let put = |at: Option<Place>, to: &mut Option<String>| {
            if let Some(Place::Address(address)) = at {
                *to = name(address);
            }
        };
        for LockStats { reads, writes, longest_condition, .. } in &mut self.locks {
            for side in [&mut *reads, writes] {
                for longest in [&mut side.longest_wait, &mut side.longest_hold] {
                    longest.iter_mut().for_each(|it| put(it.at, &mut it.name));
                }
                let now = side.waiting.iter_mut().chain(&mut side.held_now);
                now.for_each(|it| put(it.at, &mut it.name));
            }
            longest_condition.iter_mut().for_each(|it| put(it.at, &mut it.name));
        }
        for stuck in self.deadlocks.iter_mut().flat_map(|deadlock| &mut deadlock.threads) {
            let claims = stuck.holds.iter_mut().chain([&mut stuck.wants]);
            claims.for_each(|it| put(it.at, &mut it.name));
        }
        self
    }

    /// One object in JSON: `{"locks": [{"name": …, "locks": …, "reads": {…}, "writes": {…}, "conditions": {…}}, …],
    /// "deadlocks": [[{"thread": …, "holds": …, "wants": …, "waited_ns": …}, …], …]}`. The
    /// members of `reads` and `writes` are those of [`SideStats`], of `conditions` its `waited` and
    /// `longest_wait`, of `holds` and `wants` those of [`Claim`]; times are in nanoseconds, and end with `_ns`.
    pub fn to_json(&self) -> String {
        let locks = List(&self.locks);
        let deadlocks: Vec<_> = self.deadlocks.iter().map(|it| List(&it.threads)).collect();
        std::format!("{{\"locks\":{locks},\"deadlocks\":{}}}", List(&deadlocks))
    }
}

/// A table: for each used side of the locks of a name their numbers, which threads held and waited longest, and which
/// hold and wait now; and the waits at condition variables, `cond`. A name that several locks have is followed by their number.
/// After the table, deadlocks.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |lock: &LockStats| match lock.locks {
            0 | 1 => lock.name.clone(),
            count => std::format!("{} ({count})", lock.name),
        };
        let width =
            self.locks.iter().map(|lock| name(lock).chars().count()).max().unwrap_or(0).max(4);
        write!(
            f,
            "{:width$} {:5} {:>12} {:>9} {:>8} {:>11}",
            "lock", "", "acquisitions", "waits", "gave up", "passed over"
        )?;
        writeln!(
            f,
            " {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "wait p50", "p99", "longest", "held p50", "p99", "longest"
        )?;
        for lock in &self.locks {
            for (access, side) in lock.sides().into_iter().filter(|(_, side)| !side.is_unused()) {
                let SideStats { acquisitions, waited, given_up, passed_over, held, .. } = side;
                write!(f, "{:width$} {access:5} {acquisitions:12}", name(lock))?;
                write!(f, " {:9} {given_up:8} {passed_over:11}", waited.count)?;
                for time in
                    [waited.p50, waited.p99, waited.longest, held.p50, held.p99, held.longest]
                {
                    write!(f, " {time:>9.1?}")?;
                }
                writeln!(f)?;
                for (what, longest) in
                    [("held", &side.longest_hold), ("waited", &side.longest_wait)]
                {
                    if let Some(longest) = longest {
                        writeln!(f, "    longest {what} {longest}")?;
                    }
                }
                for (what, all) in [("held", &side.held_now), ("waited for", &side.waiting)] {
                    for now in all.iter().take(SHOWN) {
                        writeln!(f, "    {what} now {now}")?;
                    }
                    if let Some(more) = all.len().checked_sub(SHOWN + 1) {
                        writeln!(f, "    {what} now by {} more", more + 1)?;
                    }
                }
            }
            if let Some(longest) = &lock.longest_condition {
                let Times { count, p50, p99, longest: time, .. } = lock.conditions;
                write!(
                    f,
                    "{:width$} {:5} {:12} {count:9} {:8} {:11}",
                    name(lock),
                    "cond",
                    "",
                    "",
                    ""
                )?;
                writeln!(f, " {p50:>9.1?} {p99:>9.1?} {time:>9.1?}")?;
                writeln!(f, "    longest waited {longest}")?;
            }
        }
        self.deadlocks.iter().try_for_each(|deadlock| writeln!(f, "{deadlock}"))
    }
}

/// Of the threads that hold or wait now, so many are in a table.
const SHOWN: usize = 8;

/// In JSON.
struct Json<T>(T);

/// A list in JSON.
struct List<'a, T>(&'a [T]);

impl<T> fmt::Display for List<'_, T>
where
    for<'a> Json<&'a T>: fmt::Display,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, item) in self.0.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { "," }, Json(item))?;
        }
        f.write_str("]")
    }
}

impl<T> fmt::Display for Json<&List<'_, T>>
where
    for<'a> Json<&'a T>: fmt::Display,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Json<&LockStats> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LockStats { name, locks, reads, writes, conditions, longest_condition } = self.0;
        write!(f, "{{\"name\":{},\"locks\":{locks},", Quoted(name))?;
        write!(f, "\"reads\":{},\"writes\":{},", Json(reads), Json(writes))?;
        let (waited, longest) = (Json(conditions), Json(longest_condition.as_ref()));
        write!(f, "\"conditions\":{{\"waited\":{waited},\"longest_wait\":{longest}}}}}")
    }
}

impl fmt::Display for Json<&Now> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Now { time, thread, is_task, at, name } = self.0;
        match time {
            Some(time) => write!(f, "{{\"time_ns\":{}", time.as_nanos())?,
            None => f.write_str("{\"time_ns\":null")?,
        }
        let (thread, at) = (Quoted(thread), Json((name, *at)));
        write!(f, ",\"thread\":{thread},\"is_task\":{is_task},\"at\":{at}}}")
    }
}

impl fmt::Display for Json<&Stuck> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stuck { thread, holds, wants, waited } = self.0;
        write!(f, "{{\"thread\":{},\"holds\":", Quoted(thread))?;
        match holds {
            Some(holds) => Json(holds).fmt(f)?,
            None => f.write_str("null")?,
        }
        write!(f, ",\"wants\":{},\"waited_ns\":{}}}", Json(wants), waited.as_nanos())
    }
}

impl fmt::Display for Json<&Claim> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Claim { lock, access, at, name } = self.0;
        write!(f, "{{\"lock\":{},\"access\":\"{access}\",", Quoted(lock))?;
        write!(f, "\"at\":{}}}", Json((name, *at)))
    }
}

impl fmt::Display for Json<(&Option<String>, Option<Place>)> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            (Some(name), _) => write!(f, "{}", Quoted(name)),
            (None, Some(Place::Line(at))) => write!(f, "\"{}:{}\"", Escaped(at.file()), at.line()),
            (None, Some(at)) => write!(f, "\"{at}\""),
            (None, None) => f.write_str("null"),
        }
    }
}

impl fmt::Display for Json<&SideStats> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SideStats { acquisitions, given_up, passed_over, most_passed_over, .. } = self.0;
        write!(f, "{{\"acquisitions\":{acquisitions},\"given_up\":{given_up},")?;
        write!(f, "\"passed_over\":{passed_over},\"most_passed_over\":{most_passed_over},")?;
        write!(f, "\"waited\":{},\"held\":{},", Json(&self.0.waited), Json(&self.0.held))?;
        let [wait, hold] = [&self.0.longest_wait, &self.0.longest_hold].map(|it| Json(it.as_ref()));
        write!(f, "\"longest_wait\":{wait},\"longest_hold\":{hold},")?;
        let [waiting, held] = [&self.0.waiting, &self.0.held_now].map(|all| List(all));
        write!(f, "\"waiting\":{waiting},\"held_now\":{held}}}")
    }
}

impl fmt::Display for Json<&Times> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Times { count, total, p50, p99, p999, longest, .. } = self.0;
        write!(f, "{{\"count\":{count},\"total_ns\":{},", total.as_nanos())?;
        write!(f, "\"p50_ns\":{},\"p99_ns\":{},", p50.as_nanos(), p99.as_nanos())?;
        write!(f, "\"p999_ns\":{},\"longest_ns\":{}}}", p999.as_nanos(), longest.as_nanos())
    }
}

impl fmt::Display for Json<Option<&Longest>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Longest { time, thread, at, name, .. }) = self.0 else {
            return f.write_str("null");
        };
        write!(f, "{{\"time_ns\":{},\"thread\":{}", time.as_nanos(), Quoted(thread))?;
        write!(f, ",\"at\":{}}}", Json((name, *at)))
    }
}

/// A string of JSON.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", Escaped(self.0))
    }
}

/// What is inside of one.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '"' | '\\' => write!(f, "\\{c}"),
            c if c < ' ' => write!(f, "\\u{:04x}", u32::from(c)),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    fn longest(address: usize) -> Option<Longest> {
        let (time, at) = (Duration::from_nanos(1), Some(Place::Address(address)));
        let thread = "t".to_string();
        Some(Longest { time, thread, at, name: None, number: 0, until: 0 })
    }

    fn side(wait: usize, hold: usize) -> SideStats {
        SideStats {
            acquisitions: 1,
            waited: Times::default(),
            given_up: 0,
            passed_over: 0,
            most_passed_over: 0,
            longest_wait: longest(wait),
            held: Times::default(),
            longest_hold: longest(hold),
            waiting: [].into(),
            held_now: [].into(),
        }
    }

    /// Addresses that begin others, and a lock whose name has one in it.
    #[test]
    fn a_name_stands_in_the_place_of_its_address_alone() {
        let lock = LockStats {
            name: "0x12".to_string(),
            locks: 1,
            reads: side(0x12, 0x123),
            writes: side(0x1234, 0x9),
            conditions: Times::default(),
            longest_condition: longest(0x12),
        };
        let name = |address| match address {
            0x12 => Some("twelve".to_string()),
            0x123 => Some("\"more\"".to_string()),
            _ => None,
        };
        let now = Snapshot::new([lock].into(), [].into()).with_names(name);
        let (table, json) = (now.to_string(), now.to_json());
        let places = |text: &str, mark: &str| -> Vec<String> {
            let after = text.split(mark).skip(1);
            after.map(|rest| rest.split(['\n', '}']).next().unwrap_or("").to_string()).collect()
        };
        let in_table = ["\"more\"", "twelve", "0x9", "0x1234", "twelve"];
        assert_eq!(places(&table, " at "), in_table);
        let in_json = ["\"twelve\"", "\"\\\"more\\\"\"", "\"0x1234\"", "\"0x9\"", "\"twelve\""];
        assert_eq!(places(&json, "\"at\":"), in_json);
        assert!(table.contains("\n0x12 ") && json.contains("\"name\":\"0x12\""));
    }
}
