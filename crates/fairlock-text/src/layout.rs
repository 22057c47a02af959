//! Tables for people, and what a table loses where it has no room. Until the table fits,
//! these go, in this order: `fairlock:` before the names of our locks; columns that say what was
//! run, not what came of it, which move to a line above the rows they are the same for; names of any
//! length, which get lines of their own if leaving out columns would not be enough; other columns,
//! the lowest rank first. What is lost is said below the table. Columns that have no room even then are
//! in further tables below the first, beside the same names.

use std::fmt::Write;

use textwrap::WordSplitter;
use textwrap::core::display_width;

use crate::output::visible;

/// The space between two columns.
const GAP: usize = 2;
/// The least room for what is said of a name in a list.
const LEAST: usize = 12;
/// How far a row is indented under a name on a line of its own.
const FURTHER: usize = 2;
/// The text of a cell that has nothing to say.
pub const NOTHING: &str = "-";
/// A value as text, if there is one.
pub fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), show)
}

/// The family of our locks.
const FAMILY: &str = "fairlock:";

/// A column: its head, on which side its cells begin, and what it may lose.
#[cfg_attr(test, derive(Clone))]
pub struct Column {
    head: String,
    is_name: bool,
    loses: Loses,
}

/// A column, and what it shows of a row.
pub type Showing<'c, R> = (Column, &'c dyn Fn(&R) -> String);

#[derive(Clone, Copy, PartialEq)]
enum Loses {
    Nothing,
    /// `fairlock:` before the names of locks.
    Family,
    /// Its place in the rows: the column moves to a line above them.
    Place,
    /// Its place in the rows: each of its cells goes to a line of its own.
    Line,
    /// The whole column; lower numbers go first.
    All(u8),
}

impl Column {
    /// A column of words, on the left.
    pub fn name(head: impl Into<String>) -> Self {
        Self { head: head.into(), is_name: true, loses: Loses::Nothing }
    }

    /// A column of numbers, on the right.
    pub fn figure(head: impl Into<String>) -> Self {
        Self { is_name: false, ..Self::name(head) }
    }

    /// A column of names of locks.
    pub fn lock() -> Self {
        Self { loses: Loses::Family, ..Self::name("lock") }
    }

    /// A column that says what was run, which can be said once for all rows where it is the same.
    pub fn shared(self) -> Self {
        Self { loses: Loses::Place, ..self }
    }

    /// Names of any length.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))] // used by `run`
    pub fn place(head: impl Into<String>) -> Self {
        Self { loses: Loses::Line, ..Self::name(head) }
    }

    /// A column that is left out where it has no room, the lowest rank first.
    pub fn rank(self, rank: u8) -> Self {
        Self { loses: Loses::All(rank), ..self }
    }
}

/// A table.
#[cfg_attr(test, derive(Clone))]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// What is said above each row, unless it was said above the row before.
    above: Vec<String>,
    /// Columns whose cells have lines of their own before the row.
    before: Vec<Out>,
    /// And after it.
    after: Vec<Out>,
}

