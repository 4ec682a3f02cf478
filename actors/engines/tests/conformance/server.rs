//! A `redis-server` of this machine, on a free port, gone when dropped.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Server {
    process: Child,
    pub port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    /// `None`, said aloud, where the program is missing.
    pub fn start() -> Option<Server> {
        let probe = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
        if probe.is_err() {
            eprintln!("SKIPPED: redis-server is not installed");
            return None;
        }
        for _ in 0..20 {
            let port = free_port();
            let folder = tempfile::tempdir().unwrap();
            let mut process = Command::new("redis-server")
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
                .arg(folder.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(20) && process.try_wait().unwrap().is_none() {
                if std::net::TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).is_ok() {
                    return Some(Server { process, port, _folder: folder });
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        panic!("redis-server does not start");
    }

    pub fn signal(&self, name: &str) {
        let done = Command::new("kill").arg(format!("-{name}")).arg(self.process.id().to_string()).status();
        assert!(done.unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}
