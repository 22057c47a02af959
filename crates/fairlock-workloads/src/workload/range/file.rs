//! `file`: threads read and write ranges of records of one real file, each under a
//! lock on its bytes. Every record that is read is checked for tearing (half old,
//! half new), and each thread notes where it is inside, to find others there.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::cell::{Cell, CellReport, Side};
use crate::error::Error;
use crate::locks::range::BenchRange;
use crate::workload::random::Random;
use crate::workload::tally::{Both, all};
use crate::workload::team::Padded;
use crate::workload::testbed::Testbed;

/// Reads in a hundred operations.
pub const READS: u8 = 60;
const RECORD: usize = 16 << 10;
const RECORDS: u64 = 64;
/// The longest range, in records.
const MOST: u64 = 4;

/// Who is inside at each record: how many readers, or -1 for a writer. Relaxed: the lock under test
/// has to order these.
struct Inside(Vec<AtomicI32>);

impl Inside {
    /// Enters; returns whether nobody was there who must not be.
    fn enter(&self, first: u64, records: u64, reads: bool) -> bool {
        self.at(first, records).all(|at| {
            let (now, alone) = if reads { (1, 0) } else { (-1, 1) };
            let before = at.fetch_add(now, Ordering::Relaxed);
            before >= 0 && (alone == 0 || before == 0)
        })
    }

    fn leave(&self, first: u64, records: u64, reads: bool) {
        self.at(first, records).for_each(|at| {
            at.fetch_sub(if reads { 1 } else { -1 }, Ordering::Relaxed);
        });
    }

    fn at(&self, first: u64, records: u64) -> impl Iterator<Item = &AtomicI32> {
        self.0[first as usize..(first + records) as usize].iter()
    }
}

/// Runs one cell; fails if a record was torn, or a thread was where it must not be.
pub fn run<L: BenchRange, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    let file = tempfile::tempfile_in(cell.folder())
        .map_err(|error| failed("cannot make a file", &error))?;
    for record in 0..RECORDS {
        write(&file, record, &vec![0; RECORD])?;
    }
    let lock = Padded(L::create(RECORDS * RECORD as u64, cell.threads)?);
    let inside = Inside((0..RECORDS).map(|_| AtomicI32::new(0)).collect());
    let (window, results) = testbed.run_team(cell, cell.threads, |index, gate| {
        let mut random = Random::new(cell.seed, index);
        let mut buffer = vec![0; MOST as usize * RECORD];
        let mut both = Both::new();
        let mut stamp = 0_u8;
        loop {
            let records = 1 + random.below(MOST);
            let first = random.below(RECORDS + 1 - records);
            let buffer = &mut buffer[..records as usize * RECORD];
            let bytes = first * RECORD as u64..=(first + records) * RECORD as u64 - 1;
            let is_read = random.below(100) < u64::from(READS);
            if !is_read {
                stamp = stamp.wrapping_add(1);
                buffer.fill(stamp ^ index as u8);
            }
            let side = Side::of(is_read);
            let section = || {
                let excluded = inside.enter(first, records, is_read);
                let done =
                    if is_read { read(&file, first, buffer) } else { write(&file, first, buffer) };
                inside.leave(first, records, is_read);
                (excluded, done)
            };
            let (waited, (excluded, done)) = testbed.operation(side, testbed.asks(side), || {
                lock.0.hold(side, index, &bytes, || testbed.section(side, section))
            });
            done?;
            if !excluded {
                return Err(Error::failed("the lock does not exclude: two were in one record"));
            }
            if is_read && buffer.chunks(RECORD).any(is_torn) {
                return Err(Error::failed("the lock does not exclude: a record was torn"));
            }
            if both.side(side).count(testbed.phase(gate), waited) {
                return Ok(both);
            }
        }
    })?;
    let tallies = all(results)?;
    Ok(Both::report(window, tallies, &|_| (true, true), testbed.ns_per_tick()))
}

fn is_torn(record: &[u8]) -> bool {
    record.iter().any(|&byte| byte != record[0])
}

fn write(file: &File, first: u64, buffer: &[u8]) -> Result<(), Error> {
    let done = write_at(file, buffer, first * RECORD as u64);
    done.map_err(|error| failed("a write failed", &error))
}

fn read(file: &File, first: u64, buffer: &mut [u8]) -> Result<(), Error> {
    let done = read_at(file, buffer, first * RECORD as u64);
    done.map_err(|error| failed("a read failed", &error))
}

#[cfg(unix)]
fn write_at(file: &File, buffer: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, buffer, offset)
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

/// Writes the whole buffer to its place, whatever other threads do with the file.
#[cfg(windows)]
fn write_at(file: &File, mut buffer: &[u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let done = std::os::windows::fs::FileExt::seek_write(file, buffer, offset)?;
        buffer = &buffer[done..];
        offset += done as u64;
    }
    Ok(())
}

#[cfg(windows)]
fn read_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let done = std::os::windows::fs::FileExt::seek_read(file, buffer, offset)?;
        if done == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = &mut buffer[done..];
        offset += done as u64;
    }
    Ok(())
}

fn failed(what: &str, error: &io::Error) -> Error {
    Error::failed(format!("range: {what}: {error}; choose another folder with --dir"))
}