/// A column that has moved out of the rows.
#[cfg_attr(test, derive(Clone))]
struct Out {
    head: String,
    cells: Vec<String>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        let columns = columns.into_iter().collect();
        let (before, after) = (Vec::new(), Vec::new());
        Self { columns, rows: Vec::new(), above: Vec::new(), before, after }
    }

    /// The table of these rows: each column with what it shows of a row.
    pub fn of<'a, 'c, R: 'a + 'c, const N: usize>(
        rows: impl IntoIterator<Item = &'a R>,
        columns: [Showing<'c, R>; N],
    ) -> Self {
        Self::with(rows, columns)
    }

    /// The same, of any number of columns.
    pub fn with<'a, 'c, R: 'a + 'c>(
        rows: impl IntoIterator<Item = &'a R>,
        columns: impl IntoIterator<Item = Showing<'c, R>>,
    ) -> Self {
        let (columns, cells): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let mut table = Self::new(columns);
        for row in rows {
            table.row(cells.iter().map(|cell| cell(row)));
        }
        table
    }

    /// Adds a row: a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> =
            cells.into_iter().map(|cell| visible(&cell).into_owned()).collect();
        assert_eq!(cells.len(), self.columns.len(), "{cells:?}");
        self.rows.push(cells);
        self.above.push(String::new());
    }

    /// Takes out the first column with this head.
    pub fn leave_out(&mut self, head: &str) {
        if let Some(at) = self.columns.iter().position(|column| column.head == head) {
            self.remove(at);
        }
    }

    /// Whether the whole table has room.
    pub fn fits(&self, width: Option<usize>) -> bool {
        width.is_none_or(|width| self.width() <= width)
    }

    /// The table under a title, as wide as it may be, with a note below it.
    pub fn titled(mut self, title: &str, note: &str, width: Option<usize>) -> String {
        let losses = self.fit(width);
        let mut text = format!("{title}\n\n{}\n{note}\n", self.text(width));
        if !losses.is_empty() {
            text.push_str(&format!("the terminal is too narrow for all: {}\n", losses.join("; ")));
        }
        text
    }

    fn width(&self) -> usize {
        self.width_with(|_| true)
    }

    /// The width with only some of the columns.
    fn width_with(&self, is_kept: impl Fn(&Column) -> bool) -> usize {
        let kept = (0..self.columns.len()).filter(|&at| is_kept(&self.columns[at]));
        let widths = kept.map(|at| self.width_of(at) + GAP).sum::<usize>();
        widths.saturating_sub(GAP) + self.indent()
    }

    fn indent(&self) -> usize {
        if self.before.is_empty() { 0 } else { FURTHER }
    }

    fn width_of(&self, at: usize) -> usize {
        let cells = self.rows.iter().map(|row| &row[at]).chain([&self.columns[at].head]);
        cells.map(|cell| display_width(cell)).max().unwrap_or(0)
    }

    /// Loses what it must until it fits. Returns sentences that say what was lost.
    fn fit(&mut self, width: Option<usize>) -> Vec<String> {
        let (mut losses, mut left_out) = (Vec::new(), Vec::new());
        while !self.fits(width) {
            if self.drop_family() {
                losses.push(format!("locks without a family are {FAMILY}"));
            } else if let Some(at) = self.next_shared() {
                self.move_above(at);
            } else if let Some(at) = self.next_line(width) {
                self.move_out(at);
            } else if let Some(rank) = self.lowest_rank() {
                while let Some(at) = self.columns.iter().position(|c| c.loses == rank) {
                    left_out.push(self.columns[at].head.clone());
                    self.remove(at);
                }
            } else {
                break;
            }
        }
        if !left_out.is_empty() {
            losses.push(format!("left out are {}", left_out.join(", ")));
        }
        losses
    }

    /// The next column to move above: one that is the same in all rows, or else the first.
    fn next_shared(&self) -> Option<usize> {
        let is_shared = |&at: &usize| self.columns[at].loses == Loses::Place;
        let is_same = |&at: &usize| self.rows.iter().all(|row| row[at] == self.rows[0][at]);
        let shared = || (0..self.columns.len()).filter(is_shared);
        shared().find(is_same).or(shared().next())
    }

    fn move_above(&mut self, at: usize) {
        for (above, row) in self.above.iter_mut().zip(&self.rows) {
            let (head, cell) = (&self.columns[at].head, &row[at]);
            if cell != NOTHING {
                let comma = if above.is_empty() { "" } else { ", " };
                // Writing to a string does not fail.
                let _ = write!(above, "{comma}{head} {cell}");
            }
        }
        self.remove(at);
    }

    /// Takes the family from our locks' names, unless another lock would then have the same name.
    /// Says whether it took any.
    fn drop_family(&mut self) -> bool {
        let Some(at) = self.columns.iter().position(|c| c.loses == Loses::Family) else {
            return false;
        };
        let member = |row: &Vec<String>| row[at].strip_prefix(FAMILY).map(str::to_owned);
        let is_taken = |name: &String| self.rows.iter().any(|row| row[at] == *name);
        let mut members = self.rows.iter().filter_map(member).peekable();
        if members.peek().is_none() || members.any(|name| is_taken(&name)) {
            return false;
        }
        for row in &mut self.rows {
            if let Some(name) = member(row) {
                row[at] = name;
            }
        }
        true
    }

    fn lowest_rank(&self) -> Option<Loses> {
        let ranks = self.columns.iter().filter_map(|column| match column.loses {
            Loses::All(rank) => Some(rank),
            _ => None,
        });
        ranks.min().map(Loses::All)
    }

    /// The last column of names, if it has no room however many columns are left out.
    fn next_line(&self, width: Option<usize>) -> Option<usize> {
        let needed = self.width_with(|column| !matches!(column.loses, Loses::All(_)));
        let is_too_much = width.is_some_and(|width| needed > width);
        let last = || self.columns.iter().rposition(|column| column.loses == Loses::Line);
        is_too_much.then(last).flatten()
    }

    /// Gives the names of a column lines of their own: before the row if it is the first such column,
    /// as it says what the row is about.
    fn move_out(&mut self, at: usize) {
        let is_first = self.columns[..at].iter().all(|column| column.loses != Loses::Line);
        let head = self.columns[at].head.clone();
        let cells = self.rows.iter().map(|row| row[at].clone()).collect();
        if is_first { &mut self.before } else { &mut self.after }.push(Out { head, cells });
        self.remove(at);
    }

    fn remove(&mut self, at: usize) {
        self.columns.remove(at);
        for row in &mut self.rows {
            row.remove(at);
        }
    }

    fn text(&self, width: Option<usize>) -> String {
        let widths: Vec<usize> = (0..self.columns.len()).map(|at| self.width_of(at)).collect();
        let bands = self.bands(&widths, width);
        let bands = bands.iter().enumerate();
        let bands = bands.map(|(number, band)| self.band(band, &widths, number == 0));
        bands.collect::<Vec<_>>().join("\n")
    }

    /// The columns that have room beside each other, each time after the names that come first.
    fn bands(&self, widths: &[usize], width: Option<usize>) -> Vec<Vec<usize>> {
        let names = self.columns.iter().take_while(|column| column.is_name).count();
        let mut bands: Vec<Vec<usize>> = vec![(0..names).collect()];
        for at in names..self.columns.len() {
            let band = &bands[bands.len() - 1];
            let needed = band.iter().chain([&at]).map(|&at| widths[at] + GAP).sum::<usize>();
            let needed = self.indent() + needed - GAP;
            if band.len() > names && width.is_some_and(|width| needed > width) {
                bands.push((0..names).collect());
            }
            bands.last_mut().into_iter().for_each(|band| band.push(at));
        }
        bands
    }

    fn band(&self, band: &[usize], widths: &[usize], is_first: bool) -> String {
        let mut text = String::new();
        for out in &self.before {
            text.push_str(&format!("{}\n", out.head));
        }
        text.push_str(&self.line(band, widths, |at| &self.columns[at].head));
        let mut said = "";
        for (at, (row, above)) in self.rows.iter().zip(&self.above).enumerate() {
            if above != said {
                text.push_str(&format!("{above}:\n"));
                said = above;
            }
            for out in &self.before {
                text.push_str(&format!("{}\n", out.cells[at]));
            }
            text.push_str(&self.line(band, widths, |column| &row[column]));
            for out in self.after.iter().filter(|out| is_first && out.cells[at] != NOTHING) {
                text.push_str(&format!("{:FURTHER$}{} {}\n", "", out.head, out.cells[at]));
            }
        }
        text
    }

    fn line<'a>(
        &self,
        band: &[usize],
        widths: &[usize],
        cell: impl Fn(usize) -> &'a String,
    ) -> String {
        let mut line = " ".repeat(self.indent());
        for &at in band {
            let cell = cell(at);
            let space = " ".repeat(widths[at] - display_width(cell));
            let is_name = self.columns[at].is_name;
            let (left, right) = if is_name { ("", &*space) } else { (&*space, "") };
            line.push_str(&format!("{left}{cell}{right}{}", " ".repeat(GAP)));
        }
        format!("{}\n", line.trim_end())
    }
}

