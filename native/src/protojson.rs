//! Protobuf's JSON mapping into the columns of a message type.
//!
//! Taken is what serializers write. What parsers accept besides, such as null for a field that is not set, is refused:
//! the slow path then does as they do.

use crate::base64;
use crate::binary::{push_bytes, Column, Values};
use crate::json::{Refused, Scanned, Scanner};
use crate::protobuf::{Field, Kind, Message};
use crate::wellknown::{is_mask, Moment};

/// Digits of the longest number of 64 bits, and its sign.
const LONGEST: usize = 20;
/// Read one payload whole; what is refused leaves no trace.
pub fn read(message: &Message, column: &mut Column, payload: &str) -> Scanned<()> {
    let rows = column.len();
    let mut scanner = Scanner::new(payload);
    scanner.space();
    let found = object(message, column, &mut scanner, 1).and_then(|()| scanner.end());
    if found.is_err() {
        column.truncate(rows);
    }
    found
}

fn object(message: &Message, column: &mut Column, scanner: &mut Scanner<'_>, depth: usize) -> Scanned<()> {
    let (rows, columns) = match &mut column.values {
        Values::Record(rows, columns) => (rows, columns),
        _ => return Err(Refused),
    };
    let (mut next, mut chosen) = (0, 0_u64);
    let mut more = scanner.open(b'{', b'}', depth)?;
    while more {
        scanner.space();
        let field = member(message, scanner, &mut next)?;
        let column = &mut columns[field.place];
        // One row more than the message has: the field was there already.
        if column.len() > *rows {
            return Err(Refused);
        }
        field.choose(&mut chosen)?;
        if let Kind::Entry(key, kind, _) = &field.kind {
            map(key, kind, column, scanner, depth + 1)?;
        } else if field.repeated {
            list(field, column, scanner, depth + 1)?;
        } else {
            value(&field.kind, column, scanner, depth)?;
        }
        more = scanner.more(b'}')?;
    }
    for field in &message.fields {
        let column = &mut columns[field.place];
        if column.len() == *rows {
            field.complete(*rows, column)?;
        }
    }
    *rows += 1;
    column.there();
    Ok(())
}

/// Past a name and its colon; the field it is of, likely the one behind the last.
#[inline(always)]
fn member<'m>(message: &'m Message, scanner: &mut Scanner<'_>, next: &mut usize) -> Scanned<&'m Field> {
    if let Some(field) = message.fields.get(*next) {
        if scanner.key(&field.key) {
            scanner.space();
            *next += 1;
            return Ok(field);
        }
    }
    let name = scanner.string()?.text()?;
    scanner.colon()?;
    let place = *message.names.get(&*name).ok_or(Refused)?;
    *next = place + 1;
    Ok(&message.fields[place])
}

fn list(field: &Field, column: &mut Column, scanner: &mut Scanner<'_>, depth: usize) -> Scanned<()> {
    let (ends, items) = match &mut column.values {
        Values::List(ends, items) => (ends, items),
        _ => return Err(Refused),
    };
    let mut more = scanner.open(b'[', b']', depth)?;
    while more {
        scanner.space();
        value(&field.kind, items, scanner, depth)?;
        more = scanner.more(b']')?;
    }
    ends.push(items.len())?;
    column.there();
    Ok(())
}

fn map(key: &Kind, kind: &Kind, column: &mut Column, scanner: &mut Scanner<'_>, depth: usize) -> Scanned<()> {
    let (ends, names, values) = match &mut column.values {
        Values::Map(ends, names, values) => (ends, names, values),
        _ => return Err(Refused),
    };
    let first = ends.end();
    let mut more = scanner.open(b'{', b'}', depth)?;
    while more {
        scanner.space();
        let name = scanner.string()?.text()?;
        check_key(key, &name)?;
        push_bytes(names, &name)?;
        scanner.colon()?;
        value(kind, values, scanner, depth)?;
        more = scanner.more(b'}')?;
    }
    names.check_distinct(first)?;
    ends.push(values.len())?;
    column.there();
    Ok(())
}

/// A key has to be written as serializers do.
fn check_key(kind: &Kind, name: &[u8]) -> Scanned<()> {
    let sound = match kind {
        Kind::String => true,
        Kind::Bool => matches!(name, b"true" | b"false"),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => is_key::<i32>(name)?,
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => is_key::<i64>(name)?,
        Kind::Uint32 | Kind::Fixed32 => is_key::<u32>(name)?,
        _ => is_key::<u64>(name)?,
    };
    if sound {
        Ok(())
    } else {
        Err(Refused)
    }
}

fn is_key<T: TryFrom<i128> + ToString>(name: &[u8]) -> Scanned<bool> {
    let found = T::try_from(whole(name)?).map_err(|_| Refused)?;
    Ok(found.to_string().as_bytes() == name)
}

