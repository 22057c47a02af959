//! Where threads have waited for a lock, or held it meanwhile.

use core::sync::atomic::Ordering;

use fairlock_profile::layout::{ChunkKind, PlaceEntry};

use super::index::{Entries, Index, mix};
use super::records::Records;

// Relaxed throughout: statistics.
const RELAXED: Ordering = Ordering::Relaxed;

static PLACES: Records<PlaceEntry> = Records::new(ChunkKind::Places, 16);
static INDEX: Index = Index::new();

pub(super) fn forget() {
    PLACES.forget();
    INDEX.forget();
}

/// A lock's number plus one, a stack, and in which way the lock was waited for or held there.
struct AtPlace([u32; 3]);

impl AtPlace {
    fn of(place: &PlaceEntry) -> [u32; 3] {
        [&place.lock, &place.stack, &place.side].map(|part| part.load(RELAXED))
    }
}

pub(super) fn hash(place: [u32; 3]) -> u64 {
    place.iter().fold(0, |hash, &part| mix(hash, part.into()))
}

impl Entries for AtPlace {
    fn hash(&self, number: u32) -> u64 {
        PLACES.get(number).map_or(0, |place| hash(Self::of(place)))
    }

    fn is_it(&self, number: u32) -> bool {
        PLACES.get(number).is_some_and(|place| Self::of(place) == self.0)
    }
}

/// The entry that counts at this place: a lock's number plus one, a stack, and a side.
pub(super) fn find(place: [u32; 3]) -> Option<&'static PlaceEntry> {
    let found = INDEX.find_or_add(hash(place), &AtPlace(place), || {
        let (number, new) = PLACES.add()?;
        let all = [&new.lock, &new.stack, &new.side];
        all.iter().zip(place).for_each(|(part, value)| part.store(value, RELAXED));
        Some(number)
    });
    found.and_then(|(number, _)| PLACES.get(number))
}
