//! The envelope around an encrypted object: K (2 bytes, most significant first), N (1 byte), the data key wrapped for
//! the volume's private key (K bytes), the nonce (N bytes), ciphertext and tag. Every object has a data key and a
//! nonce of its own. Source: volume format, encryption.

use super::key::KeyPair;
use super::{CodecError, Source};
use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::ops::Range;
use zest_types::encoding::Cipher;
use zest_world::Chance;

const HEADER: usize = 3;
const DATA_KEY: usize = 32;
const TAG: usize = 16;

/// Encrypts and decrypts objects.
pub(super) struct Envelope {
    cipher: Cipher,
    pair: KeyPair,
}

/// A damaged envelope, and in which part.
fn damaged(part: &'static str) -> CodecError {
    CodecError::Damaged(part)
}

impl Envelope {
    pub(super) fn new(cipher: Cipher, pair: KeyPair) -> Envelope {
        Envelope { cipher, pair }
    }

    /// Bytes an envelope adds.
    pub(super) fn overhead(&self) -> usize {
        HEADER + self.pair.wrapped_len() + NONCE_LEN + TAG
    }

    fn key(&self, data_key: &[u8]) -> Option<LessSafeKey> {
        let algorithm = match self.cipher {
            Cipher::Aes256Gcm => &AES_256_GCM,
            Cipher::ChaCha20 => &CHACHA20_POLY1305,
        };
        UnboundKey::new(algorithm, data_key).ok().map(LessSafeKey::new)
    }

    /// An object around what `fill` appends, which is at most `room` bytes.
    pub(super) fn seal(
        &self,
        room: usize,
        chance: &dyn Chance,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), CodecError>,
    ) -> Result<Vec<u8>, CodecError> {
        let (mut data_key, mut nonce) = ([0; DATA_KEY], [0; NONCE_LEN]);
        chance.secret(&mut data_key)?;
        chance.secret(&mut nonce)?;
        let wrapped = self.pair.wrap(&data_key, Source(chance)).ok_or(CodecError::NotWrapped)?;
        let key_len = u16::try_from(wrapped.len()).map_err(|_| CodecError::NotWrapped)?;
        let mut out = Vec::with_capacity(self.overhead() + room);
        out.extend_from_slice(&key_len.to_be_bytes());
        out.push(NONCE_LEN as u8);
        out.extend_from_slice(&wrapped);
        out.extend_from_slice(&nonce);
        let start = out.len();
        fill(&mut out)?;
        let key = self.key(&data_key).ok_or(CodecError::NotWrapped)?;
        let body = out.get_mut(start..).unwrap_or_default();
        let tag = key
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), body)
            .map_err(|_| CodecError::NotWrapped)?;
        out.extend_from_slice(tag.as_ref());
        Ok(out)
    }

    /// Opens an object where it lies; the range of it that is plain now.
    pub(super) fn open(&self, object: &mut [u8], chance: &dyn Chance) -> Result<Range<usize>, CodecError> {
        let (head, rest) = object.split_first_chunk_mut::<HEADER>().ok_or(damaged("its header"))?;
        let key_len = usize::from(u16::from_be_bytes([head[0], head[1]]));
        let nonce_len = usize::from(head[2]);
        let (wrapped, rest) = rest.split_at_mut_checked(key_len).ok_or(damaged("its data key"))?;
        let (nonce, body) = rest.split_at_mut_checked(nonce_len).ok_or(damaged("its nonce"))?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| damaged("its nonce"))?;
        if body.len() < TAG {
            return Err(damaged("its tag"));
        }
        let data_key = self.pair.unwrap(wrapped, Source(chance)).ok_or(damaged("its data key"))?;
        let key = self.key(&data_key).ok_or(damaged("its data key"))?;
        let plain = key.open_in_place(nonce, Aad::empty(), body).map_err(|_| damaged("its content"))?;
        let start = HEADER + key_len + nonce_len;
        Ok(start..start + plain.len())
    }
}
