//! What a simulation that has ended reports.

/// How many operations of each kind were simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Loads of atomics.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Read-modify-writes.
    pub atomics: u64,
    /// Runs of pause instructions; each counts once, however long.
    pub pauses: u64,
    /// Looks at the clock.
    pub clocks: u64,
    /// Spins: one each, however long.
    pub spins: u64,
    /// Loads by spinners whose line was written.
    pub reloads: u64,
    /// Waits on a word.
    pub waits: u64,
    /// Wake-ups.
    pub wakes: u64,
    /// Busy sections and yields.
    pub others: u64,
}

impl Operations {
    /// All operations but the reloads, which no thread asked for.
    pub fn total(&self) -> u64 {
        let Self {
            loads,
            stores,
            atomics,
            pauses,
            clocks,
            spins,
            reloads: _,
            waits,
            wakes,
            others,
        } = self;
        loads + stores + atomics + pauses + clocks + spins + waits + wakes + others
    }
}

/// One thread's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadReport {
    /// Its name.
    pub name: String,
    /// How long it had a CPU.
    pub cpu_ns: u64,
    /// How often it lost its CPU to another thread.
    pub preemptions: u64,
    /// How often it slept.
    pub sleeps: u64,
}

/// A simulation that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// When the last thread ended.
    pub ended_ns: u64,
    /// What was simulated.
    pub operations: Operations,
    /// The threads, in the order in which they were spawned.
    pub threads: Vec<ThreadReport>,
}
