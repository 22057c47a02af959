//! What every lock does that is thin while nobody waits.

/// Its tests, and what they are made of: a lock's type, how it is taken alone, whether threads wait
/// for it, and where its full ones are, of which there are at most so many for one in use at a time.
macro_rules! thin_tests {
    ($lock:ident, $take:ident, $is_contended:ident, $slots:ident, $most:literal) => {
        fn is_inflated<T>(lock: &$lock<T>) -> bool {
            // SAFETY: only looks.
            unsafe { lock.raw() }.is_inflated()
        }

        fn is_contended<T>(lock: &$lock<T>) -> bool {
            // SAFETY: as above.
            unsafe { lock.raw() }.$is_contended()
        }

        /// How many full locks the process has.
        fn made() -> u32 {
            Native::$slots().made()
        }

        /// Has another thread wait for the lock, and leave it.
        fn contend(lock: &$lock<u32>) {
            let held = lock.$take();
            scope(|s| {
                let waiter = s.spawn(|| *lock.$take() += 1);
                until(|| is_contended(lock));
                drop(held);
                join(waiter);
            });
        }

        fn use_uncontended(lock: &$lock<u32>) {
            (0..300).for_each(|_| drop(lock.$take()));
            assert!(!is_inflated(lock));
        }

        #[test]
        fn it_becomes_full_while_somebody_waits_and_thin_again_when_it_is_uncontended() {
            let lock = $lock::new(0);
            for _ in 0..10 {
                contend(&lock);
                assert!(is_inflated(&lock) && !is_contended(&lock));
                // Contended every now and then it stays what it is.
                (0..10).for_each(|_| drop(lock.$take()));
                assert!(is_inflated(&lock));
                use_uncontended(&lock);
            }
        }

        #[test]
        fn it_may_be_moved_when_it_is_full() {
            let lock = $lock::new(0);
            contend(&lock);
            let moved = Box::new(lock);
            assert!(is_inflated(&moved));
            contend(&moved);
            assert_eq!(moved.into_inner(), 2);
        }

        #[test]
        fn full_locks_are_used_again() {
            alone(|| {
                for _ in 0..rounds(500) {
                    let lock = $lock::new(0);
                    contend(&lock);
                    // Dropped as it is,
                    drop(lock);
                    let lock = $lock::new(0);
                    contend(&lock);
                    // or when it is thin again.
                    use_uncontended(&lock);
                }
                assert!(made() <= $most, "{} full locks for one at a time", made());
            });
        }

        #[test]
        fn many_contended_once_each_do_not_keep_their_full_ones() {
            alone(|| {
                let locks: Vec<_> = (0..rounds(1_500)).map(|_| $lock::new(0)).collect();
                locks.iter().for_each(contend);
                assert!(made() < 1_100, "{} full locks", made());
            });
        }
    };
}
pub(crate) use thin_tests;
