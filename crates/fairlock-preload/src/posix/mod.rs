//! A `pthread_rwlock_t`, and what POSIX and glibc say about it. Mutexes and condition variables are
//! in `mutex` and `cond`.

mod cond;
mod enter;
mod kind;
mod mutex;
#[cfg(not(test))]
pub(crate) mod observed;
#[cfg(not(test))] // a test's own locks are libc's
mod symbols;
pub(crate) mod until;

use core::ffi::c_int;
use core::hint::assert_unchecked;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};

use fairlock::lock::{InOneStep, RawRwLock};
use fairlock::platform::System;
use fairlock::wait::WaitError;
use fairlock_profile::layout::{self, side};
use libc::{
    CLOCK_REALTIME, EAGAIN, EBUSY, ECANCELED, EDEADLK, ETIMEDOUT, clockid_t, pthread_rwlock_t,
};

use self::enter::{Ours, wait_by, wait_until};
use self::kind::Kind;
use self::until::{LATEST, Until};
use crate::process::real::{Rwlock, Time};
use crate::process::word::Count;
use crate::process::{config, real};
use crate::profile::{self, Of, Target};
use crate::thread::cancel::{self, whole};
use crate::thread::{self, Preload, Recorded, State, jump, nap};
use crate::word::{Form, Still, Turns};

/// How long a thread that waits awake keeps its CPU to itself, before it lets others run; five looks.
/// In ns; compared with the time since the thread came.
const SPIN_NS: u64 = 1_000;

/// What is at an address of the program's, unless the address is not a multiple of eight: packed
/// structs have locks there, and glibc's functions, which use words of four bytes, serve them.
///
/// # Safety
/// What is there is a `T`, and stays so until the caller is done with it; but for the alignment.
#[inline(always)]
unsafe fn if_aligned<'a, T>(address: *const T) -> Option<&'a T> {
    // SAFETY: the caller's promise. This spares a look whether it is null.
    unsafe { assert_unchecked(!address.is_null()) };
    // SAFETY: the caller's promise.
    address.is_aligned().then(|| unsafe { &*address })
}

/// The program's lock. What glibc wrote into it when it was initialised is honoured, and
/// the number of the writing thread is where debuggers look for it.
#[repr(C)]
pub(crate) struct Lock {
    /// `__readers` and `__writers`.
    raw: RawRwLock<Preload>,
    /// A [`Form`], as a hint. (`__wrphase_futex`)
    form: AtomicU32,
    _writers_futex: u32,
    /// (`__pad3` and `__pad4`)
    still: Still,
    /// `__cur_writer`. Only the writer itself stores or clears its own number.
    writer: AtomicU32,
    /// `__shared`: not zero if the lock is used by several processes.
    shared: u32,
    /// How many writers that come first are in the queue or on their way to it: from the moment in
    /// which they found the lock taken, no reader gets in before them. (`__rwelision` and padding)
    announced: Count,
    /// Counts the writers that did not find the lock free and unused.
    turns: Turns,
    _padding: u32,
    /// The kind. (`__flags`)
    flags: u32,
}

const _: () = assert!(offset_of!(Lock, writer) == 24 && offset_of!(Lock, flags) == 48);

impl Ours for Lock {
    type Program = pthread_rwlock_t;

    fn is_ours(&self) -> bool {
        self.shared == 0 && config::serves(config::Kind::Rwlock)
    }
}

impl Lock {
    /// Makes a lock that is initialised, but left to glibc, one of a kind that glibc knows.
    ///
    /// # Safety
    /// Initialised, and nobody uses it yet.
    unsafe fn forget_wish(lock: Rwlock) {
        // SAFETY: the caller's promise, here and below.
        let ours = unsafe { Self::at(lock) }.is_some_and(Self::is_ours);
        // SAFETY: within the lock, which may be at any address.
        unsafe {
            let flags = lock.byte_add(offset_of!(Self, flags)).cast::<u32>();
            if !ours && Kind::of_flags(flags.read_unaligned()) == Kind::Readers {
                flags.write_unaligned(kind::PREFER_READER as u32);
            }
        }
    }

