//! Decimals of Avro: digits as text, and as the two's complement of a whole number of any size.

/// Digits of a decimal, and bytes, that are read at most: both take quadratic time.
const MOST_DIGITS: usize = 1_000;
const MOST_BYTES: usize = 512;

/// A decimal as it is written: its sign, its digits without a point, and how many of these are behind it.
pub(crate) struct Decimal {
    negative: bool,
    digits: String,
    decimals: usize,
}

impl Decimal {
    /// `None` for text that is no decimal.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(unsigned) => (true, unsigned),
            None => (false, text),
        };
        let (whole, decimals) = match unsigned.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (unsigned, ""),
        };
        let digits = format!("{whole}{decimals}");
        let fits = !whole.is_empty()
            && digits.len() <= MOST_DIGITS
            && digits.bytes().all(|each| each.is_ascii_digit());
        fits.then_some(Self {
            negative,
            digits,
            decimals: decimals.len(),
        })
    }

    /// The bytes of the number with so many digits behind the point; `None` if it has more, or than `precision` in all.
    pub(crate) fn bytes(&self, precision: usize, scale: usize) -> Option<Vec<u8>> {
        let zeros = scale.checked_sub(self.decimals)?;
        let padded = format!("{}{}", self.digits, "0".repeat(zeros.min(MOST_DIGITS)));
        let digits = padded.trim_start_matches('0');
        if digits.len() > precision || zeros > MOST_DIGITS {
            return None;
        }
        let mut bytes = vec![0];
        for digit in digits.bytes() {
            multiply_and_add(&mut bytes, 10, digit - b'0');
        }
        bytes.push(0); // room for the sign
        if self.negative {
            negate(&mut bytes);
        }
        bytes.reverse();
        let surplus = bytes.windows(2).take_while(|pair| is_surplus(pair)).count();
        Some(bytes.split_off(surplus))
    }
}

/// Whether a first byte says no more than the sign of the one that follows.
fn is_surplus(pair: &[u8]) -> bool {
    matches!(pair, [0, next] if *next < 128) || matches!(pair, [255, next] if *next >= 128)
}

/// Multiply a number, its least byte first, and add to it.
fn multiply_and_add(bytes: &mut Vec<u8>, factor: u16, addend: u8) {
    let mut carry = u16::from(addend);
    for byte in bytes.iter_mut() {
        let product = u16::from(*byte) * factor + carry;
        *byte = (product & 255) as u8;
        carry = product >> 8;
    }
    if carry > 0 {
        bytes.push(carry as u8);
    }
}

/// The two's complement of a number, its least byte first.
fn negate(bytes: &mut [u8]) {
    let mut carry = true;
    for byte in bytes {
        (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
    }
}

/// The text of a number with so many digits behind the point; `None` for more bytes than are read.
pub(crate) fn text(bytes: &[u8], scale: usize) -> Option<String> {
    if bytes.len() > MOST_BYTES || scale > MOST_DIGITS {
        return None;
    }
    let negative = bytes.first().is_some_and(|first| *first > 127);
    let mut magnitude: Vec<u8> = bytes.iter().rev().copied().collect();
    if negative {
        negate(&mut magnitude);
    }
    let mut digits = vec![0]; // the least first
    for byte in magnitude.iter().rev() {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            carry += u32::from(*digit) * 256;
            *digit = (carry % 10) as u8;
            carry /= 10;
        }
        while carry > 0 {
            digits.push((carry % 10) as u8);
            carry /= 10;
        }
    }
    while digits.len() <= scale {
        digits.push(0);
    }
    let mut found = String::from(if negative { "-" } else { "" });
    for (place, digit) in digits.iter().enumerate().rev() {
        found.push(char::from(b'0' + digit));
        if place == scale && scale > 0 {
            found.push('.');
        }
    }
    Some(found)
}
