//! The waiter that is next does not come: a signal has stopped it, it is preempted beside busy threads, or it runs only where a
//! CPU is idle. How long do three threads behind it wait for the lock that is left free?
//!
//! `cargo build --release -p fairlock-preload && cargo run --release -p fairlock-capi --example absent [ROUNDS]`
//! (`scripts/results absent` puts it into docs/guide/bound.md.)
//!
//! Prints a table of Markdown: of all rounds half and the longest, until all three have had the lock. Of a condition variable:
//! until all three have returned from a wait that `notify_all` has ended. *never*: not within a second.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use std::{env, fs, mem, process, thread};

use fairlock_capi as c;

/// What a thread does while it has the lock.
type Section<'a> = &'a mut dyn FnMut();

/// A lock, or a mutex with a condition variable.
struct Subject {
    name: &'static str,
    /// Takes it, does what the section says, and gives it up.
    enter: Box<dyn Fn(Section<'_>) + Sync>,
    /// Of a condition variable: waits until it is [set](IS_SET), and returns from that with the mutex.
    wait: Option<Box<dyn Fn() + Sync>>,
    notify_all: Option<Box<dyn Fn() + Sync>>,
}

/// What the waits at condition variables are for.
static IS_SET: AtomicBool = AtomicBool::new(false);

/// How the first waiter is absent.
#[derive(Clone, Copy, PartialEq)]
enum Absent {
    Stopped,
    Preempted,
    Idle,
}

const BEHIND: usize = 3;
const NEVER: Duration = Duration::from_secs(1);

// ---- the locks ----

/// What C functions are called with: it stays where it is, and these functions are made for several threads.
struct Shared<T>(UnsafeCell<T>);

// SAFETY: it is only reached by `at`, for such functions.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Shared<T> {}

impl<T> Shared<T> {
    /// Zeros, which for all that is used here are a free lock.
    fn zero() -> &'static Self {
        // SAFETY: C structures, for which zeros are a value.
        Box::leak(Box::new(Self(UnsafeCell::new(unsafe { mem::zeroed() }))))
    }

    fn at(&self) -> *mut T {
        self.0.get()
    }
}

fn lock(name: &'static str, enter: impl Fn(Section<'_>) + Sync + 'static) -> Subject {
    Subject { name, enter: Box::new(enter), wait: None, notify_all: None }
}

/// A lock with these two C functions.
macro_rules! of_c {
    ($name:literal, $type:ty, $take:path, $give:path $(, $more:expr)*) => {{
        let own = Shared::<$type>::zero();
        lock($name, move |section| {
            // SAFETY: initialised, and stays.
            assert_eq!(unsafe { $take(own.at() $(, $more)*) }, 0);
            section();
            // SAFETY: just taken.
            assert_eq!(unsafe { $give(own.at() $(, $more)*) }, 0);
        })
    }};
}

macro_rules! of_condition {
    ($name:literal, $mutex:expr, $condition:expr, $lock:ident $(, $unwrap:ident)?) => {{
        let own = Box::leak(Box::new(($mutex, $condition)));
        let (mutex, condition) = (&own.0, &own.1);
        Subject {
            wait: Some(Box::new(move || of_condition!(@wait mutex, condition, $lock $(, $unwrap)?))),
            notify_all: Some(Box::new(move || _ = condition.notify_all())),
            ..lock($name, move |section| {
                let _guard = mutex.$lock()$(.$unwrap())?;
                section();
            })
        }
    }};
    (@wait $mutex:ident, $condition:ident, $lock:ident) => {{
        let mut guard = $mutex.$lock();
        while !IS_SET.load(SeqCst) {
            $condition.wait(&mut guard);
        }
    }};
    (@wait $mutex:ident, $condition:ident, $lock:ident, $unwrap:ident) => {{
        let mut guard = $mutex.$lock().$unwrap();
        while !IS_SET.load(SeqCst) {
            guard = $condition.wait(guard).$unwrap();
        }
    }};
}

/// A condition variable of C, with its mutex.
macro_rules! of_c_condition {
    ($name:literal, $mutex:ty, $condition:ty, $lock:path, $unlock:path, $wait:path, $all:path) => {{
        let (mutex, condition) = (Shared::<$mutex>::zero(), Shared::<$condition>::zero());
        Subject {
            wait: Some(Box::new(move || {
                // SAFETY: initialised, and stay; the mutex is held.
                unsafe {
                    $lock(mutex.at());
                    while !IS_SET.load(SeqCst) {
                        $wait(condition.at(), mutex.at());
                    }
                    $unlock(mutex.at());
                }
            })),
            // SAFETY: initialised, and stays.
            notify_all: Some(Box::new(move || _ = unsafe { $all(condition.at()) })),
            ..of_c!($name, $mutex, $lock, $unlock)
        }
    }};
}

