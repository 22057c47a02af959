//! A profile for `pprof`: contentions and delay, as Go's mutex profile has them.

use std::collections::HashMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::{Profile, Seen};
use crate::error::Error;
use crate::preload::Charge;
use crate::preload::place::Place;

/// `profile.proto`, as far as it is used here.
#[derive(Clone, PartialEq, Message)]
struct Proto {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// The profile, compressed.
pub fn profile(profile: &Profile, charge: Charge) -> Result<Vec<u8>, Error> {
    let bytes = proto(profile, charge).encode_to_vec();
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    let written = out.write_all(&bytes).and_then(|()| out.finish());
    written.map_err(|error| Error::failed(format!("cannot compress the profile: {error}")))
}

fn proto(profile: &Profile, charge: Charge) -> Proto {
    let mut out = Builder::default();
    // The first text of such a profile has to be the empty one.
    out.text("");
    let (contentions, count) = (out.text("contentions"), out.text("count"));
    let (delay, nanoseconds) = (out.text("delay"), out.text("nanoseconds"));
    let types = [
        ValueType { r#type: contentions, unit: count },
        ValueType { r#type: delay, unit: nanoseconds },
    ];
    let key = out.text("lock");
    for process in &profile.processes {
        for place in process.charged(charge) {
            let places = process.stack(place.stack);
            let location_id = places.iter().map(|place| out.location(place)).collect();
            let lock = &process.record.locks[place.lock];
            let lock = Seen { process, number: place.lock, lock }.name();
            let label = vec![Label { key, str: out.text(&lock) }];
            let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            let value = vec![number(place.count), number(place.waited_ns)];
            out.proto.sample.push(Sample { location_id, value, label });
        }
    }
    let began = profile.processes.first().map_or(0, |process| process.record.began_unix_ns);
    Proto {
        sample_type: types.to_vec(),
        time_nanos: began as i64,
        period_type: types.first().cloned(),
        period: 1,
        ..out.proto
    }
}

/// Numbers for texts, functions and lines.
#[derive(Default)]
struct Builder {
    proto: Proto,
    texts: HashMap<String, i64>,
    functions: HashMap<(String, String), u64>,
    locations: HashMap<Place, u64>,
}

impl Builder {
    fn text(&mut self, text: &str) -> i64 {
        if let Some(&known) = self.texts.get(text) {
            return known;
        }
        let number = self.proto.string_table.len() as i64;
        self.proto.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), number);
        number
    }

    fn function(&mut self, place: &Place) -> u64 {
        let file = place.file.clone().unwrap_or_default();
        let known = (place.function.clone(), file);
        if let Some(&number) = self.functions.get(&known) {
            return number;
        }
        let (name, filename) = (self.text(&known.0), self.text(&known.1));
        let id = self.proto.function.len() as u64 + 1;
        self.proto.function.push(Function { id, name, system_name: name, filename });
        self.functions.insert(known, id);
        id
    }

    fn location(&mut self, place: &Place) -> u64 {
        if let Some(&number) = self.locations.get(place) {
            return number;
        }
        let line =
            Line { function_id: self.function(place), line: place.line.map_or(0, i64::from) };
        let id = self.proto.location.len() as u64 + 1;
        self.proto.location.push(Location { id, line: vec![line] });
        self.locations.insert(place.clone(), id);
        id
    }
}
