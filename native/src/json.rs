//! A scanner of JSON text (RFC 8259) that refuses whatever is doubtful: who calls it has another way for that.

use std::borrow::Cow;
use std::collections::HashSet;

/// The text is no JSON, or not such as is taken here.
#[derive(Debug)]
pub struct Refused;

pub type Scanned<T> = Result<T, Refused>;

/// How deep values may be nested.
pub const MAX_DEPTH: usize = 64;

/// Characters of a number without an exponent up to which a float has all of its digits.
const EXACT_CHARS: usize = 15;

/// Bytes of a word of names.
const WORD: usize = 16;

/// Names beyond which they are looked up in a table.
const FEW: usize = 16;

const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// Bytes that are looked at together, a bit of a word for each.
const BLOCK: usize = 64;
/// What of a byte is a curly bracket where it is a curly or a square one.
const CURLY: u8 = 0x20;

/// A place in a text. Being a `str`, the text is known to be UTF-8.
pub struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// Whether there was anything that has to be looked at again for members without a column.
    pub undeclared: bool,
}

/// The inside of a string, as it stands between its quotes.
#[derive(Clone, Copy)]
pub struct Inside<'a> {
    pub raw: &'a [u8],
    /// Whether there are escapes in it, which `unescape` resolves.
    pub escaped: bool,
}

/// A number, as it was written.
#[derive(Clone, Copy)]
pub struct Number<'a> {
    pub raw: &'a [u8],
    /// Whether it has neither fraction nor exponent.
    pub whole: bool,
}

/// The names of one object, of which none may come again.
#[derive(Default)]
pub struct Names<'a> {
    few: Vec<Cow<'a, [u8]>>,
    many: HashSet<Cow<'a, [u8]>>,
}

impl<'a> Names<'a> {
    /// One more name, as text; refused if it is there already.
    #[inline]
    pub fn add(&mut self, name: &Inside<'a>) -> Scanned<Cow<'a, [u8]>> {
        let name = name.text()?;
        if self.few.contains(&name) || self.many.contains(&name) {
            return Err(Refused);
        }
        if self.few.len() < FEW {
            self.few.push(name.clone());
        } else {
            self.many.insert(name.clone());
        }
        Ok(name)
    }
}

/// The name of a member, to be compared at once as it mostly stands.
pub struct Key {
    /// In quotes, with the colon behind.
    text: Vec<u8>,
    /// As much of that as goes into a word, and which bits of the word that is.
    word: u128,
    mask: u128,
}

impl Key {
    /// Of a name that needs no escapes.
    pub fn new(name: &str) -> Self {
        let text = format!("\"{name}\":").into_bytes();
        let short = text.len().min(WORD);
        let (mut word, mut mask) = ([0; WORD], [0; WORD]);
        word[..short].copy_from_slice(&text[..short]);
        mask[..short].fill(u8::MAX);
        Key {
            text,
            word: u128::from_le_bytes(word),
            mask: u128::from_le_bytes(mask),
        }
    }

    /// The name.
    pub fn name(&self) -> &[u8] {
        &self.text[1..self.text.len() - 2]
    }
}

#[inline(always)]
fn first_word(text: &[u8]) -> Option<u128> {
    let mut bytes = [0; WORD];
    bytes.copy_from_slice(text.get(..WORD)?);
    Some(u128::from_le_bytes(bytes))
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Self {
        Scanner {
            text: text.as_bytes(),
            at: 0,
            undeclared: false,
        }
    }

    /// How many bytes lie behind.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Back to a place that lies behind.
    pub fn back(&mut self, at: usize) {
        self.at = at;
    }

    /// The bytes from `start` up to here.
    pub fn since(&self, start: usize) -> &'a [u8] {
        &self.text[start..self.at]
    }

    /// The next byte, 0 at the end.
    #[inline(always)]
    pub fn peek(&self) -> u8 {
        match self.text.get(self.at) {
            Some(byte) => *byte,
            None => 0,
        }
    }

