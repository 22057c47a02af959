//! `fairlock report`: results as a page, as one picture, or as tables.

mod columns;
mod group;
mod page;
mod pictures;
mod program;
mod svg;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::error::{Error, unknown};
use crate::json::Target;
use crate::output::{Page, between_words, print, visible_lines};
use crate::preload;
use crate::results::Results;
use crate::written::Written;
use columns::{Table, is_asked_for};
use group::{Group, shared};
use program::Program;

/// What to report on, and as what.
#[derive(Args)]
pub struct ReportFlags {
    /// Results: files of `bench --json`, `sim --json`, `run --json`; or records that FAIRLOCK_PROFILE
    /// made, or a folder with such records
    #[arg(value_name = "RESULT.json", required = true)]
    pub results: Vec<PathBuf>,
    /// Where to write it; `-` is stdout. Default: report.html for a page, stdout for the rest
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// A page; the first picture of speed against waits, or of a program's waits (svg, png); tables for a pull request;
    /// all figures; what `run` prints (text, of records). Default: what the name of the output ends with, or html
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Only these locks
    #[arg(long, value_name = "LOCK", value_delimiter = ',')]
    pub locks: Vec<String>,
    /// Only these columns of figures (md, of results)
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    pub columns: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[value(alias = "htm")]
    Html,
    Svg,
    Png,
    Md,
    Csv,
    #[value(alias = "txt")]
    Text,
}

impl Format {
    fn of(flags: &ReportFlags) -> Result<Self, Error> {
        let ending = flags.output.as_deref().and_then(Path::extension);
        let (None, Some(ending)) = (flags.format, ending) else {
            return Ok(flags.format.unwrap_or(Self::Html));
        };
        let ending = ending.to_string_lossy();
        // A page by a name that is not one's would be found out when it is too late.
        Self::from_str(&ending, true).map_err(|_| {
            let all = Self::value_variants().iter().filter_map(Self::to_possible_value);
            let all = all.map(|format| format.get_name().to_owned()).collect::<Vec<_>>().join(", ");
            Error::usage(format!(
                "-o: there is no format '{ending}': there are {all}; name one with --format"
            ))
        })
    }
}

