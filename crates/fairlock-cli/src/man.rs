//! `fairlock man`: one manual page with all subcommands in it, so that wherever somebody puts it,
//! no page that it refers to can be missing.

use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::Roff;

/// The page, in troff.
pub fn page(mut command: Command) -> io::Result<Vec<u8>> {
    // Fills in the commands above, which usage lines begin with.
    command.build();
    let mut page = Vec::new();
    let man = Man::new(command.clone());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    sections(&man, &mut page)?;
    subcommands(&command, &mut page)?;
    Ok(page)
}

fn sections(man: &Man, page: &mut Vec<u8>) -> io::Result<()> {
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)
}

/// A section for each subcommand, with what would be sections in a page of its own.
fn subcommands(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let shown = |sub: &&Command| !sub.is_hide_set() && sub.get_name() != "help";
    for sub in command.get_subcommands().filter(shown) {
        let name = sub.get_bin_name().unwrap_or(sub.get_name());
        Roff::new().control("SH", [name]).to_writer(page)?;
        let mut own = Vec::new();
        sections(&Man::new(sub.clone()), &mut own)?;
        let own = String::from_utf8_lossy(&own).replace("\n.SH ", "\n.SS ");
        page.extend_from_slice(own.as_bytes());
        subcommands(sub, page)?;
    }
    Ok(())
}
