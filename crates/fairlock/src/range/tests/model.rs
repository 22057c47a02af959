//! The naive model: at every position a list of those that came for it, in order of arrival.
//! Whether a range may be had is decided position by position.

use crate::range::span::Span;
use crate::wait::Kind;

/// How many positions the model has. They stand for numbers that touch, and for both ends of what
/// there is.
pub(super) const POSITIONS: usize = 14;
/// How many of these are at the beginning.
pub(super) const NEAR: usize = POSITIONS - 4;

pub(super) fn number(position: usize) -> u64 {
    if position < NEAR { position as u64 } else { u64::MAX - (POSITIONS - 1 - position) as u64 }
}

/// First and last position. The gap in the middle belongs to the position below.
pub(super) type Places = (usize, usize);

pub(super) fn span((first, last): Places) -> Span {
    Span::closed(number(first), number(last))
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) name: usize,
    pub(super) places: Places,
    pub(super) kind: Kind,
    pub(super) held: bool,
}

/// All requests, in order of arrival.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) requests: Vec<Request>,
    next: usize,
}

impl Model {
    /// Whether somebody who came before `index` is in the way at any position.
    fn is_blocked(&self, places: Places, kind: Kind, index: usize) -> bool {
        (places.0..=places.1).any(|position| {
            let mut before = self.requests[..index]
                .iter()
                .filter(|other| (other.places.0..=other.places.1).contains(&position));
            match kind {
                Kind::Reader => before.any(|other| other.kind == Kind::Writer),
                Kind::Writer => before.next().is_some(),
            }
        })
    }

    pub(super) fn is_free(&self, places: Places, kind: Kind) -> bool {
        !self.is_blocked(places, kind, self.requests.len())
    }

    /// How many are in the way of a new request.
    pub(super) fn in_way(&self, places: Places, kind: Kind) -> usize {
        let positions = places.0..=places.1;
        let overlaps = |other: &&Request| {
            (other.places.0..=other.places.1).any(|position| positions.contains(&position))
        };
        let excludes = |other: &&Request| kind == Kind::Writer || other.kind == Kind::Writer;
        self.requests.iter().filter(overlaps).filter(excludes).count()
    }

    /// A request arrives; it is held at once if nobody is in the way.
    pub(super) fn ask(&mut self, places: Places, kind: Kind) -> usize {
        let held = self.is_free(places, kind);
        self.next += 1;
        self.requests.push(Request { name: self.next, places, kind, held });
        self.next
    }

    /// A reader arrives ahead of those that wait: only holders are in its way.
    pub(super) fn ask_ahead(&mut self, places: Places) -> usize {
        // A holder conflicts with no other holder, nor with those waiting before it: it might as
        // well have come before them.
        self.requests.sort_by_key(|request| !request.held);
        let holders = self.requests.iter().filter(|request| request.held).count();
        let held = !self.is_blocked(places, Kind::Reader, holders);
        self.next += 1;
        let request = Request { name: self.next, places, kind: Kind::Reader, held };
        self.requests.insert(holders, request);
        self.next
    }

    pub(super) fn find(&mut self, name: usize) -> &mut Request {
        self.requests.iter_mut().find(|r| r.name == name).unwrap()
    }

    /// Grants what can be granted; returns the names, sorted.
    fn grant(&mut self) -> Vec<usize> {
        let mut granted = Vec::new();
        for index in 0..self.requests.len() {
            let request = &self.requests[index];
            if !request.held && !self.is_blocked(request.places, request.kind, index) {
                self.requests[index].held = true;
                granted.push(self.requests[index].name);
            }
        }
        granted.sort_unstable();
        granted
    }

    /// Removes a request, held or waiting; returns whom that grants.
    pub(super) fn leave(&mut self, name: usize) -> Vec<usize> {
        self.requests.retain(|request| request.name != name);
        self.grant()
    }

    pub(super) fn downgrade(&mut self, name: usize) -> Vec<usize> {
        self.find(name).kind = Kind::Reader;
        self.grant()
    }

    pub(super) fn shrink(&mut self, name: usize, places: Places) -> Vec<usize> {
        self.find(name).places = places;
        self.grant()
    }

    /// Splits before `mid`; returns the name of the second part, which counts as having come when
    /// the first did.
    pub(super) fn split(&mut self, name: usize, mid: usize) -> usize {
        self.next += 1;
        let index = self.requests.iter().position(|r| r.name == name).unwrap();
        let mut second = self.requests[index].clone();
        second.name = self.next;
        second.places.0 = mid;
        self.requests[index].places.1 = mid - 1;
        self.requests.insert(index + 1, second);
        self.next
    }

    pub(super) fn names(&self, held: bool) -> Vec<usize> {
        self.requests.iter().filter(|r| r.held == held).map(|r| r.name).collect()
    }
}
