//! Threads that are cancelled in a wait that is a cancellation point.
//!
//! glibc ends such a wait by unwinding from wherever the thread is, which must not be in the middle
//! of a lock's queue. So during the wait cancellation is off. `pthread_cancel`, which is this
//! library's, wakes the thread: it gives the wait up, takes the mutex back, and only then lets
//! glibc unwind it.
//!
//! *What a wait looks at.* A thread's record [counts](Cancels) its cancellations, each after glibc
//! knows of it. A wait remembers the count, then acts on what glibc knows, and gives up once the
//! count has changed. So a cancellation that was counted before the wait is acted on as the wait
//! begins; one that is counted later ends the wait, and glibc acts on it. Each ends a wait once at
//! most. That matters where glibc does not act: in the cleanup handlers and destructors of a thread
//! that is on its way out, cancellation is still on, and they may wait.
//!
//! *How the count is found.* Once glibc knows, the thread may be gone, and its variables with it.
//! Records stay. So the canceller looks for the record before it calls glibc. A thread that has
//! none then may still make one, and wait, before glibc knows. Hence a *question*, which is in the
//! canceller's record. The canceller leaves word of it in the thread's variables, then looks for
//! the thread's record, calls glibc, and closes the question. A thread that makes a record shows it
//! in its variables, then looks for word of a question, and answers that with its record's number.
//! All of this is SeqCst. So either the canceller sees the record; or the thread sees the question.
//! Then it answers in time, and its cancellation is counted; or it finds the question closed, and
//! glibc knows before the thread begins to wait.
//!
//! *At any instruction.* A thread that lets itself be cancelled anywhere must not end in a lock's queue, where its
//! frame would be gone. So glibc does not cancel it in [a call](whole). A cancellation [ends](ending) the thread's wait;
//! the call [gives up](gives_up), what it holds too, and returns; and then glibc acts on the cancellation.
//!
//! *Who else may be meant.* If several cancel a thread at once, the thread answers the last of them
//! only. That one is enough: the count is late for the others, but comes. The record that a canceller
//! has found may be another thread's by now. That thread's wait then ends for no reason, as waits may. So
//! it is with a question that has the number of a later one, after 2^32 of the same canceller.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use fairlock::wait::{Ends, Wait};
use libc::{ECANCELED, pthread_t};

use super::{
    Preload, Record, Recorded, State, by_number, enter, jump, jump::Jump, own_record, state,
    whole_record,
};
use crate::process::config::{self, Mode};
use crate::process::real;

unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn pthread_testcancel();
}

const ENABLE: c_int = 0;
const DISABLE: c_int = 1;

/// What a thread's record has for this.
#[derive(Default)]
pub(super) struct Cancels {
    /// How often a thread was cancelled whose record this was.
    count: AtomicU32,
    /// The last question of a thread that cancels another: its number, in the upper half; below it
    /// the answer, or zero.
    question: AtomicU64,
}

const NUMBER_SHIFT: u32 = 32;

impl Cancels {
    /// Asks a new question, and returns its number. One that has been closed has another number.
    fn ask(&self) -> u64 {
        let number = (self.question.load(Ordering::Relaxed) >> NUMBER_SHIFT) as u32;
        let number = u64::from(number.wrapping_add(1));
        self.question.store(number << NUMBER_SHIFT, Ordering::SeqCst);
        number
    }

    /// Answers the question of this number, unless that is closed.
    fn answer(&self, number: u64, answer: u32) {
        let open = number << NUMBER_SHIFT;
        let answered = open | u64::from(answer);
        // SeqCst, if it fails, too: then glibc knows of the cancellation.
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        let _ = self.question.compare_exchange(open, answered, order.0, order.1);
    }

    /// Closes the question of this number, and returns the answer, or zero.
    fn close(&self, number: u64) -> u32 {
        let next = (number as u32).wrapping_add(1);
        self.question.swap(u64::from(next) << NUMBER_SHIFT, Ordering::SeqCst) as u32
    }
}

