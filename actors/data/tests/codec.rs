//! The block codec: objects another client of the format wrote, keys in every form, round trips of every combination,
//! and what is no object at all. The keys in `keys/` were made for these tests and protect nothing.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use bytes::Bytes;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use zest_data::codec::{BlockCodec, CodecError, KeyError, KeyPair, OpenError};
use zest_types::encoding::{Cipher, Compression};
use zest_types::volume::Settings;
use zest_world::{Chance, NoSecrets};

const KEY: &str = include_str!("keys/pkcs1.pem");
/// What protects the keys that are protected.
const PASSPHRASE: &str = "12345678";
/// Volume of the object `uuid`.
const UUID: &str = "96c7e7e7-c652-4813-a5c0-1647a2768250";

/// Chance that repeats itself.
struct Drawn(AtomicU64);

fn chance() -> Drawn {
    Drawn(AtomicU64::new(1))
}

impl Chance for Drawn {
    fn next_u64(&self) -> u64 {
        let mut x = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x ^ (x >> 31)
    }

    fn secret(&self, bytes: &mut [u8]) -> Result<(), NoSecrets> {
        bytes.iter_mut().for_each(|byte| *byte = self.next_u64() as u8);
        Ok(())
    }
}

/// Chance without secrets to give.
struct Nothing;

impl Chance for Nothing {
    fn next_u64(&self) -> u64 {
        4
    }
}

fn pair() -> KeyPair {
    KeyPair::from_pem(KEY, None).unwrap()
}

fn codec(compression: Compression, cipher: Option<Cipher>) -> BlockCodec {
    BlockCodec::new(compression, cipher.map(|cipher| (cipher, pair())))
}

const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];
const CIPHERS: [Option<Cipher>; 3] = [None, Some(Cipher::Aes256Gcm), Some(Cipher::ChaCha20)];

/// Three ways to compress times three to encrypt.
fn every_codec() -> Vec<BlockCodec> {
    COMPRESSIONS.iter().flat_map(|how| CIPHERS.iter().map(|cipher| codec(*how, *cipher))).collect()
}

/// Bytes that don't shrink.
fn noise(len: usize) -> Vec<u8> {
    let chance = chance();
    (0..len).map(|_| chance.next_u64() as u8).collect()
}

#[test]
fn objects_of_another_client_are_read() {
    let decode = |codec: BlockCodec, object: &'static [u8]| {
        codec.decode(Bytes::from_static(object), 3000, &chance()).unwrap()
    };
    let (aes, chacha) = (Some(Cipher::Aes256Gcm), Some(Cipher::ChaCha20));
    let plain = decode(codec(Compression::Lz4, None), include_bytes!("objects/lz4"));
    assert_eq!(plain[..2000], b"blocks of a volume ".repeat(200)[..2000]);
    // The first hashed block of SHA-256 over the byte 0.
    assert_eq!(plain[2000..2004], [0x6e, 0x34, 0x0b, 0x9c]);
    assert_eq!(decode(codec(Compression::Zstd, None), include_bytes!("objects/zstd")), plain);
    assert_eq!(decode(codec(Compression::None, aes), include_bytes!("objects/none-aes")), plain);
    assert_eq!(decode(codec(Compression::Zstd, aes), include_bytes!("objects/zstd-aes")), plain);
    assert_eq!(decode(codec(Compression::Lz4, chacha), include_bytes!("objects/lz4-chacha")), plain);
    // What is no block is encrypted, but never compressed.
    let uuid = Bytes::from_static(include_bytes!("objects/uuid"));
    let codec = codec(Compression::Zstd, aes);
    assert_eq!(codec.decode_object(uuid, &chance()).unwrap(), UUID);
    assert_eq!(codec.try_out(&chance()), Ok(()));
}

#[test]
fn sizes_are_those_of_the_format() {
    let noise = Bytes::from(noise(4 << 20));
    for cipher in CIPHERS {
        let overhead = if cipher.is_some() { 3 + 256 + 12 + 16 } else { 0 };
        for (how, bound) in COMPRESSIONS.into_iter().zip([4_194_304, 4_210_768, 4_210_688]) {
            let codec = codec(how, cipher);
            assert_eq!(codec.stored_max(noise.len()), bound + overhead);
            let stored = codec.encode(noise.clone(), &chance()).unwrap();
            assert!(stored.len() <= bound + overhead, "{codec:?}: {}", stored.len());
            assert!(how == Compression::None || stored.len() > noise.len(), "{codec:?}: there is no escape");
            assert_eq!(codec.decode(stored, noise.len(), &chance()).unwrap(), noise);
        }
    }
}

