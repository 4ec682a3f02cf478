//! `zest config META-URL`: shows the settings of a volume, or changes those that may be changed. Clients that use the
//! volume take the new ones over at their next heartbeat.

use super::format::{checks, folder, shown};
use super::{block_on, meta_url, units};
use crate::meta_url::MetaUrl;
use crate::volume::gate::{CLIENT, Version};
use crate::volume::update::update;
use crate::volume::{Volume, VolumeError, status, stored_settings};
use anyhow::bail;
use clap::Args;
use serde_json::Value;
use std::io::{BufRead, Write};
use std::path::Path;
use zest_metadata::Scan;
use zest_types::volume::Settings;
use zest_upkeep::quota;

/// Arguments of `config`.
#[derive(Args, Default)]
pub(super) struct ConfigArgs {
    /// The volume: a directory, or the URL of a metadata server.
    #[arg(value_name = "META-URL")]
    url: String,
    /// Where objects are: file, s3 or minio.
    #[arg(long, value_name = "TYPE")]
    storage: Option<String>,
    /// The bucket's address; for file a directory.
    #[arg(long, value_name = "URL")]
    bucket: Option<String>,
    /// Access key of the object store.
    #[arg(long, value_name = "KEY")]
    access_key: Option<String>,
    /// Secret key of the object store.
    #[arg(long, value_name = "KEY")]
    secret_key: Option<String>,
    /// Session token of the object store.
    #[arg(long, value_name = "TOKEN")]
    session_token: Option<String>,
    /// Limit of the volume, in GiB or with a unit; 0 is none.
    #[arg(long, value_name = "SIZE", value_parser = units::gib)]
    capacity: Option<u64>,
    /// Limit of files and directories; 0 is none.
    #[arg(long, value_name = "N")]
    inodes: Option<u64>,
    /// Days for which removed files stay in the trash; 0 is no trash.
    #[arg(long, value_name = "DAYS")]
    trash_days: Option<u32>,
    /// What a client may upload, in Mbit/s or with M, G or T; 0 is no limit. Clients of JuiceFS obey it.
    #[arg(long, value_name = "RATE", value_parser = units::mbit)]
    upload_limit: Option<i64>,
    /// What a client may download, likewise.
    #[arg(long, value_name = "RATE", value_parser = units::mbit)]
    download_limit: Option<i64>,
    /// Hide a secret that is stored in plain text.
    #[arg(long)]
    encrypt_secret: bool,
    /// Oldest client that is admitted; can only be raised.
    #[arg(long, value_name = "VERSION")]
    min_client_version: Option<String>,
    /// Newest client that is admitted; "" for any.
    #[arg(long, value_name = "VERSION")]
    max_client_version: Option<String>,
    /// POSIX access rules; can't be switched off again.
    #[arg(long)]
    enable_acl: bool,
    /// Keep statistics of directories.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    dir_stats: Option<bool>,
    /// Count usage by user and group.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    user_group_quota: Option<bool>,
    /// Keep a log of changes.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    changelog: Option<bool>,
    /// Not in this version.
    #[arg(long, hide = true, value_name = "N")]
    tier: Option<u8>,
    /// Not in this version.
    #[arg(long, hide = true, value_name = "CLASS")]
    storage_class: Option<String>,
    /// Not in this version.
    #[arg(long, hide = true, value_name = "KEY=VALUE")]
    tag: Option<String>,
    /// Ask nothing.
    #[arg(short, long)]
    yes: bool,
    /// Skip every check.
    #[arg(long)]
    force: bool,
    /// Print JSON, as always.
    #[arg(long, hide = true)]
    json: bool,
}

