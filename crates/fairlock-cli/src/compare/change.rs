//! What changed between two results: by lock, and by cell.

use crate::bootstrap::{Estimate, Sum, variance_of_mean};
use crate::cell::Workload;
use crate::locks::is_peer;
use crate::row::{Index, Row, locks, whole};
use crate::units::several;
use crate::workload::random::Random;

/// The probability that a result says of some lock that it changed although none did. It is divided
/// by the number of intervals to give what one interval may miss.
const ERROR: f64 = 0.01;

/// A difference of speeds below this, in logarithms, counts as none: it is of the arithmetic.
const NOTHING: f64 = 1e-6;

/// What a comparison found.
pub struct Comparison {
    /// The locks of both results, in the order of the first.
    pub locks: Vec<LockChange>,
    /// Cells that by themselves are certain to have changed.
    pub cells: Vec<CellChange>,
    /// The change of the peers, if both results have some: it is what the machine did meanwhile.
    pub peers: Option<Estimate>,
    /// Cells of one result that the other does not have.
    pub only_before: usize,
    pub only_after: usize,
    /// Cells whose speed is not known, or in which a run failed or got nothing done.
    pub without_speed: usize,
}

/// A lock in all cells that both results have.
pub struct LockChange {
    pub lock: String,
    pub cells: usize,
    /// The fewest runs that any of its cells has in either result.
    pub runs: usize,
    /// The logarithm of the factor by which the lock is faster, less what the machine did; the
    /// change of a peer is given whole. A mean over the cells, of which the steadier ones count more.
    pub speed: Estimate,
    /// The logarithm of the factor by which its p99.9 waits are longer.
    pub wait: Option<Estimate>,
    /// How many threads starved in its cells, before and after, if all windows are long enough to tell.
    pub starved: [Option<usize>; 2],
}

/// A lock in one cell.
pub struct CellChange {
    pub lock: String,
    pub what: String,
    pub speed: Estimate,
}

impl Comparison {
    /// Compares the rows of two results.
    pub fn of(before: &[Row], after: &[Row]) -> Self {
        let pairs = Pairs::of(before, after);
        let locks = locks(pairs.all.iter().map(|pair| pair.before));
        let mut random = Random::new(1, 0);
        let machine = Machine::of(&pairs, &mut random);
        let error = ERROR / locks.len().max(1) as f64;
        let error_of_cell = ERROR / pairs.all.len().max(1) as f64;
        let mut cells = Vec::new();
        let mut change = |lock: &&str| {
            let own: Vec<&Pair<'_>> = pairs.of_lock(lock).collect();
            let share = 1.0 / own.len() as f64;
            let (mut speed, mut wait) = (Sum::zero(), Some(Sum::zero()));
            for (pair, weight) in own.iter().zip(weights(&own)) {
                let of_pair = pair.speed(&machine, &mut random);
                speed.add(weight, &of_pair);
                wait = wait.zip(pair.wait(&mut random)).map(|(mut wait, of_pair)| {
                    wait.add(share, &of_pair);
                    wait
                });
                let of_pair = of_pair.estimate(error_of_cell);
                // With one cell, the lock's line says it already; and what a peer does is the
                // machine.
                if own.len() > 1 && is_change(&of_pair) && !is_peer(lock) {
                    let what = describe(pair.before);
                    cells.push(CellChange { lock: (*lock).to_owned(), what, speed: of_pair });
                }
            }
            LockChange {
                lock: (*lock).to_owned(),
                cells: own.len(),
                runs: own.iter().map(|pair| pair.runs()).min().unwrap_or(0),
                speed: speed.estimate(error),
                wait: wait.map(|wait| wait.estimate(error)),
                starved: [
                    starved(own.iter().map(|pair| pair.before)),
                    starved(own.iter().map(|pair| pair.after)),
                ],
            }
        };
        let locks = locks.iter().map(&mut change).collect();
        cells.sort_by(|a, b| a.speed.value.total_cmp(&b.speed.value));
        Self {
            locks,
            cells,
            peers: machine.all.map(|all| all.estimate(error)),
            only_before: pairs.only_before,
            only_after: pairs.only_after,
            without_speed: pairs.without_speed,
        }
    }

    /// The locks that are certainly slower, by `percent` or more. A peer is never one of them: its
    /// change is the machine's.
    pub fn regressions(&self, percent: f64) -> Vec<String> {
        let is_worse = |speed: &Estimate| is_change(speed) && in_percent(speed.value) <= -percent;
        let locks = self.locks.iter().filter(|c| is_worse(&c.speed) && !is_peer(&c.lock));
        let cells = self.cells.iter().filter(|cell| is_worse(&cell.speed));
        let cells = cells.map(|cell| format!("{} in {}", cell.lock, cell.what));
        locks.map(|change| change.lock.clone()).chain(cells).collect()
    }
}