    fn kind(&self) -> Kind {
        Kind::of_flags(self.flags)
    }

    // ---- uncontended: as few instructions as possible ----

    /// Reads a free lock, if nothing is special. (Then nobody writes it, this thread included.)
    #[inline(always)]
    pub(crate) fn read_fast(&self) -> bool {
        let held = &thread::state().held;
        let taken = held.has_room() && self.seems_plain() && self.in_one_step().read();
        if taken {
            held.push_in_room(self.address());
        }
        taken
    }

    #[inline(always)]
    pub(crate) fn write_fast(&self) -> bool {
        let me = thread::state();
        let taken = me.plain.get() && self.seems_plain() && self.in_one_step().write();
        if taken {
            self.set_writer(me.tid.get());
        }
        taken
    }

    /// Leaves a lock that nobody waits for: one that this thread writes, or the last one that it came to read.
    #[inline(always)]
    pub(crate) fn unlock_fast(&self) -> bool {
        let me = thread::state();
        if !me.plain.get() || !self.seems_plain() {
            return false;
        }
        // As soon as the lock is given up below, it may be gone.
        if me.held.is_last(self.address()) {
            // SAFETY: the program gives up a read of this lock. One that it does not have is its mistake: only its own data
            // depend on the lock.
            let left = unsafe { self.in_one_step().unlock_read() };
            if left {
                me.held.remove_last();
            }
            return left;
        }
        if self.is_writer(me) {
            self.set_writer(0);
            // SAFETY: this thread writes it.
            return unsafe { self.in_one_step().unlock_write() };
        }
        false
    }

    /// Reads a lock whose readers are visible, or in which others read, if nothing is special.
    #[inline(always)]
    pub(crate) fn read_beside(&self) -> bool {
        let me = thread::state();
        if !me.held.has_room() || self.shared != 0 {
            return false;
        }
        let taken = match self.form() {
            Form::VISIBLE => self.raw.read_shown(),
            Form::PLAIN => self.read_counted(me),
            _ => false,
        };
        if taken {
            me.held.push_in_room(self.address());
        }
        taken
    }

    #[inline(always)]
    fn read_counted(&self, me: &State) -> bool {
        me.watches.set(self.kind() != Kind::Writers);
        Preload::thread_hint() != 0 && self.in_one_step().read_beside()
    }

    /// Leaves a lock whose readers are visible, if this thread came to read it last.
    #[inline(always)]
    pub(crate) fn unlock_visibly(&self) -> bool {
        let me = thread::state();
        let left = me.plain.get()
            && self.shared == 0
            && me.held.is_last(self.address())
            // SAFETY: as in `unlock_fast`.
            && unsafe { self.raw.unlock_shown() };
        if left {
            me.held.remove_last();
        }
        left
    }

