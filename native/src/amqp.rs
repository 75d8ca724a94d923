//! Messages of AMQP 1.0: what the sections around their bodies hold (parts 1 and 3 of the specification).

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::Batch;
use crate::binary::Input;
use crate::columns::{Bits, Texts};
use crate::decoder::Places;
use crate::json::{Refused, Scanned};
use crate::records::{marked_bytes, quote};
use crate::times;

const PROPERTIES: u64 = 0x73;
const APPLICATION_PROPERTIES: u64 = 0x74;
/// The sections, by their descriptors; those that are lists with the names of their fields.
const SECTIONS: [(u64, &str, &[&str]); 6] = [
    (
        0x70,
        "header",
        &["durable", "priority", "ttl", "first-acquirer", "delivery-count"],
    ),
    (0x71, "delivery-annotations", &[]),
    (0x72, "message-annotations", &[]),
    (
        PROPERTIES,
        "properties",
        &[
            "message-id",
            "user-id",
            "to",
            "subject",
            "reply-to",
            "correlation-id",
            "content-type",
            "content-encoding",
            "absolute-expiry-time",
            "creation-time",
            "group-id",
            "group-sequence",
            "reply-to-group-id",
        ],
    ),
    (APPLICATION_PROPERTIES, "application-properties", &[]),
    (0x78, "footer", &[]),
];
/// Places of the content type and encoding among the properties.
const MEDIA: [usize; 2] = [6, 7];
/// What the names of attributes begin with, before an underscore or a colon.
const ATTRIBUTES: &[u8] = b"cloudEvents";
/// Milliseconds from 1970 to the years 1 and 10000.
const FIRST: i64 = -62_135_596_800_000;
const END: i64 = 253_402_300_800_000;
const SECOND: i64 = 1000;
/// Entries of a map up to which each name is compared with each.
const FEW: usize = 64;
/// Types of attributes that are no texts.
const TRUTH: u8 = 1;
const NUMBER: u8 = 2;
const BINARY: u8 = 3;

/// Of the attributes with one name which messages have one that is no text, by their numbers, and of what type it is.
type Typed<'py> = HashMap<String, (Vec<usize>, Bound<'py, PyBytes>)>;

/// The attributes that are truths (1), numbers (2) or bytes (3), by the names of the properties they are in; and the
/// numbers of the messages with others that are no texts, or with odd sections.
#[pyfunction]
pub fn attribute_types<'py>(py: Python<'py>, sections: Places<'py>) -> PyResult<(Typed<'py>, Vec<usize>)> {
    let mut found: HashMap<&[u8], (Vec<usize>, Vec<u8>)> = HashMap::new();
    let mut message = 0;
    let refused = sections.each(py, |raw| {
        let number = message;
        message += 1;
        let mut note = |name, kind| {
            let (numbers, kinds) = found.entry(name).or_default();
            numbers.push(number);
            kinds.push(kind);
        };
        typed(Input::new(raw), &mut note)
    })?;
    let named = found.into_iter().map(|(name, (numbers, kinds))| {
        let name = String::from_utf8_lossy(name).into_owned();
        (name, (numbers, PyBytes::new(py, &kinds)))
    });
    Ok((named.collect(), refused))
}

