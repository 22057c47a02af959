//! Draws the pictures of a group of rows.

use std::collections::BTreeMap;

use super::group::{DIMENSIONS, Dimension, Group, Measured, describe, standing};
use super::svg::{
    Axis, COLORS, Scale, Svg, WIDTH, apart, as_time, escaped, frame, grid, path, ruler,
};
use crate::row::Row;
use crate::units::{digits, several, time};

/// A picture, and what it shows.
#[derive(Clone)]
pub struct Picture {
    pub name: String,
    pub note: String,
    pub svg: Svg,
}

impl Picture {
    fn of(group: &Group<'_>, what: &str, note: String, svg: Svg) -> Self {
        Self { name: format!("{what}, {}", group.title()), note, svg }
    }
}

/// How many locks have lines of their own: more could not be told apart.
const LINES: usize = 10;

/// All pictures of a group.
pub fn all(group: &Group<'_>) -> Vec<Picture> {
    let mut all: Vec<Picture> = scatter(group, WIDTH).into_iter().collect();
    for dimension in against() {
        all.extend(lines(group, dimension));
    }
    all.extend(shares(group));
    all.extend(waits(group));
    all
}

/// A lock in the picture of speed against waits.
struct Point {
    lock: String,
    speed: f64,
    /// In nanoseconds.
    wait: f64,
    /// How many threads starved.
    starved: usize,
    /// The same in words, or that a short window does not tell.
    served: String,
}

/// Longest waits against speed, a point for each lock: the picture that says most.
pub fn scatter(group: &Group<'_>, width: f64) -> Option<Picture> {
    let points = points(group);
    if points.len() < 2 {
        return None;
    }
    let one = group.configurations == 1;
    let unit = if one {
        "thousand operations a second (higher is better)"
    } else {
        "speed, the fastest being 1 (higher is better)"
    };
    let mut svg = Svg::new(width, 420.0_f64.max(80.0 + 17.0 * points.len() as f64));
    let x = Scale {
        axis: Axis::log(points.iter().map(|point| point.wait)),
        title: "longest wait (further left is better)",
        show: &as_time,
    };
    let speeds = points.iter().map(|point| point.speed);
    let y = Scale { axis: Axis::from_zero(speeds), title: unit, show: &digits };
    let (xs, ys) = frame(&mut svg, &x, &y, 24.0);

    let best = front(&points).into_iter().map(|at| &points[at]);
    let best = path(best.map(|point| (xs.at(point.wait), ys.at(point.speed))));
    // Every lock may starve somebody.
    if !best.is_empty() {
        svg.line(8, " stroke-dasharray=\"4 4\"", &best);
    }
    // Labels to the left of one point could lie on those to the right of another.
    let wanted: Vec<f64> = points.iter().map(|point| ys.at(point.speed)).collect();
    let places = apart(&wanted, 16.0, svg.height - 52.0);
    for (point, place) in points.iter().zip(places) {
        let at = (xs.at(point.wait), ys.at(point.speed));
        point.draw(&mut svg, at, place, group.color(&point.lock), one);
    }
    let of_many = if one {
        String::new()
    } else {
        let n = group.configurations;
        format!(
            " Over {n} configurations: the geometric mean of the speed in relation to the fastest \
             lock, and the longest wait of any."
        )
    };
    let note = format!(
        "Dashed: the front; no other lock is faster with shorter waits. Hollow, with ✕: threads \
         were starved. Large and blue: ours as it comes.{of_many}"
    );
    Some(Picture::of(group, "Speed against longest wait", note, svg))
}

impl Point {
    /// Draws the point, and its label at this height.
    fn draw(&self, svg: &mut Svg, (x, y): (f64, f64), place: f64, color: usize, one: bool) {
        let size = if color == 0 { 7 } else { 5 };
        let hollow = self.starved > 0;
        let title = escaped(&self.says(one));
        let (fill, class) = if hollow { ("#fff", " hollow") } else { (COLORS[color], "") };
        let stroke = COLORS[color];
        svg.raw(format_args!(
            "<circle class=\"k{color}{class}\" cx=\"{x:.0}\" cy=\"{y:.0}\" r=\"{size}\" fill=\"{fill}\" \
             stroke=\"{stroke}\" stroke-width=\"2\"><title>{title}</title></circle>"
        ));
        // A letter is about 7 pixels wide.
        let needs = 12.0 + 7.0 * self.label().chars().count() as f64;
        let is_left = x + needs > svg.width && x > svg.width / 2.0;
        let (dx, anchor) = if is_left { (-12.0, "end") } else { (12.0, "start") };
        if (place - y).abs() > 8.0 {
            grid(svg, [x + dx * 0.6, y, x + dx * 0.9, place]);
        }
        svg.text(x + dx, place + 4.0, anchor, &self.label());
    }

