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

/// Bytes of the largest decimals that columns hold.
const MOST_BYTES: usize = 16;
const MICRO: i64 = 1000;

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
    Fixed(usize),
    Enum(Vec<String>),
    /// A count of units within bounds, as so many of the column's units; those of `Date` have 32 bits.
    Date(i64, i64),
    Time(i64, i64, i64),
    /// Nanoseconds as microseconds; finer ones have no column.
    Nanos,
    Decimal(Decimal),
    /// A value, or null as the union's branch of this number.
    Optional(i64, Box<Node>),
    Array(Box<Node>),
    Map(Box<Node>),
    Record(Vec<Node>),
    /// Any value as JSON text, with the types that are named in it.
    Text(Text, Vec<Text>),
}

/// A number in the least bytes, or in so many, with no more digits than this bound has.
pub struct Decimal {
    bound: i128,
    size: Option<usize>,
}

impl Decimal {
    /// Out of `(digits, size)` behind the first so many rules.
    pub fn new(program: &Bound<'_, PyTuple>, first: usize) -> PyResult<Self> {
        Ok(Decimal {
            bound: 10_i128.pow(rule(program, first)?),
            size: rule(program, first + 1)?,
        })
    }

    /// The digits, without the point.
    pub fn read(&self, input: &mut Input<'_>) -> Scanned<i128> {
        let raw = match self.size {
            Some(size) => input.take(size)?,
            None => chunk(input)?,
        };
        let sign = if raw.first().map_or(false, |byte| *byte >= 0x80) {
            -1
        } else {
            0
        };
        if raw.len() > MOST_BYTES {
            return Err(Refused);
        }
        let value = raw.iter().fold(sign, |sum, byte| sum << 8 | i128::from(*byte));
        if -self.bound < value && value < self.bound {
            Ok(value)
        } else {
            Err(Refused)
        }
    }
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
        "nanos" => (Node::Nanos, Values::Long(Vec::new())),
        "decimal" => (Node::Decimal(Decimal::new(program, 1)?), Values::Decimal(Vec::new())),
        "optional" => {
            let (inner, column) = column(&rule(program, 2)?, true)?;
            return Ok((Node::Optional(rule(program, 1)?, Box::new(inner)), column));
        }
        "text" => {
            let named: Vec<Bound<'_, PyTuple>> = rule(program, 2)?;
            let named = named.iter().map(Text::new).collect::<PyResult<_>>()?;
            (
                Node::Text(Text::new(&rule(program, 1)?)?, named),
                Values::Bytes(Texts::default()),
            )
        }
        "array" => {
            let (item, column) = column(&rule(program, 1)?, false)?;
            (
                Node::Array(Box::new(item)),
                Values::List(Offsets::default(), Box::new(column)),
            )
        }
        "map" => {
            let (value, column) = column(&rule(program, 1)?, false)?;
            (
                Node::Map(Box::new(value)),
                Values::Map(Offsets::default(), Texts::default(), Box::new(column)),
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
            (Node::Fixed(size), Values::Bytes(texts)) => push_bytes(texts, input.take(*size)?)?,
            (Node::Enum(symbols), Values::Bytes(texts)) => {
                let number = usize::try_from(input.zigzag()?).map_err(|_| Refused)?;
                push_bytes(texts, symbols.get(number).ok_or(Refused)?.as_bytes())?;
            }
            (Node::Date(low, high), Values::Int(values)) => values.push(narrow(within(input, *low, *high)?)?),
            (Node::Time(low, high, factor), Values::Long(values)) => values.push(within(input, *low, *high)? * factor),
            (Node::Nanos, Values::Long(values)) => {
                let value = input.zigzag()?;
                if value % MICRO != 0 {
                    return Err(Refused);
                }
                values.push(value / MICRO);
            }
            (Node::Decimal(decimal), Values::Decimal(values)) => values.push(decimal.read(input)?),
            (Node::Map(value), Values::Map(ends, names, column)) => {
                let first = ends.end();
                blocks(input, |input| {
                    push_text(names, chunk(input)?)?;
                    value.read(input, column)
                })?;
                names.check_distinct(first)?;
                ends.push(column.len())?;
            }
            (Node::Array(item), Values::List(ends, column)) => {
                blocks(input, |input| item.read(input, column))?;
                ends.push(column.len())?;
            }
            (Node::Text(text, named), Values::Bytes(texts)) => {
                text.write(input, &mut texts.bytes, named, 0)?;
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

/// Read the items of the blocks of an array, or a map. Schemas have no items without bytes, so that a count cannot promise more than there is.
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
pub fn within(input: &mut Input<'_>, low: i64, high: i64) -> Scanned<i64> {
    let value = input.zigzag()?;
    if low <= value && value <= high {
        Ok(value)
    } else {
        Err(Refused)
    }
}
