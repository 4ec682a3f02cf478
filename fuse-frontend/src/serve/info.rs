//! What a mount answers when it is asked about a node.

use serde_json::{Value, json};
use zest_types::Ino;
use zest_upkeep::info::{Ask, Info, info};
use zest_upkeep::whole::Whole;
use zest_uploader::staging::Tally;

/// Answers `INODE FLAGS` in JSON; `r` is all below a directory, `s` slices. Node 1 is the mount's `root`; `staged` says
/// what of a file waits.
pub(super) fn answer(
    whole: &Whole,
    root: Ino,
    staged: impl Fn(Ino) -> Option<Tally>,
    question: &str,
) -> String {
    let mut words = question.split(' ');
    let ino = words.next().and_then(|word| word.parse().ok()).map(Ino);
    let flags = words.next().unwrap_or_default();
    let ask = Ask { recursive: flags.contains('r'), raw: flags.contains('s') };
    let ino = ino.map(|ino| if ino == Ino::ROOT { root } else { ino });
    let Some(ino) = ino else { return failed("that names no node") };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return failed("the process has no room for an answer");
    };
    match runtime.block_on(info(whole, ino, ask)) {
        Ok(Some(info)) => {
            let mut shown = shown(&info, ask.raw);
            if let (Value::Object(map), Some(waits)) = (&mut shown, staged(ino)) {
                map.insert("staged".into(), super::staging::shown(waits));
            }
            shown.to_string()
        }
        Ok(None) => failed("no such file or directory"),
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(why: &str) -> String {
    json!({ "error": why }).to_string()
}

fn shown(info: &Info, raw: bool) -> Value {
    let piece = |piece: &zest_upkeep::info::Piece| {
        let mut shown = json!({ "chunkIndex": piece.chunk, "size": piece.size, "offset": piece.offset, "length": piece.length });
        if let Value::Object(map) = &mut shown {
            match piece.pos {
                Some(pos) => {
                    map.insert("objectName".into(), piece.name.clone().into());
                    map.insert("pos".into(), pos.into());
                }
                None => {
                    map.insert("sliceId".into(), piece.name.parse::<u64>().unwrap_or(0).into());
                }
            }
        }
        shown
    };
    let kind = |write: bool| if write { "W" } else { "R" };
    let flocks = info.flocks.iter().map(
        |lock| json!({ "Sid": lock.owner.session, "Owner": lock.owner.owner, "Type": kind(lock.write) }),
    );
    let ranges = info.ranges.iter().map(|(owner, range)| {
        json!({
            "Sid": owner.session, "Owner": owner.owner, "Type": kind(range.kind == 1),
            "Pid": range.pid, "Start": range.start, "End": range.end,
        })
    });
    let mut all = json!({
        "inode": info.ino.0, "files": info.files, "dirs": info.directories, "length": info.length,
        "size": info.space, "paths": info.paths, "tier": info.tier,
        "flocks": flocks.collect::<Vec<_>>(), "plocks": ranges.collect::<Vec<_>>(),
    });
    if let (Value::Object(map), Some(pieces)) = (&mut all, &info.pieces) {
        let name = if raw { "chunks" } else { "objects" };
        map.insert(name.into(), pieces.iter().map(piece).collect());
        if info.cut {
            map.insert("cut".into(), true.into());
        }
    }
    all
}
