//! The locks people use today, to compare with.

use ::std::collections::BTreeMap;

#[cfg(target_os = "linux")]
pub mod fcntl;
#[cfg(feature = "native-peers")]
pub mod native;
pub mod parking_lot;
#[cfg(target_os = "linux")]
pub mod pthread;
pub mod range;
pub mod saa;
pub mod std;

/// Those that `Cargo.toml` pins.
const PINNED: [(&str, &str); 3] =
    [("parking_lot", "0.13.0"), ("parking_lot_0.12", "0.12.5"), ("saa", "5.6.2")];

/// Which versions of others' locks this build measures, by the names that `--locks` takes.
pub fn versions() -> BTreeMap<&'static str, String> {
    let mut versions: BTreeMap<_, _> =
        PINNED.iter().map(|&(name, version)| (name, version.to_owned())).collect();
    versions.insert("std", env!("FAIRLOCK_RUSTC").to_owned());
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    versions.insert("pthread", pthread::version());
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_that_are_built() {
        let manifest = include_str!("../../Cargo.toml");
        for (name, version) in PINNED {
            let name = name.replace("_0.12", "_012");
            let line = manifest.lines().find(|line| line.starts_with(&format!("{name} = ")));
            assert!(line.unwrap().contains(&format!("\"={version}\"")), "{name}");
        }
        assert!(versions()["std"].starts_with("1."), "{:?}", versions());
    }
}