fn value(kind: &Kind, column: &mut Column, scanner: &mut Scanner<'_>, depth: usize) -> Scanned<()> {
    if let Kind::Message(message) = kind {
        return object(message, column, scanner, depth + 1);
    }
    if let Kind::Wrapped(kind) = kind {
        return value(kind, column, scanner, depth);
    }
    match (kind, &mut column.values) {
        (Kind::Bool, Values::Bool(values)) => {
            let value = scanner.peek() == b't';
            scanner.word(if value { b"true" } else { b"false" })?;
            values.push(value);
        }
        (Kind::Int32 | Kind::Sint32 | Kind::Sfixed32, Values::Int(values)) => values.push(integer(scanner)?),
        (Kind::Int64 | Kind::Sint64 | Kind::Sfixed64, Values::Long(values)) => values.push(integer(scanner)?),
        (Kind::Uint32 | Kind::Fixed32, Values::Long(values)) => {
            let value: u32 = integer(scanner)?;
            values.push(value.into());
        }
        (Kind::Uint64 | Kind::Fixed64, Values::Decimal(values)) => {
            let value: u64 = integer(scanner)?;
            values.push(value.into());
        }
        (Kind::Float, Values::Float(values)) => {
            let value = float(scanner)?;
            if value.is_finite() && value.abs() > f64::from(f32::MAX) {
                return Err(Refused);
            }
            values.push(value as f32);
        }
        (Kind::Double, Values::Double(values)) => values.push(float(scanner)?),
        (Kind::String, Values::Bytes(texts)) => {
            scanner.string()?.append(&mut texts.bytes)?;
            texts.close()?;
        }
        (Kind::Bytes, Values::Bytes(texts)) => {
            base64::decode(&scanner.string()?.text()?, &mut texts.bytes)?;
            texts.close()?;
        }
        (Kind::Enum(names), Values::Bytes(texts)) => push_bytes(texts, named(names, scanner)?)?,
        (Kind::Timestamp, Values::Long(values)) => {
            values.push(Moment::timestamp_text(&scanner.string()?.text()?)?.micros()?);
        }
        (Kind::Duration, Values::Decimal(values)) => {
            values.push(Moment::duration_text(&scanner.string()?.text()?)?.nanos());
        }
        (_, Values::Bytes(texts)) => {
            text(kind, scanner, &mut texts.bytes, depth)?;
            texts.close()?;
        }
        _ => return Err(Refused),
    }
    column.there();
    Ok(())
}

/// Add the text that a column has of a message.
fn text(kind: &Kind, scanner: &mut Scanner<'_>, out: &mut Vec<u8>, depth: usize) -> Scanned<()> {
    match kind {
        Kind::Free(free) => return free.copy(scanner, out, depth + 1),
        Kind::Empty if !scanner.open(b'{', b'}', depth + 1)? => out.extend_from_slice(b"{}"),
        Kind::TimestampText => Moment::timestamp_text(&scanner.string()?.text()?)?.write_timestamp(out),
        Kind::DurationText => Moment::duration_text(&scanner.string()?.text()?)?.write_duration(out),
        Kind::FieldMask => {
            let text = scanner.string()?.text()?;
            if !is_mask(&text) {
                return Err(Refused);
            }
            out.extend_from_slice(&text);
        }
        _ => return Err(Refused),
    }
    Ok(())
}

/// A number, or one in quotes, as those of 64 bits are written.
fn integer<T: TryFrom<i128>>(scanner: &mut Scanner<'_>) -> Scanned<T> {
    let value = if scanner.peek() == b'"' {
        whole(scanner.string()?.raw)?
    } else {
        let number = scanner.number()?;
        if number.whole {
            whole(number.raw)?
        } else {
            number.integral()?.into()
        }
    };
    T::try_from(value).map_err(|_| Refused)
}

fn whole(raw: &[u8]) -> Scanned<i128> {
    let digits = raw.strip_prefix(b"-").unwrap_or(raw);
    if digits.is_empty() || digits.len() > LONGEST || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Refused);
    }
    let value = digits.iter().fold(0, |sum, digit| sum * 10 + i128::from(digit - b'0'));
    Ok(if digits.len() < raw.len() { -value } else { value })
}

fn float(scanner: &mut Scanner<'_>) -> Scanned<f64> {
    if scanner.peek() != b'"' {
        return scanner.number()?.float();
    }
    match scanner.string()?.raw {
        b"NaN" => Ok(f64::NAN),
        b"Infinity" => Ok(f64::INFINITY),
        b"-Infinity" => Ok(f64::NEG_INFINITY),
        _ => Err(Refused),
    }
}

/// The name of an enum's value, which is given by it or by its number.
fn named<'n>(names: &'n [(i64, String)], scanner: &mut Scanner<'_>) -> Scanned<&'n [u8]> {
    let place = if scanner.peek() == b'"' {
        let name = scanner.string()?.text()?;
        names.iter().position(|(_, known)| known.as_bytes() == &*name)
    } else {
        let number = scanner.number()?.integer()?;
        names.binary_search_by_key(&number, |(number, _)| *number).ok()
    };
    Ok(names[place.ok_or(Refused)?].1.as_bytes())
}
