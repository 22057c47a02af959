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

use core::convert::identity;
use core::ffi::c_int;
use core::hint::assert_unchecked;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};

use fairlock::lock::VisibleReaders;
use fairlock::platform::System;
use fairlock::wait::WaitError;
use fairlock_profile::layout::{self, side};
use libc::{CLOCK_REALTIME, EAGAIN, EBUSY, EDEADLK, clockid_t, pthread_rwlock_t};

use self::enter::{
    Inflatable, Inside, timed, try_write_slot, wait_to_write, wait_until, write_fast,
};
use self::kind::Kind;
use self::until::{LATEST, Until};
use crate::head::{Entry, Exit};
use crate::process::real::{Rwlock, Time};
use crate::process::word::Count;
use crate::process::{config, real};
use crate::profile::{self, Of, Target};
use crate::registry::{self, Head, Slot};
use crate::thread::Preload;
use crate::thread::cancel::whole;
use crate::thread::{self, Recorded, State};
use crate::visible::VISIBLE;
use crate::word::{Form, Turns};

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
    head: Head,
    /// A [`Form`], as a hint. (`__wrphase_futex`)
    form: AtomicU32,
    _futexes: [u32; 3],
    /// `__cur_writer`. Only the writer itself stores or clears its own number.
    writer: AtomicU32,
    /// `__shared`: not zero if the lock is used by several processes.
    shared: u32,
    /// How many writers that come first are in the queue or on their way to it: from the moment in
    /// which they found the lock taken, no reader gets in before them. (`__rwelision` and padding)
    announced: Count,
    /// Counts the writers that got into the inflated lock.
    turns: Turns,
    _padding: u32,
    /// The kind. (`__flags`)
    flags: u32,
}

const _: () = assert!(offset_of!(Lock, writer) == 24 && offset_of!(Lock, flags) == 48);

impl Inflatable for Lock {
    type Program = pthread_rwlock_t;

    fn is_ours(&self) -> bool {
        self.shared == 0 && config::serves(config::Kind::Rwlock)
    }

    fn head(&self) -> &Head {
        &self.head
    }

    fn inflate(&self) -> Option<&'static Slot> {
        let slot = registry::inflate(&self.head, self.address(), config::Kind::Rwlock)?;
        // The caller is not inside yet, or still is: the lock stays.
        self.form.store(Form::INFLATED.0, Ordering::Relaxed);
        Some(slot)
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

    /// Reads a thin lock, if nothing is special. (Then nobody writes it, this thread included.)
    #[inline(always)]
    pub(crate) fn read_fast(&self) -> bool {
        let held = &thread::state().held;
        let taken = held.has_room() && self.seems_thin() && self.head.read_fast();
        if taken {
            held.push_in_room(self.address());
        }
        taken
    }

    #[inline(always)]
    pub(crate) fn write_fast(&self) -> bool {
        let me = thread::state();
        let taken = me.plain.get() && self.seems_thin() && self.head.write_fast();
        if taken {
            self.set_writer(me.tid.get());
        }
        taken
    }

    /// Leaves a thin lock: one that this thread writes, or the last one that it came to read.
    #[inline(always)]
    pub(crate) fn unlock_fast(&self) -> bool {
        let me = thread::state();
        if !me.plain.get() || !self.seems_thin() {
            return false;
        }
        // As soon as the lock is given up below, it may be gone.
        if me.held.is_last(self.address()) {
            let left = self.head.leave_read_fast(|| !me.meets_many());
            if left {
                me.held.remove_last();
            }
            return left;
        }
        if self.is_writer(me) {
            self.set_writer(0);
            return self.head.leave_write_fast();
        }
        false
    }

    /// Reads a lock whose readers are visible, if nothing is special.
    #[inline(always)]
    pub(crate) fn read_visibly(&self) -> bool {
        let (me, address) = (thread::state(), self.address());
        // The name first: where the lock has none, that costs its readers least.
        let taken = self.name().is_some_and(|(slot, name)| {
            let is_named = || slot.name() == Some(name);
            // SAFETY: `change_shown` has the thread's record, and lets no signal handler in.
            let enter = |thread| unsafe { VisibleReaders::enter(thread, address, name, is_named) };
            slot.note_use();
            me.held.has_room()
                && me.change_shown(|thread| Some(enter(thread))).is_some_and(identity)
        });
        if taken {
            me.held.push_in_room(address);
        }
        taken
    }

