//! A `pthread_mutex_t`, and what POSIX and glibc say about it.
//!
//! It is a thin lock that is only ever written, in bytes that glibc uses for robust mutexes and
//! those that inherit priorities. These mutexes stay glibc's, and so do shared ones.

use core::ffi::c_int;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering};

use fairlock::wait::Wait;
use fairlock_profile::layout::{kind, side};
use libc::{
    EAGAIN, EBUSY, ECANCELED, EDEADLK, EINVAL, EPERM, ETIMEDOUT, clockid_t, pthread_mutex_t,
};

use super::enter::{Inflatable, Inside, try_write_slot, write_slot};
use super::until::{Until, is_known};
use crate::head::Exit;
use crate::process::config::{self, Kind};
use crate::process::glibc::{Words, is_alone};
use crate::process::real;
use crate::process::word::{MutexKind, MutexType};
use crate::profile::{self, Of, Target};
use crate::registry::{self, Head, Slot};
use crate::thread::cancel::whole;
use crate::thread::{self, Mutexes, Recorded, State, jump};
use crate::word::Word;

/// The program's mutex.
#[repr(C)]
pub(super) struct Mutex {
    words: Words,
    /// Not zero once the mutex is inflated: a hint not to try to write to the head. Belongs to the
    /// holder. (`__spins`)
    inflated: AtomicU32,
    /// `__list`: in glibc, for robust mutexes and those that inherit priorities.
    head: Head,
    _next: usize,
}

const _: () = assert!(offset_of!(Mutex, head) == 24);

impl Inflatable for Mutex {
    type Program = pthread_mutex_t;

    fn is_ours(&self) -> bool {
        self.kind().may_be_ours() && config::serves(Kind::Mutex)
    }

    fn head(&self) -> &Head {
        &self.head
    }

    fn inflate(&self) -> Option<&'static Slot> {
        registry::inflate(&self.head, self.address(), Kind::Mutex)
    }
}

// Relaxed, all accesses to fields but the head: they belong to the holder, or are only compared
// with the caller's own number.
impl Mutex {
    #[inline(always)]
    fn seems_inflated(&self) -> bool {
        self.inflated.load(Ordering::Relaxed) != 0
    }

    #[inline(always)]
    fn kind(&self) -> MutexKind {
        self.words.kind()
    }

    // ---- uncontended: as few instructions as possible ----

    /// Takes a thin mutex. For a thread that may use these.
    #[inline(always)]
    fn lock_fast(&self, me: &State) -> bool {
        let kind = self.kind();
        if !kind.may_be_ours() || self.seems_inflated() {
            return false;
        }
        let head = &self.head;
        let taken = match is_alone() {
            true => head.exchange_alone(Word::FREE, Word::WRITTEN),
            false => head.write_fast(),
        };
        if taken {
            self.note(kind, me);
        }
        taken
    }

    /// Releases a thin mutex; false if more has to be done. For a thread that may use these.
    #[inline(always)]
    fn unlock_fast(&self, me: &State) -> bool {
        let kind = self.kind();
        if !kind.may_be_ours() {
            return false;
        }
        if kind.knows_its_owner()
            && (self.words.owner.load(Ordering::Relaxed) != me.tid.get()
                || self.words.count.load(Ordering::Relaxed) > 1)
        {
            return false;
        }
        self.give_up(kind);
        true
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
        let until = match until {
            None => Until::Forever,
            Some(until) => {
                let entry = self.enter(me, Head::write);
                match self.inside(entry, false, try_write_slot) {
                    taken @ (Ok(_) | Err(ECANCELED)) => return self.taken(kind, me, taken),
                    Err(_) => until()?,
                }
            }
        };
        let entry = self.wait_to_enter(me, Head::write, &until);
        let take = |slot: &_, until: &_| write_slot(slot, me, until);
        self.taken(kind, me, self.wait_inside(me, entry, Head::write, &until, take))
    }

