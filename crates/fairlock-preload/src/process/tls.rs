//! A thread's own variables, where they are a few instructions away.

/// Defines `$name`, which returns the calling thread's own `$type`: zeros at first, which are one.
///
/// It is in the thread's static TLS block: the address is an offset from the thread pointer, where
/// the `thread_local!` of a shared library is a call of `__tls_get_addr`.
macro_rules! of_each_thread {
    ($(#[$about:meta])* $name:ident: $type:ty, $symbol:literal) => {
        core::arch::global_asm!(
            concat!(".pushsection .tbss.", $symbol, ",\"awT\",@nobits"),
            ".balign 16",
            concat!(".globl ", $symbol),
            concat!(".hidden ", $symbol),
            concat!(".type ", $symbol, ",@object"),
            concat!($symbol, ":"),
            ".zero {size}",
            concat!(".size ", $symbol, ",{size}"),
            ".popsection",
            size = const size_of::<$type>(),
        );

        const _: () = assert!(align_of::<$type>() <= 16);

        $(#[$about])*
        #[inline(always)]
        pub(crate) fn $name() -> &'static $type {
            let own: *const $type;
            // SAFETY: the offset of the symbol is constant once the library is loaded, and fs:0 holds
            // the thread pointer.
            unsafe {
                core::arch::asm!(
                    concat!("mov {0}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    "add {0}, qword ptr fs:[0]",
                    out(reg) own,
                    options(pure, readonly, nostack)
                );
            }
            // SAFETY: memory of that size and alignment, valid as long as the thread runs its code,
            // and zero at first. Not `Sync`, so it stays with the thread.
            unsafe { &*own }
        }
    };
}
pub(crate) use of_each_thread;
