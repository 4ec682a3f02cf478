//! How long the kernel may believe an answer: for a fixed time; or, where the store tells what others change, for long,
//! provided that a view vouches for it when it is told, and nothing was heard since it was asked for.

use super::backchannel::Asked;
use super::{Backchannel, Ttl};
use crate::shared::Shared;
use std::sync::Arc;
use std::time::Duration;
use zest_types::{Attr, Ino, Name};

/// Where the kernel can be told to forget.
#[derive(Clone)]
pub struct Lasting {
    /// The way to tell it.
    pub back: Arc<Backchannel>,
    /// The mount, whose views vouch for what is told.
    pub shared: Arc<Shared>,
    /// How long it may believe then.
    pub ttl: Ttl,
}

/// The term of one answer.
pub struct Term {
    /// How long the kernel may believe what nobody would take back.
    ttl: Ttl,
    /// What was heard when the request began.
    lasting: Option<(Lasting, u64)>,
    /// The name that is asked about.
    name: Option<(Ino, Name)>,
    /// Attributes that are asked for, and on their way into the kernel until this goes.
    _asked: Option<Asked>,
}

/// What is asked about.
pub enum About {
    /// The attributes of a node.
    Node(Ino),
    /// A name in a directory.
    Name(Ino, Name),
    /// Anything else.
    Other,
}

impl Term {
    /// To be made before the request is served, and kept until the kernel has the answer.
    #[must_use]
    pub fn new(ttl: Ttl, lasting: Option<&Lasting>, about: About) -> Term {
        let (name, node) = match about {
            About::Node(ino) => (None, Some(ino)),
            About::Name(dir, name) => (Some((dir, name)), None),
            About::Other => (None, None),
        };
        let asked = lasting.zip(node).map(|(lasting, ino)| lasting.back.asked(ino));
        // Where nobody tells of changes there is nothing to wait for.
        let lasting = lasting.filter(|lasting| lasting.shared.views.hears());
        let lasting = lasting.map(|lasting| (lasting.clone(), lasting.back.told.heard()));
        Term { ttl, lasting, name, _asked: asked }
    }

    /// How long the name that was asked about and the attributes hold.
    #[must_use]
    pub fn valid(&self, ino: Ino, attr: &Attr) -> (Duration, Duration) {
        self.valid_as(self.name.as_ref().map(|(dir, name)| (*dir, name)), ino, attr)
    }

    /// The same for any name. The trash fills and empties behind the kernel's back, so nothing about it holds for any
    /// time.
    #[must_use]
    pub fn valid_as(&self, name: Option<(Ino, &Name)>, ino: Ino, attr: &Attr) -> (Duration, Duration) {
        if ino.is_trash() || attr.parent.is_trash() {
            return (Duration::ZERO, Duration::ZERO);
        }
        let of = |ttl: &Ttl| (if attr.is_dir() { ttl.dir_entry } else { ttl.entry }, ttl.attr);
        let short = of(&self.ttl);
        let Some((lasting, since)) = &self.lasting else { return short };
        let (long, views, told) = (of(&lasting.ttl), &lasting.shared.views, &lasting.back.told);
        let now = lasting.shared.mono();
        let node = views.attr(ino, now).is_some() && told.attr(*since, ino, now);
        let name = name.is_some_and(|(dir, name)| {
            views.dentry(dir, name, now).is_some() && told.name(*since, dir, name, now)
        });
        (if name { long.0 } else { short.0 }, if node { long.1 } else { short.1 })
    }

    /// How long it holds that nobody has the name that was asked about; `None`: not at all.
    #[must_use]
    pub fn nobody(&self) -> Option<Duration> {
        let (dir, name) = self.name.as_ref().filter(|(dir, _)| !dir.is_trash())?;
        let long = self.lasting.as_ref().and_then(|(lasting, since)| {
            let now = lasting.shared.mono();
            let holds = lasting.shared.views.dentry(*dir, name, now) == Some(None)
                && lasting.back.told.name(*since, *dir, name, now);
            holds.then_some(lasting.ttl.negative)
        });
        Some(long.unwrap_or(self.ttl.negative)).filter(|time| !time.is_zero())
    }
}
