//! The rules of a schema as a table; sub-schemas are places in it.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Number, Value};

use super::check::Checker;
use super::finding::{Finding, Path};
use super::patterns::compiled;

const MOST_FINDINGS: usize = 100;

/// The rules of a schema document.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    /// Whether some rule asks what others have looked at.
    pub(super) notes_seen: bool,
}

/// One schema.
#[derive(Debug)]
pub(super) enum Rule {
    /// Every value, or none.
    Always(bool),
    Parts(Box<Parts>),
}

/// A pattern as it is written, and compiled, where the engine has a form for it.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) text: String,
    compiled: Option<Regex>,
}

impl Pattern {
    fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            compiled: compiled(text),
        }
    }

    /// Nothing matches a pattern that cannot be compiled.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.compiled
            .as_ref()
            .is_some_and(|pattern| pattern.is_match(text))
    }
}

/// The keywords of one schema.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) kinds: Option<Vec<String>>,
    pub(super) values: Option<Vec<Value>>,
    pub(super) min: Option<Number>,
    pub(super) max: Option<Number>,
    pub(super) above: Option<Number>,
    pub(super) below: Option<Number>,
    pub(super) multiple: Option<Number>,
    pub(super) lengths: Bounds,
    pub(super) pattern: Option<Pattern>,
    pub(super) required: Vec<String>,
    pub(super) member_counts: Bounds,
    pub(super) properties: BTreeMap<String, usize>,
    pub(super) patterns: Vec<(Pattern, usize)>,
    pub(super) others: Option<usize>,
    pub(super) names: Option<usize>,
    pub(super) requires: Vec<(String, Vec<String>)>,
    pub(super) dependents: Vec<(String, usize)>,
    pub(super) prefix: Vec<usize>,
    pub(super) items: Option<usize>,
    pub(super) item_counts: Bounds,
    pub(super) unique: bool,
    pub(super) contains: Option<usize>,
    pub(super) contained: Bounds,
    pub(super) all: Vec<usize>,
    pub(super) any: Option<Vec<usize>>,
    pub(super) one: Option<Vec<usize>>,
    pub(super) not: Option<usize>,
    pub(super) condition: Option<usize>,
    pub(super) then: Option<usize>,
    pub(super) otherwise: Option<usize>,
    pub(super) unevaluated_properties: Option<usize>,
    pub(super) unevaluated_items: Option<usize>,
}

/// How many there have to be, and may be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    pub(super) least: Option<u64>,
    pub(super) most: Option<u64>,
}

impl Rules {
    /// The rules of a table as generated code has it.
    #[must_use]
    pub fn new(table: &Value) -> Self {
        let rules: Vec<_> = list(Some(table)).iter().map(rule).collect();
        let notes_seen = rules.iter().any(|rule| match rule {
            Rule::Parts(parts) => {
                parts.unevaluated_properties.is_some() || parts.unevaluated_items.is_some()
            }
            Rule::Always(_) => false,
        });
        Self { rules, notes_seen }
    }

    /// Everything that the schema at a place has against a value, at most a hundred findings.
    #[must_use]
    pub fn check(&self, root: usize, value: &Value, path: &str) -> Vec<Finding> {
        let mut findings = Checker::new(self).checked(root, value, &Path::Root(path));
        findings.truncate(MOST_FINDINGS);
        findings
    }

    pub(super) fn at(&self, place: usize) -> &Rule {
        self.rules.get(place).unwrap_or(&Rule::Always(false))
    }
}

fn rule(table: &Value) -> Rule {
    match table {
        Value::Object(members) => Rule::Parts(Box::new(parts(members))),
        other => Rule::Always(other == &Value::Bool(true)),
    }
}

fn parts(table: &Map<String, Value>) -> Parts {
    let place = |name: &str| table.get(name).and_then(index);
    let number = |name: &str| table.get(name).and_then(Value::as_number).cloned();
    let bounds = |least: &str, most: &str| Bounds {
        least: table.get(least).and_then(count),
        most: table.get(most).and_then(count),
    };
    let all_of = |name: &str| indices(table.get(name)?);
    Parts {
        kinds: table.get("type").map(texts),
        values: table.get("values").and_then(Value::as_array).cloned(),
        min: number("min"),
        max: number("max"),
        above: number("above"),
        below: number("below"),
        multiple: number("multiple"),
        lengths: bounds("minLength", "maxLength"),
        pattern: table
            .get("pattern")
            .and_then(Value::as_str)
            .map(Pattern::new),
        required: table.get("required").map(texts).unwrap_or_default(),
        member_counts: bounds("minProperties", "maxProperties"),
        properties: members(table, "properties", index).collect(),
        patterns: list(table.get("patterns"))
            .iter()
            .filter_map(|pair| Some((Pattern::new(pair.get(0)?.as_str()?), index(pair.get(1)?)?)))
            .collect(),
        others: place("others"),
        names: place("names"),
        requires: members(table, "requires", |each| Some(texts(each))).collect(),
        dependents: members(table, "dependents", index).collect(),
        prefix: all_of("prefix").unwrap_or_default(),
        items: place("items"),
        item_counts: bounds("minItems", "maxItems"),
        unique: table.get("unique").and_then(Value::as_bool) == Some(true),
        contains: place("contains"),
        contained: bounds("minContains", "maxContains"),
        all: all_of("all").unwrap_or_default(),
        any: all_of("any"),
        one: all_of("one"),
        not: place("not"),
        condition: place("if"),
        then: place("then"),
        otherwise: place("else"),
        unevaluated_properties: place("unevaluatedProperties"),
        unevaluated_items: place("unevaluatedItems"),
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn members<'a, T: 'a>(
    table: &'a Map<String, Value>,
    name: &str,
    read: impl Fn(&Value) -> Option<T> + 'a,
) -> impl Iterator<Item = (String, T)> + 'a {
    let found = table.get(name).and_then(Value::as_object);
    found
        .into_iter()
        .flatten()
        .filter_map(move |(name, value)| Some((name.clone(), read(value)?)))
}

fn index(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

fn indices(value: &Value) -> Option<Vec<usize>> {
    value.as_array()?.iter().map(index).collect()
}

fn texts(value: &Value) -> Vec<String> {
    let items = list(Some(value)).iter();
    items
        .filter_map(|each| each.as_str().map(str::to_owned))
        .collect()
}

/// A count, which may be written as 2.0.
fn count(value: &Value) -> Option<u64> {
    value
        .as_u64()
        .or_else(|| value.as_f64().map(|real| real as u64))
}
