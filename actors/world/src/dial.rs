//! Connections to servers, for engines whose records are elsewhere. Who dials knows no protocol; who speaks the
//! protocol knows no socket.

use crate::BoxFuture;
use std::fmt;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};

/// How a server proves who it is, and who we are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Believe any certificate.
    pub insecure: bool,
    /// File with certificates of authorities that are believed, PEM; the system's where empty.
    pub ca_file: Option<String>,
    /// File with our own certificate, PEM.
    pub cert_file: Option<String>,
    /// File with the key of our certificate, PEM.
    pub key_file: Option<String>,
    /// Name the server's certificate must have; the host's where empty.
    pub server_name: Option<String>,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A host and a port.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
        /// Encrypted, and how.
        tls: Option<Tls>,
    },
    /// A socket of this machine.
    Unix(String),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
            Target::Unix(path) => f.write_str(path),
        }
    }
}

/// An open connection.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Opens connections.
pub trait Dial: Send + Sync {
    /// One try. Errors name what refused; the caller adds where.
    fn dial(&self, target: &Target) -> BoxFuture<'static, io::Result<Box<dyn Stream>>>;
}
