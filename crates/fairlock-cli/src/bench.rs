//! `fairlock bench`, and the main job: plan, run, show, keep.

use std::path::Path;
use std::process::ExitCode;

use crate::cell::Workload;
use crate::direct_file::DirectFile;
use crate::error::{Error, FAILED, INTERRUPTED};
use crate::flags::Flags;
use crate::json::{Document, Rows, SCHEMA, Target};
use crate::machine::Machine;
use crate::output::{both, complain};
use crate::results::Results;
use crate::row::{self, Row};
use crate::runner::{self, Plan};
use crate::{command_line, compare, plan, table, verdict, workload};

/// Runs the named workloads.
pub fn bench(workloads: &[String], flags: &Flags) -> Result<ExitCode, Error> {
    // Calibrated after the command line is known to make sense.
    let plan = plan::bench(workloads, flags)?;
    run(plan, workloads, flags, |_| String::new())
}

/// Runs the main job: who starves whom on this machine.
pub fn main_job(flags: &Flags) -> Result<ExitCode, Error> {
    run(plan::main_job(flags)?, &[], flags, verdict::verdict)
}

fn run(
    mut plan: Plan,
    workloads: &[String],
    flags: &Flags,
    closing: impl Fn(&[Row]) -> String,
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
    let mut shown = page.show(&format!("{}\n\n", machine.line()));
    let mut rows: Vec<Row> = Vec::new();
    let interrupted = runner::run(plan, |measured| {
        let mut of_table = row::rows(measured);
        for row in of_table.iter_mut().filter(|row| row.workload == Workload::DirectIo) {
            row.file_system.clone_from(&file_system);
        }
        if shown.is_ok() {
            let table = table::table(&of_table, page.width());
            shown = page.show(&format!("{}{table}", table::lengths(&of_table)));
        }
        rows.append(&mut of_table);
    })?;
    // The document has the order of workloads, not that in which they were shown.
    rows.sort_by_key(|row| row.workload);
    let shown = shown.and_then(|()| page.show(&closing(&rows)));
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
