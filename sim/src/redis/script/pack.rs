//! The library `struct` of a server's scripts: values to bytes and back by a format. Numbers go through doubles, as
//! all numbers of a script do, so beyond 2^53 they are rounded.

use mlua::{Error, Lua, LuaString, MultiValue, Result, Table, Value};

/// Longest string a format may ask for.
const LONGEST: usize = 1 << 20;

#[derive(Clone, Copy)]
enum Item {
    Integer { size: usize, signed: bool },
    Float,
    Double,
    Text,
    Bytes(usize),
    Padding,
}

struct Format<'a> {
    rest: &'a [u8],
    little: bool,
}

fn wrong(text: impl Into<String>) -> Error {
    Error::runtime(text.into())
}

impl Format<'_> {
    fn number(&mut self) -> Option<usize> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    /// The next item; nothing at the end.
    fn next(&mut self) -> Result<Option<Item>> {
        while let Some((letter, rest)) = self.rest.split_first() {
            self.rest = rest;
            let integer = |size, signed| Ok(Some(Item::Integer { size, signed }));
            return match letter {
                b'>' => {
                    self.little = false;
                    continue;
                }
                b'<' | b'=' => {
                    self.little = true;
                    continue;
                }
                b' ' => continue,
                b'!' => {
                    if self.number().is_some_and(|align| align != 1) {
                        return Err(wrong("the simulated server packs without alignment"));
                    }
                    continue;
                }
                b'b' => integer(1, true),
                b'B' => integer(1, false),
                b'h' => integer(2, true),
                b'H' => integer(2, false),
                b'l' => integer(8, true),
                b'L' | b'T' => integer(8, false),
                b'i' | b'I' => {
                    let size = self.number().unwrap_or(4);
                    if !(1..=8).contains(&size) {
                        return Err(wrong(format!("integral size {size} is larger than limit of 8")));
                    }
                    integer(size, *letter == b'i')
                }
                b'f' => Ok(Some(Item::Float)),
                b'd' => Ok(Some(Item::Double)),
                b's' => Ok(Some(Item::Text)),
                b'c' => Ok(Some(Item::Bytes(self.number().unwrap_or(1)))),
                b'x' => Ok(Some(Item::Padding)),
                other => Err(wrong(format!("invalid format option '{}'", char::from(*other)))),
            };
        }
        Ok(None)
    }

    fn order(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if !self.little {
            bytes.reverse();
        }
        bytes
    }
}

fn number(value: Option<&Value>) -> Result<f64> {
    match value {
        Some(Value::Integer(number)) => Ok(*number as f64),
        Some(Value::Number(number)) => Ok(*number),
        Some(Value::String(text)) => {
            let text = String::from_utf8_lossy(&text.as_bytes()).trim().to_owned();
            text.parse().map_err(|_| wrong("number expected, got string"))
        }
        _ => Err(wrong("number expected")),
    }
}

fn text(value: Option<&Value>) -> Result<Vec<u8>> {
    match value {
        Some(Value::String(text)) => Ok(text.as_bytes().to_vec()),
        Some(Value::Integer(number)) => Ok(number.to_string().into_bytes()),
        _ => Err(wrong("string expected")),
    }
}

fn integer_bytes(number: f64, size: usize) -> Vec<u8> {
    let bits = if number < 0.0 { (number as i64).cast_unsigned() } else { number as u64 };
    bits.to_le_bytes().into_iter().take(size).collect()
}

fn pack(format: &[u8], values: &[Value]) -> Result<Vec<u8>> {
    let mut format = Format { rest: format, little: true };
    let (mut out, mut values) = (Vec::new(), values.iter());
    while let Some(item) = format.next()? {
        match item {
            Item::Integer { size, .. } => {
                out.extend(format.order(integer_bytes(number(values.next())?, size)))
            }
            Item::Float => out.extend(format.order((number(values.next())? as f32).to_le_bytes().to_vec())),
            Item::Double => out.extend(format.order(number(values.next())?.to_le_bytes().to_vec())),
            Item::Text => {
                out.extend(text(values.next())?);
                out.push(0);
            }
            Item::Bytes(size) => {
                let bytes = text(values.next())?;
                let size = if size == 0 { bytes.len() } else { size };
                out.extend_from_slice(bytes.get(..size).ok_or_else(|| wrong("string too short"))?);
            }
            Item::Padding => out.push(0),
        }
    }
    Ok(out)
}

