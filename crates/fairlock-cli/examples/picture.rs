//! Draws what `fairlock bench --json` wrote: each lock's speed against its longest wait.
//!
//! ```sh
//! cargo run --release -p fairlock-cli --example picture -- RESULTS.json OUT.svg [NOTE]
//! ```
//!
//! Rows of one case only: the first in the file. NOTE, such as the date, goes below the
//! picture, behind the machine and the command.

use std::error::Error;
use std::{env, fs};

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde_json::Value;

/// One lock in one configuration.
struct Point {
    lock: String,
    /// Operations a second, in thousands.
    speed: f64,
    /// Milliseconds.
    longest: f64,
    starved: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [results, out, note @ ..] = arguments.as_slice() else {
        return Err("usage: picture RESULTS.json OUT.svg [NOTE]".into());
    };
    let results: Value = serde_json::from_str(&fs::read_to_string(results)?)?;
    let points = points(&results)?;
    let machine = &results["machine"];
    let command = results["command"].as_str().unwrap_or("");
    let below = [
        // The locks are in the picture.
        command.split(" --locks").next().unwrap_or("").to_owned(),
        format!("{} CPUs, {}", machine["cpus"], machine["cpu_model"].as_str().unwrap_or("?")),
        note.join(" "),
    ];
    draw(&points, below.join(" · ").trim_end_matches(" · "), out)
}

/// The rows of the first case.
fn points(results: &Value) -> Result<Vec<Point>, Box<dyn Error>> {
    let rows = results["rows"].as_array().ok_or("no rows")?;
    let first = rows.first().ok_or("no rows")?;
    let same = |row: &&Value| {
        ["workload", "case", "threads", "side"].iter().all(|key| row[key] == first[key])
    };
    rows.iter()
        .filter(same)
        .map(|row| {
            let number = |key: &str| row[key].as_f64().ok_or(format!("a row without {key}: {row}"));
            Ok(Point {
                lock: row["lock"].as_str().ok_or("a row without a lock")?.to_owned(),
                speed: number("ops_per_s")? / 1e3,
                longest: number("wait_max_ns")? / 1e6,
                starved: row["starved_threads"].as_u64().unwrap_or(0),
            })
        })
        .collect()
}

fn draw(points: &[Point], below: &str, out: &str) -> Result<(), Box<dyn Error>> {
    let most = |of: fn(&Point) -> f64| points.iter().map(of).fold(0.0, f64::max);
    let least = points.iter().map(|point| point.longest).fold(f64::MAX, f64::min);
    // Decades are too wide for waits that differ by a few times.
    let waits = (least / 1.5)..(most(|point| point.longest) * 2.0);
    let speeds = 0.0..(most(|point| point.speed) * 1.15);

    let area = SVGBackend::new(out, (760, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let (above, footer) = area.split_vertically(396);
    footer.draw_text(below, &("sans-serif", 11).into_font().color(&BLACK.mix(0.6)), (16, 4))?;
    let mut chart = ChartBuilder::on(&above)
        .margin(14)
        .x_label_area_size(42)
        .y_label_area_size(62)
        .build_cartesian_2d(waits.log_scale(), speeds)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc("longest wait, ms (further left is better)")
        .y_desc("thousand operations a second (higher is better)")
        .label_style(("sans-serif", 13))
        .x_label_formatter(&|ms| format!("{ms}"))
        .y_label_formatter(&|kops| format!("{kops}"))
        .draw()?;
    for (point, at) in points.iter().zip(labels(points)) {
        let ours = point.lock.starts_with("fairlock:");
        let color = if ours { RGBColor(0, 92, 197) } else { RGBColor(90, 90, 90) };
        let starved = match point.starved {
            0 => String::new(),
            1 => " (1 thread starved)".into(),
            n => format!(" ({n} threads starved)"),
        };
        let (side, dx) = if at.left { (HPos::Right, -9) } else { (HPos::Left, 9) };
        let style = ("sans-serif", if point.lock == "fairlock:default" { 16 } else { 13 })
            .into_font()
            .color(&color)
            .pos(Pos::new(side, VPos::Center));
        chart.draw_series([EmptyElement::at((point.longest, point.speed))
            + Circle::new((0, 0), 5, color.filled())
            + Text::new(format!("{}{starved}", point.lock), (dx, at.dy), style)])?;
    }
    area.present()?;
    Ok(())
}

/// Where a label goes: to the left of its point or to the right, and by how many pixels
/// lower.
struct Label {
    left: bool,
    dy: i32,
}

/// Labels of points on the right half are to the left of them; those that would be on each
/// other are moved apart.
fn labels(points: &[Point]) -> Vec<Label> {
    let logs = || points.iter().map(|point| point.longest.ln());
    let (low, high) = (logs().fold(f64::MAX, f64::min), logs().fold(f64::MIN, f64::max));
    let top = points.iter().map(|point| point.speed).fold(0.0, f64::max) * 1.15;
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&a, &b| points[b].speed.total_cmp(&points[a].speed));
    let mut taken: [i32; 2] = [i32::MIN; 2];
    let mut labels: Vec<Option<Label>> = points.iter().map(|_| None).collect();
    for index in order {
        let left = points[index].longest.ln() > f64::midpoint(low, high);
        let y = (330.0 * (1.0 - points[index].speed / top)) as i32;
        let free = y.max(taken[usize::from(left)].saturating_add(17));
        taken[usize::from(left)] = free;
        labels[index] = Some(Label { left, dy: free - y });
    }
    labels.into_iter().flatten().collect()
}
