//! Columns as Arrow lays them out, while they are filled.

use std::collections::HashSet;
use std::mem::take;

use crate::json::{Refused, Scanned};

/// Texts up to which each is compared with each.
const FEW: usize = 16;
/// Bytes that are reserved for texts at most: how long those before were says little of these.
const MOST: usize = 1024 * 1024;

/// One bit a row, the lowest first.
#[derive(Default)]
pub struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    #[inline(always)]
    pub fn push(&mut self, bit: bool) {
        let place = self.count % 8;
        match self.bytes.last_mut() {
            Some(last) if place > 0 => *last |= u8::from(bit) << place,
            _ => self.bytes.push(u8::from(bit)),
        }
        self.count += 1;
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// How many are not set.
    pub fn zeros(&self) -> usize {
        let ones: u32 = self.bytes.iter().map(|byte| byte.count_ones()).sum();
        self.count - ones as usize
    }

    pub fn truncate(&mut self, count: usize) {
        if count >= self.count {
            return;
        }
        self.count = count;
        self.bytes.truncate((count + 7) / 8);
        if count % 8 > 0 {
            if let Some(last) = self.bytes.last_mut() {
                *last &= (1 << (count % 8)) - 1;
            }
        }
    }

    pub fn into_inner(self) -> Vec<u8> {
        self.bytes
    }
}

/// Where each row ends in what lies beside; the first begins at 0.
pub struct Offsets(Vec<i32>);

impl Default for Offsets {
    fn default() -> Self {
        Offsets(vec![0])
    }
}

impl Offsets {
    /// One more row, which ends at `end`. Refused beyond 2 GiB.
    #[inline(always)]
    pub fn push(&mut self, end: usize) -> Scanned<()> {
        self.0.push(i32::try_from(end).map_err(|_| Refused)?);
        Ok(())
    }

    /// One more row with nothing in it.
    pub fn repeat(&mut self) {
        self.0.push(self.end() as i32);
    }

    /// Where a row begins.
    pub fn start(&self, row: usize) -> usize {
        self.0[row] as usize
    }

    /// Where the last row ends.
    #[inline(always)]
    pub fn end(&self) -> usize {
        self.0.last().map_or(0, |end| *end as usize)
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.0.len() - 1
    }

    pub fn truncate(&mut self, rows: usize) {
        self.0.truncate(rows + 1);
    }

    pub fn reserve(&mut self, rows: usize) {
        self.0.reserve(rows);
    }

    pub fn into_inner(self) -> Vec<i32> {
        self.0
    }
}

/// Texts one behind the other.
#[derive(Default)]
pub struct Texts {
    pub ends: Offsets,
    pub bytes: Vec<u8>,
    /// How many bytes a row had on average when they were last taken away.
    likely: usize,
}

impl Texts {
    /// Make what was added to the bytes a row.
    #[inline(always)]
    pub fn close(&mut self) -> Scanned<()> {
        self.ends.push(self.bytes.len())
    }

    /// Refused if one of the rows from `first` on comes again.
    pub fn check_distinct(&self, first: usize) -> Scanned<()> {
        let rows = first..self.ends.len();
        let distinct = if rows.len() <= FEW {
            rows.clone()
                .all(|row| (first..row).all(|other| self.row(other) != self.row(row)))
        } else {
            let mut known = HashSet::with_capacity(rows.len());
            rows.clone().all(|row| known.insert(self.row(row)))
        };
        if distinct {
            Ok(())
        } else {
            Err(Refused)
        }
    }

    /// Make room for so many rows.
    pub fn reserve(&mut self, rows: usize) {
        self.ends.reserve(rows);
        self.bytes.reserve(MOST.min(rows.saturating_mul(self.likely)));
    }

    /// Take all rows away.
    pub fn take(&mut self) -> (Vec<i32>, Vec<u8>) {
        let rows = self.ends.len();
        self.likely = (self.bytes.len() + rows) / rows.max(1);
        (take(&mut self.ends).into_inner(), take(&mut self.bytes))
    }

    pub fn row(&self, number: usize) -> &[u8] {
        &self.bytes[self.ends.start(number)..self.ends.start(number + 1)]
    }

    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.bytes.truncate(self.ends.end());
    }
}
