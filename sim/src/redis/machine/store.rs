//! What a server keeps on the disk of its machine: the last snapshot, and a log of what was changed since another.
//! Says what is left after the process died, and after the power was cut.

use crate::redis::server::{Effect, Server, Version};
use crate::redis::value::Database;

/// All databases at one moment.
#[derive(Clone, Default)]
pub struct Image {
    /// Records.
    pub databases: Vec<Database>,
    /// Replication offset.
    pub offset: u64,
}

impl Image {
    /// A server's records now.
    #[must_use]
    pub fn of(server: &Server) -> Image {
        Image { databases: server.databases.clone(), offset: server.offset }
    }

    /// Gives them to a server.
    pub fn restore(&self, server: &mut Server) {
        if !self.databases.is_empty() {
            server.databases.clone_from(&self.databases);
        }
        server.offset = self.offset;
    }
}

/// The disk.
#[derive(Clone, Default)]
pub struct Store {
    snapshot: Image,
    base: Image,
    log: Vec<Effect>,
    synced: u64,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process died; what it had written is in the machine's memory.
    Process,
    /// The machine lost its power; of what was not synced, so many thousandths are there.
    Power(u64),
}

impl Store {
    /// Appends to the log.
    pub fn append(&mut self, effect: Effect) {
        self.log.push(effect);
    }

    /// Everything appended so far survives from now on, up to this offset.
    pub fn synced(&mut self, offset: u64) {
        self.synced = self.synced.max(offset);
    }

    /// A snapshot was made, and is safe.
    pub fn saved(&mut self, image: Image) {
        self.snapshot = image;
    }

    /// A new log was made from this image; what came since goes on.
    pub fn rewritten(&mut self, image: Image) {
        self.log.retain(|effect| effect.offset > image.offset);
        self.synced = self.synced.max(image.offset);
        self.base = image;
    }

    /// Everything begins anew with this image.
    pub fn replaced(&mut self, image: Image) {
        self.log.clear();
        self.synced = image.offset;
        self.snapshot = image.clone();
        self.base = image;
    }

    /// Effects in the log.
    #[must_use]
    pub fn log_length(&self) -> usize {
        self.log.len()
    }

    /// The server as it begins again, and how many effects of the log it has lost.
    pub fn recover(&mut self, version: Version, with_log: bool, end: End) -> (Server, usize) {
        let mut server = Server::new(version);
        if !with_log {
            self.snapshot.restore(&mut server);
            return (server, 0);
        }
        let safe = self.log.iter().filter(|effect| effect.offset <= self.synced).count();
        let kept = match end {
            End::Process => self.log.len(),
            End::Power(thousandths) => safe + (self.log.len() - safe) * thousandths as usize / 1000,
        };
        let lost = self.log.len() - kept;
        self.log.truncate(kept);
        self.base.restore(&mut server);
        self.log.iter().for_each(|effect| server.replay(effect));
        self.synced = server.offset;
        (server, lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::resp::Frame;

    fn words(text: &str) -> Vec<Vec<u8>> {
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    fn told(server: &mut Server, store: &mut Store, texts: &[&str]) {
        let id = server.connect();
        for text in texts {
            let replies = server.execute(id, &words(text));
            assert!(!matches!(replies[..], [Frame::Error(_)]), "{text}: {replies:?}");
            server.take_effects().into_iter().for_each(|effect| store.append(effect));
        }
    }

    #[test]
    fn a_log_brings_back_what_was_written_also_by_scripts() {
        let (mut server, mut store) = (Server::new(Version::NEW), Store::default());
        let script = "EVAL redis.call('RPUSH',KEYS[1],'b')redis.call('HSET','h','f','v') 1 l";
        told(
            &mut server,
            &mut store,
            &["SET a 1", "INCR a", "RPUSH l a", script, "MULTI", "DEL a", "SADD s m", "EXEC"],
        );
        let before = server.databases.clone();
        assert!(before[0].len() == 3);
        let (after, lost) = store.recover(Version::NEW, true, End::Process);
        assert_eq!((after.databases == before, lost, after.offset), (true, 0, server.offset));
        let (none, _) = store.recover(Version::NEW, false, End::Process);
        assert!(none.databases[0].is_empty(), "there is no snapshot");
    }

    #[test]
    fn the_power_takes_what_was_not_synced() {
        let (mut server, mut store) = (Server::new(Version::NEW), Store::default());
        told(&mut server, &mut store, &["SET a 1"]);
        store.synced(server.offset);
        told(&mut server, &mut store, &["SET b 1", "SET c 1"]);
        let (half, lost) = store.clone().recover(Version::NEW, true, End::Power(500));
        assert_eq!((half.databases[0].len(), lost), (2, 1));
        let (least, lost) = store.recover(Version::NEW, true, End::Power(0));
        assert_eq!((least.databases[0].len(), lost), (1, 2));
    }

    #[test]
    fn a_new_log_keeps_what_came_while_it_was_made() {
        let (mut server, mut store) = (Server::new(Version::NEW), Store::default());
        told(&mut server, &mut store, &["SET a 1", "SET b 1"]);
        let image = Image::of(&server);
        told(&mut server, &mut store, &["DEL a", "SET c 1"]);
        store.rewritten(image);
        assert_eq!(store.log_length(), 2);
        let (after, _) = store.recover(Version::NEW, true, End::Process);
        assert!(after.databases == server.databases);
    }
}