    #[inline(always)]
    fn in_one_step(&self) -> InOneStep<'_, Preload> {
        InOneStep::of(&self.raw)
    }

    /// Whether the lock is ours, and perhaps free.
    #[inline(always)]
    fn seems_plain(&self) -> bool {
        self.shared | self.form().0 == 0
    }

    /// Relaxed: a hint.
    #[inline(always)]
    fn form(&self) -> Form {
        Form(self.form.load(Ordering::Relaxed))
    }

    /// Relaxed: a thread finds its own number only if it stored it.
    #[inline(always)]
    fn is_writer(&self, me: &State) -> bool {
        self.writer.load(Ordering::Relaxed) == me.tid.get()
    }

    /// Relaxed: see above.
    #[inline(always)]
    fn set_writer(&self, tid: u32) {
        self.writer.store(tid, Ordering::Relaxed);
    }

    // ---- in general ----

    pub(crate) fn read(&self, until: &Until) -> Result<(), c_int> {
        let me = self.enter();
        if self.is_writer(me) {
            return Err(EDEADLK);
        }
        self.wait_for_announced(me);
        let again = self.reads_already(me);
        let preferred = self.kind().priority_if(Kind::Readers);
        let taken = me.with_more_priority(preferred, || {
            if again || preferred > 0 {
                match self.attempt_to_read(again) {
                    // `again` may be wrong, if another thread has released what this one took: then
                    // it waits.
                    Err(EBUSY) => {}
                    taken => return taken,
                }
            }
            let attempt = || self.attempt_to_read(again);
            self.wait(until, attempt, || match self.kind() {
                Kind::Fair => until.wait(|deadline| self.read_fairly(deadline)),
                _ => until.wait(|deadline| self.raw.read_with(wait_until(deadline))),
            })
        });
        // SAFETY: it is taken.
        self.unless_given_up(taken, || unsafe { self.raw.unlock_read() })?;
        self.note_read(me);
        Ok(())
    }

    pub(crate) fn try_read(&self) -> Result<(), c_int> {
        let me = self.enter();
        if !self.seems_plain() || !self.in_one_step().read() {
            self.try_to_read(me)?;
        }
        self.note_read(me);
        Ok(())
    }

    #[inline(never)]
    fn try_to_read(&self, me: &State) -> Result<(), c_int> {
        let again = self.reads_already(me);
        if self.are_announced() && !again {
            return Err(EBUSY);
        }
        let preferred = self.kind().priority_if(Kind::Readers);
        match me.with_more_priority(preferred, || self.attempt_to_read(again)) {
            Err(EBUSY) if self.kind() == Kind::Fair && self.passes() => Ok(()),
            taken => taken,
        }
    }

    /// A thread that reads already does not wait for those that wait for it; nor does a thread that
    /// the lock's kind prefers.
    fn attempt_to_read(&self, again: bool) -> Result<(), c_int> {
        let _record = Recorded::begin();
        let taken = if again { self.raw.try_read_recursive() } else { self.raw.try_read() };
        match taken {
            true => Ok(()),
            false if self.raw.is_saturated() => Err(EAGAIN),
            false => Err(EBUSY),
        }
    }

    /// Waits for a turn, and looks from time to time whether holders wait for the caller.
    #[inline(always)]
    fn read_fairly(&self, deadline: u64) -> Result<(), WaitError> {
        let next_look = || {
            let now = Preload::now();
            self.still.note(&self.turns, now);
            wait_until(deadline.min(now + kind::GRACE_NS / 2))
        };
        loop {
            match self.raw.read_until_of(deadline < LATEST, next_look) {
                Err(WaitError::TimedOut) if Preload::now() < deadline => {
                    if self.passes() {
                        return Ok(());
                    }
                }
                ended => return ended,
            }
        }
    }

    /// A reader that would wait for queued writers joins those inside, if it may.
    fn passes(&self) -> bool {
        let _record = Recorded::begin();
        !self.raw.is_write_locked()
            && kind::may_pass(&self.raw, &self.still, &self.turns)
            && self.raw.try_read_recursive()
    }

    pub(crate) fn write(&self, until: &Until) -> Result<(), c_int> {
        let me = self.enter();
        if self.is_writer(me) {
            return Err(EDEADLK);
        }
        if !self.write_in_turn() {
            let announces = self.kind() == Kind::Writers;
            if announces {
                self.announced.add();
                // This keeps readers from taking the lock in one step meanwhile.
                self.form.store(Form::ANNOUNCED.0, Ordering::Relaxed);
            }
            let taken = me.with_more_priority(self.kind().priority_if(Kind::Writers), || {
                let attempt = || self.attempt_to_write();
                let wait = || wait_by(until, |wait| self.raw.write_with(wait));
                self.wait(until, attempt, wait)
            });
            if announces {
                self.announced.remove();
            }
            // SAFETY: it is taken.
            self.unless_given_up(taken, || unsafe { self.raw.unlock_write() })?;
        }
        self.note_write(me);
        Ok(())
    }

    /// The first attempt: also past those that wait, but where it is another thread's turn.
    fn write_in_turn(&self) -> bool {
        let _record = Recorded::begin();
        self.raw.take_write_at_once()
    }

    pub(crate) fn try_write(&self) -> Result<(), c_int> {
        let me = self.enter();
        if !self.seems_plain() || !self.in_one_step().write() {
            self.attempt_to_write()?;
        }
        self.note_write(me);
        Ok(())
    }

    fn attempt_to_write(&self) -> Result<(), c_int> {
        let _record = Recorded::begin();
        if self.raw.try_write() { Ok(()) } else { Err(EBUSY) }
    }

    /// Takes the lock by `wait`; or, while the thread has no memory to wait in a queue, by an `attempt` from time to time, in no order.
    #[inline(always)]
    fn wait(
        &self,
        until: &Until,
        attempt: impl Fn() -> Result<(), c_int>,
        wait: impl Fn() -> Result<(), c_int>,
    ) -> Result<(), c_int> {
        if !thread::has_record()
            && let Some(ended) = look_until_taken(until, attempt)
        {
            return ended;
        }
        wait()
    }

    /// What came of a wait. If the thread is to end, or to jump, it has given the lock up, by `leave`.
    #[inline(always)]
    fn unless_given_up(&self, taken: Result<(), c_int>, leave: impl FnOnce()) -> Result<(), c_int> {
        if cancel::gives_up(taken) {
            if taken.is_ok() {
                let _record = Recorded::begin();
                leave();
            }
            return Err(ECANCELED);
        }
        taken
    }

    /// Gives the lock up, whichever way it is held. Does nothing if it is not held.
    pub(crate) fn unlock(&self) -> Result<(), c_int> {
        let me = self.enter();
        let _record = Recorded::begin();
        let address = self.address();
        // Of whom the thread's own record says so.
        let reads = me.held.is_last(address) && !self.is_writer(me);
        // As soon as the lock is given up below, it may be gone.
        // SAFETY: as in `unlock_fast`, here and below.
        let left = unsafe { self.raw.unlock_shown() || reads && self.raw.try_unlock_read() };
        if !left && self.raw.is_write_locked() {
            if thread::is_in_parent(self.writer.load(Ordering::Relaxed)) {
                // SAFETY: held since before the fork, so no thread of this process has found it open.
                unsafe { self.raw.forget_passing() };
            }
            self.set_writer(0);
            // SAFETY: held for writing, so the caller holds it that way.
            unsafe { self.raw.unlock_write() };
        // SAFETY: see above.
        } else if left || unsafe { self.raw.try_unlock_read() } {
            me.held.remove(address);
        }
        Ok(())
    }

    pub(crate) fn destroy(&self) -> Result<(), c_int> {
        let _record = Recorded::begin();
        // SAFETY: the program's promise.
        unsafe { self.raw.forget() };
        self.form.store(Form::PLAIN.0, Ordering::Relaxed);
        Ok(())
    }

    /// The calling thread, which is about to use the lock.
    fn enter(&self) -> &'static State {
        let me = thread::enter();
        // Not where writers come first from the first instant.
        me.watches.set(me.plain.get() && self.kind() != Kind::Writers);
        me
    }

    #[inline(always)]
    fn reads_already(&self, me: &State) -> bool {
        me.held.contains(self.address())
    }

    /// Whether writers that come first wait, or are about to.
    fn are_announced(&self) -> bool {
        self.kind() == Kind::Writers && self.announced.any()
    }

    /// Lets such writers queue before the caller, unless the caller reads already.
    fn wait_for_announced(&self, me: &State) {
        if self.are_announced() && !self.reads_already(me) {
            kind::wait_for_announced(&self.announced, || self.raw.has_waiters());
        }
    }

    /// The caller holds the lock, and stores what it is as the hint. Where writers come first the hint stays, once they had to wait.
    fn note_form(&self) {
        let form = if self.raw.shows_readers() { Form::VISIBLE } else { Form::PLAIN };
        let hint = self.form();
        if hint != form && (form != Form::PLAIN || self.kind() != Kind::Writers) {
            self.form.store(form.0, Ordering::Relaxed);
        }
    }

    fn note_read(&self, me: &State) {
        self.note_form();
        me.held.push(self.address());
    }

    fn note_write(&self, me: &State) {
        self.note_form();
        self.set_writer(me.tid.get());
        self.turns.count();
    }
}

