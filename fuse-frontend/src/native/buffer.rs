//! Where a reader thread's requests arrive. It lies so that the payload of a write begins with a page: the kernel
//! copies whole pages then, and so do we.

use zest_codec::abi::{InHeader, MIN_READ_BUFFER, WriteIn};

/// Bytes of a page.
const PAGE: usize = 4096;
/// What comes before the payload of a write.
const BEFORE: usize = size_of::<InHeader>() + size_of::<WriteIn>();

/// A buffer for one request.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// Room for requests with writes of up to this many bytes.
    pub fn new(max_write: u32) -> Buffer {
        let room = (BEFORE + max_write as usize).max(MIN_READ_BUFFER).next_multiple_of(PAGE) + PAGE;
        let bytes = vec![0; room + PAGE];
        let aligned = bytes.as_ptr().align_offset(PAGE);
        // Only if a pointer could not be aligned at all; slower then, and still right.
        let start = if aligned < PAGE { aligned + PAGE - BEFORE } else { 0 };
        Buffer { bytes, start }
    }

    /// The whole of it.
    pub fn room(&mut self) -> &mut [u8] {
        let start = self.start;
        self.bytes.get_mut(start..).unwrap_or_default()
    }

    /// The first `len` bytes.
    pub fn filled(&self, len: usize) -> &[u8] {
        self.bytes.get(self.start..self.start.saturating_add(len)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_of_a_write_begins_with_a_page() {
        for max_write in [4096, 1 << 17, 1 << 20] {
            let mut buffer = Buffer::new(max_write);
            let room = buffer.room();
            assert!(room.len() >= BEFORE + max_write as usize && room.len() >= MIN_READ_BUFFER);
            assert_eq!(room[BEFORE..].as_ptr().align_offset(PAGE), 0);
        }
    }
}
