//! For concurrency testers: the names of addresses, and of what is so.

use core::fmt;

/// A field: its offset in the structure, its length, and its name.
pub(crate) type Field = (usize, usize, &'static str);

/// The name of the field of `owner`, one of `fields`, that an address is in.
pub(crate) fn field_at<T>(owner: &T, address: usize, fields: &[Field]) -> Option<&'static str> {
    let offset = address.checked_sub(core::ptr::from_ref(owner) as usize)?;
    let at = |&&(start, length, _): &&Field| (start..start + length).contains(&offset);
    fields.iter().find(at).map(|&(_, _, name)| name)
}

/// Writes those that are so, with a space between two.
pub(crate) fn write_those(
    f: &mut fmt::Formatter<'_>,
    those: &[(bool, &dyn fmt::Display)],
) -> fmt::Result {
    let mut separator = "";
    for (_, what) in those.iter().filter(|(is_so, _)| *is_so) {
        write!(f, "{separator}{what}")?;
        separator = " ";
    }
    Ok(())
}
