//! What is at an address of a process: functions and lines, from the files that it had mapped.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use addr2line::Loader;
use fairlock_profile::layout::frame::{ADDRESS, MOST_UNLOADS, SIGNAL, UNLOADS_SHIFT};
use fairlock_profile::{Module, Record};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};

use crate::place::{CodePlace, file_name};

/// The files that processes have loaded, by path: most processes have the same. Lines are read only
/// of files that have been asked for an address.
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
    /// Where its names and lines are, if not in itself.
    debug: Option<PathBuf>,
    /// The segments: offset and length in the file, address and length in memory.
    segments: Vec<[u64; 4]>,
    lines: OnceCell<Option<Loader>>,
    /// Variables: address, size and name.
    variables: OnceCell<Vec<(u64, u64, String)>>,
}

/// A loaded file.
struct Object {
    file: Rc<File>,
    /// How often code had been unloaded when it was loaded.
    unloads: u32,
    /// What is added to the file's addresses.
    bias: u64,
    /// The addresses of the object, those parts included that are not in its file.
    range: std::ops::Range<u64>,
}

/// The names of a process.
pub struct Names {
    objects: Vec<Object>,
    known: RefCell<HashMap<u64, Rc<Vec<CodePlace>>>>,
}

impl Names {
    /// The names of what the process had mapped.
    pub fn of(record: &Record, files: &mut Files) -> Self {
        Self::of_modules(&record.modules, files)
    }

    /// The names of what is in these parts of files.
    pub fn of_modules(modules: &[Module], files: &mut Files) -> Self {
        let mut mapped: BTreeMap<_, Vec<&Module>> = BTreeMap::new();
        for module in modules {
            mapped.entry((module.unloads, &*module.path)).or_default().push(module);
        }
        let object = |((_, path), modules): ((u32, &str), Vec<&Module>)| {
            Object::of(files.get(path)?, &modules)
        };
        let objects = mapped.into_iter().filter_map(object);
        Self { objects: objects.collect(), known: RefCell::default() }
    }

    /// The object that a frame is in: of what was mapped then, as far as that was looked at.
    fn object(&self, frame: u64) -> Option<&Object> {
        let unloads = (frame >> UNLOADS_SHIFT) as u32 & MOST_UNLOADS;
        let known = self.objects.iter().map(|object| object.unloads).filter(|&it| it <= unloads);
        let known = known.max()?;
        let mut then = self.objects.iter().filter(|object| object.unloads == known);
        then.find(|object| object.range.contains(&(frame & ADDRESS)))
    }

    /// The file that an address is in, and the address there.
    pub fn in_file(&self, address: u64) -> Option<(&str, u64)> {
        let object = self.object(address)?;
        Some((&object.file.path, (address & ADDRESS).wrapping_sub(object.bias)))
    }

    /// Where the function begins that an address is in.
    pub fn function(&self, address: u64) -> Option<u64> {
        let object = self.object(address)?;
        let at = (address & ADDRESS).wrapping_sub(object.bias);
        Some(object.file.lines()?.find_symbol_info(at)?.address().wrapping_add(object.bias))
    }

    /// Where the variable of this name is.
    pub fn named(&self, variable: &str) -> Option<u64> {
        self.objects.iter().find_map(|object| {
            let mut all = object.file.variables().iter();
            let found = all.find(|(.., name)| name == variable)?;
            Some(found.0.wrapping_add(object.bias))
        })
    }

    /// The functions that an address of a stack is in, the innermost first: more than one if some
    /// are inlined.
    pub fn places(&self, address: u64) -> Rc<Vec<CodePlace>> {
        if let Some(known) = self.known.borrow().get(&address) {
            return Rc::clone(known);
        }
        let places = Rc::new(self.look_up(address));
        self.known.borrow_mut().insert(address, Rc::clone(&places));
        places
    }

    fn look_up(&self, address: u64) -> Vec<CodePlace> {
        // The call is before the address that it returns to.
        let call = if address & SIGNAL != 0 { address } else { address.wrapping_sub(1) };
        let exact = call & ADDRESS;
        let Some(object) = self.object(call) else {
            return vec![CodePlace { function: format!("{exact:#x}"), ..CodePlace::default() }];
        };
        object.file.places(exact.wrapping_sub(object.bias))
    }

