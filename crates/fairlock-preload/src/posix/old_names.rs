//! Names that programs have from old versions of glibc.

/// The names by which programs that were linked against an old glibc call the same.
macro_rules! old_names {
    ($($old:ident = $name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $old($($argument: $type),*) -> c_int {
                // SAFETY: the same function.
                unsafe { $name($($argument),*) }
            }
        )*
    };
}
