//! From where a thread called: its stack.
//!
//! To unwind a stack takes microseconds; to look whether it is a known one takes some tens of
//! nanoseconds. A thread remembers for its stacks where the stack pointer was, where the return
//! addresses were, and what they were. If all of them are there again, it is the same stack. Another stack may be
//! there by now, which ends sooner (a coroutine's, or one with less from `alloca`): so a page that was not read yet
//! is first read by the kernel, which does not crash.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use fairlock_profile::layout::{Chunk, ChunkKind, DEEPEST, STACK, StackEntry, frame};

use super::file;
use super::modules;
use crate::process::index::{Index, mix};
use crate::process::memory;
use crate::process::mutex::Mutex;
use crate::process::unwinder::{self, Context, END, GO_ON, Unwinder};

/// How many frames of this library there may be above the caller's.
const OWN: usize = 16;
const FRAMES: usize = DEEPEST + OWN;

/// Called when the library is loaded.
pub(super) fn start() {
    // What libgcc calls is looked up by the loader the first time, which takes some KiB of stack: more than a small
    // thread has.
    unwinder::get().map(unwind);
}

/// A frame: where its return address is, and what it is.
#[derive(Clone, Copy)]
struct Frame {
    place: usize,
    address: usize,
}

/// A stack that was found.
struct Found {
    unwinder: &'static Unwinder,
    frames: [MaybeUninit<Frame>; FRAMES],
    len: usize,
    /// Whether each return address is where a call leaves it.
    whole: bool,
}

impl Found {
    fn frames(&self) -> &[Frame] {
        // SAFETY: that many frames have been written.
        unsafe { core::slice::from_raw_parts(self.frames.as_ptr().cast(), self.len) }
    }
}

/// The stacks that a thread remembers, as a tree: after the stack pointer, and after each return
/// address, comes whatever has been the next return address there. Where that is depends on what was
/// passed on the way, and on nothing else as long as frames have a fixed size.
pub(super) struct Memory {
    /// A table with open addressing; null at first.
    nodes: Cell<*const Cell<Node>>,
    len: Cell<usize>,
    /// How often code had been unloaded.
    unloads: Cell<u32>,
}

/// A return address, or the stack pointer at the root.
#[derive(Clone, Copy)]
struct Node {
    /// Zero: there is no node at this place of the table.
    address: usize,
    /// Where in the table the node before it is, and one; zero: this is a root.
    before: u32,
    /// The number of the stack that ends here; zero: it goes on.
    stack: u32,
    /// Where the next return address is.
    next: usize,
}

/// How many nodes there is room for. When they are too many, all are forgotten.
const NODES: usize = 2048;
const FULL: usize = NODES / 4 * 3;

impl Memory {
    pub(super) const fn new() -> Self {
        Self { nodes: Cell::new(ptr::null()), len: Cell::new(0), unloads: Cell::new(0) }
    }

    /// Forgets all stacks: for a new process, or another thread.
    pub(super) fn forget(&self) {
        if self.len.replace(0) > 0 {
            self.nodes().iter().for_each(|node| node.set(FREE));
        }
    }

    /// No nodes if there is no memory yet.
    fn nodes(&self) -> &[Cell<Node>] {
        let nodes = self.nodes.get();
        // SAFETY: mapped by `make_room` for so many nodes, and never given back; zeros are free nodes.
        if nodes.is_null() { &[] } else { unsafe { core::slice::from_raw_parts(nodes, NODES) } }
    }

    fn make_room(&self, frames: usize) -> bool {
        if self.nodes.get().is_null() {
            let Some(memory) = memory::map(size_of::<[Node; NODES]>()) else { return false };
            self.nodes.set(memory.as_ptr().cast());
        }
        if self.len.get() + frames > FULL {
            self.forget();
        }
        true
    }

