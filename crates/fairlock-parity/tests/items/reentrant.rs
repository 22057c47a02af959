//# ReentrantMutex
let lock: ReentrantMutex<u32> = ReentrantMutex::new(1); let first = lock.lock(); assert_eq!(*first, *lock.lock());
//# ReentrantMutex::new
static LOCK: ReentrantMutex<u32> = ReentrantMutex::new(1); assert_eq!(*LOCK.lock(), 1);
//# ReentrantMutex::into_inner
assert_eq!(ReentrantMutex::new(3).into_inner(), 3);
//# ReentrantMutex::from_raw
let lock = ReentrantMutex::from_raw(<RawMutex as lock_api::RawMutex>::INIT, <RawThreadId as lock_api::GetThreadId>::INIT, 1); assert_eq!(*lock.lock(), 1);
//# ReentrantMutex::const_new
static LOCK: ReentrantMutex<u32> = ReentrantMutex::const_new(<RawMutex as lock_api::RawMutex>::INIT, <RawThreadId as lock_api::GetThreadId>::INIT, 1); assert_eq!(*LOCK.lock(), 1);
//~ `ReentrantMutex::from_raw`, which is the same
//# ReentrantMutex::make_guard_unchecked
let lock = ReentrantMutex::new(1); std::mem::forget(lock.lock()); assert_eq!(*unsafe { lock.make_guard_unchecked() }, 1); assert!(!lock.is_locked());
//~ pass `fairlock::lock_api_05::GuardMarker::new()`
//# ReentrantMutex::lock
let lock = ReentrantMutex::new(Cell::new(1)); let first = lock.lock(); lock.lock().set(2); assert_eq!(first.get(), 2);
//# ReentrantMutex::try_lock
let lock = ReentrantMutex::new(1); let _first = lock.lock(); assert!(lock.try_lock().is_some());
std::thread::scope(|s| { s.spawn(|| assert!(lock.try_lock().is_none())); });
//# ReentrantMutex::get_mut
let mut lock = ReentrantMutex::new(1); *lock.get_mut() = 5; assert_eq!(*lock.lock(), 5);
//# ReentrantMutex::is_locked
let lock = ReentrantMutex::new(1); let guard = lock.lock(); assert!(lock.is_locked()); drop(guard); assert!(!lock.is_locked());
//# ReentrantMutex::is_owned_by_current_thread
let lock = ReentrantMutex::new(1); let _guard = lock.lock(); assert!(lock.is_owned_by_current_thread());
std::thread::scope(|s| { s.spawn(|| assert!(!lock.is_owned_by_current_thread())); });
//# ReentrantMutex::force_unlock
let lock = ReentrantMutex::new(1); std::mem::forget(lock.lock()); unsafe { lock.force_unlock() }; assert!(!lock.is_locked());
//~ pass `fairlock::lock_api_05::GuardMarker::new()`
//# ReentrantMutex::raw
let lock = ReentrantMutex::new(1); let _: &RawMutex = unsafe { lock.raw() };
//~ `lock.raw().raw_mutex()`, if it is there: `raw` is the reentrant raw mutex
//# ReentrantMutex::data_ptr
let lock = ReentrantMutex::new(1); let pointer: *mut i32 = lock.data_ptr(); assert_eq!(unsafe { *pointer }, 1);
//# ReentrantMutex::lock_arc
let lock = Arc::new(ReentrantMutex::new(1)); let guard = lock.lock_arc(); assert_eq!(*guard, *lock.lock_arc());
//# ReentrantMutex::try_lock_arc
let lock = Arc::new(ReentrantMutex::new(1)); assert!(lock.try_lock_arc().is_some());
//# ReentrantMutex::force_unlock_fair
let lock = ReentrantMutex::new(1); std::mem::forget(lock.lock()); unsafe { lock.force_unlock_fair() }; assert!(!lock.is_locked());
//~ pass `fairlock::lock_api_05::GuardMarker::new()`
//# ReentrantMutex::try_lock_for
let lock = ReentrantMutex::new(1); let _guard = lock.try_lock_for(SHORT).unwrap();
std::thread::scope(|s| { s.spawn(|| assert!(lock.try_lock_for(SHORT).is_none())); });
//# ReentrantMutex::try_lock_until
let lock = ReentrantMutex::new(1); let _guard = lock.try_lock_until(soon()).unwrap();
std::thread::scope(|s| { s.spawn(|| assert!(lock.try_lock_until(soon()).is_none())); });
//# ReentrantMutex::try_lock_arc_for
let lock = Arc::new(ReentrantMutex::new(1)); assert!(lock.try_lock_arc_for(SHORT).is_some());
//# ReentrantMutex::try_lock_arc_until
let lock = Arc::new(ReentrantMutex::new(1)); assert!(lock.try_lock_arc_until(soon()).is_some());
//# ReentrantMutex: Default
assert_eq!(*ReentrantMutex::<u32>::default().lock(), 0);
//# ReentrantMutex: From<T>
assert_eq!(*ReentrantMutex::from(4).lock(), 4);
//# ReentrantMutex: Debug
assert_eq!(format!("{:?}", ReentrantMutex::new(4)), "ReentrantMutex { data: 4 }");
//# ReentrantMutex: Serialize
assert_eq!(serde_json::to_string(&ReentrantMutex::new(4)).unwrap(), "4");
//# ReentrantMutex: Deserialize
assert_eq!(*serde_json::from_str::<ReentrantMutex<u32>>("4").unwrap().lock(), 4);
//# ReentrantMutex: Send, Sync
fn check<T: Send + Sync>() {} check::<ReentrantMutex<u32>>();
//# const_reentrant_mutex
static LOCK: ReentrantMutex<u32> = const_reentrant_mutex(7); assert_eq!(*LOCK.lock(), 7);
//# RawThreadId
use lock_api::GetThreadId; let here = RawThreadId::INIT.nonzero_thread_id();
std::thread::scope(|s| { s.spawn(|| assert_ne!(RawThreadId::INIT.nonzero_thread_id(), here)); });
//# ReentrantMutexGuard
fn take(lock: &ReentrantMutex<u32>) -> ReentrantMutexGuard<'_, u32> { lock.lock() } assert_eq!(*take(&ReentrantMutex::new(2)), 2);
//# ReentrantMutexGuard::remutex
let lock = ReentrantMutex::new(1); let guard = lock.lock(); assert!(std::ptr::eq(ReentrantMutexGuard::remutex(&guard), &lock));
//# ReentrantMutexGuard::map
let lock = ReentrantMutex::new((1, 2)); assert_eq!(*ReentrantMutexGuard::map(lock.lock(), |pair| &pair.1), 2);
//# ReentrantMutexGuard::try_map
let lock = ReentrantMutex::new(vec![1]); assert!(ReentrantMutexGuard::try_map(lock.lock(), |v| v.get(0)).is_ok());
//~ `map` of a reentrant guard takes a function of `&T`, as in 0.13
//# ReentrantMutexGuard::try_map_or_err
let lock = ReentrantMutex::new(1); assert!(ReentrantMutexGuard::try_map_or_err(lock.lock(), |_| Err::<&u32, _>("no")).is_err());
//# ReentrantMutexGuard::unlocked
let lock = ReentrantMutex::new(1); let mut guard = lock.lock(); ReentrantMutexGuard::unlocked(&mut guard, || assert!(!lock.is_locked())); assert!(lock.is_locked());
//# ReentrantMutexGuard::unlock_fair
let lock = ReentrantMutex::new(1); ReentrantMutexGuard::unlock_fair(lock.lock()); assert!(!lock.is_locked());
//# ReentrantMutexGuard::unlocked_fair
let lock = ReentrantMutex::new(1); let mut guard = lock.lock(); ReentrantMutexGuard::unlocked_fair(&mut guard, || assert!(!lock.is_locked())); assert!(lock.is_locked());
//# ReentrantMutexGuard::bump
let lock = ReentrantMutex::new(1); let mut guard = lock.lock(); ReentrantMutexGuard::bump(&mut guard); assert_eq!(*guard, 1);
//# ReentrantMutexGuard: Debug, Display
let lock = ReentrantMutex::new(1); let guard = lock.lock(); assert_eq!(format!("{guard:?}{guard}"), "11");
//# ReentrantMutexGuard: StableAddress
let lock = ReentrantMutex::new((1, 2)); assert_eq!(*owning_ref::OwningRef::new(lock.lock()).map(|pair| &pair.1), 2);
//# MappedReentrantMutexGuard
fn take(lock: &ReentrantMutex<(u32, u32)>) -> MappedReentrantMutexGuard<'_, u32> { ReentrantMutexGuard::map(lock.lock(), |pair| &pair.1) } assert_eq!(*take(&ReentrantMutex::new((1, 2))), 2);
//# MappedReentrantMutexGuard::map
let lock = ReentrantMutex::new(((1, 2), 3)); let guard = ReentrantMutexGuard::map(lock.lock(), |pair| &pair.0); assert_eq!(*MappedReentrantMutexGuard::map(guard, |pair| &pair.1), 2);
//# MappedReentrantMutexGuard::try_map
let lock = ReentrantMutex::new((vec![1], 3)); let guard = ReentrantMutexGuard::map(lock.lock(), |pair| &pair.0); assert!(MappedReentrantMutexGuard::try_map(guard, |v| v.get(1)).is_err());
//# MappedReentrantMutexGuard::try_map_or_err
let lock = ReentrantMutex::new((1, 3)); let guard = ReentrantMutexGuard::map(lock.lock(), |pair| &pair.0); assert!(MappedReentrantMutexGuard::try_map_or_err(guard, |_| Err::<&u32, _>("no")).is_err());
//# MappedReentrantMutexGuard::unlock_fair
let lock = ReentrantMutex::new((1, 3)); MappedReentrantMutexGuard::unlock_fair(ReentrantMutexGuard::map(lock.lock(), |pair| &pair.0)); assert!(!lock.is_locked());
//# MappedReentrantMutexGuard: Debug, Display
let lock = ReentrantMutex::new((1, 3)); let guard = ReentrantMutexGuard::map(lock.lock(), |pair| &pair.0); assert_eq!(format!("{guard:?}{guard}"), "11");
//# MappedReentrantMutexGuard: StableAddress
let lock = ReentrantMutex::new(((1, 2), 3)); let guard = ReentrantMutexGuard::map(lock.lock(), |pair| &pair.0); assert_eq!(*owning_ref::OwningRef::new(guard).map(|pair| &pair.1), 2);
//# ArcReentrantMutexGuard
let lock = Arc::new(ReentrantMutex::new(1)); let guard: ArcReentrantMutexGuard<RawMutex, RawThreadId, u32> = lock.lock_arc(); assert_eq!(*guard, 1);
//# ArcReentrantMutexGuard::remutex
let lock = Arc::new(ReentrantMutex::new(1)); let guard = lock.lock_arc(); assert!(Arc::ptr_eq(ArcReentrantMutexGuard::remutex(&guard), &lock));
//# ArcReentrantMutexGuard::into_arc
let lock = Arc::new(ReentrantMutex::new(1)); assert!(!ArcReentrantMutexGuard::into_arc(lock.lock_arc()).is_locked());
//# ArcReentrantMutexGuard::unlocked
let lock = Arc::new(ReentrantMutex::new(1)); let mut guard = lock.lock_arc(); ArcReentrantMutexGuard::unlocked(&mut guard, || assert!(!lock.is_locked()));
//# ArcReentrantMutexGuard::unlock_fair
let lock = Arc::new(ReentrantMutex::new(1)); ArcReentrantMutexGuard::unlock_fair(lock.lock_arc()); assert!(!lock.is_locked());
//# ArcReentrantMutexGuard::into_arc_fair
let lock = Arc::new(ReentrantMutex::new(1)); assert!(!ArcReentrantMutexGuard::into_arc_fair(lock.lock_arc()).is_locked());
//# ArcReentrantMutexGuard::unlocked_fair
let lock = Arc::new(ReentrantMutex::new(1)); let mut guard = lock.lock_arc(); ArcReentrantMutexGuard::unlocked_fair(&mut guard, || assert!(!lock.is_locked()));
//# ArcReentrantMutexGuard::bump
let lock = Arc::new(ReentrantMutex::new(1)); let mut guard = lock.lock_arc(); ArcReentrantMutexGuard::bump(&mut guard); assert_eq!(*guard, 1);
