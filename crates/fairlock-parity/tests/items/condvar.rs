//# Condvar
static READY: Condvar = Condvar::new(); assert!(!READY.notify_one());
//# Condvar::new
assert_eq!(Condvar::new().notify_all(), 0);
//# Condvar::notify_one
let lock = Mutex::new(false); let ready = Condvar::new();
std::thread::scope(|s| { let mut guard = lock.lock(); s.spawn(|| { *lock.lock() = true; assert!(ready.notify_one()); }); while !*guard { ready.wait(&mut guard); } });
//# Condvar::notify_all
let lock = Mutex::new(false); let ready = Condvar::new();
std::thread::scope(|s| { let mut guard = lock.lock(); s.spawn(|| { *lock.lock() = true; assert_eq!(ready.notify_all(), 1); }); while !*guard { ready.wait(&mut guard); } });
//# Condvar::wait
let lock = Mutex::new(false); let ready = Condvar::new();
std::thread::scope(|s| { let mut guard = lock.lock(); s.spawn(|| { *lock.lock() = true; ready.notify_one(); }); while !*guard { ready.wait(&mut guard); } assert!(lock.is_locked()); });
//# Condvar::wait_until
let lock = Mutex::new(0); let result: WaitTimeoutResult = Condvar::new().wait_until(&mut lock.lock(), soon()); assert!(result.timed_out());
//# Condvar::wait_for
let lock = Mutex::new(0); assert!(Condvar::new().wait_for(&mut lock.lock(), SHORT).timed_out());
//# Condvar::wait_while
let lock = Mutex::new(true); let ready = Condvar::new();
std::thread::scope(|s| { let mut guard = lock.lock(); s.spawn(|| { *lock.lock() = false; ready.notify_one(); }); ready.wait_while(&mut guard, |wait| *wait); assert!(!*guard); });
//# Condvar::wait_while_until
let lock = Mutex::new(true); assert!(Condvar::new().wait_while_until(&mut lock.lock(), |wait| *wait, soon()).timed_out());
//# Condvar::wait_while_for
let lock = Mutex::new(true); assert!(Condvar::new().wait_while_for(&mut lock.lock(), |wait| *wait, SHORT).timed_out());
//# Condvar: Default
assert!(!Condvar::default().notify_one());
//# Condvar: Debug
assert_eq!(format!("{:?}", Condvar::new()), "Condvar { .. }");
//# Condvar: Send, Sync
fn check<T: Send + Sync>() {} check::<Condvar>();
//# WaitTimeoutResult
fn check<T: Copy + Eq + std::fmt::Debug>() {} check::<WaitTimeoutResult>();
//# WaitTimeoutResult::timed_out
let lock = Mutex::new(0); let late: bool = Condvar::new().wait_for(&mut lock.lock(), SHORT).timed_out(); assert!(late);
