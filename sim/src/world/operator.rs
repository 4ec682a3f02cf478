//! What operators do to a volume before anybody uses it: directories that have a quota, so large that it is never
//! reached, so that what is kept as used can be held against a recount.

use super::copies::directory;
use super::scene::Scene;
use zest_metadata::{Beat, Change, Key, Op};
use zest_types::{Caller, Errno};

/// More than anything in a world needs.
const ROOM: i64 = 1 << 60;

/// Gives directories of the root, which are made empty, a quota; this mount knows of them at once.
///
/// # Errors
/// What the volume says instead.
pub async fn quotas(scene: &Scene, names: &[&str]) -> Result<(), Errno> {
    let shared = scene.vfs.shared();
    for name in names {
        let quota = Key::DirQuota(directory(scene, name.as_bytes()).await?);
        let (max_space, max_inodes, usage) = (Some(ROOM), Some(ROOM), Some((0, 0)));
        let op = Op::SetQuota { quota, max_space, max_inodes, usage };
        let change = Change { caller: Caller::SYSTEM, op };
        shared.links()?.metadata.send(change).await.map_err(|_| Errno::EIO)??;
    }
    shared.links()?.metadata.send(Beat(shared.session)).await.map_err(|_| Errno::EIO)?
}
