//! The rules of the tree proper against the naive model, step by step; and that this finds the
//! defects it is there to find.

use std::collections::HashMap;

use fairlock_testing::rounds;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};

use super::Lock;
use super::model::{Model, POSITIONS, Places, span};
use crate::fault::{Fault, with_fault};
use crate::range::slots::word::{SLOTS, STRIPE_SLOTS};
use crate::range::span::Span;
use crate::range::stripes::regions::Regions;
use crate::range::tree::ranges::Ranges;
use crate::range::tree::{Id, name};
use crate::range::{HeldIn, Hold};
use crate::wait::Kind;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Ask(Places, Kind),
    Try(Places, Kind),
    /// A recursive read.
    AskAhead(Places),
    /// The numbers choose among those for which the step makes sense.
    Leave(usize),
    GiveUp(usize),
    Downgrade(usize),
    Shrink(usize, usize, usize),
    Split(usize, usize),
}

pub(super) fn places() -> impl Strategy<Value = Places> {
    (0..POSITIONS, 0..POSITIONS).prop_map(|(a, b)| (a.min(b), a.max(b)))
}

pub(super) fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Reader), Just(Kind::Writer)]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let any = any::<usize>;
    prop_oneof![
        4 => (places(), kind()).prop_map(|(p, k)| Step::Ask(p, k)),
        2 => (places(), kind()).prop_map(|(p, k)| Step::Try(p, k)),
        1 => places().prop_map(Step::AskAhead),
        3 => any().prop_map(Step::Leave),
        2 => any().prop_map(Step::GiveUp),
        1 => any().prop_map(Step::Downgrade),
        1 => (any(), any(), any()).prop_map(|(n, a, b)| Step::Shrink(n, a, b)),
        1 => (any(), any()).prop_map(|(n, at)| Step::Split(n, at)),
    ]
}

/// The part of `places` that two numbers choose.
pub(super) fn part((first, last): Places, a: usize, b: usize) -> Places {
    let len = last - first + 1;
    let (a, b) = (first + a % len, first + b % len);
    (a.min(b), a.max(b))
}

/// The request that the numbers of a step choose.
pub(super) fn choose(model: &Model, held: bool, number: usize) -> Option<usize> {
    let names = model.names(held);
    (!names.is_empty()).then(|| names[number % names.len()])
}

/// The tree beside the model: names in the model by waiter, nodes by name.
#[derive(Default)]
struct Beside {
    model: Model,
    nodes: HashMap<usize, Id>,
}

impl Beside {
    fn step(&mut self, ranges: &mut Ranges<usize>, step: Step) -> TestCaseResult {
        let mut granted = Vec::new();
        let expected = match step {
            Step::Ask(places, kind) => {
                let name = self.model.ask(places, kind);
                let (id, held) = ranges.insert(span(places), kind, name, 0, 0);
                self.nodes.insert(name, id);
                prop_assert_eq!(held, self.model.find(name).held);
                vec![]
            }
            Step::Try(places, kind) => {
                let free = self.model.is_free(places, kind);
                prop_assert_eq!(!ranges.conflicts(span(places), kind), free);
                for most in 0..4 {
                    let more = self.model.in_way(places, kind) > most;
                    prop_assert_eq!(ranges.has_more_in_way(span(places), kind, most), more);
                }
                if free {
                    let name = self.model.ask(places, kind);
                    self.nodes.insert(name, ranges.insert_held(span(places), kind, 0, 0));
                }
                vec![]
            }
            Step::AskAhead(places) => {
                let name = self.model.ask_ahead(places);
                let (id, held) = ranges.insert_again(span(places), Kind::Reader, 0, name, 0, 0);
                self.nodes.insert(name, id);
                prop_assert_eq!(held, self.model.find(name).held);
                vec![]
            }
            Step::Leave(n) | Step::GiveUp(n) => {
                let held = matches!(step, Step::Leave(_));
                let Some(name) = choose(&self.model, held, n) else { return Ok(()) };
                ranges.remove(self.nodes.remove(&name).unwrap(), |w, _| granted.push(w));
                self.model.leave(name)
            }
            Step::Downgrade(n) => {
                let Some(name) = choose(&self.model, true, n) else { return Ok(()) };
                if self.model.find(name).kind == Kind::Reader {
                    return Ok(());
                }
                ranges.downgrade(self.nodes[&name], |w, _| granted.push(w));
                self.model.downgrade(name)
            }
            Step::Shrink(n, a, b) => {
                let Some(name) = choose(&self.model, true, n) else { return Ok(()) };
                let to = part(self.model.find(name).places, a, b);
                ranges.shrink(self.nodes[&name], span(to), |w, _| granted.push(w));
                self.model.shrink(name, to)
            }
            Step::Split(n, at) => {
                let Some(name) = choose(&self.model, true, n) else { return Ok(()) };
                let (first, last) = self.model.find(name).places;
                if first == last {
                    return Ok(());
                }
                let mid = first + 1 + at % (last - first);
                let second = ranges.split(self.nodes[&name], span((mid, mid)).start());
                let name = self.model.split(name, mid);
                self.nodes.insert(name, second);
                vec![]
            }
        };
        granted.sort_unstable();
        prop_assert_eq!(granted, expected);
        ranges.check_all();
        Ok(())
    }
}

