//! What changed between two profiles of a program: at which locks, and because of whom.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::layout::{Column, Table};
use crate::preload::document::{Document, OfLock};
use crate::preload::place::{CodePlace, caller};
use crate::preload::sum;
use crate::preload::waited::{self, LOCKS, Waited};
use crate::results::Machine;
use crate::units::{count, time};

const WAYS: [&str; 2] = ["before", "after"];

const NOTE: &str = "lost: all waits together; locks of one name together";

/// What of each of two profiles belongs together, by its name.
type Pairs<K, V> = BTreeMap<K, [V; 2]>;

/// The tables, at most `width` wide.
pub fn text(documents: [&Document<Machine>; 2], width: Option<usize>) -> String {
    let (locks, places) = (by_lock(documents), by_place(documents));
    let lost = [0, 1].map(|side| sum(locks.values().map(|waited| waited[side].lost_ns)));
    if locks.is_empty() {
        return "nobody waited for a lock, in either\n".to_owned();
    }
    let locks = by_change(locks, |waited| waited.lost_ns);
    let more = locks.len().saturating_sub(LOCKS);
    let shown = locks.into_iter().take(LOCKS);
    let mut text = waited::table(WAYS, shown).titled(
        "what changed, by lock, the largest change of the time lost first",
        NOTE,
        width,
    );
    if more > 0 {
        text += &format!("{} more with smaller changes\n", count(more as u64));
    }
    text += &format!("\n{}", table(by_change(places, |&lost| lost), width));
    let [before, after] = lost.map(time);
    text + &format!(
        "\nlost in all: {before} before, {after} after; of one run each, and those differ, too\n"
    )
}

/// The waits for each lock that was waited for.
fn by_lock(documents: [&Document<Machine>; 2]) -> Pairs<&str, Waited> {
    let mut all = Pairs::<&str, Waited>::new();
    for (side, lock) in locks(documents).filter(|(_, lock)| lock.waits > 0) {
        all.entry(&lock.name).or_default()[side].add(Waited {
            waits: lock.waits,
            lost_ns: lock.wait_total_ns,
            p999_ns: lock.wait_p999_ns.unwrap_or(0),
            longest_ns: lock.wait_longest_ns,
        });
    }
    all
}

/// The time lost at each lock, by where it was released that was held meanwhile.
fn by_place(documents: [&Document<Machine>; 2]) -> Pairs<(&str, String), u64> {
    let mut all = Pairs::<_, u64>::new();
    for (side, lock) in locks(documents) {
        for holder in &lock.holders {
            let place = caller(&holder.stack).map_or_else(String::new, CodePlace::short);
            let lost = &mut all.entry((&*lock.name, place)).or_default()[side];
            *lost = sum([*lost, holder.wait_total_ns]);
        }
    }
    all
}

fn locks(documents: [&Document<Machine>; 2]) -> impl Iterator<Item = (usize, &OfLock)> {
    documents.into_iter().enumerate().flat_map(|(side, document)| {
        document
            .processes
            .iter()
            .flat_map(move |process| process.locks.iter().map(move |lock| (side, lock)))
    })
}

/// Those first of which most more, or less, was lost.
fn by_change<K, V>(pairs: Pairs<K, V>, lost: fn(&V) -> u64) -> Vec<(K, [V; 2])> {
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_by_key(|(_, [before, after])| Reverse(lost(before).abs_diff(lost(after))));
    pairs
}

fn table(places: Vec<((&str, String), [u64; 2])>, width: Option<usize>) -> String {
    let mut table = Table::new([
        Column::figure(format!("lost: {}", WAYS[0])),
        Column::figure(WAYS[1]),
        Column::place("lock"),
        Column::place("at"),
    ]);
    for ((lock, place), [before, after]) in places.into_iter().take(LOCKS) {
        table.row([time(before), time(after), lock.to_owned(), place]);
    }
    table.titled(
        "where the locks were released that were held meanwhile, the largest change first",
        "at: what released the lock, in the program itself",
        width,
    )
}
