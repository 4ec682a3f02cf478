//! The whole line in one process: requests through `Vfs`, actors, an engine in memory and objects in memory.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod rig;

use rig::{lookup, name, reopen, with_rig};
use zest_types::request::{Fallocate, RenameMode, SeekWhat, SetAttr, SetTime, XattrMode};
use zest_types::{Errno, FileType, Ino, Name, Request, Response, Time};

#[test]
fn what_is_written_is_read_now_after_fsync_and_after_a_remount() {
    let content: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    let expected = content.clone();
    with_rig(
        |rig| async move {
            let file = rig.create(Ino::ROOT, "a").await;
            for (n, part) in content.chunks(70_001).enumerate() {
                rig.write(file, n as u64 * 70_001, part).await;
            }
            assert_eq!(rig.attr(file.0).await.length, 300_000);
            assert_eq!(rig.read(file, 0, 400_000).await, content);
            rig.done(Request::Fsync { ino: file.0, handle: file.1 }).await;
            assert_eq!(rig.read(file, 65_530, 20).await, &content[65_530..65_550]);
            rig.write(file, 100, b"patched").await;
            assert_eq!(
                rig.read(file, 99, 9).await,
                [&content[99..100], b"patched", &content[107..108]].concat()
            );
            rig.write(file, 100, &content[100..107]).await;
            rig.done(Request::Flush { ino: file.0, handle: file.1, lock_owner: 0 }).await;
            rig.done(Request::Release { ino: file.0, handle: file.1 }).await;
        },
        |rig| async move {
            let file = reopen(&rig, "a").await;
            assert_eq!(rig.read(file, 0, 400_000).await, expected);
            assert!(rig.store.objects.lock().keys().all(|k| k.starts_with("test-volume/chunks/")));
        },
    );
}

#[test]
fn truncate_punch_copy_and_seek() {
    with_rig(
        |rig| async move {
            let file = rig.create(Ino::ROOT, "a").await;
            let (ino, handle) = file;
            rig.write(file, 0, &[7; 200_000]).await;
            let cut = SetAttr { size: Some(100), ..SetAttr::default() };
            rig.ask(Request::SetAttr { ino, set: cut, handle: Some(handle) }).await.unwrap();
            let grow = SetAttr { size: Some(1000), ..SetAttr::default() };
            rig.ask(Request::SetAttr { ino, set: grow, handle: Some(handle) }).await.unwrap();
            assert_eq!(rig.read(file, 0, 5000).await, [vec![7; 100], vec![0; 900]].concat());
            rig.write(file, 200_000, &[9; 10]).await;
            let punch = Request::Fallocate { ino, handle, offset: 10, len: 20, mode: Fallocate::PunchHole };
            rig.done(punch).await;
            assert_eq!(rig.read(file, 0, 40).await, [vec![7; 10], vec![0; 20], vec![7; 10]].concat());
            let seek = |offset, what| Request::Lseek { ino, handle, offset, what };
            assert_eq!(rig.ask(seek(100, SeekWhat::Data)).await, Ok(Response::Offset(200_000)));
            assert_eq!(rig.ask(seek(0, SeekWhat::Hole)).await, Ok(Response::Offset(10)));
            assert_eq!(rig.ask(seek(200_010, SeekWhat::Data)).await, Err(Errno::ENXIO));
            let other = rig.create(Ino::ROOT, "b").await;
            let copy = Request::CopyRange {
                from: ino,
                from_handle: handle,
                from_offset: 0,
                to: other.0,
                to_handle: other.1,
                to_offset: 5,
                len: 1 << 30,
            };
            assert_eq!(rig.ask(copy).await, Ok(Response::Copied(200_010)));
            assert_eq!(rig.read(other, 0, 17).await, [vec![0; 5], vec![7; 10], vec![0; 2]].concat());
        },
        |rig| async move {
            let file = reopen(&rig, "b").await;
            assert_eq!(rig.attr(file.0).await.length, 200_015);
            assert_eq!(rig.read(file, 200_000, 100).await, [vec![0; 5], vec![9; 10]].concat());
        },
    );
}

