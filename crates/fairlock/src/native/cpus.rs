//! How many CPUs the threads of the process can have at a time.
//!
//! As [`available_parallelism`](std::thread::available_parallelism) says, but on Linux without the program's allocator,
//! which may be behind a lock that asks: those that the process may run on, or fewer by the quota of its control group.

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn count() -> usize {
    parallelism()
}

pub(super) fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

#[cfg(all(target_os = "linux", not(miri)))]
pub(super) use linux::count;

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use core::fmt::Write;
    use core::str;
    use std::fs::File;
    use std::io::Read;

    /// Longer than a path can be that the standard library opens without allocating.
    const LONGEST: usize = 512;

    pub(in super::super) fn count() -> usize {
        // A sandbox refuses, or the set, of 1,024, is too small.
        let Ok(set) = rustix::thread::sched_getaffinity(None) else { return super::parallelism() };
        let cpus = set.count() as usize;
        quota().map_or(cpus, |quota| quota.min(cpus)).max(1)
    }

    /// A text of limited length.
    struct Text {
        bytes: [u8; LONGEST],
        len: usize,
    }

    impl Write for Text {
        fn write_str(&mut self, s: &str) -> core::fmt::Result {
            let room = self.bytes.get_mut(self.len..self.len + s.len()).ok_or(core::fmt::Error)?;
            room.copy_from_slice(s.as_bytes());
            self.len += s.len();
            Ok(())
        }
    }

    impl Text {
        const fn new() -> Self {
            Self { bytes: [0; LONGEST], len: 0 }
        }

        /// The beginning of a file.
        fn of_file(path: &str) -> Option<Self> {
            let mut text = Self::new();
            let mut file = File::open(path).ok()?;
            text.len = file.read(&mut text.bytes).ok()?;
            Some(text)
        }

        fn get(&self) -> &str {
            str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
        }
    }

    /// How many CPUs the quota allows, if there is one: the least of those of the group and of the groups that it is in.
    fn quota() -> Option<usize> {
        let groups = Text::of_file("/proc/self/cgroup")?;
        let Some(group) = groups.get().lines().find_map(|line| line.strip_prefix("0::/")) else {
            return old_quota();
        };
        let ancestors = core::iter::successors(Some(group), |group| {
            (!group.is_empty()).then(|| group.rsplit_once('/').map_or("", |(above, _)| above))
        });
        ancestors.filter_map(|group| allowed(Text::of_file(path(group)?.get())?.get())).min()
    }

    fn path(group: &str) -> Option<Text> {
        let mut path = Text::new();
        write!(path, "/sys/fs/cgroup/{group}/cpu.max").ok().map(|()| path)
    }

    /// By version 1 of control groups, as a container sees its own.
    fn old_quota() -> Option<usize> {
        let mut both = Text::new();
        for name in ["quota", "period"] {
            let mut path = Text::new();
            write!(path, "/sys/fs/cgroup/cpu/cpu.cfs_{name}_us").ok()?;
            write!(both, "{} ", Text::of_file(path.get())?.get().trim()).ok()?;
        }
        allowed(both.get())
    }

    /// What a quota and a period, in microseconds, allow; at least one CPU.
    fn allowed(quota: &str) -> Option<usize> {
        let (quota, period) = quota.trim().split_once(' ')?;
        let [quota, period] = [quota, period].map(|number| number.parse::<usize>().ok());
        Some(quota?.checked_div(period?)?.max(1))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn there_are_as_many_cpus_as_the_standard_library_says() {
            assert_eq!(count(), std::thread::available_parallelism().unwrap().get());
        }

        #[test]
        fn a_quota_allows_whole_cpus_and_at_least_one() {
            let cases = [
                ("max 100000\n", None),
                ("-1 100000", None),
                ("250000 100000\n", Some(2)),
                ("50000 100000", Some(1)),
                ("100000 0", None),
                ("", None),
            ];
            for (quota, cpus) in cases {
                assert_eq!(allowed(quota), cpus, "{quota:?}");
            }
        }

        #[test]
        fn a_text_that_is_too_long_is_refused() {
            assert!(path(&"a".repeat(LONGEST)).is_none());
            assert_eq!(path("a/b").unwrap().get(), "/sys/fs/cgroup/a/b/cpu.max");
        }
    }
}
