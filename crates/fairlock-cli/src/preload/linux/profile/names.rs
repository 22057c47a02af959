//! What is at an address of a process: functions and lines, from the files that it had mapped.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

use addr2line::Loader;
use fairlock_profile::{Module, Record};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};

use crate::preload::place::{Place, file_name};
/// Files that processes have loaded, by their paths: most have the same. Lines are looked for only
/// in those that are asked for.
#[derive(Default)]
pub struct Files {
    known: HashMap<String, Option<Rc<File>>>,
}

impl Files {
    fn get(&mut self, path: &str) -> Option<Rc<File>> {
        let open = || File::open(path).map(Rc::new);
        self.known.entry(path.to_owned()).or_insert_with(open).clone()
    }
}

/// What a file says of itself.
struct File {
    path: String,
    /// Where parts of it are to be: in the file, so long there, and in memory, so long there.
    segments: Vec<[u64; 4]>,
    lines: OnceCell<Option<Loader>>,
    /// Variables: address, size and name.
    variables: OnceCell<Vec<(u64, u64, String)>>,
}

/// A loaded file.
struct Object {
    file: Rc<File>,
    /// What is added to the file's addresses.
    bias: u64,
    /// Where it is, and how far it goes, parts included that are no file's.
    range: std::ops::Range<u64>,
}

/// The names of a process.
pub struct Names {
    objects: Vec<Object>,
    known: RefCell<HashMap<u64, Rc<Vec<Place>>>>,
}

impl Names {
    /// Of what the process had mapped.
    pub fn of(record: &Record, files: &mut Files) -> Self {
        let mut mapped: BTreeMap<&str, Vec<&Module>> = BTreeMap::new();
        for module in &record.modules {
            mapped.entry(&module.path).or_default().push(module);
        }
        let object = |(path, modules): (&str, Vec<&Module>)| Object::of(files.get(path)?, &modules);
        let objects = mapped.into_iter().filter_map(object);
        Self { objects: objects.collect(), known: RefCell::default() }
    }

    fn object(&self, address: u64) -> Option<&Object> {
        self.objects.iter().find(|object| object.range.contains(&address))
    }

    /// The functions that an address of a stack is in, the innermost first: more than one where
    /// there are inlined ones.
    pub fn places(&self, address: u64) -> Rc<Vec<Place>> {
        if let Some(known) = self.known.borrow().get(&address) {
            return Rc::clone(known);
        }
        let places = Rc::new(self.look_up(address));
        self.known.borrow_mut().insert(address, Rc::clone(&places));
        places
    }

    fn look_up(&self, address: u64) -> Vec<Place> {
        /// Not where a call returns to.
        const SIGNAL: u64 = 1 << 63;
        // The call is before what it returns to.
        let exact = if address & SIGNAL != 0 { address & !SIGNAL } else { address - 1 };
        let Some(object) = self.object(exact) else {
            return vec![Place { function: format!("{exact:#x}"), ..Place::default() }];
        };
        object.file.places(exact.wrapping_sub(object.bias))
    }

    /// A stack's functions, the innermost first.
    pub fn stack(&self, frames: &[u64]) -> Vec<Place> {
        frames.iter().flat_map(|&frame| self.places(frame).to_vec()).collect()
    }

    /// Where the program itself asked: the innermost function that is not of a lock.
    pub fn caller(&self, frames: &[u64]) -> Option<Place> {
        let all = self.stack(frames);
        let own = all.iter().find(|place| !place.is_wrapper());
        own.or(all.first()).cloned()
    }

    /// The variable that an address is in.
    pub fn variable(&self, address: u64) -> Option<String> {
        let object = self.object(address)?;
        let at = address.wrapping_sub(object.bias);
        let variables = object.file.variables();
        let before = variables.partition_point(|(start, ..)| *start <= at);
        let mut near = variables[..before].iter().rev().take(4);
        let inside = near.find(|(start, size, _)| at - start < (*size).max(1));
        let name = inside.map(|(start, _, name)| match at - start {
            0 => name.clone(),
            offset => format!("{name}+{offset:#x}"),
        });
        Some(name.unwrap_or_else(|| format!("{}+{at:#x}", file_name(&object.file.path))))
    }
}

