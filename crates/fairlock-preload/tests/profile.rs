//! The record that `FAIRLOCK_PROFILE` asks for.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::{compile, compile_library, succeeds, with_ours};
use fairlock_profile::layout::{frame, kind};
use fairlock_profile::{Asleep, AtPlace, Lock, Module, Record, Wait};

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("profile.c"))
}

/// A new folder for the records of a test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    folder
}

/// A test of the program, which leaves its records in the folder.
fn recorded(test: &str, folder: &Path) -> Command {
    let mut command = with_ours(program());
    command.arg(test).env("FAIRLOCK_PROFILE", folder).env("FAIRLOCK_PROFILE_THRESHOLD", "0");
    command
}

/// The same, with the locks left to glibc.
fn observed(test: &str, folder: &Path) -> Command {
    let mut command = recorded(test, folder);
    command.env("FAIRLOCK_OBSERVE", "1");
    command
}

type Way = fn(&str, &Path) -> Command;

/// Each way of running it.
const WAYS: [(&str, Way); 2] = [("observed", observed), ("ours", recorded)];

/// By the time when they began.
fn records(folder: &Path) -> Vec<Record> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut records: Vec<_> = files.map(|file| fairlock_profile::load(&file).unwrap()).collect();
    records.sort_by_key(|record| record.began_ns);
    records
}

fn the_record(folder: &Path) -> Record {
    let mut records = records(folder);
    assert_eq!(records.len(), 1);
    records.remove(0)
}

/// The one of this kind that was waited for.
fn waited_for(record: &Record, kind: u32) -> &Lock {
    let mut found =
        record.locks.iter().filter(|lock| lock.kind == kind && lock.contention.is_some());
    let lock = found.next().expect("a lock that was waited for");
    assert!(found.next().is_none());
    lock
}

/// What `one_of_each` does.
fn has_one_of_each(record: &Record) {
    let mutex = waited_for(record, kind::MUTEX);
    assert_eq!((mutex.reads, mutex.writes), (0, 12));
    let found = mutex.contention.as_ref().unwrap();
    assert_eq!((found.waits(), found.writes, found.given_up), (1, 1, 0));
    assert_eq!(found.waits_by_time.iter().sum::<u64>(), 1);
    assert!(found.longest_ns >= 2_000_000 && found.waited_ns == found.longest_ns, "{found:?}");
    // It was held by the waiter, and before that for as long as the other one waited at least.
    assert!(found.holds == 2 && found.longest_held_ns >= 2_000_000, "{found:?}");
    let rwlock = waited_for(record, kind::RWLOCK);
    assert_eq!((rwlock.reads, rwlock.writes), (2, 1));
    let found = rwlock.contention.as_ref().unwrap();
    assert_eq!((found.reads, found.writes), (1, 0));
    let wait = &record.waits[0];
    assert_eq!((wait.number, wait.name.as_str(), wait.passed), (1, "waiter", 0));
    assert!(wait.holder == record.pid && wait.thread != record.pid && !wait.reads);
    assert!(wait.released_ns.unwrap() >= wait.began_ns + 2_000_000);
    assert!(record.waits[1].reads && record.waits.len() == 2);
    assert!(record.locks.iter().all(|lock| kind::is_lock(lock.kind)), "{:?}", record.locks);
    assert_eq!(record.lost, 0);
    // What waited and what released it are not the same places.
    let frames = [wait.stack, wait.holder_stack].map(|stack| record.stack(stack));
    assert!(frames.iter().all(|frames| !frames.is_empty()), "{frames:?}");
    assert_ne!(frames[0], frames[1]);
    // The time is charged to both.
    let place = record.waiters.iter().find(|place| place.lock == wait.lock).unwrap();
    assert_eq!((place.count, place.stack, place.waited_ns), (1, wait.stack, wait.waited_ns));
    let is_holder = |place: &&AtPlace| (place.lock, place.stack) == (wait.lock, wait.holder_stack);
    let place = record.holders.iter().find(is_holder).unwrap();
    assert_eq!((place.count, place.waited_ns), (1, wait.waited_ns));
    let program = record.modules.iter().filter(|module| module.path.ends_with("/profile"));
    let in_program =
        |address: &u64| program.clone().any(|module| (module.start..module.end).contains(address));
    assert!(frames.iter().all(|frames| in_program(&frames[0])), "{frames:x?}");
}

