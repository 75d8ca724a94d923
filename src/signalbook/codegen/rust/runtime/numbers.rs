//! Numbers of JSON compared exactly, and values that are the same.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Number, Value};

/// A number as it can be compared: whole ones of 64 bits, and all others as doubles.
#[derive(Clone, Copy)]
enum Amount {
    Whole(i128),
    Real(f64),
}

fn amount(number: &Number) -> Amount {
    if let Some(whole) = number.as_i64() {
        return Amount::Whole(whole.into());
    }
    if let Some(whole) = number.as_u64() {
        return Amount::Whole(whole.into());
    }
    let real = number.as_f64().unwrap_or(f64::NAN);
    whole_of(real).map_or(Amount::Real(real), Amount::Whole)
}

/// A double without a fraction that 128 bits hold.
fn whole_of(real: f64) -> Option<i128> {
    let bound = 2f64.powi(126);
    (real.trunc() == real && real.abs() < bound).then_some(real as i128)
}

/// The order of two numbers.
pub(crate) fn compare(left: &Number, right: &Number) -> Ordering {
    match (amount(left), amount(right)) {
        (Amount::Whole(left), Amount::Whole(right)) => left.cmp(&right),
        (Amount::Real(left), Amount::Real(right)) => {
            left.partial_cmp(&right).unwrap_or(Ordering::Equal)
        }
        (Amount::Whole(left), Amount::Real(right)) => compare_mixed(left, right),
        (Amount::Real(left), Amount::Whole(right)) => compare_mixed(right, left).reverse(),
    }
}

fn compare_mixed(whole: i128, real: f64) -> Ordering {
    let floor = real.floor() as i128;
    if whole == floor {
        return Ordering::Less; // a real number with a fraction is more than its floor
    }
    whole.cmp(&floor)
}

/// Whether a number is a whole one; 1.0 is.
pub(crate) fn is_whole(number: &Number) -> bool {
    match amount(number) {
        Amount::Whole(_) => true,
        Amount::Real(real) => real.trunc() == real,
    }
}

/// A whole number within 64 bits with a sign, also of 1.0.
pub(crate) fn whole(number: &Number) -> Option<i128> {
    match amount(number) {
        Amount::Whole(whole) => Some(whole),
        Amount::Real(_) => None,
    }
}

/// Whether a number is a multiple of another, exactly, by their decimal digits.
pub(crate) fn is_multiple(number: &Number, of: &Number) -> bool {
    let (Some((left, left_power)), Some((right, right_power))) = (decimal(number), decimal(of))
    else {
        return false;
    };
    if left == 0 || right == 0 {
        return left == 0 && right != 0;
    }
    if left_power >= right_power {
        let power = power_of_ten((left_power - right_power).unsigned_abs(), right);
        return (left % right) * power % right == 0;
    }
    let power = (right_power - left_power).unsigned_abs();
    let divisor = 10u128
        .checked_pow(power)
        .and_then(|ten| ten.checked_mul(right));
    divisor.is_some_and(|divisor| left % divisor == 0)
}

/// Ten to a power, modulo a number of 64 bits.
fn power_of_ten(power: u32, modulus: u128) -> u128 {
    (0..power).fold(1 % modulus, |found, _| found * 10 % modulus)
}

/// The digits of a number, fewer than 64 bits, and a power of ten.
fn decimal(number: &Number) -> Option<(u128, i32)> {
    if let Some(whole) = number.as_u64() {
        return Some((whole.into(), 0));
    }
    if let Some(whole) = number.as_i64() {
        return Some((whole.unsigned_abs().into(), 0));
    }
    let text = format!("{:e}", number.as_f64()?.abs());
    let (digits, exponent) = text.split_once('e')?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let found = format!("{whole}{fraction}").parse().ok()?;
    let power: i32 = exponent.parse().ok()?;
    Some((found, power - i32::try_from(fraction.len()).ok()?))
}

/// Whether two values are the same; 1 and 1.0 are.
pub(crate) fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare(left, right).is_eq(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, value)| right.get(name).is_some_and(|other| is_same(value, other)))
        }
        _ => left == right,
    }
}

/// Text that is the same for values that are the same.
pub(crate) fn canonical(value: &Value) -> String {
    match value {
        Value::Number(number) => match amount(number) {
            Amount::Whole(whole) => whole.to_string(),
            Amount::Real(real) => real.to_string(),
        },
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let sorted: BTreeMap<_, _> = members.iter().collect();
            let parts: Vec<_> = sorted
                .into_iter()
                .map(|(name, value)| format!("{name:?}:{}", canonical(value)))
                .collect();
            format!("{{{}}}", parts.join(","))
        }
        other => other.to_string(),
    }
}
