//! Mistakes on purpose: negative controls of the concurrency tester (`fairlock_sim::tester`), of
//! the model checks and of tests. Each of these has to find its mistakes.
//!
//! Only a copy of the sources, where `fairlock_faults` holds, or one of this crate's own tests can make them,
//! and there only threads that run inside `with_fault`; in every other build [`active`] is `false`. The lines
//! that make most of them are in no source that ships: `scripts/mutants` puts them into the copy.

use crate::wait::Kind;

/// A mistake. The numbers of rules are those of `docs/rules.md`, a table of bugs that
/// others shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    dead_code,
    reason = "model checks have their own way to make some; of others, only a copy has the lines that do"
)]
#[cfg_attr(not(fairlock_faults), allow(unreachable_pub, reason = "only there it is public"))]
pub enum Fault {
    /// Rule 1: a waiter is woken before its grant is published.
    WakesBeforeGrant,
    /// Rule 2: readers are let in one by one, each counted only after the previous one is in.
    CountsOneByOne,
    /// Rule 4: HANDOFF is cleared by subtraction.
    SubtractsHandoff,
    /// Rule 5: HANDOFF that another waiter set keeps the head out.
    RefusesInherited,
    /// Rule 6: HANDOFF stays behind when the queue is empty.
    LeavesHandoff,
    /// Rule 7: a reader that queues does not look whether it could be let in.
    ArrivesBlindly,
    /// Rule 8: a reader that gives up wakes nobody.
    ReaderLeavesQuietly,
    /// Rule 9: a spinner waits without a bound for the spinner before it.
    SpinsForEver,
    /// Rule 10: waiters that are not the head spin, too.
    AllSpin,
    /// Rule 11: a spinner that gives up frees its node.
    TakesNodeAlong,
    /// Rule 12, and defect 8 of range locks: the granter looks at the waiter once
    /// more after the grant.
    TouchesGranted,
    /// Rule 14: a writer that gives up wakes nobody.
    WriterLeavesQuietly,
    /// Rule 15: `try_read` counts itself for a moment.
    TryReadCounts,
    /// A reader that may give up counts itself before it has the lock.
    TimedReadCounts,
    /// Rule 16: a thread that asks who is the head gets the first reader; a thread that wakes the
    /// head does not.
    AsksReadersFirst,
    /// Proposal 5: a writer that queues first begins no phase.
    QueuesWithoutPhase,
    /// Proposal 5: a waiter that leaves the head of the queue to a writer begins no phase.
    LeavesWithoutPhase,
    /// A wake-up that comes before the sleep is forgotten.
    ForgetsWakeUps,
    /// Under tenure, the waiter that is next asks to be woken, and sleeps without another look at
    /// the lock.
    SleepsBlindly,
    /// Under tenure, that waiter sleeps without a timer beside readers.
    SleepsUntimed,
    /// Under tenure, that waiter does not close the lock at the end of the tenure.
    NeverCloses,
    /// Under tenure, a writer takes a lock that is closed.
    StealsClosed,
    /// Under tenure, the side that has had the lock is next again.
    KeepsSide,
    /// Under tenure, a release wakes nobody.
    ReleasesQuietly,
    /// Under tenure, a thread that queues clears the flag to wake the waiter that is next, but does
    /// not wake it.
    ForgetsNext,
    /// Under tenure, the waiter that is next sets its timers a thousand times too long.
    NapsLong,
    /// Waiters are served as they came, whatever their priorities.
    IgnoresPriority,
    /// A lock that was closed for a real-time thread is opened by a grant to another.
    OpensTooEarly,
    /// The last reader out does not wake the thread that upgrades.
    ForgetsUpgrader,
    /// An upgrade releases the lock, and takes it again.
    UpgradesInTwoSteps,
    /// An upgrade does not wait for the readers inside.
    UpgradesBesideReaders,

    // Slots of the default locks.
    /// A thread that has the queue lock of a slot does not check that the lock still has that slot.
    UsesAnySlot,
    /// A lock gives its slot back although somebody waits.
    DropsAwaited,
    /// The waiter that is next sleeps without naps behind the holder of a mutex that does not know that somebody waits.
    SleepsUnseen,
    /// A thread that has slept for the queue lock takes it as one that nobody else sleeps for.
    ClaimsAlone,
    /// A thread sleeps again for the queue lock, and it still seems to be awake.
    ClaimsForEver,

    // Tasks.
    /// A task that asks to be woken does not look whether the lock is taken.
    AsksBlindly,
    /// A task that is polled keeps the waker that it had.
    KeepsWaker,
    /// A waiter that does not come stays next.
    WaitsForLate,
    /// A future that is dropped when it was notified notifies nobody in its place.
    KeepsNotification,
    /// A future does not know that an offer was made to its task.
    IgnoresOwnTask,
    /// A waker is called under the queue lock.
    CallsUnderLock,
    /// A task looks at its token before its alarm is set.
    TellsFirst,

