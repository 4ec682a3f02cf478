//! The same requests through both doors to two volumes that are made alike: every answer has the same bytes. Requests
//! are drawn; what they are about was learned from the answers before.

use super::privileges;
use super::rig::{Peer, Volume, root};
use crate::door::DoorOptions;
use zest_codec::abi::{
    AccessIn, CopyFileRangeIn, CreateIn, EntryOut, FallocateIn, FlushIn, ForgetIn, FsyncIn, GetxattrIn,
    IoctlIn, LK_FLOCK, LinkIn, LkIn, LseekIn, MkdirIn, MknodIn, OpenIn, RELEASE_FLOCK_UNLOCK, ReadIn,
    ReleaseIn, Rename2In, SetattrIn, SetxattrExtIn, StatfsOut, WriteIn,
};
use zest_codec::kernel::{Entry, Origin, Told, told};
use zest_codec::record::{Way, records};
use zest_codec::{Dialect, Opcode, Operation, decode};

/// Requests of one run.
const STEPS: usize = 3000;

/// Numbers that look drawn, and are the same in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
    /// Sometimes.
    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

const NAMES: [&[u8]; 9] =
    [b"a", b"b", b"c", b"dir", b"long-name-of-a-file", b"\xff\x01 odd", b".", b"..", &[b'n'; 256]];
const ATTRIBUTES: [&[u8]; 5] =
    [b"user.one", b"user.two", b"security.capability", b"system.posix_acl_access", b"trusted.x"];

/// What was learned so far.
#[derive(Default)]
struct Known {
    nodes: Vec<u64>,
    /// Nodes that a kernel would open, or list.
    regular: Vec<u64>,
    folders: Vec<u64>,
    files: Vec<(u64, u64)>,
    dirs: Vec<(u64, u64)>,
}

impl Known {
    fn node(&self, draw: &mut Draw) -> u64 {
        if draw.one_in(20) { 4_000_000 } else { draw.of(&self.nodes) }
    }

    fn found(&mut self, entry: &EntryOut) {
        self.nodes.push(entry.nodeid);
        match entry.attr.mode & 0o170_000 {
            0o100_000 => self.regular.push(entry.nodeid),
            0o040_000 => self.folders.push(entry.nodeid),
            _ => {}
        }
    }

    fn opened(all: &[(u64, u64)], draw: &mut Draw) -> (u64, u64) {
        if all.is_empty() || draw.one_in(20) { (draw.below(5), draw.below(99)) } else { draw.of(all) }
    }

    fn learn(&mut self, node: u64, opcode: Opcode, said: &Told<'_>) {
        match (opcode, said) {
            (_, Told::Entry(out)) if out.nodeid != 0 => self.found(out),
            (_, Told::Created(entry, open)) => {
                self.found(entry);
                // A kernel creates no name that it knows, and would not write to what is no file.
                if self.regular.contains(&entry.nodeid) {
                    self.files.push((entry.nodeid, open.fh));
                }
            }
            (Opcode::Open, Told::Open(open)) => self.files.push((node, open.fh)),
            (Opcode::OpenDir, Told::Open(open)) => self.dirs.push((node, open.fh)),
            _ => {}
        }
    }
}

/// A request that can be sent to both.
type Drawn<'a> = (u64, Operation<'a>);

fn name(draw: &mut Draw) -> &'static [u8] {
    draw.of(&NAMES)
}

fn tree(draw: &mut Draw, known: &Known) -> Drawn<'static> {
    let (node, name) = (known.node(draw), name(draw));
    let mode = draw.of(&[0o644, 0o600, 0o755, 0o4711, 0o2755]);
    let operation = match draw.below(9) {
        0 | 1 => Operation::Lookup { name },
        2 => Operation::Symlink { name, target: draw.of(&[&b"a"[..], b"", b"../x", &[b't'; 300]]) },
        3 => {
            let kind = draw.of(&[0o100_000, 0o010_000, 0o140_000, 0o020_000, 0o040_000, 0]);
            let arg = MknodIn { mode: kind | mode, rdev: 0x103, umask: 0o22, ..MknodIn::default() };
            Operation::Mknod { arg, name }
        }
        4 => Operation::Mkdir { arg: MkdirIn { mode, umask: 0o22 }, name },
        5 => Operation::Unlink { name },
        6 => Operation::Rmdir { name },
        7 => {
            let arg = Rename2In {
                newdir: known.node(draw),
                flags: draw.of(&[0, 0, 1, 2, 3, 8]),
                ..Default::default()
            };
            Operation::Rename { arg, name, new_name: self::name(draw), with_flags: true }
        }
        _ => Operation::Link { arg: LinkIn { oldnodeid: known.node(draw) }, name },
    };
    (node, operation)
}