/// Makes an attempt from time to time, until the thread has memory to wait in a queue: what came of it, if it is over.
#[cold]
#[inline(never)]
fn look_until_taken(
    until: &Until,
    attempt: impl Fn() -> Result<(), c_int>,
) -> Option<Result<(), c_int>> {
    loop {
        nap();
        match attempt() {
            Err(EBUSY) => {}
            ended => return Some(ended),
        }
        if jump::is_due() {
            return Some(Err(ECANCELED));
        } else if until.is_over() {
            return Some(Err(ETIMEDOUT));
        } else if thread::has_record() {
            return None;
        }
    }
}

// ---- for any rwlock, ours or glibc's; the program's promise is that it is one ----

/// Takes the `fast` path, to a lock that is not misaligned; or else works `in_general`.
///
/// # Safety
/// A lock that is initialised, and stays so until the caller is done with it: here and below.
#[inline(always)]
unsafe fn fast_or(
    lock: Rwlock,
    fast: fn(&Lock) -> bool,
    in_general: unsafe fn(Rwlock) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise. What `whole` calls has one argument, as this function's caller: a jump is enough.
    unsafe {
        match Lock::at(lock).is_some_and(fast) {
            true => 0,
            false => whole(move || in_general(lock)),
        }
    }
}

fn target(lock: Rwlock, side: u32) -> Target {
    // SAFETY: called while the lock is being taken; the word may be at any address.
    const OWNER: fn(usize) -> u32 = |lock| unsafe {
        let lock = core::ptr::with_exposed_provenance::<u32>(lock);
        lock.byte_add(offset_of!(Lock, writer)).read_unaligned()
    };
    const OF: &Of = &Of { kind: |_| layout::kind::RWLOCK, owner: OWNER };
    Target { address: lock.expose_provenance(), side, of: OF }
}

