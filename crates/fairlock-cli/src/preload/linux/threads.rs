//! What the program's threads do, seen from outside: the record knows only of locks that are pthread's,
//! and threads may wait in other ways.

use std::fmt::Write;
use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::units::{percent, time};

/// How often they are looked at; less often where looking takes long.
const PERIOD: Duration = Duration::from_millis(10);
/// Looking takes no more than one part in so many of the time.
const PART: u32 = 20;

/// Looks at a program's threads while it lives.
pub struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<Threads>,
}

/// The time of all threads together, as far as they were looked at.
#[derive(Default)]
pub struct Threads {
    ran: Duration,
    running: Duration,
    in_futexes: Duration,
    elsewhere: Duration,
    /// Asleep, but the kernel does not say where.
    hidden: Duration,
}

impl Watch {
    /// Of a child of this process, and its children.
    pub fn of(pid: u32) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let (mut threads, mut last) = (Threads::default(), Instant::now());
            let mut pause = PERIOD;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let now = Instant::now();
                threads.look(pid, now - last);
                threads.ran += now - last;
                last = now;
                pause = PERIOD.max(now.elapsed() * PART);
            }
            threads
        });
        Self { stop, thread }
    }

    /// What was seen.
    pub fn end(self) -> Threads {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

impl Threads {
    /// Each thread has been for so long in the state in which it is now.
    fn look(&mut self, pid: u32, time: Duration) {
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return };
        for thread in threads.flatten() {
            // Whatever cannot be read is of a thread that has ended meanwhile.
            let read = |file: &str| fs::read_to_string(thread.path().join(file));
            if let Ok(stat) = read("stat")
                && let Some(place) = self.place(&stat, || read("syscall").ok())
            {
                *place += time;
            }
            let children = read("children").unwrap_or_default();
            children.split_whitespace().flat_map(str::parse).for_each(|pid| self.look(pid, time));
        }
    }

    /// Where the time of a thread counts, by what the kernel says of it.
    fn place(
        &mut self,
        stat: &str,
        syscall: impl FnOnce() -> Option<String>,
    ) -> Option<&mut Duration> {
        const FUTEX: [&str; 2] = ["202", "449"];
        // The name before it may have any letters.
        let (_, state) = stat.rsplit_once(") ")?;
        Some(match state.as_bytes().first()? {
            b'R' => &mut self.running,
            b'S' | b'D' => match syscall() {
                Some(call) if FUTEX.contains(&call.split(' ').next().unwrap_or_default()) => {
                    &mut self.in_futexes
                }
                Some(_) => &mut self.elsewhere,
                None => &mut self.hidden,
            },
            _ => return None,
        })
    }

    /// The same for people, with what was lost at locks by the record; empty if nothing was seen.
    pub fn text(&self, lost_ns: u64) -> String {
        let all = self.running + self.in_futexes + self.elsewhere + self.hidden;
        if all.is_zero() {
            return String::new();
        }
        let share = |part: Duration| percent(part.as_secs_f64() / all.as_secs_f64());
        let lost = Duration::from_nanos(lost_ns);
        let mut text = format!(
            "\n{:.1} threads on average, {}: running or ready {} of their time, in futexes {}, asleep \
             elsewhere {}",
            all.as_secs_f64() / self.ran.as_secs_f64(),
            time(self.ran.as_nanos() as u64),
            share(self.running),
            share(self.in_futexes),
            share(self.elsewhere),
        );
        // Writing to a string does not fail.
        if !self.hidden.is_zero() {
            let _ = write!(text, ", asleep in unknown places {}", share(self.hidden));
        }
        let unseen = self.in_futexes.saturating_sub(lost);
        let _ = writeln!(
            text,
            "\nlost at locks in the record {}; in futexes beyond that {}: conditions, semaphores, joins, \
             and locks that are not pthread's are not in the record",
            share(lost),
            share(unseen),
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_apart_by_where_they_sleep() {
        let mut threads = Threads { ran: Duration::from_secs(4), ..Threads::default() };
        let seen = [
            ("1 (a) R 0", None),
            ("1 (a) R ) S 0", Some("202 0x1 0x80")),
            ("1 (a) S 0", Some("230 0x202 0x1")),
            ("1 (a) S 0", None),
            ("1 (a) Z 0", None),
        ];
        for (stat, call) in seen {
            if let Some(place) = threads.place(stat, || call.map(str::to_owned)) {
                *place += Duration::from_secs(1);
            }
        }
        let Threads { running, in_futexes, elsewhere, hidden, .. } = threads;
        assert!([running, in_futexes, elsewhere, hidden].iter().all(|part| part.as_secs() == 1));
        let text = threads.text(100_000_000);
        assert!(text.contains("1.0 threads") && text.contains("in unknown places"), "{text}");
    }
}
