//! Negative controls: the defects of earlier range locks, which the checks must
//! catch. Outside tests no lock has one.

/// Whether a lock of fault number `$fault` has this one.
macro_rules! faulty {
    ($fault:expr, $name:ident) => {
        (cfg!(test) && $fault == $crate::range::faults::Fault::$name as u8)
            || $crate::fault::active($crate::fault::Fault::$name)
    };
}
pub(super) use faulty;

/// Whether `$lock` has this fault: never outside model checks and the concurrency
/// tester.
macro_rules! faulty_lock {
    ($lock:expr, $name:ident) => {{
        #[cfg(all(test, fairlock_loom))]
        let faulty = $lock.fault == $crate::range::faults::Fault::$name as u8;
        #[cfg(not(all(test, fairlock_loom)))]
        let faulty = $crate::fault::active($crate::fault::Fault::$name);
        faulty
    }};
}
pub(super) use faulty_lock;

/// A mistake, by the number of the defect in `docs/rules.md`, or beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(dead_code, reason = "made by tests and model checks only, each some of them")]
pub(super) enum Fault {
    /// None.
    None = 0,
    /// Defect 2: who gives up is taken off the counts as what it is not.
    ForgetsKind = 2,
    /// Defect 3: in the hull is taken for in the way.
    TriesAgainstHull = 3,
    /// Defect 6: who is granted and gives up at once forgets what was granted.
    ForgetsGrant = 6,
    /// Defect 7: a downgrade, a split and a shrink tell nobody.
    ChangesQuietly = 7,
    /// Defect 8: the granter looks at the waiter once more.
    TouchesGranted = 8,
    /// Who gives up takes itself for the last in line, whom nobody counts.
    LeavesUncounted = 19,
    /// Looks at the slots, and then takes one.
    LooksTooEarly = 20,
    /// Leaves a slot without a look whether anybody in the tree waits for it.
    LeavesQuietly = 21,
    /// Does not look again after it looked at slots.
    LooksOnce = 22,
    /// Enters the tree without closing stripes.
    SkipsStripes = 23,
    /// Takes a slot in a closed stripe.
    IgnoresClosed = 24,
    /// Shows that all sleep, and looks with nothing between the two.
    LooksUnordered = 26,
    /// Does not look again after it looked at the slots of a stripe.
    LooksOnceAtStripe = 25,
}
