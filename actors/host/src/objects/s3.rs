//! S3 and what speaks it. Retries are made above, so that they are counted once; here every request has one try
//! and a bounded time.

use super::bucket::{Bucket, Traits};
use super::endpoint::Endpoint;
use super::{OpenError, PATIENCE, errors};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{ClientOptions, RetryConfig};
use std::sync::Arc;
use std::time::Duration;
use zest_types::volume::Settings;

const CONNECT: Duration = Duration::from_secs(10);
/// Longer than a signature and its request need.
const SIGNED_FOR: Duration = Duration::from_secs(300);

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn endpoint(bucket: &str) -> Result<Endpoint, OpenError> {
    let broken = |why| OpenError::Bucket { bucket: bucket.into(), why };
    Endpoint::parse(bucket, &environment).map_err(broken)
}

fn client(endpoint: &Endpoint, patience: Duration) -> ClientOptions {
    let options = ClientOptions::new()
        .with_timeout(patience)
        .with_connect_timeout(CONNECT)
        .with_pool_max_idle_per_host(zest_types::limits::DOWNLOADS)
        .with_allow_http(endpoint.is_plain())
        .with_allow_invalid_certificates(endpoint.any_certificate)
        .with_http1_only();
    // A server without TLS must be reachable from a machine without certificates.
    if endpoint.is_plain() { options.with_no_system_certificates(true) } else { options }
}

fn address(builder: AmazonS3Builder, endpoint: &Endpoint) -> AmazonS3Builder {
    let builder = builder.with_bucket_name(&endpoint.bucket).with_region(&endpoint.region);
    let Some(server) = &endpoint.server else {
        return builder.with_virtual_hosted_style_request(true);
    };
    match (endpoint.virtual_host, server.split_once("://")) {
        (true, Some((scheme, host))) => builder
            .with_virtual_hosted_style_request(true)
            .with_endpoint(format!("{scheme}://{}.{host}", endpoint.bucket)),
        _ => builder.with_virtual_hosted_style_request(false).with_endpoint(server),
    }
}

fn credentials(settings: &Settings) -> AmazonS3Builder {
    match settings.access_key.as_str() {
        "anonymous" => AmazonS3Builder::new().with_skip_signature(true),
        // The usual AWS_… variables, a role of the container, or one of the machine.
        "" => AmazonS3Builder::from_env(),
        key => {
            let builder =
                AmazonS3Builder::new().with_access_key_id(key).with_secret_access_key(&settings.secret_key);
            match settings.session_token.as_str() {
                "" => builder,
                token => builder.with_token(token),
            }
        }
    }
}

fn build(
    settings: &Settings,
    bucket: &str,
    endpoint: &Endpoint,
    patience: Duration,
) -> Result<AmazonS3, OpenError> {
    // Fails when it was done before, and then there is nothing to do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig { max_retries: 0, retry_timeout: patience, ..RetryConfig::default() };
    address(credentials(settings), endpoint)
        .with_client_options(client(endpoint, patience))
        .with_retry(retry)
        .with_unsigned_payload(true)
        .build()
        .map_err(|e| OpenError::Bucket { bucket: bucket.into(), why: errors::words(&e) })
}

/// One bucket of a volume, each request given up after `patience`.
pub(super) fn open(settings: &Settings, bucket: &str, patience: Duration) -> Result<Bucket, OpenError> {
    let endpoint = endpoint(bucket)?;
    let inner = build(settings, bucket, &endpoint, patience)?;
    Ok(Bucket::new(Arc::new(inner), Traits { checksums: !endpoint.no_checksum, sorted: true }))
}

/// Makes a bucket; one that is the caller's already is no error.
pub(super) async fn make_bucket(settings: &Settings, bucket: &str) -> Result<(), OpenError> {
    let broken = |why: String| OpenError::Bucket { bucket: bucket.into(), why };
    let endpoint = endpoint(bucket)?;
    let store = build(settings, bucket, &endpoint, PATIENCE)?;
    let url = store
        .signed_url(reqwest::Method::PUT, &Path::from(""), SIGNED_FOR)
        .await
        .map_err(|e| broken(errors::words(&e)))?;
    let client = reqwest::Client::builder()
        .timeout(PATIENCE)
        .connect_timeout(CONNECT)
        .build()
        .map_err(|e| broken(errors::words(&e)))?;
    // Servers want to be told that nothing follows.
    let request = client.put(url).header(reqwest::header::CONTENT_LENGTH, 0).body("");
    let answer = request.send().await.map_err(|e| broken(errors::words(&e.without_url())))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let body = answer.text().await.unwrap_or_default();
    if body.contains("BucketAlreadyOwnedByYou") {
        return Ok(());
    }
    let body: String = body.chars().take(300).collect();
    Err(broken(format!(
        "it could not be made: {status} {}",
        body.split_whitespace().collect::<Vec<_>>().join(" ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_style_of_address_builds_a_client() {
        for bucket in ["http://127.0.0.1:9000/jfs", "https://mine.example.org", "mine"] {
            let mut settings = Settings::new("vol", "u", "s3", bucket);
            settings.access_key = "a".into();
            settings.secret_key = "b".into();
            assert!(open(&settings, bucket, PATIENCE).is_ok(), "{bucket}");
        }
        let bucket = "http://127.0.0.1:9000";
        let settings = Settings::new("vol", "u", "s3", bucket);
        assert!(matches!(open(&settings, bucket, PATIENCE), Err(OpenError::Bucket { .. })));
    }
}
