//! Whole trees through a mount: clones that share their content, and what comes back from the trash.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod rig;

use rig::{ME, Rig, lookup, name, reopen, with_rig, with_settings};
use zest_metadata::clone::Job;
use zest_metadata::restore::Restored;
use zest_metadata::{Key, Scan, actor};
use zest_types::{Caller, Errno, Ino, Request, Response};

async fn mkdir(rig: &Rig, parent: Ino, text: &str) -> Ino {
    let request = Request::Mkdir { parent, name: name(text), mode: 0o755, umask: 0 };
    match rig.ask(request).await.unwrap() {
        Response::Entry { ino, .. } => ino,
        other => unreachable!("{other:?}"),
    }
}

async fn clone(rig: &Rig, from: Ino, parent: Ino, text: &str) -> Result<Ino, Errno> {
    let job = Job { from, parent, name: name(text), keep: true, umask: 0 };
    let message = actor::Clone { caller: Caller::SYSTEM, job };
    rig.vfs.shared().links().unwrap().metadata.send(message).await.unwrap()
}

/// `tree` with 20 files in `tree/sub`, each with its number in it.
async fn tree(rig: &Rig) -> Ino {
    let tree = mkdir(rig, Ino::ROOT, "tree").await;
    let sub = mkdir(rig, tree, "sub").await;
    for n in 0..20u8 {
        let (ino, handle) = rig.create(sub, &format!("f{n}")).await;
        rig.write((ino, handle), 0, &[n; 70_000]).await;
        rig.done(Request::Fsync { ino, handle }).await;
        rig.done(Request::Release { ino, handle }).await;
    }
    tree
}

async fn detached(rig: &Rig) -> usize {
    rig.engine.scan(&Scan::Detached { limit: 9 }).await.unwrap().len()
}

#[test]
fn a_clone_of_a_tree_shares_all_its_content() {
    with_settings(
        |_| {},
        |rig| async move {
            let tree = tree(&rig).await;
            let objects = rig.store.objects.lock().len();
            let copy = clone(&rig, tree, Ino::ROOT, "copy").await.unwrap();
            assert_eq!(rig.store.objects.lock().len(), objects);
            assert_eq!(clone(&rig, tree, Ino::ROOT, "copy").await, Err(Errno::EEXIST));
            // Into itself: what is copied is what was there before.
            let inner = clone(&rig, tree, tree, "inner").await.unwrap();
            assert_eq!(lookup(&rig, inner, "inner").await.map(|_| ()), Err(Errno::ENOENT));
            assert_eq!(detached(&rig).await, 0);
            assert_eq!(rig.attr(copy).await.nlink, 3);
        },
        |rig| async move {
            let (copy, _) = lookup(&rig, Ino::ROOT, "copy").await.unwrap();
            let (sub, _) = lookup(&rig, copy, "sub").await.unwrap();
            for n in 0..20u8 {
                let (ino, attr) = lookup(&rig, sub, &format!("f{n}")).await.unwrap();
                assert_eq!((attr.length, attr.parent), (70_000, sub));
                let Response::Opened { handle, .. } = rig.ask(Request::Open { ino, flags: 0 }).await.unwrap()
                else {
                    unreachable!()
                };
                assert_eq!(rig.read((ino, handle), 0, 80_000).await, vec![n; 70_000]);
            }
        },
    );
}

#[test]
fn a_clone_that_fails_leaves_nothing() {
    with_settings(
        |settings| settings.inodes = 40,
        |rig| async move {
            let tree = tree(&rig).await;
            let used = |rig: &Rig| {
                let engine = rig.engine.clone();
                async move {
                    let key = Key::Counter(zest_metadata::Counter::TotalInodes);
                    engine.read(&[key]).await.unwrap()
                }
            };
            let before = used(&rig).await;
            assert_eq!(clone(&rig, tree, Ino::ROOT, "copy").await, Err(Errno::ENOSPC));
            assert_eq!((used(&rig).await, detached(&rig).await), (before, 0));
            assert_eq!(lookup(&rig, Ino::ROOT, "copy").await.map(|_| ()), Err(Errno::ENOENT));
        },
        |_| async {},
    );
}

