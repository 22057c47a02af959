//! What the bound of a wait is worth: adversaries of the default locks on simulated machines, each with the longest
//! wait in time with CPUs, in relation to what the lock plans (`planned_wait_ns`, and the sections).
//!
//! ```sh
//! cargo run --release -p fairlock-sim --example bound -- [RUNS] [MACHINE,…] [ADVERSARY]
//! ```
//!
//! RUNS is how many seeds each cell has; ADVERSARY a part of its name. Prints a table of Markdown: the longest wait as a
//! share of what is planned for it, with a star if it was a thread that waits by attempts, for which twice as much is
//! planned. Exit 1: a wait was longer than planned; or a lock with ten times the aim, the negative control, kept what the
//! default plans. Exit 2: a wrong argument.

#![allow(unreachable_pub, reason = "a program is no library for others")]

pub mod adversaries;
mod victim;
mod watch;

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use adversaries::{ALL, Adversary, Attempts, Life, Part};
use fairlock::lock::{RawMutex, RawRwLock};
use fairlock::wait::{CancelToken, Wait};
use fairlock_sim::{
    Machine, MachineError, Sim, Simulation, begin_locks, busy, now, random, sleep, stopped,
};
use victim::{Apart, How, Slow, Victim};
use watch::Watch;

const RUN_NS: u64 = 100_000_000;
/// All come at the same time once in so long: [`Life::Leaves`].
const ROUND_NS: u64 = 50_000_000;
/// All waits that can be cancelled are, once in so long: [`Attempts::Cancelled`].
const CANCEL_NS: u64 = 200_000;
const MOST_LOCKS: usize = 8;

/// The longest wait of some, in relation to what was planned.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worst {
    waited: u64,
    planned: u64,
    /// That of a thread that waits by attempts.
    by_attempts: bool,
}

impl Worst {
    fn share(self) -> f64 {
        self.waited as f64 / self.planned.max(1) as f64
    }

    fn or(self, other: Self) -> Self {
        if other.share() > self.share() { other } else { self }
    }
}

impl fmt::Display for Worst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.by_attempts { "*" } else { "" };
        let ms = |ns: u64| ns as f64 / 1e6;
        write!(
            f,
            "{:.2}{mark} ({:.1} of {:.1} ms)",
            self.share(),
            ms(self.waited),
            ms(self.planned)
        )
    }
}

/// A lock, who uses it, and what was found.
struct Attacked<'a> {
    lock: &'a dyn Victim,
    watch: Watch,
    /// One for each [`CANCEL_NS`].
    tokens: &'a [Apart<CancelToken<Sim>>],
    longest: Cell<u64>,
    worst: Cell<Worst>,
}

impl Attacked<'_> {
    /// One section of thread `me`, by attempts; at several locks by one. Returns whether it had it.
    fn section(&self, me: usize, part: &Part, how: How, ahead: Ahead) -> bool {
        loop {
            self.watch.asks(now(), me);
            if self.attempt(part, how) {
                break;
            }
            self.watch.gives_up(now(), me);
            if part.locks > 1 || stopped() {
                return false;
            }
            busy(500);
        }
        let waited = self.watch.acquired(now(), me);
        self.inside(me, part, how);
        self.note(part, how, ahead, waited);
        true
    }

    /// A thread has waited for so long.
    fn note(&self, part: &Part, how: How, ahead: Ahead, waited: u64) {
        // Who only tries is promised nothing.
        if part.attempts == Attempts::Timed(0) || waited <= self.longest.get() * 7 / 10 {
            return;
        }
        let by_attempts = part.attempts != Attempts::Patient;
        let planned = self.lock.planned_wait_ns(ahead.grants(how));
        // It may be away when its turn comes.
        let planned = if by_attempts { 2 * planned } else { planned } + ahead.sections_ns;
        self.longest.set(self.longest.get().max(waited));
        self.worst.set(self.worst.get().or(Worst { waited, planned, by_attempts }));
    }

    fn attempt(&self, part: &Part, how: How) -> bool {
        match part.attempts {
            Attempts::Patient => self.lock.take_with(how, Wait::FOREVER),
            Attempts::Timed(ns) => self.lock.take_with(how, Wait::until_nanos(now() + ns)),
            Attempts::Cancelled => {
                let token = &self.tokens[(now() / CANCEL_NS) as usize % self.tokens.len()].0;
                self.lock.take_with(how, Wait::FOREVER.cancellable(token))
            }
        }
    }

    fn inside(&self, me: usize, part: &Part, how: How) {
        busy(part.section_ns / 2);
        // SAFETY: taken in this way.
        unsafe { self.lock.change(how) };
        busy(part.section_ns / 2);
        self.watch.leaves(now(), me);
        // SAFETY: as above.
        unsafe { self.lock.leave(how) };
        self.watch.left(now(), me);
    }

    /// Sections for as long as the lock can be had at once.
    fn hog(&self, me: usize, part: &Part, how: How) {
        let mut failures = 0;
        while failures < 5 && !stopped() {
            if self.lock.take_with(how, Wait::until_nanos(now())) {
                failures = 0;
                self.watch.acquired(now(), me);
                self.inside(me, part, how);
            } else {
                failures += 1;
                busy(500);
            }
        }
    }
}

