//! Bringing a block to the store: encoded once, then tried until the store has it, says no for good, or was not to be
//! reached for very long. A store that is away for some minutes costs writers time and nothing else.

use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use zest_data::codec::{self, BlockCodec};
use zest_data::retry::{Asker, in_time};
use zest_types::Errno;
use zest_types::limits::UPLOAD_PATIENCE_MS;
use zest_world::planted::{self, Bug};
use zest_world::{ObjectError, World};

const FIRST_MS: u64 = 100;
/// Soon after the store is back everybody knows.
const MOST_MS: u64 = 5_000;

/// Encodes a block once, and stores it with as many tries as that takes.
pub(crate) async fn put_encoded(
    world: World,
    codec: Arc<BlockCodec>,
    asker: Asker,
    key: String,
    block: Bytes,
) -> Result<(), ObjectError> {
    let body = encoded(&world, &codec, &key, block).await?;
    if let Some(number) = planted::leaked() {
        world.clock.sleep(Duration::from_millis(number % 16)).await;
    }
    while planted::active(Bug::CanaryEndlessLoop) {
        world.tell(asker.actor, "again", asker.subject, 0);
    }
    put_patiently(world, asker, key, body).await
}

/// The object of a block.
pub(crate) async fn encoded(
    world: &World,
    codec: &Arc<BlockCodec>,
    key: &str,
    block: Bytes,
) -> Result<Bytes, ObjectError> {
    codec::encode(world, codec, block).await.map_err(|error| {
        world.trace.complain(&format!("block {key} is not stored: {error}"));
        ObjectError::Refused { key: key.into(), why: error.to_string() }
    })
}

/// Stores an object. A try without an answer is dropped in time; failures that may pass are repeated for
/// `UPLOAD_PATIENCE_MS`, however often that is.
pub(crate) async fn put_patiently(
    world: World,
    asker: Asker,
    key: String,
    body: Bytes,
) -> Result<(), ObjectError> {
    let manners = world.objects.manners();
    let (mut tries, mut waited) = (0u32, Duration::ZERO);
    let patience = Duration::from_millis(UPLOAD_PATIENCE_MS);
    loop {
        tries = tries.saturating_add(1);
        let begun = world.clock.mono();
        let answer = in_time(&world, &manners, &key, world.objects.put(&key, body.clone())).await;
        // Waiting for one's turn is no fault of the store.
        waited += world.clock.mono().saturating_sub(begun).min(manners.timeout);
        match answer {
            Err(error) if error.is_transient() && waited < patience => {
                world.tell(asker.actor, "retry", asker.subject, u64::from(tries));
                let full = (FIRST_MS << tries.min(10)).min(MOST_MS);
                let wait = full / 2 + world.chance.next_u64() % (full / 2 + 1);
                let wait = Duration::from_millis(wait);
                waited += wait;
                world.clock.sleep(wait).await;
            }
            answer => return answer,
        }
    }
}

/// What a put means for its slice.
pub(crate) fn answer_of(result: Option<Result<(), ObjectError>>) -> Result<(), Errno> {
    match result {
        Some(Ok(())) => Ok(()),
        Some(Err(ObjectError::Full(_))) => Err(Errno::ENOSPC),
        Some(Err(ObjectError::NotFound(_) | ObjectError::Refused { .. } | ObjectError::Transient { .. }))
        | None => Err(Errno::EIO),
    }
}

/// KiB, rounded up.
pub(crate) fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}
