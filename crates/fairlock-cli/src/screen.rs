//! The first screen: which thread waits longest, in 25 lines of 79 columns, with what that means in
//! three sentences. All of it is computed from the rows.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use crate::cell::{Case, Side, Workload};
use crate::layout::or_dash;
use crate::machine::Machine;
use crate::output::between_words;
use crate::row::{Row, locks};
use crate::table::failures;
use crate::units::{roughly, several, time, two_digits};

/// The most columns that a line has.
pub const WIDTH: usize = 79;
/// The width of a name, of a wait with its mark, and of a speed: each with the space before it.
const NAME: usize = 19;
const WAIT: usize = 10;
const SPEED: usize = 5;
/// More tests than these have no room.
const MOST_TESTS: usize = 4;
/// The locks that the sentences are about: `RwLock` and `Mutex` of the library.
const OURS: [&str; 2] = ["fairlock:rwlock", "fairlock:mutex"];
const OUR_NAME: &str = "fairlock, default";
/// How much faster a lock is, or shorter a wait, before it is worth a sentence.
const WORTH_SAYING: f64 = 1.05;

/// How many locks a sentence names that shut out threads.
const NAMED: usize = 2;

/// What a newcomer may do next.
const MORE: &str = "\
More  our policies, all columns, why waits were long: fairlock --all
      the locks of your own program: fairlock run --observe -- PROGRAM
      use it in Rust, C or C++: README.md
";

/// One test: a column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Test {
    HalfRead(usize),
    AllWrite(usize),
    Mutex(usize),
}

impl Test {
    /// The test that a row is about as a whole.
    fn of(row: &Row) -> Option<Self> {
        match (row.workload, row.case, row.side) {
            (Workload::ReaderSpin, Case::Mixed, Side::All) => Some(Self::HalfRead(row.threads)),
            (Workload::Handoff, Case::Busy, _) => Some(Self::AllWrite(row.threads)),
            (Workload::Batch, Case::Tiny, _) => Some(Self::Mutex(row.threads)),
            _ => None,
        }
    }

    fn threads(self) -> usize {
        match self {
            Self::HalfRead(threads) | Self::AllWrite(threads) | Self::Mutex(threads) => threads,
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::HalfRead(_) => "half read",
            Self::AllWrite(_) => "all write",
            Self::Mutex(_) => "mutex",
        }
    }

    fn in_words(self) -> String {
        match self {
            Self::HalfRead(threads) => format!("with {}", several(threads, "thread")),
            Self::AllWrite(threads) => format!("with {}", several(threads, "writer")),
            Self::Mutex(_) => "at the mutex".to_owned(),
        }
    }
}

/// A lock and its row in each test.
struct Line<'a> {
    name: String,
    rows: Vec<Option<&'a Row>>,
}

impl Line<'_> {
    fn is_ours(&self) -> bool {
        self.name == OUR_NAME
    }

    fn longest(&self, test: usize) -> Option<u64> {
        self.rows[test]?.figures.wait_max_ns
    }

    fn speed(&self, test: usize) -> Option<f64> {
        self.rows[test]?.figures.ops_per_s
    }

    /// How many threads got the lock at most once.
    fn shut_out(&self, test: usize) -> usize {
        self.rows[test].and_then(|row| row.figures.starved_threads).unwrap_or(0)
    }
}

/// A lock that is ahead of ours: in which tests, and how many times.
type Ahead<'s> = (&'s Line<'s>, Vec<(usize, f64)>);

/// What the rows say.
pub struct Screen<'a> {
    rows: &'a [Row],
    tests: Vec<Test>,
    lines: Vec<Line<'a>>,
}

impl<'a> Screen<'a> {
    /// The screen of these rows, with the versions of the locks to compare with.
    pub fn of(rows: &'a [Row], versions: &BTreeMap<&'static str, String>) -> Self {
        let whole = || rows.iter().filter_map(|row| Some((Test::of(row)?, row)));
        let mut tests: Vec<Test> = whole().map(|(test, _)| test).collect();
        tests.sort_unstable();
        tests.dedup();
        let mut lines: Vec<Line<'_>> = Vec::new();
        for lock in locks(whole().map(|(_, row)| row)) {
            let name = name(lock, versions);
            if !lines.iter().any(|line| line.name == name) {
                lines.push(Line { name, rows: vec![None; tests.len()] });
            }
        }
        for (test, row) in whole() {
            let name = name(&row.lock, versions);
            let line = lines.iter_mut().find(|line| line.name == name).expect("each has a line");
            line.rows[tests.binary_search(&test).expect("it is among them")] = Some(row);
        }
        Self { rows, tests, lines }
    }

