//! Where glibc's locks have what, on 64-bit x86: what the waiter's futex is a part of, and which thread holds that.

use super::process::Process;

/// Of a PI or robust mutex: the rest of the word is the thread.
const TID: u32 = 0x3fff_ffff;
/// Where a thread's number is in its `pthread_t`, if the library does not say.
const TID_IN_THREAD: u64 = 720;

/// The thread that a `pthread_mutex_t` is held by, as the mutex has it; none if what is there cannot be a mutex
/// that is held.
pub fn mutex_owner(process: &Process, mutex: u64) -> Option<u32> {
    const KINDS: u32 = 0x1ff;
    let [word, _, owner, users, kind] = process.words(mutex)?;
    let is_mutex = word != 0 && owner & TID != 0 && users > 0 && kind & !KINDS == 0;
    is_mutex.then_some(owner & TID)
}

/// The thread in a word that the kernel knows, as that of a PI mutex.
pub fn word_owner(process: &Process, word: u64) -> Option<u32> {
    let [word] = process.words(word)?;
    Some(word & TID).filter(|&tid| tid != 0)
}

/// Where the `pthread_rwlock_t` begins that a futex is in: it begins at a multiple of eight.
pub fn rwlock_of(futex: u64) -> u64 {
    futex - if futex.is_multiple_of(8) { 8 } else { 12 }
}

/// The writer inside, and the readers.
pub fn rwlock_owners(process: &Process, rwlock: u64) -> Option<(u32, u32)> {
    let [readers, _, _, _, _, _, writer] = process.words(rwlock)?;
    Some((writer, readers >> 3))
}

/// How many threads have come to the barrier of a futex, and how many it waits for.
pub fn barrier_counts(process: &Process, futex: u64) -> Option<(u32, u32)> {
    let [came, round, count] = process.words(futex - 4)?;
    Some((came.wrapping_sub(round), count)).filter(|(came, count)| came <= count)
}

/// Whether a stream of stdio has its lock there.
pub fn is_lock_of(process: &Process, stream: u64, lock: u64) -> bool {
    const LOCK: u64 = 0x88;
    process.long(stream + LOCK) == Some(lock)
}

/// The thread that holds the lock of a stream; `tid` is what the library says of its place in a `pthread_t`.
pub fn stream_owner(process: &Process, lock: u64, tid: Option<u64>) -> Option<u32> {
    let thread = process.long(lock + 8)?;
    let said = tid.and_then(|descriptor| process.words::<3>(descriptor));
    let offset = said.map_or(TID_IN_THREAD, |[.., offset]| offset.into());
    let [owner] = process.words(thread.checked_add(offset)?)?;
    Some(owner).filter(|&tid| tid != 0)
}
