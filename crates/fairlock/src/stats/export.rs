//! Statistics for the crates `metrics` and `tracing`.

#[cfg(feature = "metrics")]
use std::{
    string::{String, ToString},
    vec,
    vec::Vec,
};

#[cfg(all(feature = "metrics", doc))]
use super::LockStats;
#[cfg(feature = "tracing")]
use super::{LongWait, on_long_wait};
#[cfg(feature = "metrics")]
use super::{Now, SideStats, Times};

/// Sets the metrics of all named locks, in the recorder of the crate `metrics`, with a description of each (which an
/// exporter for Prometheus shows as `# HELP`). Call it before the recorder is read, or every few seconds.
///
/// All have the labels `lock` (its name) and `access` (`read` or `write`). Locks of one name count together, with
/// those that were dropped: so no counter ever falls. All times are in seconds.
///
/// | metric | kind | |
/// |---|---|---|
/// | `fairlock_acquisitions_total` | counter | |
/// | `fairlock_waits_total` | counter | acquisitions, and attempts given up, that had to wait |
/// | `fairlock_waits_given_up_total` | counter | |
/// | `fairlock_passed_over_total` | counter | as [`passed_over`](SideStats::passed_over) |
/// | `fairlock_wait_seconds_total` | gauge, as counters of `metrics` have no fractions | of waits that have ended |
/// | `fairlock_wait_seconds` | gauge | since the start, with the label `quantile`: 0.5, 0.99, 0.999, 1 |
/// | `fairlock_hold_seconds` | gauge | the same, of [samples](SideStats::held) |
/// | `fairlock_waiting` | gauge | threads and tasks that wait now |
/// | `fairlock_waiting_seconds` | gauge | how long the first of them has waited; 0: none does |
/// | `fairlock_held_now_seconds` | gauge | how long the lock has been [held by now](SideStats::held_now), at most; 0: by nobody, or not timed |
/// | `fairlock_condition_waits_total` | counter | [waits for a condition variable](LockStats::conditions); without `access` |
/// | `fairlock_condition_wait_seconds` | gauge | as the others; without `access` |
/// | `fairlock_deadlocks` | gauge | [deadlocks](super::Snapshot::deadlocks); without labels |
///
/// ```
/// # use fairlock::stats::NamedExt;
/// let sessions = fairlock::RwLock::named("sessions", 0);
/// *sessions.write() += 1;
/// // Does nothing if there is no recorder.
/// fairlock::stats::publish_metrics();
/// ```
#[cfg(feature = "metrics")]
pub fn publish_metrics() {
    describe();
    let now = super::snapshot();
    metrics::gauge!("fairlock_deadlocks").set(now.deadlocks().len() as f64);
    for lock in now.locks() {
        for (access, side) in lock.sides() {
            if !side.is_unused() || !side.held_now.is_empty() {
                let labels = vec![("lock", lock.name.clone()), ("access", access.to_string())];
                publish(&labels, side);
            }
        }
        if lock.conditions.count > 0 {
            let labels = vec![("lock", lock.name.clone())];
            let waits = metrics::counter!("fairlock_condition_waits_total", &labels);
            waits.absolute(lock.conditions.count);
            gauges("fairlock_condition_wait_seconds", &labels, &lock.conditions);
        }
    }
}