    /// Leaves such a lock, if this thread came to read it last.
    #[inline(always)]
    pub(crate) fn unlock_visibly(&self) -> bool {
        let (me, address) = (thread::state(), self.address());
        let left = self.name().is_some_and(|(_, name)| {
            // SAFETY: as above; and the program gives up a read of the lock that has the name.
            let leave = |thread| unsafe { VISIBLE.leave(thread, address, name) };
            me.plain.get()
                && me.held.is_last(address)
                && me.change_shown(leave).is_some_and(identity)
        });
        if left {
            me.held.remove_last();
        }
        left
    }

    /// Whether the lock is ours, and perhaps thin.
    #[inline(always)]
    fn seems_thin(&self) -> bool {
        self.shared | self.form().0 == 0
    }

    /// The slot of a lock that is visible, and what its readers show.
    #[inline(always)]
    fn name(&self) -> Option<(&'static Slot, u64)> {
        if self.shared != 0 || self.form() != Form::VISIBLE {
            return None;
        }
        let slot = self.head.certain_slot(self.address())?;
        Some((slot, slot.name()?))
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
        let me = thread::enter();
        if self.is_writer(me) {
            return Err(EDEADLK);
        }
        self.wait_for_announced(me);
        let entry = self.wait_to_enter(me, Head::read, until);
        let take = |slot: &_, until: &_| self.read_slot(slot, me, until);
        self.note_read(me, self.wait_inside(me, entry, Head::read, until, take))
    }

    pub(crate) fn try_read(&self) -> Result<(), c_int> {
        let me = thread::enter();
        if self.are_announced() && !self.reads_already(me) {
            return Err(EBUSY);
        }
        let entry = self.enter(me, Head::read);
        self.note_read(me, self.inside(entry, false, |slot| self.try_read_slot(slot, me)))
    }

    pub(crate) fn write(&self, until: &Until) -> Result<(), c_int> {
        let me = thread::enter();
        if self.is_writer(me) {
            return Err(EDEADLK);
        }
        let entry = match self.kind() {
            Kind::Writers => self.enter(me, Head::write),
            _ => self.wait_to_enter(me, Head::write, until),
        };
        let take = |slot: &Slot, until: &_| {
            me.with_more_priority(self.kind().priority_if(Kind::Writers), || {
                if write_fast(slot, me) { Ok(()) } else { wait_alone_to_write(slot, me, until) }
            })
        };
        let announces = self.kind() == Kind::Writers && !matches!(entry, Entry::Entered);
        if announces {
            self.announced.add();
            // This keeps readers from taking a thin lock meanwhile.
            self.form.store(Form::INFLATED.0, Ordering::Relaxed);
        }
        let taken = self.wait_inside(me, entry, Head::write, until, take);
        if announces {
            self.announced.remove();
        }
        self.note_write(me, taken)
    }

    pub(crate) fn try_write(&self) -> Result<(), c_int> {
        let me = thread::enter();
        let entry = self.enter(me, Head::write);
        let take = |slot: &Slot| {
            slot.settle();
            try_write_slot(slot)
        };
        self.note_write(me, self.inside(entry, false, take))
    }

    /// Gives the lock up, whichever way it is held. Does nothing if it is not held.
    pub(crate) fn unlock(&self) -> Result<(), c_int> {
        let me = thread::enter();
        let address = self.address();
        if let Some(times) = me.has_met_many() {
            self.begin_watch(times);
        } else if self.form().is_watched() {
            self.note_watched(me);
        }
        // As soon as the lock is given up below, it may be gone.
        match self.head.leave(address, || self.set_writer(0)) {
            Exit::Reader => me.held.remove(address),
            Exit::Writer | Exit::Free => {}
            Exit::Inflated(slot) => self.leave_slot(me, registry::here(slot)),
        }
        Ok(())
    }

