//! A log that is written and read past the system's cache, each block under a reader/writer
//! lock.
//!
//! ```sh
//! cargo run --release -p fairlock --example log [SECONDS] [READERS] [FOLDER]
//! ```
//!
//! The lock is held across each I/O. Readers that follow the end of the log hold it nearly all
//! the time; a lock that lets them in ahead of the writer makes it wait for a read before each
//! write. Each of three locks is tried for a while.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("this example needs direct I/O as Linux has it");
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::fs::{self, File, OpenOptions};
    use std::io;
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};
    use std::{env, process, thread};

    use fairlock::lock_api::RawRwLock;
    use fairlock::published::{self, Policy};

    const BLOCK: usize = 4096;

    /// What direct I/O reads and writes: aligned as disks want it.
    #[repr(align(4096))]
    struct Block([u8; BLOCK]);

    impl Block {
        /// The block of this number; all of it depends on the number.
        fn new(number: u64) -> Self {
            let mut block = Self([0; BLOCK]);
            for (index, word) in block.0.chunks_exact_mut(8).enumerate() {
                word.copy_from_slice(&(number ^ index as u64).to_le_bytes());
            }
            block
        }

        fn is(&self, number: u64) -> bool {
            self.0 == Self::new(number).0
        }
    }

    /// The log: a file, and how many blocks of it there are.
    struct Log<R> {
        file: File,
        blocks: fairlock::lock_api::RwLock<R, u64>,
    }

    /// What a run came to.
    #[derive(Default)]
    struct Outcome {
        written: u64,
        read: u64,
        longest_write: Duration,
        longest_read: Duration,
    }

    impl<R: RawRwLock> Log<R> {
        /// An empty log in a file that has no name; whether the system's cache is not used.
        fn create(folder: &Path, lock: R) -> io::Result<(Self, bool)> {
            let path = folder.join(format!("fairlock-log-{}", process::id()));
            let open = |flags| {
                OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create_new(true)
                    .custom_flags(flags)
                    .open(&path)
            };
            let (file, direct) = match open(libc::O_DIRECT) {
                Ok(file) => (file, true),
                // Not every file system can. The file may be there all the same.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    let _ = fs::remove_file(&path);
                    (open(0)?, false)
                }
                Err(error) => return Err(error),
            };
            fs::remove_file(&path)?;
            let blocks = fairlock::lock_api::RwLock::from_raw(lock, 0);
            Ok((Self { file, blocks }, direct))
        }

        /// Adds a block; how long the lock was waited for.
        fn append(&self) -> io::Result<Duration> {
            let began = Instant::now();
            let mut blocks = self.blocks.write();
            let waited = began.elapsed();
            self.file.write_all_at(&Block::new(*blocks).0, *blocks * BLOCK as u64)?;
            *blocks += 1;
            Ok(waited)
        }

        /// Reads the newest block, if there is one; how long the lock was waited for.
        fn newest(&self, block: &mut Block) -> io::Result<Option<Duration>> {
            let began = Instant::now();
            let blocks = self.blocks.read();
            let waited = began.elapsed();
            let Some(last) = blocks.checked_sub(1) else { return Ok(None) };
            self.file.read_exact_at(&mut block.0, last * BLOCK as u64)?;
            assert!(block.is(last), "block {last} is not what was written");
            Ok(Some(waited))
        }
    }

    /// One writer and some readers, for a while.
    fn run<R: RawRwLock + Sync>(
        log: &Log<R>,
        readers: usize,
        duration: Duration,
    ) -> io::Result<Outcome> {
        let stop = AtomicBool::new(false);
        let running = || !stop.load(Ordering::Relaxed);
        thread::scope(|s| {
            let readers: Vec<_> = (0..readers)
                .map(|_| {
                    s.spawn(|| {
                        let (mut block, mut read, mut longest) = (Block::new(0), 0, Duration::ZERO);
                        while running() {
                            match log.newest(&mut block)? {
                                Some(waited) => longest = longest.max(waited),
                                None => thread::yield_now(),
                            }
                            read += 1;
                        }
                        io::Result::Ok((read, longest))
                    })
                })
                .collect();
            let writer = s.spawn(|| {
                let (mut written, mut longest) = (0, Duration::ZERO);
                while running() {
                    longest = longest.max(log.append()?);
                    written += 1;
                }
                io::Result::Ok((written, longest))
            });
            thread::sleep(duration);
            stop.store(true, Ordering::Relaxed);

            let (written, longest_write) = writer.join().expect("a thread panicked")?;
            let mut outcome = Outcome { written, longest_write, ..Outcome::default() };
            for reader in readers {
                let (read, longest) = reader.join().expect("a thread panicked")?;
                outcome.read += read;
                outcome.longest_read = outcome.longest_read.max(longest);
            }
            Ok(outcome)
        })
    }

    /// Runs with this lock around the log, and says what came of it.
    fn show<R: RawRwLock + Sync>(
        name: &str,
        lock: R,
        folder: &Path,
        readers: usize,
        seconds: f64,
    ) -> io::Result<()> {
        let (log, direct) = Log::create(folder, lock)?;
        let outcome = run(&log, readers, Duration::from_secs_f64(seconds))?;
        println!(
            "{name:12}: {:7.0} writes a second (longest wait {:5.1} ms), {:7.0} reads ({:5.1} ms){}",
            outcome.written as f64 / seconds,
            outcome.longest_write.as_secs_f64() * 1e3,
            outcome.read as f64 / seconds,
            outcome.longest_read.as_secs_f64() * 1e3,
            if direct { "" } else { "; not direct: this file system cannot" },
        );
        assert_eq!(log.blocks.into_inner(), outcome.written);
        Ok(())
    }

    pub(crate) fn main() -> Result<(), Box<dyn Error>> {
        let arguments: Vec<String> = env::args().skip(1).collect();
        let seconds: f64 = arguments.first().map_or(Ok(0.5), |text| text.parse())?;
        let readers: usize = arguments.get(1).map_or(Ok(2), |text| text.parse())?;
        let folder = arguments.get(2).map_or_else(env::temp_dir, PathBuf::from);

        for (name, policy) in [("UNFAIR", Policy::UNFAIR), ("WRITER_PHASE", Policy::WRITER_PHASE)] {
            let lock = published::RawRwLock::with_policy(policy);
            show(name, lock, &folder, readers, seconds)?;
        }
        show("DEFAULT", fairlock::RawRwLock::INIT, &folder, readers, seconds)?;
        Ok(())
    }
}
