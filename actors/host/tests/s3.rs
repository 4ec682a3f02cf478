//! What the S3 client says to a server, and what it makes of answers no good server gives. The server is a few
//! lines here: it keeps what it was told and gives the answer it was given.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, clippy::disallowed_types)]

use bytes::Bytes;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use zest_host::{RealChance, objects, probe};
use zest_types::volume::Settings;
use zest_world::{ObjectError, Objects};

/// One request: its first line and headers, in lower case, and its body.
struct Asked {
    head: String,
    body: Vec<u8>,
}

fn read_request(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let lower = line.to_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&lower);
        if lower.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { head, body })
}

/// What a server was asked, once it was.
type Hears = std::thread::JoinHandle<Option<Asked>>;

/// Answers the first request with `answer`, whole as it is; gives the store and what was asked.
fn server(answer: &str) -> (objects::Store, Hears) {
    let (settings, asked) = place(answer);
    (objects::open(&settings, objects::PATIENCE).unwrap(), asked)
}

/// The same, but only the settings that lead there.
fn place(answer: &str) -> (Settings, Hears) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let bucket = format!("http://{}/bucket", listener.local_addr().unwrap());
    let answer = answer.to_owned();
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let asked = read_request(&stream);
        stream.write_all(answer.as_bytes()).unwrap();
        asked
    });
    let mut settings = Settings::new("vol", "u", "s3", &bucket);
    settings.access_key = "the-key".into();
    settings.secret_key = "the-secret".into();
    (settings, asked)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: \"e\"\r\nLast-Modified: Mon, 30 Nov 2026 00:00:00 GMT\r\n{headers}\r\n{body}"
    )
}

#[test]
fn a_put_carries_its_checksum_and_an_unhashed_payload() {
    let (store, asked) = server(&answer("200 OK", "", ""));
    run(store.put("vol/chunks/0/0/1_0_9", Bytes::from_static(b"123456789"))).unwrap();
    let asked = asked.join().unwrap().unwrap();
    assert!(asked.head.starts_with("put /bucket/vol/chunks/0/0/1_0_9 "), "{}", asked.head);
    for header in [
        "x-amz-meta-crc32c: 3808858755",
        "x-amz-content-sha256: unsigned-payload",
        "content-type: application/octet-stream",
        "credential=the-key/",
    ] {
        assert!(asked.head.contains(header), "{header} is not in {}", asked.head);
    }
    assert!(!asked.head.contains("the-secret"));
    assert_eq!(asked.body, b"123456789");
}

#[test]
fn a_bucket_is_made_by_a_request_that_says_it_has_no_body() {
    let (settings, asked) = place(&answer("200 OK", "", ""));
    run(objects::make_bucket(&settings)).unwrap();
    let asked = asked.join().unwrap().unwrap();
    assert!(asked.head.starts_with("put /bucket"), "{}", asked.head);
    assert!(asked.head.contains("content-length: 0\r\n"), "{}", asked.head);
}

#[test]
fn the_checksum_of_a_whole_object_is_verified() {
    let (store, _asked) = server(&answer("200 OK", "x-amz-meta-crc32c: 3808858755\r\n", "123456789"));
    assert_eq!(run(store.get("k", None)).unwrap(), "123456789");
    let (store, _asked) = server(&answer("200 OK", "x-amz-meta-crc32c: 3808858755\r\n", "12345678X"));
    assert!(run(store.get("k", None)).unwrap_err().is_transient());
}

#[test]
fn a_server_that_ignores_ranges_is_not_believed() {
    let (store, asked) = server(&answer("206 Partial Content", "Content-Range: bytes 2-4/9\r\n", "345"));
    assert_eq!(run(store.get("k", Some(2..5))).unwrap(), "345");
    assert!(asked.join().unwrap().unwrap().head.contains("range: bytes=2-4"));
    let (store, _asked) = server(&answer("200 OK", "", "123456789"));
    assert!(run(store.get("k", Some(2..5))).is_err(), "the head of the object is not its middle");
    let (store, _asked) = server(&answer("206 Partial Content", "Content-Range: bytes 0-2/9\r\n", "123"));
    assert!(run(store.get("k", Some(2..5))).is_err());
}

#[test]
fn a_body_that_breaks_off_is_worth_another_try() {
    let broken = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nETag: \"e\"\r\nLast-Modified: Mon, 30 Nov 2026 00:00:00 GMT\r\n\r\nshort";
    let (store, _asked) = server(broken);
    assert!(run(store.get("k", None)).unwrap_err().is_transient());
}

#[test]
fn errors_of_a_server_are_told_apart() {
    let xml = |code: &str| format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>");
    let ask = |status: &str, code: &str| {
        let (store, _asked) = server(&answer(status, "", &xml(code)));
        run(store.put("k", Bytes::from_static(b"x"))).unwrap_err()
    };
    assert!(matches!(ask("403 Forbidden", "AccessDenied"), ObjectError::Refused { .. }));
    assert!(matches!(ask("404 Not Found", "NoSuchBucket"), ObjectError::Refused { .. }));
    assert!(ask("503 Slow Down", "SlowDown").is_transient());
    assert!(ask("500 Internal Server Error", "InternalError").is_transient());
    assert_eq!(ask("507 Insufficient Storage", "XMinioStorageFull"), ObjectError::Full("k".into()));
    let (store, _asked) = server(&answer("404 Not Found", "", &xml("NoSuchKey")));
    assert_eq!(run(store.get("k", None)), Err(ObjectError::NotFound("k".into())));
    let (store, _asked) = server(&answer("404 Not Found", "", &xml("NoSuchKey")));
    assert_eq!(run(store.delete("k")), Ok(()));
}

#[test]
fn a_bucket_one_may_not_write_is_named_with_the_remedy() {
    let denied = "<Error><Code>AccessDenied</Code><Message>not yours</Message></Error>";
    let (store, _asked) = server(&answer("403 Forbidden", "", denied));
    let error = run(probe::works(Arc::new(store), &RealChance::new(), "vol")).unwrap_err().to_string();
    for word in ["can't be written", "vol/testing/", "AccessDenied", "keys and rights"] {
        assert!(error.contains(word), "{word} is not in {error}");
    }
}
