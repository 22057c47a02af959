//! The setup of a workload with many configurations.

use serde::{Deserialize, Serialize};

use super::Form;

/// What makes one cell of a workload differ from the next; also the keys of its rows. What does not
/// apply is left out.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(default)]
pub struct Setup {
    /// The form in which the lock is used, where it could be several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<Form>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    /// Reads in a hundred operations of each thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_percent: Option<u8>,
    /// Length of the section in nanoseconds,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_ns: Option<u32>,
    /// and of a reader's, if that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ns: Option<u32>,
    /// Ranges held meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<usize>,
    /// Work outside the lock, relative to that inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<u32>,
    /// How many locks, or positions, there are: each operation is on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub among: Option<usize>,
    /// Which of a scenario's groups it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_number: Option<u16>,
    /// What a holder does after its section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
}

named! {
    /// Which part of the array an operation locks.
    Shape {
        /// All of it.
        Full: "full",
        /// The thread's own.
        Disjoint: "disjoint",
        /// From one slot to another, both at random.
        Random: "random",
    }
}

named! {
    /// What the holder does after its section.
    Holder {
        /// It is gone for 6 ms.
        Away: "away",
        /// It works for 20 us, and comes back for the next section.
        Back: "back",
    }
}
