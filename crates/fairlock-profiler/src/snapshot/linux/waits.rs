//! What a thread waits for: by the system call that it sleeps in, and the functions that it is in.

use std::fs;

use syscalls::x86_64::Sysno;

use super::glibc;
use super::process::{Call, Process, Thread};
use crate::linux::profile::field;
use crate::linux::profile::names::Names;
use crate::linux::profile::now::WaitNow;
use crate::linux::threads;
use crate::place::{self, CodePlace, file_name};
use crate::snapshot::document::{OfWait, Owner};

/// What looks at a thread needs to know of its process.
pub struct Waits<'a> {
    pub process: &'a Process,
    pub names: &'a Names,
    pub threads: &'a [Thread],
    /// What the process has recorded, if it does.
    pub recorded: &'a [WaitNow],
}

/// What a function's name says of the futex that a thread sleeps at within it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Mutex,
    Rwlock,
    Condition,
    Semaphore,
    Barrier,
    Join,
    Malloc,
    Stdio,
    /// Something else: its kind, and why its holder is not known, or an empty text if nobody holds it.
    Other(&'static str, &'static str),
}

impl What {
    /// What a runtime's own function waits for, within which there may be a lock of glibc's.
    fn of_runtime(function: &str) -> Option<Self> {
        const GO: &str = "Go queues goroutines, which are not threads: SIGQUIT shows them";
        const PYTHON: &str = "Python does not store it: try `py-spy dump --pid PID`";
        const JAVA: &str = "the virtual machine has it in tables of its own: try `jstack PID`";
        const RUNTIMES: [(&str, &str, &str); 8] = [
            ("runtime.", "Go's runtime", GO),
            ("take_gil", "Python's GIL", PYTHON),
            ("PyEval_RestoreThread", "Python's GIL", PYTHON),
            ("PyEval_AcquireThread", "Python's GIL", PYTHON),
            ("PyThread_acquire_lock", "Python lock", PYTHON),
            ("ObjectMonitor::wait", "Java wait", ""),
            ("ObjectMonitor::", "Java monitor", JAVA),
            ("Unsafe_Park", "Java park", JAVA),
        ];
        let found = RUNTIMES.iter().find(|(begin, ..)| function.starts_with(begin))?;
        Some(Self::Other(found.1, found.2))
    }

    /// What is waited for by a thread with this stack.
    fn of_stack(stack: &[CodePlace]) -> Option<Self> {
        /// So near to the system call is a runtime's function that waits itself.
        const NEAR: usize = 12;
        let runtime = stack.iter().take(NEAR).find_map(|it| Self::of_runtime(&it.function));
        runtime.or_else(|| stack.iter().find_map(|it| Self::of(&it.function)))
    }

    fn of(function: &str) -> Option<Self> {
        const STD: &str = "std's locks do not store it";
        const PARKING_LOT: &str = "parking_lot does not store it";
        const OURS: &str = "it is in the thread's queue, not at the futex: give the lock a name";
        const OTHERS: [(&str, &str, &str); 14] = [
            ("parking_lot::raw_mutex", "parking_lot mutex", PARKING_LOT),
            ("parking_lot::raw_rwlock", "parking_lot rwlock", PARKING_LOT),
            ("parking_lot::condvar", "parking_lot condition", ""),
            ("std::thread::park", "park", ""),
            ("std::thread::current::park", "park", ""),
            ("std::sys::sync::mutex", "std mutex", STD),
            ("std::sys::sync::rwlock", "std rwlock", STD),
            ("std::sys::sync::condvar", "std condition", ""),
            ("std::sys::sync::thread_parking", "park", ""),
            ("std::sys::sync::once", "std once", STD),
            ("std::__atomic_futex", "future", ""),
            ("__cxa_guard_acquire", "initialization", "the guard does not store it"),
            ("pthread_once", "once", "glibc does not store it"),
            ("fairlock::", "fairlock lock", OURS),
        ];
        // Of Rust, methods of traits and functions within others.
        let name = function.trim_start_matches('<');
        // Of glibc, names for its own use.
        let own = name.trim_start_matches('_').trim_start_matches("GI_").trim_start_matches('_');
        let is_of = |(_, begins, names): &&(Self, &str, &str)| {
            begins.split_ascii_whitespace().any(|it| own.starts_with(it))
                || names.split_ascii_whitespace().any(|it| it == own)
        };
        if let Some((what, ..)) = OF_GLIBC.iter().find(is_of) {
            return Some(*what);
        }
        let other = OTHERS.iter().find(|(begin, ..)| name.starts_with(begin))?;
        Some(Self::Other(other.1, other.2))
    }
}

