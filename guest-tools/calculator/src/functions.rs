//! The constants and functions an expression may use.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_rational::BigRational;
use num_traits::{Pow as _, Signed as _, ToPrimitive as _};

use crate::number::{Number, Outcome};

/// Decimals that `round` takes: more than any number here has use for.
const ROUND_DIGITS_MAX: i32 = 1_000;
/// Beyond this a factorial is longer than an exact number may be.
const FACTORIAL_MAX: u32 = 1_000;
const NO_LOGARITHM: &str = "a logarithm of that is not a real number";

/// The value of a constant.
pub(crate) fn constant(name: &str) -> Outcome {
    match name {
        "pi" => Number::rounded(std::f64::consts::PI),
        "tau" => Number::rounded(std::f64::consts::TAU),
        "e" => Number::rounded(std::f64::consts::E),
        _ => Err(format!("unknown name `{name}`: there are pi, e and tau, and no variables")),
    }
}

/// The value of a function.
pub(crate) fn call(name: &str, arguments: &[Number]) -> Outcome {
    if let Some(function) = of_double(name) {
        let [x] = of(name, arguments)?;
        return Number::rounded(function(x.to_f64()));
    }
    match (name, arguments) {
        ("abs", _) => of(name, arguments)
            .map(|[x]| if x.is_negative() { x.clone().negate() } else { x.clone() }),
        ("sign", _) => of(name, arguments).and_then(|[x]| sign(x)),
        ("floor", _) => step(name, arguments, BigRational::floor, f64::floor),
        ("ceil", _) => step(name, arguments, BigRational::ceil, f64::ceil),
        ("trunc", _) => step(name, arguments, BigRational::trunc, f64::trunc),
        ("round", [_]) => step(name, arguments, BigRational::round, f64::round),
        ("round", _) => of(name, arguments).and_then(|[x, digits]| round(x, digits)),
        ("sqrt", _) => of(name, arguments).and_then(|[x]| x.root(2)),
        ("cbrt", _) => of(name, arguments).and_then(|[x]| x.root(3)),
        ("root", _) => of(name, arguments).and_then(|[x, n]| root(x, n)),
        ("pow", _) => of(name, arguments).and_then(|[x, y]| x.power(y)),
        ("ln", _) => of(name, arguments).and_then(|[x]| ln(x)),
        ("log10", _) => of(name, arguments).and_then(|[x]| log(x, &Number::whole(10)?)),
        ("log2", _) => of(name, arguments).and_then(|[x]| log(x, &Number::whole(2)?)),
        ("log", [_]) => of(name, arguments).and_then(|[x]| log(x, &Number::whole(10)?)),
        ("log", _) => of(name, arguments).and_then(|[x, base]| log(x, base)),
        ("atan2", _) => {
            of(name, arguments).and_then(|[y, x]| Number::rounded(y.to_f64().atan2(x.to_f64())))
        }
        ("hypot", _) => {
            of(name, arguments).and_then(|[x, y]| x.multiply(x)?.add(&y.multiply(y)?)?.root(2))
        }
        ("factorial", _) => of(name, arguments).and_then(|[x]| factorial(x)),
        ("min", [first, rest @ ..]) => Ok(chosen(first, rest, Ordering::Less)),
        ("max", [first, rest @ ..]) => Ok(chosen(first, rest, Ordering::Greater)),
        ("sum", [_, ..]) => sum(arguments),
        ("mean", [_, ..]) => sum(arguments)?.divide(&Number::whole(arguments.len())?),
        ("gcd", [_, ..]) => integers(name, arguments, |a, b| a.gcd(b)),
        ("lcm", [_, ..]) => integers(name, arguments, |a, b| a.lcm(b)),
        ("min" | "max" | "sum" | "mean" | "gcd" | "lcm", []) => {
            Err(format!("`{name}` takes 1 argument or more"))
        }
        _ => {
            Err(format!("unknown function `{name}`; the tool's description lists those there are"))
        }
    }
}

/// Functions of one double without anything to it.
fn of_double(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "sin" => f64::sin,
        "cos" => f64::cos,
        "tan" => f64::tan,
        "asin" => f64::asin,
        "acos" => f64::acos,
        "atan" => f64::atan,
        "sinh" => f64::sinh,
        "cosh" => f64::cosh,
        "tanh" => f64::tanh,
        "exp" => f64::exp,
        "deg" => f64::to_degrees,
        "rad" => f64::to_radians,
        _ => return None,
    })
}

/// Exactly `N` arguments.
fn of<'a, const N: usize>(name: &str, arguments: &'a [Number]) -> Result<&'a [Number; N], String> {
    arguments
        .try_into()
        .map_err(|_| format!("`{name}` takes {N} argument(s), not {}", arguments.len()))
}

