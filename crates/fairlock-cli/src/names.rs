//! Names that the command line takes, for completions.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};
use fairlock_sim::Machine;
use fairlock_sim::tester::Lock;
use fairlock_workloads::simulated::locks;
use fairlock_workloads::torture;

use crate::cell::{Case, Form, Holder, Shape, Workload};
use crate::locks::registry;

/// A parser that takes any word, and knows the names that make sense, for completions. What is
/// wrong with another word is said later, where it is known what the word was meant for.
#[derive(Clone)]
pub struct Name(fn() -> Vec<&'static str>);

impl Name {
    /// A parser that knows these names.
    pub fn of(names: fn() -> Vec<&'static str>) -> Self {
        Self(names)
    }
}

impl TypedValueParser for Name {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// A lock that runs on this machine.
pub fn lock() -> Name {
    Name(|| registry::all().iter().map(|lock| lock.name).collect())
}

/// A lock that can be simulated.
pub fn simulated_lock() -> Name {
    Name(|| locks::all().iter().map(|lock| lock.name).collect())
}

/// A lock that can be tortured: simulated, or on real threads.
pub fn tortured_lock() -> Name {
    Name(|| {
        let real = torture::all().into_iter().map(|lock| lock.name);
        Lock::all().map(Lock::name).chain(real).collect()
    })
}

/// A workload on real threads, or all of them.
pub fn workload() -> Name {
    Name(|| Workload::named().map(Workload::name).chain(["all"]).collect())
}

/// A machine that is built in.
pub fn machine() -> Name {
    Name(|| Machine::builtin_names().collect())
}

/// A case of a workload.
pub fn case() -> Name {
    Name(|| Case::ALL.map(Case::name).into())
}

/// A part of an array.
pub fn shape() -> Name {
    Name(|| Shape::ALL.map(Shape::name).into())
}

/// What a lock is used as.
pub fn form() -> Name {
    Name(|| Form::ALL.map(Form::name).into())
}

/// What a holder does after its section.
pub fn holder() -> Name {
    Name(|| Holder::ALL.map(Holder::name).into())
}
