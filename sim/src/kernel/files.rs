//! What a kernel keeps of files. Source: Linux, `fs/fuse/{inode,file,dir}.c`: an answer about attributes is left out when
//! anything happened to the file since it was asked for; pages go when time or length turn out to be others, when the
//! file is opened without leave to keep them, and when they are taken back. Pure.

use std::collections::BTreeMap;
use std::time::Duration;
use zest_types::{Attr, Ino};

/// Bytes of a page.
pub const PAGE: u64 = 4096;

#[derive(Default)]
struct File {
    attr: Option<Attr>,
    /// Until when the attributes are believed.
    until: Duration,
    /// The last thing that happened to them.
    version: u64,
    pages: BTreeMap<u64, Vec<u8>>,
    /// How often pages were dropped: a read that was under way then fills none.
    drops: u64,
}

/// The files a kernel knows.
#[derive(Default)]
pub struct Files {
    files: BTreeMap<Ino, File>,
    versions: u64,
}

/// When a question was asked.
#[derive(Clone, Copy)]
pub struct Asked {
    version: u64,
    drops: u64,
}

impl Files {
    /// To be taken before a question is asked.
    pub fn ask(&mut self, ino: Ino) -> Asked {
        let file = self.files.entry(ino).or_default();
        Asked { version: self.versions, drops: file.drops }
    }

    /// Attributes that are still believed.
    pub fn attr(&self, ino: Ino, now: Duration) -> Option<Attr> {
        self.files.get(&ino).filter(|file| file.until >= now).and_then(|file| file.attr.clone())
    }

    /// The length, as far as it is known, believed or not.
    pub fn length(&self, ino: Ino) -> u64 {
        self.files.get(&ino).and_then(|file| file.attr.as_ref()).map_or(0, |attr| attr.length)
    }

    /// Takes an answer, or leaves it out.
    pub fn told(&mut self, ino: Ino, attr: &Attr, asked: Asked, until: Duration) -> bool {
        let file = self.files.entry(ino).or_default();
        if file.version > asked.version {
            return false;
        }
        let seen = |attr: &Attr| (attr.mtime, attr.length);
        if file.attr.as_ref().map(seen) != Some(seen(attr)) {
            file.drop_pages();
        }
        self.versions += 1;
        (file.version, file.until, file.attr) = (self.versions, until, Some(attr.clone()));
        true
    }

    /// The attributes are to be asked for.
    pub fn forget_attr(&mut self, ino: Ino) {
        if let Some(file) = self.files.get_mut(&ino) {
            self.versions += 1;
            (file.version, file.until) = (self.versions, Duration::ZERO);
        }
    }

    /// All pages go.
    pub fn drop_pages(&mut self, ino: Ino) {
        if let Some(file) = self.files.get_mut(&ino) {
            file.drop_pages();
        }
    }

    /// A page that is there.
    pub fn page(&self, ino: Ino, page: u64) -> Option<&[u8]> {
        self.files.get(&ino)?.pages.get(&page).map(Vec::as_slice)
    }

    /// Takes a page that was read. What is missing of it is zeros, and the file ends there, unless that is older than
    /// what was heard of its length.
    pub fn fill(&mut self, ino: Ino, page: u64, bytes: &[u8], asked: Asked) {
        let file = self.files.entry(ino).or_default();
        let end = page * PAGE + bytes.len() as u64;
        if let Some(attr) = &mut file.attr
            && (bytes.len() as u64) < PAGE
            && file.version <= asked.version
            && end < attr.length
        {
            attr.length = end;
        }
        if file.drops == asked.drops {
            let mut whole = bytes.to_vec();
            whole.resize(PAGE as usize, 0);
            file.pages.insert(page, whole);
        }
    }

    /// Bytes that were written: into the pages that are there. Attributes are to be asked for.
    pub fn written(&mut self, ino: Ino, offset: u64, data: &[u8]) {
        let file = self.files.entry(ino).or_default();
        for (at, byte) in (offset..).zip(data) {
            if let Some(place) =
                file.pages.get_mut(&(at / PAGE)).and_then(|page| page.get_mut((at % PAGE) as usize))
            {
                *place = *byte;
            }
        }
        if let Some(attr) = &mut file.attr {
            attr.length = attr.length.max(offset + data.len() as u64);
        }
        self.forget_attr(ino);
    }
}

impl File {
    fn drop_pages(&mut self) {
        self.pages.clear();
        self.drops += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zest_types::{FileType, Time};

    const INO: Ino = Ino(7);

    fn attr(sec: i64, length: u64) -> Attr {
        let mut attr = Attr::new(FileType::File, 0o644, 0, 0, Ino(1), Time { sec, nsec: 0 });
        attr.length = length;
        attr
    }

    fn second(sec: u64) -> Duration {
        Duration::from_secs(sec)
    }

    /// A file with a page of ones, seen at second 1.
    fn filled() -> Files {
        let mut files = Files::default();
        let asked = files.ask(INO);
        assert!(files.told(INO, &attr(1, 8), asked, second(10)));
        let asked = files.ask(INO);
        files.fill(INO, 0, &[1; 8], asked);
        files
    }

    #[test]
    fn pages_stay_until_time_or_length_are_others() {
        for (then, stays) in [(attr(1, 8), true), (attr(2, 8), false), (attr(1, 9), false)] {
            let mut files = filled();
            let asked = files.ask(INO);
            assert!(files.told(INO, &then, asked, second(20)));
            assert_eq!(files.page(INO, 0).is_some(), stays, "{then:?}");
            assert_eq!(files.attr(INO, second(20)), Some(then));
        }
    }

    #[test]
    fn an_answer_is_left_out_when_something_was_taken_back_meanwhile() {
        let mut files = filled();
        let asked = files.ask(INO);
        files.forget_attr(INO);
        assert!(!files.told(INO, &attr(2, 9), asked, second(20)));
        assert_eq!((files.attr(INO, second(2)), files.length(INO)), (None, 8));
        assert!(files.page(INO, 0).is_some(), "and the old page is believed once more");
        let asked = files.ask(INO);
        assert!(files.told(INO, &attr(2, 9), asked, second(20)));
        assert!(files.page(INO, 0).is_none());
    }

    #[test]
    fn a_read_under_way_when_pages_go_fills_none() {
        let mut files = filled();
        let asked = files.ask(INO);
        files.drop_pages(INO);
        files.fill(INO, 0, &[2; 8], asked);
        assert!(files.page(INO, 0).is_none());
    }

    #[test]
    fn a_page_cut_short_ends_the_file() {
        for (taken_back, length) in [(false, 5), (true, 8)] {
            let mut files = filled();
            let asked = files.ask(INO);
            if taken_back {
                files.forget_attr(INO);
            }
            files.fill(INO, 0, &[2; 5], asked);
            assert_eq!(files.length(INO), length);
        }
    }

    #[test]
    fn what_is_written_is_seen_at_once_and_attributes_are_asked_for() {
        let mut files = filled();
        files.written(INO, 4, &[9; 8]);
        assert_eq!(
            files.page(INO, 0).map(|page| &page[..13]),
            Some(&[1, 1, 1, 1, 9, 9, 9, 9, 9, 9, 9, 9, 0][..])
        );
        assert_eq!((files.attr(INO, second(1)), files.length(INO)), (None, 12));
    }
}
