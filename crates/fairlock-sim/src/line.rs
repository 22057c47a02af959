//! A cache line: who has it, who waits for it, and what getting it costs.
//!
//! A line is a server. Requests to own it are served in the order in which they are made. Each is
//! planned when it is made: when the line leaves its last owner, and when it arrives. So a line has
//! a row of *windows*, one for each owner that was planned; in its window an owner's operations
//! cost what local ones do. A read makes the last owner share the line, which costs the line only
//! the time until that owner answers (*hold*). Further reads are answered one after the other. The next
//! owner must then fetch the line from the furthest sharer, or invalidate it there.

use std::collections::VecDeque;

use crate::cpu_set::{CpuSet, members};
use crate::machine::{Costs, CpuPosition, MAX_SOCKETS};

// `Line::sharing` has a bit for each socket.
const _: () = assert!(MAX_SOCKETS <= u16::BITS as usize);

/// The time in which one core owns the line.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    owner: CpuPosition,
    from: u64,
    /// When it ends; `u64::MAX` until somebody else asks.
    until: u64,
}

/// A cache line. Times are picoseconds.
///
/// In this order, so that what most operations need is in one cache line of the real machine.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Line {
    /// The last window; the only one that may be open.
    last: Option<Window>,
    /// When the next request is served.
    ready: u64,
    /// Until then, `outdated` counts.
    outdated_at: u64,
    /// The sockets in which there are sharers, as bits.
    sharing: u16,
    /// Cores that have a copy, if the line is shared; else empty.
    sharers: CpuSet,
    /// The window before the last one,
    before: Window,
    /// and those before that, in order of time, as far as they are not over.
    earlier: VecDeque<Window>,
    /// How many sharers there are in each socket.
    sharers_in: [u16; MAX_SOCKETS],
    /// Cores that had a copy before the last write was asked for, and still can
    /// read it until the request has reached them.
    outdated: CpuSet,
}

impl Line {
    /// When a load by `reader`, begun at `now`, is done.
    #[inline]
    pub(crate) fn read(&mut self, reader: CpuPosition, now: u64, costs: &Costs) -> u64 {
        if self.has_copy(reader, now) { now + costs.load } else { self.fetch(reader, now, costs) }
    }

    /// The same load, if nobody asks when it is done.
    #[inline]
    pub(crate) fn read_in_vain(&mut self, reader: CpuPosition, now: u64, costs: &Costs) {
        if self.has_copy(reader, now) {
            return;
        }
        if self.is_shared() {
            self.serve(reader, now, costs);
            costs.vary_nothing();
        } else {
            self.fetch(reader, now, costs);
        }
    }

    /// Another copy of a shared line; returns when it leaves.
    #[inline]
    fn serve(&mut self, reader: CpuPosition, now: u64, costs: &Costs) -> u64 {
        let start = now.max(self.ready);
        self.share(reader);
        self.ready = start + costs.serve;
        start
    }

    /// A load by a reader that has no copy.
    #[inline(never)]
    fn fetch(&mut self, reader: CpuPosition, now: u64, costs: &Costs) -> u64 {
        if self.is_shared() {
            let nearest = self.sockets_apart(reader, costs).min().unwrap_or(0);
            return self.serve(reader, now, costs) + costs.vary(nearest);
        }
        let start = now.max(self.ready);
        let Some(last) = &mut self.last else {
            let done = start + costs.vary(costs.memory);
            self.own(reader, done);
            return done;
        };
        if last.owner.core == reader.core {
            // The line is on its way to this core already.
            return start + costs.load;
        }
        let owner = last.owner;
        let transfer = costs.vary(costs.transfer(owner, reader));
        self.ready = start + costs.hold(transfer);
        last.until = self.ready;
        self.share(owner);
        self.share(reader);
        start + transfer
    }

    /// When an operation by `writer` that costs `local` on a line of its own,
    /// begun at `now`, is done.
    #[inline]
    pub(crate) fn write(
        &mut self,
        writer: CpuPosition,
        now: u64,
        local: u64,
        costs: &Costs,
    ) -> u64 {
        if let Some(owner) = self.owner(now)
            && owner.core == writer.core
        {
            let done = now + if owner.cpu == writer.cpu { local } else { local.max(costs.smt) };
            if let Some(last) = &mut self.last
                && last.from <= now
            {
                self.ready = self.ready.max(done);
                last.owner = writer;
            }
            return done;
        }
        self.acquire(writer, now, local, costs)
    }

