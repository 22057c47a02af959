//# Mutex
let lock: Mutex<u32> = Mutex::new(1); assert_eq!(lock.into_inner(), 1);
//# Mutex::new
static LOCK: Mutex<u32> = Mutex::new(1); assert_eq!(*LOCK.lock(), 1);
//# Mutex::into_inner
assert_eq!(Mutex::new(3).into_inner(), 3);
//# Mutex::from_raw
static LOCK: Mutex<u32> = Mutex::from_raw(<RawMutex as lock_api::RawMutex>::INIT, 1); assert_eq!(*LOCK.lock(), 1);
//# Mutex::const_new
static LOCK: Mutex<u32> = Mutex::const_new(<RawMutex as lock_api::RawMutex>::INIT, 1); assert_eq!(*LOCK.lock(), 1);
//~ `Mutex::from_raw`, which is the same
//# Mutex::make_guard_unchecked
let lock = Mutex::new(1); std::mem::forget(lock.lock());
assert_eq!(*unsafe { lock.make_guard_unchecked() }, 1); assert!(!lock.is_locked());
//~ pass `fairlock::lock_api_05::GuardMarker::new()`
//# Mutex::lock
let lock = Mutex::new(1); *lock.lock() += 1; assert_eq!(*lock.lock(), 2);
//# Mutex::try_lock
let lock = Mutex::new(1); let guard = lock.try_lock().unwrap(); assert!(lock.try_lock().is_none()); drop(guard);
//# Mutex::get_mut
let mut lock = Mutex::new(1); *lock.get_mut() = 5; assert_eq!(*lock.lock(), 5);
//# Mutex::is_locked
let lock = Mutex::new(1); let guard = lock.lock(); assert!(lock.is_locked()); drop(guard); assert!(!lock.is_locked());
//# Mutex::force_unlock
let lock = Mutex::new(1); std::mem::forget(lock.lock()); unsafe { lock.force_unlock() }; assert!(!lock.is_locked());
//~ pass `fairlock::lock_api_05::GuardMarker::new()`
//# Mutex::raw
let lock = Mutex::new(1); let _: &RawMutex = unsafe { lock.raw() };
//# Mutex::data_ptr
let lock = Mutex::new(1); let pointer: *mut i32 = lock.data_ptr(); let _guard = lock.lock(); assert_eq!(unsafe { *pointer }, 1);
//# Mutex::lock_arc
let lock = Arc::new(Mutex::new(1)); let mut guard = lock.lock_arc(); *guard += 1; drop(lock); assert_eq!(*guard, 2);
//# Mutex::try_lock_arc
let lock = Arc::new(Mutex::new(1)); let guard = lock.try_lock_arc().unwrap(); assert!(lock.try_lock_arc().is_none()); drop(guard);
//# Mutex::force_unlock_fair
let lock = Mutex::new(1); std::mem::forget(lock.lock()); unsafe { lock.force_unlock_fair() }; assert!(!lock.is_locked());
//~ pass `fairlock::lock_api_05::GuardMarker::new()`
//# Mutex::try_lock_for
let lock = Mutex::new(1); let guard = lock.try_lock_for(SHORT).unwrap(); assert!(lock.try_lock_for(SHORT).is_none()); drop(guard);
//# Mutex::try_lock_until
let lock = Mutex::new(1); let guard = lock.try_lock_until(soon()).unwrap(); assert!(lock.try_lock_until(soon()).is_none()); drop(guard);
//# Mutex::try_lock_arc_for
let lock = Arc::new(Mutex::new(1)); let guard = lock.try_lock_arc_for(SHORT).unwrap(); assert!(lock.try_lock_arc_for(SHORT).is_none()); drop(guard);
//# Mutex::try_lock_arc_until
let lock = Arc::new(Mutex::new(1)); let guard = lock.try_lock_arc_until(soon()).unwrap(); assert!(lock.try_lock_arc_until(soon()).is_none()); drop(guard);
//# Mutex: Default
assert_eq!(*Mutex::<u32>::default().lock(), 0);
//# Mutex: From<T>
assert_eq!(*Mutex::from(4).lock(), 4);
//# Mutex: Debug
let lock = Mutex::new(4); assert_eq!(format!("{lock:?}"), "Mutex { data: 4 }");
let _guard = lock.lock(); assert_eq!(format!("{lock:?}"), "Mutex { data: <locked> }");
//# Mutex: Serialize
assert_eq!(serde_json::to_string(&Mutex::new(4)).unwrap(), "4");
//# Mutex: Deserialize
assert_eq!(*serde_json::from_str::<Mutex<u32>>("4").unwrap().lock(), 4);
//# Mutex: Send
fn check<T: Send>() {} check::<Mutex<u32>>();
//# Mutex: Sync
fn check<T: Sync>() {} check::<Mutex<u32>>();
//# Mutex: UnwindSafe
let lock = Mutex::new(1); let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| { let _guard = lock.lock(); std::panic::resume_unwind(Box::new(())); })); assert_eq!(*lock.lock(), 1);
//# Mutex<[T]>
let lock: Box<Mutex<[u32]>> = Box::new(Mutex::new([1, 2, 3])); assert_eq!(lock.lock().len(), 3);
//# const_mutex
static LOCK: Mutex<u32> = const_mutex(7); assert_eq!(*LOCK.lock(), 7);
//# RawMutex
struct Own<R: lock_api::RawMutex>(lock_api::Mutex<R, u32>);
let own = Own::<RawMutex>(lock_api::Mutex::new(1)); assert_eq!(*own.0.lock(), 1);