fn node(draw: &mut Draw, known: &Known) -> Drawn<'static> {
    let mut node = known.node(draw);
    let operation = match draw.below(12) {
        0 => Operation::GetAttr(Default::default()),
        1 | 2 => {
            let valid = draw.of(&[0, 1, 6, 8, 8, 0x10 | 0x80, 0x30, 0x400, 0x7f & !0x40]);
            if valid & 8 != 0 {
                node = draw.of(&known.regular);
            }
            let size = draw.of(&[0, 1, 5000, 70_000, 1 << 30, u64::MAX]);
            let (mode, uid, gid) = (0o640, draw.below(3) as u32, draw.below(3) as u32);
            let atime = draw.of(&[0, 5, 1 << 31, u64::MAX]);
            Operation::SetAttr(SetattrIn {
                valid,
                size,
                mode,
                uid,
                gid,
                atime,
                mtime: 77,
                ..SetattrIn::default()
            })
        }
        3 => Operation::Readlink,
        4 => Operation::Access(AccessIn { mask: draw.below(9) as u32, padding: 0 }),
        5 => {
            let arg = SetxattrExtIn { size: 5, flags: draw.of(&[0, 0, 1, 2, 3]), ..Default::default() };
            Operation::SetXattr { arg, name: draw.of(&ATTRIBUTES), value: b"value" }
        }
        6 | 7 => {
            let arg = GetxattrIn { size: draw.of(&[0, 3, 5, 100]), padding: 0 };
            if draw.one_in(2) {
                Operation::ListXattr(arg)
            } else {
                Operation::GetXattr { arg, name: draw.of(&ATTRIBUTES) }
            }
        }
        8 => Operation::RemoveXattr { name: draw.of(&ATTRIBUTES) },
        9 => {
            node = draw.of(&known.regular);
            Operation::Open(OpenIn { flags: draw.of(&[0, 1, 2, 0o1002, 0o2001]), open_flags: 0 })
        }
        10 => {
            node = draw.of(&known.folders);
            Operation::OpenDir(OpenIn::default())
        }
        _ => {
            let flags = draw.of(&[0o102, 0o302, 0o1102]);
            let arg = CreateIn { flags, mode: 0o100_640, umask: 0o22, open_flags: 0 };
            Operation::Create { arg, name: name(draw) }
        }
    };
    (node, operation)
}

fn content<'a>(draw: &mut Draw, known: &Known, data: &'a [u8]) -> Drawn<'a> {
    let (node, fh) = Known::opened(&known.files, draw);
    let offset = draw.of(&[0, 1, 4096, 65_536, 1 << 20, 70_000_000]) + draw.below(9);
    let operation = match draw.below(12) {
        0..=3 => {
            let data = &data[..draw.below(data.len() as u64) as usize];
            Operation::Write {
                arg: WriteIn { fh, offset, size: data.len() as u32, ..WriteIn::default() },
                data,
            }
        }
        4..=6 => {
            Operation::Read(ReadIn { fh, offset, size: draw.of(&[1, 4096, 60_000]), ..ReadIn::default() })
        }
        7 => Operation::Fsync(FsyncIn { fh, ..FsyncIn::default() }),
        8 => {
            let (length, mode) = (draw.of(&[0, 1, 5000, 1 << 27]), draw.of(&[0, 1, 3, 8, 16, 64]));
            Operation::Fallocate(FallocateIn { fh, offset, length, mode, padding: 0 })
        }
        9 => Operation::Lseek(LseekIn { fh, offset, whence: draw.of(&[3, 4, 0, 9]), padding: 0 }),
        10 => {
            let (nodeid_out, fh_out) = Known::opened(&known.files, draw);
            let (off_in, off_out, len) = (draw.below(9000), draw.below(200_000), draw.of(&[0, 100, 80_000]));
            let flags = u64::from(draw.one_in(8));
            let arg = CopyFileRangeIn { fh_in: fh, off_in, nodeid_out, fh_out, off_out, len, flags };
            Operation::CopyFileRange(arg)
        }
        _ => Operation::Flush(FlushIn { fh, lock_owner: draw.below(3), ..FlushIn::default() }),
    };
    (node, operation)
}

