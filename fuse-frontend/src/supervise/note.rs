//! What one worker leaves for the next, and what of a mount can't change without a new one.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Another number where a note means something else: programs with another one do not take over from each other.
pub const PROTOCOL: u32 = 1;

/// What stays as it is for as long as a mount lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fixed {
    /// See [`PROTOCOL`].
    pub protocol: u32,
    /// The volume's UUID.
    pub volume: String,
    /// The directory of it that is mounted.
    pub subdir: Vec<String>,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Users other than the one who mounted may use it.
    pub allow_other: bool,
    /// Options of the kernel's, in words.
    pub kernel: Vec<String>,
    /// `security.capability` is served, which decides who takes set-user bits away.
    pub capability: bool,
}

impl Fixed {
    /// What stands against going on as `other`, in words; nothing does where they are the same.
    #[must_use]
    pub fn against(&self, other: &Fixed) -> Option<String> {
        let differs = [
            (self.protocol == other.protocol, "the program's way of handing over"),
            (self.volume == other.volume, "the volume"),
            (self.subdir == other.subdir, "--subdir"),
            (self.read_only == other.read_only, "--read-only"),
            (self.allow_other == other.allow_other, "-o allow_other"),
            (self.kernel == other.kernel, "-o"),
            (self.capability == other.capability, "--enable-cap"),
        ];
        let names: Vec<&str> = differs.iter().filter(|(same, _)| !same).map(|(_, name)| *name).collect();
        (!names.is_empty()).then(|| format!("another value of {}", names.join(", ")))
    }
}

/// What the next worker must be told, since the kernel says it only once and nobody else knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// What can't change.
    pub fixed: Fixed,
    /// Where the mount is.
    pub point: PathBuf,
    /// Its device, `major:minor`.
    pub device: String,
    /// Number of the session in the volume; 0: none.
    pub session: u64,
    /// How many workers there were before this one.
    pub generation: u32,
    /// What was agreed on with the kernel: minor version, flags, bytes of the largest write.
    pub agreed: (u32, u64, u32),
    /// Descriptors of the connection; those that come behind them are the volume's.
    pub devices: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_change_is_named() {
        let fixed = Fixed {
            protocol: PROTOCOL,
            volume: "u".into(),
            subdir: Vec::new(),
            read_only: false,
            allow_other: true,
            kernel: Vec::new(),
            capability: false,
        };
        assert_eq!(fixed.against(&fixed), None);
        let other = Fixed { read_only: true, volume: "v".into(), ..fixed.clone() };
        assert_eq!(fixed.against(&other).unwrap(), "another value of the volume, --read-only");
    }
}