fn run(steps: Vec<Step>) -> TestCaseResult {
    let mut ranges = Ranges::<usize>::new();
    let mut beside = Beside::default();
    for step in steps {
        beside.step(&mut ranges, step)?;
    }
    // Everybody leaves: nothing is left.
    while let Some(name) = beside.model.requests.first().map(|r| r.name) {
        let id = beside.nodes.remove(&name).unwrap();
        let mut granted = Vec::new();
        ranges.remove(id, |w, _| granted.push(w));
        granted.sort_unstable();
        prop_assert_eq!(granted, beside.model.leave(name));
    }
    prop_assert!(ranges.is_empty() && ranges.waiting() == 0);
    Ok(())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(step(), 1..60)
}

proptest! {
    #![proptest_config(Config::with_cases(rounds(1_000) as u32))]
    #[test]
    fn the_tree_does_what_the_naive_model_does(steps in steps()) {
        run(steps)?;
    }
}

/// The same test on a tree with a mistake must fail.
fn is_caught(fault: Fault) {
    let config = Config { cases: 2_000, failure_persistence: None, ..Config::default() };
    let result = with_fault(Some(fault), || TestRunner::new(config).run(&steps(), run));
    assert!(result.is_err(), "{fault:?} was not noticed");
}

#[test]
fn the_model_catches_trees_that_are_wrong() {
    is_caught(Fault::ForgetsKind);
    is_caught(Fault::TriesAgainstHull);
    is_caught(Fault::LeavesUncounted);
}

/// Many ranges: the tree stays a balanced search tree, and finds everything that overlaps (or only
/// the writers), whatever happens to the ranges.
#[test]
fn a_large_tree_stays_balanced_and_finds_what_overlaps() {
    let mut ranges = Ranges::<usize>::new();
    let mut held: Vec<(Span, Kind, Id)> = Vec::new();
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    let nobody = |_, _| panic!("nobody waits");
    for round in 0..rounds(6_000) {
        let chosen = if held.is_empty() { 0 } else { next(held.len() as u64) as usize };
        match (next(12), held.get_mut(chosen)) {
            (0..3, Some(_)) => ranges.remove(held.swap_remove(chosen).2, nobody),
            (3, Some((_, kind @ Kind::Writer, id))) => {
                ranges.downgrade(*id, nobody);
                *kind = Kind::Reader;
            }
            (4, Some((span, _, id))) => {
                let start = span.start() + next(span.last() - span.start() + 1);
                *span = Span::closed(start, start + next(span.last() - start + 1));
                ranges.shrink(*id, *span, nobody);
            }
            (5, Some((span, kind, id))) if span.start() < span.last() => {
                let mid = span.start() + 1 + next(span.last() - span.start());
                let high = (Span::closed(mid, span.last()), *kind, ranges.split(*id, mid));
                *span = Span::closed(span.start(), mid - 1);
                held.push(high);
            }
            _ => {
                let start = next(100_000);
                let wide = if next(20) == 0 { 5_000 } else { 20 };
                let span = Span::closed(start, start + next(wide));
                let kind = if next(3) == 0 { Kind::Writer } else { Kind::Reader };
                held.push((span, kind, ranges.insert_held(span, kind, 0, 0)));
            }
        }
        let start = next(101_000);
        let asked = Span::closed(start, start + next(30));
        let mut overlapping = held.iter().filter(|(other, ..)| other.overlaps(&asked));
        let writes = overlapping.clone().any(|(_, kind, _)| *kind == Kind::Writer);
        assert_eq!(ranges.conflicts(asked, Kind::Writer), overlapping.next().is_some());
        assert_eq!(ranges.conflicts(asked, Kind::Reader), writes);
        if round % 100 == 0 {
            ranges.check_tree();
        }
    }
    assert!(held.len() > rounds(1_000));
    held.into_iter().for_each(|(.., id)| ranges.remove(id, nobody));
    ranges.check_tree();
    assert!(ranges.is_empty());
}

