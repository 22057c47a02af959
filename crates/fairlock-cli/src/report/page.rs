//! The report as a page: everything in one file, nothing loaded from elsewhere. It is put together
//! by hand: a library of templates would take longer to compile than all of the report.

use std::fmt::Write;

use super::columns::Table;
use super::group::{Group, Measured, shared};
use super::pictures::{self, Picture};
use super::profile::Profile;
use super::svg::{SHEET, escaped};
use crate::results::Results;

/// Longer tables are opened by who wants to see them.
const OPEN: usize = 40;

/// The page.
pub fn page(sources: &[Results], groups: &[Group<'_>], profiles: &[Profile]) -> String {
    let measured = groups.iter().map(|group| (group.title(), of_group(group)));
    let kept = profiles.iter().map(|profile| (profile.title(), of_profile(profile)));
    let (mut contents, mut sections) = (String::new(), String::new());
    for (number, (title, (body, table))) in measured.chain(kept).enumerate() {
        let name = escaped(&title);
        contents += &format!("<li><a href=\"#s{number}\">{name}</a></li>\n");
        sections += &format!(
            "<section aria-labelledby=\"s{number}\"><h2 id=\"s{number}\">{name}</h2>\n{body}{}</section>\n",
            shown(number, &title, &table)
        );
    }
    let title = escaped(&title(sources, profiles));
    let from: String = sources.iter().map(from).collect();
    // An icon of its own would be asked for.
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>Locks: {title}</title>\n\
         <style>\n{SHEET}\n{}</style>\n</head>\n<body>\n<header><h1>Locks: {title}</h1>\n{from}</header>\n\
         <nav aria-label=\"Contents\"><ul>\n{contents}</ul></nav>\n<main>\n{sections}</main>\n\
         <script>\n{}</script>\n</body>\n</html>\n",
        include_str!("page.css"),
        include_str!("page.js"),
    )
}

fn title(sources: &[Results], profiles: &[Profile]) -> String {
    let machine = sources.first().map(|source| source.machine.name());
    machine.or_else(|| profiles.first().map(Profile::title)).unwrap_or_default()
}

/// What a file was made by.
fn from(source: &Results) -> String {
    let interrupted = match source.interrupted {
        true => "<p><strong>This run was interrupted: some of it is missing.</strong></p>\n",
        false => "",
    };
    let (command, origin) = (escaped(&source.command), escaped(&source.origin()));
    format!("<p class=\"from\"><code>{command}</code><br>{origin}</p>\n{interrupted}")
}

/// A section without its heading, and its table.
fn of_group(group: &Group<'_>) -> (String, Table) {
    let shared = shared(group);
    let dot = if shared.is_empty() { "" } else { " · " };
    let mut body = format!(
        "<p class=\"from\">{}{dot}<code>{}</code> · {}</p>\n",
        escaped(&shared),
        escaped(&group.source.command),
        escaped(&group.source.origin())
    );
    body.extend(pictures::all(group).iter().map(figure));
    let judged = crate::sim::judged(group.all.iter().flat_map(Measured::rows));
    if !judged.is_empty() {
        let judged = escaped(&judged);
        body += &format!(
            "<details><summary>Judgement</summary><pre tabindex=\"0\">{judged}</pre></details>\n"
        );
    }
    (body, Table::of(group))
}

fn of_profile(profile: &Profile) -> (String, Table) {
    let mut body = format!("<p class=\"from\">{}</p>\n", escaped(&profile.origin()));
    body.extend(profile.pictures().iter().map(figure));
    (body, profile.table())
}

fn figure(picture: &Picture) -> String {
    let note = match picture.note.as_str() {
        "" => String::new(),
        note => format!("<p class=\"note\">{}</p>", escaped(note)),
    };
    let name = escaped(&picture.name);
    format!(
        "<figure><figcaption>{name}</figcaption><div class=\"scroll\" tabindex=\"0\" role=\"group\" \
         aria-label=\"{name}\">{}</div>{note}</figure>\n",
        picture.svg.inline(&picture.name)
    )
}

/// End tags of cells and rows may be left out, and there are thousands.
fn shown(number: usize, title: &str, table: &Table) -> String {
    let is_name = |at: usize| at + 1 == table.figures_from;
    let mut heads = String::new();
    for (at, head) in table.heads.iter().enumerate() {
        let left = if is_name(at) { " class=\"n\"" } else { "" };
        heads += &format!("<th scope=\"col\"{left}>{}</th>", escaped(head));
    }
    let mut rows = String::new();
    for row in &table.rows {
        rows.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let left = if is_name(at) { " class=n" } else { "" };
            // Writing to a string does not fail.
            let _ = write!(rows, "<td{left}>{}", escaped(cell));
        }
    }
    let (count, name) = (table.rows.len(), escaped(title));
    let open = if count <= OPEN { " open" } else { "" };
    let plural = if count == 1 { "row" } else { "rows" };
    format!(
        "<details{open}><summary>Table: {count} {plural}</summary>\n\
         <p class=\"tools\"><button data-of=\"t{number}\" hidden>Save as CSV</button></p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table of {name}\">\
         <table id=\"t{number}\"><thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table></div></details>\n"
    )
}
