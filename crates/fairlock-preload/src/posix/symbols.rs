//! The functions that take the place of glibc's: each says in which words it calls one of this
//! library's. Those of the attributes, and those of robust and protecting mutexes, stay glibc's, but
//! for the kind of rwlocks.
//!
//! A thread that is cancelled while it waits for a condition variable leaves them by unwinding; and
//! a thread may have itself cancelled anywhere.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;

use fairlock_profile::layout::side::{READ, WRITE};
use libc::{
    CLOCK_REALTIME as REALTIME, EBUSY, ENOMEM, ETIMEDOUT, clockid_t, pid_t, pthread_attr_t,
    pthread_condattr_t, pthread_key_t, pthread_mutexattr_t, pthread_rwlockattr_t, pthread_t,
    sched_param,
};

use super::cond::{self, Cond as Ours};
use super::enter::Ours as _;
use super::{Lock, kind, mutex as mutexes, observed};
use crate::process::config::{self, Kind, Mode};
use crate::process::real::{
    self, Cond, Destructor, JumpBuffer, Mutex, Rwlock, Semaphore, Spin, Time,
};
use crate::profile;
use crate::thread::cancel::{self, whole};
use crate::thread::{self, jump};

/// Functions, some of them under several names: those that programs use that were linked against old
/// versions of glibc; and C11's, with C11's results, whose mutexes and condition variables are POSIX's.
/// (`mtx_init` and `cnd_init` stay glibc's: they make the same of the bytes as POSIX's static
/// initialisers, or as that of a recursive mutex.)
macro_rules! symbols {
    ($(
        $name:ident $arguments:tt $([$($other:ident: $result:path),*])?
        $($body:block)? $(=> $value:expr;)?
    )*) => {
        $(
            symbols!(@one $name $arguments { $($body)? $($value)? });
            $($(symbols!(@other $other $arguments $name $result);)*)?
        )*
    };
    (@one $name:ident ($($argument:ident: $type:ty),*) $body:block) => {
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the program's promise: what it gives to glibc's functions, it gives to these.
            unsafe { $body }
        }
    };
    (@other $name:ident ($($argument:ident: $type:ty),*) $same:ident $result:path) => {
        symbols! { @one $name ($($argument: $type),*) { $result($same($($argument),*)) } }
    };
}

/// The result of a function of C11, one of `thrd_*`. Where C11 has none, it does not matter what is returned.
fn c11(errno: c_int) -> c_int {
    match errno {
        0 => 0,
        EBUSY => 1,
        ENOMEM => 3,
        ETIMEDOUT => 4,
        _ => 2,
    }
}

/// That of a function of POSIX.
fn same(errno: c_int) -> c_int {
    errno
}

