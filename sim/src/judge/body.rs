//! The judge of one file's bytes, length and modification time. Changes of one file come one after the other
//! (a kernel holds the inode's lock over each), so its history is a line of versions. What may be seen now is
//! the last one; after a crash, any since the last acknowledged fsync. Where an error was reported, nothing is known
//! but that every byte is one it was.

use super::content::Content;
use super::stamp::Stamp;
use zest_types::Time;

/// A number that grows with everything the judge hears: calls and answers.
pub type Tick = u64;

/// One state of a file.
#[derive(Clone, Debug)]
pub struct Version {
    /// When the change to it was asked for.
    pub from: Tick,
    /// When the change away from it was answered.
    pub until: Tick,
    /// Bytes and length.
    pub content: Content,
    /// When content was last changed.
    pub mtime: Stamp,
}

/// The versions of one file since its last crash.
#[derive(Clone, Debug)]
pub struct Body {
    versions: Vec<Version>,
    floor: usize,
    doubtful: bool,
    unknown: bool,
}

impl Default for Body {
    fn default() -> Body {
        Body::new(Content::default(), Stamp::ANY)
    }
}

impl Body {
    /// A file that is like this now, durably.
    #[must_use]
    pub fn new(content: Content, mtime: Stamp) -> Body {
        Body {
            versions: vec![Version { from: 0, until: Tick::MAX, content, mtime }],
            floor: 0,
            doubtful: false,
            unknown: false,
        }
    }

    /// The newest version.
    #[must_use]
    pub fn last(&self) -> &Version {
        &self.versions[self.versions.len() - 1]
    }

    /// A change was asked for, at `tick`.
    pub fn asked(&mut self, tick: Tick, content: Content, mtime: Stamp) {
        self.versions.push(Version { from: tick, until: Tick::MAX, content, mtime });
    }

    /// The change was made.
    pub fn made(&mut self, tick: Tick, now: Time) {
        let last = self.versions.len() - 1;
        if let Some(before) = last.checked_sub(1).and_then(|at| self.versions.get_mut(at)) {
            before.until = tick;
        }
        self.versions[last].mtime.close(now);
    }

    /// The change was refused, without any effect.
    pub fn refused(&mut self) {
        if self.versions.len() > 1 {
            self.versions.pop();
        }
    }

    /// The change turned out smaller than asked.
    pub fn corrected(&mut self, content: Content) {
        let last = self.versions.len() - 1;
        self.versions[last].content = content;
    }

    /// An input/output error was reported for this file: what was written since the last fsync may be lost.
    pub fn failed(&mut self) {
        self.doubtful = true;
    }

    /// Bytes came into this file from one of which they may be lost: nobody knows what is in it.
    pub fn mixed(&mut self) {
        self.doubtful = true;
        self.unknown = true;
    }

    /// An fsync was acknowledged that was asked for at `tick`: what was made before survives a crash.
    pub fn synced(&mut self, tick: Tick) {
        let made = |at: usize| at == 0 || self.versions[at - 1].until < tick;
        let last = (0..self.versions.len()).rev().find(|at| made(*at)).unwrap_or(0);
        if !self.doubtful {
            self.floor = self.floor.max(last);
        }
    }

    /// The bytes before the newest change, or now.
    #[must_use]
    pub fn before_last(&self, before: bool) -> Content {
        let back = if before && self.versions.len() > 1 { 2 } else { 1 };
        self.versions[self.versions.len() - back].content.clone()
    }

    /// Whether an error was reported since the last crash.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// Whether a length that was seen between two ticks is right.
    #[must_use]
    pub fn allows_len(&self, from: Tick, until: Tick, len: u64) -> bool {
        self.doubtful || self.during(from, until).any(|version| version.content.len == len)
    }

