//! Names that locks had until each name meant one lock.

use crate::cell::UsedAs;

/// Where a lock ran under its old name, which meant another lock there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Was {
    Real,
    Simulated,
}

/// What the lock that was once called `name` is called now, if it was used as this.
pub fn renamed(name: &str, was: Was, kind: UsedAs) -> Option<&'static str> {
    Some(match (name, was) {
        ("fairlock:default", Was::Real) => "fairlock:rwlock",
        ("fairlock:default", Was::Simulated) => "fairlock:full",
        ("fairlock:adaptive", Was::Real) => "fairlock:mutex",
        ("fairlock:adaptive", Was::Simulated) => "fairlock:batch_adaptive",
        ("fairlock:thin", _) => match kind {
            UsedAs::Mutex | UsedAs::Condvar { .. } => "fairlock:mutex",
            _ => "fairlock:rwlock",
        },
        _ => return None,
    })
}

/// What the lock is called now that another one is used for since.
fn replaced(name: &str) -> Option<&'static str> {
    (name == "fairlock:full").then_some("fairlock:rwlock")
}

/// What to say if a lock is asked for by its old name, with or without its family.
pub fn told(name: &str, was: Was) -> Option<String> {
    let full = if name.contains(':') { name.to_owned() } else { format!("fairlock:{name}") };
    let now = |kind| {
        renamed(&full, was, kind).map_or_else(|| replaced(&full), |now| replaced(now).or(Some(now)))
    };
    let mut now = [UsedAs::ReaderWriter, UsedAs::Mutex].map(now).to_vec();
    now.dedup();
    let now = now.into_iter().collect::<Option<Vec<_>>>()?.join(" or ");
    Some(format!("lock '{name}' is now called {now}"))
}
