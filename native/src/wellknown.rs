//! Protobuf's well-known types, in binary and in JSON, as columns hold them.

use crate::avrotext::{number, quote, separate};
use crate::binary::{push_bytes, Input};
use crate::columns::Texts;
use crate::json::{Refused, Scanned, Scanner, MAX_DEPTH};
use crate::protobuf::chunk;
use crate::times;

const NANOS: i64 = 1_000_000_000;
const MICRO: i64 = 1000;
/// The years 1 to 9999 in seconds, which is all that a `Timestamp` may be.
const SECONDS: std::ops::Range<i64> = -62_135_596_800..253_402_300_800;
/// What a `Duration` may be, in seconds: 10,000 years.
const LONGEST: i64 = 315_576_000_000;
/// A time as serializers write it, without fraction and zone: 2026-01-02T03:04:05.
const PLAIN: usize = 19;
/// The place of its T, and that of its tens of seconds.
const T: usize = 10;
const TENS: usize = 17;
/// Digits behind a second; parsers take no more.
const DIGITS: usize = 9;
/// Objects and arrays in each other: parsers count messages, of which there are three for each.
const MOST_LEVELS: usize = 10;
const MESSAGES: usize = 3;
const NUMBER: u8 = 2 << 3 | 1;
const STRING: u8 = 3 << 3 | 2;
const STRUCT: u8 = 5 << 3 | 2;
const LIST: u8 = 6 << 3 | 2;

/// Seconds and nanoseconds.
#[derive(Clone, Copy)]
pub struct Moment {
    seconds: i64,
    nanos: i64,
}

impl Moment {
    /// A message of those two, with each of its fields once at most.
    fn binary(raw: &[u8]) -> Scanned<Self> {
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
        Ok(Moment {
            seconds: seconds.unwrap_or(0),
            nanos: nanos.unwrap_or(0),
        })
    }

    pub fn timestamp(raw: &[u8]) -> Scanned<Self> {
        let found = Moment::binary(raw)?;
        check(SECONDS.contains(&found.seconds) && (0..NANOS).contains(&found.nanos))?;
        Ok(found)
    }

    pub fn duration(raw: &[u8]) -> Scanned<Self> {
        let found = Moment::binary(raw)?;
        check((-LONGEST..=LONGEST).contains(&found.seconds) && (1 - NANOS..NANOS).contains(&found.nanos))?;
        check(found.seconds.signum() * found.nanos.signum() >= 0)?;
        Ok(found)
    }

    /// A time in UTC.
    pub fn timestamp_text(text: &[u8]) -> Scanned<Self> {
        let (plain, rest) = (text.get(..PLAIN).ok_or(Refused)?, &text[PLAIN..]);
        check(plain[T] == b'T' && plain[TENS] < b'6')?;
        let nanos = behind(rest.strip_suffix(b"Z").ok_or(Refused)?)?;
        let (micros, _) = times::instant(&[plain, b"Z"].concat()).ok_or(Refused)?;
        let seconds = micros / (NANOS / MICRO);
        Ok(Moment { seconds, nanos })
    }

    pub fn duration_text(text: &[u8]) -> Scanned<Self> {
        let text = text.strip_suffix(b"s").ok_or(Refused)?;
        let (sign, text) = match text.strip_prefix(b"-") {
            Some(rest) => (-1, rest),
            None => (1, text),
        };
        let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        check((1..=LONGEST_DIGITS).contains(&count) && (count == 1 || text[0] != b'0'))?;
        let seconds = whole(&text[..count]);
        check(seconds <= LONGEST)?;
        Ok(Moment {
            seconds: sign * seconds,
            nanos: sign * behind(&text[count..])?,
        })
    }

    /// Microseconds, if there is nothing finer.
    pub fn micros(self) -> Scanned<i64> {
        check(self.nanos % MICRO == 0)?;
        Ok(self.seconds * (NANOS / MICRO) + self.nanos / MICRO)
    }

