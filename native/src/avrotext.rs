//! Avro's binary encoding into JSON text, which is what columns hold of unions of several types.
//!
//! The text is that which the slow path writes of the same value, to the byte.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::avro::{blocks, chunk, narrow};
use crate::binary::Input;
use crate::json::{Refused, Scanned};
use crate::program::rule;

/// Between these every writer of numbers does without exponents.
const SMALL: f64 = 1e-3;
const LARGE: f64 = 1e15;

/// How a value is read.
pub enum Text {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    String,
    /// Symbols need no escapes.
    Enum(Vec<String>),
    Array(Box<Text>),
    Union(Vec<Text>),
    /// Names, which need no escapes, with their values.
    Object(Vec<(String, Text)>),
}

impl Text {
    pub fn new(program: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let name: String = rule(program, 0)?;
        Ok(match name.as_str() {
            "null" => Text::Null,
            "boolean" => Text::Boolean,
            "int" => Text::Int,
            "long" => Text::Long,
            "float" => Text::Float,
            "double" => Text::Double,
            "string" => Text::String,
            "enum" => Text::Enum(rule(program, 1)?),
            "array" => Text::Array(Box::new(Text::new(&rule(program, 1)?)?)),
            "union" => {
                let branches: Vec<Bound<'_, PyTuple>> = rule(program, 1)?;
                Text::Union(branches.iter().map(Text::new).collect::<PyResult<_>>()?)
            }
            "object" => {
                let members: Vec<(String, Bound<'_, PyTuple>)> = rule(program, 1)?;
                let made = members
                    .into_iter()
                    .map(|(name, member)| Ok((name, Text::new(&member)?)));
                Text::Object(made.collect::<PyResult<_>>()?)
            }
            _ => return Err(PyValueError::new_err(format!("Avro has no text of kind {name:?}"))),
        })
    }

    /// Add the text of the next value.
    pub fn write(&self, input: &mut Input<'_>, out: &mut Vec<u8>) -> Scanned<()> {
        match self {
            Text::Null => out.extend_from_slice(b"null"),
            Text::Boolean => out.extend_from_slice(match input.byte()? {
                0 => b"false",
                1 => b"true",
                _ => return Err(Refused),
            }),
            Text::Int => out.extend_from_slice(narrow(input.zigzag()?)?.to_string().as_bytes()),
            Text::Long => out.extend_from_slice(input.zigzag()?.to_string().as_bytes()),
            Text::Float => number(f32::from_le_bytes(input.fixed()?).into(), out)?,
            Text::Double => number(f64::from_le_bytes(input.fixed()?), out)?,
            Text::String => quote(std::str::from_utf8(chunk(input)?).map_err(|_| Refused)?, out),
            Text::Enum(symbols) => {
                let number = usize::try_from(input.zigzag()?).map_err(|_| Refused)?;
                quote(symbols.get(number).ok_or(Refused)?, out);
            }
            Text::Array(item) => {
                out.push(b'[');
                let start = out.len();
                blocks(input, |input| {
                    separate(out, start);
                    item.write(input, out)
                })?;
                out.push(b']');
            }
            Text::Union(branches) => {
                let number = usize::try_from(input.zigzag()?).map_err(|_| Refused)?;
                branches.get(number).ok_or(Refused)?.write(input, out)?;
            }
            Text::Object(members) => {
                out.push(b'{');
                let start = out.len();
                for (name, member) in members {
                    separate(out, start);
                    quote(name, out);
                    out.push(b':');
                    member.write(input, out)?;
                }
                out.push(b'}');
            }
        }
        Ok(())
    }
}

fn separate(out: &mut Vec<u8>, start: usize) {
    if out.len() > start {
        out.push(b',');
    }
}

/// Numbers that writers write in different ways are refused.
fn number(value: f64, out: &mut Vec<u8>) -> Scanned<()> {
    if value != 0.0 && !(SMALL..LARGE).contains(&value.abs()) {
        return Err(Refused);
    }
    out.extend_from_slice(format!("{value:?}").as_bytes());
    Ok(())
}

fn quote(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            8 => out.extend_from_slice(b"\\b"),
            9 => out.extend_from_slice(b"\\t"),
            10 => out.extend_from_slice(b"\\n"),
            12 => out.extend_from_slice(b"\\f"),
            13 => out.extend_from_slice(b"\\r"),
            0..=31 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