    /// The number of the stack that leads here; zero if there is none.
    #[inline(never)]
    pub(super) fn here(&self) -> u32 {
        let Some(unwinder) = unwinder::get() else { return 0 };
        let unloads = modules::unloads();
        if self.unloads.replace(unloads) != unloads {
            self.forget();
        }
        let pointer: usize;
        // SAFETY: reads a register.
        unsafe { core::arch::asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack)) };
        if let Some(number) = self.recall(pointer) {
            return number;
        }
        if is_on_signal_stack() { 0 } else { self.find(unwinder, pointer) }
    }

    /// Unwinds the stack of a caller with this stack pointer.
    #[cold]
    #[inline(never)] // its frame is large, and not for signal stacks
    fn find(&self, unwinder: &'static Unwinder, pointer: usize) -> u32 {
        let found = unwind(unwinder);
        let number = record(found.frames());
        if found.whole && number != 0 {
            self.remember(pointer, &found, number);
        }
        number
    }

    /// The number of the stack that leads to a caller with this stack pointer, if it is remembered.
    fn recall(&self, pointer: usize) -> Option<u32> {
        let nodes = self.nodes();
        let mut at = place(nodes, 0, pointer)?;
        let mut read = pointer;
        loop {
            let node = nodes[at].get();
            if node.address == 0 || node.stack != 0 {
                return (node.address != 0).then_some(node.stack);
            }
            if read / PAGE != node.next / PAGE && !is_readable(node.next) {
                return None;
            }
            read = node.next;
            // SAFETY: an aligned word of a page that the thread has just read, or that holds its stack pointer. The
            // page is part of the stack that the thread is on, or belongs to whoever could unmap it before this.
            let address = unsafe { (read as *const usize).read_volatile() };
            at = place(nodes, at + 1, address)?;
        }
    }

    fn remember(&self, pointer: usize, found: &Found, number: u32) {
        if !self.make_room(1 + found.len) {
            return;
        }
        let mut at = self.node(0, pointer);
        // The call of the unwinder is below the stack pointer, where anything may be later.
        for frame in found.frames().iter().filter(|frame| frame.place >= pointer) {
            let node = &self.nodes()[at];
            node.set(Node { next: frame.place, stack: 0, ..node.get() });
            at = self.node(at + 1, frame.address);
        }
        let node = &self.nodes()[at];
        node.set(Node { stack: number, ..node.get() });
    }

    /// Where the node is, which is made if it is not there. There has to be room.
    fn node(&self, before: usize, address: usize) -> usize {
        let nodes = self.nodes();
        let at = place(nodes, before, address).unwrap_or_default();
        if nodes[at].get().address == 0 {
            self.len.set(self.len.get() + 1);
            nodes[at].set(Node { address, before: before as u32, ..FREE });
        }
        at
    }
}

const PAGE: usize = 4096;

/// Whether a word can be read, by a system call that reads it and then fails. `errno` is as before.
fn is_readable(address: usize) -> bool {
    let to_nothing: usize = usize::MAX;
    let result: isize;
    // SAFETY: it changes no signal mask, as there is no such way to change one.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_rt_sigprocmask as isize => result,
            in("rdi") to_nothing,
            in("rsi") address,
            in("rdx") 0,
            in("r10") size_of::<u64>(),
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result != -(libc::EFAULT as isize)
}

const FREE: Node = Node { address: 0, before: 0, stack: 0, next: 0 };

/// Where in the table a node is, or a free place for it; `None` if there is no table.
fn place(nodes: &[Cell<Node>], before: usize, address: usize) -> Option<usize> {
    let first = mix(before as u64, address as u64) as usize;
    let places = (0..nodes.len()).map(|step| (first + step) % NODES);
    places.into_iter().find(|&at| {
        let node = nodes[at].get();
        node.address == 0 || (node.address, node.before) == (address, before as u32)
    })
}

fn unwind(unwinder: &'static Unwinder) -> Found {
    let frames = [MaybeUninit::uninit(); FRAMES];
    let mut found = Found { unwinder, frames, len: 0, whole: true };
    // SAFETY: `note` is called with what it takes.
    unsafe { (unwinder.backtrace)(note, (&raw mut found).cast()) };
    found
}