/// Two plugins, which are the same but for their paths.
fn two_plugins() -> [PathBuf; 2] {
    static PLUGINS: OnceLock<[PathBuf; 2]> = OnceLock::new();
    let plugins = PLUGINS.get_or_init(|| {
        let plugin = compile_library("plugin.c");
        let other = plugin.with_file_name("other_plugin");
        fs::copy(&plugin, &other).unwrap();
        [plugin, other]
    });
    plugins.clone()
}

/// Runs a test that loads one plugin where the other one was, each way, and looks at the record: with the path of the
/// module that the last call of a stack is in.
fn with_plugins(
    test: &str,
    plugins: &[PathBuf; 2],
    look: impl Fn(&Record, &dyn Fn(u32) -> PathBuf),
) {
    let folder = folder(&format!("profile_{test}"));
    for way in [recorded, observed] {
        let mut command = way(test, &folder);
        succeeds(command.env("PLUGIN", &plugins[0]).env("OTHER_PLUGIN", &plugins[1]));
        let record = the_record(&folder);
        let module_of = |stack| {
            let frame = record.stack(stack)[0];
            let unloads = (frame >> frame::UNLOADS_SHIFT) as u32;
            let is_it = |module: &&Module| {
                module.unloads == unloads
                    && (module.start..module.end).contains(&(frame & frame::ADDRESS))
            };
            PathBuf::from(&record.modules.iter().find(is_it).unwrap().path)
        };
        look(&record, &module_of);
        fs::remove_file(fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path()).unwrap();
    }
}

#[test]
fn a_plugin_where_another_one_was_is_not_taken_for_that_one() {
    let [plugin, other] = two_plugins();
    with_plugins("plugins", &two_plugins(), |record, module_of| {
        let waits: Vec<_> = record.waits.iter().map(|wait| module_of(wait.stack)).collect();
        assert_eq!(waits, [&*plugin, &other, &plugin, &other]);
    });
}

#[test]
fn a_lock_where_that_of_another_plugin_was_has_a_row_of_its_own() {
    let plugins = two_plugins();
    with_plugins("locks_of_plugins", &plugins, |record, module_of| {
        let found = record.locks.iter().filter(|lock| lock.writes >= 100);
        let found: Vec<_> = found.collect();
        let taken: Vec<_> =
            found.iter().map(|lock| (lock.writes, module_of(lock.first_stack))).collect();
        assert_eq!(taken, [(600, plugins[0].clone()), (300, plugins[1].clone())]);
        assert_eq!(found[0].address, found[1].address);
    });
}

/// Those of glibc's locks are glibc's, although each lock is tried first.
#[test]
fn results_are_the_same_with_a_record() {
    let folder = folder("profile_results");
    let programs = [
        ("errors.c", "functions invalid busy deadlock timeouts"),
        ("mutex.c", "results kinds c11"),
        ("profile.c", "semaphores futexes"),
        ("cond.c", "results both_clocks cancelled waits_when_cancelled"),
    ];
    for (source, tests) in programs {
        let program = compile(source);
        for test in tests.split(' ') {
            for observe in ["", "1"] {
                let mut command = with_ours(&program);
                command.env("FAIRLOCK_PROFILE", &folder).env("FAIRLOCK_OBSERVE", observe);
                succeeds(command.arg(test));
            }
        }
    }
}

/// Its mutex is held when a stack is asked for: calling it would be a deadlock.
#[test]
fn the_programs_own_unwinder_is_not_called() {
    let folder = folder("profile_unwinder");
    let mut command = with_ours(&compile("unwinder.c"));
    succeeds(command.env("FAIRLOCK_PROFILE", &folder).env("FAIRLOCK_OBSERVE", "1"));
    let record = the_record(&folder);
    assert!(record.locks.iter().any(|lock| lock.writes == 1 && lock.first_stack != 0));
}

#[test]
fn each_wait_is_known_with_who_waited_and_who_released() {
    let folder = folder("profile_waits");
    succeeds(&mut observed("waits", &folder));
    let record = the_record(&folder);
    assert!(record.observed && record.ended_ns.is_some());
    has_one_of_each(&record);
}

