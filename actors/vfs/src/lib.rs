//! POSIX as seen from above: the one entry for all doors. Knows handles, directory streams and what may be
//! answered on the spot; knows no kernel bytes, no engine and no object store.

use zest_types::{Caller, Request, ServeResult};

/// A mounted volume, shared by all threads of a door.
pub struct Vfs {}

impl Vfs {
    /// Answers a request: on the spot where views and cache can, else from an actor's thread when it is done.
    /// Never blocks. `reply` is called exactly once.
    pub fn serve(
        &self,
        caller: &Caller,
        request: Request<'_>,
        reply: impl FnOnce(ServeResult) + Send + 'static,
    ) {
        let _ = (caller, request);
        reply(Err(zest_types::Errno::ENOSYS));
    }
}