#[test]
fn every_form_of_a_key_is_the_same_key() {
    let seen = pair().wrap(b"a data key of any kind", zest_data::codec::Source::new(&chance())).unwrap();
    let forms = [
        (include_str!("keys/pkcs8.pem"), false),
        (include_str!("keys/legacy-aes128.pem"), true),
        (include_str!("keys/legacy-aes256.pem"), true),
        (include_str!("keys/legacy-des3.pem"), true),
        (include_str!("keys/pkcs8-aes256.pem"), true),
        (include_str!("keys/pkcs8-des3.pem"), true),
        (include_str!("keys/pkcs8-scrypt.pem"), true),
        (include_str!("keys/pkcs8-sha1.pem"), true),
    ];
    for (text, protected) in forms {
        let head: String = text.lines().take(3).collect::<Vec<_>>().join(" ");
        let pair =
            KeyPair::from_pem(text, Some(PASSPHRASE)).unwrap_or_else(|error| panic!("{head}: {error}"));
        let opened = pair.unwrap(&seen, zest_data::codec::Source::new(&chance()));
        assert_eq!(opened.as_deref(), Some(&b"a data key of any kind"[..]), "{head}");
        let wrong = |passphrase| KeyPair::from_pem(text, passphrase).err();
        if protected {
            assert_eq!(wrong(None), Some(KeyError::NoPassphrase), "{head}");
            assert_eq!(wrong(Some("")), Some(KeyError::NoPassphrase), "{head}");
            assert_eq!(wrong(Some("something else")), Some(KeyError::WrongPassphrase), "{head}");
        } else {
            assert_eq!(wrong(None), None, "a passphrase is not needed: {head}");
        }
    }
}

#[test]
fn keys_that_will_not_do_are_named() {
    let refused = |text: &str| KeyPair::from_pem(text, Some(PASSPHRASE)).err().unwrap();
    for text in ["", "a key", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        assert!(matches!(refused(text), KeyError::NoKey(_)), "{text}");
    }
    let garbage = "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    assert!(matches!(refused(garbage), KeyError::NoKey(_)), "{:?}", refused(garbage));
    for text in [include_str!("keys/ec.pem"), include_str!("keys/ec-pkcs8.pem"), include_str!("keys/sm2.pem")]
    {
        assert!(matches!(refused(text), KeyError::Kind(_)), "{:?}", refused(text));
    }
    let old = refused(include_str!("keys/pbes1.pem"));
    assert!(matches!(old, KeyError::Protection(_)), "{old:?}");
    let unknown =
        KEY.replace("KEY-----\nMII", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: RC2-CBC,00\n\nMII");
    assert_eq!(refused(&unknown), KeyError::Protection("RC2-CBC,00".into()));
    for error in [KeyError::NoPassphrase, KeyError::WrongPassphrase] {
        assert!(error.to_string().contains("JFS_RSA_PASSPHRASE"), "{error}");
    }
}

#[test]
fn settings_choose_the_codec() {
    let mut settings = Settings::new("vol", "u", "file", "/x/");
    assert!(BlockCodec::of(&settings, None).unwrap().is_plain());
    settings.encrypt_algo = "sm4gcm".into();
    assert!(BlockCodec::of(&settings, None).unwrap().is_plain(), "no key, no encryption");
    settings.encrypt_key = KEY.into();
    assert!(matches!(BlockCodec::of(&settings, None), Err(OpenError::Settings(_))));
    settings.encrypt_algo = "chacha20-rsa".into();
    settings.compression = "LZ4".into();
    let chosen = BlockCodec::of(&settings, None).unwrap();
    let stored = Bytes::from_static(include_bytes!("objects/lz4-chacha"));
    assert_eq!(chosen.decode(stored, 3000, &chance()).unwrap().len(), 3000);
    settings.encrypt_key = include_str!("keys/pkcs8-aes256.pem").into();
    assert_eq!(BlockCodec::of(&settings, None).err(), Some(OpenError::Key(KeyError::NoPassphrase)));
    assert!(BlockCodec::of(&settings, Some(PASSPHRASE)).is_ok());
}

#[test]
fn nothing_is_encrypted_without_real_chance() {
    let codec = codec(Compression::None, Some(Cipher::Aes256Gcm));
    let block = Bytes::from_static(b"secret");
    assert_eq!(codec.encode(block.clone(), &Nothing), Err(CodecError::NoSecrets(NoSecrets)));
    let (one, other) = (chance(), chance());
    other.next_u64();
    let stored = codec.encode(block.clone(), &one).unwrap();
    assert_ne!(stored, codec.encode(block.clone(), &one).unwrap(), "each object has a key of its own");
    assert_ne!(stored, codec.encode(block, &other).unwrap());
    assert!(!stored.windows(6).any(|bytes| bytes == b"secret"));
}

#[test]
fn an_object_changed_anywhere_is_refused() {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20] {
        let codec = codec(Compression::None, Some(cipher));
        let plain = Bytes::from_static(b"a few bytes that matter");
        let stored = codec.encode(plain.clone(), &chance()).unwrap();
        assert_eq!(codec.decode(stored.clone(), plain.len(), &chance()).unwrap(), plain);
        for at in (0..stored.len()).filter(|at| *at < 8 || at % 31 == 0 || *at + 45 > stored.len()) {
            let mut bad = stored.to_vec();
            bad[at] ^= 1;
            let answer = codec.decode(bad.into(), plain.len(), &chance());
            assert!(matches!(answer, Err(CodecError::Damaged(_))), "byte {at}: {answer:?}");
        }
        for len in [0, 1, 2, 3, 258, 259, 270, 271, 286, stored.len() - 1] {
            let answer = codec.decode(stored.slice(..len), plain.len(), &chance());
            assert!(matches!(answer, Err(CodecError::Damaged(_))), "{len} bytes: {answer:?}");
        }
        let longer = codec.decode(stored, plain.len() + 1, &chance());
        assert_eq!(longer, Err(CodecError::Short { found: plain.len(), wanted: plain.len() + 1 }));
    }
}

