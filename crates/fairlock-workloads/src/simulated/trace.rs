//! A timeline of one simulation, in the format of Chrome's tracing, which Perfetto
//! reads: what each thread does, who runs on each CPU, and what happened to the lock.

use fairlock_sim::{Mark, Observer, ThreadState};
use serde::Serialize;

use super::Shared;
use super::why::Long;
use crate::cell::Split;

/// The document that Perfetto reads.
#[derive(Default, Serialize)]
pub struct Trace {
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
    #[serde(skip)]
    threads: Vec<Thread>,
    /// How many arrows there are.
    #[serde(skip)]
    arrows: usize,
}

/// The two processes of the document; its tracks are their threads.
const THREADS: u32 = 1;
const CPUS: u32 = 2;

/// One event, with the keys of the format.
#[derive(Default, Serialize)]
struct Event {
    name: String,
    /// X: a slice. i: an instant. M: the name of a process or a track. s and f: the begin and the end of
    /// an arrow, each in the slice that is there at its time.
    ph: &'static str,
    pid: u32,
    tid: usize,
    /// Microseconds.
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    /// How far an instant reaches: its track.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Args>,
    /// What kind of thing it is, to search for.
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    /// The number of an arrow.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<usize>,
    /// Of the end of an arrow: that it is in a slice, and not before the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
}

/// What is said of an event besides.
#[derive(Serialize)]
#[serde(untagged)]
enum Args {
    Name { name: String },
    Split(Split),
}

/// The category of waits that took long, and of the arrows to their ends.
const LONG: &str = "long wait";

/// What a thread is doing, and since when.
#[derive(Clone, Default)]
struct Thread {
    /// What it does with the lock, and since when.
    phase: Option<(&'static str, &'static str, u64)>,
    /// What the machine does with it, where, and since when.
    state: Option<(ThreadState, usize, u64)>,
    /// The CPU it has, and since when.
    cpu: Option<(usize, u64)>,
}

impl Trace {
    fn at(&mut self, thread: usize) -> &mut Thread {
        super::at(&mut self.threads, thread)
    }

    fn slice(&mut self, pid: u32, tid: usize, name: String, from: u64, to: u64) {
        if to > from {
            let dur = Some(us(to - from));
            self.events.push(Event {
                name,
                ph: "X",
                pid,
                tid,
                ts: us(from),
                dur,
                ..Event::default()
            });
        }
    }

    /// Ends what the machine does with a thread.
    fn end_state(&mut self, thread: usize, now: u64) -> Option<(ThreadState, usize)> {
        let (state, cpu, since) = self.at(thread).state.take()?;
        let name = match state {
            ThreadState::Running => "running",
            ThreadState::Spinning => "spinning",
            ThreadState::Woken => "woken, on its way to a CPU",
            ThreadState::Runnable => "without a CPU, which others have",
            ThreadState::Stalled => "its CPU is taken by the host",
            ThreadState::Sleeping => "sleeping",
            ThreadState::Ended => return None,
        };
        self.slice(THREADS, thread, name.to_owned(), since, now);
        Some((state, cpu))
    }

    fn end_phase(&mut self, thread: usize, now: u64) {
        if let Some((what, side, since)) = self.at(thread).phase.take() {
            self.slice(THREADS, thread, format!("{what} ({side})"), since, now);
        }
    }

    fn end_cpu(&mut self, thread: usize, now: u64) {
        if let Some((cpu, since)) = self.at(thread).cpu.take() {
            self.slice(CPUS, cpu, format!("thread {thread}"), since, now);
        }
    }

    fn instant(&mut self, thread: usize, name: String, now: u64) {
        let (pid, tid, ts, s) = (THREADS, thread, us(now), Some("t"));
        self.events.push(Event { name, ph: "i", pid, tid, ts, s, ..Event::default() });
    }

    /// Says of the wait that a thread has just ended why it took long, and draws an arrow to its end
    /// from the section whose end let the thread in.
    fn waited_long(&mut self, now: u64, thread: usize, long: &Long) {
        let is_wait = |event: &&mut Event| {
            (event.ph, event.pid, event.tid) == ("X", THREADS, thread)
                && event.name.starts_with(WAITING)
        };
        let Some(wait) = self.events.iter_mut().rev().find(is_wait) else { return };
        wait.cat = Some(LONG);
        wait.args = Some(Args::Split(long.split));
        let Some((from, left)) = long.let_in_by else { return };
        self.arrows += 1;
        // At `now` the wait is over: the arrow ends a nanosecond before.
        for (ph, tid, at, bp) in [("s", from, left, None), ("f", thread, now - 1, Some("e"))] {
            self.events.push(Event {
                name: "lets in".to_owned(),
                ph,
                pid: THREADS,
                tid,
                ts: us(at),
                cat: Some(LONG),
                id: Some(self.arrows),
                bp,
                ..Event::default()
            });
        }
    }

    /// Names all tracks. What has not ended by now is not shown.
    fn name_tracks(&mut self) {
        let mut cpus: Vec<usize> =
            self.events.iter().filter(|event| event.pid == CPUS).map(|event| event.tid).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let threads = 0..self.threads.len();
        let mut name = |what: &str, pid, tid, name: String| {
            let (what, args) = (what.to_owned(), Some(Args::Name { name }));
            self.events.push(Event { name: what, ph: "M", pid, tid, args, ..Event::default() });
        };
        name("process_name", THREADS, 0, "threads".to_owned());
        name("process_name", CPUS, 0, "CPUs".to_owned());
        threads.for_each(|thread| name("thread_name", THREADS, thread, format!("thread {thread}")));
        cpus.into_iter().for_each(|cpu| name("thread_name", CPUS, cpu, format!("CPU {cpu}")));
    }
}