#[test]
fn a_tree_comes_back_from_the_trash() {
    with_settings(
        |settings| settings.trash_days = 1,
        |rig| async move {
            let tree = tree(&rig).await;
            let (sub, _) = lookup(&rig, tree, "sub").await.unwrap();
            for n in 0..20 {
                rig.done(Request::Unlink { parent: sub, name: name(&format!("f{n}")) }).await;
            }
            rig.done(Request::Rmdir { parent: tree, name: name("sub") }).await;
            rig.done(Request::Rmdir { parent: Ino::ROOT, name: name("tree") }).await;
            let hours = Scan::Dentries { dir: Ino::TRASH, after: None, limit: 9 };
            let hours = rig.engine.scan(&hours).await.unwrap();
            let [(_, zest_metadata::Record::Dentry { ino: hour, .. })] = hours[..] else { unreachable!() };
            let restore = |back| {
                let links = rig.vfs.shared().links().unwrap();
                links.metadata.send(actor::Restore { hour, back })
            };
            let rebuilt = Restored { rebuilt: 21, back: 0, stayed: 0 };
            assert_eq!(restore(false).await.unwrap(), Ok(rebuilt));
            assert_eq!(restore(true).await.unwrap(), Ok(Restored { rebuilt: 0, back: 1, stayed: 0 }));
            assert_eq!(restore(true).await.unwrap(), Ok(Restored::default()));
            let (found, attr) = lookup(&rig, Ino::ROOT, "tree").await.unwrap();
            assert_eq!((found, attr.nlink), (tree, 3));
            let (found, _) = lookup(&rig, tree, "sub").await.unwrap();
            assert_eq!((found, rig.attr(sub).await.nlink), (sub, 2));
            for n in 0..20 {
                assert!(lookup(&rig, sub, &format!("f{n}")).await.is_ok());
            }
            // A name that is taken keeps its entry in the trash.
            let _file = rig.create(Ino::ROOT, "x").await;
            rig.done(Request::Unlink { parent: Ino::ROOT, name: name("x") }).await;
            let _file = rig.create(Ino::ROOT, "x").await;
            assert_eq!(restore(true).await.unwrap(), Ok(Restored { rebuilt: 0, back: 0, stayed: 1 }));
        },
        |rig| async move {
            reopen(&rig, "x").await;
        },
    );
}

#[test]
fn names_that_do_not_exist_in_a_known_directory_are_answered_on_the_spot() {
    with_rig(
        |rig| async move {
            let dir = mkdir(&rig, Ino::ROOT, "new").await;
            let absent = |text: &str| {
                let request = Request::Lookup { parent: dir, name: name(text) };
                rig.vfs.shared().now(&ME, &request)
            };
            assert_eq!(absent("x"), Some(Err(Errno::ENOENT)));
            rig.create(dir, "x").await;
            assert!(matches!(absent("x"), Some(Ok(Response::Entry { .. }))));
            rig.done(Request::Unlink { parent: dir, name: name("x") }).await;
            assert_eq!(absent("x"), Some(Err(Errno::ENOENT)));
            assert_eq!(absent("y"), Some(Err(Errno::ENOENT)));
        },
        |rig| async move {
            let (dir, _) = lookup(&rig, Ino::ROOT, "new").await.unwrap();
            let request = Request::Lookup { parent: dir, name: name("y") };
            assert_eq!(rig.vfs.shared().now(&ME, &request), None, "nobody listed it yet");
            let Response::Opened { handle, .. } = rig.ask(Request::OpenDir { ino: dir }).await.unwrap()
            else {
                panic!("no handle")
            };
            let list = Request::ReadDir { ino: dir, handle, offset: 2, max_entries: 9, plus: false };
            rig.ask(list).await.unwrap();
            assert_eq!(rig.vfs.shared().now(&ME, &request), Some(Err(Errno::ENOENT)));
        },
    );
}
