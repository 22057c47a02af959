//! The parts of a simulated grid, joined.

use std::path::{Path, PathBuf};

use fairlock_cli::simulated::{Document, Part, Row, Target, relate};

use crate::error::Error;
use crate::load;

/// Joins the parts, and writes what the whole would have been, to the byte.
pub fn merge(files: &[PathBuf], json: &Path) -> Result<(), Error> {
    let target = Target::new("--json", json)?;
    target.check_spares(files.iter().map(PathBuf::as_path))?;
    let parts: Vec<Document> = files.iter().map(|file| load(file)).collect::<Result<_, _>>()?;
    let (first, name) = (&parts[0], files[0].display());
    for (part, file) in parts.iter().zip(files).skip(1) {
        if part.command != first.command || part.grid.cells != first.grid.cells {
            return Err(Error::failed(format!(
                "{} is of another command than {name}: '{}', not '{}'",
                file.display(),
                part.command,
                first.command
            )));
        }
    }
    let mut origin: Vec<Option<&PathBuf>> = vec![None; first.grid.cells];
    for (part, file) in parts.iter().zip(files) {
        for cell in cells(part) {
            let place = origin.get_mut(cell).ok_or_else(|| {
                Error::failed(format!("{}: there is no cell {cell}; make it again", file.display()))
            })?;
            if let Some(other) = place.replace(file) {
                return Err(Error::failed(format!(
                    "cell {cell} is in {} and in {}: leave one of them out",
                    other.display(),
                    file.display()
                )));
            }
        }
    }
    let missing: Vec<usize> = (0..origin.len()).filter(|&cell| origin[cell].is_none()).collect();
    if !missing.is_empty() {
        return Err(Error::failed(incomplete(&parts, &missing)));
    }
    let grid = Part { cells: origin.len(), shard: None };
    let mut parts = parts.into_iter();
    let first = parts.next().expect("there is one part at least");
    let mut rows: Vec<Row> = first.rows;
    rows.extend(parts.flat_map(|part| part.rows));
    // Sorting keeps the order of rows within a cell.
    rows.sort_by_key(|row| row.cell);
    relate(&mut rows);
    target.write(&Document { grid, rows, interrupted: false, ..first })
}

/// The cells of a part, each once.
fn cells(part: &Document) -> Vec<usize> {
    let mut cells: Vec<usize> = part.rows.iter().filter_map(|row| row.cell).collect();
    cells.dedup();
    cells
}

/// Which cells are missing, and what to run to have them.
fn incomplete(parts: &[Document], missing: &[usize]) -> String {
    let list: Vec<String> = missing.iter().map(usize::to_string).collect();
    let of = parts.iter().find_map(|part| part.grid.shard).map(|shard| shard.of);
    let mend = of.map_or_else(String::new, |of| {
        let mut shards: Vec<usize> = missing.iter().map(|cell| cell % of + 1).collect();
        shards.sort_unstable();
        shards.dedup();
        let shards: Vec<String> = shards.iter().map(|part| format!("{part}/{of}")).collect();
        format!("; run {} --shard {}", parts[0].command, shards.join(", and "))
    });
    format!(
        "{} of {} cells are missing: {}{mend}",
        missing.len(),
        parts[0].grid.cells,
        list.join(", ")
    )
}
