//! `zest format META-URL NAME`: makes a volume, or changes the settings of one.

use super::encoding::{EncodingArgs, compression_of, encryption_of};
use super::{block_on, meta_url, units};
use crate::meta_url::MetaUrl;
use crate::volume::create::{Creation, create};
use crate::volume::update::update;
use crate::volume::{VolumeError, stored_settings};
use anyhow::{Context, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use zest_host::secrets;
use zest_types::limits;
use zest_types::volume::{Settings, SettingsError, valid_name};

/// Arguments of `format`.
#[derive(Args, Default)]
pub(super) struct FormatArgs {
    /// Where the volume's metadata go: a directory, or a server such as redis://HOST/1.
    #[arg(value_name = "META-URL")]
    url: Option<String>,
    /// The volume's name: 3 to 63 of a-z, 0-9 and '-'.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Where objects go: file, s3, minio or mem.
    #[arg(long, value_name = "TYPE")]
    storage: Option<String>,
    /// The bucket's address, such as http://127.0.0.1:9000/bucket; for file a directory [default: META-URL/objects
    /// beside a directory of metadata, else /var/jfs, or $HOME/.juicefs/local].
    #[arg(long, value_name = "URL")]
    bucket: Option<String>,
    /// Access key of the object store.
    #[arg(long, value_name = "KEY", env = "ACCESS_KEY", hide_env_values = true)]
    access_key: Option<String>,
    /// Secret key of the object store; better given in SECRET_KEY, since others can see arguments.
    #[arg(long, value_name = "KEY", env = "SECRET_KEY", hide_env_values = true)]
    secret_key: Option<String>,
    /// Session token of the object store.
    #[arg(long, value_name = "TOKEN", env = "SESSION_TOKEN", hide_env_values = true)]
    session_token: Option<String>,
    /// Bytes of a block, in KiB or with a unit: a power of two from 64K to 16M [default: 4M].
    #[arg(long, value_name = "SIZE", value_parser = units::kib)]
    block_size: Option<u64>,
    #[command(flatten)]
    encoding: EncodingArgs,
    /// Limit of the volume, in GiB or with a unit; 0 is none [default: 0].
    #[arg(long, value_name = "SIZE", value_parser = units::gib)]
    capacity: Option<u64>,
    /// Limit of files and directories; 0 is none [default: 0].
    #[arg(long, value_name = "N")]
    inodes: Option<u64>,
    /// Days for which removed files stay in the trash; 0 is no trash [default: 1].
    #[arg(long, value_name = "DAYS")]
    trash_days: Option<u32>,
    /// POSIX access control lists; they can't be switched off again.
    #[arg(long)]
    enable_acl: bool,
    /// Replace the settings of a volume, or use a place with data in it: what is there may become unreadable.
    #[arg(long)]
    force: bool,
    /// Do nothing, and succeed, if there is a volume.
    #[arg(long)]
    no_update: bool,
    /// Use a metadata server that may lose data.
    #[arg(long)]
    force_unsafe_engine: bool,
}

impl FormatArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let (Some(url), Some(name)) = (self.url.as_deref(), self.name.clone()) else {
            bail!("format wants META-URL and NAME, such as: zest format ./volume my-volume");
        };
        let url = meta_url(url)?;
        if !valid_name(&name) {
            return Err(SettingsError::Name(name).into());
        }
        let settings = match block_on(async { Ok(stored_settings(&url).await?) })? {
            Some(_) if self.no_update => {
                return Ok(());
            }
            Some(_) => {
                let changed = block_on(async {
                    Ok(update(&url, checks(), |old| self.changed(&url, old, &name)).await?)
                });
                changed?.1
            }
            None => {
                let settings = self.fresh(&url, &name)?;
                make(
                    &url,
                    &settings,
                    Creation { force: self.force, check: checks(), unsafe_engine: self.force_unsafe_engine },
                )?;
                settings
            }
        };
        crate::log::say(&format!("Volume is formatted as {}", shown(settings)));
        Ok(())
    }

    /// Settings of a new volume.
    fn fresh(&self, url: &MetaUrl, name: &str) -> anyhow::Result<Settings> {
        let mut settings = default_settings(url, name)?;
        self.apply(&mut settings)?;
        self.encoding.choose(&mut settings)?;
        if let Some(size) = self.block_size {
            settings.block_size_kib = block_size(size);
        }
        Ok(settings)
    }

    /// What may be changed later, too.
    fn apply(&self, settings: &mut Settings) -> Result<(), VolumeError> {
        if let Some(storage) = &self.storage {
            settings.storage.clone_from(storage);
        }
        if let Some(bucket) = &self.bucket {
            settings.bucket.clone_from(bucket);
        }
        if settings.storage == "file" && self.bucket.is_some() {
            settings.bucket = folder(Path::new(&settings.bucket))?;
        }
        let secrets = [
            (&self.access_key, &mut settings.access_key),
            (&self.secret_key, &mut settings.secret_key),
            (&self.session_token, &mut settings.session_token),
        ];
        for (given, kept) in secrets {
            // A directory needs none, whatever the environment holds for other programs.
            if let (Some(given), true) = (given, matches!(settings.storage.as_str(), "s3" | "minio")) {
                kept.clone_from(given);
            }
        }
        settings.capacity = self.capacity.unwrap_or(settings.capacity);
        settings.inodes = self.inodes.unwrap_or(settings.inodes);
        settings.trash_days = self.trash_days.unwrap_or(settings.trash_days);
        if self.enable_acl && !settings.enable_acl {
            settings.enable_acl = true;
            // Older clients would drop the rules of every node they touch.
            settings.raise_min_client("1.2.0-A");
        }
        Ok(())
    }

    /// New settings of a volume that exists.
    fn changed(&self, url: &MetaUrl, old: &Settings, name: &str) -> Result<Settings, VolumeError> {
        let mut new = old.clone();
        self.apply(&mut new)?;
        self.encoding.choose(&mut new)?;
        new.block_size_kib = self.block_size.map_or(old.block_size_kib, block_size);
        if !self.force {
            if name != old.name {
                let (found, given) = (old.name.clone(), name.to_owned());
                return Err(VolumeError::OtherName { url: url.to_string(), found, given });
            }
            let fixed = [
                (
                    "its block size",
                    format!("{} KiB", old.block_size_kib),
                    format!("{} KiB", new.block_size_kib),
                ),
                ("its compression", compression_of(old), compression_of(&new)),
                ("hash prefix", old.hash_prefix.to_string(), new.hash_prefix.to_string()),
                ("its number of shards", old.shards.to_string(), new.shards.to_string()),
                ("its encryption", encryption_of(old).into(), encryption_of(&new).into()),
            ];
            if let Some((what, old, _)) = fixed.into_iter().find(|(_, old, new)| old != new) {
                return Err(VolumeError::Fixed { url: url.to_string(), what, old });
            }
            if new.encrypt_key != old.encrypt_key {
                return Err(VolumeError::OtherKey(url.to_string()));
            }
        }
        name.clone_into(&mut new.name);
        Ok(new)
    }
}