    /// Past one byte that was looked at.
    #[inline(always)]
    pub fn step(&mut self) {
        self.at += 1;
    }

    #[inline(always)]
    pub fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    /// Past this byte, if it is next.
    #[inline(always)]
    pub fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte && self.at < self.text.len();
        self.at += found as usize;
        found
    }

    #[inline(always)]
    pub fn expect(&mut self, byte: u8) -> Scanned<()> {
        if self.take(byte) {
            Ok(())
        } else {
            Err(Refused)
        }
    }

    /// Past `true`, `false` or `null`.
    #[inline(always)]
    pub fn word(&mut self, word: &[u8]) -> Scanned<()> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(())
        } else {
            Err(Refused)
        }
    }

    /// Past a name and its colon, if they are next and written without white space.
    #[inline(always)]
    pub fn key(&mut self, key: &Key) -> bool {
        let rest = &self.text[self.at..];
        let found = match first_word(rest) {
            Some(word) if key.text.len() <= WORD => (word ^ key.word) & key.mask == 0,
            _ => rest.starts_with(&key.text),
        };
        self.at += if found { key.text.len() } else { 0 };
        found
    }

    /// Nothing but white space may follow.
    pub fn end(&mut self) -> Scanned<()> {
        self.space();
        if self.at == self.text.len() {
            Ok(())
        } else {
            Err(Refused)
        }
    }

    /// Past a string. Its escapes are not looked at yet.
    #[inline(always)]
    pub fn string(&mut self) -> Scanned<Inside<'a>> {
        self.expect(b'"')?;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.plain();
            match self.peek() {
                b'"' => {
                    let raw = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(Inside { raw, escaped });
                }
                b'\\' => {
                    escaped = true;
                    self.at += 1;
                    // Whatever is escaped is one byte at least; a control character, or the end, is refused here.
                    if self.peek() < b' ' {
                        return Err(Refused);
                    }
                    self.at += 1;
                }
                byte if byte < b' ' => return Err(Refused),
                _ => self.at += 1,
            }
        }
    }

    /// Past bytes that mean nothing in a string, eight at a time while they last.
    #[inline(always)]
    fn plain(&mut self) {
        while let Some(chunk) = self.text.get(self.at..self.at + 8) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(chunk);
            let found = special(u64::from_le_bytes(bytes));
            if found != 0 {
                self.at += found.trailing_zeros() as usize / 8;
                return;
            }
            self.at += 8;
        }
    }

    /// Past an object or an array of which only the end is looked for: if it is none, its reader will see.
    pub fn nested(&mut self) -> Scanned<()> {
        // Bits of the block before: whether a string goes on, and whether the first byte is escaped.
        let (mut depth, mut inside, mut escaped) = (0, 0_u64, 0_u64);
        while self.at < self.text.len() {
            let mut block = [0; BLOCK];
            match self.text.get(self.at..self.at + BLOCK) {
                Some(whole) => block.copy_from_slice(whole),
                None => block[..self.text.len() - self.at].copy_from_slice(&self.text[self.at..]),
            }
            let slashes = bits(&block, |byte| byte == b'\\');
            let mut quotes = bits(&block, |byte| byte == b'"');
            if slashes | escaped != 0 {
                quotes &= !escapes(slashes, &mut escaped);
            }
            let strings = flips(quotes) ^ inside;
            inside = if strings >> (BLOCK - 1) == 0 { 0 } else { u64::MAX };
            let opening = bits(&block, |byte| byte | CURLY == b'{') & !strings;
            let closing = bits(&block, |byte| byte | CURLY == b'}') & !strings;
            let (more, less) = (opening.count_ones() as usize, closing.count_ones() as usize);
            if depth > less && depth + more <= MAX_DEPTH {
                depth = depth + more - less;
            } else if let Some(end) = outermost(opening, closing, &mut depth)? {
                self.at += end;
                return Ok(());
            }
            self.at += BLOCK;
        }
        Err(Refused)
    }

    /// Past a number.
    #[inline(always)]
    pub fn number(&mut self) -> Scanned<Number<'a>> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        let mut whole = true;
        if self.take(b'.') {
            whole = false;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            whole = false;
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        let raw = &self.text[start..self.at];
        Ok(Number { raw, whole })
    }

    #[inline(always)]
    fn digits(&mut self) -> Scanned<()> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        if self.at > start {
            Ok(())
        } else {
            Err(Refused)
        }
    }

    /// Past any value, of which all is checked; `depth` counts the arrays and objects around it.
    pub fn skip(&mut self, depth: usize) -> Scanned<()> {
        self.pass::<false>(depth)
    }

    /// The same for a value in which no object may have a name twice.
    pub fn skip_unique(&mut self, depth: usize) -> Scanned<()> {
        self.pass::<true>(depth)
    }

    fn pass<const UNIQUE: bool>(&mut self, depth: usize) -> Scanned<()> {
        self.space();
        match self.peek() {
            b'"' => check(self.string()?),
            b'{' => self.pass_object::<UNIQUE>(depth + 1),
            b'[' => self.pass_array::<UNIQUE>(depth + 1),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number()?.float().map(drop),
        }
    }

    fn pass_object<const UNIQUE: bool>(&mut self, depth: usize) -> Scanned<()> {
        let mut more = self.open(b'{', b'}', depth)?;
        let mut names = Names::default();
        while more {
            self.space();
            let name = self.string()?;
            if UNIQUE {
                names.add(&name)?;
            } else {
                check(name)?;
            }
            self.colon()?;
            self.pass::<UNIQUE>(depth)?;
            more = self.more(b'}')?;
        }
        Ok(())
    }

    fn pass_array<const UNIQUE: bool>(&mut self, depth: usize) -> Scanned<()> {
        let mut more = self.open(b'[', b']', depth)?;
        while more {
            self.pass::<UNIQUE>(depth)?;
            more = self.more(b']')?;
        }
        Ok(())
    }

    /// Into an object or an array, the `depth`th around what is in it; whether there is anything.
    #[inline(always)]
    pub fn open(&mut self, opening: u8, closing: u8, depth: usize) -> Scanned<bool> {
        self.expect(opening)?;
        if depth > MAX_DEPTH {
            return Err(Refused);
        }
        self.space();
        Ok(!self.take(closing))
    }

    /// Past a comma, or what closes an object or an array; whether there is more of it.
    #[inline(always)]
    pub fn more(&mut self, closing: u8) -> Scanned<bool> {
        self.space();
        if self.take(b',') {
            return Ok(true);
        }
        self.expect(closing)?;
        Ok(false)
    }

    /// Past the colon between name and value.
    #[inline(always)]
    pub fn colon(&mut self) -> Scanned<()> {
        self.space();
        self.expect(b':')?;
        self.space();
        Ok(())
    }
}

