//! The progress bar: on a terminal only, and on stderr.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::cell::Cell;
use crate::output::{complain, visible};
use crate::units::several;

/// A bar of `steps` steps. It shows nothing when stderr is not a terminal.
pub fn bar(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len}, {eta} left  {msg:44}")
        .expect("the template is valid");
    ProgressBar::new(steps).with_style(style)
}

/// What a run of many steps says of its length where no bar is seen.
pub struct Foretold {
    began: Instant,
    /// Whether it has said how long the rest takes, or needs not.
    is_said: bool,
}

impl Foretold {
    /// When to say how long the rest takes: what was done by then tells.
    const AFTER: Duration = Duration::from_secs(10);

    /// Says that the steps begin.
    pub fn begin(bar: &ProgressBar, what: &str) -> Self {
        let steps = bar.length().unwrap_or(0) as usize;
        if bar.is_hidden() && steps > 1 {
            complain(&format!("{} to do", several(steps, what)));
        }
        Self { began: Instant::now(), is_said: !bar.is_hidden() }
    }

    /// To be called after each step.
    pub fn look(&mut self, bar: &ProgressBar) {
        let (done, steps) = (bar.position(), bar.length().unwrap_or(0));
        let took = self.began.elapsed();
        if self.is_said || took < Self::AFTER || done == 0 || done == steps {
            return;
        }
        self.is_said = true;
        let left = took.as_secs_f64() * (steps - done) as f64 / done as f64;
        complain(&format!("{done} of {steps} done after 10 s: some {} left", about(left)));
    }
}

/// A time that is known roughly.
pub fn about(secs: f64) -> String {
    if secs < 100.0 { format!("{secs:.0} s") } else { format!("{:.0} min", secs / 60.0) }
}

/// What is being run.
pub fn label(cell: &Cell) -> String {
    let label =
        format!("{} {} {} ({})", cell.workload.name(), cell.case.name(), cell.lock, cell.threads);
    visible(&label).into_owned()
}
