//! What is left of threads that have ended.

use fairlock_testing as _; // the watchdog
use std::collections::HashSet;
use std::ptr;
use std::sync::{Barrier, Mutex};
use std::thread;

use fairlock::platform::{Native, System};

/// The thread records that were in use, by address.
type Seen = Mutex<Option<HashSet<usize>>>;

/// As a lock does where it has to be waited for.
fn use_record(seen: &Seen) {
    let record = ptr::from_ref(Native::thread()) as usize;
    seen.lock().unwrap().get_or_insert_default().insert(record);
}

static SEEN: Seen = Mutex::new(None);

struct UsesRecord;

impl Drop for UsesRecord {
    fn drop(&mut self) {
        use_record(&SEEN);
    }
}

thread_local! {
    // One of them goes after what tidies up behind the thread, in whichever order.
    static FIRST: UsesRecord = const { UsesRecord };
    static LAST: UsesRecord = const { UsesRecord };
}

#[test]
fn records_of_threads_that_lock_in_their_last_destructor_are_used_again() {
    const AT_ONCE: usize = 4;
    for _ in 0..250 {
        let all_run = Barrier::new(AT_ONCE);
        thread::scope(|s| {
            let threads = [(); AT_ONCE].map(|()| {
                s.spawn(|| {
                    FIRST.with(|_| ());
                    use_record(&SEEN);
                    LAST.with(|_| ());
                    all_run.wait();
                })
            });
            // A scope does not wait for destructors.
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
    let records = SEEN.lock().unwrap().as_ref().unwrap().len();
    assert!(records <= 4 * AT_ONCE, "{records} records for {AT_ONCE} threads at a time");
}

/// The destructors of pthread keys run when those of Rust's thread-local variables have run.
#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn records_of_threads_that_first_lock_in_the_destructor_of_a_pthread_key_are_used_again() {
    const THREADS: usize = 500;
    static SEEN: Seen = Mutex::new(None);

    fairlock_testing::at_end_of_threads(THREADS, || use_record(&SEEN));
    let records = SEEN.lock().unwrap().as_ref().unwrap().len();
    // As many as there have been threads at a time, with those of other tests.
    assert!(records <= THREADS / 10, "{records} records for one thread at a time");
}