impl Object {
    fn of(file: Rc<File>, modules: &[&Module]) -> Option<Self> {
        let first = modules.iter().min_by_key(|module| module.start)?;
        // Mappings begin with a page.
        let page = |at: u64| at & !0xfff;
        let &[offset, _, address, _] = file.segments.iter().find(|[offset, len, ..]| {
            (page(*offset)..offset.saturating_add((*len).max(1))).contains(&first.offset)
        })?;
        let bias = first.start.wrapping_sub(page(address) + (first.offset - page(offset)));
        let end =
            file.segments.iter().map(|[.., address, len]| address.saturating_add(*len)).max()?;
        let range = first.start..bias.wrapping_add(end).max(first.end);
        Some(Self { file, bias, range })
    }
}

impl File {
    /// None if it is no program or library: what else is mapped may be as long as the record.
    fn open(path: &str) -> Option<Self> {
        let mut mark = [0; 4];
        let is_file = fs::metadata(path).is_ok_and(|file| file.is_file());
        is_file.then(|| fs::File::open(path)?.read_exact(&mut mark))?.ok()?;
        if mark != *b"\x7fELF" {
            return None;
        }
        let bytes = fs::read(Path::new(path)).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let segments = file.segments().map(|segment| {
            let (offset, len) = segment.file_range();
            [offset, len, segment.address(), segment.size()]
        });
        let segments = segments.collect();
        let (lines, variables) = (OnceCell::new(), OnceCell::new());
        Some(Self { path: path.to_owned(), segments, lines, variables })
    }

    fn lines(&self) -> Option<&Loader> {
        self.lines.get_or_init(|| Loader::new(&self.path).ok()).as_ref()
    }

    fn variables(&self) -> &[(u64, u64, String)] {
        self.variables.get_or_init(|| {
            let Ok(bytes) = fs::read(Path::new(&self.path)) else { return Vec::new() };
            let Ok(file) = object::File::parse(&*bytes) else { return Vec::new() };
            let symbols = file.symbols().chain(file.dynamic_symbols());
            let data = symbols.filter(|it| it.is_definition() && it.kind() == SymbolKind::Data);
            let named = |symbol: object::Symbol<'_, '_>| {
                Some((symbol.address(), symbol.size(), demangled(symbol.name().ok()?)))
            };
            let mut variables: Vec<_> = data.filter_map(named).collect();
            variables.sort();
            variables.dedup();
            variables
        })
    }

    fn places(&self, at: u64) -> Vec<Place> {
        let place = |function: Option<String>, location: Option<addr2line::Location<'_>>| Place {
            function: function.unwrap_or_else(|| format!("{}+{at:#x}", file_name(&self.path))),
            file: location.as_ref().and_then(|location| location.file.map(str::to_owned)),
            line: location.and_then(|location| location.line),
            object: self.path.clone(),
        };
        let Some(lines) = self.lines() else { return vec![place(None, None)] };
        let symbol = || lines.find_symbol(at).map(demangled);
        let mut places = Vec::new();
        if let Ok(mut frames) = lines.find_frames(at) {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.as_ref();
                let name = name.and_then(|name| Some(name.demangle().ok()?.into_owned()));
                places.push(place(name.or_else(symbol), frame.location));
            }
        }
        if places.is_empty() {
            places.push(place(symbol(), None));
        }
        places
    }
}

fn demangled(name: &str) -> String {
    addr2line::demangle_auto(name.into(), None).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record of a process is mapped in it, and as long as address spaces allow.
    #[test]
    fn what_is_no_program_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(File::open(path.to_str().unwrap()).is_none());
        assert!(File::open("/dev/zero").is_none() && File::open("/").is_none());
    }

    /// This test's own.
    #[test]
    fn a_function_and_a_variable_of_this_process_have_their_names() {
        static VARIABLE: [u64; 4] = [7; 4];
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let modules = maps.lines().filter_map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let (start, end) = words[0].split_once('-')?;
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            words.get(5).filter(|path| path.starts_with('/')).map(|path| Module {
                start: number(start),
                end: number(end),
                offset: number(words[2]),
                inode: 0,
                path: (*path).to_owned(),
            })
        });
        let mut record = Record::default();
        record.modules = modules.collect();
        let names = Names::of(&record, &mut Files::default());
        let function =
            a_function_and_a_variable_of_this_process_have_their_names as fn() as usize as u64;
        let places = names.places(function + 1);
        let found = &places.last().unwrap().function;
        assert!(found.contains("a_function_and_a_variable"), "{places:?}");
        assert!(places[0].file.as_ref().unwrap().ends_with("names.rs"), "{places:?}");
        let variable = names.variable(VARIABLE.as_ptr() as u64 + 8).unwrap();
        assert!(variable.contains("VARIABLE") || variable.contains("+0x"), "{variable}");
        assert_eq!(names.places(16)[0].function, "0xf");
    }
}
