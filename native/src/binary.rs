//! Columns of payloads in a binary format while they are filled, and the reading that Avro and Protobuf share.

use std::mem::take;

use crate::arrays::{Batch, Buffer};
use crate::columns::{Bits, Offsets, Texts};
use crate::json::{Refused, Scanned};

/// One column.
pub struct Column {
    /// Whether rows may be without a value, be it the column's own doing or that of a record around it.
    pub gaps: bool,
    pub valid: Bits,
    pub values: Values,
}

pub enum Values {
    /// Nothing but nulls, so many.
    Null(usize),
    Bool(Bits),
    Int(Vec<i32>),
    Long(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    /// Digits of decimals, without the point.
    Decimal(Vec<i128>),
    Bytes(Texts),
    List(Offsets, Box<Column>),
    /// Names, and the values of these.
    Map(Offsets, Texts, Box<Column>),
    Record(usize, Vec<Column>),
}

impl Column {
    pub fn new(values: Values, gaps: bool) -> Self {
        Column {
            gaps,
            valid: Bits::default(),
            values,
        }
    }

    /// How many rows it has.
    #[inline(always)]
    pub fn len(&self) -> usize {
        match &self.values {
            Values::Null(rows) => *rows,
            Values::Bool(values) => values.len(),
            Values::Int(values) => values.len(),
            Values::Long(values) => values.len(),
            Values::Float(values) => values.len(),
            Values::Double(values) => values.len(),
            Values::Decimal(values) => values.len(),
            Values::Bytes(texts) => texts.ends.len(),
            Values::List(ends, _) | Values::Map(ends, ..) => ends.len(),
            Values::Record(rows, _) => *rows,
        }
    }

    /// Say that the row that was just added has a value.
    #[inline(always)]
    pub fn there(&mut self) {
        if self.gaps {
            self.valid.push(true);
        }
    }

    /// A row without a value.
    pub fn skip(&mut self) {
        self.valid.push(false);
        match &mut self.values {
            Values::Record(rows, members) => {
                *rows += 1;
                members.iter_mut().for_each(Column::skip);
            }
            _ => self.zero(),
        }
    }

    /// A row with zero, or nothing, as its value; none of a record.
    pub fn zero(&mut self) {
        match &mut self.values {
            Values::Null(rows) | Values::Record(rows, _) => *rows += 1,
            Values::Bool(values) => values.push(false),
            Values::Int(values) => values.push(0),
            Values::Long(values) => values.push(0),
            Values::Float(values) => values.push(0.0),
            Values::Double(values) => values.push(0.0),
            Values::Decimal(values) => values.push(0),
            Values::Bytes(texts) => texts.ends.repeat(),
            Values::List(ends, _) | Values::Map(ends, ..) => ends.repeat(),
        }
    }

    /// Make room for so many rows.
    pub fn reserve(&mut self, rows: usize) {
        match &mut self.values {
            Values::Null(_) | Values::Bool(_) => {}
            Values::Int(values) => values.reserve(rows),
            Values::Long(values) => values.reserve(rows),
            Values::Float(values) => values.reserve(rows),
            Values::Double(values) => values.reserve(rows),
            Values::Decimal(values) => values.reserve(rows),
            Values::Bytes(texts) => texts.reserve(rows),
            Values::List(ends, _) | Values::Map(ends, ..) => ends.reserve(rows),
            Values::Record(_, members) => members.iter_mut().for_each(|member| member.reserve(rows)),
        }
    }

    /// Take back all rows but the first so many, and what was read for a row that never came to be.
    pub fn truncate(&mut self, rows: usize) {
        self.valid.truncate(rows);
        match &mut self.values {
            Values::Null(count) => *count = rows.min(*count),
            Values::Bool(values) => values.truncate(rows),
            Values::Int(values) => values.truncate(rows),
            Values::Long(values) => values.truncate(rows),
            Values::Float(values) => values.truncate(rows),
            Values::Double(values) => values.truncate(rows),
            Values::Decimal(values) => values.truncate(rows),
            Values::Bytes(texts) => texts.truncate(rows),
            Values::List(ends, item) => {
                ends.truncate(rows);
                item.truncate(ends.end());
            }
            Values::Map(ends, names, value) => {
                ends.truncate(rows);
                names.truncate(ends.end());
                value.truncate(ends.end());
            }
            Values::Record(count, members) => {
                *count = rows.min(*count);
                members.iter_mut().for_each(|member| member.truncate(rows));
            }
        }
    }

