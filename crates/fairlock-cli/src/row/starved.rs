//! Whether threads starved. The one rule for tables, pictures, comparisons and closing words: a thread
//! starved that had at most one operation in a window in which a fair lock would have come to it. A
//! short window does not tell: all that can be said is that threads were hardly served in it.

use super::Row;
use crate::units::time;

/// A window that is shorter than this for each thread is short: our locks plan no longer waits where
/// sections are short.
const TURN_SECS: f64 = 0.003;

/// Whether a window is too short to call a thread starved that had no turn in it.
pub fn is_short(secs: f64, threads: usize) -> bool {
    secs < TURN_SECS * threads as f64
}

impl Row {
    /// How many threads starved, if that was counted and the window is long enough to tell.
    pub fn starved(&self) -> Option<usize> {
        self.figures.starved_threads.filter(|&threads| threads == 0 || !self.window_is_short)
    }

    /// Whether threads are known to have starved.
    pub fn starves(&self) -> bool {
        self.starved() > Some(0)
    }

    /// What to say in place of "starved" of a number, or a range, of threads; none if they starved.
    pub fn hardly_served(&self, threads: &str) -> Option<String> {
        let window = self.window_ns.filter(|_| self.window_is_short && threads != "0")?;
        Some(format!("{threads} hardly served in {}", time(window)))
    }

    /// What to say of a number, or a range, of threads that had at most one operation.
    pub fn served(&self, threads: &str) -> String {
        self.hardly_served(threads).unwrap_or_else(|| format!("starved {threads}"))
    }
}

#[cfg(test)]
mod tests {
    use crate::cell::Side;
    use crate::row::rows;
    use crate::row::tests::mix;

    #[test]
    fn a_short_window_starves_nobody() {
        let mut row = rows(&mix("std", [50, 50], [0, 50])).swap_remove(0);
        row.side = Side::All;
        row.figures.starved_threads = Some(1);
        assert_eq!((row.starved(), row.starves(), &*row.served("1")), (Some(1), true, "starved 1"));
        (row.window_is_short, row.window_ns) = (true, Some(5_000_000));
        let said = row.served("1");
        assert_eq!(
            (row.starved(), row.starves(), &*said),
            (None, false, "1 hardly served in 5.00 ms")
        );
        row.figures.starved_threads = Some(0);
        assert_eq!(
            (row.starved(), row.starves(), &*row.served("0")),
            (Some(0), false, "starved 0")
        );
    }
}
