//# RwLock
let lock: RwLock<u32> = RwLock::new(1); assert_eq!(lock.into_inner(), 1);
//# RwLock::new
static LOCK: RwLock<u32> = RwLock::new(1); assert_eq!(*LOCK.read(), 1);
//# RwLock::into_inner
assert_eq!(RwLock::new(3).into_inner(), 3);
//# RwLock::from_raw
static LOCK: RwLock<u32> = RwLock::from_raw(<RawRwLock as lock_api::RawRwLock>::INIT, 1); assert_eq!(*LOCK.read(), 1);
//# RwLock::const_new
static LOCK: RwLock<u32> = RwLock::const_new(<RawRwLock as lock_api::RawRwLock>::INIT, 1); assert_eq!(*LOCK.read(), 1);
//~ `RwLock::from_raw`, which is the same
//# RwLock::get_mut
let mut lock = RwLock::new(1); *lock.get_mut() = 5; assert_eq!(*lock.read(), 5);
//# RwLock::is_locked
let lock = RwLock::new(1); let guard = lock.read(); assert!(lock.is_locked()); drop(guard); assert!(!lock.is_locked());
//# RwLock::is_locked_exclusive
let lock = RwLock::new(1); let guard = lock.read(); assert!(!lock.is_locked_exclusive()); drop(guard); let _guard = lock.write(); assert!(lock.is_locked_exclusive());
//# RwLock::raw
let lock = RwLock::new(1); let _: &RawRwLock = unsafe { lock.raw() };
//# RwLock::data_ptr
let lock = RwLock::new(1); let pointer: *mut i32 = lock.data_ptr(); let _guard = lock.read(); assert_eq!(unsafe { *pointer }, 1);
//# RwLock::make_read_guard_unchecked
let lock = RwLock::new(1); std::mem::forget(lock.read()); assert_eq!(*unsafe { lock.make_read_guard_unchecked() }, 1); assert!(!lock.is_locked());
//~ pass `fairlock::lock_api_05::GuardMarker::new()`
//# RwLock::make_arc_read_guard_unchecked
let lock = Arc::new(RwLock::new(1)); std::mem::forget(lock.read()); assert_eq!(*unsafe { lock.make_arc_read_guard_unchecked() }, 1); assert!(!lock.is_locked());
//~ pass `fairlock::lock_api_05::GuardMarker::new()`
//# RwLock::read
let lock = RwLock::new(1); let guard = lock.read(); assert_eq!(*guard, 1); drop(guard); assert!(lock.try_write().is_some());
//# RwLock::try_read
let lock = RwLock::new(1); assert!(lock.try_read().is_some()); let _guard = lock.write(); assert!(lock.try_read().is_none());
//# RwLock::force_unlock_read
let lock = RwLock::new(1); std::mem::forget(lock.read()); unsafe { lock.force_unlock_read() }; assert!(!lock.is_locked());
//~ pass `fairlock::lock_api_05::GuardMarker::new()`
//# RwLock::force_unlock_read_fair
let lock = RwLock::new(1); std::mem::forget(lock.read()); unsafe { lock.force_unlock_read_fair() }; assert!(!lock.is_locked());
//~ pass `fairlock::lock_api_05::GuardMarker::new()`
//# RwLock::read_arc
let lock = Arc::new(RwLock::new(1)); let guard = lock.read_arc(); drop(lock); assert_eq!(*guard, 1);
//# RwLock::try_read_arc
let lock = Arc::new(RwLock::new(1)); assert!(lock.try_read_arc().is_some()); let _guard = lock.write(); assert!(lock.try_read_arc().is_none());
//# RwLock::try_read_for
let lock = RwLock::new(1); assert!(lock.try_read_for(SHORT).is_some()); let _guard = lock.write(); assert!(lock.try_read_for(SHORT).is_none());
//# RwLock::try_read_arc_for
let lock = Arc::new(RwLock::new(1)); assert!(lock.try_read_arc_for(SHORT).is_some()); let _guard = lock.write(); assert!(lock.try_read_arc_for(SHORT).is_none());
//# RwLock::try_read_until
let lock = RwLock::new(1); assert!(lock.try_read_until(soon()).is_some()); let _guard = lock.write(); assert!(lock.try_read_until(soon()).is_none());
//# RwLock::try_read_arc_until
let lock = Arc::new(RwLock::new(1)); assert!(lock.try_read_arc_until(soon()).is_some()); let _guard = lock.write(); assert!(lock.try_read_arc_until(soon()).is_none());
//# RwLock::make_write_guard_unchecked
let lock = RwLock::new(1); std::mem::forget(lock.write()); assert_eq!(*unsafe { lock.make_write_guard_unchecked() }, 1); assert!(!lock.is_locked());
//~ pass `fairlock::lock_api_05::GuardMarker::new()`
//# RwLock::make_arc_write_guard_unchecked
let lock = Arc::new(RwLock::new(1)); std::mem::forget(lock.write()); assert_eq!(*unsafe { lock.make_arc_write_guard_unchecked() }, 1); assert!(!lock.is_locked());
//~ pass `fairlock::lock_api_05::GuardMarker::new()`
//# RwLock::write
let lock = RwLock::new(1); let guard = lock.write(); assert_eq!(*guard, 1); drop(guard); assert!(lock.try_write().is_some());
//# RwLock::try_write
let lock = RwLock::new(1); assert!(lock.try_write().is_some()); let _guard = lock.write(); assert!(lock.try_write().is_none());
//# RwLock::force_unlock_write
let lock = RwLock::new(1); std::mem::forget(lock.write()); unsafe { lock.force_unlock_write() }; assert!(!lock.is_locked());
//~ pass `fairlock::lock_api_05::GuardMarker::new()`
//# RwLock::force_unlock_write_fair
let lock = RwLock::new(1); std::mem::forget(lock.write()); unsafe { lock.force_unlock_write_fair() }; assert!(!lock.is_locked());
//~ pass `fairlock::lock_api_05::GuardMarker::new()`
//# RwLock::write_arc
let lock = Arc::new(RwLock::new(1)); let guard = lock.write_arc(); drop(lock); assert_eq!(*guard, 1);
//# RwLock::try_write_arc
let lock = Arc::new(RwLock::new(1)); assert!(lock.try_write_arc().is_some()); let _guard = lock.write(); assert!(lock.try_write_arc().is_none());
//# RwLock::try_write_for
let lock = RwLock::new(1); assert!(lock.try_write_for(SHORT).is_some()); let _guard = lock.write(); assert!(lock.try_write_for(SHORT).is_none());
//# RwLock::try_write_arc_for
let lock = Arc::new(RwLock::new(1)); assert!(lock.try_write_arc_for(SHORT).is_some()); let _guard = lock.write(); assert!(lock.try_write_arc_for(SHORT).is_none());
//# RwLock::try_write_until
let lock = RwLock::new(1); assert!(lock.try_write_until(soon()).is_some()); let _guard = lock.write(); assert!(lock.try_write_until(soon()).is_none());
//# RwLock::try_write_arc_until
let lock = Arc::new(RwLock::new(1)); assert!(lock.try_write_arc_until(soon()).is_some()); let _guard = lock.write(); assert!(lock.try_write_arc_until(soon()).is_none());
//# RwLock::make_upgradable_guard_unchecked
let lock = RwLock::new(1); std::mem::forget(lock.upgradable_read()); assert_eq!(*unsafe { lock.make_upgradable_guard_unchecked() }, 1); assert!(!lock.is_locked());
//~ pass `fairlock::lock_api_05::GuardMarker::new()`
//# RwLock::make_upgradable_arc_guard_unchecked
let lock = Arc::new(RwLock::new(1)); std::mem::forget(lock.upgradable_read()); assert_eq!(*unsafe { lock.make_upgradable_arc_guard_unchecked() }, 1); assert!(!lock.is_locked());
//~ pass `fairlock::lock_api_05::GuardMarker::new()`
//# RwLock::upgradable_read
let lock = RwLock::new(1); let guard = lock.upgradable_read(); assert_eq!(*guard, 1); drop(guard); assert!(lock.try_write().is_some());
//# RwLock::try_upgradable_read
let lock = RwLock::new(1); assert!(lock.try_upgradable_read().is_some()); let _guard = lock.write(); assert!(lock.try_upgradable_read().is_none());
//# RwLock::upgradable_read_arc
let lock = Arc::new(RwLock::new(1)); let guard = lock.upgradable_read_arc(); drop(lock); assert_eq!(*guard, 1);
//# RwLock::try_upgradable_read_arc
let lock = Arc::new(RwLock::new(1)); assert!(lock.try_upgradable_read_arc().is_some()); let _guard = lock.write(); assert!(lock.try_upgradable_read_arc().is_none());
//# RwLock::try_upgradable_read_for
let lock = RwLock::new(1); assert!(lock.try_upgradable_read_for(SHORT).is_some()); let _guard = lock.write(); assert!(lock.try_upgradable_read_for(SHORT).is_none());
//# RwLock::try_upgradable_read_arc_for
let lock = Arc::new(RwLock::new(1)); assert!(lock.try_upgradable_read_arc_for(SHORT).is_some()); let _guard = lock.write(); assert!(lock.try_upgradable_read_arc_for(SHORT).is_none());
//# RwLock::try_upgradable_read_until
let lock = RwLock::new(1); assert!(lock.try_upgradable_read_until(soon()).is_some()); let _guard = lock.write(); assert!(lock.try_upgradable_read_until(soon()).is_none());
//# RwLock::try_upgradable_read_arc_until
let lock = Arc::new(RwLock::new(1)); assert!(lock.try_upgradable_read_arc_until(soon()).is_some()); let _guard = lock.write(); assert!(lock.try_upgradable_read_arc_until(soon()).is_none());
//# RwLock::read_recursive
let lock = RwLock::new(1); let first = lock.read(); assert_eq!(*first, *lock.read_recursive());
//~ `RecursiveRwLock::read`
//# RwLock::try_read_recursive
let lock = RwLock::new(1); let _first = lock.read(); assert!(lock.try_read_recursive().is_some());
//~ `RecursiveRwLock::try_read`
//# RwLock::try_read_recursive_for
let lock = RwLock::new(1); let _first = lock.read(); assert!(lock.try_read_recursive_for(SHORT).is_some());
//~ `RecursiveRwLock::try_read_for`
//# RwLock::try_read_recursive_until
let lock = RwLock::new(1); let _first = lock.read(); assert!(lock.try_read_recursive_until(soon()).is_some());
//~ `RecursiveRwLock::try_read_until`
//# RwLock::read_arc_recursive
let lock = Arc::new(RwLock::new(1)); let first = lock.read(); assert_eq!(*first, *lock.read_arc_recursive());
//~ `RecursiveRwLock::read_arc`
//# RwLock::try_read_recursive_arc
let lock = Arc::new(RwLock::new(1)); assert!(lock.try_read_recursive_arc().is_some());
//~ `RecursiveRwLock::try_read_arc`
//# RwLock::try_read_arc_recursive_for
let lock = Arc::new(RwLock::new(1)); assert!(lock.try_read_arc_recursive_for(SHORT).is_some());
//~ `RecursiveRwLock::try_read_arc_for`
//# RwLock::try_read_arc_recursive_until
let lock = Arc::new(RwLock::new(1)); assert!(lock.try_read_arc_recursive_until(soon()).is_some());
//~ `RecursiveRwLock::try_read_arc_until`
//# RwLock: Default
assert_eq!(*RwLock::<u32>::default().read(), 0);
//# RwLock: From<T>
assert_eq!(*RwLock::from(4).read(), 4);
//# RwLock: Debug
let lock = RwLock::new(4); assert_eq!(format!("{lock:?}"), "RwLock { data: 4 }"); let _guard = lock.write(); assert_eq!(format!("{lock:?}"), "RwLock { data: <locked> }");
//# RwLock: Serialize
assert_eq!(serde_json::to_string(&RwLock::new(4)).unwrap(), "4");
//# RwLock: Deserialize
assert_eq!(*serde_json::from_str::<RwLock<u32>>("4").unwrap().read(), 4);
//# RwLock: Send, Sync
fn check<T: Send + Sync>() {} check::<RwLock<u32>>();
//# RwLock<[T]>
let lock: Box<RwLock<[u32]>> = Box::new(RwLock::new([1, 2, 3])); assert_eq!(lock.read().len(), 3);
//# const_rwlock
static LOCK: RwLock<u32> = const_rwlock(7); assert_eq!(*LOCK.read(), 7);
//# RawRwLock
struct Own<R: lock_api::RawRwLock>(lock_api::RwLock<R, u32>); let own = Own::<RawRwLock>(lock_api::RwLock::new(1)); assert_eq!(*own.0.read(), 1);
//# RwLockReadGuard
fn take(lock: &RwLock<u32>) -> RwLockReadGuard<'_, u32> { lock.read() } assert_eq!(*take(&RwLock::new(2)), 2);
//# RwLockReadGuard::rwlock
let lock = RwLock::new(1); let guard = lock.read(); assert!(std::ptr::eq(RwLockReadGuard::rwlock(&guard), &lock));
//# RwLockReadGuard::map
let lock = RwLock::new((1, 2)); assert_eq!(*RwLockReadGuard::map(lock.read(), |pair| &pair.1), 2);
//# RwLockReadGuard::try_map
let lock = RwLock::new(vec![1]); assert!(RwLockReadGuard::try_map(lock.read(), |v| v.get(1)).is_err()); assert_eq!(*RwLockReadGuard::try_map(lock.read(), |v| v.get(0)).unwrap(), 1);
//# RwLockReadGuard::try_map_or_err
let lock = RwLock::new(1); assert!(RwLockReadGuard::try_map_or_err(lock.read(), |_| Err::<&u32, _>("no")).is_err());
//# RwLockReadGuard::unlocked
let lock = RwLock::new(1); let mut guard = lock.read(); RwLockReadGuard::unlocked(&mut guard, || *lock.write() += 1); assert_eq!(*guard, 2);
//# RwLockReadGuard::unlocked_fair
let lock = RwLock::new(1); let mut guard = lock.read(); RwLockReadGuard::unlocked_fair(&mut guard, || *lock.write() += 1); assert_eq!(*guard, 2);
//# RwLockReadGuard::unlock_fair
let lock = RwLock::new(1); RwLockReadGuard::unlock_fair(lock.read()); assert!(!lock.is_locked());
//# RwLockReadGuard::bump
let lock = RwLock::new(1); let mut guard = lock.read(); RwLockReadGuard::bump(&mut guard); assert_eq!(*guard, 1);
//# RwLockReadGuard: Debug, Display
let lock = RwLock::new(1); let guard = lock.read(); assert_eq!(format!("{guard:?}{guard}"), "11");
//# RwLockReadGuard: Sync
fn check<T: Sync>() {} check::<RwLockReadGuard<'static, u32>>();
//# RwLockReadGuard: StableAddress
let lock = RwLock::new((1, 2)); assert_eq!(*owning_ref::OwningRef::new(lock.read()).map(|pair| &pair.1), 2);
//# RwLockWriteGuard
fn take(lock: &RwLock<u32>) -> RwLockWriteGuard<'_, u32> { lock.write() } assert_eq!(*take(&RwLock::new(2)), 2);
//# RwLockWriteGuard::rwlock
let lock = RwLock::new(1); let guard = lock.write(); assert!(std::ptr::eq(RwLockWriteGuard::rwlock(&guard), &lock));
//# RwLockWriteGuard::map
let lock = RwLock::new((1, 2)); assert_eq!(*RwLockWriteGuard::map(lock.write(), |pair| &mut pair.1), 2);
//# RwLockWriteGuard::try_map
let lock = RwLock::new(vec![1]); assert!(RwLockWriteGuard::try_map(lock.write(), |v| v.get_mut(1)).is_err()); assert_eq!(*RwLockWriteGuard::try_map(lock.write(), |v| v.get_mut(0)).unwrap(), 1);
//# RwLockWriteGuard::try_map_or_err
let lock = RwLock::new(1); assert!(RwLockWriteGuard::try_map_or_err(lock.write(), |_| Err::<&mut u32, _>("no")).is_err());
//# RwLockWriteGuard::unlocked
let lock = RwLock::new(1); let mut guard = lock.write(); RwLockWriteGuard::unlocked(&mut guard, || *lock.write() += 1); assert_eq!(*guard, 2);
//# RwLockWriteGuard::unlocked_fair
let lock = RwLock::new(1); let mut guard = lock.write(); RwLockWriteGuard::unlocked_fair(&mut guard, || *lock.write() += 1); assert_eq!(*guard, 2);
//# RwLockWriteGuard::unlock_fair
let lock = RwLock::new(1); RwLockWriteGuard::unlock_fair(lock.write()); assert!(!lock.is_locked());
//# RwLockWriteGuard::bump
let lock = RwLock::new(1); let mut guard = lock.write(); RwLockWriteGuard::bump(&mut guard); assert_eq!(*guard, 1);
//# RwLockWriteGuard: Debug, Display
let lock = RwLock::new(1); let guard = lock.write(); assert_eq!(format!("{guard:?}{guard}"), "11");
//# RwLockWriteGuard: Sync
fn check<T: Sync>() {} check::<RwLockWriteGuard<'static, u32>>();
//# RwLockWriteGuard: StableAddress
let lock = RwLock::new((1, 2)); assert_eq!(*owning_ref::OwningRef::new(lock.write()).map(|pair| &pair.1), 2);
//# RwLockUpgradableReadGuard
fn take(lock: &RwLock<u32>) -> RwLockUpgradableReadGuard<'_, u32> { lock.upgradable_read() } assert_eq!(*take(&RwLock::new(2)), 2);
//# RwLockUpgradableReadGuard::rwlock
let lock = RwLock::new(1); let guard = lock.upgradable_read(); assert!(std::ptr::eq(RwLockUpgradableReadGuard::rwlock(&guard), &lock));
//# RwLockUpgradableReadGuard::unlocked
let lock = RwLock::new(1); let mut guard = lock.upgradable_read(); RwLockUpgradableReadGuard::unlocked(&mut guard, || *lock.write() += 1); assert_eq!(*guard, 2);
//# RwLockUpgradableReadGuard::unlocked_fair
let lock = RwLock::new(1); let mut guard = lock.upgradable_read(); RwLockUpgradableReadGuard::unlocked_fair(&mut guard, || *lock.write() += 1); assert_eq!(*guard, 2);
//# RwLockUpgradableReadGuard::unlock_fair
let lock = RwLock::new(1); RwLockUpgradableReadGuard::unlock_fair(lock.upgradable_read()); assert!(!lock.is_locked());
//# RwLockUpgradableReadGuard::bump
let lock = RwLock::new(1); let mut guard = lock.upgradable_read(); RwLockUpgradableReadGuard::bump(&mut guard); assert_eq!(*guard, 1);
//# RwLockUpgradableReadGuard: Debug, Display
let lock = RwLock::new(1); let guard = lock.upgradable_read(); assert_eq!(format!("{guard:?}{guard}"), "11");
//# RwLockUpgradableReadGuard: Sync
fn check<T: Sync>() {} check::<RwLockUpgradableReadGuard<'static, u32>>();
//# RwLockUpgradableReadGuard: StableAddress
let lock = RwLock::new((1, 2)); assert_eq!(*owning_ref::OwningRef::new(lock.upgradable_read()).map(|pair| &pair.1), 2);
//# RwLockWriteGuard: DerefMut
let lock = RwLock::new(1); *lock.write() += 1; assert_eq!(*lock.read(), 2);
//# RwLockWriteGuard::downgrade
let lock = RwLock::new(1); let guard = RwLockWriteGuard::downgrade(lock.write()); assert!(lock.try_read().is_some() && lock.try_write().is_none()); drop(guard);
//# RwLockWriteGuard::downgrade_to_upgradable
let lock = RwLock::new(1); let guard = RwLockWriteGuard::downgrade_to_upgradable(lock.write()); assert!(lock.try_read().is_some() && lock.try_upgradable_read().is_none()); drop(guard);
//# RwLockUpgradableReadGuard::upgrade
let lock = RwLock::new(1); let mut guard = RwLockUpgradableReadGuard::upgrade(lock.upgradable_read()); *guard += 1; assert!(lock.try_read().is_none()); drop(guard);
//# RwLockUpgradableReadGuard::try_upgrade
let lock = RwLock::new(1); let reader = lock.read(); let guard = RwLockUpgradableReadGuard::try_upgrade(lock.upgradable_read()).err().unwrap(); drop(reader); assert!(RwLockUpgradableReadGuard::try_upgrade(guard).is_ok());
//# RwLockUpgradableReadGuard::downgrade
let lock = RwLock::new(1); let guard = RwLockUpgradableReadGuard::downgrade(lock.upgradable_read()); assert!(lock.try_upgradable_read().is_some() && lock.try_write().is_none()); drop(guard);
//# RwLockUpgradableReadGuard::with_upgraded
let lock = RwLock::new(1); let mut guard = lock.upgradable_read(); assert_eq!(guard.with_upgraded(|value| { *value += 1; *value }), 2); assert!(lock.try_read().is_some());
//# RwLockUpgradableReadGuard::try_with_upgraded
let lock = RwLock::new(1); let mut guard = lock.upgradable_read(); let reader = lock.read(); assert!(guard.try_with_upgraded(|value| *value += 1).is_none()); drop(reader); assert!(guard.try_with_upgraded(|value| *value += 1).is_some());
//# RwLockUpgradableReadGuard::try_upgrade_for
let lock = RwLock::new(1); let reader = lock.read(); let guard = RwLockUpgradableReadGuard::try_upgrade_for(lock.upgradable_read(), SHORT).err().unwrap(); drop(reader); assert!(RwLockUpgradableReadGuard::try_upgrade_for(guard, SHORT).is_ok());
//# RwLockUpgradableReadGuard::try_with_upgraded_for
let lock = RwLock::new(1); let mut guard = lock.upgradable_read(); let reader = lock.read(); assert!(guard.try_with_upgraded_for(SHORT, |value| *value += 1).is_none()); drop(reader); assert!(guard.try_with_upgraded_for(SHORT, |value| *value += 1).is_some());
//# RwLockUpgradableReadGuard::try_upgrade_until
let lock = RwLock::new(1); let reader = lock.read(); let guard = RwLockUpgradableReadGuard::try_upgrade_until(lock.upgradable_read(), soon()).err().unwrap(); drop(reader); assert!(RwLockUpgradableReadGuard::try_upgrade_until(guard, soon()).is_ok());
//# RwLockUpgradableReadGuard::try_with_upgraded_until
let lock = RwLock::new(1); let mut guard = lock.upgradable_read(); let reader = lock.read(); assert!(guard.try_with_upgraded_until(soon(), |value| *value += 1).is_none()); drop(reader); assert!(guard.try_with_upgraded_until(soon(), |value| *value += 1).is_some());
//# ArcRwLockWriteGuard::downgrade
let lock = Arc::new(RwLock::new(1)); let guard = ArcRwLockWriteGuard::downgrade(lock.write_arc()); assert!(lock.try_read().is_some() && lock.try_write().is_none()); drop(guard);
//# ArcRwLockWriteGuard::downgrade_to_upgradable
let lock = Arc::new(RwLock::new(1)); let guard = ArcRwLockWriteGuard::downgrade_to_upgradable(lock.write_arc()); assert!(lock.try_read().is_some() && lock.try_upgradable_read().is_none()); drop(guard);
//# ArcRwLockUpgradableReadGuard::upgrade
let lock = Arc::new(RwLock::new(1)); let mut guard = ArcRwLockUpgradableReadGuard::upgrade(lock.upgradable_read_arc()); *guard += 1; assert!(lock.try_read().is_none()); drop(guard);
//# ArcRwLockUpgradableReadGuard::try_upgrade
let lock = Arc::new(RwLock::new(1)); let reader = lock.read(); let guard = ArcRwLockUpgradableReadGuard::try_upgrade(lock.upgradable_read_arc()).err().unwrap(); drop(reader); assert!(ArcRwLockUpgradableReadGuard::try_upgrade(guard).is_ok());
//# ArcRwLockUpgradableReadGuard::downgrade
let lock = Arc::new(RwLock::new(1)); let guard = ArcRwLockUpgradableReadGuard::downgrade(lock.upgradable_read_arc()); assert!(lock.try_upgradable_read().is_some() && lock.try_write().is_none()); drop(guard);
//# ArcRwLockUpgradableReadGuard::with_upgraded
let lock = Arc::new(RwLock::new(1)); let mut guard = lock.upgradable_read_arc(); assert_eq!(guard.with_upgraded(|value| { *value += 1; *value }), 2); assert!(lock.try_read().is_some());
//# ArcRwLockUpgradableReadGuard::try_with_upgraded
let lock = Arc::new(RwLock::new(1)); let mut guard = lock.upgradable_read_arc(); let reader = lock.read(); assert!(guard.try_with_upgraded(|value| *value += 1).is_none()); drop(reader); assert!(guard.try_with_upgraded(|value| *value += 1).is_some());
//# ArcRwLockUpgradableReadGuard::try_upgrade_for
let lock = Arc::new(RwLock::new(1)); let reader = lock.read(); let guard = ArcRwLockUpgradableReadGuard::try_upgrade_for(lock.upgradable_read_arc(), SHORT).err().unwrap(); drop(reader); assert!(ArcRwLockUpgradableReadGuard::try_upgrade_for(guard, SHORT).is_ok());
//# ArcRwLockUpgradableReadGuard::try_with_upgraded_for
let lock = Arc::new(RwLock::new(1)); let mut guard = lock.upgradable_read_arc(); let reader = lock.read(); assert!(guard.try_with_upgraded_for(SHORT, |value| *value += 1).is_none()); drop(reader); assert!(guard.try_with_upgraded_for(SHORT, |value| *value += 1).is_some());
//# ArcRwLockUpgradableReadGuard::try_upgrade_until
let lock = Arc::new(RwLock::new(1)); let reader = lock.read(); let guard = ArcRwLockUpgradableReadGuard::try_upgrade_until(lock.upgradable_read_arc(), soon()).err().unwrap(); drop(reader); assert!(ArcRwLockUpgradableReadGuard::try_upgrade_until(guard, soon()).is_ok());
//# ArcRwLockUpgradableReadGuard::try_with_upgraded_until
let lock = Arc::new(RwLock::new(1)); let mut guard = lock.upgradable_read_arc(); let reader = lock.read(); assert!(guard.try_with_upgraded_until(soon(), |value| *value += 1).is_none()); drop(reader); assert!(guard.try_with_upgraded_until(soon(), |value| *value += 1).is_some());
//# ArcRwLockReadGuard
let lock = Arc::new(RwLock::new(1)); let guard: ArcRwLockReadGuard<RawRwLock, u32> = lock.read_arc(); assert_eq!(*guard, 1);
//# ArcRwLockReadGuard::rwlock
let lock = Arc::new(RwLock::new(1)); let guard = lock.read_arc(); assert!(Arc::ptr_eq(ArcRwLockReadGuard::rwlock(&guard), &lock));
//# ArcRwLockReadGuard::into_arc
let lock = Arc::new(RwLock::new(1)); assert!(!ArcRwLockReadGuard::into_arc(lock.read_arc()).is_locked());
//# ArcRwLockReadGuard::into_arc_fair
let lock = Arc::new(RwLock::new(1)); assert!(!ArcRwLockReadGuard::into_arc_fair(lock.read_arc()).is_locked());
//# ArcRwLockReadGuard::unlocked
let lock = Arc::new(RwLock::new(1)); let mut guard = lock.read_arc(); ArcRwLockReadGuard::unlocked(&mut guard, || *lock.write() += 1); assert_eq!(*guard, 2);
//# ArcRwLockReadGuard::unlocked_fair
let lock = Arc::new(RwLock::new(1)); let mut guard = lock.read_arc(); ArcRwLockReadGuard::unlocked_fair(&mut guard, || *lock.write() += 1); assert_eq!(*guard, 2);
//# ArcRwLockReadGuard::unlock_fair
let lock = Arc::new(RwLock::new(1)); ArcRwLockReadGuard::unlock_fair(lock.read_arc()); assert!(!lock.is_locked());
//# ArcRwLockReadGuard::bump
let lock = Arc::new(RwLock::new(1)); let mut guard = lock.read_arc(); ArcRwLockReadGuard::bump(&mut guard); assert_eq!(*guard, 1);
//# ArcRwLockWriteGuard
let lock = Arc::new(RwLock::new(1)); let guard: ArcRwLockWriteGuard<RawRwLock, u32> = lock.write_arc(); assert_eq!(*guard, 1);
//# ArcRwLockWriteGuard::rwlock
let lock = Arc::new(RwLock::new(1)); let guard = lock.write_arc(); assert!(Arc::ptr_eq(ArcRwLockWriteGuard::rwlock(&guard), &lock));
//# ArcRwLockWriteGuard::into_arc
let lock = Arc::new(RwLock::new(1)); assert!(!ArcRwLockWriteGuard::into_arc(lock.write_arc()).is_locked());
//# ArcRwLockWriteGuard::into_arc_fair
let lock = Arc::new(RwLock::new(1)); assert!(!ArcRwLockWriteGuard::into_arc_fair(lock.write_arc()).is_locked());
//# ArcRwLockWriteGuard::unlocked
let lock = Arc::new(RwLock::new(1)); let mut guard = lock.write_arc(); ArcRwLockWriteGuard::unlocked(&mut guard, || *lock.write() += 1); assert_eq!(*guard, 2);
//# ArcRwLockWriteGuard::unlocked_fair
let lock = Arc::new(RwLock::new(1)); let mut guard = lock.write_arc(); ArcRwLockWriteGuard::unlocked_fair(&mut guard, || *lock.write() += 1); assert_eq!(*guard, 2);
//# ArcRwLockWriteGuard::unlock_fair
let lock = Arc::new(RwLock::new(1)); ArcRwLockWriteGuard::unlock_fair(lock.write_arc()); assert!(!lock.is_locked());
//# ArcRwLockWriteGuard::bump
let lock = Arc::new(RwLock::new(1)); let mut guard = lock.write_arc(); ArcRwLockWriteGuard::bump(&mut guard); assert_eq!(*guard, 1);
//# ArcRwLockUpgradableReadGuard
let lock = Arc::new(RwLock::new(1)); let guard: ArcRwLockUpgradableReadGuard<RawRwLock, u32> = lock.upgradable_read_arc(); assert_eq!(*guard, 1);
//# ArcRwLockUpgradableReadGuard::rwlock
let lock = Arc::new(RwLock::new(1)); let guard = lock.upgradable_read_arc(); assert!(Arc::ptr_eq(ArcRwLockUpgradableReadGuard::rwlock(&guard), &lock));
//# ArcRwLockUpgradableReadGuard::into_arc
let lock = Arc::new(RwLock::new(1)); assert!(!ArcRwLockUpgradableReadGuard::into_arc(lock.upgradable_read_arc()).is_locked());
//# ArcRwLockUpgradableReadGuard::into_arc_fair
let lock = Arc::new(RwLock::new(1)); assert!(!ArcRwLockUpgradableReadGuard::into_arc_fair(lock.upgradable_read_arc()).is_locked());
//# ArcRwLockUpgradableReadGuard::unlocked
let lock = Arc::new(RwLock::new(1)); let mut guard = lock.upgradable_read_arc(); ArcRwLockUpgradableReadGuard::unlocked(&mut guard, || *lock.write() += 1); assert_eq!(*guard, 2);
//# ArcRwLockUpgradableReadGuard::unlocked_fair
let lock = Arc::new(RwLock::new(1)); let mut guard = lock.upgradable_read_arc(); ArcRwLockUpgradableReadGuard::unlocked_fair(&mut guard, || *lock.write() += 1); assert_eq!(*guard, 2);
//# ArcRwLockUpgradableReadGuard::unlock_fair
let lock = Arc::new(RwLock::new(1)); ArcRwLockUpgradableReadGuard::unlock_fair(lock.upgradable_read_arc()); assert!(!lock.is_locked());
//# ArcRwLockUpgradableReadGuard::bump
let lock = Arc::new(RwLock::new(1)); let mut guard = lock.upgradable_read_arc(); ArcRwLockUpgradableReadGuard::bump(&mut guard); assert_eq!(*guard, 1);
//# MappedRwLockReadGuard
let lock = RwLock::new((vec![1], 2)); let guard: MappedRwLockReadGuard<'_, Vec<u32>> = RwLockReadGuard::map(lock.read(), |pair| &pair.0); assert_eq!(*guard, [1]);
//# MappedRwLockReadGuard::map
let lock = RwLock::new((vec![1], 2)); let guard: MappedRwLockReadGuard<'_, Vec<u32>> = RwLockReadGuard::map(lock.read(), |pair| &pair.0); assert_eq!(*MappedRwLockReadGuard::map(guard, |v| &v[0]), 1);
//# MappedRwLockReadGuard::try_map
let lock = RwLock::new((vec![1], 2)); let guard: MappedRwLockReadGuard<'_, Vec<u32>> = RwLockReadGuard::map(lock.read(), |pair| &pair.0); assert!(MappedRwLockReadGuard::try_map(guard, |v| v.get(1)).is_err());
//# MappedRwLockReadGuard::try_map_or_else
let lock = RwLock::new((vec![1], 2)); let guard: MappedRwLockReadGuard<'_, Vec<u32>> = RwLockReadGuard::map(lock.read(), |pair| &pair.0); assert!(MappedRwLockReadGuard::try_map_or_else(guard, |_| Err::<&u32, _>("no")).is_err());
//~ `try_map_or_err`, as with all other guards
//# MappedRwLockReadGuard::unlock_fair
let lock = RwLock::new((vec![1], 2)); let guard: MappedRwLockReadGuard<'_, Vec<u32>> = RwLockReadGuard::map(lock.read(), |pair| &pair.0); MappedRwLockReadGuard::unlock_fair(guard); assert!(!lock.is_locked());
//# MappedRwLockReadGuard: Debug
let lock = RwLock::new((vec![1], 2)); let guard: MappedRwLockReadGuard<'_, Vec<u32>> = RwLockReadGuard::map(lock.read(), |pair| &pair.0); assert_eq!(format!("{guard:?}"), "[1]");
//# MappedRwLockReadGuard: StableAddress
let lock = RwLock::new((vec![1], 2)); let guard: MappedRwLockReadGuard<'_, Vec<u32>> = RwLockReadGuard::map(lock.read(), |pair| &pair.0); assert_eq!(*owning_ref::OwningRef::new(guard).map(|v| &v[0]), 1);
//# MappedRwLockWriteGuard
let lock = RwLock::new((vec![1], 2)); let guard: MappedRwLockWriteGuard<'_, Vec<u32>> = RwLockWriteGuard::map(lock.write(), |pair| &mut pair.0); assert_eq!(*guard, [1]);
//# MappedRwLockWriteGuard::map
let lock = RwLock::new((vec![1], 2)); let guard: MappedRwLockWriteGuard<'_, Vec<u32>> = RwLockWriteGuard::map(lock.write(), |pair| &mut pair.0); assert_eq!(*MappedRwLockWriteGuard::map(guard, |v| &mut v[0]), 1);
//# MappedRwLockWriteGuard::try_map
let lock = RwLock::new((vec![1], 2)); let guard: MappedRwLockWriteGuard<'_, Vec<u32>> = RwLockWriteGuard::map(lock.write(), |pair| &mut pair.0); assert!(MappedRwLockWriteGuard::try_map(guard, |v| v.get_mut(1)).is_err());
//# MappedRwLockWriteGuard::try_map_or_err
let lock = RwLock::new((vec![1], 2)); let guard: MappedRwLockWriteGuard<'_, Vec<u32>> = RwLockWriteGuard::map(lock.write(), |pair| &mut pair.0); assert!(MappedRwLockWriteGuard::try_map_or_err(guard, |_| Err::<&mut u32, _>("no")).is_err());
//# MappedRwLockWriteGuard::unlock_fair
let lock = RwLock::new((vec![1], 2)); let guard: MappedRwLockWriteGuard<'_, Vec<u32>> = RwLockWriteGuard::map(lock.write(), |pair| &mut pair.0); MappedRwLockWriteGuard::unlock_fair(guard); assert!(!lock.is_locked());
//# MappedRwLockWriteGuard: Debug
let lock = RwLock::new((vec![1], 2)); let guard: MappedRwLockWriteGuard<'_, Vec<u32>> = RwLockWriteGuard::map(lock.write(), |pair| &mut pair.0); assert_eq!(format!("{guard:?}"), "[1]");
//# MappedRwLockWriteGuard: StableAddress
let lock = RwLock::new((vec![1], 2)); let guard: MappedRwLockWriteGuard<'_, Vec<u32>> = RwLockWriteGuard::map(lock.write(), |pair| &mut pair.0); assert_eq!(*owning_ref::OwningRef::new(guard).map(|v| &v[0]), 1);
//# lock_api::RawRwLock
let raw = <RawRwLock as lock_api::RawRwLock>::INIT; { use lock_api::RawRwLock as _; raw.lock_shared(); assert!(raw.try_lock_shared()); unsafe { raw.unlock_shared(); raw.unlock_shared() }; raw.lock_exclusive(); assert!(raw.is_locked_exclusive()); unsafe { raw.unlock_exclusive() }; assert!(!raw.is_locked()); }
//~ raw locks give a guard, and take it back
//# lock_api::RawRwLockFair
let raw = <RawRwLock as lock_api::RawRwLock>::INIT; { use lock_api::{RawRwLock as _, RawRwLockFair as _}; raw.lock_shared(); unsafe { raw.bump_shared(); raw.unlock_shared_fair() }; raw.lock_exclusive(); unsafe { raw.bump_exclusive(); raw.unlock_exclusive_fair() }; assert!(!raw.is_locked()); }
//~ raw locks give a guard, and take it back
//# lock_api::RawRwLockDowngrade
let raw = <RawRwLock as lock_api::RawRwLock>::INIT; { use lock_api::{RawRwLock as _, RawRwLockDowngrade as _}; raw.lock_exclusive(); unsafe { raw.downgrade() }; assert!(raw.try_lock_shared()); }
//~ raw locks give a guard, and take it back
//# lock_api::RawRwLockTimed
let raw = <RawRwLock as lock_api::RawRwLock>::INIT; { use lock_api::{RawRwLock as _, RawRwLockTimed as _}; assert!(raw.try_lock_shared_for(SHORT) && raw.try_lock_shared_until(soon()) && !raw.try_lock_exclusive_for(SHORT) && !raw.try_lock_exclusive_until(soon())); }
//~ raw locks give a guard, and take it back
//# lock_api::RawRwLockRecursive
let raw = <RawRwLock as lock_api::RawRwLock>::INIT; { use lock_api::{RawRwLock as _, RawRwLockRecursive as _}; raw.lock_shared(); raw.lock_shared_recursive(); assert!(raw.try_lock_shared_recursive()); }
//~ raw locks give a guard, and take it back
//# lock_api::RawRwLockRecursiveTimed
use lock_api::{RawRwLock as _, RawRwLockRecursiveTimed as _}; let raw = RawRwLock::INIT; assert!(raw.try_lock_shared_recursive_for(SHORT) && raw.try_lock_shared_recursive_until(soon()));
//~ raw locks give a guard, and take it back
//# lock_api::RawRwLockUpgrade
let raw = <RawRwLock as lock_api::RawRwLock>::INIT; { use lock_api::{RawRwLock as _, RawRwLockUpgrade as _}; raw.lock_upgradable(); assert!(!raw.try_lock_upgradable()); unsafe { raw.upgrade(); raw.unlock_exclusive() }; raw.lock_upgradable(); assert!(unsafe { raw.try_upgrade() }); }
//~ raw locks give a guard, and take it back
//# lock_api::RawRwLockUpgradeFair
let raw = <RawRwLock as lock_api::RawRwLock>::INIT; { use lock_api::{RawRwLock as _, RawRwLockUpgradeFair as _}; use lock_api::RawRwLockUpgrade as _; raw.lock_upgradable(); unsafe { raw.bump_upgradable(); raw.unlock_upgradable_fair() }; assert!(!raw.is_locked()); }
//~ raw locks give a guard, and take it back
//# lock_api::RawRwLockUpgradeDowngrade
let raw = <RawRwLock as lock_api::RawRwLock>::INIT; { use lock_api::{RawRwLock as _, RawRwLockUpgradeDowngrade as _}; use lock_api::RawRwLockUpgrade as _; raw.lock_upgradable(); unsafe { raw.downgrade_upgradable(); raw.unlock_shared() }; raw.lock_exclusive(); unsafe { raw.downgrade_to_upgradable(); raw.unlock_upgradable() }; }
//~ raw locks give a guard, and take it back
//# lock_api::RawRwLockUpgradeTimed
let raw = <RawRwLock as lock_api::RawRwLock>::INIT; { use lock_api::{RawRwLock as _, RawRwLockUpgradeTimed as _}; assert!(raw.try_lock_upgradable_for(SHORT) && !raw.try_lock_upgradable_until(soon())); assert!(unsafe { raw.try_upgrade_for(SHORT) }); }
//~ raw locks give a guard, and take it back
