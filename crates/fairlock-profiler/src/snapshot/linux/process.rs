//! A process as the kernel shows it in `/proc`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use fairlock_profile::Module;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::Error;
use crate::linux::profile::{field, own_number};

/// A process that runs.
pub struct Process {
    pub pid: u32,
    pub program: String,
    pub mappings: Vec<Mapping>,
    memory: File,
}

/// A part of its memory.
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    offset: u64,
    inode: u64,
    pub is_code: bool,
    /// The file, a name such as `[heap]`, or empty.
    pub path: String,
}

/// One of its threads.
#[derive(Clone)]
pub struct Thread {
    pub tid: u32,
    /// Its number in its own container: locks have that.
    pub inner: u32,
    pub name: String,
    pub state: char,
    /// None if the thread runs.
    pub call: Option<Call>,
    pub in_kernel: Option<String>,
    /// How often it has slept or lost its CPU: as long as that stays the same, it has not run.
    pub switches: u64,
    pub asleep_ns: Option<u64>,
}

/// Where a thread sleeps.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// None outside system calls, as at a page fault.
    pub number: Option<u64>,
    pub arguments: [u64; 6],
    pub stack: u64,
    pub code: u64,
}

impl Process {
    /// Looks for a process, of which `number` is one thread.
    pub fn open(number: u32) -> Result<Self, Error> {
        let folder = PathBuf::from(format!("/proc/{number}"));
        let status = fs::read_to_string(folder.join("status")).map_err(|error| {
            Error::failed(match error.kind() {
                io::ErrorKind::NotFound => format!("there is no process {number}: `ps` lists them"),
                _ => format!("cannot look at process {number}: {error}"),
            })
        })?;
        let pid = field(&status, "Tgid:").and_then(|it| it.parse().ok()).unwrap_or(number);
        let folder = PathBuf::from(format!("/proc/{pid}"));
        if field(&status, "State:").is_some_and(|state| state.starts_with('Z')) {
            return Err(Error::failed(format!(
                "process {pid} has ended: its parent has not asked for its exit code yet"
            )));
        }
        let memory = File::open(folder.join("mem"));
        // The first needs the same permission, and the second shows what the first may hide.
        let seen = memory.and_then(|memory| {
            fs::read_to_string(folder.join("syscall")).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(String::new()),
                _ => Err(error),
            })?;
            Ok((memory, fs::read_to_string(folder.join("maps"))?))
        });
        let (memory, maps) = seen.map_err(|error| refused(pid, &folder, &error))?;
        let mappings: Vec<_> = maps.lines().filter_map(Mapping::parse).collect();
        if mappings.is_empty() {
            return Err(Error::failed(format!("process {pid} is a part of the kernel")));
        }
        let mut class = [0; 5];
        let is_32_bit = File::open(folder.join("exe"))
            .and_then(|exe| exe.read_exact_at(&mut class, 0))
            .is_ok_and(|()| class[4] == 1);
        if is_32_bit || !cfg!(target_arch = "x86_64") {
            return Err(Error::failed(format!(
                "process {pid} is not a program for 64-bit x86: its system calls are not known"
            )));
        }
        let program = fs::read_link(folder.join("exe")).unwrap_or_default();
        Ok(Self { pid, program: program.to_string_lossy().into_owned(), mappings, memory })
    }

    /// Its threads, by their numbers.
    pub fn threads(&self) -> Vec<Thread> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten();
        let tids = tasks.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
        let mut clocks = BTreeMap::new();
        let mut threads: Vec<_> = tids.filter_map(|tid| self.thread(tid, &mut clocks)).collect();
        threads.sort_by_key(|thread| thread.tid);
        threads
    }

    /// The thread as it is now; none if it has ended.
    pub fn thread(&self, tid: u32, clocks: &mut BTreeMap<usize, Option<f64>>) -> Option<Thread> {
        let folder = PathBuf::from(format!("/proc/{}/task/{tid}", self.pid));
        let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
        let status = read("status")?;
        let number = |key| field(&status, key)?.parse::<u64>().ok();
        let switches = number("voluntary_ctxt_switches:")? + number("nonvoluntary_ctxt_switches:")?;
        let call = read("syscall").and_then(|text| Call::parse(&text));
        let stat = read("stat")?;
        // The name before it may have any letters.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.chars().next()?;
        let cpu = fields.nth(35).and_then(|cpu| cpu.parse().ok());
        let mut slept = || {
            let now = (*clocks.entry(cpu?).or_insert_with(|| clock_of(cpu?)))?;
            Some(((now - exec_start(&read("sched")?)?).max(0.0) * 1e6) as u64)
        };
        let in_kernel = read("wchan").filter(|name| !["", "0"].contains(&name.as_str()));
        Some(Thread {
            tid,
            inner: own_number(&status).unwrap_or(tid),
            name: read("comm")?.trim_end().to_owned(),
            state,
            asleep_ns: if matches!(state, 'S' | 'D') { slept() } else { None },
            call,
            in_kernel,
            switches,
        })
    }

    /// What the process has at an address, in numbers of 4 bytes.
    pub fn words<const N: usize>(&self, address: u64) -> Option<[u32; N]> {
        let mut words = [0; N];
        for (n, word) in (0..).zip(&mut words) {
            let mut bytes = [0; 4];
            self.memory.read_exact_at(&mut bytes, address.checked_add(4 * n)?).ok()?;
            *word = u32::from_le_bytes(bytes);
        }
        Some(words)
    }

    /// A number of 8 bytes.
    pub fn long(&self, address: u64) -> Option<u64> {
        let [low, high] = self.words(address)?;
        Some(u64::from(high) << 32 | u64::from(low))
    }

    pub fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.memory.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    pub fn mapping(&self, address: u64) -> Option<&Mapping> {
        self.mappings.iter().find(|it| (it.start..it.end).contains(&address))
    }

    /// The files it has mapped, each as it can be opened from here.
    pub fn modules(&self) -> Vec<Module> {
        let space = |of: &str| fs::read_link(format!("/proc/{of}/ns/mnt")).ok();
        let is_elsewhere = space(&self.pid.to_string()) != space("self");
        let root = if is_elsewhere { format!("/proc/{}/root", self.pid) } else { String::new() };
        let module = |it: &Mapping| {
            let path = match it.path.strip_suffix(" (deleted)") {
                // An update has replaced the program's file.
                Some(path) if self.program.starts_with(path) => format!("/proc/{}/exe", self.pid),
                _ => format!("{root}{}", it.path),
            };
            let &Mapping { start, end, offset, inode, .. } = it;
            Module { start, end, offset, inode, path, unloads: 0 }
        };
        self.mappings.iter().filter(|it| it.path.starts_with('/')).map(module).collect()
    }

    /// What a descriptor of the process is.
    pub fn descriptor(&self, number: u64) -> Option<String> {
        let path = fs::read_link(format!("/proc/{}/fd/{number}", self.pid)).ok()?;
        Some(path.to_string_lossy().into_owned())
    }
}