#[test]
fn names_links_and_open_files_that_are_removed() {
    with_rig(
        |rig| async move {
            let root = Ino::ROOT;
            let made =
                rig.ask(Request::Mkdir { parent: root, name: name("d"), mode: 0o755, umask: 0o22 }).await;
            let Ok(Response::Entry { ino: dir, attr }) = made else { panic!("{made:?}") };
            assert_eq!((attr.kind, attr.nlink, rig.attr(root).await.nlink), (FileType::Directory, 2, 3));
            let file = rig.create(dir, "f").await;
            rig.write(file, 0, b"still here").await;
            rig.ask(Request::Link { ino: file.0, parent: root, name: name("g") }).await.unwrap();
            assert_eq!(rig.attr(file.0).await.nlink, 2);
            assert_eq!(
                rig.ask(Request::Rmdir { parent: root, name: name("d") }).await,
                Err(Errno::ENOTEMPTY)
            );
            let away = Request::Rename {
                parent: dir,
                name: name("f"),
                new_parent: root,
                new_name: name("h"),
                mode: RenameMode::NoReplace,
            };
            rig.done(away).await;
            rig.done(Request::Rmdir { parent: root, name: name("d") }).await;
            for gone in ["g", "h"] {
                rig.done(Request::Unlink { parent: root, name: name(gone) }).await;
            }
            assert_eq!(lookup(&rig, root, "h").await, Err(Errno::ENOENT));
            assert_eq!(rig.read(file, 0, 100).await, b"still here");
            rig.done(Request::Fsync { ino: file.0, handle: file.1 }).await;
            assert_eq!(rig.attr(file.0).await.nlink, 0);
            rig.done(Request::Release { ino: file.0, handle: file.1 }).await;
            assert_eq!(rig.ask(Request::GetAttr { ino: file.0 }).await, Err(Errno::ENOENT));
        },
        |rig| async move {
            assert_eq!(lookup(&rig, Ino::ROOT, "d").await, Err(Errno::ENOENT));
            assert_eq!(rig.attr(Ino::ROOT).await.nlink, 2);
        },
    );
}

#[test]
fn a_directory_is_read_whole_with_attributes() {
    with_rig(
        |rig| async move {
            for n in 0..2500 {
                rig.create(Ino::ROOT, &format!("file{n:04}")).await;
            }
        },
        |rig| async move {
            let Ok(Response::Opened { handle, .. }) = rig.ask(Request::OpenDir { ino: Ino::ROOT }).await
            else {
                panic!("no handle")
            };
            let (mut names, mut offset) = (Vec::new(), 0);
            loop {
                let request =
                    Request::ReadDir { ino: Ino::ROOT, handle, offset, max_entries: 100, plus: true };
                let Ok(Response::Dirents(entries)) = rig.ask(request).await else { panic!("no entries") };
                let Some(last) = entries.last() else { break };
                offset = last.cookie;
                assert!(entries.iter().all(|e| e.name.is_dots() || e.attr.is_some()));
                names.extend(entries.into_iter().map(|e| e.name.to_string()));
            }
            assert_eq!(names.len(), 2502);
            assert_eq!((names[0].as_str(), names[1].as_str(), names[2501].as_str()), (".", "..", "file2499"));
            rig.done(Request::ReleaseDir { ino: Ino::ROOT, handle }).await;
            // A handle that has not read the beginning, as when the kernel has it in its cache.
            let Ok(Response::Opened { handle, .. }) = rig.ask(Request::OpenDir { ino: Ino::ROOT }).await
            else {
                panic!("no handle")
            };
            let from =
                |offset| Request::ReadDir { ino: Ino::ROOT, handle, offset, max_entries: 1, plus: false };
            for (offset, wanted) in
                [(2302, "file2300"), (1500, "file1498"), (2501, "file2499"), (2, "file0000")]
            {
                let Ok(Response::Dirents(entries)) = rig.ask(from(offset)).await else {
                    panic!("at {offset}")
                };
                assert_eq!(entries[0].name.to_string(), wanted);
            }
            assert_eq!(rig.ask(from(2502)).await, Ok(Response::Dirents(Vec::new())));
        },
    );
}

