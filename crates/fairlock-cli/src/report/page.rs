//! The report as a page: one file, which loads nothing from elsewhere. The markup is put together
//! by hand, as a library of templates would take longer to compile than all of the report.

use std::fmt::Write as _;
use std::io::Write as _;

use base64::prelude::*;
use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::columns::Table;
use super::group::{Group, shared};
use super::pictures::{self, Picture};
use super::program::Program;
use super::svg::{SHEET, escaped};
use crate::results::Results;

/// Tables with more rows than this are closed until the reader opens them.
const OPEN: usize = 40;

/// How many bytes of markup stay unpacked: a page is to be less than a megabyte.
const LARGE: usize = 800_000;

/// The page.
pub fn page(sources: &[Results], groups: &[Group<'_>], programs: &[Program]) -> String {
    let measured = groups.iter().map(of_group);
    let sections: Vec<Section> = measured.chain(programs.iter().map(of_program)).collect();
    let (mut contents, mut bodies) = (String::new(), Vec::new());
    for (number, Section { title, body, tables }) in sections.iter().enumerate() {
        let name = escaped(title);
        contents += &format!("<li><a href=\"#s{number}\">{name}</a></li>\n");
        let mut body = body.clone();
        for (at, (name, table)) in tables.iter().enumerate() {
            let of = if tables.len() > 1 { format!("{name}, {title}") } else { title.clone() };
            body += &shown(&format!("t{number}-{at}"), name, &of, table);
        }
        bodies.push(body);
    }
    let mut note = "";
    if bodies.iter().map(String::len).sum::<usize>() > LARGE {
        bodies.iter_mut().for_each(|body| *body = packed(body));
        note = "<noscript><p>So large a page needs JavaScript; <code>fairlock report --format csv</code> has \
                all figures.</p></noscript>\n";
    }
    let mut main = String::new();
    for (number, (section, body)) in sections.iter().zip(bodies).enumerate() {
        let name = escaped(&section.title);
        main += &format!(
            "<section aria-labelledby=\"s{number}\"><h2 id=\"s{number}\">{name}</h2>\n{body}</section>\n"
        );
    }
    let title = escaped(&title(sources, programs));
    let from: String = sources.iter().map(from).collect();
    // Without an icon in the page, browsers would ask for one.
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>Locks: {title}</title>\n\
         <style>\n{SHEET}\n{}</style>\n</head>\n<body>\n<header><h1>Locks: {title}</h1>\n{from}</header>\n\
         <nav aria-label=\"Contents\"><ul>\n{contents}</ul></nav>\n<main>\n{note}{main}</main>\n\
         <script>\n{}</script>\n</body>\n</html>\n",
        include_str!("page.css"),
        include_str!("page.js"),
    )
}

/// The machines and programs of all files, each once.
fn title(sources: &[Results], programs: &[Program]) -> String {
    let machines = sources.iter().map(|source| source.machine.name());
    let mut names: Vec<String> = Vec::new();
    for name in machines.chain(programs.iter().map(|program| program.title.clone())) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" · ")
}

/// A paragraph that says what a file was made by.
fn from(source: &Results) -> String {
    let interrupted = match source.interrupted {
        true => "<p><strong>This run was interrupted: some of it is missing.</strong></p>\n",
        false => "",
    };
    let (command, origin) = (escaped(&source.command), escaped(&source.origin()));
    format!("<p class=\"from\"><code>{command}</code><br>{origin}</p>\n{interrupted}")
}

/// A section: its heading, what comes below it, and tables, each with its name.
struct Section {
    title: String,
    body: String,
    tables: Vec<(String, Table)>,
}

fn of_group(group: &Group<'_>) -> Section {
    let shared = shared(group);
    let dot = if shared.is_empty() { "" } else { " · " };
    let mut body = format!(
        "<p class=\"from\">{}{dot}<code>{}</code> · {}</p>\n",
        escaped(&shared),
        escaped(&group.source.command),
        escaped(&group.source.origin())
    );
    body += &figures(&pictures::all(group));
    Section { title: group.title(), body, tables: vec![("Table".to_owned(), Table::of(group))] }
}

fn of_program(program: &Program) -> Section {
    let (command, origin) = (escaped(&program.command), escaped(&program.origin));
    let mut body = format!("<p class=\"from\"><code>{command}</code> · {origin}</p>\n");
    body += &figures(&program.pictures);
    let tables = program.tables.iter().map(|(name, table)| (name.clone(), table.clone()));
    Section { title: program.title.clone(), body, tables: tables.collect() }
}

/// Markup that the page's script unpacks when it is opened.
fn packed(markup: &str) -> String {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail.
    let bytes = packed.write_all(markup.as_bytes()).and_then(|()| packed.finish());
    let text = BASE64_STANDARD.encode(bytes.unwrap_or_default());
    format!("<script type=\"text/plain\" class=\"packed\">{text}</script>\n")
}

fn figures(pictures: &[Picture]) -> String {
    let figures: String = pictures.iter().map(figure).collect();
    format!("<div class=\"figures\">{figures}</div>\n")
}

fn figure(picture: &Picture) -> String {
    let note = match picture.note.as_str() {
        "" => String::new(),
        note => format!("<p class=\"note\">{}</p>", escaped(note)),
    };
    let name = escaped(&picture.name);
    format!(
        "<figure><figcaption>{name}</figcaption>{}{note}</figure>\n",
        picture.svg.inline(&picture.name)
    )
}

/// A cell of text. The rest of a long one is out of sight until the reader opens it: rows are to be
/// low.
fn folded(cell: &str) -> String {
    const NARROW: usize = 30;
    const SHOWN: usize = 100;
    let Some((most, _)) = cell.char_indices().nth(SHOWN) else {
        let (is_narrow, cell) = (cell.chars().count() <= NARROW, escaped(cell));
        return if is_narrow { cell } else { format!("<div>{cell}</div>") };
    };
    let at = cell[..most].rfind(" ← ").unwrap_or(most);
    let (shown, rest) = (escaped(&cell[..at]), escaped(&cell[at..]));
    format!("<details><summary>{shown}</summary>{rest}</details>")
}

/// A table that can be opened. The end tags of cells and rows are left out, which HTML allows:
/// there are thousands.
fn shown(id: &str, name: &str, of: &str, table: &Table) -> String {
    let class = |at: usize| match at {
        _ if at >= table.text_from => " class=s",
        _ if at + 1 == table.figures_from => " class=n",
        _ => "",
    };
    let mut heads = String::new();
    for (at, head) in table.heads.iter().enumerate() {
        heads += &format!("<th scope=\"col\"{}>{}</th>", class(at), escaped(head));
    }
    let mut rows = String::new();
    for row in &table.rows {
        rows.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            // Writing to a string does not fail.
            let _ = match at >= table.text_from {
                true => write!(rows, "<td{}>{}", class(at), folded(cell)),
                false => write!(rows, "<td{}>{}", class(at), escaped(cell)),
            };
        }
    }
    let (count, name, of) = (table.rows.len(), escaped(name), escaped(of));
    let open = if count <= OPEN { " open" } else { "" };
    let plural = if count == 1 { "row" } else { "rows" };
    format!(
        "<details{open}><summary>{name}: {count} {plural}</summary>\n\
         <p class=\"tools\"><button data-of=\"{id}\" hidden>Save as CSV</button></p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table of {of}\">\
         <table id=\"{id}\"><thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table></div></details>\n"
    )
}
