//! Threads that wait for each other.

use std::collections::HashMap;

use crate::snapshot::document::{OfThread, Owner};

/// All circles of threads each of which waits for what the next one holds. The threads were looked at one after
/// the other: `has_slept` says whether one has slept since. If all of a circle have, they slept at the same time.
pub fn find(threads: &[OfThread], has_slept: impl Fn(u32) -> bool) -> Vec<Vec<u32>> {
    let next = |thread: &OfThread| match thread.waits.as_ref()?.owner {
        Owner::Thread(tid) | Owner::Perhaps(tid) => Some((thread.tid, tid)),
        _ => None,
    };
    let next: HashMap<u32, u32> = threads.iter().filter_map(next).collect();
    let mut circles: Vec<Vec<u32>> = Vec::new();
    for thread in threads {
        let mut way = vec![thread.tid];
        while let Some(&tid) = way.last().and_then(|tid| next.get(tid)) {
            if let Some(begin) = way.iter().position(|&it| it == tid) {
                let circle = &way[begin..];
                if !circles.iter().any(|known| known.contains(&tid)) {
                    circles.push(circle.to_vec());
                }
                break;
            }
            way.push(tid);
        }
    }
    circles.retain(|circle| circle.iter().all(|&tid| has_slept(tid)));
    circles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::document::OfWait;

    fn thread(tid: u32, owner: Option<Owner>) -> OfThread {
        OfThread {
            tid,
            name: String::new(),
            state: 'S',
            system_call: None,
            arguments: Vec::new(),
            in_kernel: None,
            asleep_ns: None,
            waits: owner.map(|owner| OfWait {
                kind: "mutex".to_owned(),
                name: String::new(),
                address: None,
                timed: false,
                owner,
                waited_ns: None,
                held_ns: None,
            }),
            holds: Vec::new(),
            stack: Vec::new(),
        }
    }

    #[test]
    fn each_circle_is_found_once_and_what_leads_there_is_not_in_it() {
        let waits = |tid, owner| thread(tid, Some(Owner::Thread(owner)));
        let threads = [
            waits(1, 2),
            waits(2, 3),
            waits(3, 4),
            waits(4, 2),
            waits(5, 5),
            waits(6, 7),
            thread(7, None),
            thread(8, Some(Owner::Ended(1))),
            thread(9, Some(Owner::Perhaps(10))),
            waits(10, 9),
        ];
        let circles = vec![vec![2, 3, 4], vec![5], vec![9, 10]];
        assert_eq!(find(&threads, |_| true), circles);
    }

    #[test]
    fn threads_that_have_run_meanwhile_are_in_no_deadlock() {
        let threads = [thread(1, Some(Owner::Thread(2))), thread(2, Some(Owner::Thread(1)))];
        assert!(find(&threads, |tid| tid == 1).is_empty());
    }
}
