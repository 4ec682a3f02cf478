//! The settings record of a volume: what was fixed when it was formatted, and what may change later. Source:
//! volume format, settings record (JSON). Members this program does not know are kept as they are.

use crate::encoding::{Cipher, Compression};
use crate::limits;
use crate::version::Version;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Layout version this program reads and writes.
pub const META_VERSION: i64 = 1;

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The settings of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Settings {
    #[serde(rename = "Name")]
    pub name: String,
    #[serde(rename = "UUID")]
    pub uuid: String,
    /// `file`, `s3` or `mem`.
    #[serde(rename = "Storage", default)]
    pub storage: String,
    /// Endpoint and bucket; for `file` an absolute path that ends in `/`.
    #[serde(rename = "Bucket", default)]
    pub bucket: String,
    #[serde(rename = "AccessKey", default, skip_serializing_if = "is_zero")]
    pub access_key: String,
    #[serde(rename = "SecretKey", default, skip_serializing_if = "is_zero")]
    pub secret_key: String,
    #[serde(rename = "SessionToken", default, skip_serializing_if = "is_zero")]
    pub session_token: String,
    /// KiB.
    #[serde(rename = "BlockSize")]
    pub block_size_kib: u32,
    #[serde(rename = "Compression", default, skip_serializing_if = "is_zero")]
    pub compression: String,
    #[serde(rename = "Shards", default, skip_serializing_if = "is_zero")]
    pub shards: u32,
    #[serde(rename = "HashPrefix", default, skip_serializing_if = "is_zero")]
    pub hash_prefix: bool,
    /// Bytes; 0 means no limit.
    #[serde(rename = "Capacity", default, skip_serializing_if = "is_zero")]
    pub capacity: u64,
    /// Number of inodes; 0 means no limit.
    #[serde(rename = "Inodes", default, skip_serializing_if = "is_zero")]
    pub inodes: u64,
    #[serde(rename = "EncryptKey", default, skip_serializing_if = "is_zero")]
    pub encrypt_key: String,
    #[serde(rename = "EncryptAlgo", default, skip_serializing_if = "is_zero")]
    pub encrypt_algo: String,
    /// Whether the secrets above are ciphertext.
    #[serde(rename = "KeyEncrypted", default, skip_serializing_if = "is_zero")]
    pub key_encrypted: bool,
    /// Days removed files stay in the trash; 0 means no trash.
    #[serde(rename = "TrashDays", default)]
    pub trash_days: u32,
    #[serde(rename = "MetaVersion", default, skip_serializing_if = "is_zero")]
    pub meta_version: i64,
    #[serde(rename = "MinClientVersion", default, skip_serializing_if = "is_zero")]
    pub min_client_version: String,
    #[serde(rename = "MaxClientVersion", default, skip_serializing_if = "is_zero")]
    pub max_client_version: String,
    /// Whether directory statistics are kept.
    #[serde(rename = "DirStats", default, skip_serializing_if = "is_zero")]
    pub dir_stats: bool,
    #[serde(rename = "EnableACL", default)]
    pub enable_acl: bool,
    /// Members of other versions, kept untouched.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Why settings can't be used. Each text names the member and what to do.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SettingsError {
    #[error("the settings record is not readable: {0}")]
    Unreadable(String),
    #[error(
        "volume name {0:?} is not usable: 3 to 63 of a-z, 0-9 and '-', with a letter or digit at both ends"
    )]
    Name(String),
    #[error("block size {0} KiB is not a power of two from 64 to 16384 KiB")]
    BlockSize(u32),
    #[error("the volume has layout version {0}; this program knows version 1: use a newer program")]
    MetaVersion(i64),
    #[error("the volume has {0} shards; at most {max} are possible", max = limits::SHARDS)]
    Shards(u32),
    #[error("the volume uses {0}, which this version can't do yet: mount it with a client that can")]
    Unsupported(String),
}

impl Settings {
    /// Settings of a new volume with everything at its default.
    #[must_use]
    pub fn new(name: &str, uuid: &str, storage: &str, bucket: &str) -> Settings {
        Settings {
            name: name.into(),
            uuid: uuid.into(),
            storage: storage.into(),
            bucket: bucket.into(),
            access_key: String::new(),
            secret_key: String::new(),
            session_token: String::new(),
            block_size_kib: limits::BLOCK_SIZE / 1024,
            compression: "none".into(),
            shards: 0,
            hash_prefix: false,
            capacity: 0,
            inodes: 0,
            encrypt_key: String::new(),
            encrypt_algo: "aes256gcm-rsa".into(),
            key_encrypted: false,
            trash_days: 1,
            meta_version: META_VERSION,
            min_client_version: "1.1.0-A".into(),
            max_client_version: String::new(),
            dir_stats: true,
            enable_acl: false,
            others: Map::new(),
        }
    }

    /// Reads the record; anything that is no such record is an error, never a default.
    pub fn from_json(bytes: &[u8]) -> Result<Settings, SettingsError> {
        serde_json::from_slice(bytes).map_err(|e| SettingsError::Unreadable(e.to_string()))
    }