/// A bit for each byte that is a quote, a backslash or a control character. Those behind the first may be wrong.
#[inline(always)]
fn special(word: u64) -> u64 {
    let quotes = word ^ (LOW_BITS * b'"' as u64);
    let slashes = word ^ (LOW_BITS * b'\\' as u64);
    let zeros = quotes.wrapping_sub(LOW_BITS) & !quotes | slashes.wrapping_sub(LOW_BITS) & !slashes;
    let controls = word.wrapping_sub(LOW_BITS * b' ' as u64) & !word;
    (zeros | controls) & HIGH_BITS
}

/// A bit for each byte that is such, the first the lowest. It takes no branch, so that it is vectorized.
#[inline(always)]
fn bits(block: &[u8; BLOCK], is_such: impl Fn(u8) -> bool) -> u64 {
    let mut found = [0; BLOCK];
    for (place, byte) in block.iter().enumerate() {
        found[place] = if is_such(*byte) { 1 << (place % 8) } else { 0 };
    }
    let words = found.chunks_exact(8).enumerate().map(|(number, part)| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(part);
        // No two bytes have a bit in common, so that their sum, in the highest byte, has those of all.
        (u64::from_le_bytes(bytes).wrapping_mul(LOW_BITS) >> 56) << (8 * number)
    });
    words.fold(0, |all, word| all | word)
}

