//! The door itself: requests of the codec to `vfs`, answers back. What views and cache can answer is answered in the
//! thread that read the request; what has to wait is noted, so that its asker can be called away.

use super::again::{Again, SENT_AGAIN, Step};
use super::pending::{Kind, Pending};
use super::privileges::{self, Errand};
use super::process;
use super::session::{Handler, Reply};
use super::terms::AnswerTerms;
use crate::door::{About, Backchannel, DoorOptions, Lasting, Root, Term, log_errno, way_back, xattr_gate};
use std::io;
use std::sync::Arc;
use zest_codec::{Ask, Incoming, Operation, Shape, answer, translate};
use zest_types::{Caller, Errno, Ino, Name, Request, ServeResult};
use zest_vfs::Vfs;
use zest_vfs::interrupt::Call;

/// What this door does by itself.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// As every door.
    pub door: DoorOptions,
    /// Locks of both kinds are kept in the volume, for all its clients; otherwise the kernel keeps them.
    pub locks: bool,
}

/// A door of one mounted volume; shared by its reader threads.
pub struct NativeDoor {
    vfs: Vfs,
    options: DoorOptions,
    locks: bool,
    pending: Arc<Pending>,
    back: Arc<Backchannel>,
    lasting: Option<Lasting>,
}

impl NativeDoor {
    /// A door to this volume.
    pub fn new(vfs: Vfs, options: Options) -> io::Result<NativeDoor> {
        NativeDoor::with(vfs, options, process::is_dying)
    }

    /// The same, where `dying` tells of a thread's number whether it is being killed.
    pub(super) fn with(
        vfs: Vfs,
        options: Options,
        dying: impl Fn(u32) -> bool + Send + Sync + 'static,
    ) -> io::Result<NativeDoor> {
        let pending = Arc::new(Pending::new(dying));
        pending.watch()?;
        let (back, lasting) = way_back(&vfs, &options.door);
        Ok(NativeDoor { vfs, options: options.door, locks: options.locks, pending, back, lasting })
    }

    /// Requests that wait for a lock.
    #[must_use]
    pub fn waits_for_locks(&self) -> usize {
        self.pending.locks()
    }

    /// Its way back into the kernel, to be opened once there is a session.
    #[must_use]
    pub fn back(&self) -> Arc<Backchannel> {
        Arc::clone(&self.back)
    }

    /// The terms of an answer, to be made before its request is served: long ones only where they are told.
    fn terms(&self, request: &Request<'_>, shape: Shape) -> AnswerTerms {
        let lasting = match shape {
            Shape::Lookup { .. }
            | Shape::Entry
            | Shape::Attr
            | Shape::Created { .. }
            | Shape::DirentsPlus { .. }
            | Shape::Statx => self.lasting.as_ref(),
            _ => None,
        };
        // That nobody has a name may be told for some time, too.
        let about_a_name = lasting.is_some() || matches!(shape, Shape::Lookup { .. });
        let about = match (request, if about_a_name { name_of(request) } else { None }) {
            (Request::GetAttr { ino }, _) => About::Node(*ino),
            (_, Some((dir, name))) => About::Name(dir, name),
            (_, None) => About::Other,
        };
        let term = Term::new(Root(self.options.root), self.options.ttl, lasting, about);
        AnswerTerms { term, dir_cache: self.options.dir_cache, locks: self.locks }
    }

    fn serve(&self, caller: &Caller, request: Request<'_>, shape: Shape, terms: AnswerTerms, reply: Reply) {
        if let Some(result) = self.vfs.now(caller, &request) {
            return send(reply, shape, result, &terms);
        }
        let unique = reply.unique();
        let interrupt = self.pending.begin(unique, caller.pid, Kind::of(&request));
        // Who is ending because of a signal is told nothing any more, and waits without hearing another one.
        if matches!(request, Request::Flush { .. }) && process::was_killed(caller.pid) {
            interrupt.call(Call::Gone);
        }
        let (pending, hold) = (Arc::clone(&self.pending), self.back.hold(&request));
        self.vfs.later(caller, request, Some(interrupt), move |result| {
            pending.end(unique);
            hold.answer(result, move |result| send(reply, shape, result, &terms));
        });
    }

    fn ask(&self, caller: Caller, incoming: &Incoming<'_>, ask: Ask<'_>, reply: Reply) {
        let (ino, shape) = (Ino(incoming.header.nodeid), ask.shape);
        let terms = self.terms(&ask.request, shape);
        if reply.unique() & SENT_AGAIN != 0 {
            let now = self.vfs.shared().world.clock.now().sec;
            if let Some(again) = Again::of(&caller, &ask.request, now) {
                return self.once_more(&caller, &again, ask.request, move |result| {
                    send(reply, shape, result, &terms);
                });
            }
        }
        if privileges::asked(&incoming.operation)
            && self.vfs.shared().attr(ino).is_none_or(|attr| privileges::lost(&attr) != 0)
        {
            let unique = reply.unique();
            let interrupt = self.pending.begin(unique, caller.pid, Kind::of(&ask.request));
            let pending = Arc::clone(&self.pending);
            let answer = Box::new(move |result| {
                pending.end(unique);
                send(reply, shape, result, &terms);
            });
            return Errand { vfs: self.vfs.clone(), caller, interrupt, answer }.losing(ino, ask.request);
        }
        let Some(before) = ask.before else {
            return self.serve(&caller, ask.request, shape, terms, reply);
        };
        // Whatever comes of it: the request itself is what is answered.
        let vfs = self.vfs.clone();
        let Ok(request) = ask.request.keep() else { return reply.refuse(Errno::EIO) };
        self.vfs.serve(&caller, before, move |_| {
            vfs.serve(&caller, request, move |result| send(reply, shape, result, &terms));
        });
    }
}