/// What functions of glibc wait for: how their names begin, and names.
const OF_GLIBC: [(What, &str, &str); 8] = [
    (What::Mutex, "pthread_mutex_ lll_lock_wait_pthread", ""),
    (What::Rwlock, "pthread_rwlock_", ""),
    (What::Condition, "pthread_cond_", ""),
    (What::Barrier, "pthread_barrier_wait", ""),
    (What::Semaphore, "sem_ new_sem_wait", ""),
    (What::Join, "pthread_join pthread_clockjoin pthread_timedjoin thrd_join", ""),
    (
        What::Malloc,
        "int_malloc int_free int_memalign int_realloc arena_get tcache_init",
        "malloc libc_malloc calloc libc_calloc realloc libc_realloc free libc_free cfree memalign \
         libc_memalign posix_memalign aligned_alloc valloc pvalloc mallinfo mallinfo2 malloc_info \
         malloc_trim mallopt",
    ),
    (
        What::Stdio,
        "IO_",
        "puts printf fprintf vprintf vfprintf fputs fputc putc putchar fwrite fread fgets fgetc \
         getc getchar getline getdelim ungetc fflush fclose fseek fseeko ftell ftello rewind \
         setvbuf setbuf perror fscanf scanf printf_chk fprintf_chk vfprintf_chk flockfile \
         fputs_unlocked",
    ),
];