fn other(draw: &mut Draw, known: &mut Known) -> Drawn<'static> {
    let (dir, fh) = Known::opened(&known.dirs, draw);
    let (file, handle) = Known::opened(&known.files, draw);
    let list =
        ReadIn { fh, offset: draw.of(&[0, 0, 1, 3]), size: draw.of(&[20, 300, 4096]), ..ReadIn::default() };
    match draw.below(12) {
        0 | 1 => (dir, Operation::ReadDir(list)),
        2 | 3 => (dir, Operation::ReadDirPlus(list)),
        4 => {
            known.dirs.retain(|(_, open)| *open != fh);
            (dir, Operation::ReleaseDir(ReleaseIn { fh, ..ReleaseIn::default() }))
        }
        5 => (dir, Operation::FsyncDir(FsyncIn { fh, ..FsyncIn::default() })),
        6 => (draw.of(&[1, dir]), Operation::Statfs),
        7 => {
            let mut arg = LkIn { fh: handle, owner: draw.below(3), ..LkIn::default() };
            arg.lk.start = draw.below(50);
            arg.lk.end = arg.lk.start + draw.below(50);
            (arg.lk.kind, arg.lk.pid) = (draw.of(&[0, 1, 2, 7]), 9);
            (file, if draw.one_in(2) { Operation::GetLk(arg) } else { Operation::SetLk(arg) })
        }
        8 => {
            let cmd = draw.of(&[0x8008_6601, 0x4008_6602, 0x801C_581F, 0x1234]);
            let arg =
                IoctlIn { fh: handle, cmd, in_size: 8, out_size: draw.of(&[8, 28, 3]), ..IoctlIn::default() };
            (file, Operation::Ioctl { arg, data: &[0; 8] })
        }
        9 => (file, Operation::Bmap(Default::default())),
        10 => (known.node(draw), Operation::TmpFile { arg: CreateIn::default(), name: b"t" }),
        _ => {
            known.files.retain(|(_, open)| *open != handle);
            (file, Operation::Release(ReleaseIn { fh: handle, ..ReleaseIn::default() }))
        }
    }
}

/// What a request for an attribute has room for.
fn room(operation: &Operation<'_>) -> u32 {
    match operation {
        Operation::GetXattr { arg, .. } | Operation::ListXattr(arg) => arg.size,
        _ => 0,
    }
}

/// Whether both doors said the same, to the byte but for what no kernel looks at or what depends on time: how many pieces of memory an ioctl
/// had, attributes of nobody, and the node of an entry in a listing that is to be looked up again anyway.
fn same(native: &Option<(u64, Told<'_>)>, library: &Option<(u64, Told<'_>)>) -> bool {
    match (native, library) {
        (Some((_, Told::Ioctl(one, data))), Some((_, Told::Ioctl(two, other)))) => {
            (one.result, data) == (two.result, other)
        }
        (Some((_, Told::Entry(one))), Some((_, Told::Entry(two)))) if (one.nodeid, two.nodeid) == (0, 0) => {
            (one.entry_valid, one.entry_valid_nsec) == (two.entry_valid, two.entry_valid_nsec)
        }
        // What is on its way to the store counts when it is there.
        (Some((_, Told::Statfs(one))), Some((_, Told::Statfs(two)))) => {
            StatfsOut { bfree: 0, bavail: 0, ..*one } == StatfsOut { bfree: 0, bavail: 0, ..*two }
        }
        (Some((_, Told::Listing(one))), Some((_, Told::Listing(two)))) => {
            let alike = |(one, two): (&Entry<'_>, &Entry<'_>)| {
                let unknown = one.node.zip(two.node).is_some_and(|(one, two)| {
                    one.nodeid == 0 && (two.entry_valid, two.entry_valid_nsec, two.attr_valid) == (0, 0, 0)
                });
                (one.dirent, one.name) == (two.dirent, two.name) && (unknown || one.node == two.node)
            };
            one.len() == two.len() && one.iter().zip(two).all(alike)
        }
        _ => native.is_some() && native == library,
    }
}

