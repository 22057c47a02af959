//! Where Rust values live: in structs that the C program provides.
//!
//! Such a struct is of fixed size, aligned to 8 as `malloc` does at least, and begins with a
//! *mark*, which says what is in it. Its zero bytes are a value that nobody has used yet: the first
//! call makes the value, from the *preset* beside the mark, under one lock for the process. From
//! then on a call compares the mark, which it expects to match, and goes on. A value that is zero
//! bytes itself needs no lock to be made: so its first use may be in a signal handler.
//! | mark | meaning |
//! |---|---|
//! | 0 | nobody has used it; the preset says what it is to be |
//! | `READY`, and bits of its own address | the value is there |
//! | `GONE` | destroyed |
//! | anything else | never initialised, overwritten, or copied from elsewhere |
//! A value may be aligned as Rust wants it (to a cache line), and then its place in the struct
//! depends on where the struct is; and it may refer to what belongs to it alone. Because bits of
//! the address are in the mark, a copy is nearly never taken for a value.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use libc::c_int;

use crate::errno::{Errno, kept, status};

/// Nobody has used the struct.
const UNTOUCHED: u32 = 0;
/// The value is there; the low half of the mark is from the address.
const READY: u32 = 0x4641_0000;
/// Destroyed.
const GONE: u32 = 0x474f_4e45;

/// The largest alignment of a value. A value that is aligned less is in the right place even in a
/// copy that the mark does not reveal.
const LARGEST_ALIGN: usize = 64;

/// A C struct in whose memory a value lives.
///
/// # Safety
/// The struct is `repr(C)`, aligned to 8, and begins with two `u32`: mark and preset. If
/// `ZERO_IS_VALUE`, zero bytes are a value.
pub(crate) unsafe trait Home: Sized {
    type Value: Sync;

    /// Zero bytes are the value that [`preset`](Self::preset) makes of 0.
    const ZERO_IS_VALUE: bool = false;

    /// The value that the static initialiser with this preset stands for.
    fn preset(preset: u32) -> Option<Self::Value>;
}

/// The value in a struct; made, if this is the first look at it.
///
/// # Safety
/// `home` is null, or points to as many readable and writable bytes as it says, which
/// nobody initialises or destroys meanwhile.
#[inline(always)]
pub(crate) unsafe fn get<'a, T: Home>(home: *const T) -> Result<&'a T::Value, Errno> {
    // SAFETY: the caller's promise.
    unsafe {
        if !is_made(home) {
            make(home)?;
        }
        // Shared from now on.
        Ok(&*value(home))
    }
}

/// The status of `f` on the value and the argument; for the functions that are called most. The first use is apart,
/// with an `f` of its own, so that the usual path needs no stack for it. `f` should be a function
/// that is always inlined: a closure that is called in two places is compiled only once.
///
/// # Safety
/// As for [`get`].
#[inline(always)]
pub(crate) unsafe fn with<T: Home, A>(
    home: *const T,
    argument: A,
    f: impl FnOnce(&T::Value, A) -> Result<(), Errno>,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        if is_made(home) { status(f(&*value(home), argument)) } else { make_and(home, argument, f) }
    }
}

/// # Safety
/// As for [`get`].
#[cold]
#[inline(never)]
unsafe fn make_and<T: Home, A>(
    home: *const T,
    argument: A,
    f: impl FnOnce(&T::Value, A) -> Result<(), Errno>,
) -> c_int {
    // SAFETY: the caller's promise.
    status(unsafe { get(home) }.and_then(|value| f(value, argument)))
}

/// Whether there is a value in the struct.
///
/// # Safety
/// As for [`get`].
#[inline(always)]
unsafe fn is_made<T: Home>(home: *const T) -> bool {
    // SAFETY: the caller's promise; the alignment is checked first.
    // Acquire: the thread that set the mark had made the value before.
    is_place_for(home) && unsafe { mark(home) }.load(Ordering::Acquire) == ready(home)
}