    /// Nanoseconds.
    pub fn nanos(self) -> i128 {
        i128::from(self.seconds) * i128::from(NANOS) + i128::from(self.nanos)
    }

    pub fn write_timestamp(self, out: &mut Vec<u8>) {
        times::write_instant(self.seconds, out);
        write_behind(self.nanos, out);
        out.push(b'Z');
    }

    pub fn write_duration(self, out: &mut Vec<u8>) {
        if self.seconds < 0 || self.nanos < 0 {
            out.push(b'-');
        }
        out.extend_from_slice(self.seconds.abs().to_string().as_bytes());
        write_behind(self.nanos.abs(), out);
        out.push(b's');
    }
}

/// Digits of the longest `Duration`.
const LONGEST_DIGITS: usize = 12;

fn check(sound: bool) -> Scanned<()> {
    if sound {
        Ok(())
    } else {
        Err(Refused)
    }
}

fn whole(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'))
}

/// Nanoseconds of nothing, or of a point and digits.
fn behind(text: &[u8]) -> Scanned<i64> {
    if text.is_empty() {
        return Ok(0);
    }
    let digits = text.strip_prefix(b".").ok_or(Refused)?;
    check((1..=DIGITS).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit))?;
    Ok(whole(digits) * 10_i64.pow((DIGITS - digits.len()) as u32))
}

/// Three, six or nine digits, where there are any.
fn write_behind(nanos: i64, out: &mut Vec<u8>) {
    let text = if nanos == 0 {
        return;
    } else if nanos % 1_000_000 == 0 {
        format!(".{:03}", nanos / 1_000_000)
    } else if nanos % MICRO == 0 {
        format!(".{:06}", nanos / MICRO)
    } else {
        format!(".{nanos:09}")
    };
    out.extend_from_slice(text.as_bytes());
}

/// Add a `FieldMask`: names of fields in camel case, with commas between paths.
pub fn write_mask(raw: &[u8], out: &mut Vec<u8>) -> Scanned<()> {
    let mut input = Input::new(raw);
    let start = out.len();
    let mut first = true;
    while !input.is_empty() {
        check(input.byte()? == 0x0A)?;
        if !first {
            out.push(b',');
        }
        first = false;
        let mut after = false;
        for byte in chunk(&mut input)? {
            match byte {
                b'_' if !after => after = true,
                b'a'..=b'z' if after => {
                    out.push(byte.to_ascii_uppercase());
                    after = false;
                }
                b'a'..=b'z' | b'0'..=b'9' | b'.' if !after => out.push(*byte),
                _ => return Err(Refused),
            }
        }
        check(!after)?;
    }
    // One empty path is none to readers of the text.
    check(first || out.len() > start)
}

/// Whether the text of a `FieldMask` is the one that serializers write of it.
pub fn is_mask(text: &[u8]) -> bool {
    text.iter()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b','))
}

/// Which message has JSON in it.
#[derive(Clone, Copy, PartialEq)]
pub enum Free {
    Struct,
    Value,
    List,
}

impl Free {
    /// Add the text of a message.
    pub fn write(self, raw: &[u8], out: &mut Vec<u8>) -> Scanned<()> {
        self.inside(raw, out, 0)
    }

    fn inside(self, raw: &[u8], out: &mut Vec<u8>, level: usize) -> Scanned<()> {
        check(level < MOST_LEVELS)?;
        let mut input = Input::new(raw);
        match self {
            Free::Value => value(&mut input, out, level),
            Free::List => {
                out.push(b'[');
                let start = out.len();
                while !input.is_empty() {
                    check(input.byte()? == 0x0A)?;
                    separate(out, start);
                    Free::Value.inside(chunk(&mut input)?, out, level + 1)?;
                }
                out.push(b']');
                Ok(())
            }
            Free::Struct => {
                out.push(b'{');
                let start = out.len();
                let mut names = Texts::default();
                while !input.is_empty() {
                    check(input.byte()? == 0x0A)?;
                    separate(out, start);
                    member(chunk(&mut input)?, &mut names, out, level)?;
                }
                out.push(b'}');
                names.check_distinct(0)
            }
        }
    }

