//! Protobuf's binary encoding into columns.
//!
//! A message type comes from Python as tuples. Fields may come in any order; a payload with a field that is not of the
//! type, that comes twice where there is one, or with two members of a `oneof`, is refused: parsers merge or forget
//! there, and the slow path does as they do.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::binary::{push_bytes, push_text, signed, Column, Input, Values};
use crate::columns::{Bits, Offsets, Texts};
use crate::json::{Key, Refused, Scanned};
use crate::program::rule;
use crate::wellknown::{self, Free, Moment};

const VARINT: u8 = 0;
const WIDE: u8 = 1;
const LENGTH: u8 = 2;
const NARROW: u8 = 5;
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
    /// A message type without fields, as text.
    Empty,
    /// `google.protobuf.Timestamp` in microseconds, or as text.
    Timestamp,
    TimestampText,
    /// `google.protobuf.Duration` in nanoseconds, or as text.
    Duration,
    DurationText,
    FieldMask,
    /// JSON in a message.
    Free(Free),
    /// Whatever has no plan: refused where it is there.
    Unplanned,
    /// One of the entries of a map: its name, its value, and that where it did not come.
    Entry(Box<Kind>, Box<Kind>, Option<String>),
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
    if let Kind::Entry(..) = kind {
        column = Column::new(
            Values::Map(Offsets::default(), Texts::default(), Box::new(column)),
            gaps,
        );
    } else if repeated {
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
    if name == "map" {
        let (names, values): (Bound<'_, PyTuple>, Bound<'_, PyTuple>) = rule(program, 2)?;
        let (value, column) = kind(&values, gaps)?;
        let entry = Kind::Entry(Box::new(kind(&names, false)?.0), Box::new(value), rule(&values, 3)?);
        return Ok((entry, column));
    }
    let text = || Values::Bytes(Texts::default());
    let (kind, values) = match name.as_str() {
        "empty" => (Kind::Empty, text()),
        "timestamp" => (Kind::Timestamp, Values::Long(Vec::new())),
        "timestamp_text" => (Kind::TimestampText, text()),
        "duration" => (Kind::Duration, Values::Decimal(Vec::new())),
        "duration_text" => (Kind::DurationText, text()),
        "field_mask" => (Kind::FieldMask, text()),
        "struct" => (Kind::Free(Free::Struct), text()),
        "value" => (Kind::Free(Free::Value), text()),
        "list_value" => (Kind::Free(Free::List), text()),
        "unplanned" => (Kind::Unplanned, text()),
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
        let items = match (&self.kind, &mut column.values) {
            (_, Values::List(_, items)) => items,
            (Kind::Entry(name, value, default), Values::Map(_, names, values)) if wire == LENGTH => {
                return entry(chunk(input)?, (name, names), (value, values), default.as_deref());
            }
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

    /// End the field's list or map, or give it what it has where it did not come.
    #[inline(always)]
    pub fn complete(&self, rows: usize, column: &mut Column) -> Scanned<()> {
        if self.repeated {
            match &mut column.values {
                Values::List(ends, items) => ends.push(items.len())?,
                Values::Map(ends, names, values) => {
                    names.check_distinct(ends.end())?;
                    ends.push(values.len())?;
                }
                _ => return Err(Refused),
            }
            column.there();
            return Ok(());
        }
        if column.len() > rows {
            return Ok(());
        }
        match &self.default {
            Some(name) => zero(column, name)?,
            None if self.required => return Err(Refused),
            None => column.skip(),
        }
        Ok(())
    }
}

/// Zero as the value of a row, or of an enum the name of that.
fn zero(column: &mut Column, name: &str) -> Scanned<()> {
    match &mut column.values {
        Values::Bytes(texts) => push_bytes(texts, name.as_bytes())?,
        _ => column.zero(),
    }
    column.there();
    Ok(())
}

/// One entry of a map; parsers take fields in any order, and serializers write the name first.
fn entry(
    raw: &[u8],
    (key, names): (&Kind, &mut Texts),
    (kind, values): (&Kind, &mut Column),
    default: Option<&str>,
) -> Scanned<()> {
    let mut input = Input::new(raw);
    if input.next_is(1 << 3 | key.wire()) {
        key.name(&mut input, &mut names.bytes)?;
    } else {
        names.bytes.extend_from_slice(key.unnamed());
    }
    names.close()?;
    if input.next_is(2 << 3 | kind.wire()) {
        kind.read(&mut input, values)?;
    } else {
        zero(values, default.ok_or(Refused)?)?;
    }
    if input.is_empty() {
        Ok(())
    } else {
        Err(Refused)
    }
}

impl Kind {
    /// Add the text of a key.
    fn name(&self, input: &mut Input<'_>, out: &mut Vec<u8>) -> Scanned<()> {
        let number: i128 = match self {
            Kind::String => {
                let text = chunk(input)?;
                std::str::from_utf8(text).map_err(|_| Refused)?;
                out.extend_from_slice(text);
                return Ok(());
            }
            Kind::Bool => {
                out.extend_from_slice(match input.varint()? {
                    0 => b"false",
                    1 => b"true",
                    _ => return Err(Refused),
                });
                return Ok(());
            }
            Kind::Int32 => i32::try_from(input.varint()? as i64).map_err(|_| Refused)?.into(),
            Kind::Int64 => (input.varint()? as i64).into(),
            Kind::Uint32 => u32::try_from(input.varint()?).map_err(|_| Refused)?.into(),
            Kind::Uint64 => input.varint()?.into(),
            Kind::Sint32 => signed(u32::try_from(input.varint()?).map_err(|_| Refused)?.into()).into(),
            Kind::Sint64 => input.zigzag()?.into(),
            Kind::Fixed32 => u32::from_le_bytes(input.fixed()?).into(),
            Kind::Fixed64 => u64::from_le_bytes(input.fixed()?).into(),
            Kind::Sfixed32 => i32::from_le_bytes(input.fixed()?).into(),
            Kind::Sfixed64 => i64::from_le_bytes(input.fixed()?).into(),
            _ => return Err(Refused),
        };
        out.extend_from_slice(number.to_string().as_bytes());
        Ok(())
    }

    /// The text of a key that did not come.
    fn unnamed(&self) -> &'static [u8] {
        match self {
            Kind::String => b"",
            Kind::Bool => b"false",
            _ => b"0",
        }
    }

    /// How values are framed.
    #[inline(always)]
    fn wire(&self) -> u8 {
        match self {
            Kind::Fixed32 | Kind::Sfixed32 | Kind::Float => NARROW,
            Kind::Fixed64 | Kind::Sfixed64 | Kind::Double => WIDE,
            Kind::Bool | Kind::Enum(_) => VARINT,
            Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64 | Kind::Sint32 | Kind::Sint64 => VARINT,
            _ => LENGTH,
        }
    }

    /// One value behind its tag. Numbers that are longer on the wire than their type, which parsers cut, are refused.
    fn read(&self, input: &mut Input<'_>, column: &mut Column) -> Scanned<()> {
        match (self, &mut column.values) {
            (Kind::Wrapped(kind), _) => return kind.wrapped(chunk(input)?, column),
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
            (Kind::Uint64, Values::Decimal(values)) => values.push(input.varint()?.into()),
            (Kind::Sint32, Values::Int(values)) => {
                let value = u32::try_from(input.varint()?).map_err(|_| Refused)?;
                values.push(signed(u64::from(value)) as i32);
            }
            (Kind::Sint64, Values::Long(values)) => values.push(input.zigzag()?),
            (Kind::Fixed32, Values::Long(values)) => values.push(u32::from_le_bytes(input.fixed()?).into()),
            (Kind::Fixed64, Values::Decimal(values)) => values.push(u64::from_le_bytes(input.fixed()?).into()),
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
            (Kind::Timestamp, Values::Long(values)) => values.push(Moment::timestamp(chunk(input)?)?.micros()?),
            (Kind::Duration, Values::Decimal(values)) => values.push(Moment::duration(chunk(input)?)?.nanos()),
            (_, Values::Bytes(texts)) => {
                self.text(chunk(input)?, &mut texts.bytes)?;
                texts.close()?;
            }
            _ => return Err(Refused),
        }
        column.there();
        Ok(())
    }

    /// Add the text of a message.
    fn text(&self, raw: &[u8], out: &mut Vec<u8>) -> Scanned<()> {
        match self {
            Kind::Empty if raw.is_empty() => out.extend_from_slice(b"{}"),
            Kind::TimestampText => Moment::timestamp(raw)?.write_timestamp(out),
            Kind::DurationText => Moment::duration(raw)?.write_duration(out),
            Kind::FieldMask => wellknown::write_mask(raw, out)?,
            Kind::Free(free) => free.write(raw, out)?,
            _ => return Err(Refused),
        }
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

#[inline(always)]
pub fn chunk<'a>(input: &mut Input<'a>) -> Scanned<&'a [u8]> {
    let length = usize::try_from(input.canonical()?).map_err(|_| Refused)?;
    input.take(length)
}
