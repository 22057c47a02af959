//! For how long, and how often, threads of all locks look before they do something else.

/// How often a thread that finds a lock taken looks again, awake, before it gives way to others, or
/// queues. In looks; compared with those of this wait.
pub(crate) const LOOKS: u32 = 3;
/// The first pause between two such looks; each is twice as long as the one before. In ns; compared
/// with the time since the last look.
pub(crate) const LOOK_NS: u64 = 200;
/// About what it takes to be woken, where there is a CPU. In ns; compared with the time since the
/// end of a tenure; elsewhere it is the length of a sleep.
pub(crate) const WAKE_NS: u64 = 50_000;