/// A block that is not the root may have one block below it.
#[test]
fn a_tree_stays_whole_where_a_block_is_nearly_empty() {
    let mut ranges = Ranges::<u32>::new();
    let hold = |at| ranges.insert_held(Span::closed(at, at), Kind::Writer, 0, 0);
    // Three blocks of sixteen blocks of sixteen ranges each.
    let held: Vec<_> = (0..3 * 16 * 16).map(hold).collect();
    for &id in &held[16 * 16..2 * 16 * 16 - 16] {
        ranges.remove(id, |_, _| unreachable!());
        ranges.check_tree();
    }
}

/// Which holds ranges in slots of it, whose holders the tree counts.
#[test]
fn a_stripe_opens_when_the_last_that_keeps_it_closed_leaves() {
    let mut ranges = Ranges::<u32>::new();
    ranges.set_regions(Some(Regions::new(3, 16, true)));
    ranges.keep_closed(5);
    ranges.keep_closed(5);
    ranges.regions.as_mut().unwrap().note_closed(5);
    let mut opens = || {
        ranges.let_open(5);
        ranges.regions.as_mut().unwrap().next_to_open()
    };
    assert_eq!([opens(), opens()], [None, Some(5)]);
}

/// The next number would be the name of a range in two stripes.
#[test]
fn the_last_node_that_has_a_name_is_a_node() {
    let last = name(Hold::NODES_LIMIT as usize - 1);
    assert!(matches!(Hold::node(last).place(), HeldIn::Node(id) if id == last));
    assert!(!matches!(Hold(Hold::node(last).0 + 1).place(), HeldIn::Node(_)));
    std::panic::catch_unwind(|| name(Hold::NODES_LIMIT as usize)).unwrap_err();
}

/// Defect 2, as it was found: W holds, R1 and R2 wait, R1 gives up.
#[test]
fn a_reader_that_gives_up_does_not_let_later_readers_in_beside_a_writer() {
    let mut ranges = Ranges::<usize>::new();
    let full = span((0, POSITIONS - 1));
    let (writer, held) = ranges.insert(full, Kind::Writer, 0, 0, 0);
    assert!(held);
    let (first, _) = ranges.insert(full, Kind::Reader, 1, 0, 0);
    let (_, held) = ranges.insert(full, Kind::Reader, 2, 0, 0);
    assert!(!held);
    ranges.remove(first, |_, _| panic!("granted while the writer holds it"));
    let mut granted = Vec::new();
    ranges.remove(writer, |w, _| granted.push(w));
    assert_eq!(granted, [2]);
}

/// Behind the writer the reader would wait for itself, as the writer waits for the first range.
#[test]
fn recursive_reader_waits_for_holders_and_not_for_those_that_wait() {
    let mut ranges = Ranges::<u32>::new();
    let first = ranges.insert_held(span((0, 3)), Kind::Reader, 0, 0);
    let (writer, held) = ranges.insert(span((0, 1)), Kind::Writer, 1, 0, 0);
    assert!(!held);
    let rest = ranges.insert_held(span((5, 6)), Kind::Writer, 0, 0);
    let (again, held) = ranges.insert_again(span((0, 6)), Kind::Reader, 0, 2, 0, 0);
    assert!(!held);
    let mut leave = |id| {
        let mut granted = vec![];
        ranges.remove(id, |_, id| granted.push(id));
        granted
    };
    assert_eq!(leave(rest), [again]);
    assert_eq!(leave(first), []);
    assert_eq!(leave(again), [writer]);
    assert_eq!(leave(writer), []);
}

/// It comes into the tree from a slot, which the reader could not see into.
#[test]
fn recursive_reader_waits_for_a_holder_that_is_entered_after_it() {
    let mut ranges = Ranges::<u32>::new();
    let first = ranges.insert_held(span((0, 1)), Kind::Writer, 0, 0);
    let (_, held) = ranges.insert_again(span((0, 6)), Kind::Reader, 0, 1, 0, 0);
    assert!(!held);
    let second = ranges.insert_held(span((5, 6)), Kind::Writer, 0, 0);
    ranges.remove(first, |_, _| panic!("granted beside a writer"));
    let mut granted = vec![];
    ranges.remove(second, |waiter, _| granted.push(waiter));
    assert_eq!(granted, [1]);
}

#[test]
fn a_stripe_opens_when_the_holder_that_the_tree_counts_has_left() {
    let lock = Lock::new();
    assert!(lock.stripe(12));
    lock.core.with_queue(|q| {
        let slot = SLOTS + 5 * STRIPE_SLOTS;
        q.set_moved(slot, name(7));
        q.ranges.regions.as_mut().unwrap().note_closed(5);
        assert_eq!(q.take_moved(slot), name(7));
        assert_eq!(q.ranges.regions.as_mut().unwrap().next_to_open(), Some(5));
    });
}
