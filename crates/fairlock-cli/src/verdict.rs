//! The closing words of the main job, computed from the rows.

use crate::cell::{Case, Side, Workload};
use crate::locks::is_peer;
use crate::row::{Row, locks};
use crate::units::{kops, several, time};

/// The lock that the closing words are about.
const OURS: &str = "fairlock:rwlock";

/// The closing words of the main job: a few lines that say what the tables mean.
pub fn verdict(rows: &[Row]) -> String {
    let lines = [disturbed(rows), starvation(rows), writers(rows), balance(rows)];
    let lines: Vec<String> = lines.into_iter().flatten().collect();
    if lines.is_empty() { String::new() } else { format!("In short\n{}\n", lines.join("\n")) }
}

/// The rows that stand for a whole configuration.
fn whole(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|row| match row.workload {
        Workload::ReaderSpin => row.case == Case::Mixed && row.side == Side::All,
        _ => true,
    })
}

/// What comes first: how much of all this may be the machine's doing.
fn disturbed(rows: &[Row]) -> Option<String> {
    let count = rows.iter().filter(|row| row.is_disturbed()).count();
    let whose = match count {
        0 => return None,
        _ if count == rows.len() => "Every row was".to_owned(),
        _ => format!("{count} of {} rows were", rows.len()),
    };
    Some(format!(
        "- {whose} disturbed: what follows may be this machine's doing, not the locks'. `fairlock doctor` says more."
    ))
}

fn starvation(rows: &[Row]) -> Option<String> {
    let (mut guilty, mut innocent, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for lock in locks(rows) {
        let own = whole(rows).filter(|row| row.lock == lock);
        // Threads that starved are worse than any that a short window does not tell of.
        let by_guilt = |row: &&Row| (row.starves(), row.figures.starved_threads, row.threads);
        let Some((worst, threads)) =
            own.max_by_key(by_guilt).and_then(|row| Some((row, row.figures.starved_threads?)))
        else {
            continue;
        };
        let of = several(worst.threads, "thread");
        match (threads, worst.hardly_served(&format!("{threads} of {of}"))) {
            (0, _) => innocent.push(lock.to_owned()),
            (_, None) => guilty.push(format!("{lock} ({threads} of {of})")),
            (_, Some(said)) => unknown.push(format!("{lock} ({said})")),
        }
    }
    let list = |locks: &[String]| match locks {
        [] => "none".to_owned(),
        _ => locks.join(", "),
    };
    let mut said = format!(
        "- Locks that left threads with at most one operation: {}. Locks that did not: {}.",
        list(&guilty),
        list(&innocent)
    );
    if !unknown.is_empty() {
        said += &format!(" Too short a measurement to tell: {}.", list(&unknown));
    }
    Some(said)
}

fn writers(rows: &[Row]) -> Option<String> {
    let handoff = || rows.iter().filter(|row| row.workload == Workload::Handoff);
    let ours = handoff().find(|row| row.lock == OURS)?;
    let best =
        handoff().filter(|row| is_peer(&row.lock) && row.starved() == Some(0)).max_by(|a, b| {
            a.figures.ops_per_s.unwrap_or(0.0).total_cmp(&b.figures.ops_per_s.unwrap_or(0.0))
        })?;
    Some(format!(
        "- {} writers: {OURS} made {} kop/s, its longest wait was {}; the fastest peer that starved nobody, {}, made {} kop/s, its longest wait was {}.",
        ours.threads,
        kops(ours.figures.ops_per_s?),
        time(ours.figures.wait_max_ns?),
        best.lock,
        kops(best.figures.ops_per_s?),
        time(best.figures.wait_max_ns?),
    ))
}

fn balance(rows: &[Row]) -> Option<String> {
    let of_lock = |lock| {
        let own = whole(rows).filter(|row| row.lock == lock);
        Some((own.filter_map(|row| row.figures.balance_score).reduce(f64::min)?, lock))
    };
    let mut worst: Vec<(f64, &str)> = locks(rows).into_iter().filter_map(of_lock).collect();
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    let list: Vec<String> =
        worst.iter().map(|(score, lock)| format!("{lock} {score:.2}")).collect();
    (!list.is_empty()).then(|| {
        format!(
            "- Readers against writers, the worst score of each lock (1 = each side does half of what it does alone, 0 = one side gets nothing): {}.",
            list.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Setup;
    use crate::cell::Shape;
    use crate::cell::{Cell, CellReport, SideReport};
    use crate::interference::Interference;
    use crate::row::rows;
    use crate::runner::Measured;
    use crate::table::program;

    fn measured(lock: &str, section_ns: u32, ops: [u64; 2]) -> Measured {
        let setup = Setup {
            shape: Some(Shape::Random),
            reads_percent: Some(0),
            section_ns: Some(section_ns),
            ..Setup::default()
        };
        let cell = Cell {
            lock: lock.into(),
            threads: 2,
            range: setup,
            ..Cell::new(Workload::Range, Case::Array, (2, 2))
        };
        let write = Some(SideReport { ops: ops.to_vec(), ..SideReport::default() });
        let report = CellReport { elapsed_secs: 1.0, write, ..CellReport::default() };
        Measured { cell, reports: vec![report], failure: None }
    }

    #[test]
    fn the_closing_words_say_first_how_many_rows_were_disturbed() {
        let mut all = rows(&[measured("std", 100, [50, 50]), measured("std", 200, [50, 50])]);
        assert!(!verdict(&all).contains("disturbed"));
        let taken = Interference { stolen_percent: 50.0, ..Interference::default() };
        all[0].interference = Some(taken);
        assert!(verdict(&all).starts_with("In short\n- 1 of 2 rows were disturbed"));
        all[1].interference = Some(taken);
        assert!(verdict(&all).starts_with("In short\n- Every row was disturbed"));
    }

    #[test]
    fn nobody_is_said_to_starve_in_a_short_measurement() {
        let lopsided = || rows(&[measured("std", 100, [0, 99]), measured("mcs", 100, [50, 50])]);
        let long = verdict(&lopsided());
        assert!(
            long.contains("operation: std (1 of 2 threads). Locks that did not: mcs."),
            "{long}"
        );
        let mut short = lopsided();
        short.iter_mut().for_each(|row| row.window_is_short = true);
        let said = verdict(&short);
        assert!(said.contains("operation: none. Locks that did not: mcs. Too short"), "{said}");
        assert!(said.contains("to tell: std (1 of 2 threads hardly served in 1.00 s)."), "{said}");
    }

    #[test]
    fn array_counts_the_cells_that_keep_up_and_names_the_worst() {
        let all = rows(&[
            measured("fairlock:range", 100, [40, 40]),
            measured("std", 100, [50, 50]),
            measured("fairlock:range", 1_000, [199, 1]),
            measured("std", 1_000, [50, 50]),
        ]);
        let text = program::array(&all.iter().collect::<Vec<_>>());
        assert!(text.contains("1 of 2 cells at 0.95"), "{text}");
        assert!(text.contains("lowest 0.80 (random, 0 % reads, 100 ns, 2 threads)"), "{text}");
        assert!(text.contains("starved in 1\n"), "{text}");
        assert_eq!(
            program::array(&all.iter().filter(|row| row.lock != "std").collect::<Vec<_>>()),
            text
        );
        assert_eq!(program::array(&[]), "");
    }
}
