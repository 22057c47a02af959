//! Pictures as SVG text: elements, axes, and places of labels. Colours are attributes, for viewers
//! that know no style sheets; classes are for the sheet's dark ones.

use std::fmt::Write;

use crate::units::time;

/// The width of pictures in a page. On the window of a phone they are drawn at about 0.7 of it, at
/// which their words can still be read.
pub const WIDTH: f64 = 480.0;

/// The distances from the edges of a picture to its plot.
const LEFT: f64 = 98.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;

/// The style sheet of pictures; on a dark page it replaces the colours that suit white.
pub const SHEET: &str = include_str!("pictures.css");

/// Colours on white: the first is of ours as it comes, the others are of other locks.
pub const COLORS: [&str; 9] = [
    "#005cc5", "#b35900", "#6f42c1", "#1a7f37", "#b31d28", "#735c0f", "#0b7285", "#a61e4d",
    "#57606a",
];

/// The picture that is being drawn.
#[derive(Clone)]
pub struct Svg {
    pub width: f64,
    pub height: f64,
    body: String,
}

impl Svg {
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// Adds an element, which must be well-formed.
    pub fn raw(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.body.write_fmt(element);
    }

    pub fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let text = escaped(text);
        self.raw(format_args!(
            "<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// Adds a line through these points, or a path that begins with them.
    pub fn line(&mut self, color: usize, attributes: &str, path: &str) {
        let stroke = COLORS[color];
        self.raw(format_args!(
            "<path class=\"k{color} line\" fill=\"none\" stroke=\"{stroke}\"{attributes} d=\"M{path}\"/>"
        ));
    }

    /// Adds an area, which says something where it is pointed at.
    pub fn area(&mut self, color: usize, path: &str, says: &str) {
        let (fill, says) = (COLORS[color], escaped(says));
        self.raw(format_args!(
            "<path class=\"k{color}\" fill=\"{fill}\" d=\"{path}\"><title>{says}</title></path>"
        ));
    }

    /// The whole picture, as a part of a page; screen readers read `name`.
    pub fn inline(&self, name: &str) -> String {
        format!(
            "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\">{}</svg>",
            escaped(name),
            self.width,
            self.height,
            self.width,
            self.height,
            self.body
        )
    }

    /// The whole picture, as a file.
    pub fn file(&self, name: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {w} {h}\" \
             width=\"{w}\" height=\"{h}\"><title>{}</title><style>{SHEET}</style>\
             <rect class=\"bg\" width=\"{w}\" height=\"{h}\" fill=\"#fff\"/>{}</svg>\n",
            escaped(name),
            self.body,
            w = self.width,
            h = self.height,
        )
    }
}

/// Text that may stand in markup, in attributes too.
pub fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

/// A path through these points, behind its first letter.
pub fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.map(|(x, y)| format!("{x:.0} {y:.0}")).collect::<Vec<_>>().join("L")
}

/// A time on an axis.
pub fn as_time(ns: f64) -> String {
    time(ns as u64)
}

/// One axis of a plot.
#[derive(Clone, Copy)]
pub struct Axis {
    low: f64,
    high: f64,
    is_log: bool,
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis from zero to a little more than the largest value.
    pub fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        let high = values.fold(0.0, f64::max);
        let high = if high > 0.0 { high * 1.12 } else { 1.0 };
        Self { low: 0.0, high, is_log: false, from: 0.0, to: 1.0 }
    }

    /// A logarithmic axis around these positive values.
    pub fn log(values: impl Iterator<Item = f64> + Clone) -> Self {
        let low = values.clone().fold(f64::MAX, f64::min).max(1e-9);
        let high = values.fold(0.0, f64::max).max(low);
        Self { low: low / 1.6, high: high * 1.6, is_log: true, from: 0.0, to: 1.0 }
    }

    /// The axis with its ends at these pixels.
    pub fn between(self, from: f64, to: f64) -> Self {
        Self { from, to, ..self }
    }

    /// The pixel at which a value is.
    pub fn at(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        // A label takes about 55 pixels.
        let most = (((self.to - self.from).abs() / 55.0) as usize).clamp(1, 7);
        let inside = |tick: &f64| (self.low..=self.high).contains(tick);
        if !self.is_log {
            let rough = (self.high - self.low) / most.min(5) as f64;
            let decade = 10_f64.powf(rough.log10().floor());
            let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * decade);
            let step = step.into_iter().find(|&step| step >= rough).unwrap_or(rough);
            return (0..12).map(|n| f64::from(n) * step).filter(inside).collect();
        }
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let of = |digits: &[f64]| -> Vec<f64> {
            let ticks = decades
                .clone()
                .flat_map(|exponent| digits.iter().map(move |digit| digit * 10_f64.powi(exponent)));
            ticks.filter(inside).collect()
        };
        let [few, some, many] = [&[1.0][..], &[1.0, 3.0], &[1.0, 2.0, 5.0]].map(of);
        let fits = |ticks: &Vec<f64>| ticks.len() <= most;
        let apart = few.len().div_ceil(most).max(1);
        let few = few.into_iter().step_by(apart).collect();
        [many, some].into_iter().find(fits).unwrap_or(few)
    }
}

