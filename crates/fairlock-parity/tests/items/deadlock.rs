//# deadlock::check_deadlock
assert!(deadlock::check_deadlock().is_empty());
//# deadlock::DeadlockedThread::thread_id
for thread in deadlock::check_deadlock().iter().flatten() { println!("{:?}", thread.thread_id()); }
//# deadlock::DeadlockedThread::backtrace
for thread in deadlock::check_deadlock().iter().flatten() { println!("{:?}", thread.backtrace()); }