#[test]
fn our_own_locks_are_recorded_alike() {
    let folder = folder("profile_ours");
    succeeds(&mut recorded("waits", &folder));
    let record = the_record(&folder);
    assert!(!record.observed && record.policy == "default");
    has_one_of_each(&record);
}

#[test]
fn a_wait_names_who_held_longest_not_who_released_last() {
    let recorded = || {
        let folder = folder("profile_chain");
        let output = observed("chain", &folder).output().unwrap();
        // It says where the others held it for as long.
        if output.status.code() == Some(75) {
            return None;
        }
        assert!(output.status.success(), "{output:?}");
        let record = the_record(&folder);
        // The time in which the waiter has no CPU is charged to the last one.
        let woken = |wait: &Wait| wait.began_ns + wait.waited_ns - wait.released_ns.unwrap();
        record.waits.iter().all(|wait| woken(wait) < 10_000_000).then_some(record)
    };
    let record = std::iter::repeat_with(recorded).find_map(|record| record).unwrap();
    let [wait] = &record.waits[..] else { panic!("{:?}", record.waits) };
    assert!(wait.held_ns().unwrap() >= 50_000_000, "{wait:?}");
    // The others held it after that one.
    assert!(wait.released_ns.unwrap() >= wait.held_until_ns.unwrap() + 5_000_000, "{wait:?}");
    let most = record.holders.iter().max_by_key(|place| place.waited_ns).unwrap();
    assert_eq!(wait.holder_stack, most.stack, "{:?}", record.holders);
}

#[test]
fn each_holder_is_charged_for_the_waits_during_its_own_hold() {
    for (name, test) in WAYS {
        let folder = folder(&format!("profile_shares_{name}"));
        succeeds(&mut test("shares", &folder));
        let record = the_record(&folder);
        let mutex = waited_for(&record, kind::MUTEX);
        let mut held: Vec<u64> = record.holders.iter().map(|place| place.waited_ns).collect();
        held.sort_unstable();
        // Both waited for the first one, for 20 ms at least, and then one of them for the other.
        let [second, first] = held[..] else { panic!("{:?}", record.holders) };
        assert!(first >= 40_000_000 && second >= 20_000_000, "{:?}", record.holders);
        assert_eq!(held.iter().sum::<u64>(), mutex.contention.as_ref().unwrap().waited_ns);
    }
}

/// Waits that are too short to be kept by themselves are all counted, also those that are only noted
/// when the program is killed.
#[test]
fn short_waits_are_all_counted() {
    let folder = folder("profile_short_waits");
    let mut command = observed("crowd_and_kill", &folder);
    assert!(!command.env_remove("FAIRLOCK_PROFILE_THRESHOLD").status().unwrap().success());
    let record = the_record(&folder);
    let mutex = record.locks.iter().max_by_key(|lock| lock.writes).unwrap();
    assert_eq!((mutex.writes, record.lost), (900_000, 0));
    // None of them if there is one CPU only, perhaps.
    let waits = mutex.contention.as_ref().map_or(0, |found| found.waits());
    let by_time = mutex.contention.iter().flat_map(|found| &found.waits_by_time).sum::<u64>();
    let by_place = record.waiters.iter().map(|place| place.count).sum::<u64>();
    assert_eq!((by_time, by_place), (waits, waits));
}

#[test]
fn spin_locks_are_recorded_too() {
    for (name, test) in WAYS {
        let folder = folder(&format!("profile_spins_{name}"));
        succeeds(&mut test("spins", &folder));
        let record = the_record(&folder);
        let spin = waited_for(&record, kind::SPIN);
        let found = spin.contention.as_ref().unwrap();
        assert_eq!((spin.reads, spin.writes, found.waits(), record.waits.len()), (0, 12, 1, 1));
        assert!(record.waits[0].holder == record.pid && record.holders.len() == 1, "{record:?}");
    }
}

#[test]
fn what_is_killed_or_leaves_without_exit_has_its_record() {
    let folder = folder("profile_killed");
    for test in ["killed", "killed_later"] {
        assert!(!observed(test, &folder).status().unwrap().success());
    }
    succeeds(&mut observed("leaves", &folder));
    let records = records(&folder);
    assert_eq!(records.len(), 3);
    for record in &records {
        assert_eq!(record.ended_ns, None);
        has_one_of_each(record);
    }
}

