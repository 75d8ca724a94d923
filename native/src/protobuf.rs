//! Protobuf's binary encoding into columns.
//!
//! A message type comes from Python as tuples. Fields may come in any order; a payload with a field that is not of the
//! type, that comes twice where there is one, or with two members of a `oneof`, is refused: parsers merge or forget
//! there, and the slow path does as they do.

use std::collections::HashMap;
use std::ops::Range;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::binary::{push_bytes, push_text, signed, Column, Input, Values};
use crate::columns::{Bits, Offsets, Texts};
use crate::json::{Key, Refused, Scanned};
use crate::program::rule;

const VARINT: u8 = 0;
const WIDE: u8 = 1;
const LENGTH: u8 = 2;
const NARROW: u8 = 5;
/// The years 1 to 9999 in seconds, which is all that a `Timestamp` may be.
const SECONDS: Range<i64> = -62_135_596_800..253_402_300_800;
const MICROS: i64 = 1_000_000;
/// Choices of a message are bits of a word.
const MOST_CHOICES: usize = 64;

/// A message type, its fields by number.
pub struct Message {
    pub fields: Vec<Field>,
    /// Which field a name in JSON is of.
    pub names: HashMap<Vec<u8>, usize>,
}

pub struct Field {
    number: u64,
    pub kind: Kind,
    pub repeated: bool,
    required: bool,
    /// What is there where the field is not: nothing of a field with presence, else zero, or of an enum this name.
    default: Option<String>,
    choice: Option<usize>,
    /// The field's column among those of the message.
    pub place: usize,
    /// Its names in JSON, the one that serializers write, and that of the document.
    pub key: Key,
    name: String,
}

pub enum Kind {
    Bool,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Float,
    Double,
    String,
    Bytes,
    /// Names by number, in order.
    Enum(Vec<(i64, String)>),
    Message(Message),
    /// `google.protobuf.Timestamp` in microseconds.
    Timestamp,
    /// A value in a message of its own, its field 1.
    Wrapped(Box<Kind>),
}

/// The message type of a description, a sequence of fields, and the columns that they go to.
pub fn message(program: &Bound<'_, PyTuple>, gaps: bool) -> PyResult<(Message, Column)> {
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (place, each) in program.iter().enumerate() {
        let each: Bound<'_, PyTuple> = each.extract()?;
        let (field, column) = field(&each, place, gaps)?;
        fields.push(field);
        columns.push(column);
    }
    fields.sort_by_key(|field| field.number);
    // The name that serializers write goes before another field's name in the document.
    let own = fields.iter().map(|field| field.name.clone().into_bytes()).enumerate();
    let written = fields.iter().map(|field| field.key.name().to_vec()).enumerate();
    let names = own.chain(written).map(|(place, name)| (name, place)).collect();
    Ok((Message { fields, names }, Column::new(Values::Record(0, columns), gaps)))
}

/// `(number, kind, arguments, label, default, choice, name, name in JSON)`.
fn field(program: &Bound<'_, PyTuple>, place: usize, gaps: bool) -> PyResult<(Field, Column)> {
    let label: String = rule(program, 3)?;
    let (repeated, required) = (label == "repeated", label == "required");
    let default: Option<String> = rule(program, 4)?;
    let choice: Option<usize> = rule(program, 5)?;
    if choice.map_or(false, |choice| choice >= MOST_CHOICES) {
        return Err(PyValueError::new_err("too many choices"));
    }
    // Items of lists are always there, and so are fields with a default, unless the message around them is not.
    let open = !repeated && (gaps || (default.is_none() && !required));
    let (kind, mut column) = kind(program, open)?;
    if repeated {
        column = Column::new(Values::List(Offsets::default(), Box::new(column)), gaps);
    }
    let found = Field {
        number: rule(program, 0)?,
        kind,
        repeated,
        required,
        default,
        choice,
        place,
        key: Key::new(&rule::<String>(program, 7)?),
        name: rule(program, 6)?,
    };
    Ok((found, column))
}

