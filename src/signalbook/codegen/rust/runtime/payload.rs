//! Types of payloads as values of JSON, and back.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use super::base64;
use super::check::shown;
use super::finding::{Finding, Path};

/// Deeper values are not read, and so not written.
const DEEPEST: usize = 120;

/// What payloads are made of.
pub trait PayloadType: Sized {
    /// The value that JSON stands for.
    ///
    /// # Errors
    ///
    /// What the type has no room for.
    fn from_json(value: &Value, path: &Path<'_>) -> Result<Self, Finding>;

    /// The value in JSON; `depth` is how deep it is in its payload.
    ///
    /// # Errors
    ///
    /// What JSON has no form for.
    fn to_json(&self, path: &Path<'_>, depth: usize) -> Result<Value, Finding>;
}

fn unfit(value: &Value, kind: &str, path: &Path<'_>) -> Finding {
    let message = format!("must be {kind}, not {}", shown(value));
    Finding::new(path, "type", message)
}

/// Refuse what is nested too deep.
pub(super) fn nested(path: &Path<'_>, depth: usize) -> Result<(), Finding> {
    if depth > DEEPEST {
        let message = format!("is nested deeper than {DEEPEST} levels");
        return Err(Finding::new(path, "depth", message));
    }
    Ok(())
}

impl PayloadType for Value {
    fn from_json(value: &Value, _: &Path<'_>) -> Result<Self, Finding> {
        Ok(value.clone())
    }

    fn to_json(&self, path: &Path<'_>, depth: usize) -> Result<Value, Finding> {
        check_depth(self, path, depth)?;
        Ok(self.clone())
    }
}

fn check_depth(value: &Value, path: &Path<'_>, depth: usize) -> Result<(), Finding> {
    nested(path, depth)?;
    match value {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(place, item)| check_depth(item, &path.item(place), depth + 1)),
        Value::Object(members) => members
            .iter()
            .try_for_each(|(name, each)| check_depth(each, &path.member(name), depth + 1)),
        _ => Ok(()),
    }
}

/// Null.
impl PayloadType for () {
    fn from_json(value: &Value, path: &Path<'_>) -> Result<Self, Finding> {
        value.as_null().ok_or_else(|| unfit(value, "null", path))
    }

    fn to_json(&self, _: &Path<'_>, _: usize) -> Result<Value, Finding> {
        Ok(Value::Null)
    }
}

impl PayloadType for bool {
    fn from_json(value: &Value, path: &Path<'_>) -> Result<Self, Finding> {
        value
            .as_bool()
            .ok_or_else(|| unfit(value, "a boolean", path))
    }

    fn to_json(&self, _: &Path<'_>, _: usize) -> Result<Value, Finding> {
        Ok(Value::Bool(*self))
    }
}

impl PayloadType for i64 {
    /// Also of 1.0, which is a whole number in JSON Schema.
    fn from_json(value: &Value, path: &Path<'_>) -> Result<Self, Finding> {
        let whole = value.as_number().and_then(super::numbers::whole);
        let found = whole.and_then(|whole| Self::try_from(whole).ok());
        found.ok_or_else(|| unfit(value, "a whole number of 64 bits", path))
    }

    fn to_json(&self, _: &Path<'_>, _: usize) -> Result<Value, Finding> {
        Ok(Value::from(*self))
    }
}

impl PayloadType for f64 {
    fn from_json(value: &Value, path: &Path<'_>) -> Result<Self, Finding> {
        value.as_f64().ok_or_else(|| unfit(value, "a number", path))
    }

    /// Whole numbers without a fraction, so that they are read as they were written.
    fn to_json(&self, path: &Path<'_>, _: usize) -> Result<Value, Finding> {
        let bound = 2f64.powi(53);
        if self.trunc() == *self && self.abs() < bound && (*self != 0.0 || self.is_sign_positive())
        {
            return Ok(Value::from(*self as i64));
        }
        let message = || format!("{self} has no form in JSON");
        let number = Number::from_f64(*self).map(Value::Number);
        number.ok_or_else(|| Finding::new(path, "json", message()))
    }
}

impl PayloadType for String {
    fn from_json(value: &Value, path: &Path<'_>) -> Result<Self, Finding> {
        let text = value.as_str().map(str::to_owned);
        text.ok_or_else(|| unfit(value, "text", path))
    }

    fn to_json(&self, _: &Path<'_>, _: usize) -> Result<Value, Finding> {
        Ok(Value::from(self.as_str()))
    }
}

/// Bytes, which are base64 in JSON.
impl PayloadType for Vec<u8> {
    fn from_json(value: &Value, path: &Path<'_>) -> Result<Self, Finding> {
        let bytes = value.as_str().and_then(base64::decode);
        bytes.ok_or_else(|| unfit(value, "bytes in base64", path))
    }

