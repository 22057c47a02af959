//! The scenario file.
//!
//! ```toml
//! form = "rwlock"               # or "mutex"
//!
//! [locks]                       # how many of each
//! table = 16
//! log = 1
//!
//! [[threads]]
//! name = "lookups"
//! count = 24
//! round = [
//!     { read = "table", work = "300ns" },
//!     { work = "2us" },
//! ]
//!
//! [[threads]]
//! name = "updates"
//! count = 2
//! start = "10ms"
//! every = "1ms"
//! round = [
//!     { write = "table", data_lines = 4, work = "1us", steps = [{ write = "log", work = "200ns" }] },
//!     { sleep = "100us", chance = 0.1 },
//! ]
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::cell::Form;
use crate::cell::scenario::{ALWAYS, Group, Scenario, Step, Taken};
use crate::error::{Error, in_plain_words, unknown};

/// How the name of such a file ends.
const ENDING: &str = ".toml";
/// More locks, or lines that they guard, or longer rounds, make no sense.
const MOST_LOCKS: u64 = 1_000_000;
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    form: Option<String>,
    locks: BTreeMap<String, u64>,
    threads: Vec<WrittenGroup>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenGroup {
    name: String,
    count: usize,
    start: Option<String>,
    every: Option<String>,
    round: Vec<WrittenStep>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenStep {
    read: Option<String>,
    write: Option<String>,
    data_lines: Option<u64>,
    work: Option<String>,
    sleep: Option<String>,
    chance: Option<f64>,
    times: Option<u32>,
    #[serde(default)]
    steps: Vec<WrittenStep>,
}

/// Whether the name of a workload is that of a scenario file.
pub fn is_named(workload: &str) -> bool {
    workload.ends_with(ENDING)
}

/// The one scenario file among the names of workloads, if there is one, and all other names.
pub fn among(workloads: &[String]) -> Result<(Option<Scenario>, Vec<String>), Error> {
    let (files, others): (Vec<&String>, Vec<&String>) =
        workloads.iter().partition(|name| is_named(name));
    let scenario = match files.as_slice() {
        [] => None,
        [file] => Some(load(Path::new(file))?),
        _ => return Err(Error::usage("more than one scenario file: run them one by one")),
    };
    Ok((scenario, others.into_iter().cloned().collect()))
}

fn load(path: &Path) -> Result<Scenario, Error> {
    let wrong = |why: String| Error::usage(format!("scenario {}: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| {
        wrong(format!("{error}; give a file as docs/guide/scenario.md describes it"))
    })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if text.trim().is_empty() {
        return Err(wrong("it is empty; docs/guide/scenario.md says what is in one".to_owned()));
    }
    parse(name, &text).map_err(|error| wrong(error.to_string()))
}

fn parse(name: String, text: &str) -> Result<Scenario, Error> {
    let written: Written = toml::from_str(text).map_err(|error| {
        let before = error.span().map_or("", |span| &text[..span.start]);
        let line = before.matches('\n').count() + 1;
        Error::usage(format!("line {line}: {}", in_plain_words(error.message())))
    })?;
    let form = match written.form.as_deref() {
        None => Form::RwLock,
        Some(form) => {
            let known = [Form::RwLock, Form::Mutex];
            let found = known.into_iter().find(|known| known.name() == form);
            found.ok_or_else(|| unknown("form", form, &known.map(Form::name)))?
        }
    };
    let mut locks = Locks { form, places: BTreeMap::new(), inside: BTreeSet::new() };
    let mut count = 0;
    for (name, of_it) in written.locks {
        if !(1..=MOST_LOCKS).contains(&of_it) {
            return Err(Error::usage(format!("{name} = {of_it} locks: use 1 to {MOST_LOCKS}")));
        }
        locks.places.insert(name, (count, of_it));
        count += of_it;
    }
    let groups = written.threads.into_iter().map(|group| locks.group(group));
    let groups = groups.collect::<Result<Vec<_>, _>>()?;
    if groups.is_empty() {
        return Err(Error::usage("nobody does anything: add [[threads]]"));
    }
    locks.check_order()?;
    let scenario = Scenario { name, form, locks: count, groups };
    if count.saturating_mul(scenario.data_lines()) > MOST_LOCKS {
        return Err(Error::usage("data_lines of all locks: use 1,000,000 in all"));
    }
    Ok(scenario)
}

/// The locks that steps may name.
struct Locks {
    form: Form,
    /// The first of each name, and how many there are.
    places: BTreeMap<String, (u64, u64)>,
    /// (outer, inner): the outer one is held while the inner one is taken.
    inside: BTreeSet<(String, String)>,
}

impl Locks {
    fn group(&mut self, group: WrittenGroup) -> Result<Group, Error> {
        let of = |error: Error| Error::usage(format!("threads '{}': {error}", group.name));
        if group.count == 0 {
            return Err(of(Error::usage("count = 0: use 1 or more")));
        }
        let every_ns = group.every.as_deref().map(time).transpose().map_err(of)?;
        let round = self.steps(&group.round, &mut Vec::new()).map_err(of)?;
        if every_ns.is_none_or(|ns| ns == 0) && !round.iter().any(Step::does_something) {
            return Err(of(Error::usage(
                "its round does nothing: add work, sleep or a lock, or every",
            )));
        }
        let start_ns = optional(group.start.as_deref()).map_err(of)?;
        Ok(Group { name: group.name, threads: group.count, start_ns, every_ns, round })
    }

    /// Reads steps that are made while the locks of these names are held.
    fn steps(&mut self, steps: &[WrittenStep], held: &mut Vec<String>) -> Result<Vec<Step>, Error> {
        steps.iter().map(|step| self.step(step, held)).collect()
    }

    fn step(&mut self, step: &WrittenStep, held: &mut Vec<String>) -> Result<Step, Error> {
        let (name, reads) = match (&step.read, &step.write) {
            (Some(_), Some(_)) => return Err(Error::usage("a step reads or writes, not both")),
            (Some(name), None) => (Some(name), true),
            (None, name) => (name.as_ref(), false),
        };
        let lock = name.map(|name| self.taken(name, reads, held)).transpose()?;
        held.extend(name.cloned());
        let steps = self.steps(&step.steps, held);
        held.truncate(held.len() - usize::from(name.is_some()));
        let chance = step.chance.unwrap_or(1.0);
        if !(0.0..=1.0).contains(&chance) {
            return Err(Error::usage(format!("chance = {chance:?} makes no sense: use 0 to 1")));
        }
        let part = (chance * f64::from(ALWAYS)).round() as u32;
        if chance > 0.0 && part == 0 {
            return Err(Error::usage(format!(
                "chance = {chance:?} is too small to be told from never: use 0, or 0.000001 or more"
            )));
        }
        if step.data_lines.is_some() && lock.is_none() {
            return Err(Error::usage(
                "data_lines without a lock that guards them: add read or write",
            ));
        }
        Ok(Step {
            lock,
            data_lines: step.data_lines.unwrap_or(0),
            work_ns: optional(step.work.as_deref())?,
            sleep_ns: optional(step.sleep.as_deref())?,
            steps: steps?,
            chance: part,
            times: step.times.unwrap_or(1),
        })
    }

    fn taken(&mut self, name: &str, reads: bool, held: &[String]) -> Result<Taken, Error> {
        let known: Vec<&str> = self.places.keys().map(String::as_str).collect();
        let &(first, count) = self.places.get(name).ok_or_else(|| unknown("lock", name, &known))?;
        if reads && !self.form.can_read() {
            return Err(Error::usage(format!("read = \"{name}\": a mutex is only written")));
        }
        if held.iter().any(|held| held == name) {
            return Err(Error::usage(format!(
                "'{name}' is taken inside '{name}': the thread would wait for itself"
            )));
        }
        self.inside.extend(held.iter().map(|held| (held.clone(), name.to_owned())));
        Ok(Taken { first, count, reads })
    }

    /// Checks that threads do not take locks inside each other in a circle: they would wait for
    /// ever.
    fn check_order(&self) -> Result<(), Error> {
        let mut rest = self.inside.clone();
        loop {
            // A lock that is taken inside of no other is in no circle; so it and what is taken
            // inside of it alone are left out.
            let inner: BTreeSet<&String> = rest.iter().map(|(_, inner)| inner).collect();
            let free: Vec<_> =
                rest.iter().filter(|(outer, _)| !inner.contains(outer)).cloned().collect();
            if free.is_empty() {
                break;
            }
            free.iter().for_each(|pair| {
                rest.remove(pair);
            });
        }
        match rest.first() {
            None => Ok(()),
            Some((outer, inner)) => Err(Error::usage(format!(
                "locks are taken inside each other in a circle, '{inner}' inside '{outer}' in it: \
                 threads would wait for ever"
            ))),
        }
    }
}

impl Step {
    fn does_something(&self) -> bool {
        let does = self.lock.is_some() || self.work_ns > 0 || self.sleep_ns > 0;
        self.times > 0 && self.chance > 0 && (does || self.steps.iter().any(Self::does_something))
    }
}

fn optional(written: Option<&str>) -> Result<u64, Error> {
    written.map_or(Ok(0), time)
}

/// A time with its unit, in nanoseconds.
fn time(written: &str) -> Result<u64, Error> {
    let time = humantime::parse_duration(written).map_err(|error| {
        Error::usage(format!("'{written}' is no time ({error}): write 200ns, 5us, 1ms"))
    })?;
    if time > LONGEST {
        return Err(Error::usage(format!("{written} is too long: use 60s at most")));
    }
    Ok(time.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHE: &str = r#"
        [locks]
        table = 16
        log = 1

        [[threads]]
        name = "lookups"
        count = 24
        round = [{ read = "table", work = "300ns" }, { work = "2us" }]

        [[threads]]
        name = "updates"
        count = 2
        every = "1ms"
        round = [
            { write = "table", work = "1us", steps = [{ write = "log", work = "200ns" }] },
            { sleep = "100us", chance = 0.1 },
        ]
    "#;

    fn refused(text: &str) -> String {
        parse("x".into(), text).expect_err("refused").to_string()
    }

    #[test]
    fn a_file_says_what_threads_do() {
        let scenario = parse("cache".into(), CACHE).unwrap();
        assert_eq!((scenario.form, scenario.locks), (Form::RwLock, 17));
        assert_eq!(scenario.threads(), (26, 24, 2));
        let [lookups, updates] = scenario.groups.as_slice() else { panic!("two groups") };
        // In the order of their names: log, table.
        assert_eq!(lookups.round[0].lock, Some(Taken { first: 1, count: 16, reads: true }));
        assert_eq!(
            updates.round[0].steps[0].lock,
            Some(Taken { first: 0, count: 1, reads: false })
        );
        assert_eq!((updates.every_ns, updates.round[1].chance), (Some(1_000_000), ALWAYS / 10));
    }

    #[test]
    fn nonsense_is_refused_with_a_hint() {
        let with = |from: &str, to: &str| refused(&CACHE.replace(from, to));
        assert!(with("read = \"table\"", "read = \"tabel\"").contains("'table'"));
        assert!(with("300ns", "300").contains("write 200ns"));
        assert!(with("count = 24", "count = 0").contains("1 or more"));
        assert!(with("chance = 0.1", "chance = 2").contains("0 to 1"));
        assert!(with("chance = 0.1", "chance = 4e-7").contains("from never"));
        assert!(with("work = \"2us\"", "data_lines = 2").contains("add read or write"));
        assert!(with("work = \"300ns\"", "data_lines = 70000").contains("1,000,000 in all"));
        let error = with("chance", "chanse");
        assert!(error.contains("line 17: unknown field `chanse`"), "{error}");
        assert!(with("table = 16", "table = 0").contains("1 to"));
        assert!(with("[locks]", "form = \"mutex\"\n[locks]").contains("only written"));
        assert!(with("write = \"log\"", "read = \"table\"").contains("wait for itself"));
        assert!(
            with("{ work = \"2us\" }", "{ write = \"log\", steps = [{ read = \"table\" }] }")
                .contains("circle")
        );
        // The folder's own examples are not affected.
        for file in ["cache", "request"] {
            let file =
                format!("{}/../../examples/scenarios/{file}.toml", env!("CARGO_MANIFEST_DIR"));
            load(Path::new(&file)).unwrap();
        }
        let idle = "threads = [{ name = \"x\", count = 1, round = [{ times = 3 }] }]\n[locks]\n";
        assert!(refused(idle).contains("does nothing"));
    }
}
