//! The limits of a mount's traffic with its object store: what the user said, else what the volume's settings say, also
//! when somebody changes them.

use std::sync::Arc;
use zest_data::{LimitedObjects, Traffic};
use zest_types::volume::Settings;
use zest_world::World;

/// Holds the limits of a mount.
#[derive(Clone)]
pub(super) struct Limits {
    store: Arc<LimitedObjects>,
    /// Bytes a second up and down that the user wants; 0: what the settings say.
    wanted: (u64, u64),
}

/// Bytes a second of a rate in Mbit/s.
#[must_use]
pub fn bytes_a_second(mbit: u64) -> u64 {
    mbit.saturating_mul(125_000)
}

/// The limits that hold.
fn rates(wanted: (u64, u64), settings: &Settings) -> (u64, u64) {
    let (up, down) = settings.bandwidth();
    let or = |wanted, usual| if wanted > 0 { wanted } else { bytes_a_second(usual) };
    (or(wanted.0, up), or(wanted.1, down))
}

impl Limits {
    /// Puts them in front of the world's store.
    pub(super) fn begin(world: World, traffic: Traffic, settings: &Settings) -> (World, Limits) {
        let wanted = (traffic.upload, traffic.download);
        let (upload, download) = rates(wanted, settings);
        let traffic = Traffic { upload, download, ..traffic };
        let store = Arc::new(LimitedObjects::new(world.objects, Arc::clone(&world.clock), traffic));
        let limits = Limits { store: Arc::clone(&store), wanted };
        limits.say();
        (World { objects: store, ..world }, limits)
    }

    /// Somebody changed the settings.
    pub(super) fn take(&self, settings: &Settings) {
        let (upload, download) = rates(self.wanted, settings);
        if self.store.limits() != (upload, download) {
            self.store.set_limits(upload, download);
            self.say();
        }
    }

    fn say(&self) {
        let (up, down) = self.store.limits();
        let words = |rate| if rate == 0 { "any rate".to_owned() } else { format!("{rate} bytes/s") };
        if (up, down) != (0, 0) {
            tracing::info!("traffic with the object store: up at {}, down at {}", words(up), words(down));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_comes_before_the_settings() {
        let mut settings = Settings::new("vol", "u", "mem", "x");
        assert_eq!(rates((0, 0), &settings), (0, 0));
        settings.others.insert("UploadLimit".into(), 8.into());
        assert_eq!(rates((0, 5), &settings), (1_000_000, 5));
        assert_eq!(rates((7, 0), &settings), (7, 0));
        let world = zest_host::world(Arc::new(zest_host::objects::Store::memory()));
        let (world, limits) = Limits::begin(world, Traffic { download: 9, ..Traffic::default() }, &settings);
        assert_eq!(limits.store.limits(), (1_000_000, 9));
        assert!(!world.objects.manners().hedge);
        settings.others.clear();
        limits.take(&settings);
        assert_eq!(limits.store.limits(), (0, 9));
    }
}
