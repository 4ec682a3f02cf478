//! What a mount tells of its memory, for `zest status`: what each part may take, and what it takes.

use crate::memory::resident;
use serde_json::{Value, json};
use zest_vfs::Mount;

/// Bytes, but for records, which are a number.
pub(super) fn shown(mount: &Mount) -> Value {
    let shared = mount.vfs.shared();
    let shares = shared.shares;
    let (waiting, room) = shared.reserve.room();
    let (now, most) = resident().unwrap_or_default();
    json!({
        "total": shares.total,
        "resident": now,
        "residentMost": most,
        "writes": { "may": shared.budget.limit(), "takes": shared.budget.used(), "most": shared.budget.high_water() },
        "waiting": { "may": room, "takes": waiting },
        "blocks": { "may": shares.blocks, "takes": shared.tier.stats().bytes },
        "fetching": { "may": shares.fetching },
        "files": { "may": shares.files },
        "idle": { "may": shares.idle },
        "records": { "may": shares.records },
    })
}
