//! Figures in human units.

use std::cmp::Reverse;
use std::time::Duration;

/// A time: three digits and the unit that suits them.
pub fn time(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => format!("{} us", digits(ns / 1e3)),
        _ if ns < 1e9 => format!("{} ms", digits(ns / 1e6)),
        _ => format!("{} s", digits(ns / 1e9)),
    }
}

/// A time in two digits, or three before the point.
pub fn roughly(ns: u64) -> String {
    let (value, unit) = match ns as f64 {
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999.5e3 => (ns / 1e3, "us"),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = usize::from(value < 9.95 && unit != "ns");
    format!("{value:.digits$} {unit}")
}

/// Reads for how long to do something, or how often.
pub fn lasting(text: &str) -> Result<Duration, String> {
    match lasting_or_zero(text)? {
        Duration::ZERO => Err("use more than zero, such as 10ms".to_owned()),
        time => Ok(time),
    }
}

/// The same, where zero is a time, too.
pub fn lasting_or_zero(text: &str) -> Result<Duration, String> {
    const MOST: Duration = Duration::from_secs(1_000 * 24 * 60 * 60);
    match humantime::parse_duration(text) {
        Ok(time) if time <= MOST => Ok(time),
        Ok(_) | Err(humantime::DurationError::NumberOverflow) => {
            Err("use 1000days at most".to_owned())
        }
        Err(_) => Err("use a time with its unit, such as 10ms".to_owned()),
    }
}

/// Thousands of operations a second.
pub fn kops(per_s: f64) -> String {
    digits(per_s / 1e3)
}

/// About three digits; whole numbers get thousands separators.
pub fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => count(value.round() as u64),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Two digits behind the point.
pub fn two_digits(value: f64) -> String {
    format!("{value:.2}")
}

/// A share in percent, exact to a tenth.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The shares that parts have of their whole, in percent: exact to a tenth, and 100 together. Of those that lie
/// between two tenths, the nearest to the upper one are rounded up.
pub fn percents(parts: &[u64]) -> Vec<String> {
    tenths(parts).into_iter().map(percent_of_tenths).collect()
}

/// The same in tenths of a percent.
pub fn tenths(parts: &[u64]) -> Vec<u64> {
    const WHOLE: u128 = 1_000;
    let all = parts.iter().map(|&part| u128::from(part)).sum::<u128>().max(1);
    let of = |part: u64| u128::from(part) * WHOLE;
    let mut tenths: Vec<u64> = parts.iter().map(|&part| (of(part) / all) as u64).collect();
    let mut nearest: Vec<usize> = (0..parts.len()).filter(|&at| of(parts[at]) % all > 0).collect();
    nearest.sort_by_key(|&at| Reverse(of(parts[at]) % all));
    let short = WHOLE as usize - tenths.iter().sum::<u64>() as usize;
    nearest.into_iter().take(short).for_each(|at| tenths[at] += 1);
    tenths
}

/// Tenths of a percent as text.
pub fn percent_of_tenths(tenths: u64) -> String {
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// The smallest and the largest of the values, one of each seed; one number if they are the same.
pub fn range(values: impl IntoIterator<Item = f64>, show: impl Fn(f64) -> String) -> String {
    let values: Vec<f64> = values.into_iter().collect();
    let (Some(min), Some(max)) =
        (values.iter().copied().reduce(f64::min), values.iter().copied().reduce(f64::max))
    else {
        return "-".to_owned();
    };
    let (min, max) = (show(min), show(max));
    if min == max { min } else { format!("{min} to {max}") }
}

/// A count with thousands separators.
pub fn count(value: u64) -> String {
    let plain = value.to_string();
    let mut out = String::with_capacity(plain.len() + plain.len() / 3);
    for (i, digit) in plain.chars().enumerate() {
        if i > 0 && (plain.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count of things whose plural is regular: `1 lock`, `2 locks`.
pub fn several(n: impl TryInto<u64>, thing: &str) -> String {
    // What is too much for 64 bits is not counted here.
    let n = n.try_into().unwrap_or(u64::MAX);
    format!("{} {thing}{}", count(n), if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_change_unit_where_people_do() {
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(1_500), "1.50 us");
        assert_eq!(time(12_345_678), "12.3 ms");
        assert_eq!(time(2_000_000_000), "2.00 s");
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(12), "12");
        assert_eq!(
            [0, 1, 2_000].map(|n: u64| several(n, "lock")),
            ["0 locks", "1 lock", "2,000 locks"]
        );
        assert_eq!(kops(2_666_000.0), "2,666");
        assert_eq!(kops(12_400.0), "12.4");
    }

    #[test]
    fn shares_of_a_whole_add_up_to_it() {
        assert_eq!(percents(&[1, 1, 1]), ["33.4 %", "33.3 %", "33.3 %"]);
        assert_eq!(percents(&[6, 0, 1, 1]), ["75.0 %", "0.0 %", "12.5 %", "12.5 %"]);
        assert_eq!(percents(&[0, 0]), ["0.0 %", "0.0 %"]);
        for parts in [&[u64::MAX; 7][..], &[1, 999_999, 5, 5, 5, 5], &[7]] {
            assert_eq!(tenths(parts).iter().sum::<u64>(), 1_000, "{parts:?}");
        }
    }

    #[test]
    fn a_range_of_one_value_is_that_value() {
        assert_eq!(range([0.801, 0.799], two_digits), "0.80");
        assert_eq!(range([0.9, 0.7, 0.8], two_digits), "0.70 to 0.90");
        assert_eq!(range([], two_digits), "-");
    }
}
