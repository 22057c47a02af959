//! What Linux counts of a thread's time: its file `schedstat`.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// That file of one thread.
pub(crate) struct Schedstat(File);

/// The three numbers in it.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// For how long the thread had a CPU, in nanoseconds; brought up to date only now and then.
    pub(crate) ran_ns: u64,
    /// For how long it wanted a CPU and had none, in nanoseconds; told once it has one.
    pub(crate) runnable_ns: u64,
    /// How often it got a CPU.
    turns: u64,
}

impl Schedstat {
    /// Of the calling thread. `None` if the kernel does not count.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let file = Self(File::open("/proc/thread-self/schedstat").ok()?);
        // A thread has had a CPU before it gets here.
        file.times().is_some_and(|times| times.turns > 0).then_some(file)
    }

    /// Of a thread of this process. `None` if it has ended.
    pub(crate) fn of(thread: i32) -> Option<Self> {
        File::open(format!("/proc/self/task/{thread}/schedstat")).ok().map(Self)
    }

    pub(crate) fn times(&self) -> Option<Times> {
        // Longer than three numbers can be.
        let mut text = [0; 64];
        let length = self.0.read_at(&mut text, 0).ok()?;
        parse(std::str::from_utf8(&text[..length]).ok()?)
    }
}

fn parse(text: &str) -> Option<Times> {
    let mut words = text.split_whitespace();
    let mut next = || words.next()?.parse().ok();
    Some(Times { ran_ns: next()?, runnable_ns: next()?, turns: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_delay_is_the_second_number() {
        assert_eq!(parse("12 345 6\n"), Some(Times { ran_ns: 12, runnable_ns: 345, turns: 6 }));
        assert_eq!(parse(""), None);
    }
}