fn kind(program: &Bound<'_, PyTuple>, gaps: bool) -> PyResult<(Kind, Column)> {
    let name: String = rule(program, 1)?;
    if name == "wrapped" {
        // What is said of a field lies at the same place in what is said of the value.
        let (inner, column) = kind(&rule(program, 2)?, gaps)?;
        return Ok((Kind::Wrapped(Box::new(inner)), column));
    }
    let (kind, values) = match name.as_str() {
        "timestamp" => (Kind::Timestamp, Values::Long(Vec::new())),
        "bool" => (Kind::Bool, Values::Bool(Bits::default())),
        "int32" => (Kind::Int32, Values::Int(Vec::new())),
        "int64" => (Kind::Int64, Values::Long(Vec::new())),
        "uint32" => (Kind::Uint32, Values::Long(Vec::new())),
        "uint64" => (Kind::Uint64, Values::Decimal(Vec::new())),
        "sint32" => (Kind::Sint32, Values::Int(Vec::new())),
        "sint64" => (Kind::Sint64, Values::Long(Vec::new())),
        "fixed32" => (Kind::Fixed32, Values::Long(Vec::new())),
        "fixed64" => (Kind::Fixed64, Values::Decimal(Vec::new())),
        "sfixed32" => (Kind::Sfixed32, Values::Int(Vec::new())),
        "sfixed64" => (Kind::Sfixed64, Values::Long(Vec::new())),
        "float" => (Kind::Float, Values::Float(Vec::new())),
        "double" => (Kind::Double, Values::Double(Vec::new())),
        "string" => (Kind::String, Values::Bytes(Texts::default())),
        "bytes" => (Kind::Bytes, Values::Bytes(Texts::default())),
        "enum" => {
            let mut names: Vec<(i64, String)> = rule(program, 2)?;
            names.sort();
            (Kind::Enum(names), Values::Bytes(Texts::default()))
        }
        "message" => {
            let (inner, column) = message(&rule(program, 2)?, gaps)?;
            return Ok((Kind::Message(inner), column));
        }
        _ => {
            return Err(PyValueError::new_err(format!(
                "Protobuf has no values of kind {name:?}"
            )))
        }
    };
    Ok((kind, Column::new(values, gaps)))
}

/// Read one payload whole; what is refused leaves no trace.
pub fn read(message: &Message, column: &mut Column, payload: &[u8]) -> Scanned<()> {
    let rows = column.len();
    let found = message.read(payload, column);
    if found.is_err() {
        column.truncate(rows);
    }
    found
}

impl Message {
    fn read(&self, payload: &[u8], column: &mut Column) -> Scanned<()> {
        let (rows, columns) = match &mut column.values {
            Values::Record(rows, columns) => (rows, columns),
            _ => return Err(Refused),
        };
        let mut input = Input::new(payload);
        let (mut next, mut chosen) = (0, 0_u64);
        while !input.is_empty() {
            let tag = input.canonical()?;
            let field = self.field(tag >> 3, &mut next)?;
            let column = &mut columns[field.place];
            if field.repeated {
                field.items((tag & 7) as u8, &mut input, column)?;
                continue;
            }
            // One row more than the message has: the field was there already.
            if (tag & 7) as u8 != field.kind.wire() || column.len() > *rows {
                return Err(Refused);
            }
            field.choose(&mut chosen)?;
            field.kind.read(&mut input, column)?;
        }
        for field in &self.fields {
            field.complete(*rows, &mut columns[field.place])?;
        }
        *rows += 1;
        column.there();
        Ok(())
    }

    /// The field of a number, likely the one at or behind `next`: serializers write them in this order.
    #[inline(always)]
    fn field(&self, number: u64, next: &mut usize) -> Scanned<&Field> {
        if let Some(field) = self.fields.get(*next) {
            if field.number == number {
                *next += usize::from(!field.repeated);
                return Ok(field);
            }
        }
        let place = self.fields.binary_search_by_key(&number, |field| field.number);
        let place = place.map_err(|_| Refused)?;
        let field = &self.fields[place];
        *next = place + usize::from(!field.repeated);
        Ok(field)
    }
}

impl Field {
    /// Note that the choice it belongs to is made, which it may be once.
    #[inline(always)]
    pub fn choose(&self, chosen: &mut u64) -> Scanned<()> {
        if let Some(choice) = self.choice {
            if *chosen & 1 << choice != 0 {
                return Err(Refused);
            }
            *chosen |= 1 << choice;
        }
        Ok(())
    }

    /// One item of a list, or of numbers several in one piece.
    fn items(&self, wire: u8, input: &mut Input<'_>, column: &mut Column) -> Scanned<()> {
        let items = match &mut column.values {
            Values::List(_, items) => items,
            _ => return Err(Refused),
        };
        if wire == self.kind.wire() {
            return self.kind.read(input, items);
        }
        if wire != LENGTH {
            return Err(Refused);
        }
        let mut packed = Input::new(chunk(input)?);
        while !packed.is_empty() {
            self.kind.read(&mut packed, items)?;
        }
        Ok(())
    }

    /// End the field's list, or give it what it has where it did not come.
    #[inline(always)]
    pub fn complete(&self, rows: usize, column: &mut Column) -> Scanned<()> {
        if let (true, Values::List(ends, items)) = (self.repeated, &mut column.values) {
            ends.push(items.len())?;
            column.there();
            return Ok(());
        }
        if column.len() > rows {
            return Ok(());
        }
        match &self.default {
            Some(name) => {
                match &mut column.values {
                    Values::Bytes(texts) => push_bytes(texts, name.as_bytes())?,
                    _ => column.zero(),
                }
                column.there();
            }
            None if self.required => return Err(Refused),
            None => column.skip(),
        }
        Ok(())
    }
}

