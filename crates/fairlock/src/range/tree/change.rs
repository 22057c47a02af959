//! What holders do under the tree lock: leave, and change what they hold. Waiters in the tree that
//! this lets in are granted their ranges. If a waiter in the tree may count a slot, the slot has an
//! entry there, which is removed or changed together with it (see `enter`).

use core::sync::atomic::Ordering;

use super::queue::Queue;
use super::{Id, NIL};
use crate::platform::{Atomic, PooledPlatform};
use crate::range::slots::word::{Flags, Packed, SLOTS, SlotBits};
use crate::range::span::Span;
use crate::range::{Core, HeldIn, Hold};
use crate::wait::{Kind, WakeList};

impl<P: PooledPlatform> Core<P> {
    /// Gives back a range that is in the tree.
    pub(in crate::range) fn release_node(&self, id: Id) {
        self.with_queue_and_wakes(|q, wakes| q.remove(id, wakes));
    }

    /// A slot was left that somebody in the tree may count.
    #[cold]
    #[inline(never)]
    pub(in crate::range) fn tell_that_slot_was_left(&self, slot: usize) {
        self.with_queue_and_wakes(|q, wakes| {
            // If the slot was taken again since, and entered into the tree by a thread that saw
            // that, it is seen here too. Acquire: that holder may have left as well, and then this
            // takes its entry out.
            let seat = self.seat(slot);
            if seat.word.load(Ordering::Acquire).has_slot(seat.index) {
                return;
            }
            let node = q.take_moved(slot);
            if node != NIL {
                q.remove(node, wakes);
            }
        });
    }

    /// Turns the writer in a slot, which somebody in the tree may count, into a reader.
    #[inline(never)]
    pub(in crate::range) fn downgrade_slot_queued(&self, slot: usize, span: Span) {
        self.with_queue_and_wakes(|q, wakes| {
            let node = q.moved(slot);
            if node != NIL {
                let (ranges, granted) = q.granting(wakes);
                ranges.downgrade(node, granted);
            }
            let seat = self.seat(slot);
            // Release: the readers let in see what was written.
            seat.word.downgrade(seat.index, Ordering::Release);
            q.note_left(span);
        });
    }

    /// Turns a writer in the tree into a reader.
    pub(in crate::range) fn downgrade_node(&self, id: Id, span: Span) {
        self.with_queue_and_wakes(|q, wakes| {
            q.note_left(span);
            let (ranges, granted) = q.granting(wakes);
            ranges.downgrade(id, granted);
        });
    }

    /// Gives up all of a held range but `span`. Returns the new name of the hold.
    pub(in crate::range) fn shrink_hold(
        &self,
        hold: Hold,
        from: Span,
        span: Span,
        kind: Kind,
    ) -> Hold {
        self.with_queue_and_wakes(|q, wakes| {
            let id = self.move_to_tree(q, hold, from, kind, wakes);
            q.note_left(from);
            let (ranges, granted) = q.granting(wakes);
            ranges.shrink(id, span, granted);
            Hold::node(id)
        })
    }

    /// Splits a held range before `mid`.
    pub(in crate::range) fn split_hold(
        &self,
        hold: Hold,
        span: Span,
        kind: Kind,
        mid: u64,
    ) -> [Hold; 2] {
        self.with_queue_and_wakes(|q, wakes| {
            let id = self.move_to_tree(q, hold, span, kind, wakes);
            [Hold::node(id), Hold::node(q.ranges.split(id, mid))]
        })
    }

    /// Moves what is held in slots to the tree for good.
    fn move_to_tree(
        &self,
        q: &mut Queue<P>,
        hold: Hold,
        span: Span,
        kind: Kind,
        wakes: &mut WakeList<P>,
    ) -> Id {
        match hold.place() {
            HeldIn::Node(id) => id,
            HeldIn::Slot(slot) | HeldIn::Striped(slot) => {
                self.move_slot_to_tree(q, slot, span, kind, wakes)
            }
            HeldIn::Pair(first, second) => {
                // Relaxed: the slot is the caller's own.
                let high = Packed(self.seat(second).packed.load(Ordering::Relaxed)).span();
                let (low, high) = span.split_before(high.start());
                let id = self.move_slot_to_tree(q, first, low, kind, wakes);
                let second = self.move_slot_to_tree(q, second, high, kind, wakes);
                q.ranges.join(id, second);
                id
            }
            HeldIn::Gate => unreachable!("a hold by the gate was exchanged before"),
        }
    }

    fn move_slot_to_tree(
        &self,
        q: &mut Queue<P>,
        slot: usize,
        span: Span,
        kind: Kind,
        wakes: &mut WakeList<P>,
    ) -> Id {
        let id = match q.take_moved(slot) {
            NIL => {
                // Cannot fail: the lock is not taken as a whole while a slot is.
                let _ = self.publish(q, span, Flags::TREE);
                let _ = self.striped.close_for(q, span, |_, _, _| Ok(()));
                q.ranges.insert_held(span, kind, 0, 0)
            }
            // The slot may have been entered when its range could not be read.
            id => {
                q.note_left(q.ranges.span(id));
                let (ranges, granted) = q.granting(wakes);
                ranges.shrink(id, span, granted);
                id
            }
        };
        // A thread that looks at the slot from here on finds it empty, then left, and then looks at
        // the tree, which it could not do before the slot was left.
        if slot < SLOTS {
            self.slots[slot].store(0, Ordering::Relaxed);
            self.word.leave(SlotBits::new(slot, kind), Ordering::Release);
        } else {
            self.leave_seat(slot, kind);
        }
        id
    }
}
