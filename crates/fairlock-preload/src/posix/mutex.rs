//! A `pthread_mutex_t`, and what POSIX and glibc say about it.
//!
//! It is a [`RawMutex`] in bytes that glibc uses for robust mutexes and those that inherit priorities. These mutexes stay
//! glibc's, and so do shared ones.

use core::ffi::c_int;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering};

use fairlock::lock::{AtOnce, RawMutex};
use fairlock_profile::layout::{kind, side};
use libc::{
    EAGAIN, EBUSY, ECANCELED, EDEADLK, EINVAL, EPERM, ETIMEDOUT, clockid_t, pthread_mutex_t,
};

use super::enter::{Ours, wait_by};
use super::until::{Until, is_known};
use crate::process::config::{self, Kind};
use crate::process::glibc::{Words, is_alone};
use crate::process::real;
use crate::process::word::{MutexKind, MutexType};
use crate::profile::{self, Of, Target};
use crate::thread::cancel::{self, whole};
use crate::thread::{self, Mutexes, Preload, Recorded, State, jump, nap};

/// The program's mutex.
#[repr(C)]
pub(super) struct Mutex {
    words: Words,
    _spins: u32,
    /// `__list`: in glibc, for robust mutexes and those that inherit priorities.
    raw: RawMutex<Preload>,
    _next: usize,
}

const _: () = assert!(offset_of!(Mutex, raw) == 24);

impl Ours for Mutex {
    type Program = pthread_mutex_t;

    fn is_ours(&self) -> bool {
        self.kind().may_be_ours() && config::serves(Kind::Mutex)
    }
}

// Relaxed, all accesses to fields but the lock: they belong to the holder, or are only compared with the caller's own
// number.
impl Mutex {
    #[inline(always)]
    fn kind(&self) -> MutexKind {
        self.words.kind()
    }

    // ---- uncontended: as few instructions as possible ----

    /// Takes the mutex if nobody holds it. For a thread that may use these.
    #[inline(always)]
    fn lock_fast(&self, me: &State) -> AtOnce {
        let kind = self.kind();
        if !kind.may_be_ours() {
            return AtOnce::Not;
        }
        let taken = match is_alone() {
            // SAFETY: the process has one thread.
            true => unsafe { self.raw.lock_alone() },
            false => self.raw.lock_fast(),
        };
        if let AtOnce::Taken = taken {
            self.note(kind, me);
        }
        taken
    }

    /// The calling thread has taken the mutex, and somebody has waited for it lately. Whether it may stay.
    fn may_stay(&self) -> bool {
        let _record = Recorded::begin();
        // SAFETY: just taken.
        let stays = unsafe { self.raw.may_stay() };
        stays.then(|| self.note(self.kind(), thread::state())).is_some()
    }

    /// Releases the mutex, which is the call's result; nothing if more has to be done. For a thread that may use these.
    #[inline(always)]
    fn unlock_fast(&self, me: &State) -> Option<c_int> {
        let kind = self.kind();
        if !kind.may_be_ours() {
            return None;
        }
        if kind.knows_its_owner()
            && (self.words.owner.load(Ordering::Relaxed) != me.tid.get()
                || self.words.count.load(Ordering::Relaxed) > 1)
        {
            return None;
        }
        Some(self.give_up(kind))
    }

    // ---- in general ----

    fn lock(&self) -> Result<(), c_int> {
        self.lock_until(None::<fn() -> _>)
    }

    /// As `lock`, until a time that is asked for only if the caller has to wait.
    fn lock_until(
        &self,
        until: Option<impl FnOnce() -> Result<Until, c_int>>,
    ) -> Result<(), c_int> {
        let me = thread::enter();
        let kind = self.kind();
        if kind.knows_its_owner() && self.is_owned_by(me) {
            return if kind.is_recursive() { self.relock() } else { Err(EDEADLK) };
        }
        if !self.attempt(RawMutex::lock_in_turn) {
            let until = until.map_or(Ok(Until::Forever), |until| until())?;
            let taken = self.wait(&until);
            if cancel::gives_up(taken) {
                taken.is_ok().then(|| self.give_up_awaited(kind));
                return Err(ECANCELED);
            }
            taken?;
        }
        self.note(kind, me);
        Ok(())
    }

    /// Takes the mutex by an attempt, which does not wait.
    fn try_lock(&self, attempt: Attempt) -> Result<(), c_int> {
        let me = thread::enter();
        let kind = self.kind();
        if kind.is_recursive() && self.is_owned_by(me) {
            return self.relock();
        }
        if !self.attempt(attempt) {
            return Err(EBUSY);
        }
        self.note(kind, me);
        Ok(())
    }

    fn is_owned_by(&self, me: &State) -> bool {
        me.is_named(self.words.owner.load(Ordering::Relaxed))
    }

