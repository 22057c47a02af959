//! Entries of one kind by their numbers, in chunks of the file.

use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use fairlock_profile::layout::{Chunk, ChunkKind};

use super::file;
use crate::process::mutex::Mutex;

/// This many chunks have each twice as many entries as the one before. All others have as many as
/// the last of these, so that nobody waits for a large one to be made.
const DOUBLING: u32 = 8;
const CHUNKS: usize = 4096;

pub(super) struct Records<T> {
    kind: ChunkKind,
    /// How many entries the first chunk has: a power of two.
    first: u32,
    len: AtomicU32,
    chunks: [AtomicPtr<Chunk>; CHUNKS],
    making: Mutex,
    entries: PhantomData<T>,
}

// SAFETY: entries are atomic numbers.
unsafe impl<T> Sync for Records<T> {}

impl<T> Records<T> {
    pub(super) const fn new(kind: ChunkKind, first: u32) -> Self {
        assert!(first.is_power_of_two());
        Self {
            kind,
            first,
            len: AtomicU32::new(0),
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            making: Mutex::new(),
            entries: PhantomData,
        }
    }

    /// Forgets all entries: a new process's file has none.
    pub(super) fn forget(&self) {
        self.len.store(0, Ordering::Relaxed);
        // They follow each other without a gap.
        for chunk in &self.chunks {
            if chunk.swap(ptr::null_mut(), Ordering::Relaxed).is_null() {
                break;
            }
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    /// Adds an entry, all zeros; `None` if there is no room.
    pub(super) fn add(&self) -> Option<(u32, &'static T)> {
        loop {
            let number = self.len.load(Ordering::Relaxed);
            let (index, place) = self.locate(number);
            // Before the number is given: chunks follow each other without a gap, also in a file
            // that had no room for a while.
            let chunk = self.chunk(index, number - place)?;
            let next = number.checked_add(1)?;
            // Relaxed: the number orders nothing but numbers.
            if self.len.compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                chunk.used.fetch_max(place + 1, Ordering::Relaxed);
                return Some((number, self.get(number)?));
            }
        }
    }

    /// The entry of this number, of a kind that counts none; all zeros at first. `None` if there is no room.
    pub(super) fn have(&self, number: u32) -> Option<&'static T> {
        let (index, place) = self.locate(number);
        self.chunk(index, number - place)?;
        self.get(number)
    }

    /// The chunk of this index, whose first entry has the number `first`. Makes it if there is none.
    fn chunk(&self, index: usize, first: u32) -> Option<&'static Chunk> {
        let link = self.chunks.get(index)?;
        let find = || {
            // SAFETY: null, or a chunk, which stays. Acquire: its header is written.
            unsafe { link.load(Ordering::Acquire).as_ref() }
        };
        find().or_else(|| {
            let _guard = self.making.lock();
            find().or_else(|| {
                let capacity = self.capacity(index);
                let new = file::add_chunk(self.kind, size_of::<T>(), first, capacity)?;
                // Release: a thread that finds the chunk finds its header.
                link.store(ptr::from_ref(new).cast_mut(), Ordering::Release);
                Some(new)
            })
        })
    }

    /// The entry of this number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&'static T> {
        let (index, place) = self.locate(number);
        let chunk = self.chunks.get(index)?.load(Ordering::Acquire);
        // SAFETY: a chunk with room for more than `place` entries behind its header.
        (!chunk.is_null()).then(|| unsafe { &*chunk.add(1).cast::<T>().add(place as usize) })
    }

    fn capacity(&self, chunk: usize) -> u32 {
        self.first << (chunk as u32).min(DOUBLING - 1)
    }

    /// The chunk of an entry, and its place there.
    #[inline]
    fn locate(&self, number: u32) -> (usize, u32) {
        let doubling = self.first * ((1 << DOUBLING) - 1);
        if number < doubling {
            let chunk = (number / self.first + 1).ilog2();
            return (chunk as usize, number - self.first * ((1 << chunk) - 1));
        }
        let (rest, each) = (number - doubling, self.first << (DOUBLING - 1));
        ((DOUBLING + rest / each) as usize, rest % each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let records = Records::<u64>::new(ChunkKind::Locks, 8);
        let (mut chunk, mut place) = (0, 0);
        for number in 0..100_000 {
            assert_eq!(records.locate(number), (chunk, place));
            place += 1;
            if place == records.capacity(chunk) {
                (chunk, place) = (chunk + 1, 0);
            }
        }
    }

    /// It would leave a gap, which a reader takes for damage; and after 2^32 of them the numbers would
    /// begin anew.
    #[test]
    fn an_attempt_without_room_takes_no_number() {
        let records = Records::<u64>::new(ChunkKind::Locks, 8);
        assert!((0..3).all(|_| records.add().is_none()), "this process has no file");
        assert_eq!(records.len(), 0);
    }
}
