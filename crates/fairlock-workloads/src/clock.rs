//! Time as the hot loops need it: a cheap clock, and a calibrated busy section.
//!
//! Every acquire of a contended workload is timed, so that the longest wait is
//! never missed. That takes two clock reads per operation, one of them inside
//! the section. With the CPU's time stamp counter a read costs about 9 ns
//! (`clock_gettime`: 23 ns), not ordered with the code around it; a wait is
//! therefore exact to some tens of nanoseconds. `uncontended`, where 18 ns would
//! be the larger half of the result, reads the clock once per 1,000 operations.

use std::hint::black_box;
use std::time::Instant;

/// A monotonic clock in ticks of its own.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    use_tsc: bool,
    origin: Instant,
    origin_tsc: u64,
}

impl Clock {
    /// Starts a clock. It is calibrated against the system's clock over its
    /// whole life so far, so ask for nanoseconds late.
    pub fn start() -> Self {
        let use_tsc = tsc_is_usable();
        Self { use_tsc, origin: Instant::now(), origin_tsc: if use_tsc { tsc() } else { 0 } }
    }

    /// Ticks so far. Later minus earlier may be slightly negative between CPUs:
    /// subtract saturating.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        if self.use_tsc { tsc() } else { self.origin.elapsed().as_nanos() as u64 }
    }

    /// What one tick is worth.
    pub fn ns_per_tick(&self) -> f64 {
        if !self.use_tsc {
            return 1.0;
        }
        let ticks = tsc().saturating_sub(self.origin_tsc);
        self.origin.elapsed().as_nanos() as f64 / ticks.max(1) as f64
    }

    /// The name of the clock, for the results.
    pub fn name(&self) -> &'static str {
        match self.use_tsc {
            true => "tsc",
            false if cfg!(windows) => "QueryPerformanceCounter",
            false => "clock_gettime",
        }
    }

    /// Nanoseconds one read costs, measured now.
    pub fn read_cost_ns(&self) -> f64 {
        const READS: u32 = 2_000;
        let best = (0..10).map(|_| {
            let begin = Instant::now();
            for _ in 0..READS {
                black_box(self.now());
            }
            begin.elapsed()
        });
        best.min().unwrap_or_default().as_nanos() as f64 / f64::from(READS)
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn tsc() -> u64 {
    // SAFETY: every x86_64 CPU has the instruction, and systems let programs use it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn tsc() -> u64 {
    0
}

/// Whether the counter runs at one constant speed, and alike on all CPUs. The kernel has tested the
/// latter if it lists the counter as its clock.
fn tsc_is_usable() -> bool {
    let available = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string(available)
            .is_ok_and(|list| list.split_whitespace().any(|name| name == "tsc"))
}

/// CPU work of `turns` dependent multiplications; touches no memory.
#[inline(never)]
pub fn busy(turns: u64) {
    let mut x = black_box(1u64);
    for _ in 0..turns {
        x = black_box(x.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    black_box(x);
}

/// `cs_load` pause instructions.
#[inline(always)]
pub fn pauses(cs_load: u32) {
    for _ in 0..cs_load {
        std::hint::spin_loop();
    }
}

/// Turns of [`busy`] that take one microsecond of CPU time on this machine. The
/// fastest of many short trials: a trial that was preempted is never the fastest.
pub fn calibrate_busy() -> u64 {
    const TURNS: u64 = 4_000;
    let fastest = (0..400)
        .map(|_| {
            let begin = Instant::now();
            busy(TURNS);
            begin.elapsed().as_nanos() as u64
        })
        .min()
        .unwrap_or(1)
        .max(1);
    (TURNS * 1_000).div_ceil(fastest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_goes_forward_and_knows_its_unit() {
        let clock = Clock::start();
        let begin = clock.now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let ns = clock.now().saturating_sub(begin) as f64 * clock.ns_per_tick();
        assert!(ns >= 19_000_000.0, "{ns}");
    }

    #[test]
    fn busy_calibration_is_not_zero() {
        assert!(calibrate_busy() > 0);
    }
}
