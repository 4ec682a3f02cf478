//! The private key of an encrypted volume: reading its PEM text in every form the format accepts, and wrapping data
//! keys with it. Source: volume format, key handling. Forms: PKCS#1 and PKCS#8, bare or protected by a passphrase
//! (PKCS#8's own way, or the older one in the text's headers).

use super::Source;
use super::legacy;
use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use rsa::pkcs1::DecodeRsaPrivateKey;
use rsa::pkcs8::DecodePrivateKey;
use rsa::sha2::Sha256;
use rsa::traits::PublicKeyParts;
use rsa::{Oaep, PrivateKey};

/// Both ends of a wrapped key carry this label.
const LABEL: &[u8; 4] = b"keys";

/// Why a private key can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not PEM, or PEM of something else.
    #[error("the private key is no PEM text of an RSA private key: {0}")]
    NoKey(String),
    /// A kind of key this program does not have.
    #[error("the private key is of a kind this version can't use ({0}): RSA keys of 1024 to 8192 bits work")]
    Kind(String),
    /// The key wants a passphrase and none was given.
    #[error("the private key is protected by a passphrase: set JFS_RSA_PASSPHRASE")]
    NoPassphrase,
    /// The passphrase does not open it.
    #[error("JFS_RSA_PASSPHRASE does not open the private key: set the passphrase the key was made with")]
    WrongPassphrase,
    /// How it is protected is not built in.
    #[error(
        "the private key is protected in a way this version can't open ({0}): convert it with openssl pkey -aes256"
    )]
    Protection(String),
}

fn rsa_key(tag: &str, der: &[u8]) -> Result<PrivateKey, KeyError> {
    if let Ok(key) = PrivateKey::from_pkcs1_der(der) {
        return Ok(key);
    }
    match PrivateKey::from_pkcs8_der(der) {
        Ok(key) => Ok(key),
        Err(_) if matches!(tag, "EC PRIVATE KEY" | "DSA PRIVATE KEY") => Err(KeyError::Kind(tag.into())),
        // The structure is sound, but names another algorithm, or a size that is refused.
        Err(rsa::pkcs8::Error::PublicKey(_)) => Err(KeyError::Kind("not RSA".into())),
        Err(error) => Err(KeyError::NoKey(error.to_string())),
    }
}

fn unprotected(der: &[u8], passphrase: &[u8]) -> Result<SecretDocument, KeyError> {
    // Schemes that are older than those of PKCS#5 v2 are not known by name.
    let info = EncryptedPrivateKeyInfoRef::try_from(der).map_err(|e| KeyError::Protection(e.to_string()))?;
    info.decrypt(passphrase).map_err(|error| match error {
        pkcs8::Error::EncryptedPrivateKey(scheme) if !is_wrong_passphrase(&scheme) => {
            KeyError::Protection(scheme.to_string())
        }
        _ => KeyError::WrongPassphrase,
    })
}

fn is_wrong_passphrase(error: &pkcs8::pkcs5::Error) -> bool {
    matches!(error, pkcs8::pkcs5::Error::DecryptFailed | pkcs8::pkcs5::Error::EncryptFailed)
}

/// Reads the key of a volume. A passphrase for a key that needs none is no error.
fn parse(text: &str, passphrase: Option<&str>) -> Result<PrivateKey, KeyError> {
    let blocks = pem::parse_many(text).map_err(|error| KeyError::NoKey(error.to_string()))?;
    let block = blocks.iter().find(|block| block.tag().ends_with("PRIVATE KEY"));
    let block = block.ok_or_else(|| KeyError::NoKey("no block of a private key is in it".into()))?;
    let protected = block.tag() == "ENCRYPTED PRIVATE KEY";
    let legacy = legacy::Protection::of(block)?;
    if !protected && legacy.is_none() {
        return rsa_key(block.tag(), block.contents());
    }
    let passphrase = passphrase.filter(|text| !text.is_empty()).ok_or(KeyError::NoPassphrase)?;
    let der = match legacy {
        Some(legacy) => legacy.open(block.contents(), passphrase.as_bytes())?,
        None => {
            let der = unprotected(block.contents(), passphrase.as_bytes())?;
            return rsa_key(block.tag(), der.as_bytes()).map_err(or_wrong_passphrase);
        }
    };
    rsa_key(block.tag(), &der).map_err(or_wrong_passphrase)
}

/// Garbage behind a passphrase means that it was another one.
fn or_wrong_passphrase(error: KeyError) -> KeyError {
    match error {
        KeyError::NoKey(_) => KeyError::WrongPassphrase,
        error => error,
    }
}

/// Wraps and unwraps the keys that encrypt data.
pub struct KeyPair {
    key: PrivateKey,
}

impl KeyPair {
    /// Reads PEM text; see [`KeyError`].
    pub fn from_pem(text: &str, passphrase: Option<&str>) -> Result<KeyPair, KeyError> {
        parse(text, passphrase).map(|key| KeyPair { key })
    }

    /// Bytes of a wrapped key.
    #[must_use]
    pub fn wrapped_len(&self) -> usize {
        self.key.size()
    }

    /// Wraps a data key; `None` when there is no chance to be had.
    #[must_use]
    pub fn wrap(&self, data_key: &[u8], mut chance: Source<'_>) -> Option<Vec<u8>> {
        let padding = Oaep::<Sha256>::new_with_label(*LABEL);
        self.key.as_public_key().encrypt(&mut chance, padding, data_key).ok()
    }

    /// Opens a wrapped data key; `None` when it was not wrapped for this key, or was damaged.
    #[must_use]
    pub fn unwrap(&self, wrapped: &[u8], mut chance: Source<'_>) -> Option<Vec<u8>> {
        let padding = Oaep::<Sha256>::new_with_label(*LABEL);
        self.key.decrypt_blinded(&mut chance, padding, wrapped).ok()
    }
}