/// Calls `cancel`, which has glibc cancel the thread, and makes the thread notice.
///
/// # Safety
/// `thread` is a thread, and stays one at least until it is cancelled.
pub(crate) unsafe fn cancel(thread: pthread_t, cancel: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    let state = unsafe { state_of(thread) };
    enter();
    let _record = Recorded::begin();
    let me = whole_record();
    let question = me.cancels.ask();
    state.asked.store(question << NUMBER_SHIFT | u64::from(me.number + 1), Ordering::SeqCst);
    let found = state.record.load(Ordering::SeqCst);
    let result = cancel();
    // The thread may be gone now, but records are not.
    let answer = me.cancels.close(question);
    // SAFETY: null, or from the pool.
    let found = unsafe { found.as_ref() };
    for record in [found, by_next_number(answer)].into_iter().flatten() {
        record.cancels.count.fetch_add(1, Ordering::SeqCst);
        record.thread.wake();
    }
    result
}

/// The record of this number, which is one more than its own; `None` for zero.
fn by_next_number(number: u32) -> Option<&'static Record> {
    by_number(number.checked_sub(1)?)
}

/// Called by a thread that has made the record of this number its own.
pub(super) fn answer(state: &State, number: u32) {
    let asked = state.asked.load(Ordering::SeqCst);
    if let Some(canceller) = by_next_number(asked as u32) {
        canceller.cancels.answer(asked >> NUMBER_SHIFT, number + 1);
    }
}

/// Another thread's variables. They are as far from its thread pointer, by which glibc names it, as
/// the caller's are from the caller's.
///
/// # Safety
/// `thread` is a thread, and stays one.
unsafe fn state_of<'a>(thread: pthread_t) -> &'a State {
    // SAFETY: no arguments.
    let here = unsafe { libc::pthread_self() } as usize;
    let offset = ptr::from_ref(state()).addr().wrapping_sub(here);
    // SAFETY: the static TLS block of a thread is there while the thread is. Only what others may
    // use is used.
    unsafe { &*ptr::with_exposed_provenance((thread as usize).wrapping_add(offset)) }
}

/// Cancellation is off, for the time of a wait.
pub(crate) struct Deferred {
    /// The thread's record, and how often the thread had been cancelled.
    record: Option<(&'static Record, u32)>,
    before: c_int,
}

impl Deferred {
    /// Before that, acts on a cancellation that was asked for earlier, by unwinding, if
    /// cancellation is on.
    pub(crate) fn begin() -> Self {
        // SeqCst: what was counted is known to glibc, which acts on it below.
        let record =
            own_record().map(|record| (record, record.cancels.count.load(Ordering::SeqCst)));
        let mut before = DISABLE;
        // SAFETY: `before` is written. Nothing is in the caller's frames that must not be left.
        unsafe {
            jump::without(|| pthread_testcancel());
            pthread_setcancelstate(DISABLE, &mut before);
        }
        Self { record, before }
    }

    /// Whether the thread has a record, and so can wait in a queue.
    pub(crate) fn can_wait(&self) -> bool {
        self.record.is_some()
    }

    /// Whether the wait is to end because of a cancellation.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.before == ENABLE && self.record.is_some_and(was_counted)
    }

    /// The thread has its mutex again.
    pub(crate) fn end(self) {
        // SAFETY: as above.
        unsafe { pthread_setcancelstate(self.before, ptr::null_mut()) };
    }

    /// The thread, which gave up because of a cancellation, has its mutex again. It is cancelled now, by
    /// unwinding; unless it is on its way out already.
    pub(crate) fn end_cancelled(self) {
        self.end();
        // SAFETY: as above.
        jump::without(|| unsafe { pthread_testcancel() });
    }
}

/// Whether the thread of the record has been cancelled since the count was this.
fn was_counted((record, count): (&Record, u32)) -> bool {
    record.cancels.count.load(Ordering::SeqCst) != count
}

const DEFERRED: c_int = 0;
const ASYNCHRONOUS: c_int = 1;

/// Whether any thread has asked to be cancelled at any instruction.
static ANYWHERE: AtomicBool = AtomicBool::new(false);

/// The calling thread is about to set this type of cancellation.
pub(crate) fn note_type(new: c_int) {
    if new == ASYNCHRONOUS {
        // Relaxed: a thread looks for itself.
        ANYWHERE.store(true, Ordering::Relaxed);
    }
}

/// Runs `call`, in which the thread is cancelled at cancellation points only, whatever its type of cancellation.
///
/// Unwinding that begins between two calls, in a function that has destructors to run, ends the process: the
/// compiler's tables have calls only. So a function in which the thread may be cancelled anywhere has no destructors:
/// neither `whole` and `deferred`, as what is `Copy` needs none, nor those that call `whole`. `call` is in a function of
/// its own.
#[inline(always)]
pub(crate) fn whole<R: Copy>(call: impl FnOnce() -> R + Copy) -> R {
    if ANYWHERE.load(Ordering::Relaxed) { deferred(call) } else { plain(call) }
}