    fn to_json(&self, _: &Path<'_>, _: usize) -> Result<Value, Finding> {
        Ok(Value::String(base64::encode(self)))
    }
}

impl<T: PayloadType> PayloadType for Vec<T> {
    fn from_json(value: &Value, path: &Path<'_>) -> Result<Self, Finding> {
        let items = value
            .as_array()
            .ok_or_else(|| unfit(value, "an array", path))?;
        let items = items.iter().enumerate();
        items
            .map(|(place, item)| T::from_json(item, &path.item(place)))
            .collect()
    }

    fn to_json(&self, path: &Path<'_>, depth: usize) -> Result<Value, Finding> {
        nested(path, depth)?;
        let items = self.iter().enumerate();
        let items = items.map(|(place, item)| item.to_json(&path.item(place), depth + 1));
        items.collect::<Result<_, _>>().map(Value::Array)
    }
}

impl<T: PayloadType> PayloadType for BTreeMap<String, T> {
    fn from_json(value: &Value, path: &Path<'_>) -> Result<Self, Finding> {
        let members = members_of(value, path)?.iter();
        members
            .map(|(name, value)| Ok((name.clone(), T::from_json(value, &path.member(name))?)))
            .collect()
    }

    fn to_json(&self, path: &Path<'_>, depth: usize) -> Result<Value, Finding> {
        nested(path, depth)?;
        let mut members = Map::new();
        for (name, value) in self {
            members.insert(name.clone(), value.to_json(&path.member(name), depth + 1)?);
        }
        Ok(Value::Object(members))
    }
}

/// What may be null.
impl<T: PayloadType> PayloadType for Option<T> {
    fn from_json(value: &Value, path: &Path<'_>) -> Result<Self, Finding> {
        match value {
            Value::Null => Ok(None),
            other => T::from_json(other, path).map(Some),
        }
    }

    fn to_json(&self, path: &Path<'_>, depth: usize) -> Result<Value, Finding> {
        match self {
            None => Ok(Value::Null),
            Some(found) => found.to_json(path, depth),
        }
    }
}

impl<T: PayloadType> PayloadType for Box<T> {
    fn from_json(value: &Value, path: &Path<'_>) -> Result<Self, Finding> {
        T::from_json(value, path).map(Self::new)
    }

    fn to_json(&self, path: &Path<'_>, depth: usize) -> Result<Value, Finding> {
        (**self).to_json(path, depth)
    }
}

fn members_of<'a>(value: &'a Value, path: &Path<'_>) -> Result<&'a Map<String, Value>, Finding> {
    value
        .as_object()
        .ok_or_else(|| unfit(value, "an object", path))
}

/// The members of an object, for the code of records. What is wrong with one that may be absent is noted: a function
/// that returns in thousands of places takes a compiler minutes.
#[doc(hidden)]
pub struct MemberReader<'a> {
    members: &'a Map<String, Value>,
    path: &'a Path<'a>,
    failure: Option<Finding>,
}

impl<'a> MemberReader<'a> {
    /// The members of a value.
    ///
    /// # Errors
    ///
    /// The value is no object.
    pub fn new(value: &'a Value, path: &'a Path<'a>) -> Result<Self, Finding> {
        let members = members_of(value, path)?;
        let failure = None;
        Ok(Self {
            members,
            path,
            failure,
        })
    }

    /// A member that is always there.
    ///
    /// # Errors
    ///
    /// It is absent, or of another type.
    pub fn required<T: PayloadType>(&mut self, name: &str) -> Result<T, Finding> {
        let path = self.path.member(name);
        match self.members.get(name) {
            Some(value) => T::from_json(value, &path),
            None => Err(Finding::new(path, "required", "is required")),
        }
    }

    /// A member that may be absent.
    pub fn optional<T: PayloadType>(&mut self, name: &str) -> Option<T> {
        let read = T::from_json(self.members.get(name)?, &self.path.member(name));
        self.noted(read)
    }

    /// The members that have no fields of their own.
    pub fn others<T: PayloadType>(&mut self, known: &[&str]) -> BTreeMap<String, T> {
        let others = self
            .members
            .iter()
            .filter(|(name, _)| !known.contains(&name.as_str()));
        let read: Result<_, _> = others
            .map(|(name, value)| Ok((name.clone(), T::from_json(value, &self.path.member(name))?)))
            .collect();
        self.noted(read).unwrap_or_default()
    }

