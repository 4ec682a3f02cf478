//! RESP2 and RESP3: replies to bytes, bytes to commands, and bytes to replies for those who compare servers. A command
//! from outside is bounded in every length, and can only be refused, never panic. Knows no command.

use super::number::g17;

/// Longest inline command, and longest line of a length.
pub const LINE_LIMIT: usize = 64 << 10;
/// Most arguments of a command.
pub const ARGUMENT_LIMIT: i64 = 1 << 20;
/// Longest argument.
pub const BULK_LIMIT: i64 = 512 << 20;
/// Deepest nesting of a reply that is read.
const DEPTH: usize = 32;

/// A command: its name and its arguments.
pub type Args = Vec<Vec<u8>>;

/// A reply, or a push.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// `+OK`.
    Simple(String),
    /// `-ERR …`.
    Error(String),
    /// A number.
    Int(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// No bytes.
    Null,
    /// No array.
    NullArray,
    /// A list.
    Array(Vec<Frame>),
    /// A map; in RESP2 a list of keys and values.
    Map(Vec<(Frame, Frame)>),
    /// Pairs; in RESP2 a list, in RESP3 a list of lists.
    Pairs(Vec<(Frame, Frame)>),
    /// A set; in RESP2 a list.
    Set(Vec<Frame>),
    /// A double; in RESP2 its text.
    Double(f64),
    /// A boolean; in RESP2 0 or 1.
    Bool(bool),
    /// Text of a kind; in RESP2 bytes.
    Verbatim(Vec<u8>),
    /// Out of band; in RESP2 a list.
    Push(Vec<Frame>),
}

impl Frame {
    /// `+OK`.
    #[must_use]
    pub fn ok() -> Frame {
        Frame::Simple("OK".into())
    }

    /// Bytes from anything.
    #[must_use]
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Frame {
        Frame::Bulk(bytes.as_ref().to_vec())
    }

    /// Bytes or nothing.
    #[must_use]
    pub fn maybe(bytes: Option<&Vec<u8>>) -> Frame {
        bytes.map_or(Frame::Null, |bytes| Frame::Bulk(bytes.clone()))
    }

    /// A count.
    #[must_use]
    pub fn count(number: usize) -> Frame {
        Frame::Int(number as i64)
    }

    /// Appends this as protocol `version` writes it.
    pub fn write(&self, version: u8, out: &mut Vec<u8>) {
        let three = version >= 3;
        match self {
            Frame::Simple(text) => line(out, b'+', text.as_bytes()),
            Frame::Error(text) => line(out, b'-', text.as_bytes()),
            Frame::Int(number) => line(out, b':', number.to_string().as_bytes()),
            Frame::Bulk(bytes) => bulk(out, b'$', bytes),
            Frame::Null | Frame::NullArray if three => out.extend_from_slice(b"_\r\n"),
            Frame::Null => out.extend_from_slice(b"$-1\r\n"),
            Frame::NullArray => out.extend_from_slice(b"*-1\r\n"),
            Frame::Array(list) => many(out, b'*', list, version),
            Frame::Set(list) => many(out, if three { b'~' } else { b'*' }, list, version),
            Frame::Push(list) => many(out, if three { b'>' } else { b'*' }, list, version),
            Frame::Map(pairs) => {
                let (kind, length) = if three { (b'%', pairs.len()) } else { (b'*', pairs.len() * 2) };
                line(out, kind, length.to_string().as_bytes());
                pairs.iter().for_each(|(key, value)| {
                    key.write(version, out);
                    value.write(version, out);
                });
            }
            Frame::Pairs(pairs) => {
                let length = if three { pairs.len() } else { pairs.len() * 2 };
                line(out, b'*', length.to_string().as_bytes());
                for (key, value) in pairs {
                    if three {
                        line(out, b'*', b"2");
                    }
                    key.write(version, out);
                    value.write(version, out);
                }
            }
            Frame::Double(number) if three => line(out, b',', g17(*number).as_bytes()),
            Frame::Double(number) => bulk(out, b'$', g17(*number).as_bytes()),
            Frame::Bool(value) if three => line(out, b'#', if *value { b"t" } else { b"f" }),
            Frame::Bool(value) => line(out, b':', if *value { b"1" } else { b"0" }),
            Frame::Verbatim(text) if three => bulk(out, b'=', &[b"txt:", text.as_slice()].concat()),
            Frame::Verbatim(text) => bulk(out, b'$', text),
        }
    }
}

fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.push(kind);
    // A line can't hold the end of a line.
    out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
    out.extend_from_slice(b"\r\n");
}

fn bulk(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    line(out, kind, bytes.len().to_string().as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn many(out: &mut Vec<u8>, kind: u8, list: &[Frame], version: u8) {
    line(out, kind, list.len().to_string().as_bytes());
    list.iter().for_each(|item| item.write(version, out));
}

/// What is at the beginning of some bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Parsed<T> {
    /// Something whole, and how many bytes it took.
    Whole(T, usize),
    /// The beginning of something.
    Part,
    /// Nothing that can be understood: the error to answer with.
    Wrong(String),
}

fn end_of_line(bytes: &[u8], from: usize) -> Option<usize> {
    let tail = bytes.get(from..)?;
    tail.windows(2).position(|pair| pair == b"\r\n").map(|at| from + at)
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok().filter(|text| !text.starts_with('+')).and_then(|text| text.parse().ok())
}

/// The command at the beginning of `bytes`: an array of bulk strings, or a line of words. An empty line is a
/// command without words.
#[must_use]
pub fn command(bytes: &[u8]) -> Parsed<Args> {
    match bytes.first() {
        None => Parsed::Part,
        Some(b'*') => array_command(bytes),
        Some(_) => inline(bytes),
    }
}

fn inline(bytes: &[u8]) -> Parsed<Args> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return if bytes.len() > LINE_LIMIT { wrong("too big inline request") } else { Parsed::Part };
    };
    let text = bytes.get(..end).unwrap_or_default();
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    Parsed::Whole(words.map(<[u8]>::to_vec).collect(), end + 1)
}

fn wrong<T>(what: &str) -> Parsed<T> {
    Parsed::Wrong(format!("ERR Protocol error: {what}"))
}

fn array_command(bytes: &[u8]) -> Parsed<Args> {
    let Some(end) = end_of_line(bytes, 1) else {
        return if bytes.len() > LINE_LIMIT { wrong("too big mbulk count string") } else { Parsed::Part };
    };
    let count = match bytes.get(1..end).and_then(number) {
        Some(count) if count <= ARGUMENT_LIMIT => count,
        _ => return wrong("invalid multibulk length"),
    };
    let (mut at, mut args) = (end + 2, Vec::new());
    for _ in 0..count.max(0) {
        match bytes.get(at) {
            None => return Parsed::Part,
            Some(b'$') => {}
            Some(other) => return wrong(&format!("expected '$', got '{}'", char::from(*other))),
        }
        let Some(end) = end_of_line(bytes, at + 1) else {
            return if bytes.len() - at > LINE_LIMIT {
                wrong("too big bulk count string")
            } else {
                Parsed::Part
            };
        };
        let length = match bytes.get(at + 1..end).and_then(number) {
            Some(length) if (0..=BULK_LIMIT).contains(&length) => length as usize,
            _ => return wrong("invalid bulk length"),
        };
        let start = end + 2;
        if bytes.len() < start + length + 2 {
            return Parsed::Part;
        }
        args.push(bytes.get(start..start + length).unwrap_or_default().to_vec());
        at = start + length + 2;
    }
    Parsed::Whole(args, at)
}

/// The reply at the beginning of `bytes`, of either protocol, as a client reads it. Doubles and texts of a kind
/// come back as what they are; a pair list comes back as a list.
#[must_use]
pub fn reply(bytes: &[u8]) -> Parsed<Frame> {
    nested(bytes, 0, 0)
}