fn take<'a>(data: &'a [u8], at: &mut usize, size: usize) -> Result<&'a [u8]> {
    let end =
        at.checked_add(size).filter(|_| size <= LONGEST).ok_or_else(|| wrong("data string too short"))?;
    let found = data.get(*at..end).ok_or_else(|| wrong("data string too short"))?;
    *at = end;
    Ok(found)
}

fn unpack(lua: &Lua, format: &[u8], data: &[u8], from: usize) -> Result<MultiValue> {
    let mut format = Format { rest: format, little: true };
    let (mut out, mut at) = (Vec::new(), from);
    while let Some(item) = format.next()? {
        match item {
            Item::Integer { size, signed } => {
                let mut bytes = format.order(take(data, &mut at, size)?.to_vec());
                let fill = if signed && bytes.last().is_some_and(|top| top & 0x80 != 0) { 0xFF } else { 0 };
                bytes.resize(8, fill);
                let bits = bytes.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
                out.push(Value::Number(if signed { bits.cast_signed() as f64 } else { bits as f64 }));
            }
            Item::Float => {
                let bytes = format.order(take(data, &mut at, 4)?.to_vec());
                let bytes: [u8; 4] = bytes.try_into().map_err(|_| wrong("data string too short"))?;
                out.push(Value::Number(f64::from(f32::from_le_bytes(bytes))));
            }
            Item::Double => {
                let bytes = format.order(take(data, &mut at, 8)?.to_vec());
                let bytes: [u8; 8] = bytes.try_into().map_err(|_| wrong("data string too short"))?;
                out.push(Value::Number(f64::from_le_bytes(bytes)));
            }
            Item::Text => {
                let rest = data.get(at..).unwrap_or_default();
                let length = rest.iter().position(|byte| *byte == 0);
                let length = length.ok_or_else(|| wrong("unfinished string in data"))?;
                out.push(Value::String(lua.create_string(take(data, &mut at, length)?)?));
                at += 1;
            }
            Item::Bytes(size) => {
                let size = match (size, out.pop()) {
                    (0, Some(Value::Number(number))) if number >= 0.0 => number as usize,
                    (0, _) => return Err(wrong("format 'c0' needs a previous size")),
                    (size, before) => {
                        out.extend(before);
                        size
                    }
                };
                out.push(Value::String(lua.create_string(take(data, &mut at, size)?)?));
            }
            Item::Padding => drop(take(data, &mut at, 1)?),
        }
    }
    out.push(Value::Number((at + 1) as f64));
    Ok(MultiValue::from_vec(out))
}

fn size(format: &[u8]) -> Result<usize> {
    let mut format = Format { rest: format, little: true };
    let mut total = 0;
    while let Some(item) = format.next()? {
        total += match item {
            Item::Integer { size, .. } => size,
            Item::Float => 4,
            Item::Double => 8,
            Item::Padding => 1,
            Item::Bytes(size) if size > 0 => size,
            Item::Text | Item::Bytes(_) => return Err(wrong("variable-size format for length")),
        };
    }
    Ok(total)
}

/// The library.
pub(super) fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    let packs = lua.create_function(|lua, (format, values): (LuaString, MultiValue)| {
        lua.create_string(pack(&format.as_bytes(), &values.into_vec())?)
    })?;
    library.set("pack", packs)?;
    let unpacks = lua.create_function(|lua, (format, data, at): (LuaString, LuaString, Option<f64>)| {
        let from = (at.unwrap_or(1.0).max(1.0) as usize) - 1;
        unpack(lua, &format.as_bytes(), &data.as_bytes(), from)
    })?;
    library.set("unpack", unpacks)?;
    library.set("size", lua.create_function(|_, format: LuaString| size(&format.as_bytes()))?)?;
    Ok(library)
}