    /// An operation by a writer that does not own the line.
    #[inline(never)]
    fn acquire(&mut self, writer: CpuPosition, now: u64, local: u64, costs: &Costs) -> u64 {
        let start = now.max(self.ready);
        let transfer = if self.is_shared() {
            // The furthest copy is the last to go. A line's only sharer may write at once.
            self.unshare(writer);
            self.sockets_apart(writer, costs).max().unwrap_or(0)
        } else {
            match &self.last {
                Some(last) if last.owner.cpu == writer.cpu => 0,
                Some(last) => costs.transfer(last.owner, writer),
                None => costs.memory,
            }
        };
        let transfer = costs.vary(transfer);
        let done = start + transfer.max(local);
        let leaves = start + costs.hold(transfer);
        if let Some(last) = self.last {
            let until = last.until.min(leaves);
            let before = std::mem::replace(&mut self.before, Window { until, ..last });
            if before.until > now {
                self.earlier.push_back(before);
            } else {
                self.earlier.clear();
            }
        }
        if self.is_shared() {
            self.outdated = std::mem::take(&mut self.sharers);
            self.outdated_at = leaves;
            self.sharers_in = [0; MAX_SOCKETS];
            self.sharing = 0;
        }
        self.own(writer, done);
        done
    }

    /// The core whose line it is at `now`, if it is neither on its way nor shared.
    #[inline]
    fn owner(&mut self, now: u64) -> Option<CpuPosition> {
        let last = self.last.as_ref()?;
        let window = if last.from <= now {
            last
        } else if self.before.from <= now {
            &self.before
        } else {
            self.earlier(now)?
        };
        (window.from..window.until).contains(&now).then_some(window.owner)
    }

    /// The first of the earlier windows that is not over.
    #[cold]
    fn earlier(&mut self, now: u64) -> Option<&Window> {
        while self.earlier.front()?.until <= now {
            self.earlier.pop_front();
        }
        self.earlier.front()
    }

    #[inline]
    fn has_copy(&mut self, reader: CpuPosition, now: u64) -> bool {
        let core = reader.core as usize;
        // One branch for both, as neither can be predicted.
        let has = self.sharers.contains(core)
            | self.owner(now).is_some_and(|owner| owner.core == reader.core);
        has || now < self.outdated_at && self.outdated.contains(core)
    }

    fn own(&mut self, owner: CpuPosition, from: u64) {
        self.last = Some(Window { owner, from, until: u64::MAX });
        self.ready = from;
    }

    fn share(&mut self, reader: CpuPosition) {
        if self.sharers.insert(reader.core as usize) {
            self.sharers_in[reader.socket as usize] += 1;
            self.sharing |= 1 << reader.socket;
        }
    }

    fn is_shared(&self) -> bool {
        self.sharing != 0
    }

    fn unshare(&mut self, writer: CpuPosition) {
        if self.sharers.contains(writer.core as usize) {
            self.sharers.remove(writer.core as usize);
            let left = &mut self.sharers_in[writer.socket as usize];
            *left -= 1;
            if *left == 0 {
                self.sharing &= !(1 << writer.socket);
            }
        }
    }

