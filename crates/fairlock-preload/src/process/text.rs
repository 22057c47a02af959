//! Text in memory of its own.

use core::ffi::CStr;
use core::fmt::{self, Write};

/// Bytes in memory of their own, cut off where that ends, and followed by a zero.
pub(crate) struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    pub(crate) const EMPTY: Self = Self { bytes: [0; N], len: 0 };

    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.bytes[0] = 0;
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let len = bytes.len().min(N - 1 - self.len);
        self.bytes[self.len..][..len].copy_from_slice(&bytes[..len]);
        self.len += len;
        self.bytes[self.len] = 0;
    }

    /// Adds `bytes`, with this number in place of each `%p`.
    pub(crate) fn push_numbered(&mut self, bytes: &[u8], number: u32) {
        let mut rest = bytes;
        while let Some(at) = rest.windows(2).position(|pair| pair == b"%p") {
            self.push(&rest[..at]);
            let _ = write!(self, "{number}");
            rest = &rest[at + 2..];
        }
        self.push(rest);
    }

    /// What a symbolic link says; nothing if it is none.
    pub(crate) fn set_to_link(&mut self, link: &CStr) {
        // SAFETY: a C string, and room for as many bytes as it says.
        let len = unsafe { libc::readlink(link.as_ptr(), self.bytes.as_mut_ptr().cast(), N - 1) };
        self.len = usize::try_from(len).unwrap_or(0);
        self.bytes[self.len] = 0;
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}
