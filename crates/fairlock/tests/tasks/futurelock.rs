//! Programs that people reported to stand still with a lock that is granted to futures that nobody polls. Each of them ends
//! with ours, and does not with the one that grants.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::executor::{Executor, sleep, yield_now};
use crate::granting::{Granting, Lock, Offering, Permits};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(100);

/// Polls the future once, by this waker or the task's.
async fn poll_once<F: Future + Unpin>(future: &mut F, own: Option<Waker>) {
    poll_fn(|context| {
        let waker = own.as_ref().unwrap_or_else(|| context.waker());
        let polled = std::pin::pin!(&mut *future).poll(&mut Context::from_waker(waker));
        assert!(polled.is_pending(), "the lock was free");
        Poll::Ready(())
    })
    .await;
}

/// Runs the program on two threads, with a lock that a third task has for the first two milliseconds; whether it ended.
fn ends<L: Lock, F>(time: Duration, program: impl Fn(Arc<L>, Executor) -> F) -> bool
where
    F: Future<Output = ()> + Send + 'static,
{
    let (lock, executor) = (Arc::new(L::default()), Executor::default());
    let holder = lock.clone();
    let began = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let begins = began.clone();
    executor.spawn(async move {
        let guard = holder.take().await;
        begins.store(true, std::sync::atomic::Ordering::SeqCst);
        sleep(Duration::from_millis(2)).await;
        drop(guard);
    });
    let program = program(lock, executor.clone());
    executor.spawn(async move {
        while !began.load(std::sync::atomic::Ordering::SeqCst) {
            yield_now().await;
        }
        program.await;
    });
    executor.run(2, time)
}

/// As RFD 609 of Oxide has it: a task selects over a future that waits for the lock and something else; the other branch
/// wants the lock, too.
async fn select<L: Lock>(lock: Arc<L>, _: Executor) {
    let mut first = Box::pin(lock.take());
    poll_once(&mut first, None).await;
    drop(lock.take().await);
    drop(first);
}

#[test]
fn a_task_waits_twice_and_polls_the_second_future() {
    assert!(ends(LONG, select::<Offering>));
    assert!(ends(LONG, select::<Permits>));
    assert!(!ends(SHORT, select::<Granting>));
}

struct Ignored;

impl Wake for Ignored {
    fn wake(self: Arc<Self>) {}
}

/// Streams of futures have wakers of their own: the task cannot be told by them.
async fn buffered<L: Lock>(lock: Arc<L>, _: Executor) {
    let mut forgotten: Vec<_> = (0..5).map(|_| Box::pin(lock.take())).collect();
    for future in &mut forgotten {
        poll_once(future, Some(Arc::new(Ignored).into())).await;
    }
    drop(lock.take().await);
    // In the place of the lock that the stream has still.
    drop(lock.take().await);
}

#[test]
#[cfg_attr(miri, ignore = "there is no timer")]
fn futures_of_a_stream_that_nobody_polls_hold_up_nobody() {
    assert!(ends(LONG, buffered::<Offering>));
    assert!(ends(LONG, buffered::<Permits>));
    assert!(!ends(SHORT, buffered::<Granting>));
}

/// tokio 7892: a future that waits lies in a task that does something else, and others want the lock.
async fn elsewhere<L: Lock>(lock: Arc<L>, executor: Executor) {
    let mut forgotten = Box::pin(lock.take());
    poll_once(&mut forgotten, None).await;
    let (others, done) = (lock.clone(), Arc::new(()));
    for _ in 0..10 {
        let (lock, done) = (others.clone(), done.clone());
        executor.spawn(async move {
            for _ in 0..3 {
                drop(lock.take().await);
                yield_now().await;
            }
            drop(done);
        });
    }
    // It does not look at the lock before the others are through.
    while Arc::strong_count(&done) > 1 {
        yield_now().await;
    }
    // Its turn, when it is polled.
    drop(forgotten.await);
}

#[test]
#[cfg_attr(miri, ignore = "there is no timer")]
fn a_future_that_is_not_polled_for_a_while_holds_up_nobody_and_has_its_turn_then() {
    assert!(ends(LONG, elsewhere::<Offering>));
    assert!(ends(LONG, elsewhere::<Permits>));
    assert!(!ends(SHORT, elsewhere::<Granting>));
}

/// zenoh 2779: a thread of the runtime blocks in a call that waits for the lock, while the task that was offered it waits to
/// be polled by that thread.
#[test]
fn a_thread_of_the_runtime_blocks_at_the_lock_that_its_task_was_offered() {
    use fairlock::{Mutex, MutexAsyncExt};
    let (mutex, executor) = (Arc::new(Mutex::new(0)), Executor::default());
    let held = Arc::new(std::sync::Barrier::new(2));
    let (holds, holder) = (held.clone(), mutex.clone());
    let thread = std::thread::spawn(move || {
        let guard = holder.lock();
        holds.wait();
        std::thread::sleep(Duration::from_millis(10));
        drop(guard);
    });
    held.wait();
    let waits = mutex.clone();
    executor.spawn(async move { *waits.lock_async().await += 1 });
    executor.spawn(async move {
        // The first one is queued: now this blocks the only thread.
        *mutex.lock() += 1;
    });
    assert!(executor.run(1, LONG));
    thread.join().unwrap();
}
