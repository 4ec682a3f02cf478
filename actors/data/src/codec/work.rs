//! Encoding and decoding away from the actors' threads. Plain volumes have no such work, and no detour.

use super::{BlockCodec, CodecError};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use zest_world::World;

/// What a job leaves behind; empty as long as it did not end, and for good when it panicked.
type Slot = Arc<Mutex<Option<Result<Bytes, CodecError>>>>;

async fn elsewhere(
    world: &World,
    what: &'static str,
    job: impl FnOnce() -> Result<Bytes, CodecError> + Send + 'static,
) -> Result<Bytes, CodecError> {
    let slot = Slot::default();
    let result = Arc::clone(&slot);
    world.offload.run(what, Box::new(move || *result.lock() = Some(job()))).await;
    let result = slot.lock().take();
    result.unwrap_or(Err(CodecError::Lost))
}

/// The object of a block.
pub async fn encode(world: &World, codec: &Arc<BlockCodec>, plain: Bytes) -> Result<Bytes, CodecError> {
    if codec.is_plain() {
        return Ok(plain);
    }
    let (codec, chance) = (Arc::clone(codec), Arc::clone(&world.chance));
    elsewhere(world, "encode a block", move || codec.encode(plain, &*chance)).await
}

/// The block of `len` bytes that an object holds.
pub async fn decode(
    world: &World,
    codec: &Arc<BlockCodec>,
    stored: Bytes,
    len: usize,
) -> Result<Bytes, CodecError> {
    if codec.is_plain() {
        return codec.decode(stored, len, &*world.chance);
    }
    let (codec, chance) = (Arc::clone(codec), Arc::clone(&world.chance));
    elsewhere(world, "decode a block", move || codec.decode(stored, len, &*chance)).await
}
