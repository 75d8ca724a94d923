//! Patterns of JSON Schema (ECMA-262) in the syntax of the crate `regex`.

use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

use regex::{Regex, RegexBuilder};

/// Bytes that a pattern may take when it is compiled, such as one with `{1,1000}`.
const MOST_BYTES: usize = 1 << 26;

/// A compiled pattern; `None` for one that the engine has no form for.
pub(crate) fn compiled(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(&translated(pattern)?)
        .size_limit(MOST_BYTES)
        .build()
        .ok()
}

fn translated(pattern: &str) -> Option<String> {
    let mut made = String::with_capacity(pattern.len());
    let mut in_class = false;
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => escape(&mut made, &mut characters, in_class)?,
            '[' if !in_class => {
                in_class = true;
                made.push('[');
            }
            ']' => {
                in_class = false;
                made.push(']');
            }
            other => made.push(other),
        }
    }
    Some(made)
}

/// An escape, whose backslash is taken already: digits, words and their borders are those of ASCII in ECMA-262.
fn escape(made: &mut String, rest: &mut Peekable<Chars<'_>>, in_class: bool) -> Option<()> {
    let kind = rest.next()?;
    match kind {
        'd' if in_class => made.push_str("0-9"),
        'w' if in_class => made.push_str("0-9A-Za-z_"),
        'd' => made.push_str("[0-9]"),
        'w' => made.push_str("[0-9A-Za-z_]"),
        'D' => made.push_str("[^0-9]"),
        'W' => made.push_str("[^0-9A-Za-z_]"),
        'b' if in_class => made.push_str(r"\x08"),
        'b' => made.push_str(r"(?-u:\b)"),
        'B' => made.push_str(r"(?-u:\B)"),
        'n' | 'r' | 't' | 'f' | 'v' | 'p' | 'P' => {
            made.push('\\');
            made.push(kind);
        }
        'u' | 'x' => code(made, kind, rest)?,
        other if other.is_ascii_punctuation() || other == ' ' => {
            write!(made, r"\x{:02x}", u32::from(other)).ok()?;
        }
        _ => return None, // such as a reference to a group, which an engine of linear time has not
    }
    Some(())
}

/// A character by its code; two halves of one are put together.
fn code(made: &mut String, kind: char, rest: &mut Peekable<Chars<'_>>) -> Option<()> {
    let mut found = if kind == 'u' && rest.peek() == Some(&'{') {
        let digits: String = rest.skip(1).take_while(|each| *each != '}').collect();
        u32::from_str_radix(&digits, 16).ok()?
    } else {
        hexadecimal(rest, if kind == 'u' { 4 } else { 2 })?
    };
    if (0xd800..0xdc00).contains(&found) {
        (rest.next()? == '\\' && rest.next()? == 'u').then_some(())?;
        let low = hexadecimal(rest, 4)?.checked_sub(0xdc00)?;
        found = 0x1_0000 + ((found - 0xd800) << 10) + low;
    }
    write!(made, r"\x{{{found:x}}}").ok()
}

fn hexadecimal(rest: &mut Peekable<Chars<'_>>, count: usize) -> Option<u32> {
    let digits: String = rest.take(count).collect();
    u32::from_str_radix(&digits, 16).ok()
}
