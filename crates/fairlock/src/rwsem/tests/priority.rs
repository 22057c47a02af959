//! Real-time threads, on a machine that allows them. (The concurrency tester tries them on any
//! machine, by every schedule it can think of: `rwsem:priorities`.)

use crate::events::{Event, EventCounts};
use crate::platform::System;
use std::io::{self, Write};
use std::sync::Mutex;

use super::*;

/// With usual tenures, and with the shortest.
fn policies() -> [Policy; 2] {
    POLICIES.map(|(_, policy)| policy.with_priorities())
}

/// Puts the calling thread under `SCHED_FIFO`; returns whether the system allows it.
fn become_real_time(priority: u8) -> bool {
    // SAFETY: the struct has numbers only, for which zero is valid.
    let mut param: libc::sched_param = unsafe { core::mem::zeroed() };
    param.sched_priority = priority.into();
    // SAFETY: `param` is what the call wants; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) == 0 }
}

/// Puts the calling thread under `SCHED_DEADLINE`; returns whether the system allows it.
fn become_deadline() -> bool {
    /// The kernel's `struct sched_attr`.
    #[repr(C)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: 6,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime: 1_000_000,
        deadline: 10_000_000,
        period: 10_000_000,
    };
    // SAFETY: attributes of the size that they say; 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

/// Whether real-time threads are allowed here; if not, says so past the test harness.
fn real_time_is_allowed() -> bool {
    is_allowed("SCHED_FIFO", || become_real_time(9))
}

fn is_allowed(policy: &str, become_it: impl FnOnce() -> bool + Send + 'static) -> bool {
    let allowed = thread::spawn(become_it).join().unwrap();
    if !allowed {
        let test = thread::current();
        let name = test.name().unwrap_or("a test").to_owned();
        let _ = writeln!(io::stderr(), "{name}: NOT TESTED, {policy} needs CAP_SYS_NICE");
    }
    allowed
}

#[test]
fn the_platform_knows_a_real_time_thread() {
    assert_eq!(Native::priority(), 0);
    if real_time_is_allowed() {
        let priority = thread::spawn(|| become_real_time(7).then(Native::priority));
        assert_eq!(priority.join().unwrap(), Some(7));
    }
}

#[test]
fn a_thread_with_a_deadline_goes_before_every_other_real_time_thread() {
    if is_allowed("SCHED_DEADLINE", become_deadline) {
        let priority = thread::spawn(|| become_deadline().then(Native::priority));
        assert!(priority.join().unwrap() > Some(99));
    }
}

#[test]
fn real_time_threads_are_let_in_by_priority() {
    if !real_time_is_allowed() {
        return;
    }
    let [reader, writer] = [Kind::Reader, Kind::Writer];
    let visitors =
        [(writer, 0), (reader, 5), (writer, 5), (reader, 9), (writer, 9), (reader, 0), (writer, 7)];
    for policy in policies() {
        let lock = &Lock::new(policy);
        let order = &Mutex::new(vec![]);
        lock.write();
        scope(|s| {
            let mut threads = vec![];
            for (kind, priority) in visitors {
                threads.push(s.spawn(move || {
                    assert!(priority == 0 || become_real_time(priority));
                    let note = || order.lock().unwrap().push((kind, priority));
                    if kind == reader {
                        lock.read();
                        note();
                        // SAFETY: just taken.
                        unsafe { lock.unlock_read() };
                    } else {
                        lock.write();
                        note();
                        // SAFETY: just taken.
                        unsafe { lock.unlock_write() };
                    }
                }));
                until(|| waiters(lock) == threads.len());
            }
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
            threads.into_iter().for_each(|thread| join(thread));
        });
        // The last real-time reader may be let in together with the other reader.
        let by_priority = [(writer, 9), (reader, 9), (writer, 7), (writer, 5)];
        assert_eq!(order.lock().unwrap()[..4], by_priority, "{policy:?}");
        assert_free(lock);
    }
}

/// Runs `test` under each policy, with the lock read, and a writer without a priority behind that.
/// The test lets the lock go.
fn before_a_low_writer(test: impl Fn(&Lock, Policy)) {
    if !real_time_is_allowed() {
        return;
    }
    for policy in policies() {
        let lock = &Lock::new(policy);
        lock.read();
        scope(|s| {
            let low = s.spawn(|| visit(lock, Kind::Writer));
            until(|| waiters(lock) == 1);
            test(lock, policy);
            join(low);
        });
        assert_free(lock);
    }
}

/// A deadline that is over takes no more from a reader than a try does.
#[test]
fn a_real_time_reader_without_time_passes_lower_writers() {
    before_a_low_writer(|lock, policy| {
        close(lock);
        scope(|s| {
            join(s.spawn(|| {
                assert!(become_real_time(5));
                assert_eq!(lock.read_with(Wait::until_nanos(0)), Ok(()), "{policy:?}");
            }));
        });
        // SAFETY: taken above, and before.
        unsafe { (lock.unlock_read(), lock.unlock_read()) };
    });
}

#[test]
fn a_real_time_reader_passes_lower_writers_and_no_others() {
    before_a_low_writer(|lock, policy| {
        assert!(!lock.try_read());
        // SAFETY: read if that is true.
        let pass = |read: bool| read.then(|| unsafe { lock.unlock_read() }).is_some();
        scope(|s| {
            let passed = s.spawn(move || {
                assert!(become_real_time(5));
                pass(lock.try_read()) && pass(lock.read_with(Wait::until_nanos(soon(2))).is_ok())
            });
            assert!(join(passed), "{policy:?}");
            let high = s.spawn(|| {
                assert!(become_real_time(5));
                visit(lock, Kind::Writer);
            });
            until(|| waiters(lock) == 2);
            let passed = s.spawn(move || {
                assert!(become_real_time(5));
                pass(lock.try_read()) || pass(lock.read_with(Wait::until_nanos(soon(2))).is_ok())
            });
            assert!(!join(passed), "{policy:?}");
            // SAFETY: read before.
            unsafe { lock.unlock_read() };
            join(high);
        });
    });
}

#[test]
fn reads_past_lower_writers_are_counted() {
    static COUNTS: EventCounts = EventCounts::new();
    before_a_low_writer(|lock, policy| {
        lock.set_events(Some(&COUNTS));
        COUNTS.reset();
        scope(|s| {
            join(s.spawn(|| {
                assert!(become_real_time(5) && lock.try_read(), "{policy:?}");
            }));
        });
        assert_eq!(COUNTS.get(Event::ReadSteal), 1, "{policy:?}");
        // SAFETY: taken above, and before.
        unsafe { (lock.unlock_read(), lock.unlock_read()) };
    });
}

#[test]
fn where_the_policy_knows_no_priorities_a_real_time_thread_has_its_place_in_the_queue() {
    if !real_time_is_allowed() {
        return;
    }
    for (_, policy) in POLICIES {
        let lock = &Lock::new(policy);
        let order = &Mutex::new(vec![]);
        lock.write();
        scope(|s| {
            let mut writers = vec![];
            for priority in [0, 5, 9] {
                writers.push(s.spawn(move || {
                    assert!(priority == 0 || become_real_time(priority));
                    lock.write();
                    order.lock().unwrap().push(priority);
                    // SAFETY: just taken.
                    unsafe { lock.unlock_write() };
                }));
                until(|| waiters(lock) == writers.len());
            }
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
            writers.into_iter().for_each(|writer| join(writer));
        });
        assert_eq!(*order.lock().unwrap(), [0, 5, 9], "{policy:?}");
        assert_free(lock);
    }
}
