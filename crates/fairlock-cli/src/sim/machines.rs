//! `fairlock machines`: the machines that are built in, and their files.

use fairlock_sim::Machine;

use crate::error::{Error, unknown};
use crate::layout;
use crate::output::{Page, print};

/// Lists the machines.
pub fn list() -> Result<(), Error> {
    let about = |name: &'static str| {
        let machine = Machine::builtin(name).map_err(|error| Error::failed(error.to_string()))?;
        Ok((name.to_owned(), machine.description().title.clone()))
    };
    let lines = Machine::builtin_names().map(about).collect::<Result<Vec<_>, Error>>()?;
    let list = layout::list(lines, Page::Stdout.width());
    Page::Stdout.show(&format!(
        "{list}\n`fairlock machines show NAME` prints one's file: change a copy, and simulate it with \
         `fairlock sim --machine FILE`.\n"
    ))
}

/// Prints the file of the machine `name`.
pub fn show(name: &str) -> Result<(), Error> {
    print(Machine::builtin_file(known(name)?).unwrap_or_default().as_bytes())
}

/// The name of a machine that is built in; if there is none of this name, an error that helps.
pub fn known(name: &str) -> Result<&'static str, Error> {
    let names: Vec<&'static str> = Machine::builtin_names().collect();
    names.iter().find(|&&known| known == name).copied().ok_or_else(|| {
        let error = unknown("machine", name, &names);
        Error::usage(format!("{error}; or give the path of a machine file"))
    })
}