#[test]
fn a_block_of_another_length_is_refused() {
    for how in [Compression::Lz4, Compression::Zstd] {
        let codec = codec(how, None);
        let stored = codec.encode(Bytes::from(vec![7; 5000]), &chance()).unwrap();
        let decode = |stored: Bytes, len| codec.decode(stored, len, &chance());
        assert_eq!(decode(stored.clone(), 5000).unwrap(), vec![7; 5000]);
        assert!(decode(stored.clone(), 4999).is_err());
        assert_eq!(decode(stored.clone(), 5001), Err(CodecError::Short { found: 5000, wanted: 5001 }));
        assert!(decode(stored.slice(..stored.len() - 1), 5000).is_err());
        let huge = Bytes::from(vec![0; how.bound(10) + 1]);
        assert_eq!(
            decode(huge, 10),
            Err(CodecError::TooLong { found: how.bound(10) + 1, most: how.bound(10) })
        );
    }
    let plain = BlockCodec::plain();
    let decode = |len| plain.decode(Bytes::from_static(b"12345"), len, &Nothing);
    assert_eq!(decode(4).unwrap(), "1234", "surplus bytes mean nothing");
    assert_eq!(decode(6), Err(CodecError::Short { found: 5, wanted: 6 }));
}

#[test]
fn a_zstd_frame_says_how_long_its_content_is() {
    for len in [1, 100, 255, 256, 70_000, 1 << 20] {
        let stored = codec(Compression::Zstd, None).encode(vec![3; len].into(), &chance()).unwrap();
        let said = zstd::zstd_safe::get_frame_content_size(&stored);
        assert_eq!(said.ok().flatten(), Some(len as u64));
    }
}

/// Blocks as files have them: runs, repeats, and noise.
fn blocks() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (any::<u8>(), 1usize..20_000).prop_map(|(byte, len)| vec![byte; len]),
        prop::collection::vec(any::<u8>(), 1..300),
        (prop::collection::vec(any::<u8>(), 1..20), 1usize..300).prop_map(|(word, times)| word.repeat(times)),
        (1usize..70_000).prop_map(noise),
    ];
    prop::collection::vec(piece, 1..5).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_is_decoded_is_what_was_encoded(block in blocks()) {
        let block = Bytes::from(block);
        for codec in every_codec() {
            let stored = codec.encode(block.clone(), &chance()).unwrap();
            prop_assert!(stored.len() <= codec.stored_max(block.len()), "{:?}", codec);
            prop_assert_eq!(codec.decode(stored, block.len(), &chance()).unwrap(), block.clone(), "{:?}", codec);
        }
    }
}

proptest! {
    #[test]
    fn garbage_is_an_error_or_a_block_of_the_right_length(
        garbage in prop::collection::vec(any::<u8>(), 0..600),
        len in 1usize..600,
    ) {
        for codec in every_codec() {
            match codec.decode(garbage.clone().into(), len, &chance()) {
                Ok(block) => prop_assert_eq!(block.len(), len),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