/// How many grants may go before that of a thread.
#[derive(Clone, Copy)]
struct Ahead {
    readers: usize,
    writers: usize,
    /// How long their sections are.
    sections_ns: u64,
}

impl Ahead {
    fn of(parts: &[Part]) -> Self {
        let of = |read| {
            parts.iter().filter(|part| part.how.iter().any(|how| how.is_read() == read)).count()
        };
        let (readers, writers) = (of(true), of(false));
        let longest = parts.iter().map(|part| part.section_ns).max().unwrap_or(0);
        let turns = if readers > 0 { 2 } else { 1 };
        Self { readers, writers, sections_ns: turns * longest * parts.len() as u64 }
    }

    fn grants(&self, how: How) -> usize {
        let (own, other) =
            if how.is_read() { (self.readers, self.writers) } else { (self.writers, self.readers) };
        // The first tenure may be that of the own side, as when an upgradable reader is inside.
        if other > 0 { 2 * own } else { own - 1 }
    }
}

fn act(attacked: &[Attacked<'_>], me: usize, part: &Part, ahead: Ahead) {
    let mut turn = 0;
    while !stopped() {
        let how = part.how[turn % 2];
        match part.life {
            Life::Always => {}
            Life::Once(ns) => sleep(random(2 * ns)),
            Life::Leaves => sleep(ROUND_NS - now() % ROUND_NS),
        }
        let lock = &attacked[turn % part.locks];
        turn += 1;
        if lock.section(me, part, how, ahead) && part.life == Life::Leaves {
            lock.hog(me, part, how);
        }
    }
    // Waits that had no end.
    for lock in attacked {
        lock.note(part, part.how[0], ahead, lock.watch.acquired(now(), me));
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    RwLock,
    Mutex,
    /// One that is not what it says: [`Slow`].
    Control,
}

/// A run: so many threads of an adversary at locks of a form.
#[derive(Clone, Copy)]
pub struct Attack<'a> {
    pub form: Form,
    pub machine: &'a Machine,
    pub adversary: &'a Adversary,
    pub threads: usize,
    pub seed: u64,
}

pub fn run(attack: Attack<'_>) -> Worst {
    match attack.form {
        Form::RwLock => run_at(|| Apart(RawRwLock::new_const()), attack),
        Form::Mutex => run_at(|| Apart(RawMutex::new_const()), attack),
        Form::Control => run_at(Slow::new, attack),
    }
}

fn run_at<V: Victim>(new: fn() -> V, attack: Attack<'_>) -> Worst {
    let Attack { form, machine, adversary, threads, seed } = attack;
    // SAFETY: no lock of an earlier simulation is used any more.
    unsafe { begin_locks() };
    // One after the other: nothing depends on what the allocator had free.
    let locks: [_; MOST_LOCKS] = std::array::from_fn(|_| new());
    let parts: Vec<_> = (0..threads)
        .map(|thread| (adversary.part)(thread, threads))
        .map(|part| if form == Form::Mutex { Part { how: [How::Write; 2], ..part } } else { part })
        .collect();
    let ahead = Ahead::of(&parts);
    let tokens: Vec<_> =
        (0..RUN_NS / CANCEL_NS + 1).map(|_| Apart(CancelToken::<Sim>::new())).collect();
    let attacked = locks.each_ref().map(|lock| Attacked {
        lock,
        watch: Watch::default(),
        tokens: &tokens,
        longest: Cell::default(),
        worst: Cell::default(),
    });
    let mut simulation = Simulation::new(machine, seed);
    for (me, part) in parts.iter().enumerate() {
        let attacked = &attacked;
        simulation.spawn(move || act(attacked, me, part, ahead));
    }
    if parts.iter().any(|part| part.attempts == Attempts::Cancelled) {
        simulation.spawn(|| {
            for (nth, token) in (1..).zip(&tokens) {
                sleep((nth * CANCEL_NS).saturating_sub(now()));
                token.0.cancel();
            }
        });
    }
    simulation.observe(watch::All(attacked.each_ref().map(|one| one.watch.clone()).to_vec()));
    let what = adversary.name;
    simulation.run_for(RUN_NS).unwrap_or_else(|stuck| panic!("{what}, seed {seed}: {stuck}"));
    attacked.iter().fold(Worst::default(), |worst, one| worst.or(one.worst.get()))
}

fn main() -> ExitCode {
    attack(std::env::args().skip(1)).unwrap_or_else(|mistake| {
        eprintln!("bound: {mistake}");
        ExitCode::from(2)
    })
}

fn attack(mut arguments: impl Iterator<Item = String>) -> Result<ExitCode, Box<dyn Error>> {
    let runs = match arguments.next() {
        None => 3,
        Some(runs) => runs
            .parse()
            .ok()
            .filter(|&runs| runs > 0)
            .ok_or_else(|| format!("'{runs}' is no number of runs: use 1 or more"))?,
    };
    let machines = arguments.next().unwrap_or_else(|| "two_cpu,nvme_8,cascade_lake_96".to_owned());
    let only = arguments.next().unwrap_or_default();
    if !ALL.iter().any(|one| one.name.contains(&only)) {
        return Err(format!("no adversary has '{only}' in its name: leave that out").into());
    }
    let named = |name| Ok::<_, MachineError>((name, Machine::builtin(name)?));
    let machines = machines.split(',').map(named).collect::<Result<Vec<_>, _>>()?;
    let (form, machine) = (Form::Control, &Machine::builtin("nvme_8")?);
    if run(Attack { form, machine, adversary: &ALL[0], threads: 8, seed: 0 }).share() <= 1.0 {
        println!("a lock with ten times the aim keeps the bound: nothing is checked");
        return Ok(ExitCode::FAILURE);
    }
    let (mut count, mut beyond) = (0, 0);
    for (form, lock) in [(Form::RwLock, "RwLock"), (Form::Mutex, "Mutex")] {
        for threads in [8, 60] {
            print!("| {lock}, {threads} threads |");
            machines.iter().for_each(|(name, _)| print!(" {name} |"));
            println!("\n|---|{}", "---|".repeat(machines.len()));
            let mut worst = vec![Worst::default(); machines.len()];
            let fits = |one: &&Adversary| {
                one.name.contains(&only) && (form == Form::RwLock || one.of_mutex)
            };
            for adversary in ALL.iter().filter(fits) {
                print!("| {} |", adversary.name);
                for ((_, machine), worst) in machines.iter().zip(&mut worst) {
                    let found = (0..runs)
                        .map(|seed| run(Attack { form, machine, adversary, threads, seed }))
                        .inspect(|found| beyond += u32::from(found.share() > 1.0))
                        .fold(Worst::default(), Worst::or);
                    count += runs;
                    print!(" {found} |");
                    *worst = worst.or(found);
                }
                println!();
            }
            print!("| bound / worst seen |");
            worst.iter().for_each(|worst| print!(" **{:.1}** |", 1.0 / worst.share()));
            println!("\n");
        }
    }
    println!("{count} runs; waits beyond the bound in {beyond} of them.");
    Ok(if beyond == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