    fn noted<T>(&mut self, read: Result<T, Finding>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(finding) => {
                self.failure.get_or_insert(finding);
                None
            }
        }
    }

    /// What was read.
    ///
    /// # Errors
    ///
    /// What is wrong with a member.
    pub fn finish<T>(self, read: T) -> Result<T, Finding> {
        match self.failure {
            Some(finding) => Err(finding),
            None => Ok(read),
        }
    }
}

/// An object that is written, for the code of records.
#[doc(hidden)]
pub struct MemberWriter<'a> {
    members: Map<String, Value>,
    path: &'a Path<'a>,
    depth: usize,
    failure: Option<Finding>,
}

impl<'a> MemberWriter<'a> {
    /// An object without members.
    #[must_use]
    pub fn new(path: &'a Path<'a>, depth: usize) -> Self {
        let members = Map::new();
        let failure = nested(path, depth).err();
        Self {
            members,
            path,
            depth,
            failure,
        }
    }

    /// A member that is always there.
    pub fn required<T: PayloadType>(&mut self, name: &str, value: &T) {
        if self.failure.is_some() {
            return; // of what is nested too deep nothing is written
        }
        match value.to_json(&self.path.member(name), self.depth + 1) {
            Ok(value) => {
                self.members.insert(name.to_owned(), value);
            }
            Err(finding) => self.failure = Some(finding),
        }
    }

    /// A member that may be absent.
    pub fn optional<T: PayloadType>(&mut self, name: &str, value: &Option<T>) {
        if let Some(value) = value {
            self.required(name, value);
        }
    }

    /// The members that have no fields of their own.
    pub fn others<T: PayloadType>(&mut self, known: &[&str], others: &BTreeMap<String, T>) {
        for (name, value) in others {
            if known.contains(&name.as_str()) {
                let path = self.path.member(name);
                let finding = Finding::new(path, "duplicate", "has a field of its own");
                self.failure.get_or_insert(finding);
            }
            self.required(name, value);
        }
    }

    /// The object.
    ///
    /// # Errors
    ///
    /// What JSON has no form for.
    pub fn finish(self) -> Result<Value, Finding> {
        match self.failure {
            Some(finding) => Err(finding),
            None => Ok(Value::Object(self.members)),
        }
    }
}

/// How the members of a record are called in JSON, whether they may be absent, and whether there are others.
#[allow(unused_macros)] // there may be no record
macro_rules! record {
    (@read required $members:ident $name:literal) => { $members.required($name)? };
    (@read optional $members:ident $name:literal) => { $members.optional($name) };
    ($record:ident { $($presence:ident $field:ident = $name:literal,)* $(..$others:ident)? }) => {
        impl $crate::runtime::PayloadType for $record {
            fn from_json(
                value: &serde_json::Value,
                path: &$crate::runtime::Path<'_>,
            ) -> Result<Self, $crate::runtime::Finding> {
                let mut _members = $crate::runtime::payload::MemberReader::new(value, path)?;
                let _known: &[&str] = &[$($name),*];
                let read = Self {
                    $($field: $crate::runtime::payload::record!(@read $presence _members $name),)*
                    $($others: _members.others(_known),)?
                };
                _members.finish(read)
            }

            fn to_json(
                &self,
                path: &$crate::runtime::Path<'_>,
                depth: usize,
            ) -> Result<serde_json::Value, $crate::runtime::Finding> {
                let mut _members = $crate::runtime::payload::MemberWriter::new(path, depth);
                let _known: &[&str] = &[$($name),*];
                $(_members.$presence($name, &self.$field);)*
                $(_members.others(_known, &self.$others);)?
                _members.finish()
            }
        }
    };
}
#[allow(unused_imports)]
pub(crate) use record;

/// The texts that the values of a closed set stand for.
#[allow(unused_macros)] // there may be no closed set
macro_rules! closed_set {
    ($set:ident { $($variant:ident = $text:literal,)* }) => {
        impl $set {
            /// The text that the value stands for.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl $crate::runtime::PayloadType for $set {
            fn from_json(
                value: &serde_json::Value,
                path: &$crate::runtime::Path<'_>,
            ) -> Result<Self, $crate::runtime::Finding> {
                match value.as_str() {
                    $(Some($text) => Ok(Self::$variant),)*
                    _ => Err($crate::runtime::payload::no_choice(value, path)),
                }
            }

            fn to_json(
                &self,
                _: &$crate::runtime::Path<'_>,
                _: usize,
            ) -> Result<serde_json::Value, $crate::runtime::Finding> {
                Ok(serde_json::Value::from(self.as_str()))
            }
        }
    };
}
#[allow(unused_imports)]
pub(crate) use closed_set;

/// What is wrong with a value that is none of a closed set.
#[doc(hidden)]
#[must_use]
pub fn no_choice(value: &Value, path: &Path<'_>) -> Finding {
    unfit(value, "one of a closed set", path)
}