impl NativeDoor {
    /// A request that may have been done already, by a process that died before it answered.
    fn once_more(
        &self,
        caller: &Caller,
        again: &Again,
        request: Request<'_>,
        answer: impl FnOnce(ServeResult) + Send + 'static,
    ) {
        let Some(request) = request.keep().ok().filter(|_| !again.is_unknown()) else {
            return answer(Err(Errno::EIO));
        };
        let (vfs, caller, again) = (self.vfs.clone(), *caller, again.clone());
        self.vfs.serve(&caller, request, move |result| match again.asked(result) {
            Step::Answer(result) => answer(result),
            Step::Ask(look) => {
                let after = vfs.clone();
                vfs.serve(&caller, look, move |found| match again.looked(found) {
                    Step::Answer(result) => answer(result),
                    Step::Ask(open) => after.serve(&caller, open, answer),
                });
            }
        });
    }
}

impl Drop for NativeDoor {
    fn drop(&mut self) {
        self.pending.close();
        self.back.close();
    }
}

impl Handler for NativeDoor {
    fn handle(&self, incoming: &Incoming<'_>, reply: Reply) {
        let incoming = &inward(Root(self.options.root), incoming);
        let header = &incoming.header;
        let check = self.options.check;
        let caller = Caller { uid: header.uid, gid: header.gid, pid: header.pid, check };
        let ask = gate(&self.options, self.vfs.shared().acl, &incoming.operation)
            .and_then(|()| translate(incoming));
        match ask {
            Ok(ask) => self.ask(caller, incoming, ask, reply),
            Err(errno) => {
                log_errno(reply.opcode().text(), errno);
                reply.refuse(errno);
            }
        }
    }

    fn told(&self, incoming: &Incoming<'_>) {
        // Nodes are not counted here: numbers are never used twice, and views hold no node.
        let forgotten = |node: u64| {
            self.vfs.forgotten(Ino(Root(self.options.root).inward(fuser::INodeNo(node)).0));
        };
        match incoming.operation {
            Operation::Interrupt(arg) => self.pending.interrupted(arg.unique),
            Operation::Forget(_) => forgotten(incoming.header.nodeid),
            Operation::BatchForget(nodes) => nodes.iter().for_each(|one| forgotten(one.nodeid)),
            _ => {}
        }
    }
}

/// The request with our numbers of nodes: the kernel's node 1 is the root of the mount.
fn inward<'a>(root: Root, incoming: &Incoming<'a>) -> Incoming<'a> {
    let node = |number: u64| root.inward(fuser::INodeNo(number)).0;
    let mut incoming = *incoming;
    incoming.header.nodeid = node(incoming.header.nodeid);
    match &mut incoming.operation {
        Operation::Rename { arg, .. } => arg.newdir = node(arg.newdir),
        Operation::Link { arg, .. } => arg.oldnodeid = node(arg.oldnodeid),
        Operation::CopyFileRange(arg) | Operation::CopyFileRange64(arg) => {
            arg.nodeid_out = node(arg.nodeid_out);
        }
        _ => {}
    }
    incoming
}

/// The name an answer is about.
fn name_of(request: &Request<'_>) -> Option<(Ino, Name)> {
    match request {
        Request::Lookup { parent, name }
        | Request::Mknod { parent, name, .. }
        | Request::Mkdir { parent, name, .. }
        | Request::Symlink { parent, name, .. }
        | Request::Link { parent, name, .. }
        | Request::Create { parent, name, .. } => Some((*parent, name.clone())),
        _ => None,
    }
}

/// The error that ends a request before it is translated: attributes nobody keeps here, and a time of birth, which no
/// record has; the kernel, told once, does not ask for it again.
fn gate(options: &DoorOptions, acl: bool, operation: &Operation<'_>) -> Result<(), Errno> {
    match *operation {
        Operation::GetXattr { name, .. } => xattr_gate(options, acl, name, false),
        Operation::ListXattr(_) => xattr_gate(options, acl, b"", false),
        Operation::SetXattr { name, .. } | Operation::RemoveXattr { name } => {
            xattr_gate(options, acl, name, true)
        }
        Operation::Statx(_) => Err(Errno::ENOSYS),
        _ => Ok(()),
    }
}

fn send(reply: Reply, shape: Shape, result: ServeResult, terms: &AnswerTerms) {
    let name = reply.opcode().text();
    if let Err(errno) = &result {
        log_errno(name, *errno);
    }
    match answer(reply.unique(), shape, result, terms) {
        Ok(answer) => reply.send(answer),
        Err(_) => {
            tracing::error!("{name}: what was answered is no answer to this request");
            reply.refuse(Errno::EIO);
        }
    }
}
