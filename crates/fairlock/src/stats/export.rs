//! Statistics for the crates `metrics` and `tracing`.

#[cfg(feature = "metrics")]
use std::{
    string::{String, ToString},
    vec,
    vec::Vec,
};

#[cfg(feature = "metrics")]
use super::{Access, LockStats, SideStats, Times};
#[cfg(feature = "tracing")]
use super::{LongWait, on_long_wait};

/// Sets the metrics of all named locks, in the recorder of the crate `metrics`. Call it before the
/// recorder is read, or every few seconds.
///
/// All have the labels `lock` (its name) and `access` (`read` or `write`). For locks of the same
/// name, counts are added, and the largest of their percentiles is shown.
///
/// | metric | kind | |
/// |---|---|---|
/// | `fairlock_acquisitions_total` | counter | |
/// | `fairlock_waits_total` | counter | acquisitions, and attempts given up, that had to wait |
/// | `fairlock_waits_given_up_total` | counter | |
/// | `fairlock_passed_over_total` | counter | as [`passed_over`](SideStats::passed_over) |
/// | `fairlock_wait_nanoseconds_total` | counter | |
/// | `fairlock_wait_seconds` | gauge | since the start, with the label `quantile`: 0.5, 0.99, 0.999, 1 |
/// | `fairlock_hold_seconds` | gauge | the same, of [samples](SideStats::held) |
/// | `fairlock_condition_waits_total` | counter | [waits for a condition variable](LockStats::conditions); without `access` |
/// | `fairlock_condition_wait_seconds` | gauge | as the others; without `access` |
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
    let now = super::snapshot();
    for locks in now.locks().chunk_by(|a, b| a.name == b.name) {
        let name = || locks[0].name.clone();
        for access in [Access::Read, Access::Write] {
            let side = |lock: &LockStats| lock.sides()[access as usize].1.clone();
            let sides: Vec<_> = locks.iter().map(side).collect();
            if !sides.iter().all(SideStats::is_unused) {
                publish(vec![("lock", name()), ("access", access.to_string())], &sides);
            }
        }
        let waits: u64 = locks.iter().map(|lock| lock.conditions.count).sum();
        if waits > 0 {
            let labels = vec![("lock", name())];
            metrics::counter!("fairlock_condition_waits_total", &labels).absolute(waits);
            gauges(
                "fairlock_condition_wait_seconds",
                &labels,
                locks.iter().map(|lock| lock.conditions),
            );
        }
    }
}

#[cfg(feature = "metrics")]
type Labels = Vec<(&'static str, String)>;

#[cfg(feature = "metrics")]
fn publish(labels: Labels, sides: &[SideStats]) {
    let counter = |name: &'static str, count: fn(&SideStats) -> u64| {
        metrics::counter!(name, &labels).absolute(sides.iter().map(count).sum());
    };
    counter("fairlock_acquisitions_total", |side| side.acquisitions);
    counter("fairlock_waits_total", |side| side.waited.count);
    counter("fairlock_waits_given_up_total", |side| side.given_up);
    counter("fairlock_passed_over_total", |side| side.passed_over);
    counter("fairlock_wait_nanoseconds_total", |side| side.waited.total.as_nanos() as u64);
    gauges("fairlock_wait_seconds", &labels, sides.iter().map(|side| side.waited));
    gauges("fairlock_hold_seconds", &labels, sides.iter().map(|side| side.held));
}

/// Of each quantile the largest.
#[cfg(feature = "metrics")]
fn gauges(name: &'static str, labels: &Labels, all: impl Iterator<Item = Times> + Clone) {
    let quantiles: [(&str, fn(Times) -> core::time::Duration); 4] = [
        ("0.5", |times| times.p50),
        ("0.99", |times| times.p99),
        ("0.999", |times| times.p999),
        ("1", |times| times.longest),
    ];
    for (quantile, time) in quantiles {
        let mut labels = labels.clone();
        labels.push(("quantile", quantile.into()));
        let longest = all.clone().map(time).max().unwrap_or_default();
        metrics::gauge!(name, &labels).set(longest.as_secs_f64());
    }
}

/// Emits an event of the crate `tracing` for each wait for a named lock that lasts for `threshold` or
/// longer: target `fairlock`, level `WARN`, with the fields `lock`, `access`, `waited_us`, `held_us`, and
/// `at`, from where the lock was wanted.
///
/// The thread that waited emits the event when it releases the lock: so the event is in the span of
/// the request that waited, if that span is still entered. Replaces what was set by
/// [`on_long_wait`].
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
            waited_us = wait.waited.as_micros() as u64,
            held_us = wait.held.map(|held| held.as_micros() as u64),
            at = wait.at.map(tracing::field::display),
            "waited for a lock"
        );
    });
}
