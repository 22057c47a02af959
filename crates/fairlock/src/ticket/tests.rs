use super::*;
use crate::platform::Native;
use std::sync::Arc;
use std::cell::UnsafeCell;

struct Counter<S: BatchSize>(TicketLock<Native, S>, UnsafeCell<u64>);
unsafe impl<S: BatchSize> Sync for Counter<S> {}

fn hammer<S: BatchSize>(threads: u64, each: u64) {
    let c = Arc::new(Counter::<S>(TicketLock::new(), UnsafeCell::new(0)));
    let t: Vec<_> = (0..threads).map(|_| { let c = c.clone(); std::thread::spawn(move || {
        for _ in 0..each { c.0.lock(); unsafe { *c.1.get() += 1; c.0.unlock(); } }
    })}).collect();
    for t in t { t.join().unwrap(); }
    assert_eq!(unsafe { *c.1.get() }, threads * each);
}
#[test] fn h1() { hammer::<Fixed<1>>(4, 3000) }
#[test] fn h8() { hammer::<Fixed<8>>(16, 10000) }
#[test] fn h64() { hammer::<Fixed<64>>(16, 10000) }
#[test] fn ha() { hammer::<Adaptive<4096>>(32, 100000) }
