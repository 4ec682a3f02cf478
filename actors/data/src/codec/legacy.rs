//! PEM text that says in its headers how it is encrypted (`Proc-Type: 4,ENCRYPTED`), as older tools wrote keys:
//! CBC with the key from one round of MD5 over passphrase and salt. It protects badly; it is read, never written.

use super::key::KeyError;
use aes::{Aes128, Aes192, Aes256};
use cbc::Decryptor;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockCipherDecrypt, BlockModeDecrypt, KeyInit, KeyIvInit};
use des::{Des, TdesEde3};
use md5::{Digest, Md5};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Des,
    TripleDes,
    Aes128,
    Aes192,
    Aes256,
}

/// How a block of PEM text is encrypted.
pub(super) struct Protection {
    scheme: Scheme,
    iv: Vec<u8>,
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(pair).collect()
}

impl Protection {
    /// What the headers say; `None` for a block that is not encrypted.
    pub(super) fn of(block: &pem::Pem) -> Result<Option<Protection>, KeyError> {
        let Some(info) = block.headers().get("DEK-Info") else { return Ok(None) };
        let unknown = || KeyError::Protection(info.to_owned());
        let (name, iv) = info.split_once(',').ok_or_else(unknown)?;
        let scheme = match name.trim() {
            "DES-CBC" => Scheme::Des,
            "DES-EDE3-CBC" => Scheme::TripleDes,
            "AES-128-CBC" => Scheme::Aes128,
            "AES-192-CBC" => Scheme::Aes192,
            "AES-256-CBC" => Scheme::Aes256,
            _ => return Err(unknown()),
        };
        let iv = unhex(iv.trim()).filter(|iv| iv.len() == scheme.block()).ok_or_else(unknown)?;
        Ok(Some(Protection { scheme, iv }))
    }

    /// The plain bytes, which may be garbage when the passphrase is wrong.
    pub(super) fn open(&self, body: &[u8], passphrase: &[u8]) -> Result<Vec<u8>, KeyError> {
        let key = self.key(passphrase);
        let plain = match self.scheme {
            Scheme::Des => decrypt::<Des>(&key, &self.iv, body),
            Scheme::TripleDes => decrypt::<TdesEde3>(&key, &self.iv, body),
            Scheme::Aes128 => decrypt::<Aes128>(&key, &self.iv, body),
            Scheme::Aes192 => decrypt::<Aes192>(&key, &self.iv, body),
            Scheme::Aes256 => decrypt::<Aes256>(&key, &self.iv, body),
        };
        plain.ok_or(KeyError::WrongPassphrase)
    }

    fn key(&self, passphrase: &[u8]) -> Vec<u8> {
        let salt = self.iv.get(..8).unwrap_or_default();
        let (mut key, mut last) = (Vec::new(), Vec::new());
        while key.len() < self.scheme.key() {
            last = Md5::new()
                .chain_update(&last)
                .chain_update(passphrase)
                .chain_update(salt)
                .finalize()
                .to_vec();
            key.extend_from_slice(&last);
        }
        key.truncate(self.scheme.key());
        key
    }
}

impl Scheme {
    fn block(self) -> usize {
        match self {
            Scheme::Des | Scheme::TripleDes => 8,
            Scheme::Aes128 | Scheme::Aes192 | Scheme::Aes256 => 16,
        }
    }

    fn key(self) -> usize {
        match self {
            Scheme::Des => 8,
            Scheme::Aes128 => 16,
            Scheme::TripleDes | Scheme::Aes192 => 24,
            Scheme::Aes256 => 32,
        }
    }
}

fn decrypt<C: BlockCipherDecrypt + KeyInit>(key: &[u8], iv: &[u8], body: &[u8]) -> Option<Vec<u8>> {
    let cipher = Decryptor::<C>::new_from_slices(key, iv).ok()?;
    let mut buffer = body.to_vec();
    let plain = cipher.decrypt_padded::<Pkcs7>(&mut buffer).ok()?;
    Some(plain.to_vec())
}
