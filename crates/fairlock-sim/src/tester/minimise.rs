//! From a failing trial to a small one that fails in the same way.
//!
//! Actions are left out as long as the rest still fails; then deviations from the schedule that
//! results without any choice, in ever smaller pieces (Zeller's delta debugging).

use super::failure::FailureKind;
use super::schedule::{Deviation, Schedule};
use super::subjects::SubjectKind;
use super::trial::{Case, Keep, Resources, run};

/// A trial that fails, and how.
pub(super) struct Failing {
    pub(super) case: Case,
    pub(super) deviations: Vec<Deviation>,
    pub(super) kind: FailureKind,
}

/// How many trials are made to find a smaller one.
const MOST_TRIALS: u32 = 4_000;

pub(super) fn minimise(
    resources: &mut Resources,
    subject: &SubjectKind,
    failing: Failing,
) -> Failing {
    let mut search = Search { resources, subject, failing, left: MOST_TRIALS };
    loop {
        let before = search.size();
        search.leave_out_actions();
        search.leave_out_deviations();
        if search.size() == before || search.left == 0 {
            return search.failing;
        }
    }
}

struct Search<'a> {
    resources: &'a mut Resources,
    subject: &'a SubjectKind,
    failing: Failing,
    left: u32,
}

impl Search<'_> {
    fn size(&self) -> (usize, usize) {
        let actions = self.failing.case.script.iter().map(Vec::len).sum();
        (actions, self.failing.deviations.len())
    }

    /// Keeps the smaller trial if it fails in the same way.
    fn attempt(&mut self, case: Case, deviations: Vec<Deviation>) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        let schedule = Schedule::replay(&deviations);
        let outcome = run(self.resources, self.subject, &case, schedule, Keep::Nothing);
        let same = outcome.complaint.is_some_and(|complaint| complaint.kind == self.failing.kind);
        if same {
            // Deviations that had no effect are not among the outcome's.
            let fewer = outcome.deviations.len() <= deviations.len();
            let deviations = if fewer { outcome.deviations } else { deviations };
            self.failing = Failing { case, deviations, ..self.failing };
        }
        same
    }

    fn leave_out_actions(&mut self) {
        for thread in 0..self.failing.case.script.len() {
            let mut action = 0;
            while action < self.failing.case.script[thread].len() {
                let mut case = self.failing.case.clone();
                case.script[thread].remove(action);
                if !self.attempt(case, self.failing.deviations.clone()) {
                    action += 1;
                }
            }
        }
    }

    fn leave_out_deviations(&mut self) {
        let mut piece = self.failing.deviations.len().div_ceil(2);
        while piece > 0 {
            let mut from = 0;
            while from < self.failing.deviations.len() {
                let mut deviations = self.failing.deviations.clone();
                let to = deviations.len().min(from + piece);
                deviations.drain(from..to);
                if !self.attempt(self.failing.case.clone(), deviations) {
                    from += piece;
                }
            }
            piece /= 2;
        }
    }
}
