//! Bytes over clients: each client has a file it alone appends to, and all read the files of the others. Whoever opens
//! a file sees everything that was written and closed before, and never a byte that is not one of it.

use crate::judge::noise::noise;
use crate::kernel::Kernel;
use crate::world::scene::Scene;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use zest_types::{Errno, Handle, Ino, Name, Request, Response, ServeResult};
use zest_world::Clock;

const O_RDWR: u32 = 2;
/// Bytes that are read at once.
const PIECE: u64 = 64 << 10;

/// A client's file, as everybody knows it.
#[derive(Default)]
pub struct Ledger {
    ino: Cell<Option<Ino>>,
    /// Bytes that were written and closed.
    closed: Cell<u64>,
    /// Everything a write was asked for.
    asked: RefCell<Vec<u8>>,
    /// A write failed: what is there is not certain any more.
    broken: Cell<bool>,
}

fn failed(errno: Errno) -> bool {
    matches!(errno, Errno::EIO | Errno::ENOSPC | Errno::ETIMEDOUT)
}

/// Makes a client's file.
///
/// # Errors
/// What the volume says instead.
pub async fn create(kernel: &Kernel, client: usize, ledger: &Ledger) -> Result<(), Errno> {
    let name = Name::new(format!("ledger{client}").as_bytes())?;
    let create = Request::Create { parent: Ino::ROOT, name, mode: 0o644, umask: 0, flags: O_RDWR };
    match kernel.ask(create).await? {
        Response::Created { ino, handle, .. } => {
            ledger.ino.set(Some(ino));
            close(kernel, ino, handle).await
        }
        _ => Err(Errno::EIO),
    }
}

async fn close(kernel: &Kernel, ino: Ino, handle: Handle) -> Result<(), Errno> {
    let flushed = kernel.ask(Request::Flush { ino, handle, lock_owner: 0 }).await;
    let released = kernel.ask(Request::Release { ino, handle }).await;
    flushed.and(released).map(drop)
}

async fn open(kernel: &Kernel, ino: Ino, flags: u32) -> Result<Handle, Errno> {
    match kernel.ask(Request::Open { ino, flags }).await? {
        Response::Opened { handle, .. } => Ok(handle),
        _ => Err(Errno::EIO),
    }
}

/// Appends to one's own file, `times` times.
pub async fn write(kernel: Rc<Kernel>, client: usize, ledgers: Rc<Vec<Ledger>>, times: u32, lenient: bool) {
    let Some(ledger) = ledgers.get(client) else { return };
    let scene = &kernel.scene;
    for turn in 0..times {
        scene.clock.sleep(Duration::from_millis(u64::from(turn * 37 % 200))).await;
        if scene.is_over() || ledger.broken.get() {
            return;
        }
        if let Err((what, errno)) = append(&kernel, client, ledger, 100 + u64::from(turn) * 1_777).await {
            ledger.broken.set(true);
            if !(lenient && failed(errno)) {
                let text = format!("client {client} can't {what} its file: {errno}");
                scene.violated(crate::judge::Violation::new("ledger", text));
            }
        }
    }
}

async fn append(
    kernel: &Kernel,
    client: usize,
    ledger: &Ledger,
    len: u64,
) -> Result<(), (&'static str, Errno)> {
    let Some(ino) = ledger.ino.get() else { return Ok(()) };
    let handle = open(kernel, ino, O_RDWR).await.map_err(|errno| ("open", errno))?;
    let offset = ledger.asked.borrow().len() as u64;
    let data = noise(offset + client as u64 * 7_919, len as usize);
    ledger.asked.borrow_mut().extend_from_slice(data);
    kernel.scene.tape.say(|| format!("client {client}: appends {len} bytes to its file at {offset}"));
    let written = kernel.ask(Request::Write { ino, handle, offset, data }).await;
    written.map_err(|errno| ("write", errno))?;
    close(kernel, ino, handle).await.map_err(|errno| ("close", errno))?;
    ledger.closed.set(offset + len);
    Ok(())
}

/// Reads the files of the others, `times` times.
pub async fn read(kernel: Rc<Kernel>, client: usize, ledgers: Rc<Vec<Ledger>>, times: u32, lenient: bool) {
    let scene = &kernel.scene;
    for turn in 0..times {
        scene.clock.sleep(Duration::from_millis(u64::from(turn * 53 % 150))).await;
        for (owner, ledger) in ledgers.iter().enumerate().filter(|(owner, _)| *owner != client) {
            if scene.is_over() || ledger.broken.get() {
                continue;
            }
            let least = ledger.closed.get();
            match look(&kernel, ledger).await {
                Err(errno) if lenient && failed(errno) => {}
                Err(errno) => {
                    let text = format!("client {client} can't read the file of client {owner}: {errno}");
                    scene.violated(crate::judge::Violation::new("ledger", text));
                }
                Ok(seen) => check(scene, (client, owner), ledger, least, &seen),
            }
        }
    }
}

fn check(scene: &Scene, (client, owner): (usize, usize), ledger: &Ledger, least: u64, seen: &[u8]) {
    if ledger.broken.get() {
        return;
    }
    let asked = ledger.asked.borrow();
    let wrong = seen.iter().zip(asked.iter()).position(|(found, right)| found != right);
    let length = seen.len() as u64;
    let text = match wrong {
        Some(at) => format!("byte {at} is not what was written there"),
        None if length < least => {
            format!("{length} bytes, but {least} were written and closed before it was opened")
        }
        None if seen.len() > asked.len() => format!("{length} bytes, more than were ever written"),
        None => return,
    };
    let text = format!("client {client} reads the file of client {owner}: {text}");
    scene.violated(crate::judge::Violation::new("ledger", text));
}

async fn look(kernel: &Kernel, ledger: &Ledger) -> Result<Vec<u8>, Errno> {
    let Some(ino) = ledger.ino.get() else { return Ok(Vec::new()) };
    let handle = open(kernel, ino, 0).await?;
    let mut seen = Vec::new();
    let result = loop {
        let offset = seen.len() as u64;
        let answer: ServeResult = kernel.ask(Request::Read { ino, handle, offset, size: PIECE as u32 }).await;
        match answer {
            Ok(Response::Data(pieces)) => {
                let bytes = pieces.concat();
                if bytes.is_empty() {
                    break Ok(seen);
                }
                seen.extend(bytes);
            }
            Ok(_) => break Err(Errno::EIO),
            Err(errno) => break Err(errno),
        }
    };
    close(kernel, ino, handle).await?;
    result
}

/// At rest: everything that was closed is there, for whoever looks.
pub async fn settle(kernel: &Kernel, client: usize, ledgers: &[Ledger]) {
    let scene = &kernel.scene;
    for (owner, ledger) in ledgers.iter().enumerate() {
        if ledger.broken.get() || ledger.ino.get().is_none() {
            continue;
        }
        match look(kernel, ledger).await {
            Ok(seen) => check(scene, (client, owner), ledger, ledger.closed.get(), &seen),
            Err(errno) => {
                let text = format!("at rest client {client} can't read the file of client {owner}: {errno}");
                scene.violated(crate::judge::Violation::new("ledger", text));
            }
        }
    }
}
