//! One fetch with all its tries: of a whole object, or of a range of it where objects hold plain blocks. What came late
//! is asked for a second time, in bounds. A body that is no such block is as bad as none: what is missing is never
//! made up.

use crate::actor::FetchError;
use crate::flights::Start;
use crate::meter::{Count, Meter};
use bytes::Bytes;
use futures::future::{Either, select};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use zest_data::codec::{self, BlockCodec};
use zest_data::pace::Kind;
use zest_data::retry::{Asker, retrying};
use zest_types::limits::DAMAGED_TRIES;
use zest_world::{BoxFuture, ObjectError, World};

/// Bytes of a block, from a place in it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where they begin.
    pub start: u32,
    /// The bytes.
    pub data: Bytes,
}

/// What a fetch needs.
#[derive(Clone)]
pub(crate) struct Fetcher {
    pub(crate) world: World,
    pub(crate) codec: Arc<BlockCodec>,
    pub(crate) meter: Arc<Meter>,
}

impl Fetcher {
    /// Fetches. Answers at least the bytes of `start.span`.
    pub(crate) async fn fetch(self, start: Start) -> Result<Part, FetchError> {
        let Start { block, len, key, span } = start;
        let asker = Asker { actor: "cache", subject: block.slice.0 };
        let (tries, damaged) = (AtomicU32::new(0), Arc::new(AtomicU32::new(0)));
        let this = self.clone();
        let saw = Arc::clone(&damaged);
        let request = move |_: &World, key: &str| {
            // A server that is bad at ranges may still give whole objects.
            let whole = span == (0..len) || tries.fetch_add(1, Ordering::Relaxed) > 1;
            let span = if whole { 0..len } else { span.clone() };
            let (this, key, saw) = (this.clone(), key.to_owned(), Arc::clone(&saw));
            Box::pin(async move {
                let stored = this.hedged(&key, (!whole).then(|| span.start.into()..span.end.into())).await?;
                this.meter.add(if whole { Count::Blocks } else { Count::Parts }, 1);
                this.meter.add(Count::FetchedBytes, stored.len() as u64);
                match this.plain(stored, len, &span, whole).await {
                    Ok(data) => Ok(Part { start: span.start, data }),
                    Err(why) if saw.fetch_add(1, Ordering::Relaxed) + 1 < DAMAGED_TRIES => {
                        Err(ObjectError::Transient { key, why })
                    }
                    Err(why) => Err(ObjectError::Refused { key, why }),
                }
            }) as BoxFuture<'static, Result<Part, ObjectError>>
        };
        let meter = Arc::clone(&self.meter);
        retrying(self.world, asker, key, request).await.map_err(|error| match error {
            ObjectError::NotFound(key) => {
                meter.add(Count::Missing, 1);
                FetchError::NotFound(key)
            }
            ObjectError::Refused { key, why } if damaged.load(Ordering::Relaxed) >= DAMAGED_TRIES => {
                meter.add(Count::Damaged, 1);
                FetchError::Damaged { key, why }
            }
            other => FetchError::Store(other),
        })
    }

    /// The bytes of the block that came; the error says what is wrong with them.
    async fn plain(
        &self,
        stored: Bytes,
        len: u32,
        span: &std::ops::Range<u32>,
        whole: bool,
    ) -> Result<Bytes, String> {
        if whole {
            let plain = codec::decode(&self.world, &self.codec, stored, len as usize).await;
            return plain.map_err(|error| error.to_string());
        }
        let wanted = (span.end - span.start) as usize;
        if stored.len() != wanted {
            return Err(format!("{} bytes came, {wanted} are needed", stored.len()));
        }
        Ok(stored)
    }

    /// One try; a second one beside it when it is late, and the better of both.
    async fn hedged(&self, key: &str, range: Option<std::ops::Range<u64>>) -> Result<Bytes, ObjectError> {
        let kind = if range.is_some() { Kind::Part } else { Kind::Whole };
        let begun = self.world.clock.mono();
        let first = self.world.objects.get(key, range.clone());
        let hedges = self.world.objects.manners().hedge;
        let answer = match self.meter.late_after(kind).filter(|_| hedges) {
            None => first.await,
            Some(patience) => match select(first, self.world.clock.sleep(patience)).await {
                Either::Left((answer, _)) => answer,
                Either::Right(((), first)) if self.meter.take_hedge() => {
                    self.meter.add(Count::Hedges, 1);
                    let second = self.world.objects.get(key, range);
                    match select(first, second).await {
                        // An error of one leaves the other its turn.
                        Either::Left((Ok(data), _)) => Ok(data),
                        Either::Left((Err(_), second)) => self.won(second.await),
                        Either::Right((Ok(data), _)) => self.won(Ok(data)),
                        Either::Right((Err(_), first)) => first.await,
                    }
                }
                Either::Right(((), first)) => first.await,
            },
        };
        if answer.is_ok() {
            self.meter.note(kind, self.world.clock.mono().saturating_sub(begun));
        }
        answer
    }

    fn won(&self, answer: Result<Bytes, ObjectError>) -> Result<Bytes, ObjectError> {
        if answer.is_ok() {
            self.meter.add(Count::HedgesWon, 1);
        }
        answer
    }
}