    /// Add all rows to a batch; none are kept.
    pub fn add(&mut self, batch: &mut Batch) {
        let rows = self.len();
        let valid = take(&mut self.valid);
        if let Values::Null(count) = &mut self.values {
            *count = 0;
            return batch.nothing(rows);
        }
        batch.column(rows, valid);
        match &mut self.values {
            Values::Null(_) => {}
            Values::Bool(values) => batch.buffer(Buffer::Bytes(take(values).into_inner())),
            Values::Int(values) => batch.buffer(Buffer::Ints(take(values))),
            Values::Long(values) => batch.buffer(Buffer::Longs(take(values))),
            Values::Float(values) => batch.buffer(Buffer::Floats(take(values))),
            Values::Double(values) => batch.buffer(Buffer::Doubles(take(values))),
            Values::Decimal(values) => batch.buffer(Buffer::Decimals(take(values))),
            Values::Bytes(found) => batch.texts(found),
            Values::List(ends, item) => {
                batch.offsets(ends);
                item.add(batch);
            }
            Values::Map(ends, names, value) => {
                batch.offsets(ends);
                batch.entries(names);
                value.add(batch);
            }
            Values::Record(count, members) => {
                *count = 0;
                members.iter_mut().for_each(|member| member.add(batch));
            }
        }
    }
}

/// Add a text, which has to be UTF-8, as a row.
#[inline(always)]
pub fn push_text(texts: &mut Texts, raw: &[u8]) -> Scanned<()> {
    std::str::from_utf8(raw).map_err(|_| Refused)?;
    push_bytes(texts, raw)
}

/// Add bytes as a row.
#[inline(always)]
pub fn push_bytes(texts: &mut Texts, raw: &[u8]) -> Scanned<()> {
    texts.bytes.extend_from_slice(raw);
    texts.close()
}

/// A place in a payload.
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub fn new(rest: &'a [u8]) -> Self {
        Input { rest }
    }

    /// Whether all was read.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Past this byte, if it is next.
    pub fn next_is(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        self.rest = &self.rest[usize::from(found)..];
        found
    }

    #[inline(always)]
    pub fn byte(&mut self) -> Scanned<u8> {
        let (first, rest) = self.rest.split_first().ok_or(Refused)?;
        self.rest = rest;
        Ok(*first)
    }

    /// So many bytes.
    #[inline(always)]
    pub fn take(&mut self, count: usize) -> Scanned<&'a [u8]> {
        if count > self.rest.len() {
            return Err(Refused);
        }
        let (found, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(found)
    }

    /// The bytes of a number of a fixed width.
    #[inline(always)]
    pub fn fixed<const N: usize>(&mut self) -> Scanned<[u8; N]> {
        let mut found = [0; N];
        found.copy_from_slice(self.take(N)?);
        Ok(found)
    }

    /// A number of 64 bits in groups of seven, the lowest first.
    #[inline(always)]
    pub fn varint(&mut self) -> Scanned<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        self.longer(first)
    }

    fn longer(&mut self, first: u8) -> Scanned<u64> {
        let mut value = u64::from(first & 0x7F);
        for shift in (7..=63).step_by(7) {
            let byte = self.byte()?;
            // Of the tenth group there is room for one bit.
            if shift == 63 && byte > 1 {
                return Err(Refused);
            }
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Refused)
    }

    /// The same, in no more bytes than it takes.
    #[inline(always)]
    pub fn canonical(&mut self) -> Scanned<u64> {
        let before = self.rest.len();
        let value = self.varint()?;
        let more = before - self.rest.len() - 1;
        if more > 0 && value >> (7 * more) == 0 {
            return Err(Refused);
        }
        Ok(value)
    }

    /// A signed number whose sign is its lowest bit.
    #[inline(always)]
    pub fn zigzag(&mut self) -> Scanned<i64> {
        self.varint().map(signed)
    }
}

/// The number whose sign is the lowest bit.
#[inline(always)]
pub fn signed(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
