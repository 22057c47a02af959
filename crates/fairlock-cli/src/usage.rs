//! What is said of a command line that makes no sense: one line, with how to mend it.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use crate::args::Cli;
use crate::error::{USAGE, nearest};
use crate::output::{complain, print};

/// What the standard library and other libraries say of values that they cannot read, and what the
/// user is to do.
const UNREADABLE: [(&str, &str); 5] = [
    ("invalid digit found in string", "use a whole number"),
    ("cannot parse integer from empty string", "use a whole number"),
    ("number too large to fit in target type", "use a smaller number"),
    ("invalid float literal", "use a number"),
    ("cannot parse float from empty string", "use a number"),
];

/// Help goes to stdout as it is; an error becomes one line.
pub fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if !error.use_stderr() {
        return match print(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => ExitCode::from(error.code()),
        };
    }
    let command = command();
    let mut message = message(error, &text, &command);
    // One of `names` says all that helps; those of the library have a context.
    if error.context().next().is_some() {
        message += &format!("; see `{command} --help`");
    }
    complain(&message);
    ExitCode::from(USAGE)
}

fn message(error: &clap::Error, text: &str, command: &str) -> String {
    let missing = error.get(ContextKind::InvalidArg);
    if let (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) =
        (error.kind(), missing)
    {
        let missing: Vec<String> =
            missing.iter().map(|name| name.replace(['<', '>'], "")).collect();
        return format!("{command} needs {}", missing.join(" and "));
    }
    if let Some(message) = negative(error) {
        return message;
    }
    let mut parts: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("Usage:") || line.starts_with("For more") {
            break;
        }
        // The hint that begins "to pass" helps with no option of this program, and what the library
        // takes for similar often is not.
        if !line.is_empty() && !line.starts_with("tip: ") {
            parts.push(line.strip_prefix("error: ").unwrap_or(line));
        }
    }
    let alike = alike(error).map(|near| format!("did you mean '{near}'?"));
    parts.extend(alike.as_deref());
    let text = parts.join("; ");
    if let Some((said, range)) = text.rsplit_once(" is not in ")
        && let Some((said, _)) = said.rsplit_once(": ")
    {
        let (least, most) = range.split_once("..").unwrap_or((range, ""));
        return match most.strip_prefix('=') {
            Some(most) => format!("{said}: use {least} to {most}"),
            None => format!("{said}: use {least} or more"),
        };
    }
    let digits = "invalid digit found in string";
    if text.contains("invalid value '-") && text.ends_with(digits) {
        return format!("{}use a number that is not negative", text.trim_end_matches(digits));
    }
    let mended = UNREADABLE
        .into_iter()
        .find_map(|(why, mend)| Some(format!("{}{mend}", text.strip_suffix(why)?)));
    mended.unwrap_or(text)
}

/// What to say of a negative number behind a flag, which the library takes for another flag.
fn negative(error: &clap::Error) -> Option<String> {
    let unknown = match (error.kind(), error.get(ContextKind::InvalidArg)?) {
        (ErrorKind::UnknownArgument, ContextValue::String(unknown)) => unknown,
        _ => return None,
    };
    let is_number = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    unknown.strip_prefix('-').filter(|rest| is_number(rest))?;
    let words: Vec<_> = std::env::args_os().map(|it| it.to_string_lossy().into_owned()).collect();
    let pairs = words.windows(2).map(|pair| (&pair[0], &pair[1]));
    let of_it = |(flag, value): &(&String, &String)| {
        flag.starts_with("--") && value.starts_with(unknown.as_str())
    };
    let (flag, value) = pairs.into_iter().find(of_it)?;
    Some(format!("{flag} {value} makes no sense: use a value that is not negative"))
}

/// What was meant by a name that there is not, if any is like it.
fn alike(error: &clap::Error) -> Option<&str> {
    let (typed, known) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand)
        }
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        _ => (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    };
    let Some(ContextValue::String(typed)) = error.get(typed) else { return None };
    let known: Vec<&str> = match error.get(known)? {
        ContextValue::String(one) => vec![one],
        ContextValue::Strings(several) => several.iter().map(String::as_str).collect(),
        _ => return None,
    };
    nearest(typed, &known)
}

/// The subcommand that was typed, whose help has the answer.
fn command() -> String {
    let mut known = Cli::command();
    let mut path = known.get_name().to_owned();
    for word in std::env::args_os().skip(1) {
        let Some(found) = known.find_subcommand(word).cloned() else { break };
        path = format!("{path} {}", Command::get_name(&found));
        known = found;
    }
    path
}