#[test]
fn an_upload_that_fails_is_told_once() {
    with_rig(
        |rig| async move {
            let file = rig.create(Ino::ROOT, "a").await;
            *rig.store.refuse.lock() = true;
            rig.write(file, 0, &[1; 1000]).await;
            let fsync = || Request::Fsync { ino: file.0, handle: file.1 };
            assert_eq!(rig.ask(fsync()).await, Err(Errno::EIO));
            *rig.store.refuse.lock() = false;
            rig.done(fsync()).await;
            assert_eq!(rig.attr(file.0).await.length, 0);
            rig.write(file, 0, &[2; 10]).await;
            rig.done(fsync()).await;
            assert_eq!(rig.read(file, 0, 100).await, [2; 10]);
        },
        |_| async {},
    );
}

#[test]
fn times_set_by_hand_outlast_writes_before_them() {
    with_rig(
        |rig| async move {
            let file = rig.create(Ino::ROOT, "a").await;
            rig.write(file, 0, &[1; 1000]).await;
            let then = Time::new(1_000, 5);
            let set = SetAttr { mtime: Some(SetTime::At(then)), ..SetAttr::default() };
            rig.ask(Request::SetAttr { ino: file.0, set, handle: None }).await.unwrap();
            assert_eq!(rig.attr(file.0).await.mtime, then);
            rig.done(Request::Fsync { ino: file.0, handle: file.1 }).await;
            assert_eq!(rig.attr(file.0).await.mtime, then);
        },
        |rig| async move {
            let (_, attr) = lookup(&rig, Ino::ROOT, "a").await.unwrap();
            assert_eq!((attr.mtime, attr.length), (Time::new(1_000, 5), 1000));
        },
    );
}

#[test]
fn extended_attributes_and_statfs() {
    with_rig(
        |rig| async move {
            let (ino, _) = rig.create(Ino::ROOT, "a").await;
            let key = Name::attribute(b"user.k").unwrap();
            let set = |mode| Request::SetXattr { ino, name: key.clone(), value: b"v".to_vec(), mode };
            assert_eq!(rig.ask(set(XattrMode::Replace)).await, Err(Errno::ENODATA));
            rig.done(set(XattrMode::Create)).await;
            assert_eq!(rig.ask(set(XattrMode::Create)).await, Err(Errno::EEXIST));
            let get = Request::GetXattr { ino, name: key.clone() };
            assert_eq!(rig.ask(get).await, Ok(Response::Xattr(b"v".to_vec())));
            assert_eq!(
                rig.ask(Request::ListXattr { ino }).await,
                Ok(Response::XattrNames(vec![key.clone()]))
            );
            rig.done(Request::RemoveXattr { ino, name: key }).await;
            let Ok(Response::Statfs(statfs)) = rig.ask(Request::Statfs { ino }).await else { panic!() };
            assert_eq!((statfs.inodes, statfs.total - statfs.available), (1, 4096));
        },
        |_| async {},
    );
}

#[test]
fn a_lost_or_damaged_object_is_an_error_that_names_it_and_nothing_else_is_shown() {
    with_rig(
        |rig| async move {
            let file = rig.create(Ino::ROOT, "f").await;
            rig.write(file, 0, &[7; 100_000]).await;
            rig.done(Request::Fsync { ino: file.0, handle: file.1 }).await;
            let blocks: Vec<_> = rig.store.objects.lock().clone().into_iter().collect();
            let tier = &rig.vfs.shared().tier;
            let list = rig.vfs.shared().views.chunk(file.0, 0, std::time::Duration::ZERO).unwrap();
            for (block, _) in rig.vfs.shared().names.of_slice(list[0].id, list[0].size) {
                tier.remove(&block);
            }
            let (second, data) = blocks.last().unwrap().clone();
            rig.store.objects.lock().insert(second.clone(), data.slice(1..));
            let read = || Request::Read { ino: file.0, handle: file.1, offset: 90_000, size: 10 };
            assert_eq!(rig.ask(read()).await, Err(Errno::EIO));
            assert!(rig.store.said.lock().last().unwrap().contains(&second));
            rig.store.objects.lock().remove(&second);
            assert_eq!(rig.ask(read()).await, Err(Errno::EIO));
            let said = rig.store.said.lock().last().unwrap().clone();
            assert!(said.contains(&second) && said.contains("does not exist"), "{said}");
            rig.store.objects.lock().insert(second, data);
            assert_eq!(rig.read(file, 90_000, 10).await, [7; 10], "nothing sticks");
        },
        |_| async {},
    );
}
