//! Prints what a lock does by the schedules of some seeds, for the specification: `.ci/traces`.
//!
//! `cargo run --release -p fairlock-sim --example traces -- rwsem:default 0 10000`
//!
//! In the copy that scripts/mutants makes it takes the name of a mistake, too, which the lock makes.

use std::io::{self, Write as _, stdout};
use std::ops::Range;
use std::process::exit;

use fairlock_sim::tester::{Lock, Tester};

fn print(name: &str, lock: Lock, seeds: Range<u64>) -> io::Result<()> {
    let mut tester = Tester::new()?;
    let mut out = stdout().lock();
    for seed in seeds {
        write!(out, "# {name}:{seed} {}", tester.trace(lock, seed))?;
    }
    Ok(())
}

/// With a mistake, if one is named: only the copy of scripts/mutants knows of any.
fn print_with(mistake: Option<&str>, lock: Lock, seeds: Range<u64>) -> io::Result<()> {
    match mistake {
        None => print(lock.name(), lock, seeds),
        #[cfg(fairlock_faults)]
        Some(name) => {
            use fairlock::fault::Fault::*;
            let faults = [
                SubtractsHandoff,
                LeavesHandoff,
                ReaderLeavesQuietly,
                WriterLeavesQuietly,
                AsksReadersFirst,
                SleepsBlindly,
                SleepsUntimed,
                ReleasesQuietly,
                ForgetsNext,
                NeverCloses,
                StealsClosed,
                KeepsSide,
                TimedReadCounts,
                QueuesUnreported,
                QueuesTooLate,
                TakesNotification,
                ForgetsFollowers,
                LeavesTreeQuietly,
                LeavesQuietly,
                LooksTooEarly,
                OvertakesQueued,
                ForgetsGrant,
                ForgetsKind,
                TriesAgainstHull,
                RestsBlindly,
            ];
            let fault = faults.into_iter().find(|fault| format!("{fault:?}") == name);
            let fault = fault.ok_or_else(|| io::Error::other("no such mistake"))?;
            // The locks' own checks panic.
            std::panic::set_hook(Box::new(|_| {}));
            fairlock::fault::with_fault(Some(fault), || print(name, lock, seeds))
        }
        #[cfg(not(fairlock_faults))]
        Some(_) => Err(io::Error::other("this build makes no mistakes")),
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let parsed = match &arguments[..] {
        [lock, first, end, ..] => Lock::named(lock).zip(first.parse().ok()).zip(end.parse().ok()),
        _ => None,
    };
    let Some(((lock, first), end)) = parsed else {
        eprintln!("traces: wants a lock of the tester, the first seed, and the one after the last");
        exit(2);
    };
    let mistake = arguments.get(3).map(String::as_str);
    if let Err(error) = print_with(mistake, lock, first..end) {
        eprintln!("traces: {error}");
        exit(1);
    }
}