fn ours() -> Vec<Subject> {
    let rwlock = fairlock::RwLock::new(());
    let mutex = fairlock::Mutex::new(());
    let ranges = fairlock::RangeRwLock::new();
    let semaphore = fairlock::Semaphore::new(1);
    vec![
        lock("Mutex", move |section| {
            let _guard = mutex.lock();
            section();
        }),
        lock("RwLock", move |section| {
            let _guard = rwlock.write();
            section();
        }),
        lock("Semaphore", move |section| {
            let _permit = semaphore.acquire();
            section();
        }),
        lock("RangeRwLock", move |section| {
            let _guard = ranges.write(0..10);
            section();
        }),
        of_condition!("Condvar", fairlock::Mutex::new(()), fairlock::Condvar::new(), lock),
        of_c!("C: mutex", c::fairlock_mutex_t, c::fairlock_mutex_lock, c::fairlock_mutex_unlock),
        of_c!(
            "C: rwlock",
            c::fairlock_rwlock_t,
            c::fairlock_rwlock_write,
            c::fairlock_rwlock_unlock_write
        ),
        of_c_condition!(
            "C: condition",
            c::fairlock_mutex_t,
            c::fairlock_cond_t,
            c::fairlock_mutex_lock,
            c::fairlock_mutex_unlock,
            c::fairlock_cond_wait,
            c::fairlock_cond_broadcast
        ),
    ]
}

fn peers() -> Vec<Subject> {
    let mutex = std::sync::Mutex::new(());
    let rwlock = std::sync::RwLock::new(());
    let other = parking_lot::Mutex::new(());
    let other_rwlock = parking_lot::RwLock::new(());
    vec![
        lock("std: Mutex", move |section| {
            let _guard = mutex.lock().unwrap();
            section();
        }),
        lock("std: RwLock", move |section| {
            let _guard = rwlock.write().unwrap();
            section();
        }),
        of_condition!(
            "std: Condvar",
            std::sync::Mutex::new(()),
            std::sync::Condvar::new(),
            lock,
            unwrap
        ),
        lock("parking_lot: Mutex", move |section| {
            let _guard = other.lock();
            section();
        }),
        lock("parking_lot: RwLock", move |section| {
            let _guard = other_rwlock.write();
            section();
        }),
        of_condition!(
            "parking_lot: Condvar",
            parking_lot::Mutex::new(()),
            parking_lot::Condvar::new(),
            lock
        ),
    ]
}

/// Those of the C library, or, in a process with the library, ours.
fn pthread() -> Vec<Subject> {
    vec![
        of_c!(
            "pthread: mutex",
            libc::pthread_mutex_t,
            libc::pthread_mutex_lock,
            libc::pthread_mutex_unlock
        ),
        of_c!(
            "pthread: rwlock",
            libc::pthread_rwlock_t,
            libc::pthread_rwlock_wrlock,
            libc::pthread_rwlock_unlock
        ),
        of_c_condition!(
            "pthread: condition",
            libc::pthread_mutex_t,
            libc::pthread_cond_t,
            libc::pthread_mutex_lock,
            libc::pthread_mutex_unlock,
            libc::pthread_cond_wait,
            libc::pthread_cond_broadcast
        ),
    ]
}

// ---- a round ----

static RESUMES: AtomicBool = AtomicBool::new(false);
static BUSY: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_: libc::c_int) {
    while !RESUMES.load(SeqCst) {
        // SAFETY: a function for signal handlers.
        unsafe { libc::usleep(1_000) };
    }
}

