//! What an acquire and release costs that nobody contends with.

use std::cell::Cell;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use fairlock::lock_api::RwLockUpgradableReadGuard;
use fairlock::{
    CancelToken, Mutex, RangeRwLock, ReentrantMutex, RwLock, RwLockExt, RwLockWriteGuard,
};

fn rwlock(c: &mut Criterion) {
    let mut group = c.benchmark_group("rwlock");
    let lock = RwLock::new(0_u64);
    let token = CancelToken::new();
    group.bench_function("read", |b| b.iter(|| black_box(*lock.read())));
    group.bench_function("write", |b| b.iter(|| *lock.write() += 1));
    group.bench_function("write, then downgrade", |b| {
        b.iter(|| black_box(*RwLockWriteGuard::downgrade(lock.write())));
    });
    group.bench_function("read_for", |b| {
        b.iter(|| lock.read_for(Duration::from_millis(1)).map(|value| black_box(*value)));
    });
    group.bench_function("read_cancellable", |b| {
        b.iter(|| lock.read_cancellable(&token).map(|value| black_box(*value)));
    });
    group.bench_function("upgradable read", |b| b.iter(|| black_box(*lock.upgradable_read())));
    group.bench_function("upgradable read, then upgrade", |b| {
        b.iter(|| *RwLockUpgradableReadGuard::upgrade(lock.upgradable_read()) += 1);
    });
    let other = parking_lot::RwLock::new(0_u64);
    group.bench_function("upgradable read, parking_lot", |b| {
        b.iter(|| black_box(*other.upgradable_read()));
    });
    group.bench_function("upgradable read, then upgrade, parking_lot", |b| {
        b.iter(|| *parking_lot::RwLockUpgradableReadGuard::upgrade(other.upgradable_read()) += 1);
    });
    group.bench_function("read, parking_lot", |b| b.iter(|| black_box(*other.read())));
    group.bench_function("write, parking_lot", |b| b.iter(|| *other.write() += 1));
}

fn mutex(c: &mut Criterion) {
    let mut group = c.benchmark_group("mutex");
    let lock = Mutex::new(0_u64);
    group.bench_function("lock", |b| b.iter(|| *lock.lock() += 1));
    group.bench_function("try_lock, held", |b| {
        let _guard = lock.lock();
        b.iter(|| black_box(lock.try_lock().is_none()));
    });
    let other = parking_lot::Mutex::new(0_u64);
    group.bench_function("lock, parking_lot", |b| b.iter(|| *other.lock() += 1));
}

fn reentrant(c: &mut Criterion) {
    let mut group = c.benchmark_group("reentrant");
    let lock = ReentrantMutex::new(Cell::new(0_u64));
    group.bench_function("lock", |b| b.iter(|| lock.lock().set(1)));
    group.bench_function("lock again", |b| {
        let _guard = lock.lock();
        b.iter(|| lock.lock().set(1));
    });
    let other = parking_lot::ReentrantMutex::new(Cell::new(0_u64));
    group.bench_function("lock, parking_lot", |b| b.iter(|| other.lock().set(1)));
    group.bench_function("lock again, parking_lot", |b| {
        let _guard = other.lock();
        b.iter(|| other.lock().set(1));
    });
}

fn range(c: &mut Criterion) {
    let mut group = c.benchmark_group("range");
    let lock = RangeRwLock::new();
    group.bench_function("read", |b| b.iter(|| lock.read(10..20).map(drop)));
    group.bench_function("write", |b| b.iter(|| lock.write(10..20).map(drop)));
    group.bench_function("write everything", |b| b.iter(|| lock.write(..).map(drop)));
    // More than there are slots, so that some are in the tree.
    let _held: Vec<_> = (10..266).map(|n| lock.write(n * 100..n * 100 + 50)).collect();
    group.bench_function("write beside 256 held", |b| {
        b.iter(|| lock.write(10_060..10_080).map(drop))
    });
}

criterion_group!(benches, rwlock, mutex, reentrant, range);
criterion_main!(benches);
