//! What model checks share: threads that make visits, one after the other.

#[cfg(feature = "async")]
pub(crate) mod tasks;

use core::sync::atomic::{AtomicUsize, Ordering};

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use crate::fault::{Fault, with_fault};
use crate::lock::{PooledPlatform, RawMutex, RawRwLock};

/// A model with more interleavings than this is ended there: enough for the mistakes of the negative controls that it is to
/// find. `FAIRLOCK_LOOM_DEEP`, which `scripts/model-check-deep` sets, is [`MANY`].
const ENOUGH: usize = 5_000;
const MANY: usize = 20_000;

/// Where threads make their visits.
pub(crate) trait Scene: Send + Sync + 'static {
    /// What a thread does once.
    type Visit: Copy + Send + Sync + 'static;

    /// Makes a visit; returns how often it changed what the lock guards.
    fn visit(&self, visit: Self::Visit) -> u32;

    /// Everybody has left, and left nothing behind; what the lock guards was changed `changes`
    /// times.
    fn check(&self, changes: u32);
}

/// A builder that tries as many interleavings as are enough, unless told otherwise.
pub(crate) fn enough() -> Builder {
    at_most(if is_deep() { MANY } else { ENOUGH })
}

/// The same, for models that find a mistake after more of them only.
pub(crate) fn many() -> Builder {
    at_most(MANY)
}

/// Of models that have millions of interleavings with two preemptions: all with one, and many with two. The deep check has all.
pub(crate) fn of_millions() -> Vec<Builder> {
    if is_deep() {
        return vec![Builder::new()];
    }
    let mut with_one = Builder::new();
    with_one.preemption_bound = with_one.preemption_bound.map(|bound| bound.min(1));
    vec![with_one, many()]
}

fn is_deep() -> bool {
    std::env::var_os("FAIRLOCK_LOOM_DEEP").is_some()
}

fn at_most(interleavings: usize) -> Builder {
    let mut builder = Builder::new();
    builder.max_permutations = builder.max_permutations.or(Some(interleavings));
    // Loom looks that often only.
    builder.checkpoint_interval = builder.checkpoint_interval.min(interleavings);
    builder
}

/// Each thread makes its visits, at locks that make this mistake, if any. The model's own thread
/// makes the first list.
pub(crate) fn check<S: Scene>(
    builder: &Builder,
    fault: Option<Fault>,
    scene: impl Fn() -> S + Send + Sync + 'static,
    threads: &'static [&'static [S::Visit]],
) {
    let tried = std::sync::Arc::new(AtomicUsize::new(0));
    let trying = tried.clone();
    let model = move || {
        trying.fetch_add(1, Ordering::Relaxed);
        let scene = Arc::new(scene());
        let [here, others @ ..] = threads else { return };
        let others: Vec<_> = others
            .iter()
            .map(|visits| {
                let scene = scene.clone();
                thread::spawn(move || visits.iter().map(|&visit| scene.visit(visit)).sum::<u32>())
            })
            .collect();
        let mut changes = here.iter().map(|&visit| scene.visit(visit)).sum::<u32>();
        for other in others {
            changes += other.join().unwrap();
        }
        scene.check(changes);
    };
    with_fault(fault, || builder.check(model));
    println!("{tried:?} interleavings");
}

/// A lock, and what it guards.
pub(crate) struct Guarded<L> {
    pub(crate) lock: L,
    value: UnsafeCell<u32>,
}

// SAFETY: `value` is touched under the lock only (loom checks that).
unsafe impl<L: Sync> Sync for Guarded<L> {}
// SAFETY: as above.
unsafe impl<L: Send> Send for Guarded<L> {}

impl<L> Guarded<L> {
    pub(crate) fn new(lock: L) -> Self {
        Self { lock, value: UnsafeCell::new(0) }
    }

    /// The calling thread has the lock.
    pub(crate) fn change(&self) {
        // SAFETY: nobody else has it (loom checks that).
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    /// How often it was changed. The calling thread has the lock, or nobody else is there.
    pub(crate) fn seen(&self) -> u32 {
        // SAFETY: nobody changes it (loom checks that).
        self.value.with(|value| unsafe { *value })
    }
}

impl<P: PooledPlatform> Guarded<RawMutex<P>> {
    /// Changes the value if the lock was taken, and releases it; returns how often it did.
    pub(crate) fn section(&self, taken: bool) -> u32 {
        if taken {
            self.change();
            // SAFETY: just taken.
            unsafe { self.lock.unlock() };
        }
        taken.into()
    }
}

impl<P: PooledPlatform> Guarded<RawRwLock<P>> {
    /// Looks at the value if the lock was taken to read it, and gives it up; returns how often the value was changed.
    pub(crate) fn read(&self, taken: bool) -> u32 {
        if taken {
            self.seen();
            // SAFETY: just taken.
            unsafe { self.lock.unlock_read() };
        }
        0
    }

    /// The same if it was taken to write it.
    pub(crate) fn write(&self, taken: bool) -> u32 {
        if taken {
            self.change();
            // SAFETY: just taken.
            unsafe { self.lock.unlock_write() };
        }
        taken.into()
    }
}

/// Two owners of a lock: the last one drops it while the other may be on its way out of `unlock`.
/// Loom's own atomics notice a use of one that was dropped.
pub(crate) fn last_owner_drops<L: 'static>(
    new: impl Fn() -> L + Send + Sync + 'static,
    lock: fn(&L),
    unlock: unsafe fn(&L),
) {
    struct Owned<L> {
        lock: L,
        left: UnsafeCell<u32>,
    }
    let own = move |owned: *mut Owned<L>| {
        // SAFETY: the last owner drops it, and this one has not finished; what is taken is given
        // up.
        let is_last = unsafe {
            lock(&(*owned).lock);
            let is_last = (*owned).left.with_mut(|left| {
                *left -= 1;
                *left == 0
            });
            unlock(&(*owned).lock);
            is_last
        };
        if is_last {
            // SAFETY: from a box; the other one has had the lock before.
            drop(unsafe { Box::from_raw(owned) });
        }
    };
    Builder::new().check(move || {
        let owned = Owned { lock: new(), left: UnsafeCell::new(2) };
        let owned = Box::into_raw(Box::new(owned)) as usize;
        let other = thread::spawn(move || own(owned as *mut Owned<L>));
        own(owned as *mut Owned<L>);
        other.join().unwrap();
    });
}

/// For each name a test that gives `$check` no fault and the visits of its threads.
macro_rules! models {
    ($check:ident; $($name:ident: $threads:expr;)+) => {$(
        #[test]
        fn $name() {
            $check(None, &$threads);
        }
    )+};
}
pub(crate) use models;

/// For each name a test that passes if the test of that name in `broken` fails with this complaint.
#[cfg(fairlock_faults)]
macro_rules! controls {
    ($($name:ident: $complaint:expr;)+) => {$(
        #[test]
        fn $name() {
            let test = concat!(module_path!(), "::broken::", stringify!($name));
            $crate::platform::loom::assert_fails(test, $complaint);
        }
    )+};
}
#[cfg(fairlock_faults)]
pub(crate) use controls;
