//! A real `redis-server` of one's own on a free loopback port, and connections that speak its protocol byte by byte.
//! Ends with its owner, by its process id. Nothing is promised where the program is not installed.

#![allow(clippy::unwrap_used, clippy::expect_used, dead_code)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use zest_sim::redis::resp::{Parsed, reply};
use zest_sim::redis::{Args, Frame};

/// A running server.
pub struct RealServer {
    child: Child,
    port: u16,
    dir: std::path::PathBuf,
}

impl RealServer {
    /// Starts one; nothing, said aloud, where the program is missing.
    pub fn start() -> Option<RealServer> {
        if Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("SKIPPED: there is no redis-server on this machine, so nothing was compared");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let dir = std::env::temp_dir().join(format!("zest-sim-redis-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let port_text = port.to_string();
        let child = Command::new("redis-server")
            .args(["--port", &port_text, "--bind", "127.0.0.1", "--save", "", "--daemonize", "no", "--dir"])
            .arg(&dir)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let server = RealServer { child, port, dir };
        let patience = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < patience, "redis-server does not begin to listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    /// A new connection.
    pub fn connect(&self) -> Link {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Link { stream, buffer: Vec::new() }
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

/// A connection to it.
pub struct Link {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Link {
    /// Sends a command.
    pub fn send(&mut self, args: &Args) {
        let mut out = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            out.extend(format!("${}\r\n", arg.len()).into_bytes());
            out.extend_from_slice(arg);
            out.extend_from_slice(b"\r\n");
        }
        self.stream.write_all(&out).unwrap();
    }

    /// The next reply or push.
    pub fn receive(&mut self) -> Frame {
        loop {
            match reply(&self.buffer) {
                Parsed::Whole(frame, used) => {
                    self.buffer.drain(..used);
                    return frame;
                }
                Parsed::Part => {
                    let mut bytes = [0; 4096];
                    let count = self.stream.read(&mut bytes).unwrap();
                    assert!(count > 0, "the server hangs up");
                    self.buffer.extend_from_slice(&bytes[..count]);
                }
                Parsed::Wrong(text) => panic!("a reply that can't be read: {text}"),
            }
        }
    }

    /// Sends a command; its reply.
    pub fn ask(&mut self, args: &Args) -> Frame {
        self.send(args);
        self.receive()
    }
}

/// A command from words.
pub fn words(text: &str) -> Args {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}