    /// Whether a modification time that was seen between two ticks is right. While a change is on its way, an
    /// earlier time may show: unflushed times and stored ones are not replaced at one moment.
    #[must_use]
    pub fn allows_mtime(&self, from: Tick, until: Tick, mtime: Time) -> bool {
        let changing = self.during(from, until).count() > 1;
        let known = self.versions.iter().any(|version| version.mtime.holds(mtime));
        self.doubtful
            || changing && known
            || self.during(from, until).any(|version| version.mtime.holds(mtime))
    }

    /// Learns the exact modification time from an answer to what was asked at `from`, when nothing changed meanwhile:
    /// who asked before the last change was made may have seen the time before it.
    pub fn learn_mtime(&mut self, from: Tick, mtime: Time) {
        let last = self.versions.len() - 1;
        let before = last.checked_sub(1).and_then(|at| self.versions.get(at));
        let made = before.map_or(self.versions[last].from, |version| version.until);
        if made < from && self.versions[last].mtime.holds(mtime) {
            self.versions[last].mtime = Stamp::exactly(mtime);
        }
    }

    fn during(&self, from: Tick, until: Tick) -> impl Iterator<Item = &Version> {
        self.versions.iter().filter(move |version| version.from <= until && version.until >= from)
    }

    /// Whether a read is right: it must show the newest version. `lax`: unflushed writes may be lost in this
    /// world, so any version since the last fsync will do, byte by byte.
    pub fn check_read(&self, lax: bool, offset: u64, size: u64, seen: &[u8]) -> Result<(), String> {
        let right = self.last().content.read(offset, size);
        if self.unknown || right == seen || ((lax || self.doubtful) && self.is_mix(offset, size, seen)) {
            return Ok(());
        }
        Err(describe(offset, &right, seen))
    }

    /// Whether a file found after a crash is right, in the ranges that were read: a state it went through since its
    /// last fsync, or one with the beginning of the next change. `lax`: uploads can fail for good in this world, so
    /// any of the writes since then may be lost.
    pub fn check_recovered(
        &self,
        lax: bool,
        len: u64,
        ranges: &[(u64, Vec<u8>)],
        mtime: Time,
    ) -> Result<(), String> {
        let since = &self.versions[self.floor..];
        if self.unknown {
            return Ok(());
        }
        if self.doubtful || lax {
            let wrong = ranges.iter().find(|(offset, seen)| !self.is_mix(*offset, seen.len() as u64, seen));
            return wrong.map_or(Ok(()), |(offset, seen)| Err(self.after_crash(*offset, seen)));
        }
        if !since.iter().any(|version| version.mtime.holds(mtime)) {
            return Err(format!("has modification time {mtime:?}, which it never had since its last fsync"));
        }
        let found = Seen { len, ranges };
        let whole = since.iter().any(|version| found.is(&version.content));
        if whole || since.windows(2).any(|pair| found.is_begun(&pair[0].content, &pair[1].content)) {
            return Ok(());
        }
        let lens: Vec<u64> = since.iter().map(|version| version.content.len).collect();
        if !lens.contains(&len) {
            return Err(format!("is {len} bytes long; since its last fsync it was {lens:?}"));
        }
        let wrong = ranges.iter().find(|(offset, seen)| !self.is_mix(*offset, seen.len() as u64, seen));
        Err(wrong.map_or_else(
            || {
                format!(
                    "is a mix of the {} states it went through since its last fsync, and none of them",
                    since.len()
                )
            },
            |(offset, seen)| self.after_crash(*offset, seen),
        ))
    }

    /// Whether a copy has bytes that some version had there.
    pub fn check_copy(&self, ranges: &[(u64, Vec<u8>)]) -> Result<(), String> {
        let all = Body { floor: 0, ..self.clone() };
        let wrong = |(offset, seen): &&(u64, Vec<u8>)| !all.is_mix(*offset, seen.len() as u64, seen);
        match ranges.iter().find(wrong).filter(|_| !self.unknown) {
            Some((offset, seen)) => {
                Err(describe(*offset, &self.last().content.read(*offset, seen.len() as u64), seen))
            }
            None => Ok(()),
        }
    }

