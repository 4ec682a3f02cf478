//! A mount whose process died and whose kernel goes on: what the next process makes of handles, locks and nodes it never
//! heard of.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod rig;

use rig::{Memory, Rig, lookup, name, open, open_with, reopen};
use std::sync::Arc;
use std::time::Duration;
use zest_engines::MemoryEngine;
use zest_metadata::{Engine, format};
use zest_types::request::{LockKind, RangeLock};
use zest_types::volume::Settings;
use zest_types::{Errno, Handle, Ino, Request, Response, ServeResult, Time};
use zest_vfs::{Inheritance, Lost, Options};

const OWNER: u64 = 77;

/// Two processes of one mount, one after the other; the first one just stops. `test` gets what `before` left.
fn after_a_death<T, F, G>(
    before: impl FnOnce(Arc<Rig>) -> F + 'static,
    lost: impl FnOnce(&T) -> Lost + 'static,
    test: impl FnOnce(Arc<Rig>, T) -> G + 'static,
) where
    T: 'static,
    F: Future<Output = T> + 'static,
    G: Future<Output = ()> + 'static,
{
    actix::System::new().block_on(async move {
        let store = Arc::new(Memory::default());
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
        let mut settings = Settings::new("test-volume", "u", "mem", "mem");
        (settings.block_size_kib, settings.trash_days) = (64, 0);
        engine.commit(&format::new_volume(settings.to_json(), false, true, Time::new(1, 0))).await.unwrap();
        let first = open(&store, &engine, &settings).await;
        let left = before(Arc::clone(&first)).await;
        let session = first.vfs.shared().session;
        let inheritance = Some(Inheritance { session, generation: 1, lost: lost(&left) });
        let options = Options { inheritance, ..Options::default() };
        let second = open_with(&store, &engine, &settings, &options).await;
        assert_eq!(second.vfs.shared().session, session);
        test(second, left).await;
    });
}

async fn synced(rig: &Rig, text: &str) -> (Ino, Handle) {
    let (ino, handle) = rig.create(Ino::ROOT, text).await;
    rig.write((ino, handle), 0, text.as_bytes()).await;
    rig.done(Request::Fsync { ino, handle }).await;
    (ino, handle)
}

async fn is_gone(rig: &Rig, ino: Ino) {
    for _ in 0..1000 {
        if rig.ask(Request::GetAttr { ino }).await == Err(Errno::ENOENT) {
            return;
        }
        #[allow(clippy::disallowed_methods)]
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("the node is still there");
}

#[test]
fn a_handle_of_the_dead_process_goes_on_and_its_number_is_given_to_nobody() {
    after_a_death(
        |rig| async move { synced(&rig, "file").await },
        |_| Lost::Of(Vec::new()),
        |rig, (ino, handle)| async move {
            assert_eq!(rig.read((ino, handle), 0, 100).await, b"file");
            rig.write((ino, handle), 4, b" goes on").await;
            rig.done(Request::Fsync { ino, handle }).await;
            let (_, own) = reopen(&rig, "file").await;
            assert_ne!(own, handle);
            for _ in 0..2 {
                rig.done(Request::Release { ino, handle }).await;
            }
            rig.done(Request::Release { ino, handle: own }).await;
            assert_eq!(rig.ask(Request::Release { ino, handle: own }).await, Err(Errno::EBADF));
        },
    );
}

#[test]
fn a_lost_write_is_told_once_and_to_nobody_else() {
    after_a_death(
        |rig| async move { (synced(&rig, "lost").await, synced(&rig, "whole").await) },
        |((ino, _), _)| Lost::Of(vec![*ino]),
        |rig, (lost, whole)| async move {
            let fsync = |(ino, handle)| Request::Fsync { ino, handle };
            rig.done(fsync(whole)).await;
            assert_eq!(rig.ask(fsync(lost)).await, Err(Errno::EIO));
            rig.done(fsync(lost)).await;
            assert_eq!(rig.read(lost, 0, 100).await, b"lost");
        },
    );
}

#[test]
fn where_too_many_were_lost_every_handle_tells_it() {
    after_a_death(
        |rig| async move { synced(&rig, "file").await },
        |_| Lost::Any,
        |rig, (ino, handle)| async move {
            assert_eq!(rig.ask(Request::Fsync { ino, handle }).await, Err(Errno::EIO));
            rig.done(Request::Fsync { ino, handle }).await;
        },
    );
}

#[test]
fn a_removed_file_stays_until_the_kernel_forgets_it() {
    after_a_death(
        |rig| async move {
            let before = synced(&rig, "before").await;
            rig.done(Request::Unlink { parent: Ino::ROOT, name: name("before") }).await;
            (before, synced(&rig, "after").await)
        },
        |_| Lost::Of(Vec::new()),
        |rig, (before, after)| async move {
            rig.done(Request::Unlink { parent: Ino::ROOT, name: name("after") }).await;
            for (file, text) in [(before, "before"), (after, "after")] {
                assert_eq!(rig.read(file, 0, 100).await, text.as_bytes());
                rig.done(Request::Release { ino: file.0, handle: file.1 }).await;
                assert_eq!(rig.attr(file.0).await.nlink, 0, "others may have it open");
                rig.vfs.forgotten(file.0);
                is_gone(&rig, file.0).await;
            }
            // One that was made here is known.
            let (ino, handle) = synced(&rig, "own").await;
            rig.done(Request::Unlink { parent: Ino::ROOT, name: name("own") }).await;
            rig.done(Request::Release { ino, handle }).await;
            is_gone(&rig, ino).await;
        },
    );
}

fn lock(ino: Ino, owner: u64) -> Request<'static> {
    let lock = RangeLock { kind: LockKind::Write, start: 0, end: 9, pid: 1 };
    Request::SetLock { ino, owner, lock, wait: false }
}

