//! Names that programs use that were linked against old versions of glibc.

/// Defines functions under old names that call the ones of today.
macro_rules! old_names {
    ($($old:ident = $name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $old($($argument: $type),*) -> c_int {
                // SAFETY: the same function.
                unsafe { $name($($argument),*) }
            }
        )*
    };
}