    /// The whole: machine, table, sentences, and what to do next. Empty if the tests have no room.
    pub fn text(&self, machine: &Machine) -> String {
        if self.tests.is_empty() || self.tests.len() > MOST_TESTS {
            return failures(self.rows);
        }
        let sentences = [self.shut_out(), self.price(), self.shortest()];
        let mut said = String::new();
        for sentence in sentences.into_iter().flatten() {
            let lead = if said.is_empty() { "\nIn short: " } else { "" };
            said += &wrapped(&format!("{lead}{sentence}"));
        }
        format!("{}{}{said}\n{MORE}", self.head(machine), self.table())
    }

    /// The machine, and how much of what follows may be its doing.
    fn head(&self, machine: &Machine) -> String {
        let whole = || self.lines.iter().flat_map(|line| &line.rows).flatten();
        let disturbed = whole().filter(|row| row.is_disturbed()).count();
        let disturbed = if disturbed == 0 {
            String::new()
        } else {
            format!(
                "{disturbed} of {} were disturbed: fairlock doctor",
                several(whole().count(), "measurement")
            )
        };
        format!("{}\n{disturbed}\n", machine.short_line("Who waits longest?  ", WIDTH))
    }

    /// The table, and what its marks mean.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let (mut head, mut what, mut speeds) = (String::new(), String::new(), String::new());
        for test in &self.tests {
            let _ = write!(head, "{:>WAIT$}", test.threads());
            let _ = write!(what, "{:>WAIT$}", test.what());
            let _ = write!(speeds, "{:>SPEED$}", test.threads());
        }
        // The first number has room to its left.
        let lead = "longest wait, threads:";
        let _ = writeln!(out, "{lead}{}  speed, best is 1", &head[lead.len() - NAME..]);
        let _ = writeln!(out, "{:NAME$}{what}{speeds}", "(*n: n shut out)");
        let best: Vec<f64> = (0..self.tests.len()).map(|test| self.best(test)).collect();
        for line in &self.lines {
            let _ = write!(out, "{:NAME$}", cut(&line.name, NAME));
            for test in 0..self.tests.len() {
                let wait = or_dash(line.longest(test), roughly);
                let shut_out = match line.shut_out(test) {
                    0 => String::new(),
                    threads => format!("*{threads}"),
                };
                let _ = write!(out, "{wait:>width$}{shut_out:3}", width = WAIT - 3);
            }
            for (test, best) in best.iter().enumerate() {
                let speed = or_dash(line.speed(test), |speed| two_digits(speed / best));
                let _ = write!(out, "{speed:>SPEED$}");
            }
            out.push('\n');
        }
        out += &wrapped(&self.marks());
        out + &failures(self.rows)
    }

    fn marks(&self) -> String {
        let ns = || self.rows.iter().filter_map(|row| row.window_ns);
        let window = match (ns().min(), ns().max()) {
            (Some(least), Some(most)) if least < most => {
                format!(" ({} to {})", time(least), time(most))
            }
            (_, Some(all)) => format!(" ({})", time(all)),
            _ => String::new(),
        };
        let mut marks = format!("*n: n threads got the lock at most once in the test{window}.");
        let has = |name: &str| self.lines.iter().any(|line| line.name.starts_with(name));
        marks += " Locks: reader/writer";
        marks += if has("std") { " (std::sync::RwLock)" } else { "" };
        marks += if self.tests.iter().any(|test| matches!(test, Test::Mutex(_))) {
            ", last a mutex"
        } else {
            ""
        };
        marks += if has("parking_lot fair") { "; fair hands over" } else { "" };
        marks + "."
    }

    fn best(&self, test: usize) -> f64 {
        let speeds = self.lines.iter().filter_map(|line| line.speed(test));
        speeds.fold(f64::MIN_POSITIVE, f64::max)
    }

    /// The line of our default lock, if it was measured.
    fn ours(&self) -> Option<&Line<'_>> {
        self.lines.iter().find(|line| line.is_ours())
    }

    /// Which locks shut out threads in the test where that was worst, and what ours waited there.
    fn shut_out(&self) -> Option<String> {
        let worst = |test: usize| self.lines.iter().map(|line| line.shut_out(test)).max();
        let test = (0..self.tests.len()).max_by_key(|&test| worst(test))?;
        let mut guilty: Vec<_> = self.lines.iter().filter(|line| line.shut_out(test) > 0).collect();
        guilty.sort_by_key(|line| Reverse(line.shut_out(test)));
        if guilty.is_empty() {
            return self.longest();
        }
        // Ours is never among those that are only counted.
        let (named, more): (Vec<_>, Vec<_>) =
            guilty.iter().enumerate().partition(|(number, line)| *number < NAMED || line.is_ours());
        let named =
            named.iter().map(|(_, line)| format!("{} ({})", line.name, line.shut_out(test)));
        let mut said = format!(
            "{}, these shut threads out: {}",
            self.tests[test].in_words(),
            named.collect::<Vec<_>>().join(", ")
        );
        if !more.is_empty() {
            let _ = write!(said, ", and {} more", more.len());
        }
        if let Some(ours) = self.ours() {
            let wait = or_dash(ours.longest(test), roughly);
            let _ = match ours.shut_out(test) {
                0 => write!(said, ". fairlock let all in, after {wait} at most"),
                _ => write!(said, ". fairlock's longest wait was {wait}"),
            };
        }
        Some(said + ".")
    }

    /// The longest wait of all, and what ours waited in that test.
    fn longest(&self) -> Option<String> {
        let waits = self.lines.iter().flat_map(|line| {
            (0..self.tests.len()).filter_map(move |test| Some((line.longest(test)?, test, line)))
        });
        let (ns, test, line) = waits.max_by_key(|&(ns, ..)| ns)?;
        let with = self.tests[test].in_words();
        let mut said = format!(
            "no lock shut a thread out. The longest wait is of {}: {} {with}",
            line.name,
            roughly(ns)
        );
        let ours = self.ours().filter(|ours| ours.name != line.name);
        if let Some(ns) = ours.and_then(|ours| ours.longest(test)) {
            let _ = write!(said, ", where fairlock's is {}", roughly(ns));
        }
        Some(said + ".")
    }

    /// The tests in which `best` is a lock that is ahead of ours, by lock.
    fn ahead(&self, best: impl Fn(&Line<'_>, usize) -> Option<f64>) -> Vec<Ahead<'_>> {
        let mut by_lock: Vec<Ahead<'_>> = Vec::new();
        for test in 0..self.tests.len() {
            let Some(own) = self.ours().and_then(|ours| best(ours, test)) else { continue };
            let known = self.lines.iter().filter_map(|line| Some((best(line, test)?, line)));
            let Some((value, line)) = known.max_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
            if value >= own * WORTH_SAYING {
                match by_lock.iter_mut().find(|(other, _)| other.name == line.name) {
                    Some((_, tests)) => tests.push((test, value / own)),
                    None => by_lock.push((line, vec![(test, value / own)])),
                }
            }
        }
        by_lock
    }

    /// Where another lock is faster than ours, and by how much.
    fn price(&self) -> Option<String> {
        self.ours()?;
        let of_lock = |(number, (line, tests)): (usize, Ahead<'_>)| {
            let mut as_fast = if number == 0 { " as fast" } else { "" };
            let times = tests.iter().map(|&(test, times)| {
                let digits = usize::from(times < 9.95);
                let as_fast = std::mem::take(&mut as_fast);
                format!("{times:.digits$} times{as_fast} {}", self.tests[test].in_words())
            });
            format!("{} is {}", line.name, listed(times.collect()))
        };
        let ahead = self.ahead(|line, test| line.speed(test)).into_iter();
        let faster: Vec<String> = ahead.enumerate().map(of_lock).collect();
        Some(match faster.as_slice() {
            [] => "The price: none here. No lock is more than 5 % faster than fairlock.".to_owned(),
            _ => format!("The price: {}.", faster.join("; ")),
        })
    }

    /// Which locks have shorter waits than ours, and how fast they are.
    fn shortest(&self) -> Option<String> {
        self.ours()?;
        let of_lock = |(line, tests): &Ahead<'_>| {
            let shares = || tests.iter().filter_map(|&(t, _)| Some(line.speed(t)? / self.best(t)));
            let (least, most) = (shares().fold(1.0, f64::min), shares().fold(0.0, f64::max));
            let (least, most) = (of_best(least), of_best(most));
            let share = if least == most { least } else { format!("{least} to {most}") };
            let with = match tests.len() {
                all if all == self.tests.len() => "in all tests".to_owned(),
                _ => listed(tests.iter().map(|(test, _)| self.tests[*test].in_words()).collect()),
            };
            format!("{} {with} ({share} %)", line.name)
        };
        let ahead = self.ahead(|line, test| Some(1.0 / line.longest(test)? as f64));
        let shorter: Vec<String> = ahead.iter().map(of_lock).collect();
        Some(match shorter.as_slice() {
            [] => "No lock's longest wait is shorter than fairlock's.".to_owned(),
            _ => format!("The shortest waits (speed, of the best): {}.", shorter.join("; ")),
        })
    }
}