#[inline(always)]
unsafe fn attempt(lock: Rwlock, side: u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match side {
            side::READ => {
                Lock::served(lock, Lock::try_read, || real::pthread_rwlock_tryrdlock(lock))
            }
            _ => Lock::served(lock, Lock::try_write, || real::pthread_rwlock_trywrlock(lock)),
        }
    }
}

/// Takes the lock for one of the [sides](side), until a time, if there is one; or by `or_glibc_s`.
#[inline(always)]
unsafe fn take(
    lock: Rwlock,
    side: u32,
    clock: clockid_t,
    time: Time,
    or_glibc_s: impl FnOnce() -> c_int + Copy,
) -> c_int {
    // SAFETY: the caller's promise.
    let until = match unsafe { Until::new(clock, time) } {
        Ok(until) => until,
        Err(errno) => return errno,
    };
    let ours = |lock: &Lock| match side {
        side::READ => lock.read(&until),
        _ => lock.write(&until),
    };
    // SAFETY: the caller's promise, here and below.
    let first = || unsafe { attempt(lock, side) };
    // SAFETY: as above.
    let again = || unsafe { attempt(lock, side) };
    // SAFETY: as above.
    let wait = || unsafe { Lock::served(lock, ours, or_glibc_s) };
    let target = match until {
        Until::Forever => target(lock, side),
        _ => target(lock, side).ending(),
    };
    profile::acquire(target, first, again, wait)
}

/// [Takes](take) the lock, as the program asks for it with a time.
///
/// # Safety
/// As above.
#[inline(always)]
unsafe fn take_until(
    lock: Rwlock,
    side: u32,
    clock: clockid_t,
    time: Time,
    or_glibc_s: impl FnOnce() -> c_int + Copy,
) -> c_int {
    // SAFETY: the caller's promise.
    whole(move || unsafe { take(lock, side, clock, time, or_glibc_s) })
}

// ---- where the lock is not free, or could not be taken or left at once ----

unsafe fn read<const WAITS: bool>(lock: Rwlock) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match Lock::at(lock) {
            Some(ours) if ours.read_beside() => 0,
            _ if WAITS => self::lock::<{ side::READ }>(lock),
            _ => try_lock::<{ side::READ }>(lock),
        }
    }
}