fn typed<'a>(mut sections: Input<'a>, note: &mut impl FnMut(&'a [u8], u8)) -> Scanned<()> {
    while !sections.is_empty() {
        let section = descriptor(&mut sections)?;
        let found = value(&mut sections)?;
        match section {
            PROPERTIES => media(found)?,
            APPLICATION_PROPERTIES => {
                let (count, mut entries) = found.parts(0xc1, 0xd1)?;
                for _ in 0..count / 2 {
                    let (name, found) = (value(&mut entries)?, value(&mut entries)?);
                    if !name.is_text() {
                        return Err(Refused);
                    }
                    if name.content.starts_with(ATTRIBUTES) {
                        match found.kind()? {
                            0 => {}
                            kind => note(name.content, kind),
                        }
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refused where the content type or encoding is no text.
fn media(list: Value<'_>) -> Scanned<()> {
    let (count, mut fields) = list.parts(0xc0, 0xd0)?;
    for place in 0..count {
        let field = value(&mut fields)?;
        if MEDIA.contains(&place) && !(field.is_text() || field.is_null()) {
            return Err(Refused);
        }
    }
    Ok(())
}

/// Columns of the sections of each message as an object in JSON, null where there is none, of content types and of
/// encodings; and the numbers of those messages that have odd sections, or values in them that are lists, maps or
/// fractions, for which all is null.
#[pyfunction]
pub fn section_texts<'py>(py: Python<'py>, sections: Places<'py>) -> PyResult<(Bound<'py, PyBytes>, Vec<usize>)> {
    let mut columns: [(Texts, Bits); 3] = Default::default();
    let (mut text, mut media) = (Vec::new(), [None; 2]);
    let refused = sections.each(py, |raw| {
        text.clear();
        media = [None; 2];
        let found = object(Input::new(raw), &mut text, &mut media);
        let row = match &found {
            Ok(()) => [
                Some(text.as_slice()).filter(|text| !text.is_empty()),
                media[0],
                media[1],
            ],
            Err(Refused) => [None; 3],
        };
        for ((texts, valid), value) in columns.iter_mut().zip(row) {
            texts.bytes.extend_from_slice(value.unwrap_or_default());
            texts.close()?;
            valid.push(value.is_some());
        }
        found
    })?;
    let (rows, mut batch) = (columns[0].0.ends.len(), Batch::default());
    for (mut texts, valid) in columns {
        batch.column(rows, valid);
        batch.texts(&mut texts);
    }
    Ok((batch.finish(rows, py)?, refused))
}

fn object<'a>(mut sections: Input<'a>, out: &mut Vec<u8>, media: &mut [Option<&'a [u8]>; 2]) -> Scanned<()> {
    let mut known = [false; SECTIONS.len()];
    while !sections.is_empty() {
        let code = descriptor(&mut sections)?;
        let place = SECTIONS.iter().position(|section| section.0 == code).ok_or(Refused)?;
        if std::mem::replace(&mut known[place], true) {
            return Err(Refused);
        }
        let (_, name, fields) = SECTIONS[place];
        out.push(if out.is_empty() { b'{' } else { b',' });
        quote(name, out);
        out.push(b':');
        let found = value(&mut sections)?;
        if fields.is_empty() {
            map(found, out)?;
        } else {
            let texts = list(found, fields, out)?;
            if code == PROPERTIES {
                *media = texts;
            }
        }
    }
    if !out.is_empty() {
        out.push(b'}');
    }
    Ok(())
}

/// The fields of a list that are there; the values of those in the places of `MEDIA`, which are texts.
fn list<'a>(found: Value<'a>, names: &[&str], out: &mut Vec<u8>) -> Scanned<[Option<&'a [u8]>; 2]> {
    let (count, mut fields) = found.parts(0xc0, 0xd0)?;
    if count > names.len() {
        return Err(Refused);
    }
    let (mut members, mut media) = (Members::new(out), [None; 2]);
    for (place, name) in names.iter().enumerate().take(count) {
        let field = value(&mut fields)?;
        if field.is_null() {
            continue;
        }
        members.add(name);
        field.write(members.out)?;
        if let Some(number) = MEDIA.iter().position(|known| *known == place) {
            let text = field.text()?;
            media[number] = Some(text.as_bytes()).filter(|text| !text.is_empty());
        }
    }
    members.end(&fields)?;
    Ok(media)
}

fn map(found: Value<'_>, out: &mut Vec<u8>) -> Scanned<()> {
    let (count, mut entries) = found.parts(0xc1, 0xd1)?;
    if count % 2 > 0 || count / 2 > FEW {
        return Err(Refused);
    }
    let (mut members, mut names) = (Members::new(out), Vec::with_capacity(count / 2));
    for _ in 0..count / 2 {
        let (name, found) = (value(&mut entries)?, value(&mut entries)?);
        let text = name.text()?;
        // Names with a dollar mark what JSON has no types for.
        if text.starts_with('$') || names.contains(&text) {
            return Err(Refused);
        }
        names.push(text);
        if !found.is_null() {
            members.add(text);
            found.write(members.out)?;
        }
    }
    members.end(&entries)
}

/// An object while it is written.
struct Members<'a> {
    out: &'a mut Vec<u8>,
    begun: bool,
}

impl<'a> Members<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Members { out, begun: false }
    }

    fn add(&mut self, name: &str) {
        if std::mem::replace(&mut self.begun, true) {
            self.out.push(b',');
        }
        quote(name, self.out);
        self.out.push(b':');
    }

    /// Refused where anything is left of what it was made of.
    fn end(self, rest: &Input<'_>) -> Scanned<()> {
        self.out.push(b'}');
        if rest.is_empty() {
            Ok(())
        } else {
            Err(Refused)
        }
    }
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

    fn text(&self) -> Scanned<&'a str> {
        let symbol = matches!(self.code, 0xa3 | 0xb3);
        if !self.is_text() || symbol && !self.content.is_ascii() {
            return Err(Refused);
        }
        std::str::from_utf8(self.content).map_err(|_| Refused)
    }

    /// Milliseconds since 1970, in the years 1 to 9999.
    fn time(&self) -> Option<i64> {
        let milliseconds = self.content.try_into().map(i64::from_be_bytes).ok()?;
        (self.code == 0x83 && (FIRST..END).contains(&milliseconds)).then_some(milliseconds)
    }

    /// What it is as an attribute: 0 for texts, and for what has one spelling as such, UUIDs, fractions and signs.
    fn kind(&self) -> Scanned<u8> {
        match self.code {
            0x40 | 0x72 | 0x73 | 0x82 | 0x98 => Ok(0),
            0x41 | 0x42 | 0x56 => Ok(TRUTH),
            0x43 | 0x44 | 0x50..=0x55 | 0x60 | 0x61 | 0x70 | 0x71 | 0x80 | 0x81 => Ok(NUMBER),
            0xa0 | 0xb0 => Ok(BINARY),
            _ if self.is_text() || self.time().is_some() => Ok(0),
            _ => Err(Refused),
        }
    }

    /// Add it in JSON.
    fn write(&self, out: &mut Vec<u8>) -> Scanned<()> {
        match self.code {
            0x41 => out.extend_from_slice(b"true"),
            0x42 => out.extend_from_slice(b"false"),
            0x56 if self.content == [0] => out.extend_from_slice(b"false"),
            0x56 => out.extend_from_slice(b"true"),
            0x43 | 0x44 | 0x50 | 0x52 | 0x53 | 0x60 | 0x70 | 0x80 => {
                let number = self.content.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
                out.extend_from_slice(number.to_string().as_bytes());
            }
            0x51 | 0x54 | 0x55 | 0x61 | 0x71 | 0x81 => {
                let sign = if self.content[0] < 0x80 { 0 } else { -1 };
                let number = self.content.iter().fold(sign, |all, byte| all << 8 | i64::from(*byte));
                out.extend_from_slice(number.to_string().as_bytes());
            }
            0x98 => {
                out.extend_from_slice(b"{\"$uuid\":\"");
                for (place, byte) in self.content.iter().enumerate() {
                    let dash = if matches!(place, 4 | 6 | 8 | 10) { "-" } else { "" };
                    out.extend_from_slice(format!("{dash}{byte:02x}").as_bytes());
                }
                out.extend_from_slice(b"\"}");
            }
            0xa0 | 0xb0 => marked_bytes(self.content, out),
            0x83 => self.write_time(out)?,
            _ => quote(self.text()?, out),
        }
        Ok(())
    }

    fn write_time(&self, out: &mut Vec<u8>) -> Scanned<()> {
        let milliseconds = self.time().ok_or(Refused)?;
        out.extend_from_slice(b"{\"$time\":\"");
        times::write_instant(milliseconds.div_euclid(SECOND), out);
        let rest = milliseconds.rem_euclid(SECOND);
        if rest > 0 {
            out.extend_from_slice(format!(".{rest:03}000").as_bytes());
        }
        out.extend_from_slice(b"+00:00\"}");
        Ok(())
    }

    /// The parts of a list or map, by its code with sizes of one byte and that with sizes of four.
    fn parts(&self, short: u8, long: u8) -> Scanned<(usize, Input<'a>)> {
        let mut reader = Input::new(self.content);
        let count = match self.code {
            0x45 if short == 0xc0 => 0,
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
