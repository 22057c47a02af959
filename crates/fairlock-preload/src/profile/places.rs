//! Where threads have waited for a lock, or held it meanwhile.

use core::sync::atomic::{AtomicU32, Ordering};

use fairlock_profile::layout::{ChunkKind, PlaceEntry};

use super::records::Records;
use crate::process::index::{Index, mix};

// Relaxed throughout: statistics.
const RELAXED: Ordering = Ordering::Relaxed;

static PLACES: Records<PlaceEntry> = Records::new(ChunkKind::Places, 16);
static INDEX: Index = Index::new(|number| place(number).map_or(0, hash));

pub(super) fn forget() {
    PLACES.forget();
    INDEX.forget();
}

/// A lock's number plus one, a stack, and in which way the lock was waited for or held there.
type Place = [u32; 3];

fn parts(place: &PlaceEntry) -> [&AtomicU32; 3] {
    [&place.lock, &place.stack, &place.side]
}

fn place(number: u32) -> Option<Place> {
    PLACES.get(number).map(|place| parts(place).map(|part| part.load(RELAXED)))
}

pub(super) fn hash(place: Place) -> u64 {
    place.iter().fold(0, |hash, &part| mix(hash, part.into()))
}

/// The entry that counts at this place.
pub(super) fn find(wanted: Place) -> Option<&'static PlaceEntry> {
    let is_it = |number| place(number) == Some(wanted);
    let found = INDEX.find_or_add(hash(wanted), is_it, || {
        let (number, new) = PLACES.add()?;
        parts(new).iter().zip(wanted).for_each(|(part, value)| part.store(value, RELAXED));
        Some(number)
    });
    found.and_then(|(number, _)| PLACES.get(number))
}
