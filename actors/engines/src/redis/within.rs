//! A future with a limit of time, by the world's clock.

use futures::FutureExt;
use std::time::Duration;
use zest_world::Clock;

/// What the future gives, or `None` when the time is over first.
pub(crate) async fn within<T>(clock: &dyn Clock, time: Duration, work: impl Future<Output = T>) -> Option<T> {
    let work = work.fuse();
    let over = clock.sleep(time).fuse();
    futures::pin_mut!(work, over);
    futures::select_biased! { made = work => Some(made), () = over => None }
}
