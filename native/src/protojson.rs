//! Protobuf's JSON mapping into the columns of a message type.
//!
//! Taken is what serializers write. What parsers accept besides, such as null for a field that is not set, is refused:
//! the slow path then does as they do.

use crate::binary::{push_bytes, Column, Values};
use crate::columns::Texts;
use crate::json::{Refused, Scanned, Scanner};
use crate::protobuf::{Field, Kind, Message};
use crate::times;

/// Digits of the longest number of 64 bits, and its sign.
const LONGEST: usize = 20;
/// A time as serializers write it, without fraction: 2026-01-02T03:04:05Z.
const SHORTEST_TIME: usize = 20;
/// One with nine digits behind the second; parsers take no more.
const LONGEST_TIME: usize = 30;
/// The place of its T, and those of its seconds.
const T: usize = 10;
const TENS: usize = 17;

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
        if field.repeated {
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
        (Kind::Uint64 | Kind::Fixed64, Values::Decimal(values)) => values.push(integer(scanner)?),
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
        (Kind::Bytes, Values::Bytes(texts)) => base64(&scanner.string()?.text()?, texts)?,
        (Kind::Enum(names), Values::Bytes(texts)) => push_bytes(texts, named(names, scanner)?)?,
        (Kind::Timestamp, Values::Long(values)) => values.push(instant(&scanner.string()?.text()?)?),
        _ => return Err(Refused),
    }
    column.there();
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

/// Add the bytes of Base64 as a row, in either alphabet (RFC 4648, 4 and 5), padded or not.
fn base64(text: &[u8], into: &mut Texts) -> Scanned<()> {
    let digits = match text {
        [digits @ .., b'=', b'='] | [digits @ .., b'='] if text.len() % 4 == 0 => digits,
        _ => text,
    };
    for group in digits.chunks(4) {
        let mut word = 0;
        for digit in group {
            word = word << 6 | sextet(*digit)?;
        }
        word <<= 6 * (4 - group.len());
        if group.len() == 1 {
            return Err(Refused);
        }
        into.bytes.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    into.close()
}

fn sextet(digit: u8) -> Scanned<u32> {
    Ok(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return Err(Refused),
    }))
}

/// Microseconds since 1970 of a time in UTC; what has finer digits has no column.
fn instant(text: &[u8]) -> Scanned<i64> {
    let plain = text.len() >= SHORTEST_TIME && text[T] == b'T' && text[TENS] < b'6' && text.ends_with(b"Z");
    match times::instant(text) {
        Some((micros, true)) if plain && text.len() <= LONGEST_TIME => Ok(micros),
        _ => Err(Refused),
    }
}
