//# deadlock::check_deadlock
assert!(deadlock::check_deadlock().is_empty());
//~ not here: keep parking_lot's in a build that looks for deadlocks
//# deadlock::DeadlockedThread::thread_id
for thread in deadlock::check_deadlock().iter().flatten() { println!("{:?}", thread.thread_id()); }
//~ not here: keep parking_lot's in a build that looks for deadlocks
//# deadlock::DeadlockedThread::backtrace
for thread in deadlock::check_deadlock().iter().flatten() { println!("{:?}", thread.backtrace()); }
//~ not here: keep parking_lot's in a build that looks for deadlocks
