//! A network that is slower than loopback, for benchmarks: `slow_link LISTEN TARGET MICROSECONDS` passes bytes on
//! between 127.0.0.1 ports and lets each piece arrive that much later on its way to the target. Pieces may be under
//! way side by side. Knows nothing of what it carries.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

fn carry(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (send, receive) = mpsc::sync_channel::<(Instant, Vec<u8>)>(1024);
    std::thread::spawn(move || {
        for (due, piece) in receive {
            let wait = due.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                std::thread::sleep(wait);
            }
            if to.write_all(&piece).is_err() {
                return;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    let mut buffer = vec![0; 1 << 16];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        if send.send((Instant::now() + delay, buffer[..n].to_vec())).is_err() {
            return;
        }
    }
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, target, delay] = &arguments[..] else {
        return Err(std::io::Error::other("use: slow_link LISTEN-PORT TARGET-PORT MICROSECONDS"));
    };
    let number = |text: &str| text.parse().map_err(|_| std::io::Error::other(format!("{text} is no number")));
    let (listen, target, delay): (u16, u16, u16) = (number(listen)?, number(target)?, number(delay)?);
    let delay = Duration::from_micros(delay.into());
    for client in TcpListener::bind((Ipv4Addr::LOCALHOST, listen))?.incoming() {
        let (client, server) = (client?, TcpStream::connect((Ipv4Addr::LOCALHOST, target))?);
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (back_from, back_to) = (server.try_clone()?, client.try_clone()?);
        std::thread::spawn(move || carry(client, server, delay));
        std::thread::spawn(move || carry(back_from, back_to, Duration::ZERO));
    }
    Ok(())
}