/// KiB of a block: the power of two at or below the size wanted, within the bounds.
fn block_size(bytes: u64) -> u32 {
    let (low, high) = limits::BLOCK_SIZE_RANGE;
    let wanted = u32::try_from(bytes).unwrap_or(u32::MAX).clamp(low, high);
    let size = 1 << wanted.ilog2();
    if u64::from(size) != bytes {
        crate::log::tell(&format!(
            "block size {bytes} is not a power of two from {low} to {high}: {size} is used"
        ));
    }
    size / 1024
}

/// A directory as a `file` volume names it: absolute, with `/` at the end.
pub(super) fn folder(path: &Path) -> Result<String, VolumeError> {
    let broken = |error| VolumeError::Place { url: path.display().to_string(), error };
    let absolute = match path.canonicalize() {
        Ok(path) => path,
        Err(_) => std::path::absolute(path).map_err(broken)?,
    };
    let text = absolute.to_str().map(|text| format!("{}/", text.trim_end_matches('/')));
    text.ok_or_else(|| broken(std::io::Error::other("the path is not UTF-8")))
}

fn default_settings(url: &MetaUrl, name: &str) -> anyhow::Result<Settings> {
    let uuid = uuid::Uuid::new_v4().to_string();
    let objects: PathBuf = match url.local() {
        Some(place) => place.absolute().with_context(|| format!("{url} can't be used"))?.join("objects"),
        // Where every client of the volume format looks.
        None => match std::env::var_os("HOME") {
            Some(home) if !rustix::process::geteuid().is_root() => Path::new(&home).join(".juicefs/local"),
            _ => PathBuf::from("/var/jfs"),
        },
    };
    let mut settings = Settings::new(name, &uuid, "file", &folder(&objects)?);
    // What every client of the volume format writes first: one tier, without a class.
    let tier = serde_json::json!({ "0": { "ID": 0, "StorageClass": "", "Tag": "" } });
    settings.others.insert("Tiers".into(), tier);
    Ok(settings)
}

