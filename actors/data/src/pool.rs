//! Block buffers that are used again: fresh memory costs more than copying into it. A buffer that became a block
//! comes back by itself when the last reader, upload and cache let go of the block.

use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use zest_types::limits::POOLED_BYTES;

/// Buffers of one size that nobody uses. Clones share them.
#[derive(Clone, Debug)]
pub struct BlockPool {
    idle: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Bytes that are kept at most.
    most: usize,
}

impl Default for BlockPool {
    fn default() -> BlockPool {
        BlockPool::keeping(POOLED_BYTES as u64)
    }
}

/// A block whose buffer goes back to its pool.
struct Pooled {
    data: Vec<u8>,
    pool: BlockPool,
}

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.data));
    }
}

impl BlockPool {
    /// A pool that keeps so many bytes at most.
    #[must_use]
    pub fn keeping(bytes: u64) -> BlockPool {
        BlockPool { idle: Arc::default(), most: usize::try_from(bytes).unwrap_or(usize::MAX) }
    }

    /// An empty buffer with room for `size` bytes.
    #[must_use]
    pub fn take(&self, size: usize) -> Vec<u8> {
        match self.idle.lock().pop() {
            Some(buffer) if buffer.capacity() == size => buffer,
            _ => Vec::with_capacity(size),
        }
    }

    /// Takes back a buffer, as long as few are idle.
    pub fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let size = buffer.capacity();
        let mut idle = self.idle.lock();
        if size > 0 && (idle.len() + 1).saturating_mul(size) <= self.most {
            idle.push(buffer);
        } else {
            drop(idle); // freeing takes a while
        }
    }

    /// Makes a block of a buffer, without a copy.
    #[must_use]
    pub fn block(&self, data: Vec<u8>) -> Bytes {
        Bytes::from_owner(Pooled { data, pool: self.clone() })
    }

    /// Buffers nobody uses now.
    #[must_use]
    pub fn idle(&self) -> usize {
        self.idle.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_with_the_last_reference_and_is_empty() {
        let pool = BlockPool::default();
        let mut buffer = pool.take(1 << 20);
        buffer.extend_from_slice(&[7; 100]);
        let at = buffer.as_ptr();
        let block = pool.block(buffer);
        let part = block.slice(10..20);
        drop(block);
        assert_eq!((pool.idle(), &part[..]), (0, &[7; 10][..]));
        drop(part);
        assert_eq!(pool.idle(), 1);
        let again = pool.take(1 << 20);
        assert_eq!((again.as_ptr(), again.len(), again.capacity()), (at, 0, 1 << 20));
    }

    #[test]
    fn idle_buffers_are_bounded_and_of_the_size_asked() {
        let pool = BlockPool::default();
        let size = 4 << 20;
        for _ in 0..100 {
            pool.give_back(Vec::with_capacity(size));
        }
        assert_eq!(pool.idle() * size, POOLED_BYTES);
        assert_eq!(pool.take(1 << 16).capacity(), 1 << 16);
        pool.give_back(Vec::new());
        assert_eq!(pool.idle(), POOLED_BYTES / size - 1);
    }
}
