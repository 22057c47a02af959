//! Four threads count requests by name, while another collects the counters.

use std::thread;

use prometheus::core::Collector;
use prometheus::{IntCounterVec, Opts};

fn main() {
    let requests = IntCounterVec::new(Opts::new("requests", "by name"), &["name"]).unwrap();
    thread::scope(|s| {
        for thread in 0..4 {
            let requests = &requests;
            s.spawn(move || {
                for i in 0..10_000 {
                    requests.with_label_values(&[format!("{thread} {}", i % 100)]).inc();
                }
            });
        }
        s.spawn(|| (0..100).for_each(|_| drop(requests.collect())));
    });
    print!("{}", fairlock::stats::snapshot());
}
