//! The functions that a sleeping thread is in. The kernel says where the thread sleeps and where its stack is; the
//! files' tables for exceptions (`.eh_frame`) say where each function has put its caller's registers. Registers that
//! no function on the way has put on the stack are not known.

use std::collections::HashMap;
use std::fs;

use addr2line::gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, Register, RegisterRule,
    UnwindContext, UnwindSection, UnwindTableRow,
};
use fairlock_profile::layout::frame::SIGNAL;
use object::{Object as _, ObjectSection as _};

use super::process::{Call, Process};
use crate::linux::profile::names::Names;

/// No chain is longer.
const DEEPEST: usize = 64;
/// So many bytes of the stack are searched for a caller's frame whose place is not known.
const SEARCHED: u64 = 16 << 10;
/// The numbers of registers in such tables.
const RBP: usize = 6;
const RSP: usize = 7;
const RETURN: usize = 16;
/// Those which a function leaves to its caller as they were.
const KEPT: [usize; 6] = [3, RBP, 12, 13, 14, 15];

/// A frame of a stack.
pub struct Frame {
    /// As in records: the top bit says that it is not where a call returns to.
    pub address: u64,
    /// The frame was found by a search.
    pub is_guess: bool,
}

/// The tables of files, by path.
#[derive(Default)]
pub struct Tables {
    known: HashMap<String, Option<Table>>,
}

/// What a file says of its functions' frames.
struct Table {
    frames: (u64, Vec<u8>),
    index: Option<(u64, Vec<u8>)>,
    text: u64,
}

impl Tables {
    fn of(&mut self, path: &str) -> Option<&Table> {
        self.known.entry(path.to_owned()).or_insert_with(|| Table::read(path)).as_ref()
    }

    /// The chain of a thread's calls, the innermost first, as far as it is known.
    pub fn chain(&mut self, process: &Process, names: &Names, call: &Call) -> Vec<Frame> {
        let mut registers = [None; RETURN + 1];
        registers[RSP] = Some(call.stack);
        let mut frames = vec![Frame { address: call.code | SIGNAL, is_guess: false }];
        let mut code = call.code;
        while frames.len() < DEEPEST {
            // A call is before the address that it returns to.
            let at = if frames.len() == 1 { code } else { code.wrapping_sub(1) };
            let Some((path, in_file)) = names.in_file(at) else { break };
            let Some(table) = self.of(path) else { break };
            let mut context = UnwindContext::new();
            let Some(row) = table.row(in_file, &mut context) else { break };
            let known = frame_of(row, &registers);
            let guess = || search(process, names, at, registers[RSP]?);
            let Some(frame) = known.or_else(guess) else { break };
            let Some(callers) = caller(process, row, &registers, frame) else { break };
            let Some(returns) = callers[RETURN].filter(|&it| it != 0) else { break };
            // Each caller's frame is further up.
            if registers[RSP].is_some_and(|stack| frame <= stack) {
                break;
            }
            frames.push(Frame { address: returns, is_guess: known.is_none() });
            (registers, code) = (callers, returns);
        }
        frames
    }
}

type Registers = [Option<u64>; RETURN + 1];

/// Where the frame of the function ends, if the registers tell.
fn frame_of(row: &UnwindTableRow<usize>, registers: &Registers) -> Option<u64> {
    match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            (*registers.get(usize::from(register.0))?)?.checked_add_signed(*offset)
        }
        CfaRule::Expression(_) => None,
    }
}

/// The registers of the function's caller.
fn caller(
    process: &Process,
    row: &UnwindTableRow<usize>,
    registers: &Registers,
    frame: u64,
) -> Option<Registers> {
    let mut callers: Registers = [None; RETURN + 1];
    KEPT.iter().for_each(|&kept| callers[kept] = registers[kept]);
    for &(Register(number), ref rule) in row.registers() {
        let value = match *rule {
            RegisterRule::Offset(offset) => process.long(frame.checked_add_signed(offset)?),
            RegisterRule::SameValue => registers.get(usize::from(number)).copied().flatten(),
            _ => None,
        };
        *callers.get_mut(usize::from(number))? = value;
    }
    callers[RSP] = Some(frame);
    Some(callers)
}