    fn label(&self) -> String {
        match self.starved {
            0 => self.lock.clone(),
            n => format!("{} ✕ {n} starved", self.lock),
        }
    }

    fn says(&self, one: bool) -> String {
        let unit = if one { "kop/s" } else { "of the fastest" };
        let Self { lock, served, .. } = self;
        let wait = time(self.wait as u64);
        format!("{lock}: {} {unit}, longest wait {wait}, {served}", digits(self.speed))
    }
}

/// The points of the locks that were measured in all configurations.
fn points(group: &Group<'_>) -> Vec<Point> {
    let fastest = group.fastest();
    let of_lock = |lock: &str| {
        let own: Vec<&Row> =
            group.all.iter().map(|measured| measured.row).filter(|row| row.lock == lock).collect();
        if own.len() < group.configurations {
            return None;
        }
        let of_lock = group.all.iter().filter(|measured| measured.row.lock == lock);
        let speed = match group.configurations {
            1 => own[0].speed()? / 1e3,
            _ => mean(of_lock.filter_map(|measured| relative(measured, &fastest)))?,
        };
        // Threads that starved are worse than any that a short window does not tell of.
        let worst = own.iter().max_by_key(|row| (row.starves(), row.figures.starved_threads))?;
        Some(Point {
            lock: lock.to_owned(),
            speed,
            wait: own.iter().filter_map(|row| row.figures.wait_max_ns).max()? as f64,
            starved: own.iter().filter_map(|row| row.starved()).max().unwrap_or(0),
            served: worst.served(&worst.figures.starved_threads.unwrap_or(0).to_string()),
        })
    };
    group.locks().into_iter().filter_map(of_lock).collect()
}

fn relative(measured: &Measured<'_>, fastest: &[f64]) -> Option<f64> {
    Some(measured.row.speed()? / fastest[measured.configuration]).filter(|x| x.is_finite())
}

/// The geometric mean.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    // A lock that did nothing somewhere is shown as one that did next to nothing.
    let logs: Vec<f64> = values.map(|value| value.max(1e-6).ln()).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// The points that no other is better than in both respects, those with the shortest waits first.
fn front(points: &[Point]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).filter(|&at| points[at].starved == 0).collect();
    order.sort_by(|&a, &b| {
        points[a].wait.total_cmp(&points[b].wait).then(points[b].speed.total_cmp(&points[a].speed))
    });
    let mut best = f64::MIN;
    order.retain(|&at| {
        let is_better = points[at].speed > best;
        best = best.max(points[at].speed);
        is_better
    });
    order
}

/// The dimensions that speed and waits are drawn against.
fn against() -> impl Iterator<Item = &'static Dimension> {
    const AGAINST: [&str; 4] = ["threads", "overcommit", "held", "outside"];
    DIMENSIONS.iter().filter(|dimension| AGAINST.contains(&dimension.name))
}

/// The locks of a group that have lines of their own: ours first, then peers, then others.
fn told_apart<'a>(group: &Group<'a>) -> Vec<&'a str> {
    let mut locks = group.locks();
    locks.sort_by_key(|lock| standing(lock));
    locks.truncate(LINES);
    locks
}