//# MutexGuard
fn take(lock: &Mutex<u32>) -> MutexGuard<'_, u32> { lock.lock() } assert_eq!(*take(&Mutex::new(2)), 2);
//# MutexGuard::mutex
let lock = Mutex::new(1); let guard = lock.lock(); assert!(std::ptr::eq(MutexGuard::mutex(&guard), &lock));
//# MutexGuard::map
let lock = Mutex::new((1, 2)); *MutexGuard::map(lock.lock(), |pair| &mut pair.1) = 3; assert_eq!(lock.lock().1, 3);
//# MutexGuard::try_map
let lock = Mutex::new(vec![1]); assert!(MutexGuard::try_map(lock.lock(), |v| v.get_mut(1)).is_err()); assert_eq!(*MutexGuard::try_map(lock.lock(), |v| v.get_mut(0)).unwrap(), 1);
//# MutexGuard::try_map_or_err
let lock = Mutex::new(1); let (guard, error) = MutexGuard::try_map_or_err(lock.lock(), |_| Err::<&mut u32, _>("no")).unwrap_err(); assert_eq!((*guard, error), (1, "no"));
//# MutexGuard::unlocked
let lock = Mutex::new(1); let mut guard = lock.lock(); MutexGuard::unlocked(&mut guard, || *lock.lock() += 1); assert_eq!(*guard, 2);
//# MutexGuard::leak
let lock = Mutex::new(1); *MutexGuard::leak(lock.lock()) += 1; assert!(lock.is_locked());
//# MutexGuard::unlock_fair
let lock = Mutex::new(1); MutexGuard::unlock_fair(lock.lock()); assert!(!lock.is_locked());
//# MutexGuard::unlocked_fair
let lock = Mutex::new(1); let mut guard = lock.lock(); MutexGuard::unlocked_fair(&mut guard, || *lock.lock() += 1); assert_eq!(*guard, 2);
//# MutexGuard::bump
let lock = Mutex::new(1); let mut guard = lock.lock(); MutexGuard::bump(&mut guard); assert_eq!(*guard, 1);
//# MutexGuard: Deref, DerefMut
let lock = Mutex::new(String::from("a")); let mut guard = lock.lock(); guard.push('b'); assert_eq!(guard.len(), 2);
//# MutexGuard: Drop
let lock = Mutex::new(1); drop(lock.lock()); assert!(!lock.is_locked());
//# MutexGuard: Debug, Display
let lock = Mutex::new(1); let guard = lock.lock(); assert_eq!(format!("{guard:?}{guard}"), "11");
//# MutexGuard: Sync
fn check<T: Sync>() {} check::<MutexGuard<'static, u32>>();
//# MutexGuard: StableAddress
let lock = Mutex::new((1, 2)); let part = owning_ref::OwningRef::new(lock.lock()).map(|pair| &pair.1); assert_eq!(*part, 2);
//# MappedMutexGuard
fn take(lock: &Mutex<(u32, u32)>) -> MappedMutexGuard<'_, u32> { MutexGuard::map(lock.lock(), |pair| &mut pair.1) } assert_eq!(*take(&Mutex::new((1, 2))), 2);
//# MappedMutexGuard::map
let lock = Mutex::new(((1, 2), 3)); let guard = MutexGuard::map(lock.lock(), |pair| &mut pair.0); assert_eq!(*MappedMutexGuard::map(guard, |pair| &mut pair.1), 2);
//# MappedMutexGuard::try_map
let lock = Mutex::new((vec![1], 3)); let guard = MutexGuard::map(lock.lock(), |pair| &mut pair.0); assert!(MappedMutexGuard::try_map(guard, |v| v.get_mut(1)).is_err());
//# MappedMutexGuard::try_map_or_err
let lock = Mutex::new((1, 3)); let guard = MutexGuard::map(lock.lock(), |pair| &mut pair.0); assert!(MappedMutexGuard::try_map_or_err(guard, |_| Err::<&mut u32, _>("no")).is_err());
//# MappedMutexGuard::unlock_fair
let lock = Mutex::new((1, 3)); MappedMutexGuard::unlock_fair(MutexGuard::map(lock.lock(), |pair| &mut pair.0)); assert!(!lock.is_locked());
//# MappedMutexGuard: Debug, Display
let lock = Mutex::new((1, 3)); let guard = MutexGuard::map(lock.lock(), |pair| &mut pair.0); assert_eq!(format!("{guard:?}{guard}"), "11");
//# MappedMutexGuard: StableAddress
let lock = Mutex::new(((1, 2), 3)); let guard = MutexGuard::map(lock.lock(), |pair| &mut pair.0); assert_eq!(*owning_ref::OwningRef::new(guard).map(|pair| &pair.1), 2);

