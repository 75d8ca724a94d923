//! Dates and times as text (RFC 3339) and as counts since 1970.

use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const GIGA: i128 = 1_000_000_000;
pub(crate) const DAY: i128 = 86_400 * GIGA;

/// The present, to the millisecond.
pub(crate) fn now() -> String {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    let milliseconds = elapsed.map_or(0, |elapsed| elapsed.as_millis()) as i128;
    timestamp(milliseconds * 1_000_000).unwrap_or_default()
}

/// Text that is read from its beginning.
struct Scanner<'a> {
    rest: &'a [u8],
}

impl Scanner<'_> {
    /// As many digits.
    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = (self.rest.get(..count)?, self.rest.get(count..)?);
        self.rest = rest;
        digits.iter().try_fold(0, |found, digit| {
            let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
            Some(found * 10 + digit)
        })
    }

    /// One of some characters.
    fn one_of(&mut self, expected: &[u8]) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        expected.contains(first).then_some(*first)
    }

    /// A fraction of a second in nanoseconds, if there is one; digits beyond `most` are refused.
    fn fraction(&mut self, most: usize) -> Option<i64> {
        if self.rest.first() != Some(&b'.') {
            return Some(0);
        }
        self.rest = &self.rest[1..];
        let is_digit = |each: &&u8| each.is_ascii_digit();
        let count = self.rest.iter().take_while(is_digit).count();
        if count == 0 || count > most {
            return None;
        }
        let nanoseconds = self.digits(count.min(9))?;
        self.digits(count.saturating_sub(9))?;
        Some(nanoseconds * 10_i64.pow(9 - count.min(9) as u32))
    }

    fn date(&mut self) -> Option<i64> {
        let year = self.digits(4)?;
        self.one_of(b"-")?;
        let month = self.digits(2)?;
        self.one_of(b"-")?;
        let day = self.digits(2)?;
        let fits = (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
        (fits && year > 0).then(|| days_since_1970(year, month, day))
    }

    fn time(&mut self, most_digits: usize, leap: i64) -> Option<i128> {
        let hour = self.digits(2)?;
        self.one_of(b":")?;
        let minute = self.digits(2)?;
        self.one_of(b":")?;
        let second = self.digits(2)?;
        let nanoseconds = self.fraction(most_digits)?;
        let fits = hour < 24 && minute < 60 && second < 60 + leap;
        let seconds = hour * 3600 + minute * 60 + second;
        fits.then(|| i128::from(seconds) * GIGA + i128::from(nanoseconds))
    }

    /// Nanoseconds that a zone is ahead of UTC.
    fn zone(&mut self) -> Option<i128> {
        let sign = match self.one_of(b"Zz+-")? {
            b'+' => 1,
            b'-' => -1,
            _ => return Some(0),
        };
        let hour = self.digits(2)?;
        self.one_of(b":")?;
        let minute = self.digits(2)?;
        let fits = hour < 24 && minute < 60;
        fits.then(|| i128::from(sign * (hour * 3600 + minute * 60)) * GIGA)
    }

    fn end<T>(&self, found: T) -> Option<T> {
        self.rest.is_empty().then_some(found)
    }
}

fn scanner(text: &str) -> Scanner<'_> {
    Scanner {
        rest: text.as_bytes(),
    }
}

/// Nanoseconds since 1970 of a timestamp; `None` for other text.
pub(crate) fn instant(text: &str) -> Option<i128> {
    moment(text, 9, 0)
}

/// As `instant`, of a timestamp as CloudEvents may have it: with a leap second, and more digits.
pub(crate) fn lenient_instant(text: &str) -> Option<i128> {
    moment(text, 12, 1)
}

fn moment(text: &str, most_digits: usize, leap: i64) -> Option<i128> {
    let mut from = scanner(text);
    let days = from.date()?;
    from.one_of(b"Tt")?;
    let time = from.time(most_digits, leap)?;
    let zone = from.zone()?;
    from.end(i128::from(days) * DAY + time - zone)
}

/// Days since 1970 of a date; `None` for other text.
pub(crate) fn date(text: &str) -> Option<i64> {
    let mut from = scanner(text);
    let days = from.date()?;
    from.end(days)
}

/// Nanoseconds since midnight of a time of day; `None` for other text.
pub(crate) fn time_of_day(text: &str) -> Option<i128> {
    let mut from = scanner(text);
    let time = from.time(9, 0)?;
    from.end(time)
}

/// Seconds and nanoseconds, both of one sign, of a duration such as `-1.5s`; `None` for other text.
pub(crate) fn duration(text: &str) -> Option<(i64, i64)> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let mut from = scanner(digits);
    let is_digit = |each: &&u8| each.is_ascii_digit();
    let count = from.rest.iter().take_while(is_digit).count();
    if count == 0 || count > 12 {
        return None;
    }
    let seconds = from.digits(count)?;
    let nanoseconds = from.fraction(9)?;
    from.one_of(b"s")?;
    from.end((sign * seconds, sign * nanoseconds))
}

/// Nanoseconds since 1970 as a timestamp in UTC; `None` beyond the years 1 to 9999.
pub(crate) fn timestamp(nanoseconds: i128) -> Option<String> {
    let days = i64::try_from(nanoseconds.div_euclid(DAY)).ok()?;
    let time = clock(nanoseconds.rem_euclid(DAY));
    Some(format!("{}T{time}Z", calendar(days)?))
}

/// Days since 1970 as a date; `None` beyond the years 1 to 9999.
pub(crate) fn calendar(days: i64) -> Option<String> {
    if !(days_since_1970(1, 1, 1)..=days_since_1970(9999, 12, 31)).contains(&days) {
        return None;
    }
    let mut year = 1970 + days.div_euclid(366);
    while days_since_1970(year + 1, 1, 1) <= days {
        year += 1;
    }
    let mut month = 1;
    let mut day = days - days_since_1970(year, 1, 1) + 1;
    while day > days_of(year, month) {
        day -= days_of(year, month);
        month += 1;
    }
    Some(format!("{year:04}-{month:02}-{day:02}"))
}

/// Nanoseconds since midnight as a time of day.
pub(crate) fn clock(nanoseconds: i128) -> String {
    let seconds = nanoseconds / GIGA;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = fraction(nanoseconds % GIGA);
    format!("{hour:02}:{minute:02}:{second:02}{fraction}")
}

/// Nanoseconds as the fraction of a second, without zeros at the end.
pub(crate) fn fraction(nanoseconds: i128) -> String {
    let text = format!(".{nanoseconds:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let leap_days = before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    let months: i64 = (1..month).map(|each| days_of(year, each)).sum();
    before * 365 + leap_days + months + day - 719_163
}