    fn leave_slot(&self, me: &State, slot: &Slot) {
        let _record = Recorded::begin();
        let address = self.address();
        if me.reads_enough() {
            self.note_inflated(slot);
        }
        // Of whom the thread's own record says so.
        let reads = me.held.is_last(address) && !self.is_writer(me);
        if slot.name().is_some_and(|name| self.leaves_visibly(me, slot, name))
            // SAFETY: the program gives up a read of this lock. One that it does not have is its mistake: only its own data
            // depend on the lock.
            || reads && unsafe { slot.sem().try_unlock_read() }
        {
            me.held.remove(address);
        } else if slot.sem().is_write_locked() {
            self.set_writer(0);
            slot.stats.note_writer(0);
            // SAFETY: held for writing, so the caller holds it that way.
            unsafe { slot.sem().unlock_write() };
        // SAFETY: as above.
        } else if slot.sem().is_locked() && unsafe { slot.sem().try_unlock_read() } {
            me.held.remove(address);
        }
    }

    /// Leaves a lock that had this name just now, and was not written then, if the thread shows it. Else whoever leaves is
    /// counted.
    #[cold]
    fn leaves_visibly(&self, me: &State, slot: &Slot, name: u64) -> bool {
        // SAFETY: as in `unlock_visibly`.
        let leave = |thread| unsafe { VISIBLE.leave(thread, self.address(), name) };
        let left = me.change_shown(leave);
        if left.is_none() && !VisibleReaders::counts_any(slot.sem()) {
            // Another thread shows the reader, or there is none.
            slot.settle();
        }
        left.is_some_and(identity)
    }

    pub(crate) fn destroy(&self) -> Result<(), c_int> {
        let address = self.address();
        if self.head.slot(address).is_some() {
            registry::retire(&self.head, address);
            self.form.store(Form::THIN.0, Ordering::Relaxed);
        }
        Ok(())
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
            kind::wait_for_announced(&self.announced, || {
                let slot = self.head.slot(self.address());
                slot.is_some_and(|slot| registry::here(slot).sem().has_waiters())
            });
        }
    }

    /// A thread that reads already does not wait for those that wait for it; nor does a thread that
    /// the lock's kind prefers.
    #[inline(always)]
    fn read_slot(&self, slot: &Slot, me: &State, until: &Until) -> Result<(), c_int> {
        let again = self.reads_already(me);
        let preferred = self.kind().priority_if(Kind::Readers);
        me.with_more_priority(preferred, || {
            if again || preferred > 0 || me.observes.get() {
                match try_read_slot(slot, again) {
                    // `again` may be wrong, if another thread has released what this one took: then
                    // it waits.
                    Err(EBUSY) => {}
                    taken => return taken,
                }
            }
            timed(slot, me, || match self.kind() {
                Kind::Fair => until.wait(|deadline| self.read_fairly(slot, deadline)),
                _ => until.wait(|deadline| slot.sem().read_with(wait_until(deadline))),
            })
        })
    }

    /// Waits for a turn, and looks from time to time whether holders wait for the caller.
    #[inline(always)]
    fn read_fairly(&self, slot: &Slot, deadline: u64) -> Result<(), WaitError> {
        let next_look = || {
            let now = Preload::now();
            slot.still.note(&self.turns, now);
            wait_until(deadline.min(now + kind::GRACE_NS / 2))
        };
        loop {
            match slot.sem().read_until_of(deadline < LATEST, next_look) {
                Err(WaitError::TimedOut) if Preload::now() < deadline => {
                    if self.passes(slot) {
                        return Ok(());
                    }
                }
                ended => return ended,
            }
        }
    }

    /// A reader that would wait for queued writers joins those inside, if it may.
    fn passes(&self, slot: &Slot) -> bool {
        !slot.sem().is_write_locked()
            && kind::may_pass(slot, &self.turns)
            && slot.sem().try_read_recursive()
    }

    fn try_read_slot(&self, slot: &Slot, me: &State) -> Result<(), c_int> {
        let again = self.reads_already(me);
        let taken = me.with_more_priority(self.kind().priority_if(Kind::Readers), || {
            try_read_slot(slot, again)
        });
        match taken {
            Err(EBUSY) if self.kind() == Kind::Fair && self.passes(slot) => Ok(()),
            taken => taken,
        }
    }

    /// The caller holds the lock, thin or in a slot, and stores what it is as the hint; a reader leaves a thin lock watched.
    /// Where writers come first the hint stays, once they had to wait.
    fn note_form(&self, slot: Option<&Slot>, reads: bool) -> Form {
        let (hint, form) = (self.form(), form_of(slot));
        let stays = hint == form
            || form == Form::THIN && (reads && hint.is_watched() || self.kind() == Kind::Writers);
        if !stays {
            self.form.store(form.0, Ordering::Relaxed);
        }
        form
    }

    // ---- when readers become visible ----

    /// Now and then, less and less often, a lock is watched that the calling thread is about to leave, thin and with other
    /// readers inside.
    #[cold]
    fn begin_watch(&self, times: u32) {
        let is_due = VisibleReaders::<Preload>::is_due(times);
        if is_due && self.may_be_visible() && Preload::has_process_barrier() {
            self.form.store(Form::watched(Preload::now()).0, Ordering::Relaxed);
        }
    }

    /// Not where writers come first from the first instant, nor where reads are counted.
    fn may_be_visible(&self) -> bool {
        self.kind() != Kind::Writers && thread::state().plain.get()
    }

    /// The calling thread is about to leave a watched lock. It becomes visible if nobody has written it for long.
    fn note_watched(&self, me: &State) {
        let is_quiet = || self.form().watched_ns(Preload::now()) >= VISIBLE.worth_outside_ns();
        if me.reads_enough()
            && self.may_be_visible()
            && is_quiet()
            && let Some(slot) = self.inflate()
        {
            slot.show();
            self.note_form(Some(slot), true);
        }
    }

    /// The calling thread is about to leave the inflated lock: as above.
    #[cold]
    fn note_inflated(&self, slot: &Slot) {
        let is_quiet =
            || slot.still.note(&self.turns, Preload::now()) >= VISIBLE.worth_outside_ns();
        if self.may_be_visible() && is_quiet() {
            slot.show();
            self.note_form(Some(slot), true);
        }
    }

    #[inline(always)]
    fn note_read(&self, me: &State, taken: Inside) -> Result<(), c_int> {
        let slot = taken?;
        let form = self.note_form(slot, true);
        me.held.push(self.address());
        if form == Form::VISIBLE {
            // It will be read without being counted.
            me.change_shown(|thread| {
                // SAFETY: as in `read_visibly`.
                unsafe { VISIBLE.prepare(thread, self.address()) };
                Some(())
            });
        }
        if let Some(slot) = slot.filter(|_| me.observes.get()) {
            slot.stats.note_read();
        }
        Ok(())
    }

    fn note_write(&self, me: &State, taken: Inside) -> Result<(), c_int> {
        let slot = taken?;
        self.note_form(slot, false);
        self.set_writer(me.tid.get());
        if let Some(slot) = slot {
            self.turns.count();
            if me.observes.get() {
                slot.stats.note_write(me.tid.get());
            }
        }
        Ok(())
    }
}

