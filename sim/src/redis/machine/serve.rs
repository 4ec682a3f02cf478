//! Connections of a simulated server: bytes in, bytes out, one command after the other, when the one thread of the
//! server has time for it.

use super::{Link, Machine, Mishap, PORT};
use crate::redis::resp::{Args, Frame, Parsed, command};
use crate::redis::server::Wish;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use turmoil::net::TcpListener;
use turmoil::net::TcpStream;

/// Bytes of a connection that wait to be sent before it is closed.
const UNSENT: usize = 64 << 20;

/// Serves until the host ends.
///
/// # Errors
/// When it can't listen.
pub async fn serve(machine: Rc<Machine>) -> std::io::Result<()> {
    tokio::task::spawn_local(Rc::clone(&machine).cron());
    tokio::task::spawn_local(Rc::clone(&machine).troubles());
    loop {
        while !machine.state.borrow().up {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // A process that is down does not listen.
        let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
        while machine.state.borrow().up {
            let waits = tokio::time::sleep(Duration::from_millis(20));
            tokio::select! {
                biased;
                accepted = listener.accept() => {
                    let (stream, _) = accepted?;
                    tokio::task::spawn_local(converse(Rc::clone(&machine), stream));
                }
                () = waits => {}
            }
        }
    }
}

async fn converse(machine: Rc<Machine>, mut stream: TcpStream) {
    let Some(link) = machine.attach() else { return };
    let mut buffer = Vec::new();
    drop(machine.talk(&link, &mut stream, &mut buffer).await);
    machine.detach(&link);
}

async fn flush(link: &Link, stream: &mut TcpStream) -> std::io::Result<()> {
    let out = std::mem::take(&mut *link.out.borrow_mut());
    if !out.is_empty() {
        stream.write_all(&out).await?;
    }
    Ok(())
}

impl Machine {
    fn attach(&self) -> Option<Rc<Link>> {
        let mut state = self.state.borrow_mut();
        if !state.up {
            return None;
        }
        state.connected += 1;
        let id = state.server.connect();
        let link = Rc::new(Link {
            id,
            out: std::cell::RefCell::default(),
            wake: tokio::sync::Notify::new(),
            dead: std::cell::Cell::new(false),
        });
        state.links.insert(id, Rc::clone(&link));
        self.tell("connected", state.connected, 0);
        Some(link)
    }

    fn detach(&self, link: &Rc<Link>) {
        let mut state = self.state.borrow_mut();
        // Numbers begin again with each process: this may be another's by now.
        if state.links.get(&link.id).is_some_and(|known| Rc::ptr_eq(known, link)) {
            state.links.remove(&link.id);
            state.server.disconnect(link.id);
        }
    }

    async fn talk(
        &self,
        link: &Rc<Link>,
        stream: &mut TcpStream,
        buffer: &mut Vec<u8>,
    ) -> std::io::Result<()> {
        loop {
            flush(link, stream).await?;
            if link.dead.get() || link.out.borrow().len() > UNSENT {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = link.wake.notified() => continue,
                read = stream.read_buf(buffer) => {
                    if read? == 0 {
                        return Ok(());
                    }
                }
            }
            loop {
                match command(buffer) {
                    Parsed::Part => break,
                    Parsed::Wrong(text) => {
                        Frame::Error(text).write(2, &mut link.out.borrow_mut());
                        return flush(link, stream).await;
                    }
                    Parsed::Whole(args, used) => {
                        buffer.drain(..used);
                        if !args.is_empty() && !self.one(link, &args).await {
                            return Ok(());
                        }
                        flush(link, stream).await?;
                        if link.dead.get() {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    /// Waits until the server's thread is free; false when the connection ended meanwhile.
    async fn turn(&self, link: &Link) -> bool {
        loop {
            let free = self.state.borrow().busy_until;
            if link.dead.get() {
                return false;
            }
            if free <= Instant::now() {
                return true;
            }
            tokio::select! {
                biased;
                () = link.wake.notified() => {}
                () = tokio::time::sleep_until(free) => {}
            }
        }
    }

    fn strikes(&self, mishap: Mishap) -> bool {
        let strikes = self.mishaps.strikes(mishap);
        if strikes {
            self.mishaps.count(mishap);
            self.tell("mishap", mishap as u64, 0);
            self.tape.say(|| format!("redis: {}", mishap.name()));
        }
        strikes
    }

    /// Does one command; false when the connection is to end without more words.
    async fn one(&self, link: &Rc<Link>, args: &Args) -> bool {
        if self.strikes(Mishap::SlowCommand) {
            tokio::time::sleep(Duration::from_millis(self.mishaps.between(10, 800))).await;
        }
        if !self.turn(link).await || self.strikes(Mishap::LostCommand) {
            return false;
        }
        let (frames, wait, resp) = {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            self.refresh(state);
            let evicted = state.server.stats.evicted;
            let before = state.server.offset;
            let frames = state.server.execute(link.id, args);
            (evicted..state.server.stats.evicted).for_each(|_| self.mishaps.count(Mishap::Evicted));
            self.tape.say(|| told(link.id, args, &frames));
            let resp = state.server.protocol(link.id);
            let wait = state.server.wishes.iter().find(|wish| matches!(wish, Wish::Wait { .. })).cloned();
            // Replies come before what the command made others hear, and this connection too.
            frames.iter().for_each(|frame| self.answer(link, frame, resp));
            self.charge(state, state.server.offset > before);
            self.tell("command", link.id, weigh(args) ^ state.server.offset);
            self.after(state);
            (frames, wait, resp)
        };
        if let Some(wait) = wait {
            let reply = self.wait(link, &wait).await;
            self.answer(link, &reply, resp);
        }
        if frames.iter().all(|frame| !matches!(frame, Frame::Error(_))) && self.strikes(Mishap::LostReply) {
            link.out.borrow_mut().clear();
            return false;
        }
        if self.strikes(Mishap::KilledConnection) {
            link.dead.set(true);
        }
        true
    }

    fn answer(&self, link: &Link, frame: &Frame, resp: u8) {
        if let Frame::Error(text) = frame
            && let Some(mishap) = Mishap::of_reply(text)
        {
            self.mishaps.count(mishap);
        }
        frame.write(resp, &mut link.out.borrow_mut());
    }

    /// The answer to WAIT and WAITAOF, when it is time for it.
    async fn wait(&self, link: &Link, wish: &Wish) -> Frame {
        let Wish::Wait { logs, replicas, timeout, .. } = wish else { return Frame::Null };
        let begun = Instant::now();
        loop {
            let (synced, copies) = {
                let state = self.state.borrow();
                let written = state.server.clients.get(&link.id).map_or(0, |client| client.written);
                let copies = state.server.facts.replicas.iter().filter(|at| **at >= written).count() as u64;
                (u64::from(state.server.facts.synced >= written), copies)
            };
            let enough = logs.is_none_or(|logs| synced >= logs) && copies >= *replicas;
            let over = !timeout.is_zero() && begun.elapsed() >= *timeout;
            if enough || over || link.dead.get() {
                return match logs {
                    Some(_) => Frame::Array(vec![Frame::Int(synced as i64), Frame::Int(copies as i64)]),
                    None => Frame::Int(copies as i64),
                };
            }
            let left = if timeout.is_zero() { Duration::from_secs(3600) } else { *timeout - begun.elapsed() };
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }
}

/// A command and its answer in a line.
fn told(id: u64, args: &Args, frames: &[Frame]) -> String {
    let words = args.iter().take(40).map(|arg| {
        let text: String = String::from_utf8_lossy(arg).chars().take(40).collect();
        text.escape_debug().to_string()
    });
    let answer: String = format!("{frames:?}").chars().take(120).collect();
    format!("    redis {id}: {} → {answer}", words.collect::<Vec<_>>().join(" "))
}

/// A number that two runs of a world must agree on.
fn weigh(args: &Args) -> u64 {
    args.iter().flatten().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    })
}