impl Mapping {
    /// Where an address of it is in its file.
    pub fn in_file(&self, address: u64) -> u64 {
        address - self.start + self.offset
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let mut next = || words.next();
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = next()?.split_once('-')?;
        let (rights, offset, _device, inode) = (next()?, next()?, next()?, next()?);
        Some(Self {
            start: hex(start)?,
            end: hex(end)?,
            offset: hex(offset)?,
            inode: inode.parse().ok()?,
            is_code: rights.contains('x'),
            path: next().unwrap_or_default().trim_start().to_owned(),
        })
    }
}

impl Call {
    /// `running` has none.
    fn parse(text: &str) -> Option<Self> {
        let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        let mut words = text.split_whitespace();
        let number = words.next()?.parse::<i64>().ok()?;
        let rest: Vec<u64> = words.map_while(hex).collect();
        let (arguments, &[stack, code]) = rest.split_last_chunk::<2>()?;
        let arguments = arguments.try_into().unwrap_or_default();
        Some(Self { number: u64::try_from(number).ok(), arguments, stack, code })
    }
}

/// When a thread last had a CPU, in milliseconds of that CPU's own clock.
fn exec_start(sched: &str) -> Option<f64> {
    let line = sched.lines().find(|line| line.starts_with("se.exec_start"))?;
    line.rsplit_once(':')?.1.trim().parse().ok()
}