/// Fails if a line of a table is wider. Other lines are sentences, and are wrapped when they are shown.
pub fn assert_fits(text: &str, width: usize) {
    for line in text.lines().filter(|line| line.trim_start().contains("  ")) {
        assert!(display_width(line) <= width, "{}: {line}\n{text}", display_width(line));
    }
}

/// A list of names and what they are. A description that is too long goes on in its own column.
pub fn list(
    lines: impl IntoIterator<Item = (String, impl AsRef<str>)>,
    width: Option<usize>,
) -> String {
    let lines: Vec<_> = lines.into_iter().collect();
    let names = lines.iter().map(|(name, _)| display_width(name)).max().unwrap_or(0) + GAP;
    let room = width.unwrap_or(usize::MAX).max(names + LEAST);
    let indent = " ".repeat(names);
    let mut text = String::new();
    for (name, about) in &lines {
        let first = format!("{name}{}", " ".repeat(names - display_width(name)));
        let options = textwrap::Options::new(room)
            .initial_indent(&first)
            .subsequent_indent(&indent)
            .word_splitter(WordSplitter::NoHyphenation);
        text.push_str(&textwrap::fill(about.as_ref(), options));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[[&str; 5]]) -> Table {
        let mut table = Table::new([
            Column::lock(),
            Column::figure("threads").shared(),
            Column::figure("kop/s"),
            Column::figure("p99").rank(2),
            Column::figure("min-max").rank(1),
        ]);
        rows.iter().for_each(|row| table.row(row.map(str::to_owned)));
        table
    }

    const ROWS: [[&str; 5]; 2] =
        [["fairlock:handoff", "60", "914", "8 ms", "900-920"], ["std", "60", "611", "90 ms", "-"]];

    fn at(width: usize) -> String {
        table(&ROWS).titled("title", "note", Some(width))
    }

    #[test]
    fn all_of_it_is_shown_where_there_is_room() {
        let whole = table(&ROWS).titled("title", "note", None);
        assert_eq!(whole, at(48));
        assert_eq!(
            whole,
            "title\n\n\
             lock              threads  kop/s    p99  min-max\n\
             fairlock:handoff       60    914   8 ms  900-920\n\
             std                    60    611  90 ms        -\n\
             \nnote\n"
        );
    }

    #[test]
    fn families_go_first_then_what_rows_share_then_ranks() {
        let narrow = at(47);
        assert!(narrow.contains("handoff       60    914   8 ms  900-920\n"), "{narrow}");
        assert!(narrow.ends_with("for all: locks without a family are fairlock:\n"));
        let narrow = at(38);
        let shared =
            "lock     kop/s    p99  min-max\nthreads 60:\nhandoff    914   8 ms  900-920\nstd";
        assert!(narrow.contains(shared), "{narrow}");
        assert!(at(29).contains("lock     kop/s    p99\n"), "{}", at(29));
        let narrow = at(20);
        assert!(narrow.contains("lock     kop/s\nthreads 60:\nhandoff    914\n"), "{narrow}");
        assert!(narrow.ends_with("; left out are min-max, p99\n"), "{narrow}");
    }

    #[test]
    fn what_rows_share_is_said_again_where_it_changes() {
        let row = |threads: &str, load: &str, lock: &str| {
            [threads.to_owned(), load.to_owned(), lock.to_owned()]
        };
        let columns = || {
            [Column::figure("threads").shared(), Column::figure("pauses").shared(), Column::lock()]
        };
        let mut table = Table::new(columns());
        for (threads, load) in [("2", "1"), ("2", "20"), ("4", "-")] {
            table.row(row(threads, load, "std"));
            table.row(row(threads, load, "mcs"));
        }
        assert_eq!(
            table.titled("title", "note", Some(5)),
            "title\n\nlock\nthreads 2, pauses 1:\nstd\nmcs\nthreads 2, pauses 20:\nstd\nmcs\n\
             threads 4:\nstd\nmcs\n\nnote\n"
        );
        let mut table = Table::new(columns());
        table.row(row("2", "1", "std"));
        table.row(row("4", "1", "std"));
        let first_what_is_the_same_everywhere = table.titled("title", "note", Some(13));
        assert!(
            first_what_is_the_same_everywhere.contains("threads  lock\npauses 1:\n      2  std\n"),
            "{first_what_is_the_same_everywhere}"
        );
    }

    #[test]
    fn a_name_keeps_its_family_where_another_lock_has_it() {
        let rows = [["fairlock:std", "60", "914", "-", "-"], ["std", "1", "61", "-", "-"]];
        let narrow = table(&rows).titled("title", "note", Some(20));
        assert!(narrow.contains("threads 60:\nfairlock:std    914\n"), "{narrow}");
    }

    #[test]
    fn names_of_any_length_are_whole_on_lines_of_their_own() {
        let mut table = Table::new([
            Column::place("lock"),
            Column::figure("waits"),
            Column::figure("p99").rank(1),
            Column::place("at"),
        ]);
        table.row([
            "server::cache".into(),
            "3".into(),
            "1 ms".into(),
            "server::fill (a.c:7)".into(),
        ]);
        table.row(["pool".into(), "1".into(), "2 ms".into(), NOTHING.into()]);
        let at = |width| table.clone().titled("title", "note", Some(width));
        assert!(at(48).contains("pool               1  2 ms  -\n"), "{}", at(48));
        // Columns are left out where that is enough.
        assert!(at(44).contains("pool               1  -\n"), "{}", at(44));
        let below =
            "server::cache      3  1 ms\n  at server::fill (a.c:7)\npool               1  2 ms\n\n";
        assert!(at(34).contains(below), "{}", at(34));
        let own =
            "lock\n  waits   p99\nserver::cache\n      3  1 ms\n  at server::fill (a.c:7)\npool\n";
        assert!(at(19).contains(own), "{}", at(19));
        (7..60).for_each(|width| assert_fits(&at(width), width));
    }

    #[test]
    fn columns_that_have_no_room_are_below_beside_the_same_names() {
        let mut table = Table::new([
            Column::name("lock"),
            Column::figure("threads").shared(),
            Column::figure("waits"),
            Column::figure("running"),
            Column::figure("asleep"),
        ]);
        table.row(["std", "2", "7", "9.5 %", "90.5 %"].map(str::to_owned));
        table.row(["mcs", "2", "1", "100.0 %", "0.0 %"].map(str::to_owned));
        assert_eq!(
            table.clone().titled("title", "note", Some(22)),
            "title\n\n\
             lock  waits  running\nthreads 2:\nstd       7    9.5 %\nmcs       1  100.0 %\n\n\
             lock  asleep\nthreads 2:\nstd   90.5 %\nmcs    0.0 %\n\
             \nnote\n"
        );
        for width in 13..60 {
            let text = table.clone().titled("title", "note", Some(width));
            assert_fits(&text, width);
            assert!(["7", "9.5 %", "90.5 %"].iter().all(|cell| text.contains(cell)), "{text}");
        }
    }

    #[test]
    fn a_list_goes_on_in_its_second_column() {
        let lines = || [("a".to_owned(), "one two three four"), ("bcd".to_owned(), "x")];
        assert_eq!(list(lines(), None), "a    one two three four\nbcd  x\n");
        assert_eq!(list(lines(), Some(18)), "a    one two three\n     four\nbcd  x\n");
    }
}
