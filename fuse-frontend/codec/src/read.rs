//! Taking a request apart: structs and names from the front of the bytes, each with its length checked.

use zerocopy::FromBytes;

/// What is left of a request.
#[derive(Clone, Copy)]
pub(crate) struct Rest<'a>(pub &'a [u8]);

impl<'a> Rest<'a> {
    /// A struct.
    pub fn take<T: FromBytes>(&mut self) -> Option<T> {
        let (value, rest) = T::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some(value)
    }

    /// A name, without the NUL that ends it.
    pub fn name(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let (name, rest) = self.0.split_at_checked(end)?;
        self.0 = rest.get(1..)?;
        Some(name)
    }

    /// So many bytes.
    pub fn bytes(&mut self, len: u32) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    /// Nothing may be left.
    pub fn end<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}