    /// A stack's functions, the innermost first. One that called the lock's function as the last thing it did has
    /// left no frame: the caller's last call says which it was.
    pub fn stack(&self, frames: &[u64]) -> Vec<CodePlace> {
        let gone = frames.first().and_then(|&frame| self.last_called(frame)).unwrap_or_default();
        gone.into_iter()
            .chain(frames.iter().flat_map(|&frame| self.places(frame).to_vec()))
            .collect()
    }

    /// The function of the same file that was called, if such a one was, by the call that returns to this address.
    fn last_called(&self, address: u64) -> Option<Vec<CodePlace>> {
        let object = self.object(address)?;
        let called = object.file.called((address & ADDRESS).wrapping_sub(object.bias))?;
        let begins = object.file.lines()?.find_symbol_info(called)?.address() == called;
        begins.then(|| object.file.places(called))
    }

    /// The variable that an address was in when a thread had the stack `then`.
    pub fn variable(&self, address: u64, then: &[u64]) -> Option<String> {
        let object = self.object(address | then.first()? & !ADDRESS)?;
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
        // Mappings begin at a page.
        let page = |at: u64| at & !0xfff;
        let &[offset, _, address, _] = file.segments.iter().find(|[offset, len, ..]| {
            (page(*offset)..offset.saturating_add((*len).max(1))).contains(&first.offset)
        })?;
        let bias = first.start.wrapping_sub(page(address) + (first.offset - page(offset)));
        let end =
            file.segments.iter().map(|[.., address, len]| address.saturating_add(*len)).max()?;
        let range = first.start..bias.wrapping_add(end).max(first.end);
        Some(Self { file, unloads: first.unloads, bias, range })
    }
}

impl File {
    /// None if the file is no program or library: other mapped files may be as long as the record.
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
        let debug = debug_file(Path::new(path), &file);
        Some(Self { path: path.to_owned(), debug, segments, lines, variables })
    }

    fn lines(&self) -> Option<&Loader> {
        self.lines.get_or_init(|| Loader::new(self.named()).ok()).as_ref()
    }

    /// The file that has the names.
    fn named(&self) -> &Path {
        self.debug.as_deref().unwrap_or(Path::new(&self.path))
    }

    /// What is called before an address, if it is a call of a place in this file.
    fn called(&self, at: u64) -> Option<u64> {
        const CALL: u8 = 0xe8;
        let mut call = [0; 5];
        let begin = at.checked_sub(call.len() as u64)?;
        let &[offset, _, address, _] = self
            .segments
            .iter()
            .find(|[_, len, address, _]| begin.checked_sub(*address).is_some_and(|at| at < *len))?;
        let file = fs::File::open(&self.path).ok()?;
        file.read_exact_at(&mut call, begin - address + offset).ok()?;
        let [CALL, distance @ ..] = call else { return None };
        Some(at.wrapping_add_signed(i32::from_le_bytes(distance).into()))
    }

    fn variables(&self) -> &[(u64, u64, String)] {
        self.variables.get_or_init(|| {
            let Ok(bytes) = fs::read(self.named()) else { return Vec::new() };
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

    fn places(&self, at: u64) -> Vec<CodePlace> {
        let place =
            |function: Option<String>, location: Option<addr2line::Location<'_>>| CodePlace {
                function: function.unwrap_or_else(|| format!("{}+{at:#x}", file_name(&self.path))),
                file: location.as_ref().and_then(|location| location.file.map(str::to_owned)),
                line: location.and_then(|location| location.line),
                object: self.path.clone(),
                wrapper: None,
            };
        let Some(lines) = self.lines() else { return vec![place(None, None)] };
        let symbol = || lines.find_symbol(at).map(demangled);
        let mut places = Vec::new();
        if let Ok(mut frames) = lines.find_frames(at) {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.as_ref();
                let name = name.and_then(|name| Some(demangled(&name.raw_name().ok()?)));
                places.push(place(name.or_else(symbol), frame.location));
            }
        }
        if places.is_empty() {
            places.push(place(symbol(), None));
        }
        places
    }
}

