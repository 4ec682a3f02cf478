//! Compressing a block and getting it back. LZ4 is one raw block; Zstandard is one frame that names its content's
//! size, which other clients need. The length of the plain block is always known from the object's key.

use super::CodecError;
use zest_types::encoding::Compression;

/// The level other clients write with.
const ZSTD_LEVEL: i32 = 1;

/// Appends the compressed form of `plain` to `out`, never more than [`Compression::bound`] says.
pub(super) fn compress_onto(how: Compression, plain: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    let start = out.len();
    let scratch = match how {
        Compression::None => {
            out.extend_from_slice(plain);
            return Ok(());
        }
        Compression::Lz4 => lz4_flex::block::get_maximum_output_size(plain.len()),
        Compression::Zstd => zstd::zstd_safe::compress_bound(plain.len()),
    };
    out.resize(start + scratch.max(how.bound(plain.len())), 0);
    let room = out.get_mut(start..).unwrap_or_default();
    let written = match how {
        Compression::Lz4 => lz4_flex::block::compress_into(plain, room).map_err(|e| e.to_string()),
        _ => zstd::bulk::compress_to_buffer(plain, room, ZSTD_LEVEL).map_err(|e| e.to_string()),
    };
    let written = written.map_err(CodecError::NotCompressed)?;
    if written > how.bound(plain.len()) {
        let why = format!("{} bytes became {written}, more than readers take", plain.len());
        return Err(CodecError::NotCompressed(why));
    }
    out.truncate(start + written);
    Ok(())
}

/// The plain block of exactly `len` bytes.
pub(super) fn decompress(how: Compression, stored: &[u8], len: usize) -> Result<Vec<u8>, CodecError> {
    if stored.len() > how.bound(len) {
        return Err(CodecError::TooLong { found: stored.len(), most: how.bound(len) });
    }
    let mut plain = vec![0; len];
    let read = match how {
        Compression::Lz4 => lz4_flex::block::decompress_into(stored, &mut plain).map_err(|e| e.to_string()),
        _ => zstd::bulk::decompress_to_buffer(stored, &mut plain).map_err(|e| e.to_string()),
    };
    match read.map_err(CodecError::NotDecompressed)? {
        found if found == len => Ok(plain),
        found => Err(CodecError::Short { found, wanted: len }),
    }
}
