//! How the blocks of a volume are encoded, as its settings name it. Source: volume format, block encoding.

/// How blocks are compressed. Fixed when a volume is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// One raw LZ4 block.
    Lz4,
    /// One Zstandard frame that names its content's size.
    Zstd,
}

impl Compression {
    /// What a settings record means; upper and lower case are alike.
    #[must_use]
    pub fn parse(text: &str) -> Option<Compression> {
        match text.to_ascii_lowercase().as_str() {
            "" | "none" => Some(Compression::None),
            "lz4" => Some(Compression::Lz4),
            "zstd" => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// The most bytes that `len` bytes may become: readers ask for no more.
    #[must_use]
    pub fn bound(self, len: usize) -> usize {
        match self {
            Compression::None => len,
            Compression::Lz4 => len + len / 255 + 16,
            Compression::Zstd => len + len / 256 + (131_072_usize.saturating_sub(len) >> 11),
        }
    }
}

/// What encrypts the bytes of objects, under a key of their own that the volume's private key opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// `aes256gcm-rsa`.
    Aes256Gcm,
    /// `chacha20-rsa`.
    ChaCha20,
}

impl Cipher {
    /// What a settings record means.
    #[must_use]
    pub fn parse(text: &str) -> Option<Cipher> {
        match text {
            "" | "aes256gcm-rsa" => Some(Cipher::Aes256Gcm),
            "chacha20-rsa" => Some(Cipher::ChaCha20),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_format() {
        assert_eq!(Compression::Lz4.bound(4 << 20), 4_210_768);
        assert_eq!(Compression::Zstd.bound(4 << 20), 4_210_688);
        assert_eq!(Compression::Zstd.bound(1), 1 + 63);
        assert_eq!(Compression::None.bound(17), 17);
    }

    #[test]
    fn names_are_those_of_the_format() {
        assert_eq!(Compression::parse("LZ4"), Some(Compression::Lz4));
        assert_eq!(Compression::parse("snappy"), None);
        assert_eq!(Cipher::parse(""), Some(Cipher::Aes256Gcm));
        assert_eq!(Cipher::parse("sm4gcm"), None);
    }
}