#[test]
fn a_child_has_a_record_of_its_own() {
    let folder = folder("profile_forks");
    succeeds(&mut observed("forks", &folder));
    let records = records(&folder);
    assert_eq!(records.len(), 2);
    has_one_of_each(&records[0]);
    assert_eq!(records[1].parent, Some(records[0].pid));
    let mutex = waited_for(&records[1], kind::MUTEX);
    assert_eq!((mutex.writes, mutex.contention.as_ref().unwrap().writes), (2, 1));
}

/// Also on the first use of locks in its process, which makes no record.
#[test]
fn a_handler_may_wait_on_a_small_stack() {
    // Code that is not optimised needs more; how much differs by a kilobyte with where the stack begins.
    for (name, room) in [("observed", 7000), ("ours", 15_500)] {
        let room = if cfg!(debug_assertions) { room } else { 4000 };
        let folder = folder(&format!("profile_small_stacks_{name}"));
        let mut command = with_ours(&compile("process.c"));
        command.arg("small_stacks").env("FAIRLOCK_PROFILE", &folder).env("ROOM", room.to_string());
        if name == "observed" {
            command.env("FAIRLOCK_OBSERVE", "1");
        }
        succeeds(&mut command);
        assert!(the_record(&folder).locks.iter().any(|lock| lock.contention.is_some()));
    }
}

/// The first threads that use locks have the smallest stacks that there are.
#[test]
fn small_threads_may_make_the_record() {
    let folder = folder("profile_small_threads");
    succeeds(&mut observed("small_threads", &folder));
    assert!(the_record(&folder).locks.iter().any(|lock| lock.writes == 12));
}

/// They would stand still if a handler came while the thread has a mutex of the record.
#[test]
fn handlers_may_take_the_first_locks_of_a_process() {
    for (name, test) in WAYS {
        let folder = folder(&format!("profile_handlers_{name}"));
        succeeds(&mut test("handlers", &folder));
        let records = records(&folder);
        let have_locks = records.iter().filter(|record| !record.locks.is_empty()).count();
        assert_eq!((records.len(), have_locks), (41, 40), "the parent takes no lock");
    }
}

/// Where the program can still open files.
#[test]
fn the_record_is_made_when_the_library_is_loaded() {
    for (name, test) in WAYS {
        let folder = folder(&format!("profile_confined_{name}"));
        let output = succeeds(&mut test("confined", &folder));
        assert!(output.stderr.is_empty(), "{output:?}");
        let record = the_record(&folder);
        assert_eq!((record.locks.len(), record.locks[0].writes, record.lost), (1, 1, 0));
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        // However many there are of them.
        (0..3).for_each(|_| _ = succeeds(&mut test("takes_no_lock", &folder)));
        let record = the_record(&folder);
        assert!(record.locks.is_empty() && record.ended_ns.is_some(), "{record:?}");
    }
}

#[test]
fn what_was_before_exec_stays() {
    let folder = folder("profile_execs");
    succeeds(&mut observed("execs", &folder));
    let records = records(&folder);
    assert!(records.len() == 2 && records[0].pid == records[1].pid);
    records.iter().for_each(has_one_of_each);
}

#[test]
fn what_ended_threads_counted_is_counted() {
    let folder = folder("profile_threads");
    succeeds(&mut observed("threads", &folder));
    let record = the_record(&folder);
    let mutex = record.locks.iter().find(|lock| lock.writes >= 1000);
    assert!(mutex.is_some_and(|mutex| mutex.writes == 1000), "{:?}", record.locks);
    assert!(record.threads.len() <= 1, "places of ended threads are used again");
}

#[test]
fn a_million_locks_are_counted_one_by_one() {
    for (test, locks) in [("million", 1_000_000), ("closes", 20_000)] {
        let folder = folder(&format!("profile_{test}"));
        succeeds(&mut observed(test, &folder));
        let record = the_record(&folder);
        let twice = record.locks.iter().filter(|lock| lock.writes == 2).count();
        assert!(twice >= locks && record.lost == 0, "{twice}, {} lost", record.lost);
        // All from one place.
        assert!(record.stacks().count() < 50);
    }
}