    /// The holder of a recursive mutex takes it once more.
    fn relock(&self) -> Result<(), c_int> {
        let count = self.words.count.load(Ordering::Relaxed).checked_add(1).ok_or(EAGAIN)?;
        self.words.count.store(count, Ordering::Relaxed);
        Ok(())
    }

    fn attempt(&self, attempt: Attempt) -> bool {
        let _record = Recorded::begin();
        attempt(&self.raw)
    }

    fn wait(&self, until: &Until) -> Result<(), c_int> {
        if !thread::has_record() {
            return self.look_until_taken(until);
        }
        wait_by(until, |wait| self.raw.lock_with(wait))
    }

    /// Without memory to wait in a queue the caller tries from time to time, in no order.
    #[cold]
    fn look_until_taken(&self, until: &Until) -> Result<(), c_int> {
        loop {
            nap();
            match () {
                () if self.attempt(RawMutex::try_lock) => return Ok(()),
                () if jump::is_due() => return Err(ECANCELED),
                () if until.is_over() => return Err(ETIMEDOUT),
                () if thread::has_record() => return self.wait(until),
                () => {}
            }
        }
    }

    /// The caller has taken the mutex, and notes that.
    #[inline(always)]
    fn note(&self, kind: MutexKind, me: &State) {
        self.words.owner.store(me.tid.get(), Ordering::Relaxed);
        if kind.is_recursive() {
            self.words.count.store(1, Ordering::Relaxed);
        }
    }

    fn unlock(&self) -> Result<(), c_int> {
        let me = thread::enter();
        let kind = self.kind();
        if kind.knows_its_owner() {
            if !self.is_owned_by(me) {
                return Err(EPERM);
            }
            let count = self.words.count.load(Ordering::Relaxed);
            if count > 1 {
                self.words.count.store(count - 1, Ordering::Relaxed);
                return Ok(());
            }
        }
        self.give_up(kind);
        Ok(())
    }

    /// Gives the mutex up, if somebody holds it: the caller, or the thread for which the caller releases it. As soon as it
    /// is given up, it may be gone. Returns zero, as the last call does that it makes.
    #[inline(always)]
    fn give_up(&self, kind: MutexKind) -> c_int {
        if self.words.owner.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        // SAFETY: the thread that holds it has noted that.
        let left = unsafe { self.raw.unlock_fast(|| self.note_free(kind)) };
        if left { 0 } else { whole(move || self.give_up_awaited(kind)) }
    }

    /// The mutex is about to be given up.
    #[inline(always)]
    fn note_free(&self, kind: MutexKind) {
        if kind.is_recursive() {
            self.words.count.store(0, Ordering::Relaxed);
        }
        self.words.owner.store(0, Ordering::Relaxed);
    }

    /// Gives up a mutex that somebody may wait for.
    #[cold]
    #[inline(never)]
    fn give_up_awaited(&self, kind: MutexKind) -> c_int {
        let _record = Recorded::begin();
        self.note_free(kind);
        // SAFETY: as above.
        unsafe { self.raw.unlock() };
        0
    }

    /// Fails if somebody holds the mutex, or waits at a condition variable with it, as glibc's does.
    pub(super) fn destroy(&self) -> Result<(), c_int> {
        if self.words.users.load(Ordering::Relaxed) != 0 || self.raw.is_locked() {
            return Err(EBUSY);
        }
        if self.raw.has_slot() {
            let _record = Recorded::begin();
            self.raw.trim();
        }
        self.words.kind.store(MutexKind::DESTROYED.0, Ordering::Relaxed);
        Ok(())
    }
}

/// An attempt on a mutex.
type Attempt = fn(&RawMutex<Preload>) -> bool;

// ---- for any mutex, ours or glibc's; the program's promise is that it is one ----

/// Takes the mutex by the short path, if it is one of ours that is free; or else `in_general`.
///
/// # Safety
/// A mutex that is initialised, and stays so until the caller is done with it: here and below.
#[inline(always)]
unsafe fn fast_or(mutex: real::Mutex, in_general: unsafe fn(real::Mutex) -> c_int) -> c_int {
    let me = thread::state();
    // SAFETY: the caller's promise.
    unsafe {
        // Not `map_or` and the like, which have destructors to run where they are not inlined: see `whole`.
        if me.mutexes.get() == Mutexes::Thin
            && let Some(ours) = Mutex::at(mutex)
        {
            match ours.lock_fast(me) {
                AtOnce::Taken => return 0,
                AtOnce::Named => return whole(move || named_or(mutex, in_general)),
                AtOnce::Not => {}
            }
        }
        whole(move || in_general(mutex))
    }
}

/// The calling thread has taken the mutex, one of ours, and somebody has waited for it lately.
///
/// # Safety
/// As above.
#[inline(never)]
unsafe fn named_or(mutex: real::Mutex, in_general: unsafe fn(real::Mutex) -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { if Mutex::at(mutex).is_some_and(Mutex::may_stay) { 0 } else { in_general(mutex) } }
}

