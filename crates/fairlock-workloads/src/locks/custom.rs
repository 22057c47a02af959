//! Our reader/writer locks with a policy that is given by its parameters, such as
//! `tenure:handoff_after=1ms,budget=20`.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fairlock::lock::RawRwLock;
use fairlock::lock_api;
use fairlock::platform::PooledPlatform;
use fairlock::published::{self, ReaderSpin};
use fairlock::{Percent, Policy};

use super::entry::{LockEntry, Runs};
use super::fairlock::following;
use super::with_policy::Chosen;
use crate::error::{Error, unknown};

/// The lock of that name, if the name gives a policy by its parameters.
pub fn find<P: PooledPlatform, T: Runs>(name: &str) -> Result<Option<LockEntry<T>>, Error>
where
    RawRwLock<P>: lock_api::RawRwLockFair,
    published::RwSem<P>: lock_api::RawRwLockFair,
{
    let Some(policy) = parse(name)? else { return Ok(None) };
    Ok(Some(following::<P, T>(kept(name), policy)))
}

/// The name, kept for the rest of the program's life; each name once.
fn kept(name: &str) -> &'static str {
    static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.iter().find(|known| **known == name) {
        return known;
    }
    let name: &'static str = name.to_owned().leak();
    names.push(name);
    name
}

// The parameters of the disciplines.
const TENURE: [&str; 2] = ["handoff_after", "budget"];
const PUBLISHED: [&str; 4] = ["handoff_after", "reader_spin", "writer_spin", "writer_phase"];

/// Longer than any run.
const LONGEST: Duration = Duration::from_secs(1_000_000);

const READER_SPINS: [(&str, ReaderSpin); 4] = [
    ("off", ReaderSpin::Off),
    ("one", ReaderSpin::One),
    ("on", ReaderSpin::On),
    ("always", ReaderSpin::Always),
];

/// The policy of such a name; `None` if it is not one.
fn parse(name: &str) -> Result<Option<Chosen>, Error> {
    let (discipline, parameters) = name.split_once(':').unwrap_or((name, ""));
    let mut tenure = Policy::DEFAULT;
    let mut published = published::Policy::HANDOFF;
    let known: &[&str] = match discipline {
        "tenure" => &TENURE,
        "published" => &PUBLISHED,
        _ => return Ok(None),
    };
    let mut given = Vec::new();
    for parameter in parameters.split(',').filter(|parameter| !parameter.is_empty()) {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if !known.contains(&key) {
            return Err(unknown(&format!("parameter of {discipline}"), key, known));
        }
        if given.contains(&key) {
            return Err(Error::usage(format!("{key} is given twice in '{name}': leave one out")));
        }
        given.push(key);
        let wrong =
            |mend: &str| Error::usage(format!("{key}={value} of '{name}' makes no sense: {mend}"));
        let flag = || value.parse().map_err(|_| wrong("use true or false"));
        match key {
            "handoff_after" if value == "never" && discipline == "published" => {
                published.handoff_after = None;
            }
            "handoff_after" => {
                let time = humantime::parse_duration(value).ok().filter(|&time| time <= LONGEST);
                let time = time.ok_or_else(|| wrong("use a time with its unit, such as 1ms"))?;
                tenure.aim = time;
                published.handoff_after = Some(time);
            }
            "budget" => {
                let percent = value.parse().ok().and_then(Percent::new);
                tenure.budget =
                    percent.ok_or_else(|| wrong("use a share of the time, 1 to 100 percent"))?;
            }
            "reader_spin" => {
                let found = READER_SPINS.into_iter().find(|(name, _)| *name == value);
                published.reader_spin = found.ok_or_else(|| wrong("use off, one, on or always"))?.1;
            }
            "writer_spin" => published.writer_spin = flag()?,
            _ => published.writer_phase = flag()?,
        }
    }
    Ok(Some(match discipline {
        "tenure" => Chosen::Tenure(tenure),
        _ => Chosen::Published(published),
    }))
}

/// The locks of a list that was split at all its commas: a part that has a value and no family
/// belongs to the part before it.
pub fn rejoined(parts: &[String]) -> Vec<String> {
    let mut locks: Vec<String> = Vec::new();
    for part in parts.iter().map(|part| part.trim()) {
        match locks.last_mut() {
            Some(last) if part.contains('=') && !part.contains(':') => {
                last.push(',');
                last.push_str(part);
            }
            _ => locks.push(part.to_owned()),
        }
    }
    locks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str) -> Chosen {
        parse(name).unwrap().unwrap()
    }

    #[test]
    fn a_policy_is_what_its_parameters_say() {
        assert_eq!(policy("tenure:"), Chosen::Tenure(Policy::DEFAULT));
        assert_eq!(policy("tenure"), Chosen::Tenure(Policy::DEFAULT));
        let quick = Policy {
            aim: Duration::from_micros(500),
            budget: Percent::new(20).unwrap(),
            ..Policy::DEFAULT
        };
        assert_eq!(policy("tenure:handoff_after=0.5ms,budget=20"), Chosen::Tenure(quick));
        let unfair = Chosen::Published(published::Policy::UNFAIR);
        assert_eq!(policy("published:handoff_after=never,reader_spin=on"), unfair);
        let phase = Chosen::Published(published::Policy::WRITER_PHASE);
        assert_eq!(policy("published:reader_spin=off,writer_phase=true"), phase);
        assert_eq!(parse("fairlock:rwlock").unwrap(), None);
        assert_eq!(parse("std").unwrap(), None);
    }

    #[test]
    fn a_wrong_parameter_is_told_the_mend() {
        for (name, mend) in [
            ("tenure:handof_after=1ms", "'handoff_after'"),
            ("tenure:handoff_after=1", "unit"),
            ("tenure:budget=0", "1 to 100"),
            ("tenure:writer_spin=true", "handoff_after"),
            ("published:reader_spin=sometimes", "always"),
            ("published:writer_phase=1", "true or false"),
        ] {
            let error = parse(name).unwrap_err().to_string();
            assert!(error.contains(mend), "{name}: {error}");
        }
    }

    #[test]
    fn a_list_of_locks_keeps_parameters_together() {
        let split = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            rejoined(&split("unfair,tenure:handoff_after=1ms,budget=20,std")),
            ["unfair", "tenure:handoff_after=1ms,budget=20", "std"]
        );
    }
}