#[cold]
#[inline(never)]
fn deferred<R: Copy>(call: impl FnOnce() -> R + Copy) -> R {
    let me = state();
    loop {
        let mut before = DEFERRED;
        // SAFETY: `before` is written.
        unsafe { real::pthread_setcanceltype(DEFERRED, &mut before) };
        let is_outside = before == ASYNCHRONOUS;
        if is_outside {
            note_count(me);
            // SAFETY: nothing is in the caller's frames that must not be left.
            unsafe { pthread_testcancel() };
        }
        let outside = me.anywhere.replace(is_outside);
        let (result, jump) = apart(call);
        me.anywhere.set(outside);
        if !is_outside {
            jump.into_iter().for_each(jump::go);
            return result;
        }
        let again = me.gave_up.replace(false);
        // SAFETY: as above.
        unsafe { real::pthread_setcanceltype(ASYNCHRONOUS, ptr::null_mut()) };
        if !again {
            jump.into_iter().for_each(jump::go);
            return result;
        }
        // The thread was on its way out already.
    }
}

/// Notes how often the thread was cancelled.
fn note_count(me: &State) {
    if config::mode() != Mode::Off {
        enter();
        // SeqCst: what was counted is known to glibc, which acts on it afterwards.
        let count = own_record().map(|record| record.cancels.count.load(Ordering::SeqCst));
        me.cancels.set(count.unwrap_or(0));
    }
}

#[inline(never)]
fn plain<R: Copy>(call: impl FnOnce() -> R + Copy) -> R {
    let (result, jump) = jump::within(call);
    jump.into_iter().for_each(jump::go);
    result
}

#[inline(never)]
fn apart<R>(call: impl FnOnce() -> R) -> (R, Option<Jump>) {
    jump::within(call)
}

/// Runs `wait`, which is glibc's, in a [`whole`] call: a thread that could be cancelled at any instruction outside
/// can be so meanwhile.
pub(crate) fn as_outside<R: Copy>(wait: impl FnOnce() -> R + Copy) -> R {
    jump::without(|| if is_anywhere() { anywhere(wait) } else { wait() })
}

#[cold]
#[inline(never)]
fn anywhere<R: Copy>(wait: impl FnOnce() -> R + Copy) -> R {
    // SAFETY: nothing is in the caller's frames that must not be left.
    unsafe { real::pthread_setcanceltype(ASYNCHRONOUS, ptr::null_mut()) };
    let result = wait();
    // SAFETY: as above.
    unsafe { real::pthread_setcanceltype(DEFERRED, ptr::null_mut()) };
    result
}

/// Whether the calling thread, in a [`whole`] call, could be cancelled at any instruction outside.
#[inline]
pub(crate) fn is_anywhere() -> bool {
    state().anywhere.get()
}

/// The wait for a lock of the calling thread, which has a record: the cancellation of such a thread ends it, and so does
/// a jump out of the wait.
pub(crate) fn ending(wait: Wait<'_, Preload>) -> Wait<'_, Preload> {
    static ENDS: Ends = Ends(|| jump::is_due() || is_cancelled());
    wait.ended_by(&ENDS)
}

/// Whether it has been cancelled since the call began.
fn is_cancelled() -> bool {
    is_anywhere() && was_counted((whole_record(), state().cancels.get())) && is_enabled()
}

/// Whether the call is to return without the lock: its wait ended as [`ending`] says, or the lock was `taken` although it
/// should have. If a thread that was cancelled does not end then, as it is on its way out already, the call is made
/// again.
#[inline]
pub(crate) fn gives_up(taken: Result<(), c_int>) -> bool {
    let jumps = jump::is_due();
    let gives_up = taken == Err(ECANCELED) || taken.is_ok() && (jumps || is_cancelled());
    if gives_up && !jumps {
        state().gave_up.set(true);
    }
    gives_up
}

/// Whether the calling thread can be cancelled.
fn is_enabled() -> bool {
    let mut before = DISABLE;
    // SAFETY: `before` is written.
    unsafe {
        pthread_setcancelstate(DISABLE, &mut before);
        pthread_setcancelstate(before, ptr::null_mut());
    }
    before == ENABLE
}