    /// The record's text: one member a line, no indent.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let style = serde_json::ser::PrettyFormatter::with_indent(b"");
        let mut writer = serde_json::Serializer::with_formatter(&mut out, style);
        match self.serialize(&mut writer) {
            Ok(()) => out,
            Err(_) => Vec::new(), // strings and numbers always serialize into memory
        }
    }

    /// Whether usage of users and groups is kept.
    #[must_use]
    pub fn user_group_quota(&self) -> bool {
        self.others.get("UserGroupQuota").and_then(Value::as_bool).unwrap_or(false)
    }

    /// Keeps usage of users and groups from now on, or no longer.
    pub fn set_user_group_quota(&mut self, on: bool) {
        if on {
            self.others.insert("UserGroupQuota".into(), true.into());
        } else {
            self.others.remove("UserGroupQuota");
        }
    }

    /// Keeps clients older than this version away; what is there already is never lowered.
    pub fn raise_min_client(&mut self, version: &str) {
        // One that can't be read keeps nobody away.
        if Version::parse(&self.min_client_version) < Version::parse(version) {
            version.clone_into(&mut self.min_client_version);
        }
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.block_size_kib.saturating_mul(1024)
    }

    /// Whether this program may serve the volume.
    pub fn check(&self) -> Result<(), SettingsError> {
        if !valid_name(&self.name) {
            return Err(SettingsError::Name(self.name.clone()));
        }
        if self.meta_version > META_VERSION {
            return Err(SettingsError::MetaVersion(self.meta_version));
        }
        let (low, high) = limits::BLOCK_SIZE_RANGE;
        let size = self.block_size();
        if !size.is_power_of_two() || size < low || size > high {
            return Err(SettingsError::BlockSize(self.block_size_kib));
        }
        if self.shards > limits::SHARDS {
            return Err(SettingsError::Shards(self.shards));
        }
        self.compression()?;
        self.cipher()?;
        Ok(())
    }

    /// What each client may upload and download, Mbit/s; 0 is no limit.
    #[must_use]
    pub fn bandwidth(&self) -> (u64, u64) {
        let limit = |name| self.others.get(name).and_then(Value::as_u64).unwrap_or(0);
        (limit("UploadLimit"), limit("DownloadLimit"))
    }

    /// How blocks are compressed.
    pub fn compression(&self) -> Result<Compression, SettingsError> {
        let unknown = || SettingsError::Unsupported(format!("compression {:?}", self.compression));
        Compression::parse(&self.compression).ok_or_else(unknown)
    }

    /// What encrypts objects; `None` where there is no key, whatever algorithm is named.
    pub fn cipher(&self) -> Result<Option<Cipher>, SettingsError> {
        if self.encrypt_key.is_empty() {
            return Ok(None);
        }
        let unknown = || SettingsError::Unsupported(format!("encryption {:?}", self.encrypt_algo));
        Cipher::parse(&self.encrypt_algo).map(Some).ok_or_else(unknown)
    }
}

/// Whether a text can name a volume.
#[must_use]
pub fn valid_name(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let bytes = name.as_bytes();
    (3..=63).contains(&bytes.len())
        && bytes.iter().all(|b| inner(*b))
        && bytes.first() != Some(&b'-')
        && bytes.last() != Some(&b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_keeps_members_it_does_not_know() {
        let mut settings = Settings::new("vol", "u", "file", "/x/");
        settings.others.insert("Tiers".into(), Value::Null);
        let text = settings.to_json();
        assert!(
            text.starts_with(b"{\n\"Name\": \"vol\",\n\"UUID\": \"u\""),
            "{}",
            String::from_utf8_lossy(&text)
        );
        assert_eq!(Settings::from_json(&text).unwrap(), settings);
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        let usual = || Settings::new("vol", "u", "file", "/x/");
        let refused = |settings: Settings, what: &str| {
            assert_eq!(settings.check(), Err(SettingsError::Unsupported(what.into())));
        };
        refused(Settings { compression: "snappy".into(), ..usual() }, "compression \"snappy\"");
        let key = || "-----BEGIN".to_owned();
        let sm4 = || Settings { encrypt_algo: "sm4gcm".into(), ..usual() };
        refused(Settings { encrypt_key: key(), ..sm4() }, "encryption \"sm4gcm\"");
        assert_eq!(sm4().check(), Ok(()), "without a key nothing is encrypted");
        let many = Settings { shards: 257, ..usual() };
        assert_eq!(many.check(), Err(SettingsError::Shards(257)));
        let all = Settings {
            compression: "Zstd".into(),
            encrypt_key: key(),
            encrypt_algo: "chacha20-rsa".into(),
            shards: 256,
            hash_prefix: true,
            ..usual()
        };
        assert_eq!(all.check(), Ok(()));
        assert_eq!(all.cipher(), Ok(Some(Cipher::ChaCha20)));
    }

    #[test]
    fn the_oldest_client_is_only_ever_raised() {
        let mut settings = Settings::new("vol", "u", "file", "/x/");
        let mut after = |version| {
            settings.raise_min_client(version);
            settings.min_client_version.clone()
        };
        assert_eq!(after("1.2.0-A"), "1.2.0-A");
        for lower in ["1.1.9", "1.2.0-A", "", "1.2-A", "0.9.0+x"] {
            assert_eq!(after(lower), "1.2.0-A");
        }
        assert_eq!(after("1.2.0-beta1"), "1.2.0-beta1");
        assert_eq!(after("1.2.0"), "1.2.0");
        assert_eq!(after("1.10.0-A"), "1.10.0-A");
    }

    #[test]
    fn garbage_is_refused() {
        assert!(matches!(Settings::from_json(b"{}"), Err(SettingsError::Unreadable(_))));
        assert!(matches!(Settings::from_json(b"\xff"), Err(SettingsError::Unreadable(_))));
        let mut settings = Settings::new("vol", "u", "file", "/x/");
        settings.block_size_kib = 3000;
        assert_eq!(settings.check(), Err(SettingsError::BlockSize(3000)));
        settings = Settings::new("vol", "u", "file", "/x/");
        settings.meta_version = 2;
        assert_eq!(settings.check(), Err(SettingsError::MetaVersion(2)));
        assert!(!valid_name("-ab") && !valid_name("ab") && !valid_name("aB1") && valid_name("a-1"));
    }
}
