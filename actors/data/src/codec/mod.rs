//! How a plain block becomes the bytes of its object, and back: compressed first, then encrypted, each as the volume's
//! settings say. Source: volume format, block encoding. Nothing in an object says how it was made, and there is no
//! escape for bytes that don't shrink: the settings alone decide. Pure, but for chance, which is given.

mod compression;
mod envelope;
mod key;
mod legacy;
mod work;

pub use key::{KeyError, KeyPair};
pub use work::{decode, encode};

use bytes::Bytes;
use compression::{compress_onto, decompress};
use envelope::Envelope;
use rsa::rand_core::{TryCryptoRng, TryRng};
use std::fmt;
use zest_types::encoding::{Cipher, Compression};
use zest_types::volume::{Settings, SettingsError};
use zest_world::{Chance, NoSecrets};

/// Why a block can't be encoded or decoded. What can't be decoded was cut short, damaged, or made with another key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// Fewer bytes than the block has.
    #[error("{found} bytes came, {wanted} are needed")]
    Short {
        /// Bytes there are.
        found: usize,
        /// Bytes of the block.
        wanted: usize,
    },
    /// More bytes than a block can become.
    #[error("{found} bytes came, and such a block has at most {most}")]
    TooLong {
        /// Bytes there are.
        found: usize,
        /// Bytes there may be.
        most: usize,
    },
    /// No whole envelope, or not one for this volume.
    #[error("it can't be decrypted: {0} is damaged, or was made with another key")]
    Damaged(&'static str),
    /// What the decompressor said.
    #[error("it can't be decompressed: {0}")]
    NotDecompressed(String),
    /// What the compressor said.
    #[error("it can't be compressed: {0}")]
    NotCompressed(String),
    /// Nothing is encrypted without them.
    #[error(transparent)]
    NoSecrets(#[from] NoSecrets),
    /// The private key does not take a data key.
    #[error("it can't be encrypted with the volume's private key: the key is too short or damaged")]
    NotWrapped,
    /// The worker that did it panicked.
    #[error("the worker that encoded it was lost")]
    Lost,
}

/// Why there is no codec for these settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// An algorithm this program does not have.
    #[error(transparent)]
    Settings(SettingsError),
    /// The private key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The private key does not open what it closed.
    #[error("the private key can't be used: {0}")]
    Useless(CodecError),
}

/// Chance for the library that wraps keys: it fails where the world has none, and nothing takes its place.
pub struct Source<'a>(&'a dyn Chance);

impl Source<'_> {
    /// The secrets of this chance.
    #[must_use]
    pub fn new(chance: &dyn Chance) -> Source<'_> {
        Source(chance)
    }
}

impl TryRng for Source<'_> {
    type Error = NoSecrets;

    fn try_next_u32(&mut self) -> Result<u32, NoSecrets> {
        let mut bytes = [0; 4];
        self.0.secret(&mut bytes).map(|()| u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, NoSecrets> {
        let mut bytes = [0; 8];
        self.0.secret(&mut bytes).map(|()| u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), NoSecrets> {
        self.0.secret(bytes)
    }
}

impl TryCryptoRng for Source<'_> {}

/// Encodes and decodes the objects of one volume.
pub struct BlockCodec {
    compression: Compression,
    envelope: Option<Envelope>,
}

impl fmt::Debug for BlockCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encrypted = self.envelope.is_some();
        f.debug_struct("BlockCodec")
            .field("compression", &self.compression)
            .field("encrypted", &encrypted)
            .finish()
    }
}

impl BlockCodec {
    /// Blocks as they are.
    #[must_use]
    pub fn plain() -> BlockCodec {
        BlockCodec { compression: Compression::None, envelope: None }
    }

    /// The codec of a volume, whose secrets must be in plain text.
    pub fn of(settings: &Settings, passphrase: Option<&str>) -> Result<BlockCodec, OpenError> {
        let compression = settings.compression().map_err(OpenError::Settings)?;
        let cipher = settings.cipher().map_err(OpenError::Settings)?;
        let envelope = match cipher {
            Some(cipher) => {
                Some(Envelope::new(cipher, KeyPair::from_pem(&settings.encrypt_key, passphrase)?))
            }
            None => None,
        };
        Ok(BlockCodec { compression, envelope })
    }

    /// A codec from its parts.
    #[must_use]
    pub fn new(compression: Compression, encryption: Option<(Cipher, KeyPair)>) -> BlockCodec {
        let envelope = encryption.map(|(cipher, pair)| Envelope::new(cipher, pair));
        BlockCodec { compression, envelope }
    }

    /// Whether objects hold the plain blocks.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.compression == Compression::None && self.envelope.is_none()
    }

    /// The most bytes an object of a block of `len` bytes has.
    #[must_use]
    pub fn stored_max(&self, len: usize) -> usize {
        self.compression.bound(len) + self.envelope.as_ref().map_or(0, Envelope::overhead)
    }

    /// The object of a block.
    pub fn encode(&self, plain: Bytes, chance: &dyn Chance) -> Result<Bytes, CodecError> {
        if self.is_plain() {
            return Ok(plain);
        }
        let fill = |out: &mut Vec<u8>| compress_onto(self.compression, &plain, out);
        let mut out = Vec::new();
        match &self.envelope {
            Some(envelope) => out = envelope.seal(self.compression.bound(plain.len()), chance, fill)?,
            None => fill(&mut out)?,
        }
        Ok(out.into())
    }

    /// The block of `len` bytes that an object holds.
    pub fn decode(&self, stored: Bytes, len: usize, chance: &dyn Chance) -> Result<Bytes, CodecError> {
        let inner = self.decode_object(stored, chance)?;
        match self.compression {
            Compression::None if inner.len() < len => {
                Err(CodecError::Short { found: inner.len(), wanted: len })
            }
            // Surplus bytes mean nothing.
            Compression::None => Ok(inner.slice(..len)),
            how => decompress(how, &inner, len).map(Bytes::from),
        }
    }

    /// The object of anything that is no block: encrypted, but never compressed.
    pub fn encode_object(&self, plain: Bytes, chance: &dyn Chance) -> Result<Bytes, CodecError> {
        let fill = |out: &mut Vec<u8>| {
            out.extend_from_slice(&plain);
            Ok(())
        };
        match &self.envelope {
            Some(envelope) => envelope.seal(plain.len(), chance, fill).map(Bytes::from),
            None => Ok(plain),
        }
    }

    /// What an object that is no block holds.
    pub fn decode_object(&self, stored: Bytes, chance: &dyn Chance) -> Result<Bytes, CodecError> {
        let Some(envelope) = &self.envelope else { return Ok(stored) };
        let mut object = Vec::from(stored);
        let range = envelope.open(&mut object, chance)?;
        Ok(Bytes::from(object).slice(range))
    }

    /// Encodes a little and decodes it again, so that a key that does not work is found before it is needed.
    pub fn try_out(&self, chance: &dyn Chance) -> Result<(), OpenError> {
        let sample = Bytes::from_static(b"what goes in must come out");
        let back =
            self.encode(sample.clone(), chance).and_then(|stored| self.decode(stored, sample.len(), chance));
        match back {
            Ok(back) if back == sample => Ok(()),
            Ok(_) => Err(OpenError::Useless(CodecError::Damaged("its content"))),
            Err(error) => Err(OpenError::Useless(error)),
        }
    }
}
