//! Statistics for the crates `metrics` and `tracing`.
#![cfg(all(feature = "metrics", feature = "tracing"))]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlock::stats::{self, NamedExt};
use fairlock_testing as _; // the watchdog
use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder};
use metrics::{SharedString, Unit};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};

/// What was published, by name and labels.
#[derive(Default)]
struct Published(Arc<Mutex<BTreeMap<String, f64>>>, Mutex<BTreeSet<String>>);

struct Metric(Arc<Mutex<BTreeMap<String, f64>>>, String);

impl Metric {
    fn put(&self, value: f64) {
        self.0.lock().unwrap().insert(self.1.clone(), value);
    }
}

impl CounterFn for Metric {
    fn increment(&self, _: u64) {
        unreachable!();
    }

    fn absolute(&self, value: u64) {
        self.put(value as f64);
    }
}

impl GaugeFn for Metric {
    fn increment(&self, _: f64) {
        unreachable!();
    }

    fn decrement(&self, _: f64) {
        unreachable!();
    }

    fn set(&self, value: f64) {
        self.put(value);
    }
}

impl Published {
    fn metric(&self, key: &Key) -> Arc<Metric> {
        let labels = key.labels().fold(String::new(), |mut all, label| {
            let _ = write!(all, " {}={}", label.key(), label.value());
            all
        });
        Arc::new(Metric(self.0.clone(), format!("{}{labels}", key.name())))
    }
}

impl Recorder for Published {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.1.lock().unwrap().insert(name.as_str().into());
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        let name = name.as_str();
        assert_eq!(name.contains("_seconds"), unit == Some(Unit::Seconds), "{name}");
        self.1.lock().unwrap().insert(name.into());
    }

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.metric(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.metric(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        unreachable!();
    }
}

#[test]
fn locks_of_one_name_are_published_together() {
    let recorder = Published::default();
    let locks = [(); 2].map(|()| fairlock::RwLock::named("published", ()));
    drop((locks[0].read(), locks[1].read()));
    let writer = locks[0].write();
    assert!(locks[0].try_read_for(Duration::from_millis(1)).is_none());
    drop(writer);
    let queue = fairlock::Mutex::named("published queue", ());
    let changed = fairlock::Condvar::new();
    assert!(changed.wait_for(&mut queue.lock(), Duration::from_millis(1)).timed_out());
    // Dropped: it still counts.
    drop(fairlock::RwLock::named(String::from("published"), ()).read());
    let stuck = fairlock::Mutex::named("published while stuck", ());
    let guard = stuck.lock();
    std::thread::scope(|s| {
        s.spawn(|| drop(stuck.lock()));
        let waiting = || stats::snapshot().get("published while stuck").unwrap().clone();
        fairlock_testing::until(|| !waiting().writes.waiting.is_empty());
        metrics::with_local_recorder(&recorder, stats::publish_metrics);
        drop(guard);
    });
    let published = recorder.0.lock().unwrap();
    let of = |name: &str| published[name];
    assert_eq!(of("fairlock_acquisitions_total lock=published access=read"), 3.0);
    assert_eq!(of("fairlock_waiting lock=published while stuck access=write"), 1.0);
    assert!(of("fairlock_waiting_seconds lock=published while stuck access=write") > 0.0);
    assert!(of("fairlock_held_now_seconds lock=published while stuck access=write") > 0.0);
    assert_eq!(of("fairlock_waiting lock=published access=read"), 0.0);
    assert_eq!(of("fairlock_deadlocks"), 0.0);
    let described = recorder.1.lock().unwrap();
    for metric in published.keys().filter_map(|key| key.split(' ').next()) {
        assert!(described.contains(metric), "{metric} has no description");
    }
    assert_eq!(of("fairlock_waits_total lock=published access=read"), 1.0);
    assert_eq!(of("fairlock_waits_given_up_total lock=published access=read"), 1.0);
    assert_eq!(of("fairlock_acquisitions_total lock=published access=write"), 1.0);
    let waited = of("fairlock_wait_seconds_total lock=published access=read");
    assert!((1e-3..120.0).contains(&waited), "{waited}");
    assert!(of("fairlock_wait_seconds lock=published access=read quantile=1") >= 1e-3);
    assert!(of("fairlock_hold_seconds lock=published access=write quantile=1") > 0.0);
    assert_eq!(of("fairlock_condition_waits_total lock=published queue"), 1.0);
    assert!(of("fairlock_condition_wait_seconds lock=published queue quantile=1") >= 1e-3);
}

/// Spans by number, and events as text with the span that the thread is in.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<(Vec<&'static str>, Vec<String>)>>);

thread_local! {
    static IN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl tracing::Subscriber for Trace {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let spans = &mut self.0.lock().unwrap().0;
        spans.push(span.metadata().name());
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(event.metadata().target().into());
        event.record(&mut fields);
        let (spans, events) = &mut *self.0.lock().unwrap();
        events.push(format!("{}: {}", spans[IN.get() as usize - 1], fields.0));
    }

    fn enter(&self, span: &Id) {
        IN.set(span.into_u64());
    }

    fn exit(&self, _: &Id) {
        IN.set(0);
    }
}

#[test]
fn a_long_wait_is_in_the_trace_of_the_request_that_waited() {
    // Alone: `tracing` asks once, for all threads, who wants this event.
    fairlock_testing::alone(|| {
        let (trace, lock) = (Trace::default(), fairlock::Mutex::named("traced", ()));
        stats::trace_long_waits(Duration::from_millis(1));
        tracing::subscriber::with_default(trace.clone(), || {
            let holder = lock.lock();
            let request = tracing::info_span!("request");
            request.in_scope(|| assert!(lock.try_lock_for(Duration::from_millis(2)).is_none()));
            drop(holder);
        });
        let events = &trace.0.lock().unwrap().1;
        let [event] = &events[..] else { panic!("not one event: {events:?}") };
        assert!(event.starts_with("request: fairlock"), "{event}");
        for field in [
            "lock=\"traced\"",
            "access=write",
            "waited_seconds=",
            "at=",
            "stats_export.rs:",
            "holder=",
            "holder_at=",
            "ongoing=false",
            "left_out=0",
        ] {
            assert!(event.contains(field), "no {field} in {event}");
        }
        assert!(!event.contains("held_seconds"), "{event}");
    });
}