#[test]
fn locks_hold_and_closing_gives_them_back() {
    after_a_death(
        |rig| async move {
            let (ino, handle) = synced(&rig, "file").await;
            rig.done(lock(ino, OWNER)).await;
            (ino, handle)
        },
        |_| Lost::Of(Vec::new()),
        |rig, (ino, handle)| async move {
            assert_eq!(rig.ask(lock(ino, OWNER + 1)).await, Err(Errno::EAGAIN));
            let (_, own) = reopen(&rig, "file").await;
            rig.done(Request::Release { ino, handle: own }).await;
            assert_eq!(rig.ask(lock(ino, OWNER + 1)).await, Err(Errno::EAGAIN), "not the last handle");
            rig.done(Request::Flush { ino, handle, lock_owner: OWNER }).await;
            rig.done(lock(ino, OWNER + 1)).await;
        },
    );
}

#[test]
fn a_listing_goes_on_where_it_was() {
    fn names(answer: ServeResult) -> Vec<(Vec<u8>, u64)> {
        match answer.unwrap() {
            Response::Dirents(list) => {
                list.into_iter().map(|entry| (entry.name.as_bytes().to_vec(), entry.cookie)).collect()
            }
            other => panic!("{other:?}"),
        }
    }
    let read =
        |handle, offset| Request::ReadDir { ino: Ino::ROOT, handle, offset, max_entries: 5, plus: false };
    after_a_death(
        move |rig| async move {
            for n in 0..20 {
                rig.create(Ino::ROOT, &format!("{n:02}")).await;
            }
            let opened = rig.ask(Request::OpenDir { ino: Ino::ROOT }).await.unwrap();
            let Response::Opened { handle, .. } = opened else { panic!("{opened:?}") };
            (handle, names(rig.ask(read(handle, 0)).await))
        },
        |_| Lost::Of(Vec::new()),
        move |rig, (handle, mut seen)| async move {
            loop {
                let more = names(rig.ask(read(handle, seen.last().unwrap().1)).await);
                if more.is_empty() {
                    break;
                }
                seen.extend(more);
            }
            let numbers: Vec<Vec<u8>> = seen.into_iter().skip(2).map(|(name, _)| name).collect();
            assert_eq!(numbers, (0..20).map(|n| format!("{n:02}").into_bytes()).collect::<Vec<_>>());
            rig.done(Request::ReleaseDir { ino: Ino::ROOT, handle }).await;
            assert!(lookup(&rig, Ino::ROOT, "07").await.is_ok());
        },
    );
}
