//! Avro's binary encoding into columns.
//!
//! A schema comes from Python as tuples, `(kind, *arguments)`. What a schema does not say, or says in a way that
//! readers differ about, is refused: the payload then goes the slow path, which has the last word.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::avrotext::Text;
use crate::binary::{push_bytes, push_text, Column, Input, Values};
use crate::columns::{Bits, Offsets, Texts};
use crate::json::{Refused, Scanned};
use crate::program::rule;

/// How a value is read.
pub enum Node {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Uuid,
    Fixed(usize),
    Enum(Vec<String>),
    /// A count of units within bounds, as so many of the column's units; those of `Date` have 32 bits.
    Date(i64, i64),
    Time(i64, i64, i64),
    /// A value, or null as the union's branch of this number.
    Optional(i64, Box<Node>),
    Array(Box<Node>),
    Record(Vec<Node>),
    /// Any value as JSON text.
    Text(Text),
}

/// How values of a description are read, and the column that they go to.
pub fn column(program: &Bound<'_, PyTuple>, gaps: bool) -> PyResult<(Node, Column)> {
    let name: String = rule(program, 0)?;
    let (node, values) = match name.as_str() {
        "null" => (Node::Null, Values::Null(0)),
        "boolean" => (Node::Boolean, Values::Bool(Bits::default())),
        "int" => (Node::Int, Values::Int(Vec::new())),
        "long" => (Node::Long, Values::Long(Vec::new())),
        "float" => (Node::Float, Values::Float(Vec::new())),
        "double" => (Node::Double, Values::Double(Vec::new())),
        "bytes" => (Node::Bytes, Values::Bytes(Texts::default())),
        "string" => (Node::String, Values::Bytes(Texts::default())),
        "uuid" => (Node::Uuid, Values::Bytes(Texts::default())),
        "fixed" => (Node::Fixed(rule(program, 1)?), Values::Bytes(Texts::default())),
        "enum" => (Node::Enum(rule(program, 1)?), Values::Bytes(Texts::default())),
        "date" => (
            Node::Date(rule(program, 1)?, rule(program, 2)?),
            Values::Int(Vec::new()),
        ),
        "time" => (
            Node::Time(rule(program, 1)?, rule(program, 2)?, rule(program, 3)?),
            Values::Long(Vec::new()),
        ),
        "optional" => {
            let (inner, column) = column(&rule(program, 2)?, true)?;
            return Ok((Node::Optional(rule(program, 1)?, Box::new(inner)), column));
        }
        "text" => (
            Node::Text(Text::new(&rule(program, 1)?)?),
            Values::Bytes(Texts::default()),
        ),
        "array" => {
            let (item, column) = column(&rule(program, 1)?, false)?;
            (
                Node::Array(Box::new(item)),
                Values::List(Offsets::default(), Box::new(column)),
            )
        }
        "record" => {
            let members: Vec<Bound<'_, PyTuple>> = rule(program, 1)?;
            let found: Vec<(Node, Column)> = members
                .iter()
                .map(|member| column(member, gaps))
                .collect::<PyResult<_>>()?;
            let (nodes, columns) = found.into_iter().unzip();
            (Node::Record(nodes), Values::Record(0, columns))
        }
        _ => return Err(PyValueError::new_err(format!("Avro has no values of kind {name:?}"))),
    };
    Ok((node, Column::new(values, gaps)))
}

/// Read one payload whole; what is refused leaves no trace.
pub fn read(node: &Node, column: &mut Column, payload: &[u8]) -> Scanned<()> {
    let rows = column.len();
    let mut input = Input::new(payload);
    let found = match node.read(&mut input, column) {
        Ok(()) if input.is_empty() => Ok(()),
        _ => Err(Refused),
    };
    if found.is_err() {
        column.truncate(rows);
    }
    found
}