/// How many threads starved in all these rows, if each can tell of those it counted.
fn starved<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<usize> {
    let counted = rows.filter(|row| row.figures.starved_threads.is_some());
    counted.map(Row::starved).try_fold(0, |sum: usize, threads| Some(sum.saturating_add(threads?)))
}

/// Whether a change is certain, and not next to nothing.
pub fn is_change(speed: &Estimate) -> bool {
    speed.is_certain() && speed.value.abs() > NOTHING
}

/// A change of speed in percent.
pub fn in_percent(logarithm: f64) -> f64 {
    logarithm.exp_m1() * 100.0
}

/// What the machine did: the change of the peers, which are the same in both results.
struct Machine {
    by_workload: Vec<(Workload, Sum)>,
    /// None if the results have no peers in common.
    all: Option<Sum>,
}

impl Machine {
    fn of(pairs: &Pairs<'_>, random: &mut Random) -> Self {
        let peers: Vec<_> = pairs.all.iter().filter(|pair| is_peer(&pair.before.lock)).collect();
        let (mut by_workload, mut all) = (Vec::new(), None);
        for workload in Workload::ALL {
            let is_of = |pair: &&&Pair<'_>| pair.before.workload == workload;
            let own: Vec<_> = peers.iter().filter(is_of).copied().collect();
            if own.is_empty() {
                continue;
            }
            let mut sum = Sum::zero();
            for (pair, weight) in own.iter().zip(weights(&own)) {
                sum.add(weight, &pair.raw_speed(random));
            }
            let share = own.len() as f64 / peers.len() as f64;
            all.get_or_insert_with(Sum::zero).add(share, &sum);
            by_workload.push((workload, sum));
        }
        Self { by_workload, all }
    }
}

/// A cell that both results have.
struct Pair<'a> {
    before: &'a Row,
    after: &'a Row,
    /// Logarithms of the speed in each run, before and after.
    speeds: [Vec<f64>; 2],
}

impl Pair<'_> {
    /// The runs of the cell in the result that has fewer.
    fn runs(&self) -> usize {
        self.speeds.iter().map(Vec::len).min().unwrap_or(0)
    }

    /// The variance of the change of speed, as far as the runs tell.
    fn variance(&self) -> f64 {
        self.speeds.iter().map(|speeds| variance_of_mean(speeds)).sum()
    }

    /// By how much the speed changed.
    fn raw_speed(&self, random: &mut Random) -> Sum {
        difference(&self.speeds[0], &self.speeds[1], random)
    }

    /// By how much the speed changed without what the machine did; the peers keep their whole
    /// change.
    fn speed(&self, machine: &Machine, random: &mut Random) -> Sum {
        let mut speed = self.raw_speed(random);
        let of_machine = machine.by_workload.iter().find(|(w, _)| *w == self.before.workload);
        if let Some((_, of_machine)) = of_machine.filter(|_| !is_peer(&self.before.lock)) {
            speed.add(-1.0, of_machine);
        }
        speed
    }

    /// By how much p99.9 waits changed, where they are known.
    fn wait(&self, random: &mut Random) -> Option<Sum> {
        let of = |row: &Row| -> Vec<f64> {
            let real = row.by_run.wait_p999_ns.iter().copied();
            let simulated = row.by_seed.iter().filter_map(|figures| figures.wait_p999_ns);
            // One nanosecond is added, as zero has no logarithm.
            real.chain(simulated).map(|ns| (ns as f64 + 1.0).ln()).collect()
        };
        let (before, after) = (of(self.before), of(self.after));
        let is_known = !before.is_empty() && !after.is_empty();
        is_known.then(|| difference(&before, &after, random))
    }
}

/// What each of these cells counts in their mean; together one. The less its runs vary, the more: a
/// cell whose speed is twice or half as high from run to run would hide what all others say. But
/// runs may agree by chance, so none counts more than twice as much as the usual one.
fn weights(pairs: &[&Pair<'_>]) -> Vec<f64> {
    let variances: Vec<f64> = pairs.iter().map(|pair| pair.variance()).collect();
    let mut sorted = variances.clone();
    sorted.sort_by(f64::total_cmp);
    let usual = sorted[sorted.len() / 2];
    let weight = |variance: f64| if usual > 0.0 { 1.0 / (variance + usual) } else { 1.0 };
    let sum: f64 = variances.iter().copied().map(weight).sum();
    variances.iter().map(|&variance| weight(variance) / sum).collect()
}

fn difference(before: &[f64], after: &[f64], random: &mut Random) -> Sum {
    let mut sum = Sum::mean(after, random);
    sum.add(-1.0, &Sum::mean(before, random));
    sum
}

/// The cells of two results: those that both have, in pairs, and how many only one has.
struct Pairs<'a> {
    all: Vec<Pair<'a>>,
    only_before: usize,
    only_after: usize,
    without_speed: usize,
}