/// What a thread does that waits.
const WAITING: &str = "waiting";

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// Where a simulation is recorded.
pub type Recorder = Shared<Trace>;

impl Recorder {
    /// What was recorded.
    pub fn finish(&self) -> Trace {
        self.with(|trace| {
            trace.name_tracks();
            std::mem::take(trace)
        })
    }

    /// A thread has just waited for long.
    pub(super) fn waited_long(&self, now: u64, thread: usize, long: &Long) {
        self.with(|trace| trace.waited_long(now, thread, long));
    }
}

impl Observer for Recorder {
    fn thread(&mut self, now: u64, thread: usize, cpu: usize, state: ThreadState) {
        self.with(|trace| {
            trace.end_state(thread, now);
            trace.at(thread).state = Some((state, cpu, now));
            let has_cpu = matches!(state, ThreadState::Running | ThreadState::Spinning);
            let before = trace.at(thread).cpu.map(|(cpu, _)| cpu);
            if before != has_cpu.then_some(cpu) {
                trace.end_cpu(thread, now);
                trace.at(thread).cpu = has_cpu.then_some((cpu, now));
            }
            if state == ThreadState::Ended {
                trace.end_phase(thread, now);
            }
        });
    }

    fn mark(&mut self, now: u64, thread: usize, mark: Mark) {
        self.with(|trace| {
            // States lie within phases, so that they nest: a state is cut where a phase begins or
            // ends.
            if let Some((state, cpu)) = trace.end_state(thread, now) {
                trace.at(thread).state = Some((state, cpu, now));
            }
            if !matches!(mark, Mark::Instant(_)) {
                trace.end_phase(thread, now);
            }
            let name = match mark {
                Mark::Waiting(side) => {
                    trace.at(thread).phase = Some((WAITING, side, now));
                    return;
                }
                Mark::Holding(side) => {
                    trace.at(thread).phase = Some(("holding", side, now));
                    format!("acquired ({side})")
                }
                // The next thread may have the lock before the call that releases it returns.
                Mark::Releasing(side) => {
                    trace.at(thread).phase = Some(("releasing", side, now));
                    return;
                }
                Mark::Released(side) => format!("released ({side})"),
                Mark::Instant(what) => what.to_owned(),
            };
            trace.instant(thread, name, now);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_says_why_and_an_arrow_leads_to_its_end() {
        let mut recorder = Recorder::default();
        recorder.mark(0, 0, Mark::Holding("write"));
        recorder.mark(1_000, 1, Mark::Waiting("write"));
        recorder.mark(2_000, 0, Mark::Released("write"));
        recorder.mark(3_000, 1, Mark::Holding("write"));
        let split = Split { holder_inside_ns: Some(1_000), ..Split::default() };
        recorder.waited_long(3_000, 1, &Long { split, let_in_by: Some((0, 1_500)) });
        // This one is short.
        recorder.mark(4_000, 0, Mark::Waiting("write"));
        recorder.mark(5_000, 0, Mark::Holding("write"));
        let trace = recorder.finish();
        let long: Vec<_> = trace.events.iter().filter(|e| e.cat == Some(LONG)).collect();
        let seen: Vec<_> = long.iter().map(|e| (e.ph, e.tid, e.ts, e.id)).collect();
        let arrow = [("s", 0, 1.5, Some(1)), ("f", 1, 2.999, Some(1))];
        assert_eq!(seen, [[("X", 1, 1.0, None)].as_slice(), &arrow].concat());
        assert!(matches!(&long[0].args, Some(Args::Split(of_wait)) if *of_wait == split));
        // The arrow begins in the section that ended, and ends in the wait.
        let slices = trace.events.iter().filter(|e| e.ph == "X");
        let around = |tid, ts| {
            let mut around = slices.clone().filter(move |e| {
                e.tid == tid && e.ts <= ts && ts < e.ts + e.dur.unwrap_or_default()
            });
            around.next().map(|e| e.name.as_str())
        };
        assert_eq!(around(0, 1.5), Some("holding (write)"));
        assert_eq!(around(1, 2.999), Some("waiting (write)"));
    }

    #[test]
    fn states_are_cut_where_a_phase_begins_so_that_slices_nest() {
        let mut recorder = Recorder::default();
        recorder.thread(0, 0, 3, ThreadState::Running);
        recorder.mark(1_000, 0, Mark::Waiting("write"));
        recorder.thread(2_000, 0, 3, ThreadState::Sleeping);
        recorder.thread(5_000, 0, 4, ThreadState::Running);
        recorder.mark(6_000, 0, Mark::Holding("write"));
        recorder.mark(6_500, 0, Mark::Releasing("write"));
        recorder.mark(7_000, 0, Mark::Released("write"));
        recorder.thread(8_000, 0, 4, ThreadState::Ended);
        let trace = recorder.finish();
        let slices = |pid| {
            let slices = trace.events.iter().filter(move |e| e.ph == "X" && e.pid == pid);
            slices.map(|e| (e.name.as_str(), e.tid, e.ts, e.dur.unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(
            slices(THREADS),
            [
                ("running", 0, 0.0, 1.0),
                ("running", 0, 1.0, 1.0),
                ("sleeping", 0, 2.0, 3.0),
                ("running", 0, 5.0, 1.0),
                ("waiting (write)", 0, 1.0, 5.0),
                ("running", 0, 6.0, 0.5),
                ("holding (write)", 0, 6.0, 0.5),
                ("running", 0, 6.5, 0.5),
                ("releasing (write)", 0, 6.5, 0.5),
                ("running", 0, 7.0, 1.0),
            ]
        );
        assert_eq!(slices(CPUS), [("thread 0", 3, 0.0, 2.0), ("thread 0", 4, 5.0, 3.0)]);
    }
}
