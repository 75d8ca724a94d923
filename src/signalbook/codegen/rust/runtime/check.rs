//! Values held to the rules of a schema.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::finding::{Finding, Path};
use super::numbers::{canonical, compare, is_multiple, is_same, is_whole};
use super::rules::{Parts, Pattern, Rule, Rules};

const MOST_FINDINGS: usize = 100;
const DEEPEST: usize = 512;
const LONGEST: usize = 100;

/// Members and items of one value that some rule has looked at.
#[derive(Default)]
struct Seen<'a> {
    names: HashSet<&'a str>,
    places: HashSet<usize>,
}

impl Seen<'_> {
    fn add(&mut self, more: Self) {
        self.names.extend(more.names);
        self.places.extend(more.places);
    }
}

/// A value, where it is, and how deep the rules are that it is held to.
#[derive(Clone, Copy)]
struct At<'a, 'p> {
    value: &'a Value,
    path: &'p Path<'p>,
    depth: usize,
}

impl<'a, 'p> At<'a, 'p> {
    fn deeper(self) -> Self {
        Self {
            depth: self.depth + 1,
            ..self
        }
    }

    fn part(self, value: &'a Value, path: &'p Path<'p>) -> Self {
        Self {
            value,
            path,
            depth: self.depth + 1,
        }
    }
}

pub(super) struct Checker<'r> {
    rules: &'r Rules,
    findings: Vec<Finding>,
}

impl<'r> Checker<'r> {
    pub(super) fn new(rules: &'r Rules) -> Self {
        Self {
            rules,
            findings: Vec::new(),
        }
    }

    pub(super) fn checked(mut self, root: usize, value: &Value, path: &Path<'_>) -> Vec<Finding> {
        let depth = 0;
        self.check(root, At { value, path, depth });
        self.findings
    }

    fn report(&mut self, path: &Path<'_>, rule: &'static str, message: impl Into<String>) {
        if self.findings.len() <= MOST_FINDINGS {
            self.findings.push(Finding::new(path, rule, message));
        }
    }

    fn check<'a>(&mut self, index: usize, at: At<'a, '_>) -> Seen<'a> {
        let rules = self.rules;
        let mut seen = Seen::default();
        let rule = match rules.at(index) {
            Rule::Always(true) => return seen,
            Rule::Always(false) => {
                self.report(at.path, "false", "no value is allowed here");
                return seen;
            }
            Rule::Parts(rule) => rule,
        };
        if at.depth > DEEPEST {
            self.report(at.path, "depth", "the value is nested too deep");
            return seen;
        }
        self.plain(rule, at);
        self.combined(rule, at, &mut seen);
        match at.value {
            Value::Array(items) => self.array(rule, items, at, &mut seen),
            Value::Object(members) => self.object(rule, members, at, &mut seen),
            _ => {}
        }
        seen
    }

    fn plain(&mut self, rule: &Parts, at: At<'_, '_>) {
        if let Some(kinds) = &rule.kinds {
            if !kinds.iter().any(|kind| is_of(kind, at.value)) {
                let message = format!(
                    "must be of type {}, not {}",
                    kinds.join(" or "),
                    shown(at.value)
                );
                self.report(at.path, "type", message);
            }
        }
        if let Some(values) = &rule.values {
            if !values.iter().any(|each| is_same(each, at.value)) {
                let allowed: Vec<_> = values.iter().map(shown).collect();
                let message = format!(
                    "must be one of {}, not {}",
                    allowed.join(", "),
                    shown(at.value)
                );
                self.report(at.path, "enum", message);
            }
        }
        match at.value {
            Value::Number(number) => self.number(rule, number, at.path),
            Value::String(text) => self.text(rule, text, at.path),
            _ => {}
        }
    }

    fn number(&mut self, rule: &Parts, value: &serde_json::Number, path: &Path<'_>) {
        if let Some(bound) = rule.min.as_ref().filter(|b| compare(value, b).is_lt()) {
            self.report(path, "minimum", format!("must be at least {bound}"));
        }
        if let Some(bound) = rule.max.as_ref().filter(|b| compare(value, b).is_gt()) {
            self.report(path, "maximum", format!("must be at most {bound}"));
        }
        if let Some(bound) = rule.above.as_ref().filter(|b| compare(value, b).is_le()) {
            self.report(
                path,
                "exclusiveMinimum",
                format!("must be more than {bound}"),
            );
        }
        if let Some(bound) = rule.below.as_ref().filter(|b| compare(value, b).is_ge()) {
            self.report(
                path,
                "exclusiveMaximum",
                format!("must be less than {bound}"),
            );
        }
        if let Some(of) = rule.multiple.as_ref().filter(|of| !is_multiple(value, of)) {
            self.report(path, "multipleOf", format!("must be a multiple of {of}"));
        }
    }