/// The end of the function's frame, found by its return address: the first on the stack that is behind a call of
/// this function, or else behind a call of what its caller had in a register, as a thread's first function is called.
fn search(process: &Process, names: &Names, at: u64, stack: u64) -> Option<u64> {
    let function = names.function(at)?;
    let mut indirect = None;
    for slot in (stack..stack + SEARCHED).step_by(8) {
        let Some(value) = process.long(slot) else { break };
        if !process.mapping(value).is_some_and(|it| it.is_code) {
            continue;
        }
        let Some(before) = process.bytes::<8>(value.wrapping_sub(8)) else { continue };
        let direct = match before {
            [_, _, _, 0xe8, distance @ ..] => i32::from_le_bytes(distance).into(),
            _ => 0,
        };
        if direct != 0 && value.wrapping_add_signed(direct) == function {
            return Some(slot + 8);
        }
        if ends_in_indirect_call(&before) {
            indirect = indirect.or(Some(slot + 8));
        }
    }
    indirect
}

/// Whether the last bytes are a call of what a register or memory has.
fn ends_in_indirect_call(bytes: &[u8; 8]) -> bool {
    const CALL: u8 = 0xff;
    let len = |operand: u8, next: Option<&u8>| {
        let (mode, register) = (operand >> 6, operand & 7);
        let is_scaled = mode != 3 && register == 4;
        let has_base = register != 5 && !(is_scaled && next.is_some_and(|it| it & 7 == 5));
        let distance = match mode {
            0 if has_base => 0,
            1 => 1,
            3 => 0,
            _ => 4,
        };
        2 + usize::from(is_scaled) + distance
    };
    let is_call = |call: &&[u8]| match **call {
        [CALL, operand, ref rest @ ..] => {
            operand & 0x38 == 0x10 && len(operand, rest.first()) == call.len()
        }
        _ => false,
    };
    (2..=7).any(|n| is_call(&&bytes[bytes.len() - n..]))
}

impl Table {
    fn read(path: &str) -> Option<Self> {
        let bytes = fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            Some((section.address(), section.data().ok()?.to_vec()))
        };
        let text = file.section_by_name(".text").map_or(0, |text| text.address());
        Some(Self { frames: section(".eh_frame")?, index: section(".eh_frame_hdr"), text })
    }

    fn row<'a>(
        &self,
        at: u64,
        context: &'a mut UnwindContext<usize>,
    ) -> Option<&'a UnwindTableRow<usize>> {
        let (address, frames) = &self.frames;
        let frames = EhFrame::new(frames, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(*address).set_text(self.text);
        let cie = EhFrame::<EndianSlice<'_, LittleEndian>>::cie_from_offset;
        if let Some((address, index)) = &self.index {
            let bases = bases.clone().set_eh_frame_hdr(*address);
            let index = EhFrameHdr::new(index, LittleEndian).parse(&bases, 8).ok()?;
            let table = index.table()?;
            return table.unwind_info_for_address(&frames, &bases, context, at, cie).ok();
        }
        frames.unwind_info_for_address(&bases, context, at, cie).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_indirect_call_is_known_by_its_last_bytes() {
        // call *%rax; call *%r8; call *0x8(%rsp); call *0x1234(%rip); call *%fs:0x640; call *(%rbx)
        let calls: [&[u8]; 6] = [
            &[0xff, 0xd0],
            &[0x41, 0xff, 0xd0],
            &[0xff, 0x54, 0x24, 0x08],
            &[0xff, 0x15, 0x34, 0x12, 0, 0],
            &[0x64, 0xff, 0x14, 0x25, 0x40, 6, 0, 0],
            &[0xff, 0x13],
        ];
        // jmp *%rax; inc %eax; call rel32
        let others: [&[u8]; 3] = [&[0xff, 0xe0], &[0xff, 0xc0], &[0xe8, 1, 2, 3, 4]];
        let ends = |code: &[u8]| {
            let mut bytes = [0x90; 8];
            bytes[8 - code.len()..].copy_from_slice(code);
            ends_in_indirect_call(&bytes)
        };
        assert!(calls.into_iter().all(ends));
        assert!(!others.into_iter().any(ends));
    }
}