//# ArcMutexGuard
let lock = Arc::new(Mutex::new(1)); let guard: ArcMutexGuard<RawMutex, u32> = lock.lock_arc(); assert_eq!(*guard, 1);
//# ArcMutexGuard::mutex
let lock = Arc::new(Mutex::new(1)); let guard = lock.lock_arc(); assert!(Arc::ptr_eq(ArcMutexGuard::mutex(&guard), &lock));
//# ArcMutexGuard::into_arc
let lock = Arc::new(Mutex::new(1)); assert!(!ArcMutexGuard::into_arc(lock.lock_arc()).is_locked());
//# ArcMutexGuard::unlocked
let lock = Arc::new(Mutex::new(1)); let mut guard = lock.lock_arc(); ArcMutexGuard::unlocked(&mut guard, || *lock.lock() += 1); assert_eq!(*guard, 2);
//# ArcMutexGuard::unlock_fair
let lock = Arc::new(Mutex::new(1)); ArcMutexGuard::unlock_fair(lock.lock_arc()); assert!(!lock.is_locked());
//# ArcMutexGuard::into_arc_fair
let lock = Arc::new(Mutex::new(1)); assert!(!ArcMutexGuard::into_arc_fair(lock.lock_arc()).is_locked());
//# ArcMutexGuard::unlocked_fair
let lock = Arc::new(Mutex::new(1)); let mut guard = lock.lock_arc(); ArcMutexGuard::unlocked_fair(&mut guard, || *lock.lock() += 1); assert_eq!(*guard, 2);
//# ArcMutexGuard::bump
let lock = Arc::new(Mutex::new(1)); let mut guard = lock.lock_arc(); ArcMutexGuard::bump(&mut guard); assert_eq!(*guard, 1);

//# lock_api::RawMutex
use lock_api::RawMutex as _; let raw = RawMutex::INIT; raw.lock(); assert!(raw.is_locked()); unsafe { raw.unlock() }; assert!(raw.try_lock());
//~ raw locks give a guard, and take it back: `let guard = raw.lock(); raw.unlock(guard)`
//# lock_api::RawMutexFair
use lock_api::{RawMutex as _, RawMutexFair as _}; let raw = RawMutex::INIT; raw.lock(); unsafe { raw.bump(); raw.unlock_fair() }; assert!(!raw.is_locked());
//~ as `lock_api::RawMutex`
//# lock_api::RawMutexTimed
use lock_api::{RawMutex as _, RawMutexTimed as _}; let raw = RawMutex::INIT; assert!(raw.try_lock_for(SHORT)); assert!(!raw.try_lock_until(soon()));
//~ as `lock_api::RawMutex`

//# FairMutex
let lock: FairMutex<u32> = FairMutex::new(1); assert_eq!(*lock.lock(), 1);
//# const_fair_mutex
static LOCK: FairMutex<u32> = const_fair_mutex(7); assert_eq!(*LOCK.lock(), 7);
//# FairMutexGuard
fn take(lock: &FairMutex<u32>) -> FairMutexGuard<'_, u32> { lock.lock() } assert_eq!(*take(&FairMutex::new(2)), 2);
//# FairMutexGuard::mutex
let lock = FairMutex::new(1); let guard = lock.lock(); assert!(std::ptr::eq(FairMutexGuard::mutex(&guard), &lock));
//# MappedFairMutexGuard
let lock = FairMutex::new((1, 2)); let guard: MappedFairMutexGuard<'_, u32> = FairMutexGuard::map(lock.lock(), |pair| &mut pair.1); assert_eq!(*guard, 2);
//# FairMutex::try_lock
let lock = FairMutex::new(1); let guard = lock.try_lock().unwrap(); assert!(lock.try_lock().is_none()); drop(guard);
//# FairMutex::try_lock_for
let lock = FairMutex::new(1); let guard = lock.try_lock_for(SHORT).unwrap(); assert!(lock.try_lock_for(SHORT).is_none()); drop(guard);
//# RawFairMutex
let own: lock_api::Mutex<RawFairMutex, u32> = FairMutex::new(1); assert_eq!(*own.lock(), 1);
//# RawFairMutex: RawMutex
use lock_api::RawMutex as _; let raw = RawFairMutex::INIT; raw.lock(); unsafe { raw.unlock() }; assert!(raw.try_lock());
//~ as `lock_api::RawMutex`