symbols! {
    pthread_rwlock_init(lock: Rwlock, attributes: *const pthread_rwlockattr_t)
        [__pthread_rwlock_init: same] {
        // glibc's initialised lock is a free one.
        let result = real::pthread_rwlock_init(lock, attributes);
        if result == 0 {
            Lock::forget_wish(lock);
        }
        result
    }
    pthread_rwlockattr_setkind_np(attributes: *mut pthread_rwlockattr_t, wanted: c_int) {
        let result = real::pthread_rwlockattr_setkind_np(attributes, wanted);
        if result == 0 && wanted == kind::PREFER_READER && config::serves(Kind::Rwlock) {
            // glibc's attributes begin with the kind.
            attributes.cast::<c_int>().write(kind::ASKED_FOR_READER);
        }
        result
    }
    pthread_rwlockattr_getkind_np(attributes: *const pthread_rwlockattr_t, found: *mut c_int) {
        let result = real::pthread_rwlockattr_getkind_np(attributes, found);
        if result == 0 && *found == kind::ASKED_FOR_READER {
            *found = kind::PREFER_READER;
        }
        result
    }
    pthread_rwlock_destroy(lock: Rwlock) [__pthread_rwlock_destroy: same] =>
        whole(move || {
            Lock::served(lock, Lock::destroy, || real::pthread_rwlock_destroy(lock))
        });
    pthread_rwlock_rdlock(lock: Rwlock) [__pthread_rwlock_rdlock: same] =>
        super::fast_or(lock, Lock::read_fast, super::read::<true>);
    pthread_rwlock_tryrdlock(lock: Rwlock) [__pthread_rwlock_tryrdlock: same] =>
        super::fast_or(lock, Lock::read_fast, super::read::<false>);
    pthread_rwlock_wrlock(lock: Rwlock) [__pthread_rwlock_wrlock: same] =>
        super::fast_or(lock, Lock::write_fast, super::lock::<WRITE>);
    pthread_rwlock_trywrlock(lock: Rwlock) [__pthread_rwlock_trywrlock: same] =>
        super::fast_or(lock, Lock::write_fast, super::try_lock::<WRITE>);
    pthread_rwlock_unlock(lock: Rwlock) [__pthread_rwlock_unlock: same] =>
        super::fast_or(lock, Lock::unlock_fast, super::unlock);
    // As in glibc: an invalid time is refused before anything else.
    pthread_rwlock_timedrdlock(lock: Rwlock, time: Time) =>
        super::take_until(lock, READ, REALTIME, time, move || real::pthread_rwlock_timedrdlock(lock, time));
    pthread_rwlock_clockrdlock(lock: Rwlock, clock: clockid_t, time: Time) =>
        super::take_until(lock, READ, clock, time, move || real::pthread_rwlock_clockrdlock(lock, clock, time));
    pthread_rwlock_timedwrlock(lock: Rwlock, time: Time) =>
        super::take_until(lock, WRITE, REALTIME, time, move || real::pthread_rwlock_timedwrlock(lock, time));
    pthread_rwlock_clockwrlock(lock: Rwlock, clock: clockid_t, time: Time) =>
        super::take_until(lock, WRITE, clock, time, move || real::pthread_rwlock_clockwrlock(lock, clock, time));

    // glibc's initialised mutex is a free thin lock.
    pthread_mutex_init(mutex: Mutex, attributes: *const pthread_mutexattr_t)
        [__pthread_mutex_init: same] =>
        real::pthread_mutex_init(mutex, attributes);
    pthread_mutex_destroy(mutex: Mutex)
        [__pthread_mutex_destroy: same, mtx_destroy: c11] =>
        whole(move || {
            let or_glibc_s = || real::pthread_mutex_destroy(mutex);
            mutexes::Mutex::served(mutex, mutexes::Mutex::destroy, or_glibc_s)
        });
    pthread_mutex_lock(mutex: Mutex) [__pthread_mutex_lock: same, mtx_lock: c11] =>
        mutexes::lock(mutex);
    pthread_mutex_trylock(mutex: Mutex)
        [__pthread_mutex_trylock: same, mtx_trylock: c11] =>
        mutexes::try_lock(mutex);
    pthread_mutex_unlock(mutex: Mutex) [__pthread_mutex_unlock: same, mtx_unlock: c11] =>
        mutexes::unlock(mutex);
    pthread_mutex_timedlock(mutex: Mutex, time: Time) [mtx_timedlock: c11] =>
        mutexes::lock_until(mutex, REALTIME, time, move || {
            real::pthread_mutex_timedlock(mutex, time)
        });
    pthread_mutex_clocklock(mutex: Mutex, clock: clockid_t, time: Time) =>
        mutexes::lock_until(mutex, clock, time, move || {
            real::pthread_mutex_clocklock(mutex, clock, time)
        });

    pthread_cond_init(cond: Cond, attributes: *const pthread_condattr_t) =>
        real::pthread_cond_init(cond, attributes);
    pthread_cond_destroy(cond: Cond) [cnd_destroy: c11] =>
        whole(move || {
            let or_glibc_s = || jump::without(|| real::pthread_cond_destroy(cond));
            Ours::at(cond).map_or_else(or_glibc_s, Ours::destroy)
        });
    pthread_cond_wait(cond: Cond, mutex: Mutex) [cnd_wait: c11] =>
        cond::wait(cond, mutex, REALTIME, ptr::null(), move || real::pthread_cond_wait(cond, mutex));
    pthread_cond_timedwait(cond: Cond, mutex: Mutex, time: Time) [cnd_timedwait: c11] {
        let or_glibc_s = move || real::pthread_cond_timedwait(cond, mutex, time);
        cond::wait(cond, mutex, Ours::clock(cond), time, or_glibc_s)
    }
    pthread_cond_clockwait(cond: Cond, mutex: Mutex, clock: clockid_t, time: Time) {
        let or_glibc_s = move || real::pthread_cond_clockwait(cond, mutex, clock, time);
        cond::wait(cond, mutex, clock, time, or_glibc_s)
    }
    pthread_cond_signal(cond: Cond) [cnd_signal: c11] =>
        cond::notify(cond, Ours::signal, move || real::pthread_cond_signal(cond));
    pthread_cond_broadcast(cond: Cond) [cnd_broadcast: c11] =>
        cond::notify(cond, Ours::broadcast, move || real::pthread_cond_broadcast(cond));
    pthread_cancel(thread: pthread_t) {
        let cancel = move || real::pthread_cancel(thread);
        whole(move || match config::mode() {
            Mode::Off => cancel(),
            Mode::On => cancel::cancel(thread, cancel),
        })
    }
    pthread_setcanceltype(new: c_int, before: *mut c_int) {
        cancel::note_type(new);
        real::pthread_setcanceltype(new, before)
    }

    siglongjmp(to: JumpBuffer, value: c_int) [longjmp: same, _longjmp: same] =>
        jump::jump(to, value, real::siglongjmp);
    __longjmp_chk(to: JumpBuffer, value: c_int) => jump::jump(to, value, real::__longjmp_chk);
    pthread_key_create(key: *mut pthread_key_t, ends: Destructor)
        [__pthread_key_create: same, tss_create: c11] =>
        whole(move || thread::make_key(|| real::pthread_key_create(key, ends)));
    pthread_setschedparam(thread: pthread_t, policy: c_int, wanted: *const sched_param) {
        thread::note_policy(policy);
        real::pthread_setschedparam(thread, policy, wanted)
    }
    pthread_attr_setschedpolicy(attributes: *mut pthread_attr_t, policy: c_int) {
        thread::note_policy(policy);
        real::pthread_attr_setschedpolicy(attributes, policy)
    }
    sched_setscheduler(process: pid_t, policy: c_int, wanted: *const sched_param) {
        thread::note_policy(policy);
        real::sched_setscheduler(process, policy, wanted)
    }
    // Of glibc since 2.41 only; it does the same.
    sched_setattr(process: pid_t, wanted: *const c_void, flags: c_uint) {
        libc::syscall(libc::SYS_sched_setattr, process, wanted, flags) as c_int
    }

    pthread_spin_lock(lock: Spin) =>
        if observed::take_as_glibc(lock) { 0 } else { whole(move || observed::spin_lock(lock)) };
    pthread_spin_trylock(lock: Spin) =>
        if observed::take_as_glibc(lock) { 0 } else { whole(move || observed::spin_try_lock(lock)) };
    pthread_spin_unlock(lock: Spin) =>
        if observed::release_as_glibc(lock) { 0 } else { whole(move || observed::spin_unlock(lock)) };

    sem_wait(semaphore: Semaphore) =>
        observed::at_semaphore(semaphore, move || real::sem_wait(semaphore));
    sem_timedwait(semaphore: Semaphore, time: Time) =>
        observed::at_semaphore(semaphore, move || real::sem_timedwait(semaphore, time));
    sem_clockwait(semaphore: Semaphore, clock: clockid_t, time: Time) =>
        observed::at_semaphore(semaphore, move || real::sem_clockwait(semaphore, clock, time));

    sem_post(semaphore: Semaphore) => observed::post(semaphore);

    // For the profile: what is loaded later may have the same addresses.
    dlclose(library: *mut c_void) => profile::unloading(|| real::dlclose(library));
}
