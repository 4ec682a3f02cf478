//! How the blocks of a new volume are encoded and spread: the options of `format` that stay as they are for ever.

use crate::volume::VolumeError;
use clap::Args;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use zest_types::limits;
use zest_types::volume::Settings;

/// Options that are fixed when a volume is made.
#[derive(Args, Default)]
pub(super) struct EncodingArgs {
    /// Compression of blocks: none, lz4 or zstd [default: none].
    #[arg(long, value_name = "ALGORITHM", value_parser = ["none", "lz4", "zstd"], ignore_case = true)]
    pub(super) compress: Option<String>,
    /// Encrypt objects: a file with an RSA private key in PEM form; JFS_RSA_PASSPHRASE opens a protected one.
    #[arg(long, value_name = "FILE")]
    pub(super) encrypt_rsa_key: Option<PathBuf>,
    /// What encrypts objects: aes256gcm-rsa or chacha20-rsa [default: aes256gcm-rsa].
    #[arg(long, value_name = "ALGORITHM", value_parser = ["aes256gcm-rsa", "chacha20-rsa", "sm4gcm"])]
    pub(super) encrypt_algo: Option<String>,
    /// A hash stands in the names of objects.
    #[arg(long)]
    pub(super) hash_prefix: bool,
    /// Spread objects over so many buckets, at most 256: %d in --bucket stands for the number of each [default: 0].
    #[arg(long, value_name = "N")]
    pub(super) shards: Option<u32>,
}

impl EncodingArgs {
    /// Puts what was given into settings.
    pub(super) fn choose(&self, settings: &mut Settings) -> Result<(), VolumeError> {
        if let Some(compress) = &self.compress {
            settings.compression = compress.to_ascii_lowercase();
        }
        if let Some(path) = &self.encrypt_rsa_key {
            settings.encrypt_key = key_file(path)?;
        }
        if let Some(algorithm) = &self.encrypt_algo {
            settings.encrypt_algo.clone_from(algorithm);
        }
        settings.hash_prefix |= self.hash_prefix;
        settings.shards = self.shards.unwrap_or(settings.shards);
        Ok(())
    }
}

/// The text of a key's file.
fn key_file(path: &Path) -> Result<String, VolumeError> {
    let wrong = |error| VolumeError::Place { url: path.display().to_string(), error };
    let mut text = String::new();
    let most = limits::PRIVATE_KEY_MAX as u64;
    let read =
        File::open(path).and_then(|file| file.take(most + 1).read_to_string(&mut text)).map_err(wrong)?;
    if read as u64 > most {
        return Err(wrong(io::Error::other("it is too large for a private key")));
    }
    if text.trim().is_empty() {
        return Err(wrong(io::Error::other("it is empty")));
    }
    Ok(text)
}

/// A volume's compression in words.
pub(super) fn compression_of(settings: &Settings) -> String {
    match settings.compression.to_ascii_lowercase().as_str() {
        "" => "none".into(),
        name => name.into(),
    }
}

/// A volume's encryption in words.
pub(super) fn encryption_of(settings: &Settings) -> &str {
    match (settings.encrypt_key.as_str(), settings.encrypt_algo.as_str()) {
        ("", _) => "none",
        (_, "") => "aes256gcm-rsa",
        (_, name) => name,
    }
}