    fn after_crash(&self, offset: u64, seen: &[u8]) -> String {
        let right = self.last().content.read(offset, seen.len() as u64);
        format!("after the crash, {}", describe(offset, &right, seen))
    }

    /// Whether every byte is one that some version since the floor has there. A version that ends before has
    /// zeros: length and bytes may come from different moments.
    fn is_mix(&self, offset: u64, size: u64, seen: &[u8]) -> bool {
        let mut open: Vec<bool> = vec![true; seen.len()];
        for version in self.versions[self.floor..].iter().rev() {
            let mut bytes = version.content.read(offset, size);
            bytes.resize(seen.len(), 0);
            for ((open, byte), seen) in open.iter_mut().zip(bytes).zip(seen) {
                *open &= byte != *seen;
            }
            if !open.contains(&true) {
                return true;
            }
        }
        !open.contains(&true)
    }

    /// Ranges worth reading, over all versions that may be found: everything that was ever written.
    #[must_use]
    pub fn interesting(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<(u64, u64)> = Vec::new();
        for version in &self.versions[self.floor..] {
            all.extend(version.content.ranges());
            all.push((version.content.len.saturating_sub(100), version.content.len + 100));
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// A file as it was found.
struct Seen<'a> {
    len: u64,
    ranges: &'a [(u64, Vec<u8>)],
}

impl Seen<'_> {
    fn is(&self, content: &Content) -> bool {
        self.len == content.len && self.first_difference(content).is_none()
    }

    /// Whether it is `after` up to some byte, and `before` from there on.
    fn is_begun(&self, before: &Content, after: &Content) -> bool {
        let between = before.len.min(after.len)..=before.len.max(after.len);
        let Some(turn) = self.first_difference(after) else { return between.contains(&self.len) };
        between.contains(&self.len)
            && self.ranges.iter().all(|(offset, seen)| {
                let skip = turn.saturating_sub(*offset).min(seen.len() as u64);
                padded(before, *offset + skip, seen.len() as u64 - skip) == seen[skip as usize..]
            })
    }

    fn first_difference(&self, content: &Content) -> Option<u64> {
        self.ranges.iter().find_map(|(offset, seen)| {
            let right = padded(content, *offset, seen.len() as u64);
            let at = right.iter().zip(seen).position(|(right, seen)| right != seen)?;
            Some(offset + at as u64)
        })
    }
}

/// Bytes of a range; zeros behind the end.
fn padded(content: &Content, offset: u64, size: u64) -> Vec<u8> {
    let mut bytes = content.read(offset, size);
    bytes.resize(size as usize, 0);
    bytes
}

fn describe(offset: u64, right: &[u8], seen: &[u8]) -> String {
    if right.len() != seen.len() {
        return format!("{} bytes at {offset}, expected {}", seen.len(), right.len());
    }
    let at = right.iter().zip(seen).position(|(a, b)| a != b).unwrap_or(0);
    let end = right.iter().zip(seen).rposition(|(a, b)| a != b).unwrap_or(0) + 1;
    let zeros =
        if seen[at..end.min(seen.len())].iter().all(|byte| *byte == 0) { ", zeros instead" } else { "" };
    format!("bytes {} to {} are wrong{zeros}", offset + at as u64, offset + end as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asked_before_a_change_was_made_teaches_nothing_about_it() {
        let (old, new) = (Time::new(5, 1), Time::new(9, 2));
        let mut body = Body::new(Content::default(), Stamp::exactly(old));
        body.asked(10, Content::default(), Stamp { low: old, high: Time::new(i64::MAX, 0) });
        body.made(20, new);
        body.learn_mtime(15, old);
        assert!(body.allows_mtime(30, 31, new), "the change may have shown itself since");
        body.learn_mtime(25, new);
        assert!(!body.allows_mtime(30, 31, old), "but not if somebody saw it");
    }
}
