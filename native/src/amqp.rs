//! Messages of AMQP 1.0 whose attributes are of types that headers as text do not show, found by the sections around
//! their bodies (parts 1 and 3 of the specification).

use pyo3::prelude::*;

use crate::binary::Input;
use crate::decoder::Places;
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
pub fn hidden_types(py: Python<'_>, sections: Places<'_>) -> PyResult<Vec<usize>> {
    sections.each(py, |raw| shown(Input::new(raw)))
}

fn shown(mut sections: Input<'_>) -> Scanned<()> {
    while !sections.is_empty() {
        let section = descriptor(&mut sections)?;
        let found = value(&mut sections)?;
        match section {
            PROPERTIES => properties(found)?,
            APPLICATION_PROPERTIES => attributes(found)?,
            _ => {}
        }
    }
    Ok(())
}

fn properties(list: Value<'_>) -> Scanned<()> {
    let (count, mut fields) = list.parts(0xc0, 0xd0)?;
    for place in 0..count {
        let field = value(&mut fields)?;
        if MEDIA.contains(&place) && !(field.is_text() || field.is_null()) {
            return Err(Refused);
        }
    }
    Ok(())
}

fn attributes(map: Value<'_>) -> Scanned<()> {
    let (count, mut entries) = map.parts(0xc1, 0xd1)?;
    for _ in 0..count / 2 {
        let (name, found) = (value(&mut entries)?, value(&mut entries)?);
        let shown = found.is_text() || found.is_null() || found.is_time();
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
    fn parts(&self, short: u8, long: u8) -> Scanned<(usize, Input<'a>)> {
        let mut reader = Input::new(self.content);
        let count = match self.code {
            0x45 => 0,
            code if code == short => size(&mut reader, 1)?,
            code if code == long => size(&mut reader, 4)?,
            _ => return Err(Refused),
        };
        Ok((count, reader))
    }
}

fn descriptor(input: &mut Input<'_>) -> Scanned<u64> {
    if input.byte()? != 0 {
        return Err(Refused);
    }
    let found = value(input)?;
    match found.code {
        0x44 | 0x53 | 0x80 => Ok(found.content.iter().fold(0, |all, byte| all << 8 | u64::from(*byte))),
        _ => Err(Refused),
    }
}

/// Past a value that has no descriptor; how many bytes it has its code says.
fn value<'a>(input: &mut Input<'a>) -> Scanned<Value<'a>> {
    let code = input.byte()?;
    let size = match code >> 4 {
        0x4 => 0,
        kind @ 0x5..=0x9 => 1 << (kind - 0x5),
        0xa | 0xc | 0xe => size(input, 1)?,
        0xb | 0xd | 0xf => size(input, 4)?,
        _ => return Err(Refused),
    };
    let content = input.take(size)?;
    Ok(Value { code, content })
}

fn size(input: &mut Input<'_>, width: usize) -> Scanned<usize> {
    let bytes = input.take(width)?;
    Ok(bytes.iter().fold(0, |all, byte| all << 8 | usize::from(*byte)))
}