/// Of what a futex is: its kind, its name, and its owner.
type Found = (&'static str, String, Owner);

impl Waits<'_> {
    /// What the thread waits for; none if it runs. `stack` begins with the innermost function.
    pub fn of(&self, thread: &Thread, stack: &[CodePlace]) -> Option<OfWait> {
        let recorded = self.recorded.iter().find(|wait| wait.tid == thread.inner);
        let Some(seen) = self.seen(thread, stack) else { return self.awake(recorded?) };
        // The record may be older: of a wait in another system call, or for another lock, it knows nothing.
        let is_same = |wait: &&WaitNow| match seen.owner {
            Owner::Unknown(_) | Owner::Nobody => seen.address.is_some(),
            _ => seen.address == Some(format!("{:#x}", wait.address)),
        };
        let Some(wait) = recorded.filter(is_same) else { return Some(seen) };
        let holder = wait.holder.map(|(tid, _)| self.owner(Some(tid), true, ""));
        let owner = match seen.owner {
            Owner::Unknown(_) if wait.is_lock => {
                holder.unwrap_or(Owner::Unknown("the record does not say it".to_owned()))
            }
            Owner::Unknown(_) => Owner::Nobody,
            known => known,
        };
        let held_ns = wait.holder.and_then(|(tid, ns)| match &owner {
            Owner::Thread(owner) => {
                ns.filter(|_| self.thread(tid).is_some_and(|it| it.tid == *owner))
            }
            _ => ns,
        });
        // Its waiters wake now and then by themselves.
        let timed = seen.timed && !wait.is_settled;
        Some(OfWait { timed, held_ns, ..recorded_wait(wait, owner) })
    }

    /// The same of a thread that runs: it may wait for a lock awake.
    fn awake(&self, wait: &WaitNow) -> Option<OfWait> {
        let holder = wait.holder.filter(|_| wait.is_lock)?;
        let owner = self.owner(Some(holder.0), true, "");
        Some(OfWait { held_ns: holder.1, ..recorded_wait(wait, owner) })
    }

    /// The same, by what can be seen from outside.
    fn seen(&self, thread: &Thread, stack: &[CodePlace]) -> Option<OfWait> {
        let call = thread.call.as_ref()?;
        let futex = |address, timed| self.futex(call, address, timed, stack);
        Some(match call.number.and_then(|it| Sysno::new(it as usize)) {
            Some(Sysno::futex) => futex(call.arguments[0], call.arguments[3] != 0),
            // Of another system call, the first of several addresses is in a structure.
            Some(Sysno::futex_waitv) => {
                let first = self.process.long(call.arguments[0].wrapping_add(8));
                futex(first.unwrap_or(0), call.arguments[3] != 0)
            }
            Some(other) => self.in_call(other, call),
            None => OfWait {
                kind: threads::name(call.number.unwrap_or(u64::MAX)),
                name: thread.in_kernel.clone().unwrap_or_default(),
                ..OfWait::default()
            },
        })
    }

    fn futex(&self, call: &Call, address: u64, timed: bool, stack: &[CodePlace]) -> OfWait {
        let (kind, name, owner) = self.word(call, address).unwrap_or_else(|| {
            self.ours(address, stack)
                .or_else(|| Some(self.of_function(What::of_stack(stack)?, address)))
                .unwrap_or_else(|| self.unexplained(address, stack))
        });
        let (kind, address) = (kind.to_owned(), Some(format!("{address:#x}")));
        OfWait { kind, name, address, timed, owner, ..OfWait::default() }
    }

    /// A futex whose word and call say what it is.
    fn word(&self, call: &Call, address: u64) -> Option<Found> {
        const LOCK_PI: [u64; 2] = [6, 13];
        const COMMAND: u64 = 0x7f;
        const PRIVATE: u64 = 0x80;
        let [_, operation, value, ..] = call.arguments;
        if LOCK_PI.contains(&(operation & COMMAND)) {
            let owner = glibc::word_owner(self.process, address);
            let owner = self.owner(owner, true, "no thread is in its word");
            return Some(("PI mutex", self.name(address), owner));
        }
        // A thread that joins another waits until the kernel has cleared the thread's number.
        let joined = self.threads.iter().find(|it| u64::from(it.inner) == value)?;
        let is_join =
            operation & PRIVATE == 0 && self.process.words(address) == Some([joined.inner]);
        is_join.then(|| ("join", label(joined), Owner::Thread(joined.tid)))
    }

    /// A lock of our own library, which has the program's locks elsewhere, unless it calls glibc's functions.
    fn ours(&self, address: u64, stack: &[CodePlace]) -> Option<Found> {
        const WHY: &str = "fairlock's library serves it: FAIRLOCK_PROFILE makes it record that";
        let is_ours =
            |place: &CodePlace| file_name(&place.object).starts_with("libfairlock_preload");
        stack
            .iter()
            .find(|it| is_ours(it) || What::of(&it.function).is_some())
            .filter(|it| is_ours(it))?;
        let kind = match stack.iter().find_map(|place| What::of(&place.function)) {
            Some(What::Rwlock) => "rwlock",
            Some(What::Condition) => "condition",
            _ => "mutex",
        };
        Some((kind, self.name(address), Owner::Unknown(WHY.to_owned())))
    }

    /// A futex at which a function sleeps that waits for this.
    fn of_function(&self, what: What, address: u64) -> Found {
        let named = || self.name(address);
        match what {
            What::Mutex => {
                let owner = glibc::mutex_owner(self.process, address);
                ("mutex", named(), self.owner(owner, true, "it is not one of glibc's"))
            }
            What::Rwlock => {
                let base = glibc::rwlock_of(address);
                let owner = match glibc::rwlock_owners(self.process, base) {
                    Some((0, 0)) | None => {
                        Owner::Unknown("nobody is in the lock's words".to_owned())
                    }
                    Some((0, readers)) => Owner::Readers(readers),
                    Some((writer, _)) => self.owner(Some(writer), true, ""),
                };
                ("rwlock", self.name(base), owner)
            }
            What::Condition => {
                let name = named();
                // The futex is within it, at a place that differs between versions.
                let place = ["+0x20", "+0x24", "+0x28", "+0x2c"]
                    .iter()
                    .find_map(|it| name.strip_suffix(it));
                ("condition", place.unwrap_or(&name).to_owned(), Owner::Nobody)
            }
            What::Semaphore => ("semaphore", named(), Owner::Nobody),
            What::Barrier => {
                let came = glibc::barrier_counts(self.process, address);
                let came = came.map(|(came, count)| format!(", {came} of {count} there"));
                let name = self.name(address.wrapping_sub(4)) + &came.unwrap_or_default();
                ("barrier", name, Owner::Nobody)
            }
            What::Join => ("join", named(), Owner::Unknown("it has ended".to_owned())),
            What::Malloc => {
                let is_libc = self.process.mapping(address).is_some_and(|it| !it.path.is_empty());
                let arena = || format!("arena of {address:#x}");
                let name = if is_libc { "main arena".to_owned() } else { arena() };
                ("malloc", name, Owner::Unknown("malloc does not store it".to_owned()))
            }
            What::Stdio => self.stream(address),
            // Such an address says nothing to anybody.
            What::Other(kind @ "Go's runtime", why) => {
                (kind, String::new(), Owner::Unknown(why.to_owned()))
            }
            What::Other(kind, "") => (kind, named(), Owner::Nobody),
            What::Other(kind, why) => (kind, named(), Owner::Unknown(why.to_owned())),
        }
    }

    /// The lock of a stream of glibc's.
    fn stream(&self, address: u64) -> Found {
        let is_it = |stream: &&str| {
            let variable = self.names.named(&format!("_IO_2_1_{stream}_"));
            variable.is_some_and(|it| glibc::is_lock_of(self.process, it, address))
        };
        let name = ["stdin", "stdout", "stderr"].into_iter().find(is_it);
        let name = name.map_or_else(|| self.name(address), str::to_owned);
        let tid = self.names.named("_thread_db_pthread_tid");
        let owner = glibc::stream_owner(self.process, address, tid);
        let owner = owner.filter(|&tid| self.thread(tid).is_some());
        ("stream", name, self.owner(owner, true, "the stream has no thread in it"))
    }

    /// A futex that no function explains.
    fn unexplained(&self, address: u64, stack: &[CodePlace]) -> Found {
        let owner = glibc::mutex_owner(self.process, address);
        match owner.filter(|&tid| self.thread(tid).is_some()) {
            Some(tid) => ("mutex", self.name(address), self.owner(Some(tid), false, "")),
            None => ("futex", self.name(address), self.unknown(stack)),
        }
    }

    /// Why nothing is known of a futex that no function explains.
    fn unknown(&self, stack: &[CodePlace]) -> Owner {
        let begins = |name: &str| stack.iter().any(|it| file_name(&it.object).starts_with(name));
        Owner::Unknown(
            if begins("libjvm") {
                "the Java virtual machine waits: try `jstack PID`"
            } else if begins("python") || begins("libpython") {
                "Python waits: try `py-spy dump --pid PID`"
            } else if stack.iter().all(CodePlace::is_nameless) {
                "the program has no names for its functions: it is stripped"
            } else {
                "no function on the stack is a lock's that is known"
            }
            .to_owned(),
        )
    }

    fn thread(&self, inner: u32) -> Option<&Thread> {
        self.threads.iter().find(|thread| thread.inner == inner)
    }

    /// The thread of which a lock has the number.
    fn owner(&self, inner: Option<u32>, is_certain: bool, why: &str) -> Owner {
        let Some(inner) = inner else { return Owner::Unknown(why.to_owned()) };
        if let Some(thread) = self.thread(inner) {
            return if is_certain { Owner::Thread(thread.tid) } else { Owner::Perhaps(thread.tid) };
        }
        let status = fs::read_to_string(format!("/proc/{inner}/status")).unwrap_or_default();
        match field(&status, "Tgid:").and_then(|it| it.parse().ok()) {
            // It has begun meanwhile.
            Some(process) if process == self.process.pid => Owner::Thread(inner),
            Some(process) => Owner::Elsewhere {
                tid: inner,
                process,
                name: field(&status, "Name:").unwrap_or_default().to_owned(),
            },
            None => Owner::Ended(inner),
        }
    }

    /// The variable at an address, or else what memory it is in.
    fn name(&self, address: u64) -> String {
        if let Some(variable) = self.names.variable(address, &[0]) {
            return variable;
        }
        let Some(mapping) = self.process.mapping(address) else { return format!("{address:#x}") };
        let is_in = |it: &&Thread| {
            it.call.as_ref().is_some_and(|call| (mapping.start..mapping.end).contains(&call.stack))
        };
        match (self.threads.iter().find(is_in), &*mapping.path) {
            (Some(thread), _) => format!("{address:#x} (stack of {})", label(thread)),
            (None, "[heap]") => format!("{address:#x} (heap)"),
            (None, "") => format!("{address:#x} (allocated memory)"),
            (None, "/dev/zero (deleted)") => format!("{address:#x} (shared memory)"),
            (None, path) => format!("{}+{:#x}", file_name(path), mapping.in_file(address)),
        }
    }

    /// A system call that is not for locks of programs.
    fn in_call(&self, call: Sysno, made: &Call) -> OfWait {
        /// Those whose first argument is a descriptor.
        const WITH_FILE: &str = "accept accept4 connect fallocate fcntl fdatasync flock fsync \
            getdents64 io_uring_enter ioctl pread64 preadv pwrite64 pwritev read readv recvfrom \
            recvmsg sendmsg sendto sync_file_range write writev";
        let name = call.name();
        let has_file = WITH_FILE.split_ascii_whitespace().any(|it| it == name);
        let file = has_file.then(|| self.process.descriptor(made.arguments[0])).flatten();
        let is_lock = matches!(call, Sysno::flock | Sysno::fcntl);
        OfWait {
            kind: name.to_owned(),
            name: file.unwrap_or_default(),
            owner: if is_lock { self.file_lock() } else { Owner::Nobody },
            ..OfWait::default()
        }
    }

    /// Which process holds the lock of a file that this one waits for, as the kernel has it: a line for each lock,
    /// and below it those that wait for it.
    fn file_lock(&self) -> Owner {
        let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
        let mut holder = 0;
        for line in locks.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number =
                |at: usize| words.get(at).and_then(|it| it.parse::<u32>().ok()).unwrap_or(0);
            if words.get(1) != Some(&"->") {
                holder = number(4);
            } else if number(5) == self.process.pid && holder != 0 {
                let name = fs::read_to_string(format!("/proc/{holder}/comm")).unwrap_or_default();
                let name = name.trim_end().to_owned();
                return Owner::Elsewhere { tid: holder, process: holder, name };
            }
        }
        Owner::Unknown("/proc/locks does not say it".to_owned())
    }
}

