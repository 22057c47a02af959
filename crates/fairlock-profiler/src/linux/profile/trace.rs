//! The waits as a trace that Perfetto and Chrome show: threads, waits, the holds that ended them,
//! and an arrow from each release to the wait that it ended.

use std::collections::BTreeMap;

use fairlock_profile::Wait;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Process, Profile, Seen};
use crate::place::file_name;

#[derive(Serialize)]
struct Trace {
    #[serde(rename = "traceEvents")]
    events: Vec<Value>,
    #[serde(rename = "displayTimeUnit")]
    unit: &'static str,
}

impl Profile {
    /// The trace, as JSON.
    pub fn trace(&self) -> Vec<u8> {
        // All processes have the same clock.
        let began = self.processes.iter().map(|process| process.record.began_ns).min();
        let mut events = Vec::new();
        for process in &self.processes {
            of_process(process, began.unwrap_or(0), &mut events);
        }
        // All keys are strings and all values strings or numbers, so this cannot fail.
        serde_json::to_vec(&Trace { events, unit: "ns" }).unwrap_or_default()
    }
}

fn of_process(process: &Process, began: u64, events: &mut Vec<Value>) {
    let record = &process.record;
    let program = file_name(&record.program);
    events.push(json!({
        "ph": "M", "name": "process_name", "pid": record.pid, "args": { "name": program },
    }));
    let mut names = BTreeMap::new();
    for wait in &record.waits {
        names.insert(wait.thread, wait.name.as_str());
    }
    for wait in record.waits.iter().filter(|wait| wait.holder != 0) {
        names.entry(wait.holder).or_insert("");
    }
    for (tid, name) in names.into_iter().filter(|(_, name)| !name.is_empty()) {
        events.push(json!({
            "ph": "M", "name": "thread_name", "pid": record.pid, "tid": tid,
            "args": { "name": name },
        }));
    }
    let mut held = BTreeMap::new();
    for wait in &record.waits {
        of_wait(process, wait, began, events);
        // One hold may have ended several waits.
        if let (Some(since), Some(released)) = (wait.held_since_ns, wait.held_until_ns) {
            held.insert((wait.holder, since, wait.lock), (released, wait));
        }
    }
    for ((holder, since, _), (released, wait)) in held {
        let lock = name_of(process, wait);
        events.push(json!({
            "ph": "X", "cat": "hold", "name": format!("holds {lock}"), "pid": record.pid,
            "tid": holder, "ts": micros(since, began),
            "dur": micros(released, since),
            "args": { "released at": place(process, wait.holder_stack) },
        }));
    }
}

fn of_wait(process: &Process, wait: &Wait, began: u64, events: &mut Vec<Value>) {
    let pid = process.record.pid;
    let lock = name_of(process, wait);
    let end = wait.began_ns.saturating_add(wait.waited_ns);
    events.push(json!({
        "ph": "X", "cat": "wait", "name": format!("waits for {lock}"), "pid": pid,
        "tid": wait.thread, "ts": micros(wait.began_ns, began),
        "dur": micros(end, wait.began_ns),
        "args": {
            "at": place(process, wait.stack), "let in meanwhile": wait.passed,
            "for reading": wait.reads, "in vain": wait.given_up,
        },
    }));
    if let Some(released) = wait.held_until_ns {
        let arrow = |phase: &str, tid: u32, at: u64| {
            json!({
                "ph": phase, "cat": "release", "name": "release", "id": wait.number, "bp": "e",
                "pid": pid, "tid": tid, "ts": micros(at, began),
            })
        };
        events.push(arrow("s", wait.holder, released));
        events.push(arrow("f", wait.thread, end));
    }
}

fn name_of(process: &Process, wait: &Wait) -> String {
    Seen::of(process, wait.lock).name()
}

fn place(process: &Process, stack: u32) -> Option<String> {
    process.caller(stack).map(|place| place.short())
}

fn micros(to: u64, from: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1000.0
}
