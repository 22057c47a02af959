//! A lock that nobody else wants.

use std::hint::black_box;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use fairlock::MutexAsyncExt;

use crate::median;

/// Nanoseconds that one call takes.
fn each_ns(mut call: impl FnMut()) -> f64 {
    const CALLS: u32 = 200_000;
    let began = Instant::now();
    (0..CALLS).for_each(|_| call());
    began.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// Polls a future that does not wait.
fn ready<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the lock is free"),
    }
}

pub fn free(rounds: usize) {
    let (ours, std) = (fairlock::Mutex::new(0_u64), std::sync::Mutex::new(0_u64));
    let tokio = tokio::sync::Mutex::new(0_u64);
    let (futures, async_lock) =
        (futures_util::lock::Mutex::new(0_u64), async_lock::Mutex::new(0_u64));
    let saa = saa::lock_api::Mutex::new(0_u64);
    let mut times = [const { Vec::new() }; 7];
    for _ in 0..rounds {
        times[0].push(each_ns(|| *ready(black_box(&ours).lock_async()) += 1));
        times[1].push(each_ns(|| *black_box(&ours).lock() += 1));
        times[2].push(each_ns(|| *ready(black_box(&tokio).lock()) += 1));
        times[3].push(each_ns(|| *ready(black_box(&async_lock).lock()) += 1));
        times[4].push(each_ns(|| *ready(black_box(&futures).lock()) += 1));
        times[5].push(each_ns(|| *ready(saa::lock_api::lock_async(black_box(&saa))) += 1));
        times[6].push(each_ns(|| *black_box(&std).lock().unwrap() += 1));
    }
    let bytes = [
        size_of::<fairlock::Mutex<()>>(),
        size_of::<fairlock::Mutex<()>>(),
        size_of::<tokio::sync::Mutex<()>>(),
        size_of::<async_lock::Mutex<()>>(),
        size_of::<futures_util::lock::Mutex<()>>(),
        size_of::<saa::lock_api::Mutex<()>>(),
        size_of::<std::sync::Mutex<()>>(),
    ];
    let names = [
        "fairlock `lock_async().await`",
        "fairlock `lock()`",
        "tokio",
        "async-lock",
        "futures",
        "saa",
        "std `lock()`",
    ];
    println!("| free mutex | ns a pair | fairlock's task / this | bytes of `Mutex<()>` |");
    println!("|---|--:|--:|--:|");
    let own = times[0].clone();
    for ((name, times), bytes) in names.into_iter().zip(times).zip(bytes) {
        let ratios = own.iter().zip(&times).map(|(own, time)| own / time);
        println!("| {name} | {:.2} | {:.2} | {bytes} |", median(times.clone()), median(ratios));
    }
}