    // Visible readers.
    /// A thread that revokes a name skips the barrier.
    RevokesUnfenced,
    /// A reader that has shown the name does not look at the lock again.
    ShowsBlindly,
    /// A reader that leaves does not look whether it was moved.
    HidesBlindly,
    /// A scan marks what it saw although the owner has changed the record since.
    MarksLate,
    /// A name is revoked with nothing raised.
    ScansUnraised,
    /// A copy of a visible word is taken for the lock.
    TrustsCopies,
    /// A reader that has shown the name does not look whether its number is still the lock's.
    ShowsUnowned,
    /// A number is taken away without the barrier.
    SweepsUnfenced,
    /// A number is taken away from a lock that is read.
    SweepsShown,

    // Ticket locks.
    /// A waiter parks without looking again after it raised INBOX.
    ParksBlindly,
    /// A releaser empties the inbox first and lowers INBOX afterwards.
    CollectsTooEarly,
    /// A release looks at the word once more when it is done.
    TouchesReleased,
    /// A solo holder does not look for tickets once it is in.
    EntersBlindly,
    /// The first in line does not wait for a solo holder.
    OvertakesSolo,
    /// Tickets of later batches are served, too.
    ServesAnyBatch,
    /// A waiter that gives up leaves its ticket to nobody.
    GivesUpQuietly,
    /// A waiter gives up without another look at the lock after it announced that.
    GivesUpBlindly,
    /// A release treats a waiter that gave up as one that it has to kick.
    KicksGivenUp,
    /// The first in line gives up and kicks nobody.
    WithdrawsQuietly,

    // Condition variables.
    /// A waiter that gives up does not look whether it was notified meanwhile.
    TakesNotification,
    /// A waiter that was woken does not wake those that follow it.
    ForgetsFollowers,
    /// A waiter releases the mutex before it queues.
    QueuesTooLate,
    /// A sleeper is put into the mutex's queue before it can find out.
    QueuesUnreported,

    // Range locks. The numbers are those of the defects in `docs/rules.md`.
    /// Defect 2: a waiter that gives up is subtracted from the counts as the other kind.
    ForgetsKind,
    /// Defect 3: a range in the hull of the tree is taken to conflict with it.
    TriesAgainstHull,
    /// Defect 6: a waiter that gives up just as it is granted its range forgets the range.
    ForgetsGrant,
    /// Defect 7: downgrade, split and shrink wake nobody.
    ChangesQuietly,
    /// A waiter that gives up assumes that it is the last in line, which nobody counts.
    LeavesUncounted,
    /// A range looks at the slots, and then takes one.
    LooksTooEarly,
    /// A holder leaves a slot without a check whether anybody in the tree waits for it.
    LeavesQuietly,
    /// Waiters in the tree are overtaken.
    OvertakesQueued,
    /// A range does not look at the tree again after it looked at slots: a holder that split or
    /// shrank meanwhile is missed.
    LooksOnce,
    /// A waiter shows that all sleep, and looks at the slots, with nothing to order the two steps.
    LooksUnordered,
    /// A range enters the tree and leaves its stripes open.
    SkipsStripes,
    /// A slot is taken in a stripe that is closed.
    IgnoresClosed,
    /// A range does not look again after it looked at the slots of a stripe: a holder that split or
    /// shrank meanwhile is missed.
    LooksOnceAtStripe,
    /// A stripe opens in which a slot is still held from the last striping; its holder tells nobody
    /// when it leaves.
    OpensBesideHolder,
    /// The last awake waiter that may be overtaken goes to sleep without a look.
    RestsBlindly,
    /// A range that leaves the tree tells none of the waiters that may be overtaken.
    LeavesTreeQuietly,
    /// A recursive read that meets a writer waits behind all others.
    WaitsBehind,
}

impl Fault {
    /// Rule 8 or rule 14.
    #[allow(dead_code, reason = "only a copy has the lines that use it")]
    pub(crate) fn leaves_quietly(kind: Kind) -> Self {
        match kind {
            Kind::Reader => Self::ReaderLeavesQuietly,
            Kind::Writer => Self::WriterLeavesQuietly,
        }
    }
}

/// Whether the caller is to make this mistake.
#[cfg(not(any(fairlock_faults, test)))]
#[inline(always)]
pub(crate) const fn active(_: Fault) -> bool {
    false
}

#[cfg(any(fairlock_faults, test))]
std::thread_local! {
    static ACTIVE: core::cell::Cell<Option<Fault>> = const { core::cell::Cell::new(None) };
}

#[cfg(any(fairlock_faults, test))]
pub(crate) fn active(fault: Fault) -> bool {
    ACTIVE.get() == Some(fault)
}

/// Runs `f` with locks that make this mistake, if any, on this OS thread.
#[cfg(any(fairlock_faults, test))]
pub fn with_fault<R>(fault: Option<Fault>, f: impl FnOnce() -> R) -> R {
    let before = ACTIVE.replace(fault);
    let result = f();
    ACTIVE.set(before);
    result
}
