//! Rows for tests, and those of rows.

use super::*;
use crate::cell::{Form, Holder, Seen, Shape, Split};

fn cell(lock: &str, case: Case) -> Cell {
    let side = |here: bool| if here { 2 } else { 0 };
    let sides = (side(case != Case::WriterAlone), side(case != Case::ReaderAlone));
    Cell {
        lock: lock.into(),
        threads: 4,
        cs_load: 20,
        ..Cell::new(Workload::ReaderSpin, case, sides)
    }
}

pub fn measured(
    lock: &str,
    case: Case,
    read: Option<[u64; 2]>,
    write: Option<[u64; 2]>,
) -> Measured {
    let side = |ops: Option<[u64; 2]>| {
        ops.map(|ops| SideReport { ops: ops.to_vec(), ..SideReport::default() })
    };
    let report = CellReport {
        elapsed_secs: 1.0,
        read: side(read),
        write: side(write),
        ..CellReport::default()
    };
    Measured { cell: cell(lock, case), reports: vec![report], failure: None }
}

pub fn mix(lock: &str, read: [u64; 2], write: [u64; 2]) -> [Measured; 3] {
    [
        measured(lock, Case::Mixed, Some(read), Some(write)),
        measured(lock, Case::ReaderAlone, Some([100, 100]), None),
        measured(lock, Case::WriterAlone, None, Some([50, 50])),
    ]
}

/// Rows of a workload as wide as they can be, measured or simulated.
pub fn widest(workload: Workload, is_real: bool) -> Vec<Row> {
    // Of the longest names.
    let locks = ["fairlock:reader_spin_always", "parking_lot_0.12:fair"];
    let rows =
        locks.map(|lock| rows_of_cell(&measured(lock, Case::Mixed, Some([9; 2]), Some([9; 2]))));
    let mut rows = rows.concat();
    let case = Case::ALL.into_iter().max_by_key(|case| case.name().len()).unwrap();
    let some = |is_known: bool| is_known.then_some(98_765_432_109);
    let split = Split {
        behind_others_ns: some(!is_real),
        holder_inside_ns: Some(0).filter(|_| !is_real),
        holder_without_cpu_ns: some(!is_real),
        running_ns: some(is_real),
        asleep_ns: Some(0).filter(|_| is_real),
        on_the_way_ns: some(true),
        without_cpu_ns: Some(0),
        runnable_ns: some(is_real),
        lock_free_ns: some(!is_real),
    };
    let seen = Seen { uncertain_ns: 1, sleeps: 98_765_432, preemptions: 98_765_432 };
    for (number, row) in rows.iter_mut().enumerate() {
        row.workload = workload;
        row.threads = 1_000 + number / 3;
        row.overcommit = Some(16.25);
        row.cs_load = Some(1_000_000);
        row.scenario = Some("a scenario".into());
        row.group = Some(format!("writers of the log {number}"));
        row.machine = (!is_real).then(|| "a-machine-with-a-long-name".into());
        if workload != Workload::ReaderSpin {
            row.case = case;
        }
        row.range = Setup {
            shape: Some(Shape::Disjoint),
            section_ns: Some(1_000_000_000),
            reads_percent: Some(100),
            form: Some(Form::RwLock),
            holder: Some(Holder::Away),
            ..row.range
        };
        row.figures = Figures::all(98_765_432_109);
        row.figures.long_waits = Some(LongWaits {
            count: 98_765_432,
            all: split,
            longest: split,
            seen: is_real.then_some(seen),
        });
        row.figures.events = Some(Happened {
            operations: 7,
            counts: Events::from([("readers_revoked".into(), 98_765_432)]),
        });
        row.comparison = Comparison::all(98_765_432);
        row.comparison.published_as = Some("a column of a table".into());
        row.ratios = Ratios::all(98_765_432);
        row.interference = Some(Interference { stolen_percent: 100.0, others_percent: 100.0 });
    }
    rows
}

pub fn total<'a>(rows: &'a [Row], lock: &str) -> &'a Row {
    rows.iter().find(|row| row.lock == lock && row.side == Side::All).unwrap()
}

/// By how much work grows with the rows.
pub mod growth {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static ASKED: Cell<usize> = const { Cell::new(0) };
    }

    /// To be called for each row that is looked at.
    pub fn asked() {
        ASKED.set(ASKED.get() + 1);
    }

    /// Fails if a row is asked for its configuration more than a few times, however many rows
    /// there are: two locks in mixes of a workload. What is done within a configuration is not
    /// counted.
    pub fn is_linear(workload: Workload, work: impl FnOnce(&mut [Row])) {
        const ROWS: usize = 2_000;
        const A_FEW: usize = 20;
        let of_lock = |threads: usize, lock, ops| {
            let mut mix = measured(lock, Case::Mixed, Some([ops; 2]), Some([ops; 2]));
            mix.cell.workload = workload;
            mix.cell.threads = threads;
            mix.cell.range.reads_percent = Some(50);
            rows_of_cell(&mix)
        };
        let of_both = |threads| {
            [of_lock(threads, "std", 100), of_lock(threads, "fairlock:rwlock", 50)].concat()
        };
        let mut rows: Vec<Row> = (1..).flat_map(of_both).take(ROWS).collect();
        ASKED.set(0);
        work(&mut rows);
        assert!(ASKED.get() <= A_FEW * ROWS, "{} times for {ROWS} rows", ASKED.get());
    }
}

#[test]
fn a_failed_cell_is_a_row_with_an_error() {
    let failed = Measured {
        cell: cell("std", Case::Mixed),
        reports: Vec::new(),
        failure: Some("killed".into()),
    };
    let rows = rows(&[failed]);
    assert_eq!((rows.len(), rows[0].error.as_deref()), (1, Some("killed")));
}

#[test]
fn a_thread_that_reads_and_writes_counts_once() {
    let mut both = measured("std", Case::Mixed, Some([90, 1]), Some([1, 2]));
    (both.cell.readers, both.cell.writers, both.cell.threads) = (2, 2, 2);
    let apart = measured("std", Case::Mixed, Some([90, 1]), Some([1, 2]));
    let total = |m: Measured| total(&rows(&[m]), "std").figures.clone();
    let (both, apart) = (total(both), total(apart));
    assert_eq!((both.starved_threads, both.min_ops, both.max_ops), (Some(0), Some(3), Some(91)));
    assert_eq!((apart.starved_threads, apart.min_ops, apart.max_ops), (Some(2), Some(1), Some(90)));
    assert_eq!(both.ops_per_s, apart.ops_per_s);
}

#[test]
fn over_runs_rates_are_medians_and_extremes_are_kept() {
    let mut m = measured("std", Case::WriterAlone, None, Some([10, 20]));
    for ops in [[1, 100], [30, 30]] {
        let again = measured("std", Case::WriterAlone, None, Some(ops));
        m.reports.extend(again.reports);
    }
    let row = &rows(&[m])[0];
    assert_eq!(row.figures.ops_per_s, Some(60.0));
    assert_eq!(row.figures.ops_per_s_max, Some(101.0));
    // 30, 101 and 60.
    assert_eq!(row.figures.ops_per_s_sd.map(f64::round), Some(36.0));
    assert_eq!((row.figures.min_ops, row.figures.max_ops), (Some(1), Some(100)));
    assert_eq!(row.figures.starved_threads, Some(1));
}