/// Whether the object store is tried.
pub(super) fn checks() -> bool {
    std::env::var_os("JFS_NO_CHECK_OBJECT_STORAGE").is_none()
}

fn make(url: &MetaUrl, settings: &Settings, how: Creation) -> anyhow::Result<()> {
    block_on(async { Ok(create(url, settings, how).await?) })
}

/// Settings as they are shown.
pub(super) fn shown(mut settings: Settings) -> String {
    secrets::mask(&mut settings);
    serde_json::to_string_pretty(&settings).unwrap_or_default()
}

/// Makes a volume with everything at its default, named after its directory.
pub(super) fn make_default(url: &MetaUrl, unsafe_engine: bool) -> anyhow::Result<()> {
    let settings = default_settings(url, &name_for(url))?;
    make(url, &settings, Creation { force: false, check: checks(), unsafe_engine })
}

/// A legal volume name close to the directory's.
fn name_for(url: &MetaUrl) -> String {
    let Some(place) = url.local() else { return "zest".to_owned() };
    let path = place.absolute().unwrap_or_else(|_| place.path.clone());
    let last = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let legal = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let name: String = last.chars().map(legal).take(63).collect();
    let name = name.trim_matches('-');
    if valid_name(name) { name.to_owned() } else { "zest".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_directories() {
        let name = |path: &str| name_for(&MetaUrl::parse(path).unwrap());
        assert_eq!(name("/srv/My Volume"), "my-volume");
        assert_eq!(name("/srv/v"), "zest");
        assert_eq!(name("/srv/volume/"), "volume");
        assert_eq!(name("/"), "zest");
        assert_eq!(name(&format!("/srv/{}", "x".repeat(200))).len(), 63);
    }

    #[test]
    fn block_sizes_are_powers_of_two_within_bounds() {
        assert_eq!(block_size(4 << 20), 4096);
        assert_eq!(block_size(3 << 20), 2048);
        assert_eq!(block_size(1), 64);
        assert_eq!(block_size(1 << 40), 16_384);
    }

    #[test]
    fn what_is_fixed_stays_unless_forced() {
        let url = MetaUrl::parse("./v").unwrap();
        let old = Settings::new("old", "u", "file", "/x/");
        let mut args = FormatArgs { trash_days: Some(7), ..FormatArgs::default() };
        let new = args.changed(&url, &old, "old").unwrap();
        assert_eq!(new, Settings { trash_days: 7, ..old.clone() });
        assert!(matches!(args.changed(&url, &old, "other"), Err(VolumeError::OtherName { .. })));
        args.block_size = Some(1 << 20);
        assert!(matches!(args.changed(&url, &old, "old"), Err(VolumeError::Fixed { .. })));
        args.force = true;
        assert_eq!(args.changed(&url, &old, "other").unwrap().block_size_kib, 1024);
    }
}