/// Which bytes stand behind a backslash that is not escaped itself; `carry` is the bit of the first, and of the next.
#[cold]
fn escapes(slashes: u64, carry: &mut u64) -> u64 {
    let mut found = *carry;
    let mut left = slashes & !found;
    *carry = 0;
    while left != 0 {
        let slash = left & left.wrapping_neg();
        *carry = slash >> (BLOCK - 1);
        found |= slash << 1;
        left &= !(slash | slash << 1);
    }
    found
}

/// From each bit up to the next all bits, from that to the one after it none, and so on.
#[inline(always)]
fn flips(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Behind which byte the value ends that `depth` counts the levels of, if it ends here.
fn outermost(opening: u64, closing: u64, depth: &mut usize) -> Scanned<Option<usize>> {
    let mut left = opening | closing;
    while left != 0 {
        let bit = left & left.wrapping_neg();
        if opening & bit != 0 {
            *depth += 1;
        } else {
            *depth -= 1;
        }
        if *depth == 0 {
            return Ok(Some(bit.trailing_zeros() as usize + 1));
        }
        if *depth > MAX_DEPTH {
            return Err(Refused);
        }
        left ^= bit;
    }
    Ok(None)
}

/// Whether all escapes in a string are sound.
#[inline(always)]
fn check(inside: Inside<'_>) -> Scanned<()> {
    if inside.escaped {
        inside.unescape(&mut Vec::new())
    } else {
        Ok(())
    }
}

impl<'a> Inside<'a> {
    /// Add the text to `into`, as UTF-8. Lone surrogates are refused. After a refusal `into` may hold a part of it.
    #[inline(always)]
    pub fn append(&self, into: &mut Vec<u8>) -> Scanned<()> {
        if self.escaped {
            return self.unescape(into);
        }
        into.extend_from_slice(self.raw);
        Ok(())
    }

    /// The text as UTF-8.
    #[inline]
    pub fn text(&self) -> Scanned<Cow<'a, [u8]>> {
        if !self.escaped {
            return Ok(Cow::Borrowed(self.raw));
        }
        let mut text = Vec::new();
        self.unescape(&mut text)?;
        Ok(Cow::Owned(text))
    }

    #[cold]
    pub fn unescape(&self, into: &mut Vec<u8>) -> Scanned<()> {
        let mut rest = self.raw;
        while let Some(place) = rest.iter().position(|byte| *byte == b'\\') {
            into.extend_from_slice(&rest[..place]);
            let kind = *rest.get(place + 1).ok_or(Refused)?;
            rest = &rest[place + 2..];
            if kind == b'u' {
                rest = unicode(rest, into)?;
            } else {
                into.push(short(kind)?);
            }
        }
        into.extend_from_slice(rest);
        Ok(())
    }
}

fn short(kind: u8) -> Scanned<u8> {
    Ok(match kind {
        b'"' | b'\\' | b'/' => kind,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => return Err(Refused),
    })
}

/// Add the character whose number follows, of two surrogates if need be; the bytes after it.
fn unicode<'a>(rest: &'a [u8], into: &mut Vec<u8>) -> Scanned<&'a [u8]> {
    let (first, mut rest) = hexadecimal(rest)?;
    let mut code = first;
    if (0xD800..0xDC00).contains(&first) {
        let second;
        (second, rest) = hexadecimal(rest.strip_prefix(b"\\u").ok_or(Refused)?)?;
        if !(0xDC00..0xE000).contains(&second) {
            return Err(Refused);
        }
        code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    }
    let found = char::from_u32(code).ok_or(Refused)?;
    into.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(rest)
}

