//! The caches of the first CPU, as Linux describes them.

use std::fs;
use std::path::Path;

use super::Finding;

const FOLDER: &str = "/sys/devices/system/cpu/cpu0/cache";

/// The sizes of the caches; none where the system does not say them.
pub fn finding() -> Option<Finding> {
    let mut caches: Vec<String> = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    for index in 0..8 {
        let folder = Path::new(FOLDER).join(format!("index{index}"));
        let read = |name: &str| Some(fs::read_to_string(folder.join(name)).ok()?.trim().to_owned());
        let (Some(level), Some(size), Some(kind)) = (read("level"), read("size"), read("type"))
        else {
            continue;
        };
        if kind == "Instruction" {
            continue;
        }
        let shared =
            read("shared_cpu_list").map_or_else(String::new, |cpus| format!(" (CPU {cpus})"));
        caches.push(format!("L{level} {size}{shared}"));
        lines.extend(read("coherency_line_size"));
    }
    lines.dedup();
    let line = lines.first().map_or_else(String::new, |bytes| format!(", lines of {bytes} bytes"));
    let means = match lines.first().map(String::as_str) {
        None | Some("64") => "",
        _ => "The locks keep data apart on cache lines of up to 128 bytes",
    };
    (!caches.is_empty())
        .then(|| Finding::new("caches", format!("{}{line}", caches.join(", ")), means))
}
