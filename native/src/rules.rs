//! What values of columns are held to.

use crate::json::{Refused, Scanned};
use crate::patterns::Pattern;

/// Ends of a range that belong to it.
pub struct Integers {
    pub low: i64,
    pub high: i64,
    pub step: Option<i64>,
    /// The only ones, in order.
    pub values: Option<Vec<i64>>,
}

impl Integers {
    #[inline(always)]
    pub fn check(&self, value: i64) -> Scanned<i64> {
        let listed = match &self.values {
            Some(values) => values.binary_search(&value).is_ok(),
            None => true,
        };
        let stepped = match self.step {
            Some(step) => value.checked_rem(step) == Some(0),
            None => true,
        };
        accept(value >= self.low && value <= self.high && listed && stepped, value)
    }
}

/// A range; whether its ends belong to it is said beside each.
pub struct Floats {
    pub low: f64,
    pub low_open: bool,
    pub high: f64,
    pub high_open: bool,
}

impl Floats {
    #[inline(always)]
    pub fn check(&self, value: f64) -> Scanned<f64> {
        let above = value > self.low || (!self.low_open && value == self.low);
        let below = value < self.high || (!self.high_open && value == self.high);
        accept(above && below, value)
    }
}

/// Lengths in code points.
pub struct Strings {
    pub low: usize,
    pub high: usize,
    /// The only ones, in order.
    pub values: Option<Vec<Vec<u8>>>,
    pub pattern: Option<Pattern>,
}

impl Strings {
    #[inline(always)]
    pub fn check(&self, text: &[u8]) -> Scanned<()> {
        if let Some(values) = &self.values {
            return accept(values.binary_search_by(|value| (**value).cmp(text)).is_ok(), ());
        }
        // There are at most as many code points as bytes, and at least a quarter of that.
        if text.len() > self.high || text.len() / 4 < self.low {
            let points = text.iter().filter(|byte| (**byte as i8) >= -0x40).count();
            accept(points >= self.low && points <= self.high, ())?;
        }
        match &self.pattern {
            Some(pattern) => accept(pattern.found(text), ()),
            None => Ok(()),
        }
    }
}

/// How many items, or members, there may be.
pub struct Sizes {
    pub low: usize,
    pub high: usize,
}

impl Sizes {
    #[inline(always)]
    pub fn check(&self, size: usize) -> Scanned<()> {
        accept(size >= self.low && size <= self.high, ())
    }
}

#[inline(always)]
fn accept<T>(sound: bool, value: T) -> Scanned<T> {
    if sound {
        Ok(value)
    } else {
        Err(Refused)
    }
}