    /// Past its JSON, of which the text that serializers write is added.
    pub fn copy(self, scanner: &mut Scanner<'_>, out: &mut Vec<u8>, depth: usize) -> Scanned<()> {
        check(match self {
            Free::Struct => scanner.peek() == b'{',
            Free::List => scanner.peek() == b'[',
            Free::Value => true,
        })?;
        copy(scanner, out, depth)
    }
}

/// A name and its value.
fn member(raw: &[u8], names: &mut Texts, out: &mut Vec<u8>, level: usize) -> Scanned<()> {
    let mut input = Input::new(raw);
    check(input.byte()? == 0x0A)?;
    let name = std::str::from_utf8(chunk(&mut input)?).map_err(|_| Refused)?;
    push_bytes(names, name.as_bytes())?;
    quote(name, out);
    out.push(b':');
    check(input.byte()? == 0x12)?;
    Free::Value.inside(chunk(&mut input)?, out, level + 1)?;
    check(input.is_empty())
}

/// One of the members of a choice; null where it has none.
fn value(input: &mut Input<'_>, out: &mut Vec<u8>, level: usize) -> Scanned<()> {
    if input.is_empty() {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    match input.byte()? {
        0x08 if input.byte()? == 0 => out.extend_from_slice(b"null"),
        NUMBER => number(f64::from_le_bytes(input.fixed()?), out)?,
        STRING => quote(std::str::from_utf8(chunk(input)?).map_err(|_| Refused)?, out),
        0x20 => out.extend_from_slice(match input.byte()? {
            0 => b"false",
            1 => b"true",
            _ => return Err(Refused),
        }),
        STRUCT => Free::Struct.inside(chunk(input)?, out, level)?,
        LIST => Free::List.inside(chunk(input)?, out, level)?,
        _ => return Err(Refused),
    }
    check(input.is_empty())
}

fn copy(scanner: &mut Scanner<'_>, out: &mut Vec<u8>, depth: usize) -> Scanned<()> {
    check(depth <= MAX_DEPTH)?;
    scanner.space();
    match scanner.peek() {
        b'"' => {
            let text = scanner.string()?.text()?;
            quote(std::str::from_utf8(&text).map_err(|_| Refused)?, out);
        }
        b't' => {
            scanner.word(b"true")?;
            out.extend_from_slice(b"true");
        }
        b'f' => {
            scanner.word(b"false")?;
            out.extend_from_slice(b"false");
        }
        b'n' => {
            scanner.word(b"null")?;
            out.extend_from_slice(b"null");
        }
        b'[' => {
            let mut more = scanner.open(b'[', b']', depth)?;
            out.push(b'[');
            let start = out.len();
            while more {
                separate(out, start);
                copy(scanner, out, depth + MESSAGES)?;
                more = scanner.more(b']')?;
            }
            out.push(b']');
        }
        b'{' => copy_object(scanner, out, depth)?,
        _ => number(scanner.number()?.float()?, out)?,
    }
    Ok(())
}

fn copy_object(scanner: &mut Scanner<'_>, out: &mut Vec<u8>, depth: usize) -> Scanned<()> {
    let mut more = scanner.open(b'{', b'}', depth)?;
    out.push(b'{');
    let start = out.len();
    let mut names = Texts::default();
    while more {
        scanner.space();
        let name = scanner.string()?.text()?;
        push_bytes(&mut names, &name)?;
        separate(out, start);
        quote(std::str::from_utf8(&name).map_err(|_| Refused)?, out);
        out.push(b':');
        scanner.colon()?;
        copy(scanner, out, depth + MESSAGES)?;
        more = scanner.more(b'}')?;
    }
    out.push(b'}');
    names.check_distinct(0)
}
