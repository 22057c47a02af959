//! What happens next: a queue of events, in order of time and then of arrival.

use crate::queue::{Entry, Queue};
use crate::timers::Timers;

/// Something that happens at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A thread's operation is done.
    Operation(u32),
    /// A thread's timer expires.
    Timer(u32),
    /// A woken task of a level reaches its CPU.
    Arrive(usize, u32),
    /// A CPU of a level should look whether another task is due.
    Tick(usize, u32),
    /// The host takes a CPU away.
    Steal(u32),
    /// The host gives a CPU back.
    Return(u32),
    /// Threads are asked to end.
    Stop,
    /// A look whether anybody gets anything done.
    Watch,
}

/// Names one event in the queue, so that it can be told later whether that is still the one waited
/// for. Zero names none.
pub(crate) type Ticket = u64;

/// The queue. A ticket has the order of arrival in its upper bits, and the event in its
/// lower ones.
pub(crate) struct Events {
    /// All but timers, which are many and seldom expire.
    queue: Queue,
    timers: Timers,
    /// The first of both.
    first: Entry,
    /// How many events have been pushed, shifted to its place in a ticket.
    arrivals: u64,
}

const KIND_BITS: u32 = 4;
const INDEX_BITS: u32 = 20;
const EVENT_BITS: u32 = KIND_BITS + INDEX_BITS;

impl Events {
    /// Threads and CPUs are fewer than this.
    pub(crate) const MOST: usize = 1 << INDEX_BITS;

    /// A queue for this many threads.
    pub(crate) fn new(threads: usize) -> Self {
        Self { queue: Queue::new(), timers: Timers::new(threads), first: Entry::NEVER, arrivals: 0 }
    }

    fn entry(&mut self, time: u64, event: Event) -> Entry {
        self.arrivals += 1 << EVENT_BITS;
        Entry { time, ticket: self.arrivals | encode(event) }
    }

    #[inline]
    pub(crate) fn push(&mut self, time: u64, event: Event) -> Ticket {
        let entry = self.entry(time, event);
        self.queue.push(entry);
        self.first = self.first.min(entry);
        entry.ticket
    }

    /// Sets the timer of a thread, in place of an earlier one.
    pub(crate) fn set_timer(&mut self, thread: u32, time: u64) {
        let entry = self.entry(time, Event::Timer(thread));
        self.timers.set(thread, entry);
        self.find_first();
    }

    /// Takes the timer of a thread back, if it has one.
    pub(crate) fn cancel_timer(&mut self, thread: u32) {
        self.timers.set(thread, Entry::NEVER);
        self.find_first();
    }

    #[inline]
    fn find_first(&mut self) {
        self.first = self.queue.first().unwrap_or(Entry::NEVER).min(self.timers.earliest());
    }

    pub(crate) fn has_timer(&self, thread: u32) -> bool {
        self.timers.of(thread) != Entry::NEVER
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u64, Ticket, Event)> {
        let Entry { time, ticket } = self.first;
        if ticket == Entry::NEVER.ticket {
            return None;
        }
        let event = decode(ticket);
        if let Event::Timer(thread) = event {
            self.cancel_timer(thread);
        } else {
            self.queue.pop();
            self.find_first();
        }
        Some((time, ticket, event))
    }

    /// Whether nothing happens up to and including `time`.
    #[inline]
    pub(crate) fn none_until(&self, time: u64) -> bool {
        time < self.first.time
    }
}

fn encode(event: Event) -> u64 {
    let (kind, index) = match event {
        Event::Operation(thread) => (0, thread),
        Event::Timer(thread) => (1, thread),
        Event::Arrive(level, task) => (2 + level as u64, task),
        Event::Tick(level, cpu) => (4 + level as u64, cpu),
        Event::Stop => (6, 0),
        Event::Watch => (7, 0),
        Event::Steal(cpu) => (8, cpu),
        Event::Return(cpu) => (9, cpu),
    };
    kind << INDEX_BITS | u64::from(index)
}

fn decode(ticket: Ticket) -> Event {
    let index = (ticket & ((1 << INDEX_BITS) - 1)) as u32;
    match (ticket >> INDEX_BITS) & ((1 << KIND_BITS) - 1) {
        0 => Event::Operation(index),
        1 => Event::Timer(index),
        kind @ (2 | 3) => Event::Arrive(kind as usize - 2, index),
        kind @ (4 | 5) => Event::Tick(kind as usize - 4, index),
        6 => Event::Stop,
        7 => Event::Watch,
        8 => Event::Steal(index),
        _ => Event::Return(index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_in_order_of_arrival() {
        let all = [
            Event::Operation(7),
            Event::Arrive(0, 3),
            Event::Arrive(1, Events::MOST as u32 - 1),
            Event::Tick(0, 0),
            Event::Tick(1, 2),
            Event::Steal(3),
            Event::Return(Events::MOST as u32 - 1),
            Event::Stop,
            Event::Watch,
        ];
        let mut events = Events::new(8);
        let late: Vec<_> = all.iter().map(|&event| events.push(20, event)).collect();
        let early: Vec<_> = all.iter().map(|&event| events.push(10, event)).collect();
        assert!(events.none_until(9) && !events.none_until(10));
        for (time, tickets) in [(10, early), (20, late)] {
            for (ticket, event) in tickets.into_iter().zip(all) {
                assert_eq!(events.pop(), Some((time, ticket, event)));
            }
        }
        assert_eq!(events.pop(), None);
    }

    #[test]
    fn a_timer_expires_among_the_other_events_unless_it_is_taken_back() {
        let mut events = Events::new(3);
        let first = events.push(10, Event::Stop);
        events.set_timer(0, 10);
        events.set_timer(1, 9);
        events.set_timer(2, 5);
        let last = events.push(10, Event::Watch);
        assert!(events.none_until(4) && !events.none_until(5));
        events.set_timer(2, 11); // in the place of the other
        events.cancel_timer(1);
        assert!(events.has_timer(0) && !events.has_timer(1));
        assert!(events.none_until(9) && !events.none_until(10));

        assert_eq!(events.pop(), Some((10, first, Event::Stop)));
        let timer = events.pop();
        assert!(matches!(timer, Some((10, _, Event::Timer(0)))), "{timer:?}");
        assert!(!events.has_timer(0));
        assert_eq!(events.pop(), Some((10, last, Event::Watch)));
        let timer = events.pop();
        assert!(matches!(timer, Some((11, _, Event::Timer(2)))), "{timer:?}");
        assert_eq!(events.pop(), None);
    }
}
