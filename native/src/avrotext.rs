//! Avro's binary encoding into JSON text, which is what columns hold of unions of several types, and of types inside themselves.
//!
//! The text is that which the slow path writes of the same value, to the byte.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::avro::{blocks, chunk, narrow, within, Decimal};
use crate::base64;
use crate::binary::{push_bytes, Input};
use crate::columns::Texts;
use crate::json::{Refused, Scanned, MAX_DEPTH};
use crate::program::rule;
use crate::times;

/// Between these every writer of numbers does without exponents.
const SMALL: f64 = 1e-3;
const LARGE: f64 = 1e15;
const MICROS: i64 = 1_000_000;
/// Zeros in front of the first digit of a decimal, beyond which Python writes an exponent.
const ZEROS: usize = 6;

/// How a value is read.
pub enum Text {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    String,
    Bytes,
    Fixed(usize),
    /// Within bounds, as in `avro::Node`; of times so many microseconds each.
    Date(i64, i64),
    Clock(i64, i64, i64),
    Instant(i64, i64, i64),
    /// With so many digits behind the point.
    Decimal(Decimal, usize),
    /// Symbols need no escapes.
    Enum(Vec<String>),
    Array(Box<Text>),
    Map(Box<Text>),
    Union(Vec<Text>),
    /// Names, which need no escapes, with their values.
    Object(Vec<(String, Text)>),
    /// A type that contains itself, by its number.
    Named(usize),
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
            "bytes" => Text::Bytes,
            "fixed" => Text::Fixed(rule(program, 1)?),
            "date" => Text::Date(rule(program, 1)?, rule(program, 2)?),
            "clock" => Text::Clock(rule(program, 1)?, rule(program, 2)?, rule(program, 3)?),
            "instant" => Text::Instant(rule(program, 1)?, rule(program, 2)?, rule(program, 3)?),
            "decimal" => Text::Decimal(Decimal::new(program, 1)?, rule(program, 3)?),
            "named" => Text::Named(rule(program, 1)?),
            "enum" => Text::Enum(rule(program, 1)?),
            "array" => Text::Array(Box::new(Text::new(&rule(program, 1)?)?)),
            "map" => Text::Map(Box::new(Text::new(&rule(program, 1)?)?)),
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

    /// Add the text of the next value, which `depth` others are around; `named` are types by their numbers.
    pub fn write(&self, input: &mut Input<'_>, out: &mut Vec<u8>, named: &[Text], depth: usize) -> Scanned<()> {
        if depth > MAX_DEPTH {
            return Err(Refused);
        }
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
            Text::Bytes => quote_bytes(chunk(input)?, out),
            Text::Fixed(size) => quote_bytes(input.take(*size)?, out),
            Text::Date(low, high) => {
                out.push(b'"');
                times::write_date(narrow(within(input, *low, *high)?)?.into(), out);
                out.push(b'"');
            }
            Text::Clock(low, high, factor) => {
                let micros = within(input, *low, *high)? * factor;
                out.push(b'"');
                times::write_clock(micros / MICROS, out);
                fraction(micros % MICROS, out);
                out.push(b'"');
            }
            Text::Instant(low, high, factor) => {
                let micros = within(input, *low, *high)? * factor;
                out.push(b'"');
                times::write_instant(micros.div_euclid(MICROS), out);
                fraction(micros.rem_euclid(MICROS), out);
                out.extend_from_slice(b"Z\"");
            }
            Text::Decimal(decimal, scale) => quote_decimal(decimal.read(input)?, *scale, out)?,
            Text::Named(number) => named.get(*number).ok_or(Refused)?.write(input, out, named, depth + 1)?,
            Text::Enum(symbols) => {
                let number = usize::try_from(input.zigzag()?).map_err(|_| Refused)?;
                quote(symbols.get(number).ok_or(Refused)?, out);
            }
            Text::Array(item) => {
                out.push(b'[');
                let start = out.len();
                blocks(input, |input| {
                    separate(out, start);
                    item.write(input, out, named, depth + 1)
                })?;
                out.push(b']');
            }
            Text::Map(value) => {
                out.push(b'{');
                let start = out.len();
                let mut names = Texts::default();
                blocks(input, |input| {
                    let name = std::str::from_utf8(chunk(input)?).map_err(|_| Refused)?;
                    push_bytes(&mut names, name.as_bytes())?;
                    separate(out, start);
                    quote(name, out);
                    out.push(b':');
                    value.write(input, out, named, depth + 1)
                })?;
                names.check_distinct(0)?;
                out.push(b'}');
            }
            Text::Union(branches) => {
                let number = usize::try_from(input.zigzag()?).map_err(|_| Refused)?;
                let branch = branches.get(number).ok_or(Refused)?;
                branch.write(input, out, named, depth)?;
            }
            Text::Object(members) => {
                out.push(b'{');
                let start = out.len();
                for (name, member) in members {
                    separate(out, start);
                    quote(name, out);
                    out.push(b':');
                    member.write(input, out, named, depth + 1)?;
                }
                out.push(b'}');
            }
        }
        Ok(())
    }
}

pub fn separate(out: &mut Vec<u8>, start: usize) {
    if out.len() > start {
        out.push(b',');
    }
}

/// Digits behind the second, where there are any.
fn fraction(micros: i64, out: &mut Vec<u8>) {
    if micros > 0 {
        out.extend_from_slice(format!(".{micros:06}").as_bytes());
    }
}

fn quote_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    base64::encode(bytes, out);
    out.push(b'"');
}

/// A number as Python writes it, but for those that have an exponent there.
fn quote_decimal(digits: i128, scale: usize, out: &mut Vec<u8>) -> Scanned<()> {
    let text = digits.unsigned_abs().to_string();
    if scale >= text.len() + ZEROS {
        return Err(Refused);
    }
    let text = format!("{text:0>width$}", width = scale + 1);
    let (whole, behind) = text.split_at(text.len() - scale);
    let sign = if digits < 0 { "-" } else { "" };
    let point = if scale > 0 { "." } else { "" };
    out.extend_from_slice(format!("\"{sign}{whole}{point}{behind}\"").as_bytes());
    Ok(())
}

/// Numbers that writers write in different ways are refused.
pub fn number(value: f64, out: &mut Vec<u8>) -> Scanned<()> {
    if value != 0.0 && !(SMALL..LARGE).contains(&value.abs()) {
        return Err(Refused);
    }
    out.extend_from_slice(format!("{value:?}").as_bytes());
    Ok(())
}

pub fn quote(text: &str, out: &mut Vec<u8>) {
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