impl Kind {
    /// How values are framed.
    #[inline(always)]
    fn wire(&self) -> u8 {
        match self {
            Kind::String | Kind::Bytes | Kind::Message(_) | Kind::Timestamp | Kind::Wrapped(_) => LENGTH,
            Kind::Fixed32 | Kind::Sfixed32 | Kind::Float => NARROW,
            Kind::Fixed64 | Kind::Sfixed64 | Kind::Double => WIDE,
            _ => VARINT,
        }
    }

    /// One value behind its tag. Numbers that are longer on the wire than their type, which parsers cut, are refused.
    fn read(&self, input: &mut Input<'_>, column: &mut Column) -> Scanned<()> {
        match (self, &mut column.values) {
            (Kind::Bool, Values::Bool(values)) => match input.varint()? {
                value @ (0 | 1) => values.push(value == 1),
                _ => return Err(Refused),
            },
            (Kind::Int32, Values::Int(values)) => {
                values.push(i32::try_from(input.varint()? as i64).map_err(|_| Refused)?);
            }
            (Kind::Int64, Values::Long(values)) => values.push(input.varint()? as i64),
            (Kind::Uint32, Values::Long(values)) => {
                values.push(u32::try_from(input.varint()?).map_err(|_| Refused)?.into());
            }
            (Kind::Uint64, Values::Decimal(values)) => values.push(input.varint()?),
            (Kind::Sint32, Values::Int(values)) => {
                let value = u32::try_from(input.varint()?).map_err(|_| Refused)?;
                values.push(signed(u64::from(value)) as i32);
            }
            (Kind::Sint64, Values::Long(values)) => values.push(input.zigzag()?),
            (Kind::Fixed32, Values::Long(values)) => values.push(u32::from_le_bytes(input.fixed()?).into()),
            (Kind::Fixed64, Values::Decimal(values)) => values.push(u64::from_le_bytes(input.fixed()?)),
            (Kind::Sfixed32, Values::Int(values)) => values.push(i32::from_le_bytes(input.fixed()?)),
            (Kind::Sfixed64, Values::Long(values)) => values.push(i64::from_le_bytes(input.fixed()?)),
            (Kind::Float, Values::Float(values)) => values.push(f32::from_le_bytes(input.fixed()?)),
            (Kind::Double, Values::Double(values)) => values.push(f64::from_le_bytes(input.fixed()?)),
            (Kind::String, Values::Bytes(texts)) => push_text(texts, chunk(input)?)?,
            (Kind::Bytes, Values::Bytes(texts)) => push_bytes(texts, chunk(input)?)?,
            (Kind::Enum(names), Values::Bytes(texts)) => {
                let number = input.varint()? as i64;
                let place = names.binary_search_by_key(&number, |(number, _)| *number);
                push_bytes(texts, names[place.map_err(|_| Refused)?].1.as_bytes())?;
            }
            (Kind::Message(message), Values::Record(..)) => return message.read(chunk(input)?, column),
            (Kind::Timestamp, Values::Long(values)) => values.push(instant(chunk(input)?)?),
            (Kind::Wrapped(kind), _) => return kind.wrapped(chunk(input)?, column),
            _ => return Err(Refused),
        }
        column.there();
        Ok(())
    }

    /// The value of a message that has nothing but that, which is zero if it did not come.
    fn wrapped(&self, raw: &[u8], column: &mut Column) -> Scanned<()> {
        let mut input = Input::new(raw);
        if input.is_empty() {
            column.zero();
            column.there();
            return Ok(());
        }
        if input.byte()? != 1 << 3 | self.wire() {
            return Err(Refused);
        }
        self.read(&mut input, column)?;
        if input.is_empty() {
            Ok(())
        } else {
            Err(Refused)
        }
    }
}

/// Microseconds of a `Timestamp` with each of its fields once at most; what has finer digits has no column.
fn instant(raw: &[u8]) -> Scanned<i64> {
    let mut input = Input::new(raw);
    let (mut seconds, mut nanos) = (None, None);
    while !input.is_empty() {
        let place = match input.byte()? {
            0x08 => &mut seconds,
            0x10 => &mut nanos,
            _ => return Err(Refused),
        };
        if place.replace(input.varint()? as i64).is_some() {
            return Err(Refused);
        }
    }
    let (seconds, nanos) = (seconds.unwrap_or(0), nanos.unwrap_or(0));
    if SECONDS.contains(&seconds) && (0..MICROS * 1000).contains(&nanos) && nanos % 1000 == 0 {
        Ok(seconds * MICROS + nanos / 1000)
    } else {
        Err(Refused)
    }
}

#[inline(always)]
fn chunk<'a>(input: &mut Input<'a>) -> Scanned<&'a [u8]> {
    let length = usize::try_from(input.canonical()?).map_err(|_| Refused)?;
    input.take(length)
}
