//! Names that the command line takes.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command};
use fairlock_sim::Machine;
use fairlock_sim::tester::Lock;
use fairlock_workloads::simulated::locks;
use fairlock_workloads::torture;

use crate::cell::{Case, Form, Holder, Shape, Workload};
use crate::error::{Error, unknown};
use crate::locks::registry;

/// A parser of names. All names are known, for completions.
#[derive(Clone)]
pub struct Name<T = String> {
    known: fn() -> Vec<&'static str>,
    read: fn(String) -> Result<T, Error>,
}

impl Name {
    /// A parser that takes any word. What is wrong with one is said later, where it is known what
    /// the word was meant for.
    pub fn of(known: fn() -> Vec<&'static str>) -> Self {
        Self { known, read: Ok }
    }
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Name<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let name = StringValueParser::new().parse_ref(command, arg, value)?;
        (self.read)(name).map_err(|error| clap::Error::raw(ErrorKind::ValueValidation, error))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.known)().into_iter().map(PossibleValue::new)))
    }
}

/// A parser of the names of all values of a type.
macro_rules! named {
    ($type:ident, $what:literal) => {
        Name {
            known: || $type::ALL.map($type::name).into(),
            read: |name| {
                let found = $type::ALL.into_iter().find(|value| value.name() == name);
                found.ok_or_else(|| unknown($what, &name, &$type::ALL.map($type::name)))
            },
        }
    };
}

/// A lock that runs on this machine.
pub fn lock() -> Name {
    Name::of(|| registry::all().iter().map(|lock| lock.name).collect())
}

/// A lock that can be simulated.
pub fn simulated_lock() -> Name {
    Name::of(|| locks::all().iter().map(|lock| lock.name).collect())
}

/// A lock that can be tortured: simulated, or on real threads.
pub fn tortured_lock() -> Name {
    Name::of(|| {
        let real = torture::all().into_iter().map(|lock| lock.name);
        Lock::all().map(Lock::name).chain(real).collect()
    })
}

/// A workload on real threads, or all of them.
pub fn workload() -> Name {
    Name::of(|| Workload::named().map(Workload::name).chain(["all"]).collect())
}

/// A machine that is built in.
pub fn machine() -> Name {
    Name::of(|| Machine::builtin_names().collect())
}

/// A case of a workload.
pub fn case() -> Name<Case> {
    named!(Case, "case")
}

/// A part of an array.
pub fn shape() -> Name<Shape> {
    named!(Shape, "shape")
}

/// What a lock is used as.
pub fn form() -> Name<Form> {
    named!(Form, "form")
}

/// What a holder does after its section.
pub fn holder() -> Name<Holder> {
    named!(Holder, "holder")
}
