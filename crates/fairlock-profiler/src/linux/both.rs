//! `run --compare`: runs the program as it is and with our locks, by turns, and says what changed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Instant;

use serde::Serialize;

use super::profile::Profile;
use super::threads::{Threads, Watch};
use super::{caught, command_line, exit_code, folder, program, tell_of_survivors, wait};
use crate::bootstrap::{Estimate, Sum};
use crate::document::OfThreads;
use crate::error::Error;
use crate::json::{Document, Target};
use crate::machine::Machine;
use crate::output::{Page, complain};
use crate::stats::median;
use crate::units::{digits, time};
use crate::waited::{self, Waited};
use crate::workload::random::Random;
use crate::{RunFlags, sum};

/// The probability that a change is said although there is none.
const ERROR: f64 = 0.05;

const NOTE: &str = "lost: all waits of a run together; medians of the runs, longest: of any; as it is: glibc's \
     locks, watched";

/// A run.
struct One {
    secs: f64,
    locks: BTreeMap<String, Waited>,
    threads: Threads,
}

/// The runs with the program's own locks, or with ours.
type Way = [One];

/// Runs the program each way, as often as the flags say. The command for a folder comes from
/// `command`, which is told whether locks are only observed. A signal ends it early, and so does a
/// run that does not end as the first did: what the rounds before tell is shown then, too.
pub fn run(
    flags: &RunFlags,
    program: &Path,
    command: impl Fn(&Path, bool) -> Command,
) -> Result<ExitCode, Error> {
    let json = flags.json.as_deref().map(|path| Target::new("--json", path)).transpose()?;
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    let (code, interrupted) = (ExitCode::SUCCESS, false);
    let mut runs = Runs { program, command, first: None, code, interrupted, survive: false };
    for round in 0..flags.runs {
        // Which way comes first alternates: the second run finds the machine warmer.
        let ours_first = round % 2 == 1;
        let Some(one) = runs.once(ours_first)? else { break };
        let Some(other) = runs.once(!ours_first)? else { break };
        let (one, other) = if ours_first { (other, one) } else { (one, other) };
        theirs.push(one);
        ours.push(other);
    }
    if !ours.is_empty() {
        Page::Stderr.show(&text(&theirs, &ours, Page::Stderr.width()))?;
        if let Some(first) = runs.first.filter(|first| !first.success()) {
            complain(&format!("{} ended with {first} in all of these runs", program.display()));
        }
    }
    if let Some(target) = json {
        let (machine, command) = (Machine::this(), command_line(&flags.program));
        let content = compared([&theirs, &ours]);
        target.write(&Document::new(SCHEMA, &machine, command, runs.interrupted, content))?;
    }
    Ok(runs.code)
}

/// What there is to know of the runs that were made.
struct Runs<'a, C> {
    program: &'a Path,
    command: C,
    /// How the first ended.
    first: Option<ExitStatus>,
    code: ExitCode,
    interrupted: bool,
    /// Whether processes are known to go on.
    survive: bool,
}

impl<C: Fn(&Path, bool) -> Command> Runs<'_, C> {
    /// Runs the program once; none if that was the last run.
    fn once(&mut self, ours: bool) -> Result<Option<One>, Error> {
        let program = self.program;
        let folder = folder()?;
        let mut command = (self.command)(folder.path(), !ours);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let child = command.spawn().map_err(|error| program::cannot_start(program, &error))?;
        let pid = child.id();
        let watch = Watch::of(pid);
        let status = wait(child)?;
        let threads = watch.end();
        let secs = began.elapsed().as_secs_f64();
        if let Some(signal) = caught() {
            complain("interrupted; the rounds that were finished are shown");
            (self.code, self.interrupted) = (ExitCode::from(128 + signal), true);
            return Ok(None);
        }
        let first = *self.first.get_or_insert(status);
        // A program's exit code may be its answer, as long as it is always the same.
        if status.code().is_none() || status != first {
            let locks = if ours { "with our locks" } else { "as it is" };
            let unlike = if status == first { "" } else { &format!(", the first with {first}") };
            complain(&format!("{} ended with {status}, run {locks}{unlike}", program.display()));
            self.code = exit_code(if status.success() { first } else { status });
            return Ok(None);
        }
        self.survive = self.survive || tell_of_survivors(folder.path());
        let profile = Profile::read(folder.path(), pid)?;
        self.code = exit_code(status);
        let threads = threads.with(profile.totals());
        Ok(Some(One { secs, threads, locks: profile.by_name() }))
    }
}

/// The name of the schema of [`Compared`].
const SCHEMA: &str = "fairlock-compared/1";

/// What `--json` keeps.
#[derive(Serialize)]
struct Compared<'a> {
    /// How long it takes with our locks, in relation to the time as it is.
    times_as_long: Option<Interval>,
    runs: Vec<Run<'a>>,
}

#[derive(Serialize)]
struct Interval {
    value: f64,
    low: f64,
    high: f64,
}

