//! Rings were asked for and there are none: the kernel does not offer them, or takes no places. Requests come over the
//! device then, as if nothing had been asked for.

use super::RingPlan;
use super::rig::{Peer, Volume, root};
use zest_codec::Operation;
use zest_codec::flags::InitFlags;
use zest_types::limits;

const PLAN: RingPlan = RingPlan { queues: 2, depth: 4, room: limits::RING_ROOM_MIN };

fn serves(peer: &mut Peer) -> bool {
    Peer::error(&peer.ask(root(1), &Operation::GetAttr(Default::default()))) == 0
}

#[test]
fn a_kernel_without_rings_is_asked_for_none() {
    let volume = Volume::begin();
    let (mut peer, agreed) = volume.with_rings(PLAN, 0);
    assert!(!InitFlags::joined(agreed.flags, agreed.flags2).has(InitFlags::OVER_IO_URING));
    assert_eq!(agreed.max_write, limits::MAX_IO, "and requests are as large as ever");
    assert!(serves(&mut peer));
}

#[test]
fn a_kernel_that_takes_no_places_is_served_over_the_device() {
    let volume = Volume::begin();
    // It says it has rings; but a socket takes none of their commands.
    let (mut peer, agreed) = volume.with_rings(PLAN, InitFlags::OVER_IO_URING.split().1);
    // Where this machine has no io_uring at all, nothing was agreed on.
    if InitFlags::joined(agreed.flags, agreed.flags2).has(InitFlags::OVER_IO_URING) {
        assert_eq!(agreed.max_write, PLAN.room);
    }
    assert!(serves(&mut peer));
}
