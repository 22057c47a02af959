//! What locks with a name have counted, in Rust or with libfairlock: tables that the program itself has written (`fairlock::stats`).

use std::fs;
use std::path::Path;

/// What such files end with, and while they are written.
pub const ENDS: [&str; 2] = [".named", ".named.new"];

/// The tables of all processes; none if no process has a lock with a name.
pub fn text(folder: &Path) -> Option<String> {
    let mut tables = Vec::new();
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = name.strip_suffix(ENDS[0]).and_then(|pid| pid.parse::<u32>().ok()) else {
            continue;
        };
        if let Ok(table) = fs::read(entry.path()) {
            let table = String::from_utf8_lossy(&table).into_owned();
            let table = table.replace(|c: char| c.is_control() && c != '\n', "?");
            tables.push((pid, table));
        }
    }
    tables.sort();
    let tables: String = tables
        .iter()
        .map(|(pid, table)| format!("\nlocks with a name, of process {pid}:\n{table}"))
        .collect();
    (!tables.is_empty()).then_some(tables)
}
