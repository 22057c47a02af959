//! Four threads run what runs one at a time, and what runs beside its like.

use std::thread;

#[serial_test::serial]
fn alone() {
    thread::yield_now();
}

#[serial_test::parallel]
fn together() {
    thread::yield_now();
}

fn main() {
    thread::scope(|s| {
        for thread in 0..4 {
            let run: fn() = if thread == 0 { alone } else { together };
            s.spawn(move || (0..100).for_each(|_| run()));
        }
    });
    print!("{}", parking_lot::stats::snapshot());
}