fn nested(bytes: &[u8], from: usize, depth: usize) -> Parsed<Frame> {
    if depth > DEPTH {
        return wrong("too deep");
    }
    let Some(kind) = bytes.get(from).copied() else { return Parsed::Part };
    let Some(end) = end_of_line(bytes, from + 1) else { return Parsed::Part };
    let text = bytes.get(from + 1..end).unwrap_or_default();
    let words = || String::from_utf8_lossy(text).into_owned();
    let next = end + 2;
    let length = number(text);
    match kind {
        b'+' => Parsed::Whole(Frame::Simple(words()), next),
        b'-' => Parsed::Whole(Frame::Error(words()), next),
        b'_' => Parsed::Whole(Frame::Null, next),
        b':' => length.map_or_else(|| wrong("a number"), |number| Parsed::Whole(Frame::Int(number), next)),
        b',' => words()
            .parse()
            .map_or_else(|_| wrong("a double"), |number| Parsed::Whole(Frame::Double(number), next)),
        b'#' => Parsed::Whole(Frame::Bool(text == b"t"), next),
        b'$' if length == Some(-1) => Parsed::Whole(Frame::Null, next),
        b'*' if length == Some(-1) => Parsed::Whole(Frame::NullArray, next),
        b'$' | b'=' => match length {
            Some(length) if (0..=BULK_LIMIT).contains(&length) => {
                bytes_at(bytes, next, length as usize, kind)
            }
            _ => wrong("invalid bulk length"),
        },
        b'*' | b'~' | b'>' | b'%' => match length {
            Some(length) if (0..=ARGUMENT_LIMIT).contains(&length) => {
                let count = if kind == b'%' { length * 2 } else { length };
                aggregate(bytes, next, count, kind, depth)
            }
            _ => wrong("invalid multibulk length"),
        },
        other => wrong(&format!("a reply begins with '{}'", char::from(other))),
    }
}

fn bytes_at(bytes: &[u8], start: usize, length: usize, kind: u8) -> Parsed<Frame> {
    if bytes.len() < start + length + 2 {
        return Parsed::Part;
    }
    let found = bytes.get(start..start + length).unwrap_or_default().to_vec();
    let frame = match kind {
        b'=' => Frame::Verbatim(found.get(4..).unwrap_or_default().to_vec()),
        _ => Frame::Bulk(found),
    };
    Parsed::Whole(frame, start + length + 2)
}

fn aggregate(bytes: &[u8], mut at: usize, count: i64, kind: u8, depth: usize) -> Parsed<Frame> {
    let mut list = Vec::new();
    for _ in 0..count {
        match nested(bytes, at, depth + 1) {
            Parsed::Whole(frame, next) => {
                list.push(frame);
                at = next;
            }
            other => return other,
        }
    }
    let frame = match kind {
        b'*' => Frame::Array(list),
        b'~' => Frame::Set(list),
        b'>' => Frame::Push(list),
        _ => {
            let mut pairs = Vec::new();
            let mut items = list.into_iter();
            while let (Some(key), Some(value)) = (items.next(), items.next()) {
                pairs.push((key, value));
            }
            Frame::Map(pairs)
        }
    };
    Parsed::Whole(frame, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_command_is_read_however_it_is_cut() {
        let whole = b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\nPING\r\n";
        for cut in 0..23 {
            assert_eq!(command(&whole[..cut]), Parsed::Part, "cut at {cut}");
        }
        assert_eq!(command(whole), Parsed::Whole(vec![b"GET".to_vec(), b"a\r\nb".to_vec()], 23));
        assert_eq!(command(&whole[23..]), Parsed::Whole(vec![b"PING".to_vec()], 6));
    }

    #[test]
    fn lengths_from_outside_are_bounded() {
        for bad in ["*99999999999\r\n", "*x\r\n", "*1\r\n$-1\r\n", "*1\r\n$999999999999\r\n", "*1\r\n+OK\r\n"]
        {
            assert!(matches!(command(bad.as_bytes()), Parsed::Wrong(_)), "{bad:?}");
        }
    }

    #[test]
    fn both_protocols_write_what_they_can_say() {
        let map = Frame::Map(vec![(Frame::bulk("a"), Frame::Double(1.5))]);
        let written = |version| {
            let mut out = Vec::new();
            map.write(version, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(2), "*2\r\n$1\r\na\r\n$3\r\n1.5\r\n");
        assert_eq!(written(3), "%1\r\n$1\r\na\r\n,1.5\r\n");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parsers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = command(&bytes);
            let _ = reply(&bytes);
            let mut array = b"*2\r\n".to_vec();
            array.extend_from_slice(&bytes);
            let _ = command(&array);
            let _ = reply(&array);
        }
    }
}
