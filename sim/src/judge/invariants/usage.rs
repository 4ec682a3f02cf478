//! The volume's counters of space and nodes are what the nodes add up to; neither root counts.

use super::Volume;
use zest_types::Ino;
use zest_types::attr::align4k;

/// Checks the counters.
pub fn check(volume: &Volume) -> Result<(), String> {
    let counted = volume.attrs.iter().filter(|(ino, _)| ![Ino::ROOT, Ino::TRASH].contains(*ino));
    let (mut space, mut nodes) = (0, 0);
    for (_, attr) in counted {
        space += if attr.is_file() { align4k(attr.length) } else { 4096 };
        nodes += 1i64;
    }
    let space = i64::try_from(space).unwrap_or(i64::MAX);
    if volume.used != (space, nodes) {
        return Err(format!(
            "counters say {:?} bytes and nodes, there are {:?}",
            volume.used,
            (space, nodes)
        ));
    }
    Ok(())
}