#[test]
fn a_program_that_locks_its_memory_has_only_what_is_in_use_of_its_record() {
    let folder = folder("profile_mlockall");
    succeeds(&mut observed("locks_its_memory", &folder));
    assert_eq!(the_record(&folder).lost, 0);
}

/// How many bytes the only file of the folder takes.
fn taken(folder: &Path) -> u64 {
    let file = fs::read_dir(folder).unwrap().next().unwrap().unwrap();
    file.metadata().unwrap().blocks() * 512
}

#[test]
fn a_process_that_takes_one_lock_or_waits_once_takes_little_memory() {
    for (test, most) in [("takes_once", 24 << 10), ("waits", 64 << 10)] {
        let folder = folder(&format!("profile_little_{test}"));
        succeeds(&mut observed(test, &folder));
        assert!(taken(&folder) <= most, "{test}: {}", taken(&folder));
    }
}

/// Each time that it was read would take a quarter of a megabyte.
#[test]
fn a_map_with_more_code_than_is_remembered_is_not_read_all_the_time() {
    let folder = folder("profile_many_mappings");
    succeeds(&mut observed("many_mappings", &folder));
    assert!(the_record(&folder).stacks().count() >= 250);
    assert!(taken(&folder) <= 16 << 20, "{}", taken(&folder));
}

#[test]
fn a_file_is_as_long_as_it_must_be() {
    let length = |test| {
        let folder = folder(&format!("profile_length_{test}"));
        succeeds(&mut observed(test, &folder));
        assert_eq!(the_record(&folder).lost, 0);
        fs::read_dir(&folder).unwrap().next().unwrap().unwrap().metadata().unwrap().len()
    };
    assert_eq!(length("takes_once"), 16 << 20);
    let long = length("million");
    assert!((64 << 20..=256 << 20).contains(&long), "{long}");
}

/// What finds no room is counted as lost, and the rest can be read.
#[test]
fn a_file_that_may_not_grow_has_what_fits() {
    let folder = folder("profile_full");
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 65536 && exec \"$@\"", "sh"]);
    let whole = observed("million", &folder);
    limited.arg(whole.get_program()).args(whole.get_args());
    for (name, value) in whole.get_envs() {
        limited.env(name, value.unwrap());
    }
    succeeds(&mut limited);
    // The first is the shell's.
    let record = records(&folder).pop().unwrap();
    let twice = record.locks.iter().filter(|lock| lock.writes == 2).count();
    assert!(twice > 1000 && record.lost > 100_000, "{twice}, {} lost", record.lost);
}

#[test]
fn a_wait_for_a_condition_is_no_wait_for_its_mutex() {
    let folder = folder("profile_cond");
    succeeds(&mut observed("cond", &folder));
    let record = the_record(&folder);
    // Once by each, and again after the wait.
    let mutex = record.locks.iter().find(|lock| lock.writes == 3);
    let mutex = mutex.unwrap_or_else(|| panic!("{:?}", record.locks));
    let waits = mutex.contention.as_ref().map_or(0, |found| found.waits());
    assert!(waits <= 1, "only the other thread can have waited");
}

#[test]
fn waits_at_a_condition_are_recorded_and_nobody_is_to_blame() {
    for (name, test) in WAYS {
        let folder = folder(&format!("profile_conditions_{name}"));
        succeeds(&mut test("conditions", &folder));
        let record = the_record(&folder);
        let number = record.locks.iter().position(|lock| lock.kind == kind::CONDITION).unwrap();
        let condition = &record.locks[number];
        let found = condition.contention.as_ref().unwrap();
        assert_eq!((found.writes, found.given_up, condition.writes), (1, 2, 0), "{found:?}");
        // The one that was cancelled.
        assert!(found.longest_ns >= 2_000_000 && found.waited_ns >= found.longest_ns, "{found:?}");
        // It is known where the one was ended.
        let wakers: Vec<_> = record.holders.iter().filter(|it| it.lock == number).collect();
        assert!(matches!(wakers[..], [AtPlace { count: 1, waited_ns: 0, .. }]), "{wakers:?}");
        assert!(record.waits.iter().all(|wait| wait.lock != number), "{:?}", record.waits);
        // Those that have not ended.
        let asleep: Vec<_> = record.threads.iter().filter_map(|it| it.asleep.as_ref()).collect();
        assert_eq!(asleep.iter().map(|it| it.lock).collect::<Vec<_>>(), [number; 2]);
        let waited = |it: &&Asleep| record.ended_ns.unwrap() - it.since_ns;
        assert!(asleep.iter().all(|it| waited(it) >= 2_000_000), "{asleep:?}");
        assert!(asleep.iter().all(|it| !record.stack(it.stack).is_empty()), "{asleep:?}");
    }
}