/// The first use of a struct.
///
/// # Safety
/// As for [`get`].
#[cold]
#[inline(never)]
unsafe fn make<T: Home>(home: *const T) -> Result<(), Errno> {
    if !is_place_for(home) {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller's promise; nobody writes the preset of a struct in use.
    let preset = unsafe { home.cast::<u32>().add(1).read() };
    // SAFETY: the caller's promise.
    let mark = unsafe { mark(home) };
    if T::ZERO_IS_VALUE && preset == 0 {
        // Relaxed: there is nothing to publish. Acquire: as in `is_made`.
        let (ready, failed) = (ready(home), Ordering::Acquire);
        let made = mark.compare_exchange(UNTOUCHED, ready, Ordering::Relaxed, failed);
        return match made {
            Ok(_) => Ok(()),
            Err(now) if now == ready => Ok(()),
            Err(_) => Err(Errno::INVALID),
        };
    }
    // One mutex for all structs: it is held for as long as it takes to write a lock, once for each.
    // A thread that finds it taken sleeps, so priorities cannot keep its holder from running.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = kept(|| MAKING.lock()).unwrap_or_else(PoisonError::into_inner);
    // Relaxed: the thread that made the value held `MAKING`.
    match mark.load(Ordering::Relaxed) {
        UNTOUCHED => {
            let made = T::preset(preset).ok_or(Errno::INVALID)?;
            // SAFETY: the caller's promise; untouched, and this thread holds `MAKING`.
            unsafe { put(home.cast_mut(), made) };
        }
        now if now == ready(home) => {}
        _ => return Err(Errno::INVALID),
    }
    Ok(())
}

/// The result of `f` on the value in a struct; `Ok`, without `f`, if the struct is still zero
/// bytes.
///
/// # Safety
/// As for [`get`].
pub(crate) unsafe fn unless_zero<T: Home>(
    home: *const T,
    f: impl FnOnce(&T::Value) -> Result<(), Errno>,
) -> Result<(), Errno> {
    // SAFETY: the caller's promise; the alignment is checked first. Relaxed: nothing is read on the
    // strength of it.
    let is_zero = is_place_for(home)
        && unsafe {
            mark(home).load(Ordering::Relaxed) == UNTOUCHED && home.cast::<u32>().add(1).read() == 0
        };
    // SAFETY: the caller's promise.
    if is_zero { Ok(()) } else { unsafe { get(home) }.and_then(f) }
}

/// Puts a value into a struct, whatever is in it.
///
/// # Safety
/// `home` is null or points to a struct that nobody uses.
pub(crate) unsafe fn init<T: Home>(home: *mut T, made: T::Value) -> Result<(), Errno> {
    if !is_place_for(home) {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller's promise.
    unsafe { put(home, made) };
    Ok(())
}

/// Drops the value in a struct, unless it is in use. From then on there is no value.
///
/// # Safety
/// As for [`get`], and only threads that `is_idle` notices use it.
pub(crate) unsafe fn destroy<T: Home>(
    home: *mut T,
    is_idle: impl FnOnce(&T::Value) -> bool,
) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let made = unsafe { get(home)? };
    if !is_idle(made) {
        return Err(Errno::BUSY);
    }
    // SAFETY: the value is there, and nobody uses it.
    unsafe {
        mark(home).store(GONE, Ordering::Relaxed);
        kept(|| value(home).drop_in_place());
    }
    Ok(())
}

/// # Safety
/// `home` points to a struct that nobody else writes.
unsafe fn put<T: Home>(home: *mut T, made: T::Value) {
    // SAFETY: the caller's promise; the value fits (see `value`).
    unsafe {
        value(home).write(made);
        // Release: a thread that sees the mark sees the value.
        mark(home).store(ready(home), Ordering::Release);
    }
}

#[inline(always)]
fn is_place_for<T>(home: *const T) -> bool {
    !home.is_null() && home.is_aligned()
}

/// # Safety
/// `home` is aligned and points to a struct.
#[inline(always)]
unsafe fn mark<'a, T: Home>(home: *const T) -> &'a AtomicU32 {
    // SAFETY: the caller's promise; the mark comes first, and is only used by this.
    unsafe { AtomicU32::from_ptr(home.cast_mut().cast()) }
}

#[inline(always)]
fn ready<T: Home>(home: *const T) -> u32 {
    READY | u32::from((home.addr() / HEAD) as u16)
}

/// Where the value is: behind mark and preset, at the next place that is aligned for it.
#[inline(always)]
fn value<T: Home>(home: *const T) -> *mut T::Value {
    const {
        assert!(align_of::<T>() == HEAD && align_of::<T::Value>() <= LARGEST_ALIGN);
        let before = if align_of::<T::Value>() > HEAD { align_of::<T::Value>() } else { HEAD };
        assert!(before + size_of::<T::Value>() <= size_of::<T>(), "the C struct is too small");
    }
    let align = align_of::<T::Value>();
    let place = if align > HEAD {
        home.map_addr(|start| (start + HEAD + align - 1) & !(align - 1))
    } else {
        home.wrapping_byte_add(HEAD)
    };
    place.cast_mut().cast()
}

/// The size of mark and preset.
const HEAD: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Counted {
        mark: u32,
        preset: u32,
        memory: [u64; 16],
    }

    #[repr(align(64))]
    struct Value(u32);

    // SAFETY: as the trait asks.
    unsafe impl Home for Counted {
        type Value = Value;

        fn preset(preset: u32) -> Option<Value> {
            (preset < 10).then_some(Value(preset))
        }
    }

    fn zero() -> Counted {
        Counted { mark: 0, preset: 3, memory: [0; 16] }
    }

    fn read(home: &Counted) -> Result<u32, Errno> {
        // SAFETY: a struct that nobody else uses.
        unsafe { get(home).map(|value| value.0) }
    }

    #[test]
    fn zero_bytes_are_made_at_first_use_wherever_they_are() {
        for skip in 0..8 {
            let mut all = [const { [0_u64; 17] }; 2];
            let home = all.as_flattened_mut()[skip..].as_mut_ptr().cast::<Counted>();
            // SAFETY: 8-aligned, and large enough.
            unsafe {
                home.write(zero());
                assert_eq!(get(home).map(|value| value.0), Ok(3));
                assert!(value(home).is_aligned());
                assert!(value(home).addr() + size_of::<Value>() <= home.add(1).addr());
            }
        }
    }

    /// A type whose zero bytes are a value, and which uses another such value as it is made.
    struct Nested(u32);
    static NESTED: Flag = Flag { mark: AtomicU32::new(0), preset: 0, flag: AtomicU32::new(0) };

    #[repr(C, align(8))]
    struct Flag {
        mark: AtomicU32,
        preset: u32,
        flag: AtomicU32,
    }

    // SAFETY: as the trait asks.
    unsafe impl Home for Flag {
        type Value = AtomicU32;

        const ZERO_IS_VALUE: bool = true;

        fn preset(preset: u32) -> Option<AtomicU32> {
            (preset == 0).then(AtomicU32::default)
        }
    }

    #[repr(C)]
    struct Outer {
        mark: u32,
        preset: u32,
        memory: [u64; 1],
    }

    // SAFETY: as the trait asks.
    unsafe impl Home for Outer {
        type Value = Nested;

        fn preset(preset: u32) -> Option<Nested> {
            // SAFETY: never destroyed.
            unsafe { get(&raw const NESTED) }.ok()?.store(1, Ordering::Relaxed);
            Some(Nested(preset))
        }
    }

    /// As in a signal handler that runs while its thread makes a value.
    #[test]
    fn what_is_zero_bytes_is_made_without_a_lock() {
        let made = std::thread::spawn(move || {
            let outer = Outer { mark: 0, preset: 7, memory: [0] };
            // SAFETY: a struct that nobody else uses.
            unsafe { get(&raw const outer) }.map(|value| value.0)
        });
        fairlock_testing::until(|| made.is_finished());
        assert_eq!(made.join().unwrap(), Ok(7));
        assert_eq!(NESTED.flag.load(Ordering::Relaxed), 1);
        let odd = Flag { mark: AtomicU32::new(9), preset: 0, flag: AtomicU32::new(0) };
        let preset = Flag { mark: AtomicU32::new(0), preset: 1, flag: AtomicU32::new(0) };
        for home in [odd, preset] {
            // SAFETY: a struct that nobody else uses.
            assert_eq!(unsafe { get(&raw const home) }.err(), Some(Errno::INVALID));
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        // SAFETY: null is asked for.
        assert_eq!(unsafe { get::<Counted>(std::ptr::null()) }.err(), Some(Errno::INVALID));
        let home = zero();
        let odd = (&raw const home).map_addr(|start| start + 4);
        // SAFETY: refused before it is read.
        assert_eq!(unsafe { get(odd) }.err(), Some(Errno::INVALID));
        assert_eq!(read(&Counted { mark: 7, ..zero() }), Err(Errno::INVALID));
        assert_eq!(read(&Counted { preset: 10, ..zero() }), Err(Errno::INVALID));
    }

    #[test]
    fn a_misplaced_copy_is_refused() {
        let mut all = [0_u64; 40];
        let first = all.as_mut_ptr();
        // SAFETY: both places are inside the memory and do not overlap.
        unsafe {
            let (from, to) = (first.cast::<Counted>(), first.add(19).cast::<Counted>());
            from.write(zero());
            get(from).map(drop).unwrap();
            to.write(from.read());
            assert_eq!(get(to).err(), Some(Errno::INVALID));
        }
    }

    #[test]
    fn a_destroyed_one_is_refused_until_it_is_initialised_again() {
        let mut home = zero();
        let home = &raw mut home;
        // SAFETY: nobody else uses it.
        unsafe {
            assert_eq!(destroy(home, |_| false), Err(Errno::BUSY));
            assert_eq!(destroy(home, |_| true), Ok(()));
            assert_eq!(get(home).err(), Some(Errno::INVALID));
            assert_eq!(destroy(home, |_| true), Err(Errno::INVALID));
            assert_eq!(init(home, Value(9)), Ok(()));
            assert_eq!(get(home).map(|value| value.0), Ok(9));
        }
    }
}
