//! What the tests of this workspace share: a test that fails ends, and says why.
//!
//! A test of a lock has threads that wait for each other. If one of them fails, the others
//! may wait for ever, and with them the scope that wants to join them. So tests use this
//! crate's [`scope`], [`until`] and [`join`]: they wait for a while, and then end the
//! process, with the stack of every thread.
//!
//! On Linux a [watchdog](limit) does the same for whatever else waits for ever, in every test
//! program that links this crate. One that uses nothing of it says
//! `use fairlock_testing as _;`.

#[cfg(all(target_os = "linux", not(miri)))]
mod stacks;
#[cfg(all(target_os = "linux", not(miri)))]
mod watchdog;

use std::io::{self, Write};
use std::panic::Location;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// The process ends.
static ENDS: AtomicBool = AtomicBool::new(false);

/// How long a test may take before the watchdog ends the process: ten minutes, or as many
/// seconds as `FAIRLOCK_TEST_LIMIT` says.
pub fn limit() -> Duration {
    let seconds = std::env::var("FAIRLOCK_TEST_LIMIT").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(600))
}

/// How long to wait for what must happen, as [`within`] counts: a fifth of the [`limit`]. It
/// is only used up by what never happens.
pub fn patience() -> Duration {
    limit() / 5
}

/// Waits for what should happen, so long at most; tells whether it did. Counted in sleeps and
/// not by a clock: nothing of it is used up while the machine has no CPU for this process, or
/// has stopped it.
pub fn within(time: Duration, mut what: impl FnMut() -> bool) -> bool {
    let sleep = Duration::from_micros(100);
    for _ in 0..time.as_micros() / sleep.as_micros() {
        if what() {
            return true;
        }
        thread::sleep(sleep);
    }
    what()
}

/// Ends the process, and says why: with the stacks of all threads, and what the test printed.
pub fn end(why: &str) -> ! {
    // Written at once: the test harness keeps what is printed to itself.
    let _ = writeln!(io::stderr(), "\n{}: {why}", name());
    #[cfg(all(target_os = "linux", not(miri)))]
    stacks::print();
    // The harness gives out what it kept when a panic cannot unwind.
    ENDS.store(true, Ordering::Relaxed);
    extern "C" fn fail() {
        panic!("the process ends here");
    }
    fail();
    unreachable!()
}

/// The calling thread's, or that of the one that started it.
fn name() -> String {
    #[cfg(all(target_os = "linux", not(miri)))]
    let inherited = || stacks::name(stacks::this_thread());
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let inherited = || String::from("a thread of a test");
    thread::current().name().map_or_else(inherited, String::from)
}

/// Waits for what must happen, and ends the process if it does not ([`patience`]).
#[track_caller]
pub fn until(what: impl FnMut() -> bool) {
    let caller = Location::caller();
    if !within(patience(), what) {
        end(&format!("{caller}: what must happen did not, in {:?}", patience()));
    }
}

/// What the thread returns, or its panic. Waits as [`until`].
#[track_caller]
pub fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    until(|| thread.is_finished());
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Runs `what` in a child that the calling thread forks: it must end there, without a panic.
/// Waits as [`until`]. Linux only; left out under Miri.
#[cfg(target_os = "linux")]
#[track_caller]
pub fn in_child(what: impl FnOnce()) {
    if cfg!(miri) {
        return;
    }
    // SAFETY: the C library lets the child allocate and start threads.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(what));
        // SAFETY: ends the process, with nothing run that belongs to its parent.
        unsafe { libc::_exit(ended.is_err().into()) };
    }
    assert!(child > 0, "fork: {}", io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: writes the status of a child of this process.
    let mut wait = |how| unsafe { libc::waitpid(child, &mut status, how) };
    if !within(patience(), || wait(libc::WNOHANG) == child) {
        // SAFETY: it is still there, as nobody has waited for its end.
        unsafe { libc::kill(child, libc::SIGKILL) };
        wait(0);
        end("the child has not ended");
    }
    if status != 0 {
        end(&format!("the child has ended with status {status}"));
    }
}

/// Runs `what` at the end of so many threads, one after the other: in the destructor of a pthread key, when those of
/// Rust's thread-local variables have run. Linux only; left out under Miri.
#[cfg(target_os = "linux")]
pub fn at_end_of_threads(threads: usize, what: fn()) {
    extern "C" fn end(what: *mut libc::c_void) {
        // SAFETY: the value of the key, below.
        let what = unsafe { std::mem::transmute::<*mut libc::c_void, fn()>(what) };
        what();
    }
    if cfg!(miri) {
        return;
    }
    let mut key = 0;
    // SAFETY: there is room for the key.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(end)) }, 0);
    for _ in 0..threads {
        // SAFETY: the key was made.
        let set = move || unsafe { libc::pthread_setspecific(key, what as *const libc::c_void) };
        assert_eq!(thread::spawn(set).join().unwrap(), 0);
    }
    // SAFETY: the key was made, and all threads have ended.
    unsafe { libc::pthread_key_delete(key) };
}

/// So many rounds of a test, or a hundredth of them under Miri, which is that much slower.
pub fn rounds(rounds: usize) -> usize {
    if cfg!(miri) { rounds.div_ceil(100) } else { rounds }
}

/// Runs the calling test in a process of its own, for one that looks at what the whole
/// process shares. To be called by the test's own thread, first of all. Left out under Miri,
/// which starts no processes.
pub fn alone(test: impl FnOnce()) {
    if cfg!(miri) {
        return;
    }
    const IS_ALONE: &str = "FAIRLOCK_TEST_IS_ALONE";
    if std::env::var_os(IS_ALONE).is_some() {
        return test();
    }
    let name = thread::current().name().expect("the name of the test").to_owned();
    let output = Command::new(std::env::current_exe().expect("this test has a path"))
        .args(["--exact", &name, "--include-ignored", "--nocapture"])
        .env(IS_ALONE, "1")
        .output()
        .expect("this test runs again");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.contains("1 passed"), "{}: {said}", output.status);
}

/// [`std::thread::scope`], which ends even if one of its threads has panicked and the others
/// wait for it: after ten seconds it ends
/// the process.
pub fn scope<'env, T>(f: impl for<'scope> FnOnce(Scope<'scope, 'env>) -> T) -> T {
    let members = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        let _member = Member::new(&members);
        f(Scope { scope, members: members.clone() })
    })
}

/// As [`std::thread::Scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    scope: &'scope thread::Scope<'scope, 'env>,
    members: Arc<AtomicUsize>,
}

impl<'scope> Scope<'scope, '_> {
    /// As [`std::thread::Scope::spawn`].
    pub fn spawn<T: Send + 'scope>(
        &self,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        let member = Member::new(&self.members);
        self.scope.spawn(move || {
            let _member = member;
            f()
        })
    }
}

/// A thread of a scope, its own among them, that has not ended. Counted in the scope.
struct Member(Arc<AtomicUsize>);

impl Member {
    fn new(members: &Arc<AtomicUsize>) -> Self {
        members.fetch_add(1, Ordering::SeqCst);
        Self(members.clone())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
        if !thread::panicking() {
            return;
        }
        // By a thread of its own, as whoever waits for this one may end with it.
        let members = self.0.clone();
        thread::spawn(move || {
            if !within(patience() / 12, || members.load(Ordering::SeqCst) == 0) {
                end("a thread has failed, and others of its scope do not end");
            }
        });
    }
}