/// The file that has what was stripped of this one, where debuggers look for it, too.
fn debug_file(path: &Path, file: &object::File<'_>) -> Option<PathBuf> {
    if file.section_by_name(".debug_info").is_some() {
        return None;
    }
    let id = file.build_id().ok().flatten();
    let link = file.gnu_debuglink().ok().flatten();
    let name = link.map(|(name, _)| Path::new(OsStr::from_bytes(name)));
    let is_it = |candidate: &PathBuf| {
        let found = || {
            let bytes = fs::read(candidate).ok()?;
            let debug = object::File::parse(&*bytes).ok()?;
            Some(match (id, link) {
                (Some(id), _) => debug.build_id().ok()? == Some(id),
                (None, Some((_, sum))) => {
                    let mut found = flate2::Crc::new();
                    found.update(&bytes);
                    found.sum() == sum
                }
                (None, None) => false,
            })
        };
        candidate != path && candidate.is_file() && found().unwrap_or(false)
    };
    debug_paths(path, id, name).into_iter().find(is_it)
}

/// Where such a file may be: by its build id, or by the name in `.gnu_debuglink`.
fn debug_paths(path: &Path, id: Option<&[u8]>, name: Option<&Path>) -> Vec<PathBuf> {
    const ALL: &str = "/usr/lib/debug";
    let mut paths = Vec::new();
    if let Some([first, rest @ ..]) = id {
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        paths.push(PathBuf::from(format!("{ALL}/.build-id/{first:02x}/{rest}.debug")));
    }
    if let (Some(name), Some(folder)) = (name, path.parent()) {
        let all = Path::new(ALL).join(folder.strip_prefix("/").unwrap_or(folder));
        paths.extend([folder.join(name), folder.join(".debug").join(name), all.join(name)]);
    }
    paths
}

/// A name of C stays as it is. It may look like the name of a type, which has no prefix: `m` is
/// `unsigned long`.
fn demangled(name: &str) -> String {
    if ["_Z", "__Z", "_R"].iter().any(|prefix| name.starts_with(prefix)) {
        addr2line::demangle_auto(name.into(), None).into_owned()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record of a process is a file that it has mapped, and may be as long as address spaces
    /// allow.
    #[test]
    fn what_is_no_program_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(File::open(path.to_str().unwrap()).is_none());
        assert!(File::open("/dev/zero").is_none() && File::open("/").is_none());
    }

    /// The names of a function and a variable of this test.
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
                path: (*path).to_owned(),
                ..Module::default()
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
        let variable = names.variable(VARIABLE.as_ptr() as u64 + 8, &[0]).unwrap();
        assert!(variable.contains("VARIABLE") || variable.contains("+0x"), "{variable}");
        assert_eq!(names.places(16)[0].function, "0xf");
    }

    #[test]
    fn a_plugin_where_another_one_was_has_its_own_names() {
        let this = std::env::current_exe().unwrap();
        let plugin = |path: &str, unloads| Module {
            start: 0x10_0000,
            end: 0x20_0000,
            path: path.to_owned(),
            unloads,
            ..Module::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let second = folder.path().join("second");
        fs::copy(&this, &second).unwrap();
        let mut record = Record::default();
        record.modules =
            vec![plugin(this.to_str().unwrap(), 0), plugin(second.to_str().unwrap(), 2)];
        let names = Names::of(&record, &mut Files::default());
        let path = |unloads: u64| {
            let object = names.object(0x10_0000 | unloads << UNLOADS_SHIFT).unwrap();
            Path::new(&object.file.path).file_name().unwrap().to_owned()
        };
        let first = this.file_name().unwrap();
        assert!(path(0) == first && path(1) == first && path(2) == "second" && path(9) == "second");
        assert!(names.object(0x10_0000 | SIGNAL).is_some());
    }

    #[test]
    fn debug_files_are_where_distributions_and_debuggers_have_them() {
        let found = debug_paths(
            Path::new("/opt/svc"),
            Some(&[0xab, 0x01, 0xff]),
            Some(Path::new("svc.debug")),
        );
        let expected = [
            "/usr/lib/debug/.build-id/ab/01ff.debug",
            "/opt/svc.debug",
            "/opt/.debug/svc.debug",
            "/usr/lib/debug/opt/svc.debug",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
        assert!(debug_paths(Path::new("/opt/svc"), None, None).is_empty());
    }

    #[test]
    fn names_of_c_stay_as_they_are() {
        for name in ["m", "is", "Pc", "St", "A3_i", "FvvE", "N3fooE", "_R", "_ZZ", "main"] {
            assert_eq!(demangled(name), name);
        }
        let mangled = ["_ZN5Store3putEi", "_ZN5store3put17h0123456789abcdefE", "_RNvC5store3put"];
        assert_eq!(mangled.map(demangled), ["Store::put(int)", "store::put", "store::put"]);
    }
}
