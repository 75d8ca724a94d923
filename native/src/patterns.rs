//! Regular expressions that are a sequence of sets of characters, each repeated so and so often.

/// Characters between bounds that belong to it, or all others.
pub struct Set {
    pub ranges: Vec<(u32, u32)>,
    pub negated: bool,
    ascii: [bool; 128],
}

impl Set {
    pub fn new(ranges: Vec<(u32, u32)>, negated: bool) -> Self {
        let mut found = Set {
            ranges,
            negated,
            ascii: [false; 128],
        };
        for code in 0..128 {
            found.ascii[code as usize] = found.ranged(code);
        }
        found
    }

    fn ranged(&self, code: u32) -> bool {
        let within = |(low, high): &(u32, u32)| *low <= code && code <= *high;
        self.ranges.iter().any(within) != self.negated
    }

    /// How many bytes of the text's first character are of the set; none if it is not.
    #[inline(always)]
    fn width(&self, text: &str) -> Option<usize> {
        let first = *text.as_bytes().first()?;
        if first < 128 {
            return self.ascii[first as usize].then_some(1);
        }
        let found = text.chars().next()?;
        self.ranged(found as u32).then(|| found.len_utf8())
    }
}

pub struct Repeated {
    pub set: Set,
    pub least: usize,
    pub most: usize,
}

pub struct Pattern {
    /// Whether it has to be found at the start, and up to the end.
    pub anchored: bool,
    pub ended: bool,
    pub parts: Vec<Repeated>,
}

impl Pattern {
    /// Whether the pattern is in a text, which is UTF-8.
    #[inline(always)]
    pub fn found(&self, text: &[u8]) -> bool {
        match std::str::from_utf8(text) {
            Ok(text) if self.anchored => self.fits(text, 0),
            Ok(text) => {
                let mut starts = text.char_indices().map(|(at, _)| at);
                starts.any(|at| self.fits(&text[at..], 0)) || self.fits("", 0)
            }
            Err(_) => false,
        }
    }

    /// Whether the parts from `number` on fit where the text begins. Who makes patterns bounds what has to be tried.
    fn fits(&self, text: &str, number: usize) -> bool {
        let part = match self.parts.get(number) {
            Some(part) => part,
            None => return text.is_empty() || !self.ended,
        };
        let mut rest = text;
        let mut count = 0;
        loop {
            if count >= part.least && self.fits(rest, number + 1) {
                return true;
            }
            match part.set.width(rest) {
                Some(width) if count < part.most => {
                    rest = &rest[width..];
                    count += 1;
                }
                _ => return false,
            }
        }
    }
}
