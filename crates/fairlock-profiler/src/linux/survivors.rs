//! Processes of a program that go on when it has ended, as daemons do.

use std::fs;
use std::path::Path;

/// Which they are, of those that record to this folder; none if there are none.
pub fn text(folder: &Path) -> Option<String> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<u32> = pids.filter(|&pid| records_to(pid, folder)).collect();
    found.sort_unstable();
    let name = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("{pid} ({})", name.trim_end())
    };
    let names: Vec<String> = found.iter().map(name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "still running: {}; what such processes do from now on is not in the report: run a daemon in \
             the foreground",
            names.join(", ")
        )
    })
}

/// Whether the process was told to, or does: some write over their environment.
fn records_to(pid: u32, folder: &Path) -> bool {
    let folder_in = folder.as_os_str().as_encoded_bytes();
    let names_it = |file: &str| {
        let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        text.windows(folder_in.len()).any(|part| part == folder_in)
    };
    names_it("environ") || (folder.join(format!("{pid}.fairlock")).exists() && names_it("maps"))
}