    /// Takes the mutex without waiting: by `try_slot` if it is inflated.
    fn try_lock(&self, try_slot: fn(&Slot) -> Result<(), c_int>) -> Result<(), c_int> {
        let me = thread::enter();
        let kind = self.kind();
        if kind.is_recursive() && self.is_owned_by(me) {
            return self.relock();
        }
        let entry = self.enter(me, Head::write);
        self.taken(kind, me, self.inside(entry, false, try_slot))
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

    fn taken(&self, kind: MutexKind, me: &State, taken: Inside) -> Result<(), c_int> {
        let slot = taken?;
        self.note(kind, me);
        if self.seems_inflated() != slot.is_some() {
            self.inflated.store(slot.is_some().into(), Ordering::Relaxed);
        }
        if let Some(slot) = slot.filter(|_| me.observes.get()) {
            slot.stats.note_write(me.tid.get());
        }
        Ok(())
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

    /// Gives the mutex up. As soon as it is, it may be gone.
    #[inline(always)]
    fn give_up(&self, kind: MutexKind) {
        if kind.is_recursive() {
            self.words.count.store(0, Ordering::Relaxed);
        }
        self.words.owner.store(0, Ordering::Relaxed);
        let head = &self.head;
        let leave = || match is_alone() {
            true => head.exchange_alone(Word::WRITTEN, Word::FREE),
            false => head.leave_write_fast(),
        };
        let left = !self.seems_inflated() && leave();
        if !left {
            whole(move || self.give_up_slot());
        }
    }

    /// Gives up an inflated mutex. Does nothing if nobody holds it.
    fn give_up_slot(&self) {
        let _record = Recorded::begin();
        if let Exit::Inflated(slot) = self.head.leave(self.address(), || ()) {
            let slot = registry::here(slot);
            if slot.sem().is_write_locked() {
                slot.stats.note_writer(0);
                // SAFETY: it is held: by the caller, or by the thread for which the caller releases
                // it.
                unsafe { slot.sem().unlock_write() };
            }
        }
    }

    /// Fails if somebody holds the mutex, or waits at a condition variable with it, as glibc's does.
    pub(super) fn destroy(&self) -> Result<(), c_int> {
        let address = self.address();
        if self.words.users.load(Ordering::Relaxed) != 0 {
            return Err(EBUSY);
        }
        match self.head.slot(address) {
            Some(slot) if registry::here(slot).sem().is_write_locked() => return Err(EBUSY),
            Some(_) => registry::retire(&self.head, address),
            None if self.head.is_held() => return Err(EBUSY),
            None => {}
        }
        self.words.kind.store(MutexKind::DESTROYED.0, Ordering::Relaxed);
        Ok(())
    }
}

/// The first attempt of a `lock`.
fn take_fast(slot: &Slot) -> Result<(), c_int> {
    if slot.sem().take_write_at_once() { Ok(()) } else { Err(EBUSY) }
}

/// A `try` may go before those that wait if nobody holds the lock and it is not closed.
fn try_lock_slot(slot: &Slot) -> Result<(), c_int> {
    let over = Wait::until_nanos(0);
    let sem = slot.sem();
    try_write_slot(slot).or_else(|errno| {
        let taken = !sem.is_write_locked() && sem.write_with(over).is_ok();
        if taken { Ok(()) } else { Err(errno) }
    })
}

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
        match me.mutexes.get() {
            Mutexes::Thin if Mutex::at(mutex).is_some_and(|ours| ours.lock_fast(me)) => 0,
            _ => whole(move || in_general(mutex)),
        }
    }
}

/// # Safety
/// As above.
#[inline(always)]
pub(super) unsafe fn lock(mutex: real::Mutex) -> c_int {
    unsafe fn in_general(mutex: real::Mutex) -> c_int {
        // SAFETY: the caller's promise.
        let wait = || unsafe { real::pthread_mutex_lock(mutex) };
        // SAFETY: as above.
        unsafe { acquire(mutex, || Mutex::served(mutex, Mutex::lock, wait)) }
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
        match me.mutexes.get() {
            Mutexes::Thin if Mutex::at(mutex).is_some_and(|ours| ours.unlock_fast(me)) => 0,
            Mutexes::Thin => whole(move || unlock_in_general(mutex)),
            _ => whole(move || unlock_counted(mutex, me)),
        }
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
        profile::attempt(target(mutex), || unsafe { attempt(mutex, try_lock_slot) })
    }
    // SAFETY: the caller's promise.
    unsafe { fast_or(mutex, in_general) }
}

/// # Safety
/// As above.
#[inline(always)]
unsafe fn attempt(mutex: real::Mutex, try_slot: fn(&Slot) -> Result<(), c_int>) -> c_int {
    #[inline(never)]
    unsafe fn in_general(mutex: real::Mutex, try_slot: fn(&Slot) -> Result<(), c_int>) -> c_int {
        // SAFETY: the caller's promise.
        let attempt = || unsafe { real::pthread_mutex_trylock(mutex) };
        // SAFETY: as above.
        unsafe { Mutex::served(mutex, |mutex| mutex.try_lock(try_slot), attempt) }
    }
    let me = thread::state();
    // SAFETY: the caller's promise.
    unsafe {
        // In as few steps as where nothing is counted.
        match (me.mutexes.get(), Mutex::at(mutex)) {
            (Mutexes::ThinCounted, Some(ours)) if ours.lock_fast(me) => 0,
            (Mutexes::AsGlibcCounted, Some(ours)) if ours.words.lock_as_glibc(me.tid.get()) => 0,
            _ => in_general(mutex, try_slot),
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
            acquire(mutex, || Mutex::served(mutex, ours, or_glibc_s))
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
unsafe fn acquire(mutex: real::Mutex, wait: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    let first = || unsafe { attempt(mutex, take_fast) };
    // SAFETY: as above.
    let again = || unsafe { attempt(mutex, take_fast) };
    profile::acquire(target(mutex), first, again, wait)
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
            (Mutexes::ThinCounted, Some(ours)) if ours.unlock_fast(me) => 0,
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
