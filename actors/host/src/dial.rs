//! Real connections: TCP, TLS over it, and sockets of this machine. Knows no protocol that is spoken there.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::sync::Arc;
use tokio::net::{TcpStream, UnixStream};
use zest_world::{BoxFuture, Dial, Stream, Target, Tls};

/// Opens connections of this machine, in the tokio runtime that polls them.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDial;

impl Dial for RealDial {
    fn dial(&self, target: &Target) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let target = target.clone();
        Box::pin(async move {
            Ok(match target {
                Target::Unix(path) => Box::new(UnixStream::connect(path).await?) as Box<dyn Stream>,
                Target::Tcp { host, port, tls } => {
                    let stream = TcpStream::connect((host.as_str(), port)).await?;
                    stream.set_nodelay(true)?;
                    match tls {
                        None => Box::new(stream),
                        Some(tls) => encrypted(stream, &host, &tls).await?,
                    }
                }
            })
        })
    }
}

async fn encrypted(stream: TcpStream, host: &str, tls: &Tls) -> io::Result<Box<dyn Stream>> {
    let config = Arc::new(client(tls)?);
    let name = tls.server_name.as_deref().unwrap_or(host).to_owned();
    let name =
        ServerName::try_from(name).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    Ok(Box::new(tokio_rustls::TlsConnector::from(config).connect(name, stream).await?))
}

fn client(tls: &Tls) -> io::Result<ClientConfig> {
    let bad = |what: &str, error: &dyn std::fmt::Display| io::Error::other(format!("{what}: {error}"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| bad("TLS", &error))?;
    let builder = match tls.insecure {
        true => builder.dangerous().with_custom_certificate_verifier(Arc::new(believing::Anybody)),
        false => builder.with_root_certificates(authorities(tls)?),
    };
    match (&tls.cert_file, &tls.key_file) {
        (Some(cert), Some(key)) => {
            let chain = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect);
            let chain: Vec<_> = chain.map_err(|error| bad(cert, &error))?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, &error))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| bad(cert, &error))
        }
        (None, None) => Ok(builder.with_no_client_auth()),
        _ => Err(io::Error::other("tls-cert-file and tls-key-file belong together: give both or none")),
    }
}

fn authorities(tls: &Tls) -> io::Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    let file = tls.ca_file.as_deref();
    let files: Vec<&str> = match file {
        Some(file) => vec![file],
        None => vec!["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"],
    };
    for path in files {
        let Ok(certificates) = CertificateDer::pem_file_iter(path) else { continue };
        store.add_parsable_certificates(certificates.filter_map(Result::ok));
    }
    match (store.is_empty(), file) {
        (true, Some(file)) => Err(io::Error::other(format!("{file} holds no certificate"))),
        (true, None) => Err(io::Error::other("no certificates of authorities found: give tls-ca-cert-file")),
        (false, _) => Ok(store),
    }
}

mod believing {
    //! Believes any certificate, for `insecure-skip-verify`.

    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{DigitallySignedStruct, Error, SignatureScheme};

    #[derive(Debug)]
    pub struct Anybody;

    fn provider() -> CryptoProvider {
        ring::default_provider()
    }

    impl ServerCertVerifier for Anybody {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, cert, signature, &provider().signature_verification_algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, cert, signature, &provider().signature_verification_algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            provider().signature_verification_algorithms.supported_schemes()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_certificate_is_refused() {
        let tls = Tls { insecure: true, cert_file: Some("/none".into()), ..Tls::default() };
        assert!(client(&tls).unwrap_err().to_string().contains("belong together"));
        let tls = Tls { ca_file: Some("/dev/null".into()), ..Tls::default() };
        assert!(client(&tls).unwrap_err().to_string().contains("/dev/null holds no certificate"));
    }
}