/// Speed, and p99.9 waits, against a dimension, as lines.
fn lines(group: &Group<'_>, dimension: &Dimension) -> Vec<Picture> {
    let values = dimension.values(group);
    // Threads and overcommit say the same, so one picture is enough.
    let is_said =
        dimension.name == "threads" && group.all.iter().any(|m| m.row.overcommit.is_some());
    if values.len() < 2 || is_said {
        return Vec::new();
    }
    let fastest = group.fastest();
    let one = group.configurations == values.len();
    let is_cost = group.all.iter().all(|measured| measured.row.figures.ns_per_op.is_some());
    let speed = |measured: &Measured<'_>| match (is_cost, one) {
        (true, _) => measured.row.figures.ns_per_op,
        (false, true) => measured.row.speed().map(|speed| speed / 1e3),
        (false, false) => relative(measured, &fastest),
    };
    let unit = match (is_cost, one) {
        (true, _) => "nanoseconds an operation",
        (false, true) => "thousand operations a second",
        (false, false) => "speed, the fastest being 1",
    };
    let note = match group.configurations / values.len() {
        0 | 1 => String::new(),
        n => format!("Geometric means over {n} configurations each."),
    };
    let wait = |m: &Measured<'_>| m.row.figures.wait_p999_ns.map(|ns| ns.max(1) as f64);
    let picture = |(what, y): (&str, Upright<'_>)| {
        let svg = line_plot(group, dimension, &values, &y)?;
        Some(Picture::of(group, &format!("{what} against {}", dimension.name), note.clone(), svg))
    };
    let speed = Upright { figure: &speed, unit, show: digits, is_log: false };
    let wait = Upright {
        figure: &wait,
        unit: "99.9 % of the waits are shorter",
        show: as_time,
        is_log: true,
    };
    [("Speed", speed), ("p99.9 waits", wait)].into_iter().filter_map(picture).collect()
}

/// What is drawn upwards.
struct Upright<'a> {
    figure: &'a dyn Fn(&Measured<'_>) -> Option<f64>,
    unit: &'a str,
    show: fn(f64) -> String,
    is_log: bool,
}

type Series<'a> = Vec<(&'a str, Vec<(f64, f64)>)>;

fn series<'a>(
    group: &Group<'a>,
    dimension: &Dimension,
    values: &[f64],
    figure: &dyn Fn(&Measured<'_>) -> Option<f64>,
) -> Series<'a> {
    let line = |lock: &'a str| {
        let at = |&x: &f64| {
            let here = group.all.iter().filter(|measured| {
                measured.row.lock == lock && (dimension.value)(measured.row) == Some(x)
            });
            Some((x, mean(here.filter_map(figure))?))
        };
        (lock, values.iter().filter_map(at).collect())
    };
    let lines = told_apart(group).into_iter().map(line);
    lines.filter(|(_, points): &(&str, Vec<(f64, f64)>)| !points.is_empty()).collect()
}

fn line_plot(
    group: &Group<'_>,
    dimension: &Dimension,
    values: &[f64],
    &Upright { figure, unit, show, is_log }: &Upright<'_>,
) -> Option<Svg> {
    let lines = series(group, dimension, values, figure);
    let ys = || lines.iter().flat_map(|(_, points)| points.iter().map(|(_, y)| *y));
    if ys().count() < 2 {
        return None;
    }
    let mut svg = Svg::new(WIDTH, 340.0);
    // Zero has no logarithm: it gets a place below the least value.
    let least = values.iter().copied().filter(|&value| value > 0.0).fold(f64::MAX, f64::min);
    let place = |value: f64| if value > 0.0 { value } else { least / 4.0 };
    let named = |value: f64| {
        let is_nought = values.contains(&0.0) && (value - least / 4.0).abs() < 1e-9;
        (dimension.show)(if is_nought { 0.0 } else { value })
    };
    let x = Scale {
        axis: Axis::log(values.iter().map(|&x| place(x))),
        title: dimension.name,
        show: &named,
    };
    let y = if is_log { Axis::log(ys()) } else { Axis::from_zero(ys()) };
    let y = Scale { axis: y, title: unit, show: &show };
    const ROOM: f64 = 190.0;
    let (xs, ys) = frame(&mut svg, &x, &y, ROOM);
    let ends: Vec<f64> =
        lines.iter().filter_map(|(_, line)| line.last()).map(|p| ys.at(p.1)).collect();
    let places = apart(&ends, 16.0, svg.height - 50.0);
    for (number, ((lock, points), label)) in lines.iter().zip(places).enumerate() {
        let color = group.color(lock);
        let at = |&(x, y): &(f64, f64)| (xs.at(place(x)), ys.at(y));
        // Ours is thick, and never dashed.
        let dash = ["", " stroke-dasharray=\"7 3\"", " stroke-dasharray=\"2 3\""][number % 3];
        let (width, dash) = if color == 0 { (3, "") } else { (2, dash) };
        let width = format!(" stroke-width=\"{width}\"{dash}");
        svg.line(color, &width, &path(points.iter().map(at)));
        for point in points {
            let ((x, y), value) = (at(point), (dimension.show)(point.0));
            let says = format!("{lock}, {} {value}: {}", dimension.name, show(point.1));
            let (says, fill) = (escaped(&says), COLORS[color]);
            svg.raw(format_args!(
                "<circle class=\"k{color}\" cx=\"{x:.0}\" cy=\"{y:.0}\" r=\"4\" fill=\"{fill}\"><title>{says}</title></circle>"
            ));
        }
        let end = svg.width - ROOM;
        if let Some(last) = points.last() {
            let to = [at(last), (end + 18.0, label)].into_iter();
            svg.line(color, " stroke-width=\".7\"", &path(to));
        }
        svg.text(end + 22.0, label + 4.0, "start", lock);
    }
    Some(svg)
}

