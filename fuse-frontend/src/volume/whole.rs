//! A volume as the work on all of it wants it: `zest fsck` and `zest gc` begin here.

use super::{Volume, VolumeError};
use std::sync::Arc;
use zest_data::block::BlockNames;
use zest_metadata::Engine;
use zest_types::volume::Settings;
use zest_upkeep::whole::Whole;
use zest_world::World;

/// Records, objects, and how blocks are called.
#[must_use]
pub fn of(engine: Arc<dyn Engine>, world: World, settings: &Settings) -> Whole {
    let names = BlockNames {
        volume: settings.name.clone(),
        hash_prefix: settings.hash_prefix,
        block_size: settings.block_size(),
    };
    let plain = settings.encrypt_key.is_empty() && matches!(settings.compression.as_str(), "" | "none");
    let user_quotas = settings.user_group_quota();
    Whole { engine, world, names, uuid: settings.uuid.clone(), plain, user_quotas }
}

impl Volume {
    /// The whole of it.
    pub fn whole(&self) -> Result<Whole, VolumeError> {
        Ok(of(self.records(), self.world()?, &self.settings))
    }
}
