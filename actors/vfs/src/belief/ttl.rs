//! How long the kernel may believe what it was told, by what it is about.

use std::time::Duration;
use zest_types::limits;

/// How long the kernel may believe what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    /// Attributes.
    pub attr: Duration,
    /// Names of anything but directories.
    pub entry: Duration,
    /// Names of directories.
    pub dir_entry: Duration,
    /// Names that do not exist; zero: they are asked for each time.
    pub negative: Duration,
}

impl Ttl {
    /// For a volume nobody else can change: an hour.
    pub const EXCLUSIVE: Ttl = {
        let hour = Duration::from_secs(3600);
        Ttl { attr: hour, entry: hour, dir_entry: hour, negative: hour }
    };

    /// For a volume that others change, too: a second, as JuiceFS does it.
    pub const SHARED: Ttl = {
        let second = Duration::from_secs(1);
        Ttl { attr: second, entry: second, dir_entry: second, negative: Duration::ZERO }
    };

    /// What is taken back when others change it, for mounts with this time between heartbeats. A mount whose process does
    /// not run can take nothing back; it counts as dead after a few heartbeats more than this.
    #[must_use]
    pub fn told(heartbeat: Duration) -> Ttl {
        let long = heartbeat * limits::KERNEL_BEATS;
        Ttl { attr: long, entry: long, dir_entry: long, negative: long }
    }

    /// The longest of them.
    #[must_use]
    pub fn longest(&self) -> Duration {
        [self.entry, self.dir_entry, self.negative].into_iter().fold(self.attr, Duration::max)
    }
}