/// How many operations each thread had, a bar for each, in the configuration with the most threads.
fn shares(group: &Group<'_>) -> Option<Picture> {
    const ROW: f64 = 46.0;
    const NAMES: f64 = 190.0;
    let configuration = group.fullest()?;
    let told = told_apart(group);
    let mut by_lock: BTreeMap<usize, (&Measured<'_>, Vec<u64>)> = BTreeMap::new();
    for measured in group.within(configuration) {
        let place = told.iter().position(|lock| *lock == measured.row.lock);
        let mut ops: Vec<u64> =
            measured.rows().flat_map(|row| row.ops_by_thread.iter().copied()).collect();
        ops.sort_unstable_by(|a, b| b.cmp(a));
        if let Some(place) = place.filter(|_| ops.len() > 1) {
            by_lock.insert(place, (measured, ops));
        }
    }
    let first = by_lock.values().next()?.0;
    let words = describe(group, first.row);
    let mut svg = Svg::new(WIDTH, ROW * by_lock.len() as f64 + 8.0);
    for (line, (measured, ops)) in by_lock.values().enumerate() {
        let lock = &measured.row.lock;
        let color = group.color(lock);
        let (least, most) = (ops[ops.len() - 1], ops[0]);
        let bottom = ROW * (line + 1) as f64;
        let bar = (svg.width - NAMES - 20.0) / ops.len() as f64;
        let mut path = format!("M{NAMES:.0} {bottom:.0}");
        for (thread, &n) in ops.iter().enumerate() {
            let height = (ROW - 10.0) * n as f64 / most.max(1) as f64;
            let right = NAMES + bar * (thread + 1) as f64;
            path += &format!("V{:.0}H{right:.0}", bottom - height);
        }
        path += &format!("V{bottom:.0}Z");
        let says = format!(
            "{lock}: {}, from {} to {}",
            several(ops.len(), "thread"),
            crate::units::count(least),
            several(most, "operation")
        );
        svg.area(color, &path, &says);
        svg.text(NAMES - 8.0, bottom - 14.0, "end", lock);
    }
    let note = format!(
        "A bar is a thread, from the one with the most operations to the one with the fewest, in \
         the run whose shares were least even{}{words}.",
        if words.is_empty() { "" } else { "; " }
    );
    Some(Picture::of(group, "Operations of each thread", note, svg))
}

/// Waits by percentile, in the configuration with the most threads: a picture for each side.
fn waits(group: &Group<'_>) -> Vec<Picture> {
    let Some(configuration) = group.fullest() else { return Vec::new() };
    let told = told_apart(group);
    let mut rows: Vec<&Measured<'_>> =
        group.within(configuration).filter(|m| told.contains(&m.row.lock.as_str())).collect();
    rows.sort_by_key(|m| told.iter().position(|lock| *lock == m.row.lock));
    let has_sides = rows.iter().any(|m| m.read.is_some() && m.write.is_some());
    type Pick = for<'a> fn(&Measured<'a>) -> Option<&'a Row>;
    let of = |pick: Pick, what: &str| {
        let picked = rows.iter().filter_map(|m| pick(m));
        let waits: Vec<Waits> =
            picked.filter_map(|row| Waits::of(row, group.color(&row.lock))).collect();
        let svg = wait_plot(&waits, 190.0)?;
        let words = rows.first().map_or_else(String::new, |m| describe(group, m.row));
        Some(Picture::of(group, &format!("Waits{what}"), format!("{WAITS} {words}"), svg))
    };
    let pictures = if has_sides {
        [of(|m| m.read, " of readers"), of(|m| m.write, " of writers")]
    } else {
        [of(|m| Some(m.row), ""), None]
    };
    pictures.into_iter().flatten().collect()
}

