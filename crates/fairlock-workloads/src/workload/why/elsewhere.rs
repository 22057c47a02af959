//! Systems that do not say what a thread did.

use super::Counts;

pub enum Kernel {}

impl Kernel {
    pub fn of_this_thread() -> Option<Self> {
        None
    }

    pub fn counts(&self) -> Option<Counts> {
        match *self {}
    }
}
