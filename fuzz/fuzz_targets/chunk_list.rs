//! Any bytes as the slice list of a chunk: an error, or a view whose pieces cover every range without gap or
//! overlap and show no byte outside of a slice. The first eight bytes are the range.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zest_data::ChunkView;
use zest_engines::kv::decode_record;
use zest_metadata::{Key, Record};
use zest_types::Ino;
use zest_types::limits::CHUNK_SIZE;

fuzz_target!(|bytes: &[u8]| {
    let Some((range, list)) = bytes.split_first_chunk::<8>() else { return };
    let Ok(Record::Slices(records)) = decode_record(&Key::Chunk(Ino(2), 0), list) else { return };
    let [a, b, c, d, e, f, g, h] = *range;
    let pos = u32::from_be_bytes([a, b, c, d]) % CHUNK_SIZE as u32;
    let len = u32::from_be_bytes([e, f, g, h]) % (CHUNK_SIZE as u32 - pos + 1);
    let view = ChunkView::new(&records);
    let covered: u64 = view.pieces(pos, len).map(|piece| u64::from(piece.len())).sum();
    assert_eq!(covered, u64::from(len));
    let _ = (view.next_data(pos), view.next_hole(pos));
});
