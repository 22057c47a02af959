//! What the environment asks for.

use core::arch::asm;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, Ordering};

use fairlock::Policy;

/// What the library does in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    /// Leaves everything to glibc; see also [`profiles`].
    Off = 1,
    On = 2,
}

/// How locks decide which thread goes next. Real-time threads go first, as POSIX wants it, and before them the side that the
/// lock's kind prefers.
pub(crate) const POLICY: Policy = Policy::DEFAULT.with_priorities();
/// What reports and records say of that.
pub(crate) const POLICY_NAME: &str = "default";

/// Which of the program's locks are the library's; see `FAIRLOCK_ONLY`. Condition variables go with
/// mutexes.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Rwlock = 1,
    Mutex = 2,
}

/// A [`Mode`], or zero before somebody has looked.
static MODE: AtomicU8 = AtomicU8::new(0);
/// The only [`Kind`] that the library serves; zero if it serves both.
static ONLY: AtomicU8 = AtomicU8::new(0);
/// Whether locks are recorded: two if so, one if not; zero before somebody has looked.
static PROFILE: AtomicU8 = AtomicU8::new(0);

#[inline(always)]
pub(crate) fn mode() -> Mode {
    // Acquire: the other variables are set.
    match MODE.load(Ordering::Acquire) {
        0 => look(),
        1 => Mode::Off,
        _ => Mode::On,
    }
}

/// Whether locks of this kind are the library's, and not left to glibc.
#[inline(always)]
pub(crate) fn serves(kind: Kind) -> bool {
    mode() != Mode::Off && [0, kind as u8].contains(&ONLY.load(Ordering::Relaxed))
}

/// Whether locks are recorded, in whatever mode.
#[inline(always)]
pub(crate) fn profiles() -> bool {
    // Relaxed: no other memory is read on the strength of it.
    if PROFILE.load(Ordering::Relaxed) == 0 {
        look();
    }
    PROFILE.load(Ordering::Relaxed) == 2
}

/// Looks at the environment. A thread that comes here before the library has started finds the
/// same.
#[cold]
fn look() -> Mode {
    // SAFETY: no arguments to get wrong.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    let aside = secure || has_thread_sanitizer();
    let off = aside || variable(c"FAIRLOCK_OBSERVE").is_some();
    let mode = if off { Mode::Off } else { Mode::On };
    let profiles = !aside && variable(c"FAIRLOCK_PROFILE").is_some();
    PROFILE.store(1 + u8::from(profiles), Ordering::Relaxed);
    if mode != Mode::Off {
        let warning = "fairlock: FAIRLOCK_ONLY is none of rwlock, mutex; serving both\n";
        // Zero, or the number of a `Kind`.
        let only = choice(c"FAIRLOCK_ONLY", [c"", c"rwlock", c"mutex"], warning);
        ONLY.store(only, Ordering::Relaxed);
    }
    // Release: the other variables are set.
    MODE.store(mode as u8, Ordering::Release);
    mode
}

/// Whether the program was built with ThreadSanitizer. That knows what glibc's locks order, and no others;
/// loaded before this library, it passes some calls on to this library, and some to glibc.
pub(crate) fn has_thread_sanitizer() -> bool {
    let found: usize;
    // Not `dlsym`: where there is no such symbol, that takes memory, whose allocator may take a lock, which
    // comes here.
    // SAFETY: reads a word of this library, in which the loader has put the symbol's address, or zero.
    unsafe {
        asm!(
            ".weak __tsan_init",
            "mov {found}, qword ptr [rip + __tsan_init@GOTPCREL]",
            found = out(reg) found,
            options(nostack, preserves_flags, readonly),
        );
    }
    found != 0
}

/// Which of `choices` a variable asks for; the first if it is not set, or, with a warning, none.
fn choice<'a>(name: &CStr, choices: impl IntoIterator<Item = &'a CStr>, warning: &str) -> u8 {
    let Some(asked) = variable(name) else { return 0 };
    let found = choices.into_iter().position(|choice| choice == asked);
    if found.is_none() {
        super::say(warning);
    }
    found.unwrap_or(0) as u8
}

/// A variable of the environment that is not empty.
pub(crate) fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: a C string; the value is one, too, and stays where it is unless the program
    // changes its environment before the library has started.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        if value.is_null() || *value == 0 { None } else { Some(CStr::from_ptr(value)) }
    }
}