/// # Safety
/// As above.
#[inline(always)]
pub(super) unsafe fn lock(mutex: real::Mutex) -> c_int {
    unsafe fn in_general(mutex: real::Mutex) -> c_int {
        // SAFETY: the caller's promise.
        let wait = || unsafe { real::pthread_mutex_lock(mutex) };
        // SAFETY: as above.
        unsafe { acquire(mutex, target(mutex), || Mutex::served(mutex, Mutex::lock, wait)) }
    }
    // SAFETY: the caller's promise.
    unsafe { fast_or(mutex, in_general) }
}

/// # Safety
/// As above, and held by the caller if it is a normal one.
#[inline(always)]
pub(super) unsafe fn unlock(mutex: real::Mutex) -> c_int {
    let me = thread::state();
    // SAFETY: the caller's promise.
    unsafe {
        if me.mutexes.get() != Mutexes::Thin {
            return whole(move || unlock_counted(mutex, me));
        }
        if let Some(ours) = Mutex::at(mutex)
            && let Some(result) = ours.unlock_fast(me)
        {
            return result;
        }
        whole(move || unlock_in_general(mutex))
    }
}

/// Waits for a condition variable by `wait`, with the mutex, ours or glibc's, released meanwhile. It cannot be
/// destroyed until the caller has it again. An error if it could not be released, or taken again, or if the thread jumps
/// out of the wait, which it does without the mutex.
///
/// # Safety
/// As above.
pub(super) unsafe fn released<R>(mutex: real::Mutex, wait: impl FnOnce() -> R) -> Result<R, c_int> {
    // SAFETY: the caller's promise.
    let users = unsafe { users(mutex) };
    // An atomic addition: the caller of an error-checking mutex may not be its holder.
    users.inspect(|users| _ = users.fetch_add(1, Ordering::Relaxed));
    // SAFETY: as above.
    let waited = match unsafe { unlock(mutex) } {
        0 => {
            let waited = wait();
            // SAFETY: as above: it has not been destroyed meanwhile.
            match if jump::is_due() { ECANCELED } else { unsafe { lock(mutex) } } {
                0 => Ok(waited),
                errno => Err(errno),
            }
        }
        errno => Err(errno),
    };
    users.inspect(|users| _ = users.fetch_sub(1, Ordering::Relaxed));
    waited
}

/// `__nusers`, of our mutexes and glibc's; none where it is at an address that an atomic operation
/// must not have.
///
/// # Safety
/// As above.
unsafe fn users<'a>(mutex: real::Mutex) -> Option<&'a AtomicU32> {
    // SAFETY: within the mutex.
    let users = unsafe { mutex.byte_add(offset_of!(Mutex, words.users)) }.cast::<AtomicU32>();
    // SAFETY: the caller's promise.
    users.is_aligned().then(|| unsafe { &*users })
}

/// # Safety
/// As above.
#[inline(always)]
pub(super) unsafe fn try_lock(mutex: real::Mutex) -> c_int {
    unsafe fn in_general(mutex: real::Mutex) -> c_int {
        // SAFETY: the caller's promise.
        profile::attempt(target(mutex), || unsafe { attempt(mutex, RawMutex::try_lock) })
    }
    // SAFETY: the caller's promise.
    unsafe { fast_or(mutex, in_general) }
}

/// # Safety
/// As above.
#[inline(always)]
unsafe fn attempt(mutex: real::Mutex, by: Attempt) -> c_int {
    #[inline(never)]
    unsafe fn in_general(mutex: real::Mutex, by: Attempt) -> c_int {
        // SAFETY: the caller's promise.
        let attempt = || unsafe { real::pthread_mutex_trylock(mutex) };
        // SAFETY: as above.
        unsafe { Mutex::served(mutex, |mutex| mutex.try_lock(by), attempt) }
    }
    let me = thread::state();
    // SAFETY: the caller's promise.
    unsafe {
        // In as few steps as where nothing is counted.
        match (me.mutexes.get(), Mutex::at(mutex)) {
            (Mutexes::ThinCounted, Some(ours)) => match ours.lock_fast(me) {
                AtOnce::Taken => 0,
                AtOnce::Named if ours.may_stay() => 0,
                _ => in_general(mutex, by),
            },
            (Mutexes::AsGlibcCounted, Some(ours)) if ours.words.lock_as_glibc(me.tid.get()) => 0,
            _ => in_general(mutex, by),
        }
    }
}

/// # Safety
/// As above.
pub(super) unsafe fn is_ours(mutex: real::Mutex) -> bool {
    // SAFETY: the caller's promise.
    unsafe { Mutex::at(mutex) }.is_some_and(Mutex::is_ours)
}

