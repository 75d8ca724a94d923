//! The sections around the body of a message of AMQP 1.0 (part 1 and 3 of the specification), as far as headers do not
//! show what is in there.

use pyo3::prelude::*;

use crate::decoder::{same, Places};
use crate::json::{Refused, Scanned};

const PROPERTIES: u64 = 0x73;
const APPLICATION_PROPERTIES: u64 = 0x74;
/// Places of the content type and encoding among the properties.
const MEDIA: [usize; 2] = [6, 7];
/// What the names of attributes begin with, before an underscore or a colon.
const ATTRIBUTES: &[u8] = b"cloudEvents";
/// Milliseconds from 1970 to the years 1 and 10000.
const FIRST: i64 = -62_135_596_800_000;
const END: i64 = 253_402_300_800_000;

/// The numbers of the messages whose attributes and content type may be other than texts, or times, which have one
/// spelling; or whose sections are odd.
#[pyfunction]
pub fn untold_types(py: Python<'_>, sections: Places<'_>) -> PyResult<Vec<usize>> {
    sections.each(py, same, |raw| told(Reader { rest: raw }))
}

fn told(mut sections: Reader<'_>) -> Scanned<()> {
    while !sections.rest.is_empty() {
        let section = sections.descriptor()?;
        let value = sections.value()?;
        match section {
            PROPERTIES => properties(value)?,
            APPLICATION_PROPERTIES => attributes(value)?,
            _ => {}
        }
    }
    Ok(())
}

fn properties(value: Value<'_>) -> Scanned<()> {
    let (count, mut fields) = value.parts(0xc0, 0xd0)?;
    for place in 0..count {
        let field = fields.value()?;
        if MEDIA.contains(&place) && !(field.is_text() || field.is_null()) {
            return Err(Refused);
        }
    }
    Ok(())
}

fn attributes(value: Value<'_>) -> Scanned<()> {
    let (count, mut entries) = value.parts(0xc1, 0xd1)?;
    for _ in 0..count / 2 {
        let (name, value) = (entries.value()?, entries.value()?);
        let shown = value.is_text() || value.is_null() || value.is_time();
        if !name.is_text() || (name.content.starts_with(ATTRIBUTES) && !shown) {
            return Err(Refused);
        }
    }
    Ok(())
}

struct Value<'a> {
    code: u8,
    content: &'a [u8],
}

impl<'a> Value<'a> {
    fn is_null(&self) -> bool {
        self.code == 0x40
    }

    /// A string or a symbol.
    fn is_text(&self) -> bool {
        matches!(self.code, 0xa1 | 0xa3 | 0xb1 | 0xb3)
    }

    fn is_time(&self) -> bool {
        let milliseconds = self.content.try_into().map(i64::from_be_bytes);
        self.code == 0x83 && milliseconds.map_or(false, |found| (FIRST..END).contains(&found))
    }

    /// The parts of a list or map, by its code with sizes of one byte and that with sizes of four.
    fn parts(&self, short: u8, long: u8) -> Scanned<(usize, Reader<'a>)> {
        let mut reader = Reader { rest: self.content };
        let count = match self.code {
            0x45 => 0,
            code if code == short => reader.size(1)?,
            code if code == long => reader.size(4)?,
            _ => return Err(Refused),
        };
        Ok((count, reader))
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn descriptor(&mut self) -> Scanned<u64> {
        if self.take(1)? != [0] {
            return Err(Refused);
        }
        let value = self.value()?;
        match value.code {
            0x44 | 0x53 | 0x80 => Ok(value.content.iter().fold(0, |all, byte| all << 8 | u64::from(*byte))),
            _ => Err(Refused),
        }
    }

    /// Past a value that has no descriptor; how many bytes it has its code says.
    fn value(&mut self) -> Scanned<Value<'a>> {
        let code = self.take(1)?[0];
        let size = match code >> 4 {
            0x4 => 0,
            kind @ 0x5..=0x9 => 1 << (kind - 0x5),
            0xa | 0xc | 0xe => self.size(1)?,
            0xb | 0xd | 0xf => self.size(4)?,
            _ => return Err(Refused),
        };
        let content = self.take(size)?;
        Ok(Value { code, content })
    }

    fn size(&mut self, width: usize) -> Scanned<usize> {
        Ok(self
            .take(width)?
            .iter()
            .fold(0, |all, byte| all << 8 | usize::from(*byte)))
    }

    fn take(&mut self, size: usize) -> Scanned<&'a [u8]> {
        if size > self.rest.len() {
            return Err(Refused);
        }
        let (taken, rest) = self.rest.split_at(size);
        self.rest = rest;
        Ok(taken)
    }
}