/// That clock now: it stands still during interrupts, so each CPU has its own, and only a thread there can tell.
fn clock_of(cpu: usize) -> Option<f64> {
    let before = sched_getaffinity(None).ok()?;
    let mut there = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return None;
    }
    there.set(cpu);
    sched_setaffinity(None, &there).ok()?;
    let now = fs::read_to_string("/proc/thread-self/sched").ok();
    let _ = sched_setaffinity(None, &before); // as it was before
    exec_start(&now?)
}

/// Why the kernel does not show a process, and how to mend it.
fn refused(pid: u32, folder: &Path, error: &io::Error) -> Error {
    let own = rustix::process::geteuid().as_raw();
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let mend = match (fs::metadata(folder).map(|it| it.uid()), scope.trim()) {
        _ if error.kind() != io::ErrorKind::PermissionDenied => return Error::failed(format!(
            "cannot look at process {pid}: {error}"
        )),
        (Ok(uid), _) if uid != own && own != 0 => {
            format!("it belongs to user {uid}: run this as root (`sudo fairlock …`)")
        }
        (_, "1" | "2") => "kernel.yama.ptrace_scope lets only root look at other processes: use sudo, or \
                           `sysctl kernel.yama.ptrace_scope=0`; in a container, `--cap-add SYS_PTRACE`"
            .to_owned(),
        (_, "3") => "kernel.yama.ptrace_scope is 3, which forbids it to all until the machine is started again"
            .to_owned(),
        _ => "the system forbids it: use sudo; in a container, start that with `--cap-add SYS_PTRACE`".to_owned(),
    };
    Error::failed(format!("cannot look at process {pid}: {mend}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_its_number_arguments_and_place() {
        let text = "202 0x55f6 0x80 0x2 0x0 0x0 0x7 0x7fde98 0x7fe12b\n";
        let call = Call::parse(text).unwrap();
        assert_eq!((call.number, call.arguments), (Some(202), [0x55f6, 0x80, 2, 0, 0, 7]));
        assert_eq!((call.stack, call.code), (0x7f_de98, 0x7f_e12b));
        let fault = Call::parse("-1 0x7fde98 0x7fe12b").unwrap();
        assert_eq!((fault.number, fault.code), (None, 0x7f_e12b));
        for text in ["running", "", "202", "202 0x1", "x 0x1 0x2"] {
            assert_eq!(Call::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_mapping_may_have_spaces_in_its_name_or_none() {
        let line = "7f00-7f10 rw-s 00001000 fe:00 77                  /dev/shm/a b (deleted)";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.start, mapping.offset, mapping.inode), (0x7f00, 0x1000, 77));
        assert!(!mapping.is_code && mapping.path == "/dev/shm/a b (deleted)");
        assert_eq!(Mapping::parse("7f00-7f10 rw-p 00000000 00:00 0 ").unwrap().path, "");
        assert!(Mapping::parse("7f00 rw-p").is_none());
    }

    #[test]
    fn this_process_has_this_thread_which_runs() {
        let process = Process::open(std::process::id()).unwrap();
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let threads = process.threads();
        let this = threads.iter().find(|thread| thread.tid == own).unwrap();
        assert_eq!(this.state, 'R');
        let number = 0x1234_5678_9abc_def0_u64;
        assert_eq!(process.long(&raw const number as u64), Some(number));
        assert!(Process::open(u32::MAX).err().unwrap().to_string().contains("`ps`"));
    }
}
