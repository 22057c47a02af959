//! A snapshot for people: deadlocks, then what is waited for, by how many threads, then the stacks.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::waits;
use crate::layout::{Column, NOTHING, Table, or_dash};
use crate::output::Room;
use crate::place::{self, CodePlace};
use crate::snapshot::document::{Content, Frame, OfThread, OfWait, Owner};
use crate::units::{several, time};

const NOTE: &str = "asleep: of the thread that has waited longest; ?: the thread's number is where a mutex would have it";

/// So many threads of a group are named.
const NAMED: usize = 3;
/// So many functions of a stack are shown.
const SHOWN: usize = 12;

/// The whole text.
pub fn text(content: &Content, width: Option<usize>) -> String {
    let (deadlocks, stacks) = (deadlocks(content), stacks(content));
    format!(
        "{deadlocks}{}\n{stacks}",
        table(content, &groups(content)).titled(&title(content), NOTE, width)
    )
}

/// As much of it as there is room for: no stacks, and what most threads wait for.
pub fn screen(content: &Content, room: Room) -> String {
    let (deadlocks, groups) = (deadlocks(content), groups(content));
    let screen = |most: usize| {
        let table = table(content, &groups[..most]);
        let text = table.titled(&title(content), NOTE, room.columns);
        let more = groups.len() - most;
        let more = if more > 0 { format!("{more} more rows\n") } else { String::new() };
        format!("{deadlocks}{text}{more}")
    };
    let screens = (1..=groups.len()).rev().map(screen);
    room.first_that_fits(screens).unwrap_or_else(|| format!("{deadlocks}{}\n", title(content)))
}

/// How many threads there are.
fn title(content: &Content) -> String {
    let name = place::file_name(&content.program);
    let running = content.threads.iter().filter(|it| it.state == 'R').count();
    let threads = several(content.threads.len(), "thread");
    format!("{name} ({}): {threads}, {running} running", content.pid)
}

/// The deadlocks, a line each.
fn deadlocks(content: &Content) -> String {
    let mut text = String::new();
    for circle in &content.deadlocks {
        let is_guess = |tid: &u32| {
            let wait = find(content, *tid).and_then(|it| it.waits.as_ref());
            wait.is_some_and(|wait| matches!(wait.owner, Owner::Perhaps(_)))
        };
        let wait = |tid| find(content, tid)?.waits.as_ref();
        let is_timed = circle.iter().any(|&tid| wait(tid).is_some_and(|wait| wait.timed));
        let head = match (circle.iter().any(is_guess), is_timed) {
            (true, _) => "DEADLOCK, probably",
            (_, true) => "DEADLOCK until a deadline",
            _ => "DEADLOCK",
        };
        let held = circle.iter().cycle().skip(circle.len() - 1);
        let part = |(&tid, &before): (&u32, &u32)| {
            let thread = find(content, tid)?;
            let waits = what(thread.waits.as_ref()?);
            let holds = match wait(before)? {
                // A thread that others join holds nothing.
                joins if joins.kind == "join" => String::new(),
                wait => format!(" holds {},", what(wait)),
            };
            Some(format!("{}{}{holds} waits for {waits}", label(thread), at(thread)))
        };
        let parts: Vec<String> = circle.iter().zip(held).filter_map(part).collect();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{head}: {}", parts.join("; "));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// What is waited for, in a few words.
pub fn what(wait: &OfWait) -> String {
    match (&*wait.kind, &*wait.name) {
        (kind, "") => kind.to_owned(),
        ("mutex" | "rwlock" | "named", name) => name.to_owned(),
        ("join", name) => format!("the end of {name}"),
        ("malloc", name) => format!("malloc's {name}"),
        (kind, name) => format!("{kind} {name}"),
    }
}

/// A row for each thing that is waited for.
struct Group<'a> {
    wait: Option<&'a OfWait>,
    threads: Vec<&'a OfThread>,
}

/// What is waited for: locks first, then what most threads wait for.
fn groups(content: &Content) -> Vec<Group<'_>> {
    let mut groups = BTreeMap::new();
    for thread in &content.threads {
        let wait = thread.waits.as_ref();
        let is_held = wait.is_none_or(|wait| wait.owner == Owner::Nobody);
        let of =
            |wait: &OfWait| (what(wait), wait.address.clone().filter(|_| !wait.name.is_empty()));
        let key = (is_held, wait.map(of), wait.is_none().then_some(thread.state));
        groups
            .entry(key)
            .or_insert_with(|| Group { wait, threads: Vec::new() })
            .threads
            .push(thread);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((is_held, ..), group)| (*is_held, std::cmp::Reverse(group.threads.len())));
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The table of what is waited for.
fn table(content: &Content, groups: &[Group<'_>]) -> Table {
    Table::of(
        groups,
        [
            (Column::place("waiting for"), &|group: &Group<'_>| {
                let state = group.threads.first().map_or(' ', |thread| thread.state);
                group.wait.map_or_else(|| without_wait(state).to_owned(), what)
            }),
            (Column::name("kind").rank(2), &|it| or_dash(it.wait, kind)),
            (Column::figure("threads"), &|group| group.threads.len().to_string()),
            (Column::figure("asleep").rank(3), &|group| {
                let recorded =
                    |thread: &OfThread| thread.waits.as_ref().and_then(|it| it.waited_ns);
                let all = group.threads.iter().filter_map(|it| recorded(it).or(it.asleep_ns));
                or_dash(all.max(), time)
            }),
            (Column::place("held by"), &|it| or_dash(it.wait, |wait| held_by(content, wait))),
            (Column::place("at"), &|group| {
                or_dash(group.threads.iter().find_map(|it| caller(it)), |place| place.short())
            }),
            (Column::place("by"), &|group| labels(&group.threads)),
        ],
    )
}

fn kind(wait: &OfWait) -> String {
    if wait.address.is_some() { wait.kind.clone() } else { "system call".to_owned() }
}

/// What a thread does that does not wait in a system call.
fn without_wait(state: char) -> &'static str {
    match state {
        'R' => "(running)",
        'T' | 't' => "(stopped)",
        'Z' | 'X' => "(ended)",
        _ => "(the kernel does not say)",
    }
}