impl ConfigArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let url = meta_url(&self.url)?;
        let not_formatted = || VolumeError::NotFormatted(url.to_string());
        let old = block_on(async { Ok(stored_settings(&url).await?) })?.ok_or_else(not_formatted)?;
        let plan = |old: &Settings| {
            self.changed(old).map_err(|why| VolumeError::Config { url: url.to_string(), why })
        };
        let planned = changes(&old, &plan(&old)?);
        if self.asks_for_nothing() {
            crate::log::say(&shown(old));
            return Ok(());
        }
        if !self.force && !planned.is_empty() {
            let doubts = block_on(async { self.doubts(&Volume::open(&url).await?).await })?;
            self.confirm(&doubts)?;
        }
        if self.dir_stats == Some(false) && !self.force {
            block_on(async { no_quotas(&Volume::open(&url).await?).await })?;
        }
        let (old, new) = block_on(async { Ok(update(&url, checks() && !self.force, plan).await?) })?;
        block_on(begin_counting(&url, &old, &new))?;
        let changed = changes(&old, &new);
        if changed.is_empty() && !self.encrypt_secret {
            crate::log::say("Nothing changed.");
        }
        for (name, old, new) in changed {
            crate::log::say(&format!("{name:>10}: {old} -> {new}"));
        }
        Ok(())
    }

    fn asks_for_nothing(&self) -> bool {
        let words = [
            &self.storage,
            &self.bucket,
            &self.access_key,
            &self.secret_key,
            &self.session_token,
            &self.min_client_version,
            &self.max_client_version,
            &self.storage_class,
            &self.tag,
        ];
        let switches = [self.dir_stats, self.user_group_quota, self.changelog];
        words.iter().all(|word| word.is_none())
            && switches.iter().all(Option::is_none)
            && (self.capacity, self.inodes, self.trash_days) == (None, None, None)
            && (self.upload_limit, self.download_limit, self.tier) == (None, None, None)
            && !self.encrypt_secret
            && !self.enable_acl
    }

    /// New settings; the error says what can't be changed.
    fn changed(&self, old: &Settings) -> Result<Settings, String> {
        self.refuse(old)?;
        let mut new = old.clone();
        let words = [
            (&self.storage, &mut new.storage),
            (&self.bucket, &mut new.bucket),
            (&self.access_key, &mut new.access_key),
            (&self.secret_key, &mut new.secret_key),
            (&self.session_token, &mut new.session_token),
        ];
        for (given, kept) in words {
            if let Some(given) = given {
                kept.clone_from(given);
            }
        }
        if self.bucket.is_some() && matches!(new.storage.as_str(), "" | "file") {
            new.bucket = folder(Path::new(&new.bucket)).map_err(|error| error.to_string())?;
        }
        new.capacity = self.capacity.unwrap_or(old.capacity);
        new.inodes = self.inodes.unwrap_or(old.inodes);
        new.trash_days = self.trash_days.unwrap_or(old.trash_days);
        for (name, given) in [("UploadLimit", self.upload_limit), ("DownloadLimit", self.download_limit)] {
            match given {
                Some(0) => drop(new.others.remove(name)),
                Some(limit) => drop(new.others.insert(name.into(), limit.into())),
                None => {}
            }
        }
        new.dir_stats = self.dir_stats.unwrap_or(old.dir_stats);
        match self.user_group_quota {
            Some(wanted) if wanted != old.user_group_quota() => new.set_user_group_quota(wanted),
            _ => {}
        }
        if self.changelog == Some(false) {
            new.others.remove("ChangeLog");
        }
        self.gates(old, &mut new)?;
        Ok(new)
    }

    /// What this version does not know how to change.
    fn refuse(&self, old: &Settings) -> Result<(), String> {
        let on = |name: &str| old.others.get(name).and_then(Value::as_bool).unwrap_or(false);
        let wants = [
            ("--tier", self.tier.is_some()),
            ("--storage-class", self.storage_class.is_some()),
            ("--tag", self.tag.is_some()),
            ("--changelog", self.changelog == Some(true) && !on("ChangeLog")),
        ];
        match wants.iter().find(|(_, wanted)| *wanted) {
            Some((option, _)) => Err(format!("{option} is not supported yet: change it with juicefs config")),
            None => Ok(()),
        }
    }

    /// Which clients are admitted.
    fn gates(&self, old: &Settings, new: &mut Settings) -> Result<(), String> {
        let read = |text: &str| Version::parse(text).ok_or(format!("{text:?} is no version, such as 1.1.0"));
        if let Some(least) = &self.min_client_version {
            let (wanted, had) = (read(least)?, Version::parse(&old.min_client_version));
            if !self.force && had.is_some_and(|had| wanted < had) {
                return Err(format!(
                    "--min-client-version is {} and can only be raised",
                    old.min_client_version
                ));
            }
            if !self.force && read(CLIENT)? < wanted {
                return Err(format!(
                    "--min-client-version {least} would keep this program out, which is as {CLIENT}"
                ));
            }
            new.min_client_version.clone_from(least);
        }
        if let Some(most) = &self.max_client_version {
            if !most.is_empty() && !self.force && read(most)? < read(CLIENT)? {
                return Err(format!(
                    "--max-client-version {most} would keep this program out, which is as {CLIENT}"
                ));
            }
            new.max_client_version.clone_from(most);
        }
        if self.enable_acl && !old.enable_acl {
            new.enable_acl = true;
            new.raise_min_client("1.2.0-A");
        }
        Ok(())
    }

    /// What the user should know before.
    async fn doubts(&self, volume: &Volume) -> anyhow::Result<Vec<String>> {
        let mut doubts = Vec::new();
        let (space, inodes) = status::usage(&*volume.records()).await?;
        if self.capacity.is_some_and(|capacity| capacity > 0 && capacity < space) {
            doubts.push(format!("the volume holds {space} bytes already: nothing could be written"));
        }
        if self.inodes.is_some_and(|limit| limit > 0 && limit < inodes) {
            doubts.push(format!("the volume holds {inodes} files already: none could be made"));
        }
        if self.trash_days == Some(0) && volume.settings.trash_days > 0 {
            doubts.push("without trash, files that are removed are gone at once".into());
        }
        let least = self.min_client_version.as_deref().and_then(Version::parse);
        let most = self.max_client_version.as_deref().and_then(Version::parse);
        for (number, version) in status::versions(&*volume.records()).await? {
            let read = Version::parse(&version);
            let out = read.is_none_or(|version| {
                least.as_ref().is_some_and(|least| version < *least)
                    || most.as_ref().is_some_and(|most| version > *most)
            });
            if (least.is_some() || most.is_some()) && out {
                doubts.push(format!("session {number} is of version {version:?}, which is kept out"));
            }
        }
        Ok(doubts)
    }

    /// Asks where there is something to ask.
    fn confirm(&self, doubts: &[String]) -> anyhow::Result<()> {
        if doubts.is_empty() || self.yes {
            return Ok(());
        }
        doubts.iter().for_each(|doubt| crate::log::tell(doubt));
        let mut out = std::io::stdout();
        out.write_all(b"Proceed anyway? [y/N]: ").and_then(|()| out.flush())?;
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer)?;
        match answer.trim() {
            "y" | "Y" | "yes" => Ok(()),
            _ => bail!("nothing was changed: answer y, or add --yes"),
        }
    }
}

