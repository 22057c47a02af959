//! Watching a simulation: who runs where, and what threads say they do.

/// What a simulated thread does, as the machine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadState {
    /// It has a CPU and works.
    Running,
    /// It has a CPU and spins on a word.
    Spinning,
    /// It has been woken, and is on its way to a CPU.
    Woken,
    /// It could run, and others have the CPUs: it was preempted, or waits for its turn.
    Runnable,
    /// It has its CPU, which a host has taken away.
    Stalled,
    /// It sleeps.
    Sleeping,
    /// It has ended.
    Ended,
}

impl ThreadState {
    /// Whether the thread is awake, and without a CPU.
    pub fn lacks_cpu(self) -> bool {
        matches!(self, Self::Runnable | Self::Stalled)
    }
}

/// What a thread says about itself: [`mark`](crate::mark).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// It begins to ask for a lock.
    Waiting(&'static str),
    /// It has the lock.
    Holding(&'static str),
    /// It is about to give it back: its section is over.
    Releasing(&'static str),
    /// It has given it back.
    Released(&'static str),
    /// Something else of note.
    Instant(&'static str),
}

/// Is told about everything that happens to threads, in order of time.
pub trait Observer {
    /// A thread's state changed. `cpu` is the one it is on, or was on last.
    fn thread(&mut self, time_ns: u64, thread: usize, cpu: usize, state: ThreadState);
    /// A thread said what it does.
    fn mark(&mut self, time_ns: u64, thread: usize, mark: Mark);
}
