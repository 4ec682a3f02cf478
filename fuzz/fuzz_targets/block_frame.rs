//! Any bytes as the object of a block, for every way blocks are encoded: an error, or a block of the length asked for
//! that comes back when it is encoded and decoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use zest_data::codec::{BlockCodec, KeyPair};
use zest_types::encoding::{Cipher, Compression};
use zest_world::{Chance, NoSecrets};

const KEY: &str = include_str!("../../actors/data/tests/keys/pkcs1.pem");

struct Same;

impl Chance for Same {
    fn next_u64(&self) -> u64 {
        1
    }

    fn secret(&self, bytes: &mut [u8]) -> Result<(), NoSecrets> {
        bytes.fill(1);
        Ok(())
    }
}

static CODECS: LazyLock<Vec<BlockCodec>> = LazyLock::new(|| {
    let ciphers = [None, Some(Cipher::Aes256Gcm), Some(Cipher::ChaCha20)];
    let codec = |how, cipher: Option<Cipher>| {
        let pair = || KeyPair::from_pem(KEY, None).expect("the key of the tests");
        BlockCodec::new(how, cipher.map(|cipher| (cipher, pair())))
    };
    let all = [Compression::None, Compression::Lz4, Compression::Zstd];
    all.into_iter().flat_map(|how| ciphers.map(|cipher| codec(how, cipher))).collect()
});

fuzz_target!(|input: (u8, u16, &[u8])| {
    let (which, len, object) = input;
    let (codec, len) = (&CODECS[usize::from(which) % CODECS.len()], usize::from(len) + 1);
    if let Ok(block) = codec.decode(object.to_vec().into(), len, &Same) {
        assert_eq!(block.len(), len);
        let stored = codec.encode(block.clone(), &Same).expect("what was read can be written");
        assert!(stored.len() <= codec.stored_max(len));
        assert_eq!(codec.decode(stored, len, &Same), Ok(block));
    }
    // What is inside an envelope, as if it had been opened.
    let inner = &CODECS[usize::from(which) % 3 * 3];
    if let Ok(block) = inner.decode(object.to_vec().into(), len, &Same) {
        assert_eq!(block.len(), len);
    }
});