/// Takes the mutex, until a time. As in glibc: an unknown clock is refused before anything else, an invalid time
/// only if the caller has to wait.
///
/// # Safety
/// As above.
pub(super) unsafe fn lock_until(
    mutex: real::Mutex,
    clock: clockid_t,
    time: real::Time,
    or_glibc_s: impl FnOnce() -> c_int + Copy,
) -> c_int {
    whole(move || {
        if !is_known(clock) {
            return EINVAL;
        }
        // SAFETY: the caller's promise.
        unsafe {
            let ours = |mutex: &Mutex| mutex.lock_until(Some(|| Until::new(clock, time)));
            acquire(mutex, target(mutex).ending(), || Mutex::served(mutex, ours, or_glibc_s))
        }
    })
}

// ---- for the profile ----

/// A word that nobody else changes meanwhile, and that glibc's mutex has, too.
///
/// # Safety
/// A mutex that is initialised, here and below.
#[inline(always)]
unsafe fn word(mutex: usize, offset: usize) -> u32 {
    // SAFETY: a word of the mutex; the mutex may be at any address.
    unsafe { core::ptr::with_exposed_provenance::<u32>(mutex).byte_add(offset).read_unaligned() }
}

unsafe fn kind_of(mutex: usize) -> MutexKind {
    // SAFETY: the caller's promise.
    MutexKind(unsafe { word(mutex, offset_of!(Mutex, words.kind)) } as c_int)
}

fn target(mutex: real::Mutex) -> Target {
    // SAFETY: called while the mutex is being taken.
    const OWNER: fn(usize) -> u32 = |mutex| unsafe { word(mutex, offset_of!(Mutex, words.owner)) };
    const OF: &Of = &Of { kind: kind_at, owner: OWNER };
    Target { address: mutex.expose_provenance(), side: side::WRITE, of: OF }
}

fn kind_at(mutex: usize) -> u32 {
    // SAFETY: called while the mutex is being taken.
    match unsafe { kind_of(mutex) }.of_type() {
        MutexType::Normal => kind::MUTEX,
        MutexType::Recursive => kind::RECURSIVE,
        MutexType::ErrorChecking => kind::ERRORCHECK,
        MutexType::Adaptive => kind::ADAPTIVE,
    }
}

/// Takes the mutex by `wait`, if it cannot be had at once.
#[inline(always)]
unsafe fn acquire(mutex: real::Mutex, target: Target, wait: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    let first = || unsafe { attempt(mutex, RawMutex::lock_in_turn) };
    // SAFETY: as above.
    let again = || unsafe { attempt(mutex, RawMutex::lock_in_turn) };
    profile::acquire(target, first, again, wait)
}

unsafe fn unlock_in_general(mutex: real::Mutex) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { Mutex::served(mutex, Mutex::unlock, || real::pthread_mutex_unlock(mutex)) }
}

/// Releases the mutex, and looks at that for the profile.
unsafe fn unlock_counted(mutex: real::Mutex, me: &State) -> c_int {
    // SAFETY: the caller's promise.
    let look = unsafe { about_to_unlock(mutex, me) };
    // SAFETY: as above.
    let result = unsafe {
        match (me.mutexes.get(), Mutex::at(mutex)) {
            (Mutexes::ThinCounted, Some(ours)) => {
                ours.unlock_fast(me).unwrap_or_else(|| unlock_in_general(mutex))
            }
            (Mutexes::AsGlibcCounted, Some(ours)) if ours.words.unlock_as_glibc(me.tid.get()) => 0,
            _ => unlock_in_general(mutex),
        }
    };
    profile::released(look);
    result
}

#[inline(always)]
unsafe fn about_to_unlock(mutex: real::Mutex, me: &State) -> Option<profile::Look> {
    let address = mutex.expose_provenance();
    profile::release(
        address,
        || {
            // SAFETY: the caller's promise.
            let ours = unsafe { Mutex::at(mutex) };
            me.mutexes.get() != Mutexes::AsGlibcCounted
                || ours.is_none_or(|ours| ours.words.is_wanted_as_glibc())
        },
        // SAFETY: as above.
        || unsafe {
            kind_of(address).is_recursive() && word(address, offset_of!(Mutex, words.count)) > 1
        },
    )
}

/// Waits for something else, with the mutex released meanwhile.
#[inline(always)]
pub(super) unsafe fn without(mutex: real::Mutex, wait: impl FnOnce() -> c_int) -> c_int {
    if !profile::is_on() {
        return wait();
    }
    // SAFETY: the caller's promise.
    let look = unsafe { about_to_unlock(mutex, thread::state()) };
    profile::released(look);
    let result = wait();
    if result == ETIMEDOUT {
        let _ = profile::counted(target(mutex), 0);
        return result;
    }
    profile::counted(target(mutex), result)
}