fn hexadecimal(rest: &[u8]) -> Scanned<(u32, &[u8])> {
    let digits = rest.get(..4).ok_or(Refused)?;
    let mut code = 0;
    for digit in digits {
        code = code * 16 + (*digit as char).to_digit(16).ok_or(Refused)?;
    }
    Ok((code, &rest[4..]))
}

impl<'a> Number<'a> {
    /// The integer, if it is written as one and fits 64 bits.
    #[inline(always)]
    pub fn integer(&self) -> Scanned<i64> {
        if !self.whole {
            return Err(Refused);
        }
        let (negative, digits) = match self.raw.split_first() {
            Some((b'-', digits)) => (true, digits),
            _ => (false, self.raw),
        };
        if digits.len() > 18 {
            return self.text()?.parse().map_err(|_| Refused);
        }
        let mut value = 0;
        for digit in digits {
            value = value * 10 + i64::from(digit - b'0');
        }
        Ok(if negative { -value } else { value })
    }

    /// The integer that the number is, however it is written: to JSON Schema 1.0 is one.
    #[inline(always)]
    pub fn integral(&self) -> Scanned<i64> {
        if self.whole {
            return self.integer();
        }
        let Digits {
            negative,
            digits,
            exponent,
        } = Digits::new(self.text()?)?;
        let zeros = usize::try_from(exponent).map_err(|_| Refused)?;
        if digits.len().saturating_add(zeros) > 19 {
            return Err(Refused);
        }
        let value = (digits.iter().copied().chain((0..zeros).map(|_| b'0')))
            .fold(0, |sum, digit| sum * 10 + i128::from(digit - b'0'));
        i64::try_from(if negative { -value } else { value }).map_err(|_| Refused)
    }

    /// Return true if `value`, the nearest float, has all digits of the number when it is written out again.
    #[inline(always)]
    pub fn is_exact(&self, value: f64) -> bool {
        let plain = self.raw.len() <= EXACT_CHARS && (self.whole || !self.raw.iter().any(|byte| byte | 0x20 == b'e'));
        plain || self.is_same(value)
    }

    #[cold]
    fn is_same(&self, value: f64) -> bool {
        match (self.text().and_then(Digits::new), Digits::new(&format!("{value:e}"))) {
            // Zero has no digits, whatever its sign.
            (Ok(sent), Ok(held)) => sent.digits == held.digits && sent.exponent == held.exponent,
            _ => false,
        }
    }

    /// The nearest float; what is beyond all of them is refused.
    #[inline(always)]
    pub fn float(&self) -> Scanned<f64> {
        let value: f64 = self.text()?.parse().map_err(|_| Refused)?;
        if value.is_finite() {
            // Of integers none is less than 0 and as large: -0 is 0, unlike -0.0.
            Ok(if self.whole { value + 0.0 } else { value })
        } else {
            Err(Refused)
        }
    }

    fn text(&self) -> Scanned<&'a str> {
        std::str::from_utf8(self.raw).map_err(|_| Refused)
    }
}

/// A decimal number without zeros at either end of its digits: an integer of these times a power of ten.
struct Digits {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Digits {
    /// Of a number as JSON writes it; refused if the exponent has more than 18 digits.
    fn new(text: &str) -> Scanned<Self> {
        let (number, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let unsigned = whole.strip_prefix('-').unwrap_or(whole);
        let mut digits = [unsigned.as_bytes(), fraction.as_bytes()].concat();
        let kept = digits
            .iter()
            .rposition(|digit| *digit != b'0')
            .map_or(0, |last| last + 1);
        let cut = digits.len() - kept;
        digits.truncate(kept);
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..zeros);
        let power: i64 = power.parse().map_err(|_| Refused)?;
        let exponent = power.checked_add(cut as i64 - fraction.len() as i64).ok_or(Refused)?;
        Ok(Digits {
            negative: unsigned.len() < whole.len(),
            exponent: if digits.is_empty() { 0 } else { exponent },
            digits,
        })
    }
}
