//! Times and dates in text (RFC 3339, 5.6), as columns hold them, and as text of those.

const DAY: i64 = 86_400;
const MICROS: i64 = 1_000_000;
/// The years 1 to 9999, in seconds: columns of others no reader takes.
const SECONDS: std::ops::Range<i64> = -62_135_596_800..253_402_300_800;
/// Digits of a second that a column has, and those that a text may have.
const DIGITS: usize = 6;
const MOST_DIGITS: usize = 12;

/// Microseconds since 1970, and whether that is all of a time: no leap second, and no finer digits.
pub fn instant(text: &[u8]) -> Option<(i64, bool)> {
    let day = days(text.get(..10)?)?;
    let rest = &text[10..];
    if rest.len() < 10 || !matches!(rest[0], b'T' | b't') || rest[3] != b':' || rest[6] != b':' {
        return None;
    }
    let (hour, minute, second) = (digits(&rest[1..3])?, digits(&rest[4..6])?, digits(&rest[7..9])?);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (micros, finer, zone) = fraction(&rest[9..])?;
    let seconds = day * DAY + hour * 3600 + minute * 60 + second - offset(zone)?;
    if !SECONDS.contains(&seconds) {
        return None;
    }
    Some((seconds * MICROS + micros, second < 60 && !finer))
}

/// Days since 1970.
pub fn date(text: &[u8]) -> Option<(i32, bool)> {
    Some((i32::try_from(days(text)?).ok()?, true))
}

/// Microseconds behind the second, whether there are finer digits than that, and what follows.
fn fraction(text: &[u8]) -> Option<(i64, bool, &[u8])> {
    if text[0] != b'.' {
        return Some((0, false, text));
    }
    let count = text[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 || count > MOST_DIGITS {
        return None;
    }
    let found = &text[1..=count];
    let micros = (0..DIGITS).fold(0, |sum, place| {
        sum * 10 + found.get(place).map_or(0, |digit| i64::from(digit - b'0'))
    });
    let finer = found.iter().skip(DIGITS).any(|digit| *digit != b'0');
    Some((micros, finer, &text[count + 1..]))
}

/// Seconds that a zone is ahead.
fn offset(text: &[u8]) -> Option<i64> {
    match text {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), rest @ ..] if rest.len() == 5 && rest[2] == b':' => {
            let (hours, minutes) = (digits(&rest[..2])?, digits(&rest[3..])?);
            let seconds = hours * 3600 + minutes * 60;
            (hours < 24 && minutes < 60).then(|| if *sign == b'+' { seconds } else { -seconds })
        }
        _ => None,
    }
}

/// Days from 1970 to a date of the Gregorian calendar in the years 1 to 9999.
fn days(text: &[u8]) -> Option<i64> {
    if text.len() != 10 || text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    let (year, month, day) = (digits(&text[..4])?, digits(&text[5..7])?, digits(&text[8..])?);
    if year < 1 || day < 1 || day > length(year, month)? {
        return None;
    }
    // Years that begin in March end with the leap day, and their months before it have a pattern of 153 days in five.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(year * 365 + leaps + (153 * month + 2) / 5 + day - 719_469)
}

/// Add the date of a day since 1970, in the years 1 to 9999.
pub fn write_date(day: i64, out: &mut Vec<u8>) {
    // The inverse of `days`: eras of 400 years, which begin in March.
    let shifted = day + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 {
        (year, month + 3)
    } else {
        (year + 1, month - 9)
    };
    out.extend_from_slice(format!("{:04}-{month:02}-{day:02}", era * 400 + year).as_bytes());
}

/// Add the time of so many seconds of a day.
pub fn write_clock(second: i64, out: &mut Vec<u8>) {
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    out.extend_from_slice(format!("{hour:02}:{minute:02}:{second:02}").as_bytes());
}

/// Add date and time, without fraction and zone, of so many seconds since 1970.
pub fn write_instant(seconds: i64, out: &mut Vec<u8>) {
    write_date(seconds.div_euclid(DAY), out);
    out.push(b'T');
    write_clock(seconds.rem_euclid(DAY), out);
}

fn length(year: i64, month: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => Some(28 + i64::from(leap)),
        4 | 6 | 9 | 11 => Some(30),
        1..=12 => Some(31),
        _ => None,
    }
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |sum, byte| {
        byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0'))
    })
}
