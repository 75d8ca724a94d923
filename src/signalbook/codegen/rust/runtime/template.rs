//! Texts with placeholders: URI templates of level 1 (RFC 6570).

use std::collections::BTreeMap;

/// The values of placeholders by name.
pub type Context = BTreeMap<String, String>;

/// A text with placeholders: the names stand between the literals.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) text: String,
    pub(super) names: Vec<String>,
    pub(super) literals: Vec<String>,
    /// Whether values are percent-encoded.
    pub(super) encoded: bool,
    /// What no value may have in it as it is.
    pub(super) separator: String,
}

impl Template {
    /// The text for these values; or why there is none.
    pub(super) fn expanded(&self, context: &Context) -> Result<String, Unexpanded> {
        let is_missing = |name: &&String| !context.contains_key(*name);
        let mut missing: Vec<_> = self.names.iter().filter(is_missing).cloned().collect();
        if !missing.is_empty() {
            missing.dedup();
            let message = format!("{} needs {}", self.text, missing.join(", "));
            return Err(Unexpanded::Missing(message));
        }
        let mut text = self.literal(0).to_owned();
        for (place, name) in self.names.iter().enumerate() {
            text.push_str(&self.quoted(&context[name]));
            text.push_str(self.literal(place + 1));
        }
        // Read back: values with the separator in them would come out as other values at the consumer.
        let read = self.matched(&text);
        let is_same = |found: &Context| self.names.iter().all(|name| found[name] == context[name]);
        if read.is_some_and(|found| is_same(&found)) {
            return Ok(text);
        }
        let message = format!(
            "{} would be {text}, which is read as something else",
            self.text
        );
        Err(Unexpanded::Ambiguous(message))
    }

    /// What the placeholders stand for in a text; `None` if it does not fit.
    pub(super) fn matched(&self, text: &str) -> Option<Context> {
        let mut rest = text.strip_prefix(self.literal(0))?;
        let mut found = Context::new();
        for (place, name) in self.names.iter().enumerate() {
            let literal = self.literal(place + 1);
            let end = if place + 1 == self.names.len() {
                rest.strip_suffix(literal)?.len()
            } else {
                let first = rest.chars().next()?.len_utf8();
                first + rest[first..].find(literal)?
            };
            let raw = &rest[..end];
            if raw.is_empty() || (!self.is_whole() && self.has_separator(raw)) {
                return None;
            }
            let value = if self.encoded {
                percent_decoded(raw)
            } else {
                raw.to_owned()
            };
            if found.get(name).is_some_and(|before| *before != value) {
                return None;
            }
            found.insert(name.clone(), value);
            rest = &rest[end + literal.len()..];
        }
        rest.is_empty().then_some(found)
    }

    fn literal(&self, place: usize) -> &str {
        self.literals.get(place).map_or("", String::as_str)
    }

    fn is_whole(&self) -> bool {
        self.literals.len() == 2 && self.literals.iter().all(String::is_empty)
    }

    fn has_separator(&self, text: &str) -> bool {
        !self.separator.is_empty() && text.contains(&self.separator)
    }

    fn quoted(&self, value: &str) -> String {
        if !self.encoded {
            return value.to_owned();
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.~-".contains(&byte);
        let text = percent_encoded(value, is_plain);
        match self.separator.bytes().next() {
            Some(byte) if !self.is_whole() => text.replace(&self.separator, &hexadecimal(byte)),
            _ => text,
        }
    }
}

/// Why a template has no text for some values.
pub(super) enum Unexpanded {
    Missing(String),
    Ambiguous(String),
}

fn hexadecimal(byte: u8) -> String {
    format!("%{byte:02X}")
}

pub(super) fn percent_encoded(text: &str, is_plain: impl Fn(u8) -> bool) -> String {
    let mut made = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            made.push(char::from(byte));
        } else {
            made.push_str(&hexadecimal(byte));
        }
    }
    made
}

/// The text; as it is, where it would not be UTF-8.
pub(super) fn percent_decoded(text: &str) -> String {
    let given = text.as_bytes();
    let digit = |place: usize| char::from(*given.get(place)?).to_digit(16);
    let mut bytes = Vec::with_capacity(given.len());
    let mut place = 0;
    while place < given.len() {
        match (given[place], digit(place + 1), digit(place + 2)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                place += 3;
            }
            (byte, _, _) => {
                bytes.push(byte);
                place += 1;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}
