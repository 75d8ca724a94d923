//! Columns as Python describes them: `(kind, nullable, *rules)`, with descriptions of items and members among the rules.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::columns::{Bits, Offsets, Texts};
use crate::json::Key;
use crate::patterns::{Pattern, Repeated, Set};
use crate::payloads::{Column, Kind, List, Map, Member, Object};
use crate::rules::{Floats, Integers, Sizes, Strings};

type Part = (bool, Vec<(u32, u32)>, usize, Option<usize>);

/// The column of a description; with `gaps` some of its rows may be missing, whatever it says itself.
pub fn column(program: &Bound<'_, PyTuple>, gaps: bool) -> PyResult<Column> {
    let name: String = rule(program, 0)?;
    let nullable: bool = rule(program, 1)?;
    // Texts that are no times have no value.
    let gaps = gaps || nullable || matches!(name.as_str(), "timestamp" | "date");
    let kind = match name.as_str() {
        "null" => Kind::Null,
        "bool" => Kind::Bool(Bits::default(), [rule(program, 2)?, rule(program, 3)?]),
        "int" => Kind::Integer(Vec::new(), integers(program)?),
        "float" => Kind::Float(Vec::new(), floats(program)?),
        "string" => Kind::String(Texts::default(), strings(program)?),
        "timestamp" => Kind::Instant(Vec::new(), strings(program)?),
        "date" => Kind::Date(Vec::new(), strings(program)?),
        // The texts of the second are held to more than there is to say here.
        "raw" | "guarded" => Kind::Raw(Texts::default(), rule(program, 2)?),
        "choice" => {
            let columns: Vec<Bound<'_, PyTuple>> = rule(program, 2)?;
            let columns = columns.iter().map(|each| column(each, false));
            Kind::Choice(Texts::default(), columns.collect::<PyResult<_>>()?)
        }
        "list" => Kind::List(List {
            ends: Offsets::default(),
            sizes: sizes(program)?,
            item: inner(program)?,
        }),
        "map" => Kind::Map(Map {
            ends: Offsets::default(),
            sizes: sizes(program)?,
            names: Texts::default(),
            value: inner(program)?,
        }),
        "object" => Kind::Object(object(program, gaps)?),
        _ => return Err(PyValueError::new_err(format!("there are no columns of kind {name:?}"))),
    };
    Ok(Column {
        nullable,
        gaps,
        valid: Bits::default(),
        kind,
    })
}

pub fn rule<'py, T: FromPyObject<'py>>(program: &Bound<'py, PyTuple>, number: usize) -> PyResult<T> {
    program.get_item(number)?.extract()
}

fn inner(program: &Bound<'_, PyTuple>) -> PyResult<Box<Column>> {
    Ok(Box::new(column(&rule(program, 4)?, false)?))
}

fn integers(program: &Bound<'_, PyTuple>) -> PyResult<Integers> {
    let low: Option<i64> = rule(program, 2)?;
    let high: Option<i64> = rule(program, 3)?;
    Ok(Integers {
        low: low.unwrap_or(i64::MIN),
        high: high.unwrap_or(i64::MAX),
        step: rule(program, 4)?,
        values: sorted(rule(program, 5)?),
    })
}

fn floats(program: &Bound<'_, PyTuple>) -> PyResult<Floats> {
    let low: Option<f64> = rule(program, 2)?;
    let high: Option<f64> = rule(program, 4)?;
    Ok(Floats {
        low: low.unwrap_or(f64::NEG_INFINITY),
        low_open: rule(program, 3)?,
        high: high.unwrap_or(f64::INFINITY),
        high_open: rule(program, 5)?,
    })
}

fn strings(program: &Bound<'_, PyTuple>) -> PyResult<Strings> {
    let high: Option<usize> = rule(program, 3)?;
    let values: Option<Vec<String>> = rule(program, 4)?;
    Ok(Strings {
        low: rule(program, 2)?,
        high: high.unwrap_or(usize::MAX),
        values: sorted(values.map(|texts| texts.into_iter().map(String::into_bytes).collect())),
        pattern: pattern(program)?,
    })
}

fn sorted<T: Ord>(values: Option<Vec<T>>) -> Option<Vec<T>> {
    values.map(|mut values| {
        values.sort();
        values
    })
}

fn pattern(program: &Bound<'_, PyTuple>) -> PyResult<Option<Pattern>> {
    let given: Option<(bool, bool, Vec<Part>)> = rule(program, 5)?;
    Ok(given.map(|(anchored, ended, parts)| Pattern {
        anchored,
        ended,
        parts: parts.into_iter().map(repeated).collect(),
    }))
}

fn repeated((negated, ranges, least, most): Part) -> Repeated {
    Repeated {
        set: Set::new(ranges, negated),
        least,
        most: most.unwrap_or(usize::MAX),
    }
}

fn sizes(program: &Bound<'_, PyTuple>) -> PyResult<Sizes> {
    let high: Option<usize> = rule(program, 3)?;
    Ok(Sizes {
        low: rule(program, 2)?,
        high: high.unwrap_or(usize::MAX),
    })
}

fn object(program: &Bound<'_, PyTuple>, gaps: bool) -> PyResult<Object> {
    let given: Vec<(String, bool, Bound<'_, PyTuple>)> = rule(program, 3)?;
    let mut members = Vec::new();
    for (name, required, inner) in given {
        members.push(Member {
            key: Key::new(&name),
            required,
            column: column(&inner, gaps || !required)?,
        });
    }
    Ok(Object::new(members, rule(program, 2)?))
}
