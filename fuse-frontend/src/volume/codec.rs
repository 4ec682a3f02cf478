//! The codec of a volume's objects, with the passphrase of its private key from the environment, and the object that
//! names the volume a directory of objects belongs to.

use super::VolumeError;
use crate::meta_url::MetaUrl;
use bytes::Bytes;
use std::path::Path;
use zest_data::BlockCodec;
use zest_host::{RealChance, secrets};
use zest_types::volume::Settings;

/// The codec for settings whose secrets are in plain text; tried out, so that a key which is no use is found now.
pub fn open(url: &MetaUrl, settings: &Settings) -> Result<BlockCodec, VolumeError> {
    let wrong = |error| VolumeError::Codec { url: url.to_string(), error };
    let codec = BlockCodec::of(settings, secrets::passphrase().as_deref()).map_err(wrong)?;
    codec.try_out(&RealChance::new()).map_err(wrong)?;
    Ok(codec)
}

/// Key and content of the object that names the volume.
pub(super) fn mark(url: &MetaUrl, settings: &Settings) -> Result<(String, Bytes), VolumeError> {
    let uuid = Bytes::from(settings.uuid.clone());
    let sealed = open(url, settings)?.encode_object(uuid, &RealChance::new());
    let wrong = |error| VolumeError::Codec {
        url: url.to_string(),
        error: zest_data::codec::OpenError::Useless(error),
    };
    Ok((format!("{}/juicefs_uuid", settings.name), sealed.map_err(wrong)?))
}

/// Whether a directory of objects belongs to this volume. One that can't be read belongs to somebody else.
pub(super) fn holds(folder: &Path, settings: &Settings) -> bool {
    let Ok(mark) = std::fs::read(folder.join(&settings.name).join("juicefs_uuid")) else { return false };
    let codec = BlockCodec::of(settings, secrets::passphrase().as_deref());
    let uuid = codec.ok().and_then(|codec| codec.decode_object(mark.into(), &RealChance::new()).ok());
    uuid.is_some_and(|uuid| uuid == settings.uuid)
}
