//! For how long, and how often, threads of all locks look before they do something else.

/// How often a thread that finds a lock taken looks again, awake, before it gives way to others, or queues.
pub(crate) const LOOKS: u32 = 3;
/// The first pause between two such looks; each is twice as long as the one before.
pub(crate) const LOOK_NS: u64 = 200;
/// About what it takes to be woken, where there is a CPU.
pub(crate) const WAKE_NS: u64 = 50_000;
