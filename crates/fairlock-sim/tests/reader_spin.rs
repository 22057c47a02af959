//! Whether readers ought to spin, with many CPUs: `ReaderSpin::Adaptive` beside the
//! three it picks from. Cells of the published grid that differ most; virtual time,
//! so the figures are the same everywhere.

use std::cell::Cell;

use fairlock::rwsem::{Policy, PublishedPolicy, ReaderSpin, RwSem};
use fairlock_sim::{Machine, Sim, Simulation, now, pause, stopped};
use fairlock_testing as _; // the watchdog

/// Half readers, half writers, for 30 ms of which the last 20 count. All operations,
/// and the fewest of any thread.
fn run(machine: &Machine, reader_spin: ReaderSpin, threads: usize, pauses: u32) -> (u64, u64) {
    const WARM_UP: u64 = 10_000_000;
    let lock = RwSem::<Sim>::new(Policy::published(PublishedPolicy {
        reader_spin,
        ..PublishedPolicy::HANDOFF
    }));
    let operations: Vec<_> = (0..threads).map(|_| Cell::new(0)).collect();
    let mut simulation = Simulation::new(machine, 1);
    for (thread, operations) in operations.iter().enumerate() {
        let lock = &lock;
        simulation.spawn(move || {
            while !stopped() {
                if thread % 2 == 0 {
                    lock.write();
                    pause(pauses);
                    // SAFETY: taken above.
                    unsafe { lock.unlock_write() };
                } else {
                    lock.read();
                    pause(pauses);
                    // SAFETY: taken above.
                    unsafe { lock.unlock_read() };
                }
                operations.set(operations.get() + u64::from(now() > WARM_UP));
            }
        });
    }
    simulation.run_for(3 * WARM_UP).unwrap_or_else(|stuck| panic!("{stuck}"));
    let each = operations.iter().map(Cell::get);
    (each.clone().sum(), each.min().unwrap_or_default())
}

/// Without a stream of readers, writers alone are the fastest with short sections, and
/// with long ones neither side alone, nor always the same mix.
#[test]
fn adaptive_is_as_good_as_the_best_of_the_three() {
    let machine = Machine::builtin("cascade_lake_96").unwrap();
    for (threads, pauses) in [(2, 20), (3, 200), (4, 100), (8, 1), (16, 100), (96, 100)] {
        let of = |reader_spin| run(&machine, reader_spin, threads, pauses);
        let (adaptive, fewest) = of(ReaderSpin::Adaptive);
        for other in [ReaderSpin::Off, ReaderSpin::One, ReaderSpin::On] {
            let best = of(other).0;
            assert!(
                adaptive * 100 >= best * 95,
                "{threads} threads, {pauses} pauses: {adaptive}, {other:?} {best}"
            );
        }
        assert!(fewest > 0, "{threads} threads, {pauses} pauses: one had no turn");
    }
}