impl Node {
    fn read(&self, input: &mut Input<'_>, column: &mut Column) -> Scanned<()> {
        if let Node::Optional(null, inner) = self {
            return match input.zigzag()? {
                branch if branch == *null => {
                    column.skip();
                    Ok(())
                }
                0 | 1 => inner.read(input, column),
                _ => Err(Refused),
            };
        }
        match (self, &mut column.values) {
            (Node::Null, Values::Null(rows)) => *rows += 1,
            (Node::Boolean, Values::Bool(values)) => match input.byte()? {
                byte @ (0 | 1) => values.push(byte == 1),
                _ => return Err(Refused),
            },
            (Node::Int, Values::Int(values)) => values.push(narrow(input.zigzag()?)?),
            (Node::Long, Values::Long(values)) => values.push(input.zigzag()?),
            (Node::Float, Values::Float(values)) => values.push(f32::from_le_bytes(input.fixed()?)),
            (Node::Double, Values::Double(values)) => values.push(f64::from_le_bytes(input.fixed()?)),
            (Node::Bytes, Values::Bytes(texts)) => push_bytes(texts, chunk(input)?)?,
            (Node::String, Values::Bytes(texts)) => push_text(texts, chunk(input)?)?,
            (Node::Uuid, Values::Bytes(texts)) => push_bytes(texts, uuid(chunk(input)?)?)?,
            (Node::Fixed(size), Values::Bytes(texts)) => push_bytes(texts, input.take(*size)?)?,
            (Node::Enum(symbols), Values::Bytes(texts)) => {
                let number = usize::try_from(input.zigzag()?).map_err(|_| Refused)?;
                push_bytes(texts, symbols.get(number).ok_or(Refused)?.as_bytes())?;
            }
            (Node::Date(low, high), Values::Int(values)) => values.push(narrow(within(input, *low, *high)?)?),
            (Node::Time(low, high, factor), Values::Long(values)) => values.push(within(input, *low, *high)? * factor),
            (Node::Array(item), Values::List(ends, column)) => {
                blocks(input, |input| item.read(input, column))?;
                ends.push(column.len())?;
            }
            (Node::Text(text), Values::Bytes(texts)) => {
                text.write(input, &mut texts.bytes)?;
                texts.close()?;
            }
            (Node::Record(members), Values::Record(rows, columns)) => {
                for (member, column) in members.iter().zip(columns) {
                    member.read(input, column)?;
                }
                *rows += 1;
            }
            _ => return Err(Refused),
        }
        column.there();
        Ok(())
    }
}

/// Read the items of the blocks of an array. Schemas have no items without bytes, so that a count cannot promise more than there is.
pub fn blocks<'a>(input: &mut Input<'a>, mut read: impl FnMut(&mut Input<'a>) -> Scanned<()>) -> Scanned<()> {
    loop {
        let mut count = input.zigzag()?;
        if count < 0 {
            // The size of the block follows, for readers that skip it.
            count = count.checked_neg().ok_or(Refused)?;
            input.zigzag()?;
        }
        if count == 0 {
            return Ok(());
        }
        for _ in 0..count {
            read(input)?;
        }
    }
}

#[inline(always)]
pub fn chunk<'a>(input: &mut Input<'a>) -> Scanned<&'a [u8]> {
    let length = usize::try_from(input.zigzag()?).map_err(|_| Refused)?;
    input.take(length)
}

#[inline(always)]
pub fn narrow(value: i64) -> Scanned<i32> {
    i32::try_from(value).map_err(|_| Refused)
}

#[inline(always)]
fn within(input: &mut Input<'_>, low: i64, high: i64) -> Scanned<i64> {
    let value = input.zigzag()?;
    if low <= value && value <= high {
        Ok(value)
    } else {
        Err(Refused)
    }
}

/// A UUID in its canonical form; other spellings stand for the same and would have to be written anew.
fn uuid(raw: &[u8]) -> Scanned<&[u8]> {
    let sound = |(place, byte): (usize, &u8)| match place {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    };
    if raw.len() == 36 && raw.iter().enumerate().all(sound) {
        Ok(raw)
    } else {
        Err(Refused)
    }
}