/// Quotas of directories are counted with their statistics.
async fn no_quotas(volume: &Volume) -> anyhow::Result<()> {
    let found = volume.records().scan(&Scan::DirQuotas { limit: 1 }).await?;
    if found.is_empty() {
        return Ok(());
    }
    bail!(
        "volume {}: directories have quotas, which need the statistics: delete them first (zest quota list)",
        volume.url
    )
}

/// What is kept from now on is counted once.
async fn begin_counting(url: &MetaUrl, old: &Settings, new: &Settings) -> anyhow::Result<()> {
    let owners = new.user_group_quota() && !old.user_group_quota();
    let statistics = new.dir_stats && !old.dir_stats;
    if !owners && !statistics {
        return Ok(());
    }
    let volume = Volume::open(url).await?;
    let whole = volume.whole()?;
    if owners {
        quota::begin_owners(&whole).await?;
    }
    if statistics {
        quota::begin_statistics(&whole).await?;
    }
    volume.records().sync().await?;
    Ok(())
}

/// What differs, for people: secrets are not shown.
fn changes(old: &Settings, new: &Settings) -> Vec<(String, String, String)> {
    let text = |settings: &Settings| serde_json::to_value(settings).unwrap_or_default();
    let (old, new) = (text(old), text(new));
    let empty = serde_json::Map::new();
    let (old, new) = (old.as_object().unwrap_or(&empty), new.as_object().unwrap_or(&empty));
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let word = |name: &str, value: Option<&Value>| match (name, value) {
        (_, None | Some(Value::Null)) => "none".to_owned(),
        ("AccessKey" | "SecretKey" | "SessionToken" | "EncryptKey", Some(_)) => "removed".into(),
        (_, Some(Value::String(text))) => text.clone(),
        (_, Some(other)) => other.to_string(),
    };
    let differs = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    differs.map(|name| (option(name), word(name, old.get(name)), word(name, new.get(name)))).collect()
}