extern "C" fn note(context: *mut Context, found: *mut c_void) -> c_int {
    // SAFETY: `found` is what `here` gave to the unwinder, with the unwinder's context.
    let (found, address, signal, place) = unsafe {
        let found = &mut *found.cast::<Found>();
        let mut before = 0;
        let address = (found.unwinder.ip_info)(context, &mut before);
        let place = (found.unwinder.cfa)(context) - 8;
        (found, address, before != 0, place)
    };
    if address == 0 || found.len == FRAMES {
        return END;
    }
    // SAFETY: a word of the stack that is being unwound.
    found.whole &= !signal && unsafe { (place as *const usize).read_volatile() } == address;
    let mark = if signal { SIGNAL } else { 0 };
    found.frames[found.len].write(Frame { place, address: address | mark });
    found.len += 1;
    GO_ON
}

/// A mark: the address is not a return address, but where a signal interrupted.
const SIGNAL: usize = frame::SIGNAL as usize;

/// Whether the thread runs on a stack for signal handlers, which may be small.
pub(super) fn is_on_signal_stack() -> bool {
    // SAFETY: plain data, then it is written.
    unsafe {
        let mut stack: libc::stack_t = core::mem::zeroed();
        libc::sigaltstack(ptr::null(), &mut stack) == 0 && stack.ss_flags & libc::SS_ONSTACK != 0
    }
}

static INDEX: Index = Index::new(|number| hash(frames_of(number)));
/// Where the next stack goes, and how many bytes are left there. Used under the mutex.
static MUTEX: Mutex = Mutex::new();
static CHUNK: AtomicPtr<Chunk> = AtomicPtr::new(ptr::null_mut());
static LEFT: AtomicU32 = AtomicU32::new(0);
const CHUNK_BYTES: u32 = (PAGE - size_of::<Chunk>()) as u32;

pub(super) fn forget() {
    INDEX.forget();
    CHUNK.store(ptr::null_mut(), Ordering::Relaxed);
    LEFT.store(0, Ordering::Relaxed);
}

fn hash(frames: &[u64]) -> u64 {
    frames.iter().fold(0, |hash, &frame| mix(hash, frame))
}

/// A stack by its number: its place in the file divided by eight.
fn frames_of(number: u32) -> &'static [u64] {
    let entry: *const StackEntry = file::at(number as usize * 8);
    // SAFETY: a number that `add` has returned: such an entry is there, and does not change.
    unsafe { core::slice::from_raw_parts(entry.add(1).cast(), (*entry).depth as usize) }
}

/// The number of a stack.
fn record(frames: &[Frame]) -> u32 {
    let mut addresses = [0_u64; DEEPEST];
    let mut depth = 0;
    let unloads = u64::from(modules::unloads()) << frame::UNLOADS_SHIFT;
    let callers = frames.iter().skip_while(|frame| modules::is_own(frame.address));
    for (to, frame) in addresses.iter_mut().zip(callers) {
        *to = frame.address as u64 | unloads;
        depth += 1;
    }
    let addresses = &addresses[..depth];
    if addresses.is_empty() {
        return 0;
    }
    let is_it = |number| frames_of(number) == addresses;
    let found = INDEX.find_or_add(hash(addresses), is_it, || add(addresses));
    if let Some((_, true)) = found {
        modules::make_sure_of(addresses);
    }
    found.map_or(0, |(number, _)| number)
}