    fn text(&mut self, rule: &Parts, value: &str, path: &Path<'_>) {
        let bounds = rule.lengths;
        if bounds.least.is_some() || bounds.most.is_some() {
            let length = value.chars().count() as u64;
            if let Some(least) = bounds.least.filter(|least| length < *least) {
                let message = format!("must have at least {least} characters");
                self.report(path, "minLength", message);
            }
            if let Some(most) = bounds.most.filter(|most| length > *most) {
                let message = format!("must have at most {most} characters");
                self.report(path, "maxLength", message);
            }
        }
        if let Some(pattern) = rule.pattern.as_ref().filter(|each| !each.matches(value)) {
            self.report(path, "pattern", format!("must match {}", pattern.text));
        }
    }

    /// What an alternative has against a value, and what it has looked at; nothing is reported.
    fn attempt<'a>(&mut self, index: usize, at: At<'a, '_>) -> (Vec<Finding>, Seen<'a>) {
        let kept = std::mem::take(&mut self.findings);
        let seen = self.check(index, at.deeper());
        (std::mem::replace(&mut self.findings, kept), seen)
    }

    fn fits(&mut self, index: usize, at: At<'_, '_>) -> bool {
        self.attempt(index, at).0.is_empty()
    }

    fn combined<'a>(&mut self, rule: &Parts, at: At<'a, '_>, seen: &mut Seen<'a>) {
        for index in &rule.all {
            seen.add(self.check(*index, at.deeper()));
        }
        if let Some(indices) = &rule.any {
            self.alternatives(indices, "anyOf", at, seen);
        }
        if let Some(indices) = &rule.one {
            self.alternatives(indices, "oneOf", at, seen);
        }
        if rule.not.is_some_and(|index| self.fits(index, at)) {
            self.report(at.path, "not", "is what is not allowed here");
        }
        let Some(condition) = rule.condition else {
            return;
        };
        let (findings, looked_at) = self.attempt(condition, at);
        let following = if findings.is_empty() {
            seen.add(looked_at);
            rule.then
        } else {
            rule.otherwise
        };
        if let Some(index) = following {
            seen.add(self.check(index, at.deeper()));
        }
    }

    fn alternatives<'a>(
        &mut self,
        indices: &[usize],
        name: &'static str,
        at: At<'a, '_>,
        seen: &mut Seen<'a>,
    ) {
        let mut fitting = 0;
        let mut nearest: Option<Vec<Finding>> = None;
        for index in indices {
            let (findings, looked_at) = self.attempt(*index, at);
            if findings.is_empty() {
                fitting += 1;
                seen.add(looked_at);
            } else if nearest
                .as_ref()
                .map_or(true, |least| findings.len() < least.len())
            {
                nearest = Some(findings);
            }
        }
        if fitting == 0 {
            let why: Vec<_> = nearest.iter().flatten().map(Finding::to_string).collect();
            let why = shortened(&why.join("; "), 10 * LONGEST);
            let message = format!("fits none of the alternatives; of the nearest one: {why}");
            self.report(at.path, name, message);
        } else if name == "oneOf" && fitting > 1 {
            let message = format!("fits {fitting} alternatives, where one is allowed");
            self.report(at.path, name, message);
        }
    }

    fn array<'a>(&mut self, rule: &Parts, items: &'a [Value], at: At<'a, '_>, seen: &mut Seen<'a>) {
        let bounds = rule.item_counts;
        if let Some(least) = bounds.least.filter(|least| (items.len() as u64) < *least) {
            self.report(
                at.path,
                "minItems",
                format!("must have at least {least} items"),
            );
        }
        if let Some(most) = bounds.most.filter(|most| items.len() as u64 > *most) {
            self.report(
                at.path,
                "maxItems",
                format!("must have at most {most} items"),
            );
        }
        if rule.unique && !is_unique(items) {
            self.report(at.path, "uniqueItems", "has an item twice");
        }
        for (place, item) in items.iter().enumerate() {
            if let Some(index) = rule.prefix.get(place).copied().or(rule.items) {
                self.check(index, at.part(item, &at.path.item(place)));
                self.note_place(place, seen);
            }
        }
        if let Some(index) = rule.contains {
            self.contained(rule, index, items, at, seen);
        }
        if let Some(index) = rule.unevaluated_items {
            for (place, item) in items.iter().enumerate() {
                if seen.places.insert(place) {
                    self.check(index, at.part(item, &at.path.item(place)));
                }
            }
        }
    }

    fn note_place(&self, place: usize, seen: &mut Seen<'_>) {
        if self.rules.notes_seen {
            seen.places.insert(place);
        }
    }

    fn contained<'a>(
        &mut self,
        rule: &Parts,
        index: usize,
        items: &'a [Value],
        at: At<'a, '_>,
        seen: &mut Seen<'a>,
    ) {
        let mut count = 0;
        for (place, item) in items.iter().enumerate() {
            if self.fits(index, at.part(item, &at.path.item(place))) {
                count += 1;
                self.note_place(place, seen);
            }
        }
        let least = rule.contained.least.unwrap_or(1);
        if count < least {
            let message = format!("must have at least {least} items of a kind, and has {count}");
            self.report(at.path, "contains", message);
        }
        if let Some(most) = rule.contained.most.filter(|most| count > *most) {
            let message = format!("must have at most {most} items of a kind, and has {count}");
            self.report(at.path, "maxContains", message);
        }
    }

    fn object<'a>(
        &mut self,
        rule: &Parts,
        members: &'a Map<String, Value>,
        at: At<'a, '_>,
        seen: &mut Seen<'a>,
    ) {
        self.counted(rule, members, at.path);
        for (name, value) in members {
            self.member(rule, name, at.part(value, &at.path.member(name)), seen);
        }
        for (name, index) in &rule.dependents {
            if members.contains_key(name) {
                seen.add(self.check(*index, at.deeper()));
            }
        }
        if let Some(index) = rule.unevaluated_properties {
            for (name, value) in members {
                if seen.names.insert(name) {
                    self.check(index, at.part(value, &at.path.member(name)));
                }
            }
        }
    }

    fn member<'a>(&mut self, rule: &Parts, name: &'a str, at: At<'a, '_>, seen: &mut Seen<'a>) {
        if let Some(index) = rule.names {
            let value = &Value::String(name.to_owned());
            self.check(index, At { value, ..at });
        }
        let mut known = false;
        let own = rule.properties.get(name).copied();
        let matches = |pair: &&(Pattern, usize)| pair.0.matches(name);
        let matching = rule.patterns.iter().filter(matches).map(|pair| pair.1);
        for index in own.into_iter().chain(matching) {
            self.check(index, at);
            known = true;
        }
        if let Some(index) = rule.others.filter(|_| !known) {
            self.check(index, at);
            known = true;
        }
        if known && self.rules.notes_seen {
            seen.names.insert(name);
        }
    }

    fn counted(&mut self, rule: &Parts, members: &Map<String, Value>, path: &Path<'_>) {
        let missing = |name: &&String| !members.contains_key(*name);
        for name in rule.required.iter().filter(missing) {
            self.report(&path.member(name), "required", "is required");
        }
        for (name, needed) in &rule.requires {
            if members.contains_key(name) {
                for each in needed.iter().filter(missing) {
                    let message = format!("is required, as there is {name}");
                    self.report(&path.member(each), "required", message);
                }
            }
        }
        let (count, bounds) = (members.len() as u64, rule.member_counts);
        if let Some(least) = bounds.least.filter(|least| count < *least) {
            self.report(
                path,
                "minProperties",
                format!("must have at least {least} members"),
            );
        }
        if let Some(most) = bounds.most.filter(|most| count > *most) {
            self.report(
                path,
                "maxProperties",
                format!("must have at most {most} members"),
            );
        }
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match value {
        Value::Null => kind == "null",
        Value::Bool(_) => kind == "boolean",
        Value::String(_) => kind == "string",
        Value::Array(_) => kind == "array",
        Value::Object(_) => kind == "object",
        Value::Number(number) => kind == "number" || (kind == "integer" && is_whole(number)),
    }
}

fn is_unique(items: &[Value]) -> bool {
    let mut found = HashSet::new();
    items.iter().all(|each| found.insert(canonical(each)))
}

/// A value as text for people, cut where it is long.
pub(super) fn shown(value: &Value) -> String {
    shortened(&value.to_string(), LONGEST)
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