fn held_by(content: &Content, wait: &OfWait) -> String {
    if wait.kind == "semaphore" && wait.owner == Owner::Nobody {
        return "not known: a semaphore stores no holder".to_owned();
    }
    let held = wait.held_ns.map(|ns| format!(", for {}", time(ns))).unwrap_or_default();
    owner(content, &wait.owner) + &held
}

fn owner(content: &Content, owner: &Owner) -> String {
    let named = |tid: u32| match find(content, tid) {
        Some(thread) => match &thread.waits {
            Some(wait) => format!("{}, {}", label(thread), what_it_does(wait)),
            None => format!("{}, {}", label(thread), without_wait(thread.state)),
        },
        None => tid.to_string(),
    };
    match owner {
        Owner::Nobody => NOTHING.to_owned(),
        Owner::Thread(tid) => named(*tid),
        Owner::Perhaps(tid) => format!("{} ?", named(*tid)),
        Owner::Ended(tid) => format!("thread {tid}, which has ended"),
        Owner::Elsewhere { process, .. } if *process == content.pid => {
            "this process itself".to_owned()
        }
        Owner::Elsewhere { tid, process, name } if tid == process => {
            format!("another process: {name} ({process})")
        }
        Owner::Elsewhere { tid, process, name } => {
            format!("another process: {name} ({process}), thread {tid}")
        }
        Owner::Readers(readers) => several(*readers as usize, "reader"),
        Owner::Unknown(why) => format!("not known: {why}"),
    }
}

/// What the holder of a lock does itself.
fn what_it_does(wait: &OfWait) -> String {
    match &wait.address {
        Some(_) => format!("which waits for {}", what(wait)),
        None => format!("in {}", what(wait)),
    }
}

fn find(content: &Content, tid: u32) -> Option<&OfThread> {
    content.threads.iter().find(|thread| thread.tid == tid)
}

fn label(thread: &OfThread) -> String {
    format!("{} ({})", thread.name, thread.tid)
}

fn labels(threads: &[&OfThread]) -> String {
    let named: Vec<String> = threads.iter().take(NAMED).map(|thread| label(thread)).collect();
    let more = threads.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    named.join(", ") + &more
}

/// The place at which the program itself asked for what it waits for.
fn caller(thread: &OfThread) -> Option<&CodePlace> {
    waits::caller(thread.stack.iter().map(|frame| &frame.place))
}

fn at(thread: &OfThread) -> String {
    caller(thread).map(|place| format!(" at {}", place.short())).unwrap_or_default()
}

/// How many of the outermost frames only start a thread, the program, or a function of it.
fn starts(stack: &[Frame]) -> usize {
    const FIRST: [&str; 3] = ["start_thread", "__libc_start_call_main", "_start"];
    let is_first = |frame: &Frame| {
        let function = &*frame.place.function;
        FIRST.contains(&function) || function.ends_with("__rust_begin_short_backtrace")
    };
    let inside = stack.iter().position(is_first).unwrap_or(stack.len());
    let of_library = |frame: &&Frame| place::is_wrapper(&frame.place);
    let more = stack[..inside].iter().rev().take_while(of_library).count();
    // Some function must be named.
    if more == inside { 0 } else { stack.len() - inside + more }
}

/// The stacks, each with the threads that have it.
fn stacks(content: &Content) -> String {
    let mut stacks = BTreeMap::<String, Vec<&OfThread>>::new();
    for thread in content.threads.iter().filter(|thread| !thread.stack.is_empty()) {
        let name = |frame: &Frame| {
            format!("{}{}", frame.place.short(), if frame.is_guess { "?" } else { "" })
        };
        // The functions of the lock are between the innermost one and the caller.
        let is_caller = |frame: &Frame| caller(thread).is_some_and(|it| *it == frame.place);
        let begin = thread.stack.iter().position(is_caller).unwrap_or(0);
        let inner = thread.stack[..begin].iter().take(1).map(name);
        let gap = (begin > 1).then(|| "…".to_owned());
        let rest = &thread.stack[begin..];
        let rest = &rest[..rest.len() - starts(rest)];
        let more = rest.len().checked_sub(SHOWN + 1).map(|more| format!("{} more", more + 1));
        let shown = rest.iter().take(SHOWN).map(name);
        let names: Vec<String> = inner.chain(gap).chain(shown).chain(more).collect();
        stacks.entry(names.join(" ← ")).or_default().push(thread);
    }
    let mut text = String::new();
    for (stack, threads) in stacks {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}: {stack}", labels(&threads));
    }
    text
}
