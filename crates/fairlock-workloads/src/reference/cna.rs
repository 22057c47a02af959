//! The compact NUMA-aware lock (Dice and Kogan, 2019), after its description: an MCS queue whose
//! holder hands the lock to the next waiter of its own socket, and moves those before that one to a
//! second queue. That queue goes first when nobody of the socket waits, and once in a while.

use core::sync::atomic::Ordering;

use fairlock::platform::Atomic;

use super::Asks;
use super::mcs::{GRANTED, Node, Style, WAITING};

/// How often the lock is handed on in one socket while the second queue waits: as often as the
/// publication has it on average, where that is random.
const MOST: u32 = 0x1_0000;

/// A node's part of it. A node's `turn` is the address of the first node of the second queue, if
/// there is one, once the lock is granted. Relaxed throughout, as the nodes' links are
/// published by those who store them, and read by the holder only.
pub struct Near<P: Asks> {
    /// Plus one; zero if not known.
    socket: P::AtomicUsize,
    /// In the first node of the second queue: the address of the last one.
    last: P::AtomicUsize,
    /// How often the lock has been handed on in the socket.
    times: P::AtomicU32,
}

impl<P: Asks> Default for Near<P> {
    fn default() -> Self {
        let [socket, last] = [(); 2].map(|()| P::AtomicUsize::new(0));
        Self { socket, last, times: P::AtomicU32::new(0) }
    }
}

/// The first node of the second queue; zero if there is none.
fn aside<P: Asks>(node: &Node<P, Near<P>>) -> usize {
    Some(node.turn.load(Ordering::Relaxed)).filter(|&turn| turn != GRANTED).unwrap_or(WAITING)
}

/// The node at `address`.
///
/// # Safety
/// As [`Node::at`].
unsafe fn at<'a, P: Asks>(address: usize) -> &'a Node<P, Near<P>> {
    // SAFETY: the caller's promise.
    unsafe { Node::at(address) }
}

/// Appends `next` to the second queue.
///
/// # Safety
/// Both are addresses of waiting threads' nodes, and `first` that of the second queue's first.
unsafe fn append<P: Asks>(first: usize, next: usize) {
    // SAFETY: the caller's promise, and what is in the second queue waits.
    unsafe { at::<P>(at::<P>(first).style.last.load(Ordering::Relaxed)) }
        .next
        .store(next, Ordering::Relaxed);
}

/// The first waiter of the holder's socket, if there is one; those before it are moved to the second
/// queue, which then begins with the second address.
///
/// # Safety
/// `next` is the address of the node behind the holder's, `node`.
unsafe fn nearest<P: Asks>(node: &Node<P, Near<P>>, next: usize) -> Option<(usize, usize)> {
    let of = |node: &Node<P, Near<P>>| node.style.socket.load(Ordering::Relaxed);
    let own = Some(of(node)).filter(|&socket| socket != 0).unwrap_or_else(|| P::socket() + 1);
    let (mut before, mut near) = (0, next);
    // SAFETY: those in the queue wait for the holder.
    while of(unsafe { at::<P>(near) }) != own {
        before = near;
        // Acquire: the next node is seen as its thread has published it. SAFETY: as above.
        near = unsafe { at::<P>(near) }.next.load(Ordering::Acquire);
        if near == 0 {
            return None;
        }
    }
    let mut first = aside(node);
    if before != 0 {
        // SAFETY: as above; these are in the second queue from here on.
        unsafe {
            at::<P>(before).next.store(0, Ordering::Relaxed);
            if first == 0 {
                first = next
            } else {
                append::<P>(first, next)
            }
            at::<P>(first).style.last.store(before, Ordering::Relaxed);
        }
    }
    Some((near, first))
}

impl<P: Asks> Style<P> for Near<P> {
    fn queue(&self) {
        self.socket.store(P::socket() + 1, Ordering::Relaxed);
    }

    unsafe fn end_queue(node: &Node<P, Self>, tail: &P::AtomicUsize) -> bool {
        match aside(node) {
            0 => node.ends_with(tail, 0),
            first => {
                // SAFETY: what is in the second queue waits, until this release.
                let first = unsafe { at::<P>(first) };
                let is_last = node.ends_with(tail, first.style.last.load(Ordering::Relaxed));
                if is_last {
                    first.grant();
                }
                is_last
            }
        }
    }

    unsafe fn hand_on(node: &Node<P, Self>, next: usize) {
        let times = node.style.times.load(Ordering::Relaxed);
        // SAFETY: the caller's promise.
        let near = (times < MOST).then(|| unsafe { nearest(node, next) }).flatten();
        if let Some((near, first)) = near {
            // SAFETY: it waits, until it is granted the lock.
            let near = unsafe { at::<P>(near) };
            near.style.times.store(if first == 0 { 0 } else { times + 1 }, Ordering::Relaxed);
            // Release: the section, and what was done to the queues, happen before the next one.
            return near.turn.store(if first == 0 { GRANTED } else { first }, Ordering::Release);
        }
        let first = match aside(node) {
            0 => next,
            first => {
                // SAFETY: these wait.
                unsafe { append::<P>(first, next) };
                first
            }
        };
        // SAFETY: as above; then its node may be gone.
        unsafe { at::<P>(first) }.grant();
    }
}