/// The place at which the program itself asked for what it waits for. `stack` begins with the innermost function.
pub fn caller<'a>(stack: impl Iterator<Item = &'a CodePlace> + Clone) -> Option<&'a CodePlace> {
    let is_known = |place: &&CodePlace| {
        What::of_runtime(&place.function).or(What::of(&place.function)).is_some()
    };
    // In static programs, the functions of libraries are in the program's file.
    let inside = stack.clone().take_while(|place| !is_known(place)).count();
    let of_lock = stack.clone().skip(inside).take_while(is_known).count();
    let skipped = if of_lock == 0 { 0 } else { inside + of_lock };
    let found = place::caller_of(stack.clone().skip(skipped));
    let found = found.or_else(|| place::caller_of(stack.clone()))?;
    // And have no lines there, but the program's own functions may have.
    let has_line =
        |it: &&CodePlace| it.file.is_some() && it.object == found.object && !place::is_wrapper(it);
    let own = if found.file.is_none() { stack.clone().find(has_line) } else { None };
    own.or(Some(found))
}

/// A wait as the process has recorded it, for what this owner has.
fn recorded_wait(wait: &WaitNow, owner: Owner) -> OfWait {
    OfWait {
        kind: wait.kind.to_owned(),
        name: wait.name.clone(),
        address: Some(format!("{:#x}", wait.address)),
        owner,
        waited_ns: Some(wait.waited_ns),
        ..OfWait::default()
    }
}

