//! Takes an uncontended lock and releases it, so many times: `pairs CASE COUNT`. For `scripts/pairs`, which counts instructions.

use std::hint::black_box;

use fairlock::{Mutex, RwLock};

/// The readers of the lock are visible from here on, where the system has such readers, and the calling thread has been one.
fn show(lock: &RwLock<()>) {
    // SAFETY: this neither takes nor releases the lock.
    let is_shown = unsafe { lock.raw() }.show_readers();
    drop(lock.read());
    assert!(is_shown, "no visible readers here");
}

fn repeat(count: u64, mut pair: impl FnMut()) {
    (0..count).for_each(|_| pair());
}

/// By a task; returns whether there is such a case.
#[cfg(feature = "async")]
fn repeat_as_task(case: &str, count: u64, mutex: &Mutex<()>, lock: &RwLock<()>) -> bool {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use fairlock::{MutexAsyncExt, RwLockAsyncExt};

    /// As an `.await` of what need not wait.
    fn ready<T>(context: &mut Context<'_>, future: impl Future<Output = T>) -> T {
        match pin!(future).poll(context) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("it waits"),
        }
    }

    let context = &mut Context::from_waker(Waker::noop());
    match case {
        "lock_async" => repeat(count, || drop(ready(context, black_box(mutex).lock_async()))),
        "read_async" => repeat(count, || drop(ready(context, black_box(lock).read_async()))),
        _ => return false,
    }
    true
}

#[cfg(not(feature = "async"))]
fn repeat_as_task(_: &str, _: u64, _: &Mutex<()>, _: &RwLock<()>) -> bool {
    false
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [case, count] = &arguments[..] else { return eprintln!("usage: pairs CASE COUNT") };
    let count = count.parse().expect("a number");
    let (mutex, [lock, visible]) = (Mutex::new(()), [(); 2].map(RwLock::new));
    if ["visible", "counted"].contains(&&case[..]) {
        show(&visible);
    }
    match &case[..] {
        "none" => repeat(count, || _ = black_box(&lock)),
        "mutex" => repeat(count, || drop(black_box(&mutex).lock())),
        "write" => repeat(count, || drop(black_box(&lock).write())),
        "read" | "counted" => repeat(count, || drop(black_box(&lock).read())),
        "visible" => repeat(count, || drop(black_box(&visible).read())),
        _ if repeat_as_task(case, count, &mutex, &lock) => {}
        _ => eprintln!("no such case: {case}"),
    }
}