/// One run; gives how many requests of how many were no errors.
fn run(seed: u64, options: DoorOptions) -> (usize, usize) {
    let volumes = [Volume::begin(), Volume::begin()];
    let mut doors = [volumes[0].native(options, false, |_| false), volumes[1].fuser(options)];
    let (mut draw, mut known) =
        (Draw(seed), Known { nodes: vec![1], regular: vec![1], folders: vec![1], ..Known::default() });
    let data: Vec<u8> = (0..60_000u32).map(|at| (at % 251) as u8).collect();
    let mut done = 0;
    for step in 0..STEPS {
        let (node, operation) = match draw.below(10) {
            0..=2 => tree(&mut draw, &known),
            3..=5 => self::node(&mut draw, &known),
            6..=7 => content(&mut draw, &known, &data),
            _ => other(&mut draw, &mut known),
        };
        let origin = Origin { uid: 5, gid: 5, pid: 1, ..root(node) };
        let [one, two] = doors.each_mut().map(|door| door.ask(origin, &operation));
        let opcode = operation.opcode();
        let said = [&one, &two].map(|answer| told(opcode, room(&operation), answer));
        assert!(
            same(&said[0], &said[1]),
            "seed {seed}, step {step}: {operation:?} about {node}: {:?}\n and {:?}",
            said[0],
            said[1]
        );
        let [Some((_, said)), _] = said else { panic!("{operation:?}: the kernel would not take {one:?}") };
        done += usize::from(!matches!(said, Told::Error(_)));
        known.learn(node, opcode, &said);
        if draw.one_in(9) {
            // Nobody answers this.
            let forget = Operation::Forget(ForgetIn { nlookup: 1 });
            doors.iter_mut().for_each(|door| {
                door.send(root(node), &forget);
            });
        }
    }
    (done, STEPS)
}

#[test]
fn both_doors_answer_the_same() {
    for seed in [1, 20, 300] {
        let (done, all) = run(seed, DoorOptions::default());
        assert!(done * 3 > all, "of {all} requests only {done} were no errors");
    }
}

#[test]
fn both_doors_answer_the_same_with_other_options() {
    use crate::door::Ttl;
    let ttl = Ttl::SHARED;
    run(4000, DoorOptions { ttl, dir_cache: false, capability_xattr: true, ..DoorOptions::default() });
    run(50_000, DoorOptions { xattr: false, ..DoorOptions::default() });
}

/// Whether both doors have to answer this alike: ours alone tells `flock` apart, takes set-user bits away, and knows
/// the newest requests. What waits for somebody else is left out, too.
fn common(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Init(_)
        | Operation::Interrupt(_)
        | Operation::Destroy
        | Operation::SetLkW(_)
        | Operation::CopyFileRange64(_)
        | Operation::SyncFs => false,
        Operation::SetLk(arg) | Operation::GetLk(arg) => arg.lk_flags & LK_FLOCK == 0,
        Operation::Release(arg) => arg.release_flags & RELEASE_FLOCK_UNLOCK == 0,
        other => !privileges::asked(other),
    }
}

#[test]
fn both_doors_answer_a_real_kernel_the_same() {
    let recorded = records(include_bytes!("../../codec/tests/recorded/linux-6.18.rec")).unwrap();
    let volumes = [Volume::begin(), Volume::begin()];
    let options = DoorOptions::default();
    let mut doors = [volumes[0].native(options, false, |_| false), volumes[1].fuser(options)];
    let (mut all, mut done) = (0, 0);
    for (way, bytes) in recorded {
        if way == Way::Answer {
            continue;
        }
        let incoming = decode(bytes, Dialect::default()).unwrap();
        if !common(&incoming.operation) {
            continue;
        }
        let sent = doors.each_mut().map(|door| door.send_bytes(bytes));
        if matches!(incoming.operation, Operation::Forget(_) | Operation::BatchForget(_)) {
            continue;
        }
        let [one, two] = [doors[0].answer(sent[0]), doors[1].answer(sent[1])];
        let (opcode, size) = (incoming.operation.opcode(), room(&incoming.operation));
        let said = [&one, &two].map(|answer| told(opcode, size, answer));
        assert!(same(&said[0], &said[1]), "{incoming:?}: {:?}\n and {:?}", said[0], said[1]);
        all += 1;
        done += usize::from(Peer::error(&one) == 0);
    }
    assert!(all > 100 && done * 2 > all, "of {all} requests only {done} were no errors");
}