/// A thread's name and number.
pub fn label(thread: &Thread) -> String {
    format!("{} ({})", thread.name, thread.tid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_says_what_is_waited_for_in_it() {
        let kind = |function| match What::of_runtime(function).or(What::of(function)) {
            Some(What::Other(kind, _)) => kind.to_owned(),
            other => format!("{other:?}"),
        };
        for (function, what) in [
            ("__GI___pthread_mutex_lock", "Some(Mutex)"),
            ("pthread_mutex_timedlock", "Some(Mutex)"),
            ("___pthread_cond_wait", "Some(Condition)"),
            ("__pthread_clockjoin_ex", "Some(Join)"),
            ("__new_sem_wait_slow64.constprop.0", "Some(Semaphore)"),
            ("_IO_puts", "Some(Stdio)"),
            ("__GI___libc_malloc", "Some(Malloc)"),
            ("runtime.futex.abi0", "Go's runtime"),
            ("std::sys::sync::mutex::futex::Mutex::lock_contended", "std mutex"),
            ("<parking_lot::raw_rwlock::RawRwLock>::lock_exclusive_slow", "parking_lot rwlock"),
            ("ObjectMonitor::EnterI(JavaThread*)", "Java monitor"),
            ("mallocator", "None"),
            ("main", "None"),
            ("free_list::take", "None"),
        ] {
            assert_eq!(kind(function), what, "{function}");
        }
    }

    /// Python's locks are semaphores, or mutexes with conditions.
    #[test]
    fn a_runtime_s_lock_is_not_the_lock_within_it() {
        let stack = |functions: &[&str]| -> Vec<CodePlace> {
            let place =
                |it: &&str| CodePlace { function: (*it).to_owned(), ..CodePlace::default() };
            functions.iter().map(place).collect()
        };
        let kind = |functions: &[&str]| match What::of_stack(&stack(functions)) {
            Some(What::Other(kind, _)) => kind.to_owned(),
            other => format!("{other:?}"),
        };
        let gil = ["__futex_abstimed_wait_common", "pthread_cond_timedwait", "take_gil", "main"];
        assert_eq!(kind(&gil), "Python's GIL");
        assert_eq!(kind(&gil[..2]), "Some(Condition)");
        let calls = ["futex_wait", "sem_clockwait", "PyThread_acquire_lock_timed", "acquire_timed"];
        assert_eq!(caller(stack(&calls).iter()).unwrap().function, "acquire_timed");
    }
}
