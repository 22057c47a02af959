//! A file of records that many threads change at once, under one lock on ranges.
//!
//! ```sh
//! cargo run --release -p fairlock --example file_store [SECONDS] [THREADS]
//! ```
//!
//! Accounts lie in a file. Threads move money between two of them, which locks two records;
//! an auditor now and then reads all of the file and finds that nothing was lost; and one thread
//! appends accounts, beside all of them.

#[cfg(not(unix))]
fn main() {
    println!("this example reads and writes at positions of a file as Unix has it");
}

#[cfg(unix)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    unix::main()
}

#[cfg(unix)]
mod unix {
    use std::error::Error;
    use std::fs::{self, File, OpenOptions};
    use std::io;
    use std::ops::Range;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::{Duration, Instant};
    use std::{env, process, thread};

    use fairlock::{RangeReadGuard, RangeRwLock, RangeWriteGuard};

    /// Bytes of a record: the balance, and as much as a real one would have beside it.
    const RECORD: u64 = 64;
    const ACCOUNTS: u64 = 512;
    const EACH: u64 = 1_000;

    /// The accounts.
    struct Store {
        file: File,
        locks: RangeRwLock,
        accounts: AtomicU64,
    }

    impl Store {
        fn create(file: File) -> io::Result<Self> {
            let store = Self { file, locks: RangeRwLock::new(), accounts: AtomicU64::new(0) };
            for _ in 0..ACCOUNTS {
                store.append()?;
            }
            Ok(store)
        }

        fn accounts(&self) -> u64 {
            self.accounts.load(Ordering::Acquire)
        }

        /// A new account at the end of the file. One thread at a time may do so.
        fn append(&self) -> io::Result<()> {
            let number = self.accounts();
            // Only this one: accounts before it are not disturbed.
            let _guard = self.locks.write(place(number)).expect("not empty");
            self.write(number, EACH)?;
            self.accounts.store(number + 1, Ordering::Release);
            Ok(())
        }

        /// Locks two records for writing.
        fn lock_both(&self, one: u64, other: u64) -> [RangeWriteGuard<'_>; 2] {
            loop {
                let first = self.locks.write(place(one)).expect("not empty");
                // Not a wait: if the auditor came in between, it waits for the first record,
                // and a wait for the second would be behind it. In whatever order.
                if let Ok(second) = self.locks.try_write(place(other)) {
                    return [first, second];
                }
                drop(first);
                thread::yield_now();
            }
        }

        /// Moves money, as far as there is some.
        fn transfer(&self, from: u64, to: u64, amount: u64) -> io::Result<()> {
            if from == to {
                return Ok(());
            }
            let _both = self.lock_both(from, to);
            let amount = amount.min(self.read(from)?);
            self.write(from, self.read(from)? - amount)?;
            self.write(to, self.read(to)? + amount)
        }

        /// The sum of all accounts, and of how many.
        fn audit(&self) -> io::Result<(u64, u64)> {
            let all: RangeReadGuard<'_> = self.locks.read(..).expect("not empty");
            let accounts = self.accounts();
            let sum = (0..accounts).map(|number| self.read(number)).sum::<io::Result<u64>>();
            drop(all);
            Ok((sum?, accounts))
        }

        fn read(&self, number: u64) -> io::Result<u64> {
            let mut bytes = [0; 8];
            self.file.read_exact_at(&mut bytes, place(number).start)?;
            Ok(u64::from_le_bytes(bytes))
        }

        fn write(&self, number: u64, balance: u64) -> io::Result<()> {
            let mut record = [0; RECORD as usize];
            record[..8].copy_from_slice(&balance.to_le_bytes());
            self.file.write_all_at(&record, place(number).start)
        }
    }

    /// Where in the file an account is.
    fn place(number: u64) -> Range<u64> {
        number * RECORD..(number + 1) * RECORD
    }

    pub(crate) fn main() -> Result<(), Box<dyn Error>> {
        let arguments: Vec<String> = env::args().skip(1).collect();
        let seconds: f64 = arguments.first().map_or(Ok(1.0), |text| text.parse())?;
        let threads: u64 = arguments.get(1).map_or(Ok(8), |text| text.parse())?;

        let path = env::temp_dir().join(format!("fairlock-file-store-{}", process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        // It goes when the program ends, however it ends.
        fs::remove_file(&path)?;
        let store = Store::create(file)?;

        let stop = AtomicBool::new(false);
        let (transfers, audits) = thread::scope(|s| {
            let (store, stop) = (&store, &stop);
            let movers: Vec<_> = (1..=threads)
                .map(|mut state| {
                    s.spawn(move || -> io::Result<u64> {
                        let mut done = 0;
                        while !stop.load(Ordering::Relaxed) {
                            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                            let draw = |shift: u32| (state >> shift) % store.accounts();
                            store.transfer(draw(20), draw(35), state >> 57)?;
                            done += 1;
                        }
                        Ok(done)
                    })
                })
                .collect();
            let grower = s.spawn(move || -> io::Result<()> {
                while !stop.load(Ordering::Relaxed) {
                    store.append()?;
                    thread::sleep(Duration::from_millis(10));
                }
                Ok(())
            });
            let auditor = s.spawn(move || -> io::Result<Vec<Duration>> {
                let mut audits = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    let (sum, accounts) = store.audit()?;
                    audits.push(began.elapsed());
                    assert_eq!(sum, accounts * EACH, "money was lost, or made");
                    thread::sleep(Duration::from_millis(20));
                }
                Ok(audits)
            });
            thread::sleep(Duration::from_secs_f64(seconds));
            stop.store(true, Ordering::Relaxed);
            let transfers = movers
                .into_iter()
                .map(|mover| mover.join().expect("a thread panicked"))
                .sum::<io::Result<u64>>();
            grower.join().expect("a thread panicked")?;
            Ok::<_, io::Error>((transfers?, auditor.join().expect("a thread panicked")?))
        })?;

        println!("{:.0} transfers a second by {threads} threads", transfers as f64 / seconds);
        println!(
            "{} audits of up to {} accounts, the longest with its wait: {:.1?}",
            audits.len(),
            store.accounts(),
            audits.iter().max().copied().unwrap_or_default()
        );
        assert!(transfers > 0 && !audits.is_empty());
        assert!(!store.locks.is_locked());
        Ok(())
    }
}
