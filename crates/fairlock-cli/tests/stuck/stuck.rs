//! A program that stands still: one thread waits for a mutex of std that main holds, and one is parked.

use std::sync::Mutex;
use std::thread::{self, Builder};

static LOCK: Mutex<u32> = Mutex::new(0);

#[inline(never)]
fn takes_the_lock() {
    *LOCK.lock().unwrap() += 1;
}

fn main() {
    let _held = LOCK.lock().unwrap();
    let waiter = Builder::new().name("waiter".into()).spawn(takes_the_lock).unwrap();
    Builder::new().name("parked".into()).spawn(|| loop { thread::park() }).unwrap();
    waiter.join().unwrap();
}
