//! Base64 (RFC 4648).

use crate::json::{Refused, Scanned};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Add the bytes of a text in either alphabet (4 and 5), padded or not.
pub fn decode(text: &[u8], into: &mut Vec<u8>) -> Scanned<()> {
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
        into.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    Ok(())
}

/// The same of a text in the first alphabet alone, and padded.
pub fn decode_strictly(text: &[u8], into: &mut Vec<u8>) -> Scanned<()> {
    if text.len() % 4 != 0 || text.iter().any(|digit| matches!(digit, b'-' | b'_')) {
        return Err(Refused);
    }
    decode(text, into)
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

/// Add the text of bytes, in the first alphabet, padded.
pub fn encode(bytes: &[u8], into: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=group.len()].copy_from_slice(group);
        let word = u32::from_be_bytes(word);
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place)) as usize & 63];
            into.push(if place > group.len() { b'=' } else { digit });
        }
    }
}