#[cfg(feature = "metrics")]
fn describe() {
    use metrics::{Unit::Seconds, describe_counter as counter, describe_gauge as gauge};

    counter!("fairlock_acquisitions_total", "How often the lock was taken");
    counter!("fairlock_waits_total", "Acquisitions, and attempts given up, that had to wait");
    counter!("fairlock_waits_given_up_total", "Waits that ended without the lock");
    counter!(
        "fairlock_passed_over_total",
        "How often a later thread took the lock before a waiter"
    );
    gauge!("fairlock_wait_seconds_total", Seconds, "Time in waits that have ended");
    gauge!("fairlock_wait_seconds", Seconds, "Waits since the start, by quantile");
    gauge!("fairlock_hold_seconds", Seconds, "Holds since the start, by quantile, from samples");
    gauge!("fairlock_waiting", "Threads and tasks that wait now");
    gauge!("fairlock_waiting_seconds", Seconds, "How long the first of them has waited by now");
    gauge!("fairlock_held_now_seconds", Seconds, "How long the lock has been held by now");
    counter!("fairlock_condition_waits_total", "Waits for a condition variable with the mutex");
    gauge!("fairlock_condition_wait_seconds", Seconds, "These waits, by quantile");
    gauge!("fairlock_deadlocks", "Groups of threads that wait for each other for ever");
}

#[cfg(feature = "metrics")]
type Labels = Vec<(&'static str, String)>;

#[cfg(feature = "metrics")]
fn publish(labels: &Labels, side: &SideStats) {
    let counter = |name, count| metrics::counter!(name, labels).absolute(count);
    counter("fairlock_acquisitions_total", side.acquisitions);
    counter("fairlock_waits_total", side.waited.count);
    counter("fairlock_waits_given_up_total", side.given_up);
    counter("fairlock_passed_over_total", side.passed_over);
    gauges("fairlock_wait_seconds", labels, &side.waited);
    gauges("fairlock_hold_seconds", labels, &side.held);
    let gauge = |name, value| metrics::gauge!(name, labels).set(value);
    let longest = |all: &[Now]| all.first().and_then(|now| now.time).unwrap_or_default();
    gauge("fairlock_wait_seconds_total", side.waited.total.as_secs_f64());
    gauge("fairlock_waiting", side.waiting.len() as f64);
    gauge("fairlock_waiting_seconds", longest(&side.waiting).as_secs_f64());
    gauge("fairlock_held_now_seconds", longest(&side.held_now).as_secs_f64());
}

#[cfg(feature = "metrics")]
fn gauges(name: &'static str, labels: &Labels, times: &Times) {
    let quantiles =
        [("0.5", times.p50), ("0.99", times.p99), ("0.999", times.p999), ("1", times.longest)];
    for (quantile, time) in quantiles {
        let mut labels = labels.clone();
        labels.push(("quantile", quantile.into()));
        metrics::gauge!(name, &labels).set(time.as_secs_f64());
    }
}

/// Emits an event of the crate `tracing` for each wait for a named lock that lasts for `threshold` or
/// longer: target `fairlock`, level `WARN`, with the fields `lock`, `access`, `thread`, `waited_seconds`, `held_seconds`, `at`,
/// from where the lock was wanted, `holder` and `holder_at`, the thread that held it and where, `ongoing` and `left_out`: see [`LongWait`].
///
/// The thread that waited emits the event when it releases the lock: so the event is in the span of
/// the request that waited, if that span is still entered. A wait that still lasts has an event, too, by another thread, and
/// there is a limit: all as for [`on_long_wait`], of which this replaces what was set.
///
/// ```
/// fairlock::stats::trace_long_waits(std::time::Duration::from_millis(10));
/// ```
#[cfg(feature = "tracing")]
pub fn trace_long_waits(threshold: core::time::Duration) {
    on_long_wait(threshold, |wait: &LongWait| {
        tracing::warn!(
            target: "fairlock",
            lock = wait.lock.as_str(),
            access = %wait.access,
            thread = wait.thread.as_str(),
            waited_seconds = wait.waited.as_secs_f64(),
            held_seconds = wait.held.map(|held| held.as_secs_f64()),
            at = wait.at.map(tracing::field::display),
            holder = wait.holder.as_ref().map(|holder| holder.thread.as_str()),
            holder_at = wait.holder.as_ref().and_then(|it| it.at).map(tracing::field::display),
            ongoing = wait.ongoing,
            left_out = wait.left_out,
            "{}",
            if wait.ongoing { "waits for a lock" } else { "waited for a lock" }
        );
    });
}
