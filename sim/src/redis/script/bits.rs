//! The library `bit` of a server's scripts: numbers of thirty-two bits.

use mlua::{Lua, Result, Table, Value, Variadic};

/// A number as its lowest thirty-two bits, rounded to even as the library does.
fn word(number: f64) -> u32 {
    let rounded = number.round_ties_even();
    rounded.rem_euclid(4_294_967_296.0) as u32
}

fn signed(word: u32) -> f64 {
    f64::from(word.cast_signed())
}

fn fold(all: &Variadic<f64>, f: fn(u32, u32) -> u32) -> Result<f64> {
    let mut words = all.iter().copied().map(word);
    let first = words
        .next()
        .ok_or_else(|| mlua::Error::runtime("bad argument #1 (number expected, got no value)"))?;
    Ok(signed(words.fold(first, f)))
}

fn hex(number: f64, digits: Option<f64>) -> String {
    let digits = digits.map_or(8, |digits| word(digits).cast_signed());
    let places = digits.unsigned_abs().min(8) as usize;
    let low = if places == 8 { word(number) } else { word(number) & ((1u32 << (places * 4)) - 1) };
    if places == 0 {
        return String::new();
    }
    if digits < 0 { format!("{low:0places$X}") } else { format!("{low:0places$x}") }
}

type Shift = fn(u32, u32) -> u32;

/// The library.
pub(super) fn library(lua: &Lua) -> Result<Table> {
    let bit = lua.create_table()?;
    bit.set("tobit", lua.create_function(|_, x: f64| Ok(signed(word(x))))?)?;
    bit.set("bnot", lua.create_function(|_, x: f64| Ok(signed(!word(x))))?)?;
    bit.set("bswap", lua.create_function(|_, x: f64| Ok(signed(word(x).swap_bytes())))?)?;
    bit.set("tohex", lua.create_function(|_, (x, n): (f64, Option<f64>)| Ok(hex(x, n)))?)?;
    bit.set("band", lua.create_function(|_, all: Variadic<f64>| fold(&all, |a, b| a & b))?)?;
    bit.set("bor", lua.create_function(|_, all: Variadic<f64>| fold(&all, |a, b| a | b))?)?;
    bit.set("bxor", lua.create_function(|_, all: Variadic<f64>| fold(&all, |a, b| a ^ b))?)?;
    let shifts: [(&str, Shift); 5] = [
        ("lshift", |x, n| x << n),
        ("rshift", |x, n| x >> n),
        ("arshift", |x, n| (x.cast_signed() >> n).cast_unsigned()),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ];
    for (name, shift) in shifts {
        let function = lua.create_function(move |_, (x, n): (f64, f64)| {
            Ok(Value::Number(signed(shift(word(x), word(n) & 31))))
        })?;
        bit.set(name, function)?;
    }
    Ok(bit)
}