/// Those of the program: the library's own are none of its waits.
#[test]
fn waits_at_semaphores_and_futexes_are_recorded() {
    for (what, kind, in_vain) in [("semaphores", kind::SEMAPHORE, 2), ("futexes", kind::FUTEX, 1)] {
        for (name, test) in WAYS {
            let folder = folder(&format!("profile_{what}_{name}"));
            succeeds(&mut test(what, &folder));
            let record = the_record(&folder);
            let found = waited_for(&record, kind).contention.as_ref().unwrap();
            assert_eq!((found.writes, found.given_up), (1, in_vain), "{what}: {found:?}");
            assert!(found.longest_ns >= 2_000_000, "{what}: {found:?}");
            assert_eq!(record.waits, []);
            let [waker] = &record.holders[..] else { panic!("{:?}", record.holders) };
            assert!(waker.waited_ns == 0 && waker.count >= 1, "{what}: {waker:?}");
            assert!(record.stack(waker.stack) != record.stack(record.waiters[0].stack));
            assert!(record.waiters.iter().all(|place| !record.stack(place.stack).is_empty()));
        }
    }
}

#[test]
fn a_mutex_has_nothing_of_a_condition_that_was_at_its_place() {
    for (name, test) in WAYS {
        let folder = folder(&format!("profile_same_place_{name}"));
        succeeds(&mut test("condition_then_mutex", &folder));
        let record = the_record(&folder);
        let condition = waited_for(&record, kind::CONDITION);
        let there = record.locks.iter().filter(|lock| lock.address == condition.address);
        let mutex = there.clone().find(|lock| lock.kind == kind::MUTEX).unwrap();
        assert_eq!((mutex.writes, &mutex.contention, there.count()), (7, &None, 2));
    }
}

/// The record of a program that has killed itself.
fn of_the_killed(test: &str, way: Way, folder: &Path) -> Record {
    let output = way(test, folder).output().unwrap();
    assert_eq!(output.status.signal(), Some(9), "{output:?}");
    the_record(folder)
}

#[test]
fn a_holder_that_waited_itself_is_not_charged() {
    for (name, way) in WAYS {
        let folder = folder(&format!("profile_through_{name}"));
        succeeds(&mut way("through", &folder));
        let record = the_record(&folder);
        let [other, wait] = &record.waits[..] else { panic!("{:?}", record.waits) };
        assert!(other.holder == record.pid && wait.holder == other.thread, "{wait:?}");
        let charged = record.holders.iter().filter(|place| place.lock == wait.lock);
        let most = charged.max_by_key(|place| place.waited_ns).unwrap();
        assert!(most.waited_ns >= 15_000_000, "{:?}", record.holders);
        assert_eq!(record.stack(most.stack), record.stack(other.holder_stack));
    }
}

#[test]
fn a_holder_in_another_process_has_its_number() {
    for (name, way) in WAYS {
        let folder = folder(&format!("profile_shared_{name}"));
        succeeds(&mut way("shared", &folder));
        let [parent, child] = &records(&folder)[..] else { panic!() };
        let [wait] = &parent.waits[..] else { panic!("{:?}", parent.waits) };
        assert_eq!((wait.holder, wait.holder_stack), (child.pid, 0));
        assert!(wait.held_ns().unwrap() >= 2_000_000, "{wait:?}");
        let charged = parent.holders.iter().find(|place| place.lock == wait.lock).unwrap();
        assert!(charged.stack == 0 && charged.waited_ns >= 2_000_000, "{charged:?}");
    }
}

