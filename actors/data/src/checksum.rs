//! The checksum of stored blocks: CRC-32C (Castagnoli), by the processor's own instruction where there is one.
//! Source: volume format, upload checksum. Where it is written down is the object store's business.

/// CRC-32C of these bytes; the format stores it as a decimal number.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn known_answers() {
        assert_eq!(crc32c(b"123456789"), 3_808_858_755);
        assert_eq!(crc32c(b"hello world"), 3_381_945_770);
        assert_eq!(crc32c(b""), 0);
    }
}