/// The option that changes a member: `TrashDays` is changed by `trash-days`.
fn option(member: &str) -> String {
    let mut option = String::new();
    let mut after_capital = true;
    for letter in member.chars() {
        if letter.is_ascii_uppercase() && !after_capital {
            option.push('-');
        }
        after_capital = letter.is_ascii_uppercase();
        option.push(letter.to_ascii_lowercase());
    }
    option
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::new("vol", "u", "file", "/x/")
    }

    #[test]
    fn only_what_was_given_changes() {
        let mut old = settings();
        old.others.insert("Tiers".into(), Value::Null);
        let args = ConfigArgs { trash_days: Some(7), upload_limit: Some(100), ..ConfigArgs::default() };
        assert!(!args.asks_for_nothing() && ConfigArgs::default().asks_for_nothing());
        let new = args.changed(&old).unwrap();
        let lines: Vec<_> = changes(&old, &new);
        assert_eq!(
            lines,
            [
                ("trash-days".into(), "1".into(), "7".into()),
                ("upload-limit".into(), "none".into(), "100".into())
            ]
        );
        let back = ConfigArgs { trash_days: Some(1), upload_limit: Some(0), ..ConfigArgs::default() };
        assert_eq!(back.changed(&new).unwrap(), old);
        let secret = ConfigArgs { secret_key: Some("word".into()), ..ConfigArgs::default() };
        let new = secret.changed(&old).unwrap();
        assert_eq!(changes(&old, &new), [("secret-key".into(), "none".into(), "removed".into())]);
    }

    #[test]
    fn members_are_named_by_their_options() {
        let all = ["MinClientVersion", "EnableACL", "Bucket"].map(option);
        assert_eq!(all, ["min-client-version", "enable-acl", "bucket"]);
    }

    #[test]
    fn gates_are_only_raised_and_never_against_oneself() {
        let old = settings();
        let least =
            |text: &str| ConfigArgs { min_client_version: Some(text.into()), ..ConfigArgs::default() };
        assert_eq!(least("1.3.0").changed(&old).unwrap().min_client_version, "1.3.0");
        assert!(least("1.0.0").changed(&old).unwrap_err().contains("only be raised"));
        assert!(least("2.0").changed(&old).unwrap_err().contains("keep this program out"));
        assert!(least("soon").changed(&old).unwrap_err().contains("no version"));
        let most = |text: &str| ConfigArgs { max_client_version: Some(text.into()), ..ConfigArgs::default() };
        assert!(most("1.2").changed(&old).is_err() && most("").changed(&old).is_ok());
        let acl = ConfigArgs { enable_acl: true, ..ConfigArgs::default() };
        assert_eq!(acl.changed(&old).unwrap().min_client_version, "1.2.0-A");
    }

    #[test]
    fn what_is_counted_can_be_switched() {
        let off = ConfigArgs { dir_stats: Some(false), ..ConfigArgs::default() };
        assert!(!off.changed(&settings()).unwrap().dir_stats);
        let owners = |on| ConfigArgs { user_group_quota: Some(on), ..ConfigArgs::default() };
        let on = owners(true).changed(&settings()).unwrap();
        assert!(on.user_group_quota());
        assert_eq!(owners(false).changed(&on).unwrap(), settings());
        // Said otherwise, it is the same.
        let mut said = settings();
        said.others.insert("UserGroupQuota".into(), false.into());
        assert_eq!(owners(false).changed(&said).unwrap(), said);
    }

    #[test]
    fn what_this_version_can_not_change_is_named() {
        let refused = |args: ConfigArgs| args.changed(&settings()).unwrap_err();
        assert!(
            refused(ConfigArgs { changelog: Some(true), ..ConfigArgs::default() }).contains("--changelog")
        );
        assert!(refused(ConfigArgs { tier: Some(1), ..ConfigArgs::default() }).contains("--tier"));
        let same = ConfigArgs { dir_stats: Some(true), changelog: Some(false), ..ConfigArgs::default() };
        assert_eq!(same.changed(&settings()).unwrap(), settings());
    }
}