unsafe fn lock<const SIDE: u32>(lock: Rwlock) -> c_int {
    let is_read = SIDE == side::READ;
    let glibc_s = if is_read { real::pthread_rwlock_rdlock } else { real::pthread_rwlock_wrlock };
    // SAFETY: the caller's promise.
    unsafe { take(lock, SIDE, CLOCK_REALTIME, ptr::null(), || glibc_s(lock)) }
}

unsafe fn try_lock<const SIDE: u32>(lock: Rwlock) -> c_int {
    // SAFETY: the caller's promise.
    profile::attempt(target(lock, SIDE), || unsafe { attempt(lock, SIDE) })
}

unsafe fn unlock(lock: Rwlock) -> c_int {
    // SAFETY: the caller's promise.
    if unsafe { Lock::at(lock) }.is_some_and(Lock::unlock_visibly) {
        return 0;
    }
    // SAFETY: as above.
    let unlock =
        || unsafe { Lock::served(lock, Lock::unlock, || real::pthread_rwlock_unlock(lock)) };
    profile::releasing(lock.addr(), unlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_in_has_its_way_out() {
        let mut lock = libc::PTHREAD_RWLOCK_INITIALIZER;
        // SAFETY: initialised, and here to the end.
        let lock = unsafe { Lock::at(&mut lock) }.unwrap();
        assert!(!lock.read_fast(), "the thread has not entered yet");
        assert!(lock.is_ours());
        for _slot in [false, true] {
            assert_eq!([lock.try_read(), lock.read(&Until::Forever)], [Ok(()); 2]);
            assert_eq!(lock.try_write(), Err(EBUSY));
            lock.unlock().unwrap();
            lock.unlock().unwrap();
            assert_eq!(lock.write(&Until::Forever), Ok(()));
            assert_eq!(lock.try_read(), Err(EBUSY));
            assert_eq!(
                [lock.read(&Until::Forever), lock.write(&Until::Forever)],
                [Err(EDEADLK); 2]
            );
            lock.unlock().unwrap();
            lock.unlock().unwrap(); // once too often
            assert_eq!(lock.try_write(), Ok(()));
            lock.unlock().unwrap();
            // It has a slot in the second round only.
            assert_eq!(lock.read(&Until::Forever), Ok(()));
            assert_eq!(lock.write(&Until::Monotonic(0)), Err(libc::ETIMEDOUT));
            let soon = Preload::now() + 1_000_000;
            assert_eq!(lock.write(&Until::Monotonic(soon)), Err(libc::ETIMEDOUT));
            lock.unlock().unwrap();
        }
        assert!(!lock.read_fast() && !lock.write_fast(), "it has a slot");
        lock.destroy().unwrap();
        assert!(lock.read_fast() && lock.unlock_fast());
        assert!(lock.write_fast() && !lock.read_fast());
        assert!(lock.unlock_fast() && !lock.unlock_fast());
    }

    #[test]
    fn where_no_more_readers_can_be_counted_every_way_to_read_says_so() {
        let mut lock = libc::PTHREAD_RWLOCK_INITIALIZER;
        // SAFETY: initialised, and here to the end.
        let lock = unsafe { Lock::at(&mut lock) }.unwrap();
        // SAFETY: nobody holds it.
        unsafe { lock.raw.adopt_readers(usize::MAX) };
        let far = Preload::now() + 1_000_000_000_000;
        let fails = || {
            let timed = [Until::Monotonic(far), Until::Realtime(u64::MAX / 2)];
            [lock.try_read(), lock.read(&Until::Forever)]
                .into_iter()
                .chain(timed.map(|until| lock.read(&until)))
                .all(|result| result == Err(EAGAIN))
        };
        assert!(fails(), "by a thread that does not read it");
        lock.unlock().unwrap();
        assert_eq!(lock.read(&Until::Forever), Ok(()));
        assert!(fails(), "by one that does");
        assert_eq!(lock.try_write(), Err(EBUSY));
    }
}
