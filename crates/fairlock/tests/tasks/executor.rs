//! An executor of a few lines.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use fairlock_testing::within;

type Future0 = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs tasks on some threads.
#[derive(Clone, Default)]
pub(crate) struct Executor(Arc<Shared>);

#[derive(Default)]
struct Shared {
    due: Mutex<VecDeque<Arc<Task>>>,
    changed: Condvar,
    left: AtomicUsize,
    ended: AtomicBool,
}

struct Task {
    future: Mutex<Option<Future0>>,
    is_due: AtomicBool,
    shared: Arc<Shared>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.is_due.swap(true, Ordering::AcqRel) {
            self.shared.due.lock().unwrap().push_back(self.clone());
            self.shared.changed.notify_one();
        }
    }
}

impl Task {
    fn poll(self: Arc<Self>) {
        self.is_due.store(false, Ordering::Release);
        let waker = Waker::from(self.clone());
        let mut future = self.future.lock().unwrap();
        let polled = future.as_mut().map(|f| f.as_mut().poll(&mut Context::from_waker(&waker)));
        if let Some(Poll::Ready(())) = polled {
            *future = None;
            self.shared.left.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Executor {
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let shared = self.0.clone();
        shared.left.fetch_add(1, Ordering::AcqRel);
        let future = Mutex::new(Some(Box::pin(future) as Future0));
        Arc::new(Task { future, is_due: AtomicBool::new(false), shared }).wake();
    }

    /// Runs all tasks on so many threads, for so long; whether they have ended by then.
    pub(crate) fn run(&self, threads: usize, time: Duration) -> bool {
        let shared = &self.0;
        thread::scope(|s| {
            for _ in 0..threads {
                s.spawn(|| {
                    let mut due = shared.due.lock().unwrap();
                    while !shared.ended.load(Ordering::Acquire) {
                        let Some(task) = due.pop_front() else {
                            due = shared.changed.wait(due).unwrap();
                            continue;
                        };
                        drop(due);
                        task.poll();
                        due = shared.due.lock().unwrap();
                    }
                });
            }
            let ended = within(time, || shared.left.load(Ordering::Acquire) == 0);
            let mut due = shared.due.lock().unwrap();
            shared.ended.store(true, Ordering::Release);
            if ended {
                // Tasks that were woken as they ended, and own what is shared.
                due.clear();
            }
            drop(due);
            shared.changed.notify_all();
            ended
        })
    }
}

struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls the future on this thread until it is ready.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unparks(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// A waker that counts how often it was called.
#[derive(Default)]
pub(crate) struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Counter {
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let counter = Arc::new(Self::default());
        (counter.clone(), counter.into())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Polls the future once.
pub(crate) fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>, waker: &Waker) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

/// Lets other tasks run.
pub(crate) async fn yield_now() {
    let mut is_first = true;
    std::future::poll_fn(|context| {
        if std::mem::take(&mut is_first) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

/// Waits for so long.
pub(crate) async fn sleep(time: Duration) {
    let (mut timer, is_over) = (None, Arc::new(AtomicBool::new(false)));
    std::future::poll_fn(|context| {
        if is_over.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        let (waker, is_over) = (context.waker().clone(), is_over.clone());
        timer.get_or_insert_with(|| {
            thread::spawn(move || {
                thread::sleep(time);
                is_over.store(true, Ordering::SeqCst);
                waker.wake();
            })
        });
        Poll::Pending
    })
    .await;
}