/// How an axis is labelled.
pub struct Scale<'a> {
    pub axis: Axis,
    pub title: &'a str,
    pub show: &'a dyn Fn(f64) -> String,
}

/// Draws a frame of axes, with room for labels on the right. Returns the axes in pixels.
pub fn frame(svg: &mut Svg, x: &Scale<'_>, y: &Scale<'_>, right: f64) -> (Axis, Axis) {
    let (bottom, end) = (svg.height - BOTTOM, svg.width - right);
    let (xs, ys) = (x.axis.between(LEFT, end), y.axis.between(bottom, TOP));
    for tick in ys.ticks() {
        let at = ys.at(tick);
        grid(svg, [LEFT, at, end, at]);
        svg.text(LEFT - 8.0, at + 4.0, "end", &(y.show)(tick));
    }
    across(svg, x, &xs, TOP, f64::midpoint(LEFT, end));
    let title = escaped(y.title);
    let middle = f64::midpoint(TOP, bottom);
    svg.raw(format_args!(
        "<text transform=\"translate(16 {middle:.0}) rotate(-90)\" text-anchor=\"middle\">{title}</text>"
    ));
    (xs, ys)
}

/// Draws a horizontal axis alone, with lines up from it. Returns the axis in pixels.
pub fn ruler(svg: &mut Svg, x: &Scale<'_>, left: f64) -> Axis {
    let xs = x.axis.between(left, svg.width - 24.0);
    across(svg, x, &xs, 4.0, f64::midpoint(left, svg.width));
    xs
}

/// Draws the ticks of a horizontal axis, from `top` down, and its title around `middle`.
fn across(svg: &mut Svg, x: &Scale<'_>, xs: &Axis, top: f64, middle: f64) {
    let bottom = svg.height - BOTTOM;
    for tick in xs.ticks() {
        let at = xs.at(tick);
        grid(svg, [at, top, at, bottom]);
        svg.text(at, bottom + 18.0, "middle", &(x.show)(tick));
    }
    svg.text(middle, svg.height - 8.0, "middle", x.title);
}

/// A thin line from one point to another.
pub fn grid(svg: &mut Svg, [x1, y1, x2, y2]: [f64; 4]) {
    svg.raw(format_args!(
        "<path class=\"grid\" stroke=\"#d0d7de\" d=\"M{x1:.0} {y1:.0}L{x2:.0} {y2:.0}\"/>"
    ));
}

/// Places for labels that want to be at `wanted`: those that would lie on each other are moved
/// apart, and none is below `lowest`.
pub fn apart(wanted: &[f64], gap: f64, lowest: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut places = wanted.to_vec();
    let mut last = f64::MIN;
    for &index in &order {
        places[index] = places[index].max(last + gap);
        last = places[index];
    }
    let mut next = lowest + gap;
    for &index in order.iter().rev() {
        places[index] = places[index].min(next - gap);
        next = places[index];
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_cover_each_other() {
        let places = apart(&[10.0, 12.0, 50.0, 11.0], 15.0, 60.0);
        let mut sorted = places.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 15.0), "{places:?}");
        assert!(places[0] < places[3] && places[3] < places[1] && places[1] < places[2]);
        assert!(sorted[3] <= 60.0);
    }

    #[test]
    fn ticks_are_round_and_few() {
        let axis = Axis::from_zero([914.0].into_iter()).between(0.0, 400.0);
        assert_eq!(axis.ticks(), [0.0, 500.0, 1000.0]);
        let axis = Axis::log([3e6, 120e6].into_iter()).between(0.0, 400.0);
        let ticks = axis.ticks();
        assert!((3..=7).contains(&ticks.len()), "{ticks:?}");
        let decades = Axis::log([1e3, 1e10].into_iter()).between(0.0, 200.0).ticks();
        assert!((2..=3).contains(&decades.len()), "{decades:?}");
        let (low, high) = (axis.between(0.0, 100.0).at(3e6), axis.between(0.0, 100.0).at(120e6));
        assert!(0.0 < low && low < high && high < 100.0);
    }

    #[test]
    fn markup_in_names_is_text() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text(0.0, 0.0, "start", "a<b>&\"c\"");
        assert!(svg.file("x<y").contains("a&lt;b&gt;&amp;&quot;c&quot;"));
        assert!(svg.file("x<y").contains("<title>x&lt;y</title>"));
    }
}