/// A share in percent: a whole number, or its first digit.
fn of_best(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 0.95 { format!("{percent:.1}") } else { format!("{percent:.0}") }
}

/// Parts of a sentence, the last after "and".
fn listed(mut parts: Vec<String>) -> String {
    match parts.pop() {
        Some(last) if !parts.is_empty() => format!("{} and {last}", parts.join(", ")),
        last => last.unwrap_or_default(),
    }
}

/// What a lock is called here: as its users know it.
fn name(lock: &str, versions: &BTreeMap<&'static str, String>) -> String {
    let version = |of: &str| {
        let version = versions.get(of).map_or("", String::as_str);
        version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".")
    };
    let versioned = |name: &str, of: &str| format!("{name} {}", version(of)).trim_end().to_owned();
    match lock {
        _ if OURS.contains(&lock) => OUR_NAME.to_owned(),
        "parking_lot" | "parking_lot_0.12" => versioned("parking_lot", lock),
        "std" => versioned("std", lock),
        "pthread:writer" => "pthread for writers".to_owned(),
        _ => lock.strip_prefix("fairlock:").unwrap_or(lock).replacen(':', " ", 1),
    }
}

fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

/// At most [`WIDTH`] wide; what follows the first line is indented.
fn wrapped(text: &str) -> String {
    let (blank, text) = text.split_at(text.len() - text.trim_start_matches('\n').len());
    format!("{blank}{}\n", textwrap::fill(text, between_words(WIDTH).subsequent_indent("  ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Cell, CellReport, SideReport, Times};
    use crate::interference::Interference;
    use crate::row::rows;
    use crate::runner::Measured;

    const MS: u64 = 1_000_000;

    /// What was measured of a lock: its longest wait, operations a second, and how many threads it
    /// shut out.
    fn measured(test: Test, lock: &str, ms: u64, rate: u64, shut_out: usize) -> Measured {
        let threads = test.threads();
        let (workload, case, sides) = match test {
            Test::HalfRead(n) => (Workload::ReaderSpin, Case::Mixed, (n / 2, n - n / 2)),
            Test::AllWrite(n) => (Workload::Handoff, Case::Busy, (0, n)),
            Test::Mutex(n) => (Workload::Batch, Case::Tiny, (0, n)),
        };
        let cell =
            Cell { lock: lock.into(), threads, secs: 1.0, ..Cell::new(workload, case, sides) };
        let mut left = rate;
        let mut side = |count: usize, shut_out: usize| {
            let mut ops = vec![rate / threads as u64; count];
            ops[..shut_out].fill(0);
            left -= ops.iter().sum::<u64>();
            if count > shut_out {
                ops[count - 1] += if sides.0 == 0 || shut_out > 0 { left } else { 0 };
            }
            let wait = Some(Times { max: ms * MS, ..Times::default() });
            (count > 0).then(|| SideReport { ops, wait, ..SideReport::default() })
        };
        let (read, write) = (side(sides.0, 0), side(sides.1, shut_out));
        let report = CellReport { elapsed_secs: 1.0, read, write, ..CellReport::default() };
        Measured { cell, reports: vec![report], failure: None }
    }

    fn versions() -> BTreeMap<&'static str, String> {
        [("parking_lot", "0.13.0"), ("parking_lot_0.12", "0.12.5"), ("std", "1.95.0")]
            .map(|(name, version)| (name, version.to_owned()))
            .into()
    }

    /// The text of these measurements, its lines joined.
    fn said(all: &[Measured]) -> String {
        let text = Screen::of(&rows(all), &versions()).text(&Machine::this());
        text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_sentences_name_the_locks_that_shut_threads_out_and_our_longest_wait() {
        let test = Test::HalfRead(96);
        let all = [
            measured(test, "fairlock:rwlock", 32, 96_000, 0),
            measured(test, "std", 508, 96_000, 37),
            measured(test, "pthread", 503, 96_000, 48),
            measured(test, "parking_lot", 200, 96_000, 2),
        ];
        let text = said(&all);
        let wanted = "In short: with 96 threads, these shut threads out: pthread (48), std 1.95 \
                      (37), and 1 more. fairlock let all in, after 32 ms at most.";
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("508 ms*37"), "{text}");
        assert!(text.contains("No lock's longest wait is shorter than fairlock's."), "{text}");
    }

    #[test]
    fn the_sentences_do_not_hide_that_ours_shuts_threads_out() {
        let test = Test::AllWrite(60);
        let mut all = vec![measured(test, "fairlock:rwlock", 900, 60_000, 3)];
        let others = ["std", "pthread", "parking_lot"];
        all.extend(others.map(|lock| measured(test, lock, 500, 60_000, 40)));
        let text = said(&all);
        assert!(text.contains(", fairlock, default (3), and 1 more."), "{text}");
        assert!(text.contains("fairlock's longest wait was 900 ms."), "{text}");
        assert!(!text.contains("let all in"), "{text}");
    }

    #[test]
    fn the_sentences_say_where_others_are_faster_and_where_they_wait_less() {
        let (few, many, mutex) = (Test::HalfRead(8), Test::HalfRead(96), Test::Mutex(32));
        let all = [
            measured(few, "fairlock:rwlock", 5, 80_000, 0),
            measured(few, "parking_lot_0.12", 9, 112_000, 0),
            measured(few, "parking_lot:fair", 1, 8_000, 0),
            measured(many, "fairlock:rwlock", 32, 96_000, 0),
            measured(many, "parking_lot_0.12", 78, 192_000, 0),
            measured(many, "parking_lot:fair", 2, 960, 0),
            measured(mutex, "fairlock:mutex", 7, 64_000, 0),
            measured(mutex, "parking_lot_0.12", 7, 64_000, 0),
            measured(mutex, "parking_lot:fair", 9, 64_000, 0),
        ];
        let text = said(&all);
        let longest = "no lock shut a thread out. The longest wait is of parking_lot 0.12: 78 ms \
                       with 96 threads, where fairlock's is 32 ms.";
        assert!(text.contains(longest), "{text}");
        let price = "The price: parking_lot 0.12 is 1.4 times as fast with 8 threads and 2.0 \
                     times with 96 threads.";
        assert!(text.contains(price), "{text}");
        let shortest = "The shortest waits (speed, of the best): parking_lot fair with 8 threads \
                        and with 96 threads (0.5 to 7 %).";
        assert!(text.contains(shortest), "{text}");
    }

    #[test]
    fn the_price_is_none_where_ours_is_fastest() {
        let test = Test::HalfRead(8);
        let all =
            [measured(test, "fairlock:rwlock", 5, 80_000, 0), measured(test, "std", 4, 80_000, 0)];
        let text = said(&all);
        assert!(text.contains("The price: none here."), "{text}");
        assert!(text.contains("std 1.95 in all tests (100 %)"), "{text}");
        // Without ours there is nothing to compare with.
        let alone = said(&all[1..]);
        assert!(!alone.contains("price") && alone.contains("std 1.95"), "{alone}");
    }

    #[test]
    fn the_screen_has_25_lines_of_79_columns() {
        let tests = [Test::HalfRead(8), Test::HalfRead(96), Test::AllWrite(60), Test::Mutex(32)];
        let locks = ["parking_lot_0.12", "parking_lot", "std", "pthread", "pthread:writer"];
        // Two locks are faster than ours, and three have shorter waits.
        let mut all = Vec::new();
        for (number, test) in tests.into_iter().enumerate() {
            let ours = OURS[usize::from(number == 3)];
            for (at, lock) in
                [ours].into_iter().chain(locks).chain(["parking_lot:fair"]).enumerate()
            {
                let wait = if at == 2 + number % 3 { 100 } else { 999 };
                let rate = if at == 3 + number % 2 { 98_765_432 } else { 8_765_432 };
                let shut_out = test.threads() / 2 * usize::from(at > 0);
                all.push(measured(test, lock, wait, rate, shut_out));
            }
        }
        let mut rows = rows(&all);
        let taken = Interference { stolen_percent: 50.0, ..Interference::default() };
        rows.iter_mut().for_each(|row| row.interference = Some(taken));
        let text = Screen::of(&rows, &versions()).text(&Machine::this());
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(WIDTH), "{text}");
        assert!(text.lines().count() <= 25, "{} lines\n{text}", text.lines().count());
        assert!(text.contains("28 of 28 measurements were disturbed"), "{text}");
    }
}
