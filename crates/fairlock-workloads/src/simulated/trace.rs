//! A timeline of one simulation, in the format of Chrome's tracing, which Perfetto
//! reads: what each thread does, who runs on each CPU, and what happened to the lock.

use fairlock_sim::{Mark, Observer, ThreadState};
use serde::Serialize;

use super::Shared;

/// The document that Perfetto reads.
#[derive(Default, Serialize)]
pub struct Trace {
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
    #[serde(skip)]
    threads: Vec<Thread>,
}

/// The two processes of the document; its tracks are their threads.
const THREADS: u32 = 1;
const CPUS: u32 = 2;

/// One event, with the keys of the format.
#[derive(Default, Serialize)]
struct Event {
    name: String,
    /// X: a slice. i: an instant. M: the name of a process or a track.
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
    args: Option<Name>,
}

#[derive(Serialize)]
struct Name {
    name: String,
}

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
        if self.threads.len() <= thread {
            self.threads.resize(thread + 1, Thread::default());
        }
        &mut self.threads[thread]
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

    /// Names all tracks. What has not ended by now is not shown.
    fn name_tracks(&mut self) {
        let mut cpus: Vec<usize> =
            self.events.iter().filter(|event| event.pid == CPUS).map(|event| event.tid).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let threads = 0..self.threads.len();
        let mut name = |what: &str, pid, tid, name: String| {
            let (what, args) = (what.to_owned(), Some(Name { name }));
            self.events.push(Event { name: what, ph: "M", pid, tid, args, ..Event::default() });
        };
        name("process_name", THREADS, 0, "threads".to_owned());
        name("process_name", CPUS, 0, "CPUs".to_owned());
        threads.for_each(|thread| name("thread_name", THREADS, thread, format!("thread {thread}")));
        cpus.into_iter().for_each(|cpu| name("thread_name", CPUS, cpu, format!("CPU {cpu}")));
    }
}

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
                    trace.at(thread).phase = Some(("waiting", side, now));
                    return;
                }
                Mark::Holding(side) => {
                    trace.at(thread).phase = Some(("holding", side, now));
                    format!("acquired ({side})")
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
    fn states_are_cut_where_a_phase_begins_so_that_slices_nest() {
        let mut recorder = Recorder::default();
        recorder.thread(0, 0, 3, ThreadState::Running);
        recorder.mark(1_000, 0, Mark::Waiting("write"));
        recorder.thread(2_000, 0, 3, ThreadState::Sleeping);
        recorder.thread(5_000, 0, 4, ThreadState::Running);
        recorder.mark(6_000, 0, Mark::Holding("write"));
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
                ("running", 0, 6.0, 1.0),
                ("holding (write)", 0, 6.0, 1.0),
                ("running", 0, 7.0, 1.0),
            ]
        );
        assert_eq!(slices(CPUS), [("thread 0", 3, 0.0, 2.0), ("thread 0", 4, 5.0, 3.0)]);
    }
}
