//! What the discipline remembers of a thread.

use crate::system::{Atomic, System};

// Neighbours in the spinner queue write it: in a line of its own, away from what wakers write.
#[repr(align(64))]
pub(crate) struct Local<P: System> {
    pub(crate) spinner: SpinnerNode<P>,
}

impl<P: System> Local<P> {
    pub(crate) fn new() -> Self {
        Self { spinner: SpinnerNode::new() }
    }
}

/// A thread's place in a spinner queue (`osq`).
pub(crate) struct SpinnerNode<P: System> {
    /// The hint of the next node, or a mark of the queue.
    pub(super) next: P::AtomicUsize,
    /// Where the node is on its way through the queue; zero if it is in none.
    pub(super) state: P::AtomicU32,
}

impl<P: System> SpinnerNode<P> {
    fn new() -> Self {
        Self { next: P::AtomicUsize::new(0), state: P::AtomicU32::new(0) }
    }
}
