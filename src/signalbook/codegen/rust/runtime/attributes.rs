//! Context attributes of CloudEvents, and the forms that values of each type have.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::base64;
use super::finding::Finding;
use super::time;

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// Text; also of times, URIs, and bytes in base64.
    Text(String),
    /// A whole number.
    Integer(i32),
    /// True or false.
    Boolean(bool),
}

/// The context attributes of an event by name.
pub type Attributes = BTreeMap<String, Attribute>;

impl fmt::Display for Attribute {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => out.write_str(text),
            Self::Integer(number) => number.fmt(out),
            Self::Boolean(flag) => flag.fmt(out),
        }
    }
}

impl Attribute {
    /// The attribute as a value of JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Integer(number) => Value::from(*number),
            Self::Boolean(flag) => Value::from(*flag),
        }
    }

    /// `None` for what an attribute cannot be.
    pub(super) fn from_json(value: Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text)),
            Value::Bool(flag) => Some(Self::Boolean(flag)),
            Value::Number(number) => {
                let whole = i32::try_from(number.as_i64()?).ok()?;
                Some(Self::Integer(whole))
            }
            _ => None,
        }
    }

    /// Whole numbers and booleans as such, all else as it is.
    pub(super) fn of_type(self, kind: &str) -> Self {
        let Self::Text(text) = &self else { return self };
        match kind {
            "boolean" => Self::Boolean(text == "true"),
            "integer" => text.parse().map_or(self, Self::Integer),
            _ => self,
        }
    }

    pub(super) fn is_of_type(&self, kind: &str) -> bool {
        match (kind, self) {
            ("integer" | "ulong", Self::Boolean(_)) => false,
            ("boolean" | "number" | "integer" | "ulong", _) => is_of_type(kind, &self.to_string()),
            (_, Self::Text(text)) => is_of_type(kind, text),
            _ => kind == "any" || is_form(kind, &self.to_string()) == Some(true),
        }
    }
}

/// Whether a text is of a type.
pub(super) fn is_of_type(kind: &str, text: &str) -> bool {
    is_form(kind, text).unwrap_or(true)
}

/// `None` for a type that any text is of.
fn is_form(kind: &str, text: &str) -> Option<bool> {
    Some(match kind {
        "integer" => is_integer(text) && text.parse::<i32>().is_ok(),
        "ulong" => is_integer(text) && text.parse::<u64>().is_ok(),
        "binary" => base64::decode(text).is_some(),
        "boolean" => text == "true" || text == "false",
        "duration" => is_duration(text).is_some(),
        "number" => is_number(text).is_some(),
        "symbol" => {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        }
        "timestamp" => time::lenient_instant(text).is_some(),
        "uri" => is_uri(text),
        "urireference" => !text.is_empty() && text.bytes().all(is_of_uri),
        "uuid" => is_uuid(text),
        _ => return None,
    })
}

/// Whole numbers without zeros before them.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain && (digits == "0" || !digits.starts_with('0'))
}

/// The text behind one digit or more.
fn after_digits(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|each: char| each.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest)
}

/// A number as JSON has it.
fn is_number(text: &str) -> Option<()> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let mut rest = after_digits(unsigned)?;
    let whole = &unsigned[..unsigned.len() - rest.len()];
    if whole.len() > 1 && whole.starts_with('0') {
        return None;
    }
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = after_digits(fraction)?;
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        rest = after_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))?;
    }
    rest.is_empty().then_some(())
}

/// A duration of ISO 8601: weeks, or a date and a time.
fn is_duration(text: &str) -> Option<()> {
    let text = text.strip_prefix('P')?;
    let (date, time) = match text.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (text, ""),
    };
    if text.is_empty() {
        return None;
    }
    let weeks = after_digits(date).is_some_and(|unit| unit == "W");
    if weeks {
        return time.is_empty().then_some(());
    }
    let date = units(date, "YMD")?;
    let time = units(time, "HMS")?;
    (date.is_empty() && time.is_empty()).then_some(())
}

/// The text behind amounts in these units, each of which may come once, in order.
fn units<'a>(mut text: &'a str, units: &str) -> Option<&'a str> {
    for unit in units.chars() {
        let Some(mut rest) = after_digits(text) else {
            break;
        };
        if unit == 'S' {
            if let Some(fraction) = rest.strip_prefix('.') {
                rest = after_digits(fraction)?;
            }
        }
        if let Some(following) = rest.strip_prefix(unit) {
            text = following;
        }
    }
    Some(text)
}

fn is_of_uri(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte)
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(is_of_scheme)
        && rest.bytes().all(is_of_uri)
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts
            .iter()
            .all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Attributes that every event has.
pub(super) const REQUIRED: [&str; 4] = ["specversion", "id", "source", "type"];
pub(super) const SPECVERSION: &str = "1.0";

fn is_core(name: &str) -> bool {
    let optional = ["subject", "time", "dataschema", "datacontenttype"];
    REQUIRED.contains(&name) || optional.contains(&name)
}

/// What is wrong with the context attributes of a CloudEvent.
pub(super) fn invalid(attributes: &Attributes) -> Vec<Finding> {
    let is_missing = |name: &&&str| !attributes.contains_key(**name);
    let missing = REQUIRED.iter().filter(is_missing);
    let missing = missing.map(|name| Finding::new(name, "required", "is required"));
    let faults = attributes.iter().filter_map(|(name, value)| {
        let message = fault_of(name, value)?;
        Some(Finding::new(name, "cloudevents", message))
    });
    missing.chain(faults).collect()
}

/// Why a member of an event in JSON is no attribute.
pub(super) const NO_ATTRIBUTE: &str = "must be text, a boolean or a small integer";

fn fault_of(name: &str, value: &Attribute) -> Option<String> {
    let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if name.is_empty() || name == "data" || !name.bytes().all(is_of_name) {
        return Some("is no name of an attribute".to_owned());
    }
    let Attribute::Text(text) = value else {
        return is_core(name).then(|| "must be text".to_owned());
    };
    if text.chars().any(is_forbidden) {
        return Some("has a control character or a noncharacter".to_owned());
    }
    if !is_core(name) {
        return None;
    }
    if text.is_empty() {
        return Some("must not be empty".to_owned());
    }
    if name == "specversion" && text != SPECVERSION {
        return Some(format!("must be {SPECVERSION}"));
    }
    let form = match name {
        "source" => "urireference",
        "dataschema" => "uri",
        "time" => "timestamp",
        _ => return None,
    };
    (!is_of_type(form, text)).then(|| format!("must be of type {form}"))
}

fn is_forbidden(character: char) -> bool {
    let code = u32::from(character);
    character.is_control() || (0xfdd0..=0xfdef).contains(&code) || matches!(code, 0xfffe | 0xffff)
}