    /// How long a message takes to each socket with a sharer. Cores of the writer's cluster are not
    /// told from others of its socket: what matters are the nearest and the furthest of many
    /// sharers, and those differ by their sockets.
    fn sockets_apart(&self, from: CpuPosition, costs: &Costs) -> impl Iterator<Item = u64> {
        members(self.sharing.into()).map(move |socket| {
            if socket == from.socket as usize {
                costs.cluster
            } else {
                costs.between(from.socket, socket as u16)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Machine, places};

    /// Two sockets of 24 cores with two threads each; in picoseconds.
    const SMT: u64 = 7_600;
    const SOCKET: u64 = 47_000;
    const REMOTE: u64 = 134_000;
    const SERVE: u64 = 3_000;

    fn machine() -> (Costs, Vec<CpuPosition>) {
        let mut machine = Machine::builtin("cascade_lake_96").unwrap().description().clone();
        (machine.lines.spread, machine.lines.serve_ns) = (0.0, SERVE as f64 / 1e3);
        let costs = Costs::new(&machine, 1);
        assert_eq!((costs.smt, costs.cluster, costs.between(0, 1)), (SMT, SOCKET, REMOTE));
        (costs, places(&machine.topology))
    }

    #[test]
    fn an_owner_pays_for_the_first_access_only() {
        let (costs, cpus) = machine();
        let mut line = Line::default();
        let first = line.write(cpus[0], 100, costs.atomic, &costs);
        assert_eq!(first, 100 + costs.memory);
        let second = line.write(cpus[0], first, costs.atomic, &costs);
        assert_eq!(second, first + costs.atomic);
        assert_eq!(line.read(cpus[0], second, &costs), second + costs.load);
    }

    #[test]
    fn a_transfer_costs_by_distance() {
        let (costs, cpus) = machine();
        for (to, expected) in [(1, SMT), (2, SOCKET), (48, REMOTE)] {
            let mut line = Line::default();
            let owned = line.write(cpus[0], 0, costs.atomic, &costs);
            let done = line.write(cpus[to], owned, costs.atomic, &costs);
            assert_eq!(done - owned, expected, "CPU {to}");
            let mut line = Line::default();
            let owned = line.write(cpus[0], 0, costs.atomic, &costs);
            let load = if to == 1 { costs.load } else { expected };
            assert_eq!(line.read(cpus[to], owned, &costs) - owned, load, "CPU {to} reads");
        }
    }

    #[test]
    fn transfers_vary_as_the_seed_has_it() {
        let (_, cpus) = machine();
        let machine = Machine::builtin("cascade_lake_96").unwrap();
        let took = |seed| {
            let costs = Costs::new(machine.description(), seed);
            let mut line = Line::default();
            let mut now = line.write(cpus[0], 0, costs.atomic, &costs);
            (0..100)
                .map(|n| {
                    let done = line.write(cpus[2 + 2 * (n % 2)], now, costs.atomic, &costs);
                    done - std::mem::replace(&mut now, done)
                })
                .collect::<Vec<_>>()
        };
        let all = took(1);
        assert_eq!(all, took(1));
        assert_ne!(all, took(2));
        let least = *all.iter().min().unwrap();
        assert!(least < SOCKET && least > SOCKET / 2, "{least}");
    }

    #[test]
    fn requests_queue_at_the_line() {
        let (costs, cpus) = machine();
        let mut line = Line::default();
        let owned = line.write(cpus[0], 0, costs.atomic, &costs);
        // Ten cores of the socket ask at once: each is served one transfer later.
        for n in 1..=10 {
            let done = line.write(cpus[2 * n as usize], owned, costs.atomic, &costs);
            assert_eq!(done, owned + n * SOCKET);
        }
    }

    #[test]
    fn the_old_owner_holds_the_line_while_the_request_travels() {
        let (costs, cpus) = machine();
        let mut line = Line::default();
        let t = line.write(cpus[0], 0, costs.atomic, &costs);
        let taken = line.write(cpus[2], t, costs.atomic, &costs);
        let held = costs.hold(SOCKET);
        assert!(held > 0 && held < SOCKET);
        // Until then the old owner writes at local cost, afterwards it queues.
        let before = line.write(cpus[0], t + held - 1, costs.atomic, &costs);
        assert_eq!(before, t + held - 1 + costs.atomic);
        let after = line.write(cpus[0], t + held, costs.atomic, &costs);
        assert_eq!(after, taken + SOCKET);
        // And the new owner holds it in its turn.
        let again = line.write(cpus[2], taken, costs.atomic, &costs);
        assert_eq!(again, taken + costs.atomic);
    }

    #[test]
    fn a_copy_is_read_until_the_request_of_a_writer_reaches_it() {
        let (costs, cpus) = machine();
        let mut line = Line::default();
        let t = line.write(cpus[0], 0, costs.atomic, &costs);
        let t = line.read(cpus[2], t, &costs);
        let written = line.write(cpus[0], t, costs.atomic, &costs);
        let reached = t + costs.hold(SOCKET);
        assert_eq!(line.read(cpus[2], reached - 1, &costs), reached - 1 + costs.load);
        assert_eq!(line.read(cpus[2], reached, &costs), written + SOCKET);
    }

    #[test]
    fn readers_share_and_a_writer_waits_for_the_furthest() {
        let (costs, cpus) = machine();
        let mut line = Line::default();
        let t = line.write(cpus[0], 0, costs.atomic, &costs);
        let held = t + costs.hold(SOCKET);
        assert_eq!(line.read(cpus[2], t, &costs), t + SOCKET);
        // The line answers one reader after the other, which takes less than to reach them.
        for nth in 0..3 {
            let reader = cpus[4 + 2 * nth as usize];
            assert_eq!(line.read(reader, held, &costs), held + nth * SERVE + SOCKET);
        }
        assert_eq!(line.read(cpus[2], held, &costs), held + costs.load);
        let shared = t + 10 * REMOTE;
        assert_eq!(line.write(cpus[0], shared, costs.atomic, &costs), shared + SOCKET);
        let t = shared + SOCKET;
        let far = line.read(cpus[48], t, &costs);
        assert_eq!(far, t + REMOTE);
        assert_eq!(line.write(cpus[0], far, costs.atomic, &costs), far + REMOTE);
    }
}