/// Writes the report that the flags ask for.
pub fn report(flags: &ReportFlags) -> Result<ExitCode, Error> {
    let format = Format::of(flags)?;
    columns::check(&flags.columns)?;
    if !flags.columns.is_empty() && format != Format::Md {
        return Err(Error::usage("--columns is for tables of Markdown: add --format md"));
    }
    if format == Format::Text {
        return text(flags);
    }
    let only: Vec<&str> = flags.locks.iter().map(String::as_str).collect();
    let (mut sources, programs) = load(&flags.results, &only)?;
    if programs.is_empty() {
        check_locks(&sources, &only)?;
    }
    for source in &mut sources {
        source.rows.retain(|row| is_asked_for(&row.lock, &only));
    }
    if sources.iter().all(|source| source.rows.is_empty()) && programs.iter().all(is_empty) {
        return Err(Error::usage(match only.as_slice() {
            [] => "there are no rows in it: nothing was measured; make it again",
            _ => "there are no rows of these locks: leave out --locks",
        }));
    }
    let target = match (&flags.output, format) {
        (Some(output), _) => Target::new("-o", output)?,
        (None, Format::Html) => Target::new("-o", Path::new("report.html"))?,
        (None, _) => Target::new("-o", Path::new("-"))?,
    };
    target.check_spares(flags.results.iter().map(PathBuf::as_path))?;
    let groups = Group::all(&sources);
    let text = match format {
        Format::Html => page::page(&sources, &groups, &programs).into_bytes(),
        Format::Svg => picture(&groups, &programs)?.into_bytes(),
        Format::Png => png(&picture(&groups, &programs)?)?,
        Format::Md => visible_lines(&markdown(&groups, &programs, &flags.columns)).into_bytes(),
        Format::Csv => csv(&sources, &programs)?.into_bytes(),
        Format::Text => unreachable!("it was written above"),
    };
    target.write_bytes(&text)?;
    if flags.output.is_none() && format == Format::Html {
        print(b"report.html\n")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What `run` would have printed of these records.
fn text(flags: &ReportFlags) -> Result<ExitCode, Error> {
    if !flags.locks.is_empty() {
        return Err(Error::usage("--locks is for other formats: leave out --format text"));
    }
    let width = if flags.output.is_none() { Page::Stdout.width() } else { None };
    let texts = flags.results.iter().map(|path| preload::text_of_record(path, width));
    let text = texts.collect::<Result<Vec<_>, _>>()?.join("\n");
    match &flags.output {
        Some(output) => Target::new("-o", output)?.write_bytes(visible_lines(&text).as_bytes())?,
        None => Page::Stdout.show(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn load(files: &[PathBuf], only: &[&str]) -> Result<(Vec<Results>, Vec<Program>), Error> {
    const BY: &str =
        "`fairlock bench … --json FILE`, `sim … --json FILE` or `run --json FILE -- PROGRAM`";
    let (mut sources, mut programs) = (Vec::new(), Vec::new());
    for file in files {
        let written = Written::read(file, BY)?;
        match Program::parse(file, &written, only)? {
            Some(program) => programs.push(program),
            None => sources.push(Results::of(file, &written)?),
        }
    }
    Ok((sources, programs))
}

/// An error for a lock that none of these results has.
fn check_locks(sources: &[Results], only: &[&str]) -> Result<(), Error> {
    let locks = sources.iter().flat_map(|source| &source.rows).map(|row| row.lock.as_str());
    let known: Vec<&str> = locks.collect::<BTreeSet<_>>().into_iter().collect();
    let is_unknown = |name: &&&str| !known.iter().any(|lock| is_asked_for(lock, &[name]));
    match only.iter().find(is_unknown) {
        Some(name) if !known.is_empty() => Err(unknown("lock", name, &known)),
        _ => Ok(()),
    }
}

fn is_empty(program: &Program) -> bool {
    program.tables.is_empty()
}

/// The first picture of speed against waits, or else the first of a program, with a line that says
/// where its figures come from.
fn picture(groups: &[Group<'_>], programs: &[Program]) -> Result<String, Error> {
    // The command is shown without `--locks`: the picture names them.
    let command = |group: &Group<'_>| {
        let command = group.source.command.split(" --locks").next().unwrap_or_default();
        format!("{command} · {}", group.source.origin())
    };
    let mut scatters =
        groups.iter().filter_map(|group| Some((command(group), pictures::scatter(group, 760.0)?)));
    let of_program = |program: &Program| {
        let picture = program.pictures.first()?.clone();
        Some((format!("{} · {}", program.command, program.origin), picture))
    };
    let found = scatters.next().or_else(|| programs.iter().find_map(of_program));
    let (from, mut picture) = found.ok_or_else(|| {
        Error::failed(
            "nothing to draw: no workload here has speed and waits of two locks or more, and no \
             program waited for a lock",
        )
    })?;
    let svg = &mut picture.svg;
    // A letter is about 6 pixels wide.
    for line in textwrap::wrap(&from, between_words((svg.width / 6.0) as usize)) {
        svg.height += 16.0;
        let (middle, bottom, line) = (svg.width / 2.0, svg.height, svg::escaped(&line));
        svg.raw(format_args!(
            "<text x=\"{middle:.0}\" y=\"{bottom:.0}\" text-anchor=\"middle\" style=\"font-size:11px\">{line}</text>"
        ));
    }
    svg.height += 6.0;
    Ok(picture.svg.file(&picture.name))
}

#[cfg(feature = "png")]
fn png(svg: &str) -> Result<Vec<u8>, Error> {
    use resvg::{tiny_skia, usvg};
    /// Pictures are for paper, and for screens with small pixels, too.
    const SCALE: f32 = 2.0;
    let failed = |why: String| Error::failed(format!("cannot draw the picture: {why}"));
    let mut options = usvg::Options { font_family: "sans-serif".to_owned(), ..Default::default() };
    let fonts = options.fontdb_mut();
    fonts.load_system_fonts();
    // If there is no family of this name, text would be left out without a message.
    const SANS_SERIF: [&str; 5] =
        ["Arial", "Helvetica", "Liberation Sans", "DejaVu Sans", "Noto Sans"];
    let families = || fonts.faces().flat_map(|face| &face.families).map(|(name, _)| name.as_str());
    let is_there = |name: &&str| families().any(|there| there == *name);
    let family = SANS_SERIF.into_iter().find(is_there).or_else(|| families().next());
    let family = family
        .map(str::to_owned)
        .ok_or_else(|| failed("there are no fonts; install one, or use --format svg".to_owned()))?;
    fonts.set_sans_serif_family(family);
    let tree = usvg::Tree::from_str(svg, &options).map_err(|error| failed(error.to_string()))?;
    let size = tree.size().to_int_size().scale_by(SCALE);
    let size = size.ok_or_else(|| failed("it has no size".to_owned()))?;
    let mut pixels = tiny_skia::Pixmap::new(size.width(), size.height())
        .ok_or_else(|| failed("it is too large".to_owned()))?;
    let scale = tiny_skia::Transform::from_scale(SCALE, SCALE);
    resvg::render(&tree, scale, &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| failed(error.to_string()))
}

#[cfg(not(feature = "png"))]
fn png(_svg: &str) -> Result<Vec<u8>, Error> {
    Err(Error::usage("PNG is not in this build: build with --features png, or use --format svg"))
}

fn markdown(groups: &[Group<'_>], programs: &[Program], columns: &[String]) -> String {
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut text = String::new();
    for group in groups {
        let (shared, source) = (shared(group), group.source);
        let parts = [format!("**{}**", group.title()), shared, format!("`{}`", source.command)];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        text += &format!("{}, {}.\n\n", parts.join(", "), source.origin());
        text += &Table::of(group).markdown(&columns);
        text.push('\n');
    }
    for program in programs {
        text += &format!("**{}**, `{}`, {}.\n", program.title, program.command, program.origin);
        for (name, table) in &program.tables {
            text += &format!("\n{name}:\n\n{}", table.markdown(&[]));
        }
        text.push('\n');
    }
    text
}

/// All keys of all rows, as they are in the files, as CSV.
fn csv(sources: &[Results], programs: &[Program]) -> Result<String, Error> {
    let failed = |error| Error::failed(format!("cannot write the rows: {error}"));
    let mut rows: Vec<Value> = Vec::new();
    // What file a row is from, which is said behind what is in it.
    let mut add = |mut row: Value, file: &Path, made: Option<&str>, version: Option<&str>| {
        for (key, value) in LAST.into_iter().zip([file.to_str(), made, version]) {
            row[key] = value.into();
        }
        rows.push(row);
    };
    for Results { rows, file, made, version, .. } in sources {
        for row in rows {
            let row = serde_json::to_value(row).map_err(failed)?;
            add(row, file, made.as_deref(), version.as_deref());
        }
    }
    for Program { locks, file, made, version, .. } in programs {
        locks.iter().for_each(|lock| add(lock.clone(), file, made.as_deref(), version.as_deref()));
    }
    let flat = rows.iter().filter_map(Value::as_object).flatten();
    let keys: BTreeSet<&str> =
        flat.filter(|(_, value)| is_flat(value)).map(|(key, _)| key.as_str()).collect();
    // The keys that say what was run come first.
    const FIRST: [&str; 9] =
        ["workload", "case", "lock", "threads", "side", "program", "pid", "name", "kind"];
    const LAST: [&str; 3] = ["file", "made", "version"];
    let first = FIRST.into_iter().filter(|key| keys.contains(*key));
    let rest = keys.iter().copied().filter(|key| !FIRST.contains(key) && !LAST.contains(key));
    let keys: Vec<&str> = first.chain(rest).chain(LAST).collect();
    let mut text = format!("{}\n", keys.join(","));
    for row in &rows {
        let cells: Vec<String> = keys.iter().map(|key| quoted(&plain(&row[key]))).collect();
        text += &format!("{}\n", cells.join(","));
    }
    Ok(text)
}

fn is_flat(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::cell::{CellReport, SideReport, Times};
    use crate::json::Document;
    use crate::machine::Machine;
    use crate::results::{Rows, SCHEMA};
    use crate::runner::Measured;
    use crate::workload::random::Random;
    use crate::{plan, row};

    /// A report with random figures, as a run of the cell may have given.
    fn report(cell: &crate::cell::Cell, random: &mut Random) -> CellReport {
        let mut number = || random.below(900_000_000) + 1_000;
        let mut side = |threads: usize| {
            let mut times = [number(), number(), number(), number()];
            times.sort_unstable();
            let [p50, p99, p999, max] = times;
            let wait = Some(Times { p50, p99, p999, max });
            let ops = (0..threads).map(|_| number()).collect();
            (threads > 0).then(|| SideReport { ops, wait, ..SideReport::default() })
        };
        let (read, write) = (side(cell.readers), side(cell.writers));
        CellReport { elapsed_secs: 0.5, read, write, ..CellReport::default() }
    }

    /// All locks of this build in all workloads, as many runs as by default.
    #[test]
    fn the_full_bench_is_a_page_of_less_than_a_megabyte() {
        let cli = Cli::try_parse_from(["fairlock", "bench", "all"]).unwrap();
        let Some(Command::Bench { workloads, flags }) = cli.command else { unreachable!() };
        let plan = plan::bench(&workloads, &flags).unwrap();
        let mut random = Random::new(1, 0);
        let measured = plan.tables.into_iter().flatten().map(|cell| {
            let reports = (0..plan.runs).map(|_| report(&cell, &mut random)).collect();
            Measured { cell, reports, failure: None }
        });
        let measured: Vec<Measured> = measured.collect();
        let rows = row::rows(&measured);
        let (machine, command) = (Machine::this(), "fairlock bench all".to_owned());
        let document = Document::new(SCHEMA, &machine, command, false, Rows { rows: &rows });
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("all.json");
        std::fs::write(&file, serde_json::to_vec(&document).unwrap()).unwrap();

        let (sources, programs) = load(&[file], &[]).unwrap();
        assert!(sources[0].rows.len() > 2_000, "{} rows", sources[0].rows.len());
        let groups = Group::all(&sources);
        let page = page::page(&sources, &groups, &programs);
        assert!(page.len() < 1_000_000, "{} bytes", page.len());
        assert!(page.contains("needs JavaScript"));
    }
}
