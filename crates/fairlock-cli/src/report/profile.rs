//! What `fairlock run --stats FILE` kept of a program: a line of JSON for each lock.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::columns::Table;
use super::pictures::Picture;
use super::svg::{Axis, COLORS, Scale, Svg, escaped, ruler};
use crate::units::{count, time};

/// A lock, as far as it is shown.
#[derive(Deserialize)]
struct Lock {
    pid: u32,
    policy: String,
    address: String,
    #[serde(default)]
    symbol: Option<String>,
    #[serde(default)]
    object: Option<String>,
    #[serde(default)]
    offset: u64,
    reads: u64,
    writes: u64,
    waits: u64,
    wait_total_ns: u64,
    wait_max_ns: u64,
}

/// The locks of a program, those that were waited for longest first.
pub struct Profile {
    file: PathBuf,
    locks: Vec<Lock>,
}

/// So many locks are drawn.
const DRAWN: usize = 20;

impl Profile {
    /// Of a file's text, if it is one.
    pub fn parse(file: &Path, text: &str) -> Option<Self> {
        let locks: Result<Vec<Lock>, _> = text.lines().map(serde_json::from_str).collect();
        let mut locks = locks.ok().filter(|locks| !locks.is_empty())?;
        locks.sort_by_key(|lock| std::cmp::Reverse((lock.wait_max_ns, lock.reads + lock.writes)));
        Some(Self { file: file.to_owned(), locks })
    }

    pub fn title(&self) -> String {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        format!("locks of a program ({name})")
    }

    pub fn origin(&self) -> String {
        let mut policies: Vec<&str> = self.locks.iter().map(|lock| lock.policy.as_str()).collect();
        policies.sort_unstable();
        policies.dedup();
        format!("fairlock run, policy {}, {} locks", policies.join(", "), self.locks.len())
    }

    /// The locks that were waited for, by longest wait.
    pub fn pictures(&self) -> Vec<Picture> {
        const ROW: f64 = 26.0;
        const NAMES: f64 = 260.0;
        let waited: Vec<&Lock> =
            self.locks.iter().filter(|lock| lock.wait_max_ns > 0).take(DRAWN).collect();
        if waited.is_empty() {
            return Vec::new();
        }
        let mut svg = Svg::new(760.0, ROW * waited.len() as f64 + 60.0);
        let longest = waited.iter().map(|lock| lock.wait_max_ns as f64);
        let show = |ns: f64| time(ns as u64);
        let x = Scale { axis: Axis::from_zero(longest), title: "longest wait", show: &show };
        let xs = ruler(&mut svg, &x, NAMES);
        for (line, lock) in waited.iter().enumerate() {
            let (y, to) = (ROW * line as f64 + 8.0, xs.at(lock.wait_max_ns as f64));
            let (place, fill) = (lock.place(), COLORS[0]);
            let says =
                format!("{place}: {} waits, the longest {}", lock.waits, time(lock.wait_max_ns));
            let title = escaped(&says);
            svg.raw(format_args!(
                "<path class=\"k0\" fill=\"{fill}\" d=\"M{NAMES:.0} {y:.0}H{to:.0}v16H{NAMES:.0}z\"><title>{title}</title></path>"
            ));
            svg.text(NAMES - 8.0, y + 12.0, "end", &shortened(&place));
        }
        let name = "Longest wait for each lock".to_owned();
        vec![Picture { name, note: String::new(), svg }]
    }

    pub fn table(&self) -> Table {
        let heads =
            vec!["process", "lock", "longest wait", "waits", "total wait", "reads", "writes"];
        let row = |lock: &Lock| {
            vec![
                lock.pid.to_string(),
                lock.place(),
                time(lock.wait_max_ns),
                count(lock.waits),
                time(lock.wait_total_ns),
                count(lock.reads),
                count(lock.writes),
            ]
        };
        Table { heads, figures_from: 2, rows: self.locks.iter().map(row).collect() }
    }
}

impl Lock {
    /// Where it is, in the words of the program if there are any.
    fn place(&self) -> String {
        let file = self.object.as_deref().and_then(|object| Path::new(object).file_name());
        let known = self.symbol.clone().or(file.map(|name| name.to_string_lossy().into_owned()));
        match known {
            Some(name) if self.offset == 0 => name,
            Some(name) => format!("{name}+{:#x}", self.offset),
            None => self.address.clone(),
        }
    }
}

/// A name that has room beside a bar.
fn shortened(name: &str) -> String {
    const MOST: usize = 34;
    let length = name.chars().count();
    if length <= MOST {
        return name.to_owned();
    }
    let tail: String = name.chars().skip(length - MOST + 1).collect();
    format!("…{tail}")
}