impl<'a> Pairs<'a> {
    fn of(before: &'a [Row], after: &'a [Row]) -> Self {
        let (before, after) = (whole(before), whole(after));
        let index = |rows: &[&'a Row]| Index::of(rows.iter().copied());
        let (in_before, in_after) = (index(&before), index(&after));
        let mut pairs = Self {
            all: Vec::new(),
            only_before: 0,
            only_after: after.iter().filter(|row| find(&in_before, row).is_none()).count(),
            without_speed: 0,
        };
        for row in &before {
            let Some(other) = find(&in_after, row) else {
                pairs.only_before += 1;
                continue;
            };
            match (speeds(row), speeds(other)) {
                (Some(own), Some(others)) => {
                    pairs.all.push(Pair { before: row, after: other, speeds: [own, others] });
                }
                _ => pairs.without_speed += 1,
            }
        }
        pairs
    }

    fn of_lock(&self, lock: &str) -> impl Iterator<Item = &Pair<'a>> {
        self.all.iter().filter(move |pair| pair.before.lock == lock)
    }
}

/// The row with the same lock and configuration, beside the same other work.
fn find<'a>(index: &Index<'a>, row: &Row) -> Option<&'a Row> {
    let is_like = |other: &&Row| other.lock == row.lock && other.disturbance == row.disturbance;
    index.rows(&row.configuration()).iter().copied().find(is_like)
}

/// The logarithms of the speed in each run, or of the median if that is all there is. None if a run
/// got nothing done. In `idle` the speed is the inverse of the free time.
fn speeds(row: &Row) -> Option<Vec<f64>> {
    let (f, runs) = (&row.figures, &row.by_run);
    let inverse = |ns: f64| 1e9 / ns;
    let (all, median): (Vec<f64>, _) = if row.workload == Workload::Idle {
        let free = |ns: u64| inverse(ns as f64);
        let simulated = row.by_seed.iter().filter_map(|figures| figures.free_p50_ns);
        let all = runs.free_p50_ns.iter().copied().chain(simulated).map(free);
        (all.collect(), f.free_p50_ns.map(free))
    } else {
        let simulated = row.by_seed.iter().filter_map(|figures| figures.ops_per_s);
        let timed = runs.ns_per_op.iter().map(|&ns| inverse(ns));
        let all = runs.ops_per_s.iter().copied().chain(timed).chain(simulated);
        (all.collect(), f.ops_per_s.or(f.ns_per_op.map(inverse)))
    };
    let all = if all.is_empty() { median.into_iter().collect() } else { all };
    let is_fine = !all.is_empty() && all.iter().all(|speed| speed.is_finite() && *speed > 0.0);
    is_fine.then(|| all.into_iter().map(f64::ln).collect())
}

/// A cell's configuration, in words.
fn describe(row: &Row) -> String {
    let setup = &row.range;
    let mut words = vec![format!("{} {}", row.workload.name(), row.case.name())];
    words.extend(row.machine.clone());
    words.extend(setup.form.map(|form| form.name().to_owned()));
    words.extend(setup.shape.map(|shape| shape.name().to_owned()));
    words.push(several(row.threads, "thread"));
    words.extend(row.cs_load.map(|pauses| format!("{pauses} pauses")));
    words.extend(setup.section_ns.map(|ns| crate::units::time(u64::from(ns))));
    words.extend(setup.reads_percent.map(|percent| format!("{percent} % reads")));
    words.extend(setup.outside.map(|x| format!("{x}x outside")));
    words.extend(setup.among.map(|n| format!("among {n}")));
    words.extend(setup.held.map(|n| format!("{n} held")));
    words.extend(setup.holder.map(|holder| holder.name().to_owned()));
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::growth;

    #[test]
    fn pairing_grows_as_the_rows_do() {
        growth::is_linear(Workload::ReaderSpin, |rows| {
            assert_eq!(Pairs::of(rows, rows).all.len(), whole(&*rows).len());
        });
    }
}
