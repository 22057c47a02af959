//! The machine file.

use std::fmt::Write as _;

use fairlock_sim::Machine;

use crate::measure::Interval;
use crate::units::{digits, several};

/// What stands for what is not measured.
const BASE: &str = "two_cpu";

/// What was found out about this machine.
#[derive(Default)]
pub struct Figures {
    pub title: String,
    /// Section, key, value and where that is from. A later one of a key counts.
    pub values: Vec<(&'static str, &'static str, String, String)>,
    /// What the file has no key for.
    pub notes: Vec<String>,
}

impl Figures {
    pub fn set(&mut self, section: &'static str, key: &'static str, value: String, source: &str) {
        self.values.push((section, key, value, source.to_owned()));
    }

    /// A key's value is the median of these, if there are any.
    pub fn measured(&mut self, section: &'static str, key: &'static str, samples: &[f64]) {
        if let Some(interval) = Interval::of(samples.iter().copied()) {
            self.set(section, key, format!("{:.1}", interval.median), &source(&interval));
        }
    }

    /// A comment at the file's head.
    pub fn note(&mut self, what: &str, samples: &[f64], show: impl Fn(f64) -> String) {
        if let Some(interval) = Interval::of(samples.iter().copied()) {
            let samples = several(interval.samples, "sample");
            self.notes.push(format!("{what}: {}, {samples}", interval.words(show)));
        }
    }
}

fn source(interval: &Interval) -> String {
    let Interval { low, high, samples, .. } = interval;
    format!("measured: {} to {}, {}", digits(*low), digits(*high), several(*samples, "sample"))
}

/// The file: that of the base, with what was measured in its place.
pub fn text(figures: &Figures) -> String {
    let mut out = format!(
        "# This machine, by `fairlock calibrate`. measured: the median; behind it the 10th and the 90th \
         of a\n# hundred samples. not measured: as {BASE}. Times are nanoseconds.\n"
    );
    // Writing to a string does not fail, here and below.
    figures.notes.iter().for_each(|note| _ = writeln!(out, "# {note}."));
    let _ = writeln!(out, "title = {:?}", figures.title);
    let mut section = "";
    for line in Machine::builtin_file(BASE).unwrap_or_default().lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.split(']').next().unwrap_or_default();
            let _ = writeln!(out, "\n[{section}]");
        } else if let Some((key, rest)) = line.split_once(" = ").filter(|_| !section.is_empty()) {
            if key.starts_with('#') {
                continue;
            }
            let is_it =
                |value: &&(&str, &str, String, String)| value.0 == section && value.1 == key;
            let _ = match figures.values.iter().rev().find(is_it) {
                Some((.., value, source)) => writeln!(out, "{key} = {value} # {source}"),
                None => {
                    let value = rest.split(" # ").next().unwrap_or_default();
                    writeln!(out, "{key} = {value} # not measured")
                }
            };
        }
    }
    // The base has none.
    for (.., key, value, source) in figures.values.iter().filter(|value| value.0 == "stolen") {
        let head = if *key == "share" { "\n[stolen]\n" } else { "" };
        let _ = writeln!(out, "{head}{key} = {value} # {source}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_figures_is_the_base_and_says_that_nothing_is_measured() {
        let text = text(&Figures { title: "a \"title\"".to_owned(), ..Figures::default() });
        let machine = Machine::parse("mine", &text).unwrap();
        let base = Machine::builtin(BASE).unwrap();
        assert_eq!(machine.description().title, "a \"title\"");
        let (mine, base) = (machine.description(), base.description());
        assert_eq!(format!("{:?}", mine.lines), format!("{:?}", base.lines));
        assert_eq!(format!("{:?}", mine.scheduler), format!("{:?}", base.scheduler));
        assert!(text.contains("\nslice_ns = 1_400_000.0 # not measured\n"), "{text}");
        assert!(!text.contains("# measured"), "{text}");
    }

    #[test]
    fn a_measured_figure_is_in_its_section_with_its_interval() {
        let mut figures = Figures::default();
        figures.measured("scheduler", "spread", &[0.1, 0.2, 0.3]);
        figures.measured("calls", "wait_ns", &[]);
        figures.set("stolen", "share", "0.1".to_owned(), "measured");
        figures.set("stolen", "slice_ns", "5e6".to_owned(), "assumed");
        figures.note("a barrier", &[3.0], |ns| format!("{ns} ns"));
        let text = text(&figures);
        let machine = Machine::parse("mine", &text).unwrap();
        assert_eq!(machine.description().scheduler.spread, 0.2);
        assert_eq!(machine.description().lines.spread, 0.06);
        assert_eq!(machine.description().stolen.as_ref().map(|it| it.share), Some(0.1));
        assert!(text.contains("\nspread = 0.2 # measured: 0.10 to 0.30, 3 samples\n"), "{text}");
        assert!(text.contains("\n# a barrier: 3 ns (3 ns to 3 ns), 1 sample.\n"), "{text}");
    }
}