fn sign(x: &Number) -> Outcome {
    Number::whole(if x.is_zero() {
        0
    } else if x.is_negative() {
        -1
    } else {
        1
    })
}

/// One of the ways to a whole number.
fn step(
    name: &str,
    arguments: &[Number],
    exact: fn(&BigRational) -> BigRational,
    rounded: fn(f64) -> f64,
) -> Outcome {
    match of(name, arguments)? {
        [Number::Exact(value)] => Number::exact(exact(value)),
        [Number::Rounded(value)] => Number::rounded(rounded(*value)),
    }
}

/// Rounds half away from zero, to so many decimals; a negative number of them means tens.
fn round(x: &Number, digits: &Number) -> Outcome {
    let digits = digits.integer().and_then(BigInt::to_i32).filter(|d| d.abs() <= ROUND_DIGITS_MAX);
    let digits = digits.ok_or_else(|| {
        format!("the digits of `round` are a whole number, {ROUND_DIGITS_MAX} at most")
    })?;
    let scale = BigRational::from_integer(BigInt::from(10)).pow(digits);
    // A double is a fraction too, and its decimals are cut exactly.
    let value = match x {
        Number::Exact(value) => value.clone(),
        Number::Rounded(value) => BigRational::from_float(*value).ok_or("not a number")?,
    };
    Number::exact((value * &scale).round() / scale)
}

fn root(x: &Number, n: &Number) -> Outcome {
    match n.integer().and_then(BigInt::to_u32) {
        Some(degree @ 1..) => x.root(degree),
        _ => Err("the degree of `root` is a whole number, 1 or more".to_owned()),
    }
}

fn ln(x: &Number) -> Outcome {
    let value = x.to_f64();
    if !is_positive(x) {
        return Err(NO_LOGARITHM.to_owned());
    }
    Number::rounded(if value.is_normal() { value.ln() } else { x.log2() * std::f64::consts::LN_2 })
}

fn is_positive(x: &Number) -> bool {
    !x.is_zero() && !x.is_negative()
}

/// The logarithm: exact where the base's power is the number.
fn log(x: &Number, base: &Number) -> Outcome {
    let (value, base_value) = (x.to_f64(), base.to_f64());
    if !is_positive(x) || !is_positive(base) || base_value == 1.0 {
        return Err(NO_LOGARITHM.to_owned());
    }
    let near = if !value.is_normal() || !base_value.is_normal() {
        x.log2() / base.log2()
    } else if base_value == 10.0 {
        value.log10()
    } else if base_value == 2.0 {
        value.log2()
    } else {
        value.ln() / base_value.ln()
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "`as` saturates, and the power is compared"
    )]
    let whole = Number::whole(near.round() as i64)?;
    if let (Ok(Number::Exact(power)), Number::Exact(value)) = (base.power(&whole), x)
        && power == *value
    {
        return Ok(whole);
    }
    Number::rounded(near)
}

fn factorial(x: &Number) -> Outcome {
    let whole = x.integer().filter(|n| !n.is_negative());
    let whole = whole.ok_or("`factorial` takes a whole number that is not negative")?;
    match whole.to_u32() {
        Some(n) if n <= FACTORIAL_MAX => {
            Number::whole((1..=n).fold(BigInt::from(1), |product, factor| product * factor))
        }
        _ => Err("the result is too large".to_owned()),
    }
}

/// The first of those that no other is `better` than.
fn chosen(first: &Number, rest: &[Number], better: Ordering) -> Number {
    let compared = |next: &Number, best: &Number| match (next, best) {
        // Doubles cannot tell long numbers apart.
        (Number::Exact(next), Number::Exact(best)) => Some(next.cmp(best)),
        _ => next.to_f64().partial_cmp(&best.to_f64()),
    };
    let choose = |best, next| if compared(next, best) == Some(better) { next } else { best };
    rest.iter().fold(first, choose).clone()
}

fn sum(arguments: &[Number]) -> Outcome {
    arguments.iter().try_fold(Number::whole(0)?, |sum, next| sum.add(next))
}

fn integers(name: &str, arguments: &[Number], join: fn(&BigInt, &BigInt) -> BigInt) -> Outcome {
    let mut all = arguments.iter().map(|number| {
        number.integer().cloned().ok_or_else(|| format!("`{name}` takes whole numbers"))
    });
    let first = all.next().unwrap_or_else(|| Ok(BigInt::from(0)))?;
    let joined = all.try_fold(first, |joined, next| {
        // Each step is bounded, so that a list of them is.
        let joined = join(&joined, &next?);
        Number::whole(joined.clone())?
            .integer()
            .cloned()
            .ok_or_else(|| "the result is too large".to_owned())
    });
    Number::whole(joined?.abs())
}