#[derive(Serialize)]
struct Run<'a> {
    observed: bool,
    secs: f64,
    threads: Option<OfThreads>,
    locks: Vec<OfLock<'a>>,
}

#[derive(Serialize)]
struct OfLock<'a> {
    name: &'a str,
    #[serde(flatten)]
    waited: Waited,
}

fn compared<'a>(ways: [&'a Way; 2]) -> Compared<'a> {
    let change = change(ways[0], ways[1]);
    let times = |log: f64| log.exp();
    let of_lock = |(name, waited): (&'a String, &Waited)| OfLock { name, waited: *waited };
    let runs = ways.into_iter().zip([true, false]).flat_map(|(way, observed)| {
        way.iter().map(move |&One { secs, ref locks, ref threads }| Run {
            observed,
            secs,
            threads: threads.document(),
            locks: locks.iter().map(of_lock).collect(),
        })
    });
    Compared {
        times_as_long: change.doubt().is_finite().then(|| Interval {
            value: times(change.value),
            low: times(change.low),
            high: times(change.high),
        }),
        runs: runs.collect(),
    }
}

fn text(theirs: &Way, ours: &Way, width: Option<usize>) -> String {
    let threads = |name, way: &Way| {
        let mut all = Threads::default();
        way.iter().for_each(|run| all += run.threads.clone());
        all.line().map_or_else(String::new, |line| format!("{name}: {line}\n"))
    };
    format!(
        "\n{}{}{}{}",
        table(theirs, ours, width),
        duration(theirs, ours),
        threads("as it is", theirs),
        threads("with our locks", ours),
    )
}

/// A line that says how long the program took, both ways.
fn duration(theirs: &Way, ours: &Way) -> String {
    let of = |way: &Way| {
        let bound =
            |pick: fn(f64, f64) -> f64| way.iter().map(|run| run.secs).reduce(pick).unwrap_or(0.0);
        let middle = median(way.iter().map(|run| run.secs)).unwrap_or(0.0);
        let [middle, least, most] = [middle, bound(f64::min), bound(f64::max)].map(seconds);
        format!("{middle} ({least}-{most})")
    };
    let verdict = verdict(change(theirs, ours));
    format!("it took {} as it is, {} with our locks: {verdict}\n", of(theirs), of(ours))
}

/// The logarithm of how many times as long it took with our locks.
fn change(theirs: &Way, ours: &Way) -> Estimate {
    let logs = |way: &Way| way.iter().map(|run| run.secs.ln()).collect::<Vec<_>>();
    let mut random = Random::new(1, 0);
    let mut change = Sum::mean(&logs(ours), &mut random);
    change.add(-1.0, &Sum::mean(&logs(theirs), &mut random));
    change.estimate(ERROR)
}

fn verdict(change: Estimate) -> String {
    let times = |log: f64| digits(log.exp());
    if change.low.is_infinite() {
        return "so few runs do not tell whether that is chance: use more --runs".to_owned();
    }
    let interval = format!("{} to {} times as long", times(change.low), times(change.high));
    if change.is_certain() {
        format!("{} times as long ({interval})", times(change.value))
    } else {
        format!("no difference that these runs can show ({interval})")
    }
}

fn seconds(secs: f64) -> String {
    time((secs * 1e9) as u64)
}

/// The table of the locks at which most time was lost, in either way.
fn table(theirs: &Way, ours: &Way, width: Option<usize>) -> String {
    let mut lost = BTreeMap::<&str, u64>::new();
    for (name, waited) in theirs.iter().chain(ours).flat_map(|run| &run.locks) {
        let lost = lost.entry(name).or_default();
        *lost = sum([*lost, waited.lost_ns]);
    }
    if lost.is_empty() {
        return "fairlock: nobody waited for a lock, either way\n".to_owned();
    }
    let mut names: Vec<(&str, u64)> = lost.into_iter().collect();
    names.sort_by_key(|&(name, lost)| (std::cmp::Reverse(lost), name));
    let locks =
        names.iter().map(|(name, _)| (*name, [theirs, ours].map(|way| over_runs(way, name))));
    let table = waited::table(["as it is", "ours"], locks);
    table.titled("the program's locks as it is, and with ours", NOTE, width)
}

/// The waits for a lock, over all runs of one way.
fn over_runs(way: &Way, name: &str) -> Waited {
    let runs = || way.iter().map(|run| run.locks.get(name).copied().unwrap_or_default());
    let middle = |pick: fn(&Waited) -> u64| {
        median(runs().map(|waited| pick(&waited) as f64)).unwrap_or(0.0) as u64
    };
    Waited {
        waits: middle(|waited| waited.waits),
        lost_ns: middle(|waited| waited.lost_ns),
        p999_ns: middle(|waited| waited.p999_ns),
        longest_ns: runs().map(|waited| waited.longest_ns).max().unwrap_or(0),
    }
}
