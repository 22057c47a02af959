//! `direct-io`: one writer appends 4 KiB blocks to a preallocated file, one reader
//! reads the block appended last, both with `O_DIRECT` and both holding the lock
//! across the I/O. Does the reader shut the writer out, or the writer the reader?

use std::sync::atomic::{AtomicU64, Ordering};

use super::tally::{Durations, Tally, all, by_side};
use super::team::{Padded, Phase};
use super::testbed::Testbed;
use crate::cell::{Case, Cell, CellReport, Side, SideReport};
use crate::direct_file::{BLOCK, Block, BlockFile};
use crate::error::Error;
use crate::locks::BenchLock;

/// The mix, and each side of it alone.
pub const CASES: [Case; 3] = [Case::Mixed, Case::WriterAlone, Case::ReaderAlone];
/// The preallocated file holds what a disk of this speed appends in the run; a
/// faster one wraps around to the start of the file.
const BLOCKS_PER_SEC: f64 = 100_000.0;

/// Blocks to preallocate for a cell.
pub fn blocks(cell: &Cell) -> u64 {
    ((cell.secs + cell.warm_up_secs()) * BLOCKS_PER_SEC) as u64
}

/// The file as a log: blocks are appended at its tail.
struct Log<F> {
    file: F,
    blocks: u64,
    /// Blocks appended so far. Changed and read only under the measured lock.
    appended: AtomicU64,
}

impl<F: BlockFile> Log<F> {
    fn append(&self, block: &Block) -> Result<(), Error> {
        let next = self.appended.load(Ordering::Relaxed);
        self.file.write(next % self.blocks, block)?;
        self.appended.store(next + 1, Ordering::Relaxed);
        Ok(())
    }

    fn read_tail(&self, block: &mut Block) -> Result<(), Error> {
        let last = self.appended.load(Ordering::Relaxed) - 1;
        self.file.read(last % self.blocks, block)
    }
}

/// One thread's operations, and how long they took with the I/O.
struct IoTally {
    tally: Tally,
    latency: Durations,
}

/// Runs one cell.
pub fn run<L: BenchLock, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    let blocks = blocks(cell);
    let log = Log { file: testbed.file(cell, blocks)?, blocks, appended: AtomicU64::new(1) };

    let lock = Padded(L::create());
    let (window, tallies) =
        testbed.run_team(cell, cell.readers + cell.writers, |index, gate| {
            let mut block = Block::default();
            let reads = index < cell.readers;
            let side = Side::of(reads);
            let tally = repeat(testbed, gate, side, &mut || {
                lock.0.hold(side, || {
                    testbed.section(side, || {
                        if reads { log.read_tail(&mut block) } else { log.append(&block) }
                    })
                })
            });
            tally.map(|tally| (reads, tally))
        })?;
    let ns_per_tick = testbed.ns_per_tick();
    let [read, write] = by_side(all(tallies)?).map(|tallies| side(tallies, ns_per_tick));
    Ok(CellReport::of(window, read, write))
}

/// The loop of one thread: `operate` acquires, does its I/O and releases; it returns when it
/// acquired.
fn repeat<T: Testbed>(
    testbed: &T,
    gate: &T::Gate,
    side: Side,
    operate: &mut dyn FnMut() -> (u64, Result<(), Error>),
) -> Result<IoTally, Error> {
    let mut all = IoTally { tally: Tally::new(), latency: Durations::new() };
    loop {
        let asked = testbed.asks(side);
        let (acquired, done) = operate();
        done?;
        let released = testbed.now();
        testbed.released(side, asked, acquired);
        let phase = testbed.phase(gate);
        if phase != Phase::WarmUp {
            all.latency.record(released.saturating_sub(asked));
        }
        if all.tally.count(phase, acquired.saturating_sub(asked)) {
            return Ok(all);
        }
    }
}

fn side(all: Vec<IoTally>, ns_per_tick: f64) -> Option<SideReport> {
    let (tallies, latencies): (_, Vec<_>) =
        all.into_iter().map(|io| (io.tally, io.latency)).unzip();
    let mut report = Tally::report(tallies, ns_per_tick)?;
    report.latency = Durations::summarize(latencies, ns_per_tick);
    report.bytes = Some(report.ops.iter().sum::<u64>() * BLOCK as u64);
    Some(report)
}
