//! Which process this is, counted in forks.
//!
//! Nothing is held across a fork: the fork handlers of other libraries, which may wait for locks,
//! run before and after ours in any order, and need not run at all (`_Fork`). So the library's
//! lists are whole between any two stores, and that is how the child finds them. The number of
//! forks tells what the threads of its parent were about from what its own threads are about: a
//! mutex that was held before the last fork is free, and a slot that was used before it has waiters
//! that do not exist.

use core::sync::atomic::{AtomicU32, Ordering};

use super::quietly;

const PAGE: usize = 4096;
/// The largest number: others keep two bits of a word for themselves.
const LARGEST: u32 = u32::MAX >> 2;

/// A page that the kernel fills with zeros when the process forks.
#[repr(C, align(4096))]
struct Forks {
    number: AtomicU32,
    _rest: [u8; PAGE - 4],
}

static FORKS: Forks = Forks { number: AtomicU32::new(0), _rest: [0; PAGE - 4] };
/// The highest number that was given to this process or to one that it was forked from.
static LAST: AtomicU32 = AtomicU32::new(0);
/// The process that forks.
static PARENT: AtomicU32 = AtomicU32::new(0);

/// The number of this process, not zero: different from that of any process it was forked from.
#[inline(always)]
pub(crate) fn number() -> u32 {
    // Relaxed throughout: a thread that has seen a number was in that process.
    match FORKS.number.load(Ordering::Relaxed) {
        0 => new_number(),
        number => number,
    }
}

#[cold]
fn new_number() -> u32 {
    let page = (&raw const FORKS).cast_mut().cast();
    // SAFETY: the page is in use for nothing else. An old kernel refuses; see `in_child`.
    quietly(|| unsafe { libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) });
    let new = LAST.fetch_add(1, Ordering::Relaxed) % LARGEST + 1;
    match FORKS.number.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => new,
        Err(number) => number,
    }
}

/// Called in the process that forks.
pub(crate) extern "C" fn before() {
    PARENT.store(number(), Ordering::Relaxed);
}

/// Called in the child: resets the number if the kernel has not wiped the page.
pub(crate) fn in_child() {
    let parent = PARENT.load(Ordering::Relaxed);
    // Nothing changes if a lock was used in the child before this: then the child has a number.
    let _ = FORKS.number.compare_exchange(parent, 0, Ordering::Relaxed, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_another_number_without_any_handler() {
        let parent = number();
        assert_eq!(number(), parent);
        // SAFETY: the child makes system calls only.
        unsafe {
            match libc::syscall(libc::SYS_fork) {
                0 => libc::_exit((number() == parent || number() != number()).into()),
                child => {
                    let mut status = -1;
                    assert_eq!(libc::waitpid(child as _, &mut status, 0) as i64, child);
                    assert_eq!(status, 0);
                }
            }
        }
        assert_eq!(number(), parent);
    }
}
