//! The progress bar: on a terminal only, and on stderr.

use indicatif::{ProgressBar, ProgressStyle};

use crate::cell::Cell;
use crate::output::visible;

/// A bar of `steps` steps. It shows nothing when stderr is not a terminal.
pub fn bar(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len}, {eta} left  {msg:44}")
        .expect("the template is valid");
    ProgressBar::new(steps).with_style(style)
}

/// What is being run.
pub fn label(cell: &Cell) -> String {
    let label =
        format!("{} {} {} ({})", cell.workload.name(), cell.case.name(), cell.lock, cell.threads);
    visible(&label).into_owned()
}
