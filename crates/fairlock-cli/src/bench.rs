//! `fairlock bench`, and the first screen: plan, run, show, keep.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use crate::cell::Workload;
use crate::direct_file::DirectFile;
use crate::error::{Error, FAILED, INTERRUPTED};
use crate::flags::Flags;
use crate::json::{Document, Target};
use crate::machine::Machine;
use crate::output::{Page, both, complain, print};
use crate::plan::Extent;
use crate::results::Results;
use crate::results::{Rows, SCHEMA};
use crate::row::{self, Row};
use crate::runner::{self, Plan};
use crate::screen::{self, Screen};
use crate::{command_line, compare, plan, table, workload};

/// What is shown of the rows.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    Tables,
    Screen,
    TablesAndScreen,
}

/// Runs the named workloads.
pub fn bench(workloads: &[String], flags: &Flags) -> Result<ExitCode, Error> {
    // Calibrated after the command line is known to make sense.
    let plan = plan::bench(workloads, flags)?;
    run(plan, workloads, flags, Shown::Tables)
}

/// Runs the first screen: which locks make threads wait longest here. With [`Extent::All`], tables come first.
pub fn main_job(flags: &Flags, extent: Extent) -> Result<ExitCode, Error> {
    let shown = match extent {
        Extent::Screen => Shown::Screen,
        Extent::All => Shown::TablesAndScreen,
    };
    run(plan::main_job(flags, extent)?, &[], flags, shown)
}

fn run(
    mut plan: Plan,
    workloads: &[String],
    flags: &Flags,
    what: Shown,
) -> Result<ExitCode, Error> {
    if flags.check.fail_on_regression.is_some() && flags.baseline.is_none() {
        return Err(Error::usage("--fail-on-regression needs the earlier result: --baseline FILE"));
    }
    let baseline = flags.baseline.as_deref().map(Results::load).transpose()?;
    let target = flags.json.as_deref().map(|file| Target::new("--json", file)).transpose()?;
    // A workload may be a file's name.
    let read = || workloads.iter().map(Path::new).chain(flags.baseline.as_deref());
    target.iter().try_for_each(|target| target.check_spares(read()))?;
    let file_system = try_direct_io(&plan)?;
    let machine = Machine::this().with_peers();
    for cell in plan.tables.iter_mut().flatten() {
        cell.busy_turns_per_us = machine.busy_turns_per_us;
    }

    let page = Target::page_beside(&[&target]);
    let mut draft = Draft::on(page);
    let mut shown = match what {
        Shown::Screen => Ok(()),
        _ => page.show(&format!("{}\n\n", machine.line())),
    };
    let mut rows: Vec<Row> = Vec::new();
    let interrupted = runner::run(plan, |measured| {
        let mut of_table = row::rows(measured);
        for row in of_table.iter_mut().filter(|row| row.workload == Workload::DirectIo) {
            row.file_system.clone_from(&file_system);
        }
        let table = (what != Shown::Screen)
            .then(|| table::lengths(&of_table) + &table::table(&of_table, page.width()));
        rows.append(&mut of_table);
        if shown.is_ok() {
            shown = match table {
                Some(table) => page.show(&table),
                None => draft.show(&Screen::of(&rows, &machine.peers).table()),
            };
        }
    })?;
    // The document has the order of workloads, not that in which they were shown.
    rows.sort_by_key(|row| row.workload);
    let screen = match what {
        Shown::Tables => String::new(),
        _ => Screen::of(&rows, &machine.peers).text(&machine),
    };
    let shown = shown.and_then(|()| draft.clear()).and_then(|()| page.show(&screen));
    let kept = target.map_or(Ok(()), |target| {
        let content = Rows { rows: &rows };
        target.write(&Document::new(SCHEMA, &machine, command_line(), interrupted, content))
    });
    let compared = baseline.map(|baseline| compare::show(&baseline.rows, &rows, flags.check, page));
    // What cannot be shown is kept all the same, and the other way round.
    let compared = both(both(shown, kept), compared.transpose())?;
    Ok(if interrupted {
        complain("interrupted; what was finished is shown");
        ExitCode::from(INTERRUPTED)
    } else if rows.iter().any(|row| row.error.is_some()) {
        complain("some runs failed; see the lines that begin with 'failed:'");
        ExitCode::from(FAILED)
    } else {
        compared.unwrap_or(ExitCode::SUCCESS)
    })
}

/// The table of what has been measured so far, on a terminal that has room for it: each takes the
/// place of the last one.
struct Draft {
    has_room: bool,
    lines: usize,
}

impl Draft {
    fn on(page: Page) -> Self {
        let is_terminal = matches!(page, Page::Stdout) && io::stdout().is_terminal();
        Self { has_room: is_terminal && page.width() >= Some(screen::WIDTH), lines: 0 }
    }

    fn show(&mut self, text: &str) -> Result<(), Error> {
        if !self.has_room {
            return Ok(());
        }
        self.clear()?;
        self.lines = text.lines().count();
        Page::Stdout.show(text)
    }

    fn clear(&mut self) -> Result<(), Error> {
        match std::mem::take(&mut self.lines) {
            0 => Ok(()),
            lines => print(format!("\x1b[{lines}A\x1b[J").as_bytes()),
        }
    }
}

/// Tries direct I/O in the folder that the plan will use, before anything is run. Returns the type
/// of the folder's file system.
fn try_direct_io(plan: &Plan) -> Result<Option<String>, Error> {
    let Some(cell) = plan.tables.iter().flatten().find(|cell| cell.workload == Workload::DirectIo)
    else {
        return Ok(None);
    };
    let file = DirectFile::create(cell.folder(), workload::direct_io::blocks(cell))?;
    Ok(Some(file.file_system()))
}
