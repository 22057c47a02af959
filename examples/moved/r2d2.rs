//! Eight threads want one of two connections of a pool.

use std::convert::Infallible;
use std::thread;

struct Connections;

impl r2d2::ManageConnection for Connections {
    type Connection = ();
    type Error = Infallible;

    fn connect(&self) -> Result<(), Infallible> {
        Ok(())
    }

    fn is_valid(&self, _: &mut ()) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, _: &mut ()) -> bool {
        false
    }
}

fn main() {
    let pool = r2d2::Pool::builder().max_size(2).build(Connections).unwrap();
    thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| (0..10_000).for_each(|_| drop(pool.get().unwrap())));
        }
    });
    print!("{}", parking_lot::stats::snapshot());
}
