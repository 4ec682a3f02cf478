//! Client-side caching. In broadcast mode connections name prefixes, and hear of each key below them that is changed;
//! else the server remembers what each has read, and tells once when somebody changes it.

use super::command::Spec;
use super::resp::Frame;
use super::server::{ClientId, Server, Version};
use super::value::Text;
use std::collections::{BTreeMap, BTreeSet};

/// What a connection wants to hear about.
#[derive(Clone, Debug, Default)]
pub struct Tracking {
    /// By prefixes, not by what was read.
    pub broadcast: bool,
    /// Keys that begin like this; an empty one is all keys.
    pub prefixes: BTreeSet<Text>,
    /// Not about its own changes.
    pub no_loop: bool,
    /// The connection that is told instead.
    pub redirect: Option<ClientId>,
}

/// Two prefixes of one connection of which one begins like the other.
#[must_use]
pub fn overlap<'a>(prefixes: &'a BTreeSet<Text>, more: &'a [Text]) -> Option<(&'a Text, &'a Text, bool)> {
    let meets = |a: &Text, b: &Text| a.starts_with(b) || b.starts_with(a);
    for (at, new) in more.iter().enumerate() {
        if let Some(old) = prefixes.iter().find(|old| *old != new && meets(old, new)) {
            return Some((new, old, true));
        }
        if let Some(other) = more.iter().skip(at + 1).find(|other| meets(other, new)) {
            return Some((new, other, false));
        }
    }
    None
}

impl Server {
    /// Remembers what a connection has read, where it wants to hear of changes to that.
    pub(super) fn remember(&mut self, id: ClientId, spec: &Spec, args: &[Text]) {
        let tracking = self.clients.get(&id).and_then(|client| client.tracking.as_ref());
        if tracking.is_none_or(|tracking| tracking.broadcast) {
            return;
        }
        // Before 7.2 what a script reads is remembered by the keys the script was given.
        let keys: Vec<Text> = match self.scripted && self.version < Version(7, 2, 0) {
            true => self.declared.clone(),
            false => spec.keys_of(args).cloned().collect(),
        };
        for key in keys {
            self.reads.entry(key).or_default().insert(id);
        }
    }

    /// A key was changed: those who have read it will hear of it, and are forgotten.
    pub(super) fn tell_readers(&mut self, by: ClientId, key: &Text) {
        for id in self.reads.remove(key).unwrap_or_default() {
            let tracking = self.clients.get(&id).and_then(|client| client.tracking.as_ref());
            if tracking.is_some_and(|tracking| !(tracking.broadcast || tracking.no_loop && id == by)) {
                self.direct.push((id, key.clone()));
            }
        }
    }

    /// Tells everybody who tracks of the keys changed since the last call, a message for each prefix.
    pub(super) fn tell_news(&mut self) {
        for (id, key) in std::mem::take(&mut self.direct) {
            self.invalidate(id, Frame::Array(vec![Frame::Bulk(key)]));
        }
        let news = std::mem::take(&mut self.news);
        if news.is_empty() {
            return;
        }
        let mut messages = Vec::new();
        for (id, client) in &self.clients {
            let Some(tracking) = &client.tracking else { continue };
            let mut by_prefix: BTreeMap<&Text, Vec<&Text>> = BTreeMap::new();
            for (key, by) in &news {
                let own = tracking.no_loop && by == id;
                for prefix in tracking.prefixes.iter().filter(|prefix| !own && key.starts_with(prefix)) {
                    let keys = by_prefix.entry(prefix).or_default();
                    if !keys.contains(&key) {
                        keys.push(key);
                    }
                }
            }
            for keys in by_prefix.into_values() {
                messages.push((*id, Frame::Array(keys.into_iter().map(Frame::bulk).collect())));
            }
        }
        messages.into_iter().for_each(|(id, keys)| self.invalidate(id, keys));
    }

    /// Tells everybody who tracks that all keys are gone.
    pub(super) fn tell_all_gone(&mut self) {
        let tracking: Vec<ClientId> =
            self.clients.iter().filter(|(_, client)| client.tracking.is_some()).map(|(id, _)| *id).collect();
        tracking.into_iter().for_each(|id| self.invalidate(id, Frame::NullArray));
    }

    fn invalidate(&mut self, id: ClientId, keys: Frame) {
        let redirect = self.clients.get(&id).and_then(|client| client.tracking.as_ref()?.redirect);
        let to = redirect.unwrap_or(id);
        let resp = self.protocol(to);
        if resp >= 3 {
            self.pushes.push((to, Frame::Push(vec![Frame::bulk("invalidate"), keys])));
        } else if redirect.is_some() {
            let channel = Frame::bulk("__redis__:invalidate");
            self.pushes.push((to, Frame::Push(vec![Frame::bulk("message"), channel, keys])));
        }
    }
}