/// What a lock is that is thin, or has this slot.
fn form_of(slot: Option<&Slot>) -> Form {
    match slot {
        None => Form::THIN,
        Some(slot) if slot.name().is_some() => Form::VISIBLE,
        Some(_) => Form::INFLATED,
    }
}

/// A function of its own, so that who need not wait has fewer calls.
#[inline(never)]
fn wait_alone_to_write(slot: &Slot, me: &State, until: &Until) -> Result<(), c_int> {
    slot.wait_alone(|| wait_to_write(slot, me, until))
}

fn try_read_slot(slot: &Slot, again: bool) -> Result<(), c_int> {
    let taken = if again { slot.sem().try_read_recursive() } else { slot.sem().try_read() };
    match taken {
        true => Ok(()),
        false if slot.sem().is_saturated() => Err(EAGAIN),
        false => Err(EBUSY),
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
    profile::acquire(target(lock, side), first, again, wait)
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

// ---- where the lock is not thin, or could not be taken or left at once ----

unsafe fn read<const WAITS: bool>(lock: Rwlock) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match Lock::at(lock) {
            Some(ours) if ours.read_visibly() => 0,
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
        for _form in ["thin", "inflated"] {
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
            // It is inflated in the second round only.
            assert_eq!(lock.read(&Until::Forever), Ok(()));
            assert_eq!(lock.write(&Until::Monotonic(0)), Err(libc::ETIMEDOUT));
            lock.unlock().unwrap();
        }
        assert!(!lock.read_fast() && !lock.write_fast(), "it is inflated");
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
        unsafe { lock.inflate().unwrap().sem().adopt_readers(usize::MAX) };
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