/// What the marks of [`wait_plot`] mean.
pub const WAITS: &str =
    "Circle: half of the waits are shorter; diamond: 99 %; square: 99.9 %; bar: the longest.";

/// Waits in nanoseconds: the percentiles that [`wait_plot`] marks.
pub struct Waits {
    pub name: String,
    /// A number in [`COLORS`].
    pub color: usize,
    pub at: [u64; 4],
}

impl Waits {
    fn of(row: &Row, color: usize) -> Option<Self> {
        let f = &row.figures;
        // Where a workload is about how long the lock was free, its figures take the place of
        // waits.
        let at = match f.free_p50_ns {
            Some(p50) => [p50, f.free_p99_ns?, f.free_p99_ns?, f.free_max_ns?],
            None => [f.wait_p50_ns?, f.wait_p99_ns?, f.wait_p999_ns?, f.wait_max_ns?],
        };
        Some(Self { name: row.lock.clone(), color, at })
    }
}

/// A plot of waits, a line for each; `room` is the space for names on the left.
pub fn wait_plot(waits: &[Waits], room: f64) -> Option<Svg> {
    const ROW: f64 = 26.0;
    if waits.is_empty() {
        return None;
    }
    let mut svg = Svg::new(WIDTH, ROW * waits.len() as f64 + 60.0);
    let all = waits.iter().flat_map(|waits| waits.at).map(|ns| ns.max(1) as f64);
    let x = Scale { axis: Axis::log(all), title: "wait", show: &as_time };
    let xs = ruler(&mut svg, &x, room);
    for (line, Waits { name, color, at }) in waits.iter().enumerate() {
        let fill = COLORS[*color];
        let y = ROW * (line as f64 + 0.5) + 4.0;
        let [p50, p99, p999, longest] = at.map(|ns| xs.at(ns.max(1) as f64));
        let says = at.map(time);
        let title = escaped(&format!(
            "{name}: p50 {}, p99 {}, p99.9 {}, longest {}",
            says[0], says[1], says[2], says[3]
        ));
        svg.raw(format_args!(
            "<g class=\"k{color}\" fill=\"{fill}\" stroke=\"{fill}\"><title>{title}</title>\
             <path d=\"M{p50:.0} {y:.0}H{longest:.0}M{longest:.0} {:.0}v16\" stroke-width=\"2\"/>\
             <circle cx=\"{p50:.0}\" cy=\"{y:.0}\" r=\"5\"/>\
             <path d=\"M{:.0} {y:.0}l6 -6l6 6l-6 6z\"/><rect x=\"{:.0}\" y=\"{:.0}\" width=\"8\" height=\"8\"/></g>",
            y - 8.0,
            p99 - 6.0,
            p999 - 4.0,
            y - 4.0
        ));
        svg.text(room - 8.0, y + 4.0, "end", name);
    }
    Some(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(speed: f64, wait: f64, starved: usize) -> Point {
        Point { lock: "x".into(), speed, wait, starved, served: String::new() }
    }

    #[test]
    fn the_front_has_what_nothing_beats_and_nobody_that_starves() {
        let points = [
            point(900.0, 8e6, 0),
            point(910.0, 29e6, 0),
            point(90.0, 6e6, 0),
            point(600.0, 90e6, 0),
            point(2_000.0, 1e6, 3),
        ];
        assert_eq!(front(&points), [2, 0, 1]);
    }
}