#[test]
fn a_deadlock_is_in_the_record_of_a_killed_program() {
    for (name, way) in WAYS {
        let record = of_the_killed("deadlock", way, &folder(&format!("profile_deadlock_{name}")));
        let [deadlock] = &record.deadlocks()[..] else { panic!("{:?}", record.threads) };
        let mut names: Vec<&str> =
            deadlock.iter().map(|&at| record.threads[at].name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["first", "second"]);
        for &at in deadlock {
            let asleep = record.threads[at].asleep.as_ref().unwrap();
            assert!(asleep.since_ns > record.began_ns && !record.stack(asleep.stack).is_empty());
            // Each took its first one where nobody waited.
            let held = record.held_now(asleep.lock).unwrap();
            let frames = [held.first_stack, asleep.stack].map(|it| record.stack(it));
            assert!(held.thread != record.threads[at].tid && frames[0].len() >= 2, "{held:?}");
            assert_ne!(frames[0], frames[1]);
        }
    }
}

#[test]
fn a_thread_that_has_waited_holds_the_lock_while_others_wait() {
    for (name, way) in WAYS {
        let record = of_the_killed("kept", way, &folder(&format!("profile_kept_{name}")));
        let lock = record.locks.iter().position(|lock| lock.contention.is_some()).unwrap();
        let [(waiter, asleep)] = record.waiting(lock)[..] else { panic!("{:?}", record.threads) };
        let held = record.held_now(lock).unwrap();
        assert!(held.thread != waiter.tid && held.thread != record.pid, "{held:?}");
        assert!(held.is_exact && held.since_ns > Some(asleep.since_ns.min(record.began_ns)));
        assert_eq!(record.stack(held.stack), record.stack(asleep.stack), "where it was taken");
    }
}

#[test]
fn a_lock_that_was_taken_again_is_still_held() {
    let ended = || {
        let folder = folder("profile_taken_again");
        let output = observed("taken_again", &folder).output().unwrap();
        (output.status.code() != Some(75)).then_some(folder)
    };
    let folder = std::iter::repeat_with(ended).find_map(|ended| ended).unwrap();
    let record = the_record(&folder);
    let lock = record.locks.iter().position(|lock| lock.contention.is_some()).unwrap();
    assert_eq!(record.held_now(lock).unwrap().thread, record.pid);
}

#[test]
fn a_writer_is_known_to_those_that_wait() {
    for (name, way) in WAYS {
        let record = of_the_killed("written", way, &folder(&format!("profile_written_{name}")));
        let lock = record.locks.iter().position(|lock| lock.kind == kind::RWLOCK).unwrap();
        let reads: Vec<bool> = record.waiting(lock).iter().map(|(_, it)| it.reads).collect();
        assert_eq!(reads, [true, false]);
        assert_eq!(record.held_now(lock).unwrap().thread, record.pid);
    }
}

#[test]
fn waits_in_vain_are_told_from_the_others() {
    let folder = folder("profile_in_vain");
    succeeds(&mut observed("in_vain", &folder));
    let record = the_record(&folder);
    let mutex = waited_for(&record, kind::MUTEX);
    let found = mutex.contention.as_ref().unwrap();
    assert_eq!((mutex.writes, found.given_up, found.writes), (2, 1, 0));
    assert!(record.waits[0].given_up && record.waits[0].holder == 0);
}

#[test]
fn why_there_is_no_record_is_said() {
    let folder = folder("profile_why");
    fs::write(folder.join("file"), "").unwrap();
    let said = |path: &Path, limit: &str| {
        // Not for the shell, too.
        let script = format!("{limit}; LD_PRELOAD=$LIBRARY exec \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "sh"]).arg(program()).arg("waits");
        shell.env("FAIRLOCK_PROFILE", path).env("FAIRLOCK_OBSERVE", "1");
        shell.env("LIBRARY", common::library());
        let text = String::from_utf8(succeeds(&mut shell).stderr).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    let path = folder.join("");
    for (path, limit, reason) in [
        (path.clone(), "ulimit -f 100", "ulimit -f"),
        (path.join("no/folder"), ":", "does not exist"),
        (path.join("file/in/it"), ":", "does not exist"),
    ] {
        let text = said(&path, limit);
        assert!(text.starts_with("fairlock: no record: ") && text.contains(reason), "{text}");
    }
}

#[test]
fn where_no_file_can_be_made_the_program_runs() {
    let output = succeeds(&mut observed("waits", Path::new("/no/such/folder/file")));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.lines().count() == 1 && said.contains("FAIRLOCK_PROFILE"), "{said}");
}