fn add(addresses: &[u64]) -> Option<u32> {
    let bytes = (size_of::<StackEntry>() + size_of_val(addresses)) as u32;
    let _guard = MUTEX.lock();
    // Relaxed: under the mutex.
    if LEFT.load(Ordering::Relaxed) < bytes {
        let chunk = file::add_chunk(ChunkKind::Stacks, 8, 0, CHUNK_BYTES / 8)?;
        CHUNK.store(ptr::from_ref(chunk).cast_mut(), Ordering::Relaxed);
        LEFT.store(CHUNK_BYTES, Ordering::Relaxed);
    }
    let left = LEFT.load(Ordering::Relaxed);
    // SAFETY: the chunk has that much room behind its header, and nobody else uses it.
    unsafe {
        let chunk = CHUNK.load(Ordering::Relaxed);
        let entry =
            chunk.add(1).cast::<u8>().add((CHUNK_BYTES - left) as usize).cast::<StackEntry>();
        entry.write(StackEntry { depth: addresses.len() as u32, mark: STACK });
        let to = entry.add(1).cast::<u64>();
        to.copy_from_nonoverlapping(addresses.as_ptr(), addresses.len());
        LEFT.store(left - bytes, Ordering::Relaxed);
        (*chunk).used.store((CHUNK_BYTES - left + bytes) / 8, Ordering::Relaxed);
        u32::try_from(file::offset(entry) / 8).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the stack that leads here is remembered. From now on it is.
    #[inline(never)]
    fn is_known(memory: &Memory) -> bool {
        let pointer: usize;
        // SAFETY: reads a register.
        unsafe { core::arch::asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack)) };
        let known = memory.recall(pointer);
        if known.is_none() {
            memory.remember(pointer, &unwind(unwinder::get().unwrap()), 7);
        }
        known == Some(7)
    }

    #[inline(never)]
    fn from_elsewhere(memory: &Memory) -> bool {
        core::hint::black_box(is_known(memory))
    }

    /// Whether the stack is known, each time from the same place, with `between` done after each.
    #[inline(never)]
    fn again_and_again(memory: &Memory, times: usize, mut between: impl FnMut(usize)) -> Vec<bool> {
        let mut known = Vec::with_capacity(times);
        while known.len() < times {
            known.push(is_known(memory));
            between(known.len());
        }
        known
    }

    #[test]
    fn a_stack_is_unwound_once() {
        unwinder::start();
        let memory = Memory::new();
        assert_eq!(again_and_again(&memory, 4, |_| ()), [false, true, true, true]);
        assert!(!from_elsewhere(&memory));
    }

    /// Many calls of one function have the same stack pointer.
    #[inline(never)]
    fn from_many_places(memory: &Memory) -> [bool; 8] {
        let known = || is_known(memory);
        [known(), known(), known(), known(), known(), known(), known(), known()]
    }

    #[test]
    fn stacks_that_begin_at_the_same_place_are_all_remembered() {
        unwinder::start();
        let memory = Memory::new();
        let mut known = Vec::new();
        let many = again_and_again(&memory, 3, |_| known.push(from_many_places(&memory)));
        assert_eq!(many, [false, true, true]);
        assert_eq!(known, [[false; 8], [true; 8], [true; 8]]);
    }

    #[test]
    fn stacks_that_are_too_many_are_forgotten() {
        unwinder::start();
        let memory = Memory::new();
        let known = again_and_again(&memory, 4, |times| {
            for pointer in (1..NODES).filter(|_| times == 2) {
                memory.remember(pointer, &unwind(unwinder::get().unwrap()), 7);
                assert!(memory.len.get() <= FULL);
            }
        });
        assert_eq!(known, [false, true, false, true]);
    }

    /// Another coroutine's stack is where a deeper one was: what was above it is gone.
    #[test]
    fn a_stack_that_has_become_shorter_is_not_read_past_its_end() {
        unwinder::start();
        let memory = Memory::new();
        let pages = memory::map(2 * PAGE).unwrap().as_ptr().addr();
        let pointer = pages + PAGE - 64;
        let mut found = unwind(unwinder::get().unwrap());
        found.len = 2;
        for (at, place) in [pages + PAGE - 16, pages + PAGE + 16].into_iter().enumerate() {
            let address = 0x1000 + at;
            found.frames[at].write(Frame { place, address });
            // SAFETY: in the pages mapped above.
            unsafe { (place as *mut usize).write(address) };
        }
        memory.remember(pointer, &found, 7);
        assert_eq!(memory.recall(pointer), Some(7));
        // SAFETY: nobody else uses it.
        let ended = unsafe { libc::mprotect((pages + PAGE) as *mut c_void, PAGE, libc::PROT_NONE) };
        assert_eq!(ended, 0);
        assert_eq!(memory.recall(pointer), None);
    }
}