/// Starts as many busy threads as there are CPUs, and one more. They are busy while `BUSY` says so.
fn start_busy_threads() {
    for _ in 0..=thread::available_parallelism().map_or(1, usize::from) {
        thread::spawn(|| {
            loop {
                if !BUSY.load(SeqCst) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
    }
}

fn gettid() -> i32 {
    // SAFETY: it takes nothing.
    unsafe { libc::gettid() }
}

/// Waits until the thread of this number, once it has one, sleeps.
fn until_asleep(tid: &AtomicI32) {
    loop {
        thread::sleep(Duration::from_millis(1));
        let stat = fs::read_to_string(format!("/proc/self/task/{}/stat", tid.load(SeqCst)));
        if stat.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|it| it.starts_with('S'))) {
            return;
        }
    }
}

/// The thread does not run from here on, or hardly.
fn take_away(thread: libc::pthread_t, tid: i32, absent: Absent) {
    // SAFETY: a thread that runs; the other arguments are as these functions want them.
    let result = unsafe {
        match absent {
            Absent::Stopped => libc::pthread_kill(thread, libc::SIGUSR1),
            Absent::Preempted => libc::setpriority(libc::PRIO_PROCESS, tid as u32, 19),
            Absent::Idle => libc::sched_setscheduler(tid, libc::SCHED_IDLE, &mem::zeroed()),
        }
    };
    assert_eq!(result, 0);
    BUSY.store(absent != Absent::Stopped, SeqCst);
    thread::sleep(Duration::from_millis(5));
}

/// How long the last of those behind waits for the lock; nothing if it has waited for a second.
fn round(subject: &Subject, absent: Absent) -> Option<Duration> {
    RESUMES.store(false, SeqCst);
    IS_SET.store(false, SeqCst);
    let (first, thread, last) = (AtomicI32::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let behind = [const { AtomicI32::new(0) }; BEHIND];
    let came = AtomicI32::new(0);
    let begin = Instant::now();
    let wait = |tid: &AtomicI32, then: &dyn Fn()| {
        tid.store(gettid(), SeqCst);
        match &subject.wait {
            Some(wait) => {
                wait();
                then();
            }
            None => (subject.enter)(&mut || then()),
        }
    };
    thread::scope(|scope| {
        let mut prepare = || {
            scope.spawn(|| {
                // SAFETY: it takes nothing.
                thread.store(unsafe { libc::pthread_self() }, SeqCst);
                wait(&first, &|| {});
            });
            until_asleep(&first);
            for tid in &behind {
                scope.spawn(|| {
                    wait(tid, &|| {
                        last.fetch_max(begin.elapsed().as_nanos() as u64, SeqCst);
                        came.fetch_add(1, SeqCst);
                    });
                });
                until_asleep(tid);
            }
            take_away(thread.load(SeqCst), first.load(SeqCst), absent);
        };
        match &subject.notify_all {
            Some(notify_all) => {
                prepare();
                (subject.enter)(&mut || IS_SET.store(true, SeqCst));
                notify_all();
            }
            None => (subject.enter)(&mut prepare),
        }
        let left = begin.elapsed();
        while came.load(SeqCst) < BEHIND as i32 && begin.elapsed() - left < NEVER {
            thread::sleep(Duration::from_millis(2));
        }
        let all_came = came.load(SeqCst) == BEHIND as i32;
        BUSY.store(false, SeqCst);
        RESUMES.store(true, SeqCst);
        all_came.then(|| Duration::from_nanos(last.load(SeqCst)).saturating_sub(left))
    })
}

// ---- the table ----

fn cell(mut waits: Vec<Option<Duration>>) -> String {
    let text = |wait: Option<Duration>| match wait {
        None => "never".to_owned(),
        Some(wait) => format!("{:.1}", wait.as_secs_f64() * 1e3),
    };
    waits.sort_by_key(|wait| wait.unwrap_or(NEVER));
    format!("{}, {}", text(waits[waits.len() / 2]), text(waits[waits.len() - 1]))
}

fn row(subject: &Subject, name: &str, rounds: usize) {
    let cells = [Absent::Stopped, Absent::Preempted, Absent::Idle]
        .map(|absent| cell((0..rounds).map(|_| round(subject, absent)).collect()));
    println!("| {name} | {} |", cells.join(" | "));
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let rounds = arguments.first().map_or(Ok(11), |rounds| rounds.parse());
    let Some(rounds) = rounds.ok().filter(|&rounds| rounds > 0) else {
        eprintln!("absent: {:?} is not a number of rounds: use one, such as 11", arguments[0]);
        process::exit(2);
    };
    // SAFETY: a handler that only sleeps.
    unsafe {
        libc::signal(libc::SIGUSR1, stop as extern "C" fn(libc::c_int) as libc::sighandler_t)
    };
    start_busy_threads();
    if arguments.get(1).is_some_and(|it| it == "preload") {
        for subject in pthread() {
            row(&subject, &subject.name.replace("pthread", "preload"), rounds);
        }
        return;
    }
    println!("| ms: half, longest | stopped | preempted | idle |\n|---|---|---|---|");
    for subject in ours() {
        row(&subject, subject.name, rounds);
    }
    let program = env::current_exe().expect("a program that runs has a path");
    let library = program.ancestors().nth(2).map(|it| it.join("libfairlock_preload.so"));
    match library.filter(|it| it.exists()) {
        Some(library) => {
            let mut command = process::Command::new(program);
            command.args([&rounds.to_string(), "preload"]).env("LD_PRELOAD", library);
            let status = command.status().expect("this program starts");
            assert!(status.success(), "{status}");
        }
        None => eprintln!(
            "absent: no libfairlock_preload.so: cargo build --release -p fairlock-preload"
        ),
    }
    for subject in peers().into_iter().chain(pthread()) {
        row(&subject, subject.name, rounds);
    }
}
