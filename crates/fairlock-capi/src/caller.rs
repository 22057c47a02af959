//! From where a C program calls.

use std::ffi::CStr;

use fairlock::stats::Place;
use libc::{Dl_info, dladdr};

/// The address to which a function of the header returns: just after the call. Zero: not known.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Caller(pub(crate) usize);

impl Caller {
    pub(crate) fn place(self) -> Place {
        Place::Address(self.0)
    }
}

/// The body of a function of the header: calls a function of [`ways`](crate::ways) with its arguments and,
/// as one more, the [`Caller`]. On x86-64 the function is naked: nothing is on the stack yet but the return address, and the
/// arguments are where that other function expects them.
#[cfg(target_arch = "x86_64")]
macro_rules! with_caller {
    ($function:ident::<$way:ident>($a:ident)) => { with_caller!(@"rsi" $function::<$way>) };
    ($function:ident::<$way:ident>($a:ident, $b:ident)) => { with_caller!(@"rdx" $function::<$way>) };
    ($function:ident::<$way:ident>($a:ident, $b:ident, $c:ident)) => {
        with_caller!(@"rcx" $function::<$way>)
    };
    (@$register:literal $function:path) => {
        std::arch::naked_asm!(
            concat!("mov ", $register, ", [rsp]"),
            "jmp {}",
            sym $function,
        )
    };
}

#[cfg(not(target_arch = "x86_64"))]
macro_rules! with_caller {
    ($function:ident::<$way:ident>($($argument:ident),*)) => {
        // SAFETY: the caller's promise.
        unsafe { $function::<$way>($($argument,)* $crate::caller::Caller(0)) }
    };
}

pub(crate) use with_caller;

/// The function at an address, or else the file that the address is in: as `worker+0x1c (program)`, with
/// nothing in it that JSON would escape.
pub(crate) fn name(address: usize) -> Option<String> {
    // SAFETY: zero bytes are such a struct; it is for `dladdr` to fill.
    let mut found: Dl_info = unsafe { std::mem::zeroed() };
    // Of the call, which may be the last instruction of a function.
    let call = std::ptr::without_provenance(address - 1);
    // SAFETY: it may be any address.
    if unsafe { dladdr(call, &mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a string of the dynamic linker, of a file that is loaded; so is the symbol's name.
    let text = |string| unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned();
    let file = text(found.dli_fname);
    let file = file.rsplit('/').next()?;
    let name = if found.dli_sname.is_null() {
        format!("{file}+{:#x}", address - found.dli_fbase.addr())
    } else {
        let offset = address - found.dli_saddr.addr();
        format!("{}+{offset:#x} ({file})", text(found.dli_sname))
    };
    Some(name.replace(|c: char| c.is_control() || "\"\\".contains(c), "?"))
}
