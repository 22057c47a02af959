//! A profile for `pprof`: contentions and delay, as Go's mutex profile has them.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use fairlock_profile::AtPlace;

use super::{Process, Profile, Seen};
use crate::Charge;
use crate::error::Error;
use crate::place::CodePlace;

/// A message of protocol buffers: of `profile.proto`, whose numbers of fields are given here.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn message(self, field: u64, of: &Self) -> Self {
        self.bytes(field, &of.0)
    }

    fn numbers(self, field: u64, values: impl IntoIterator<Item = u64>) -> Self {
        let mut packed = Self::default();
        values.into_iter().for_each(|value| packed.varint(value));
        self.message(field, &packed)
    }
}

/// Things that messages name by number, counted from zero.
struct Numbers<T>(HashMap<T, u64>);

impl<T: Hash + Eq> Numbers<T> {
    fn of(&mut self, thing: T) -> u64 {
        let next = self.0.len() as u64;
        *self.0.entry(thing).or_insert(next)
    }

    fn in_order(self) -> Vec<(T, u64)> {
        let mut all: Vec<_> = self.0.into_iter().collect();
        all.sort_unstable_by_key(|(_, number)| *number);
        all
    }
}

/// A stack, and what is to be counted there.
pub struct Sample {
    /// The innermost place first.
    pub stack: Vec<CodePlace>,
    /// As many as there are types.
    pub values: Vec<u64>,
    pub lock: String,
}

impl Profile {
    /// The profile, compressed.
    pub fn pprof(&self, charge: Charge) -> Result<Vec<u8>, Error> {
        let sample = |process: &Process, place: &AtPlace| {
            let lock = Seen::of(process, place.lock).name();
            let values = vec![place.count, place.waited_ns];
            Sample { stack: process.stack(place.stack), values, lock }
        };
        let of = |process| {
            let process: &Process = process;
            process.charged(charge).into_iter().map(move |place| sample(process, &place))
        };
        let began = self.processes.first().map_or(0, |process| process.record.began_unix_ns);
        let types = [("contentions", "count"), ("delay", "nanoseconds")];
        compressed(&types, self.processes.iter().flat_map(of), began)
    }
}

/// A profile of samples of these types, which have units; the first is for the period of the samples.
pub fn compressed(
    types: &[(&str, &str)],
    samples: impl IntoIterator<Item = Sample>,
    began_unix_ns: u64,
) -> Result<Vec<u8>, Error> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    let written =
        out.write_all(&proto(types, samples, began_unix_ns).0).and_then(|()| out.finish());
    written.map_err(|error| Error::failed(format!("cannot compress the profile: {error}")))
}

fn proto(
    types: &[(&str, &str)],
    samples: impl IntoIterator<Item = Sample>,
    began_unix_ns: u64,
) -> Message {
    // The first text of such a profile has to be the empty one.
    let mut texts = Numbers(HashMap::from([(String::new(), 0)]));
    let mut functions = Numbers(HashMap::new());
    let mut locations = Numbers(HashMap::new());
    let mut type_of = |&(what, unit): &(&str, &str)| {
        Message::default().number(1, texts.of(what.to_owned())).number(2, texts.of(unit.to_owned()))
    };
    let types: Vec<Message> = types.iter().map(&mut type_of).collect();
    let key = texts.of("lock".to_owned());
    let mut out = types.iter().fold(Message::default(), |out, of| out.message(1, of));
    for Sample { stack, values, lock } in samples {
        // Functions and locations are counted from one.
        let mut location = |place: &CodePlace| {
            let name = texts.of(place.function.clone());
            let file = texts.of(place.file.clone().unwrap_or_default());
            let function = 1 + functions.of((name, file));
            1 + locations.of((function, u64::from(place.line.unwrap_or(0))))
        };
        let stack: Vec<u64> = stack.iter().map(&mut location).collect();
        let most = i64::MAX as u64;
        let sample = Message::default()
            .numbers(1, stack)
            .numbers(2, values.into_iter().map(|value| value.min(most)))
            .message(3, &Message::default().number(1, key).number(2, texts.of(lock)));
        out = out.message(2, &sample);
    }
    for ((function, line), number) in locations.in_order() {
        let line = Message::default().number(1, function).number(2, line);
        out = out.message(4, &Message::default().number(1, 1 + number).message(4, &line));
    }
    for ((name, file), number) in functions.in_order() {
        let of = Message::default().number(1, 1 + number).number(2, name).number(3, name);
        out = out.message(5, &of.number(4, file));
    }
    for (text, _) in texts.in_order() {
        out = out.bytes(6, text.as_bytes());
    }
    out.number(9, began_unix_ns).message(11, &types[0]).number(12, 1)
}
