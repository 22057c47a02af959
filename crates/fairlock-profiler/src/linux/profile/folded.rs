//! Folded stacks, as flame graphs are made of: a line for each stack, the outermost function
//! first, and how many microseconds were lost there.

use std::collections::BTreeMap;

use super::Profile;
use crate::{Charge, sum};

impl Profile {
    pub fn folded(&self, charge: Charge) -> String {
        let mut times = BTreeMap::<String, u64>::new();
        for process in &self.processes {
            for place in process.charged(charge) {
                let places = process.stack(place.stack);
                // A semicolon or the end of the line would end the function's name.
                let name = |function: &str| function.replace([';', '\n'], ",");
                let stack: Vec<_> =
                    places.iter().rev().map(|place| name(&place.function)).collect();
                let time = times.entry(stack.join(";")).or_default();
                *time = sum([*time, place.waited_ns]);
            }
        }
        times.iter().map(|(stack, ns)| format!("{stack} {}\n", ns / 1000)).collect()
    }
}
