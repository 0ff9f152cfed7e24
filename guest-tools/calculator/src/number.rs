//! A number: a fraction of whole numbers as long as that is short enough, a double otherwise.

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_rational::BigRational;
use num_traits::{One as _, Signed as _, ToPrimitive as _, Zero as _};

/// Bits of an exact number, above and below the line together: about 2,400 digits. No operation
/// on such numbers takes a millisecond.
pub(crate) const EXACT_BITS_MAX: u64 = 8_192;

/// Decimals of an exact result that are written out.
const DECIMALS_MAX: usize = 1_000;
/// Decimals of a fraction that does not end.
const DECIMALS_OF_FRACTION: u32 = 30;
/// Characters of a fraction that are shown.
const FRACTION_CHARS_MAX: usize = 200;
/// The greatest root that is looked for exactly.
const ROOT_MAX: u32 = 64;

/// What the result of an operation is, or why there is none.
pub(crate) type Outcome = Result<Number, String>;

/// A finite real number.
#[derive(Debug, Clone)]
pub(crate) enum Number {
    /// Known to the last digit.
    Exact(BigRational),
    /// Rounded to a double.
    Rounded(f64),
}

impl Number {
    /// A fraction, rounded where it is too long to go on with.
    pub(crate) fn exact(value: BigRational) -> Outcome {
        if value.numer().bits() + value.denom().bits() <= EXACT_BITS_MAX {
            return Ok(Self::Exact(value));
        }
        Self::rounded_nonzero(value.to_f64().unwrap_or(f64::INFINITY))
    }

    pub(crate) fn whole(value: impl Into<BigInt>) -> Outcome {
        Self::exact(BigRational::from_integer(value.into()))
    }

    /// A double that is a number.
    pub(crate) fn rounded(value: f64) -> Outcome {
        if value.is_nan() {
            Err("the result is not a real number".to_owned())
        } else if value.is_infinite() {
            Err("the result is too large".to_owned())
        } else {
            Ok(Self::Rounded(value))
        }
    }

    /// As [`Number::rounded`], of what is not zero: where the double is, it was too small.
    fn rounded_nonzero(value: f64) -> Outcome {
        if value == 0.0 { Err("the result is too small".to_owned()) } else { Self::rounded(value) }
    }

    /// The nearest double, which may be infinite.
    pub(crate) fn to_f64(&self) -> f64 {
        match self {
            Self::Exact(value) => value.to_f64().unwrap_or(f64::NAN),
            Self::Rounded(value) => *value,
        }
    }

    /// The number where it is whole and known exactly.
    pub(crate) fn integer(&self) -> Option<&BigInt> {
        match self {
            Self::Exact(value) if value.is_integer() => Some(value.numer()),
            _ => None,
        }
    }

    /// What is far too small for a double is still less than zero.
    pub(crate) fn is_negative(&self) -> bool {
        match self {
            Self::Exact(value) => value.is_negative(),
            Self::Rounded(value) => *value < 0.0,
        }
    }

    /// The binary logarithm of what is more than zero, be it too large or too small for a double.
    pub(crate) fn log2(&self) -> f64 {
        match (self, self.to_f64()) {
            (Self::Exact(value), near) if !near.is_normal() => {
                log2(value.numer()) - log2(value.denom())
            }
            (_, near) => near.log2(),
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Exact(value) => value.is_zero(),
            Self::Rounded(value) => *value == 0.0,
        }
    }

    pub(crate) fn add(&self, other: &Self) -> Outcome {
        self.with(other, |a, b| a + b, |a, b| a + b)
    }

    pub(crate) fn subtract(&self, other: &Self) -> Outcome {
        self.with(other, |a, b| a - b, |a, b| a - b)
    }

    pub(crate) fn multiply(&self, other: &Self) -> Outcome {
        self.with(other, |a, b| a * b, |a, b| a * b)
    }

    pub(crate) fn divide(&self, other: &Self) -> Outcome {
        nonzero(other)?;
        self.with(other, |a, b| a / b, |a, b| a / b)
    }

    /// What is left over, with the sign of the left side.
    pub(crate) fn remainder(&self, other: &Self) -> Outcome {
        nonzero(other)?;
        self.with(other, |a, b| a % b, |a, b| a % b)
    }

    pub(crate) fn negate(self) -> Self {
        match self {
            Self::Exact(value) => Self::Exact(-value),
            Self::Rounded(value) => Self::Rounded(-value),
        }
    }

    /// Applies one operation to both: exactly where both are exact.
    fn with(
        &self,
        other: &Self,
        exact: fn(&BigRational, &BigRational) -> BigRational,
        rounded: fn(f64, f64) -> f64,
    ) -> Outcome {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => Self::exact(exact(a, b)),
            _ => Self::rounded(rounded(self.to_f64(), other.to_f64())),
        }
    }

    pub(crate) fn power(&self, exponent: &Self) -> Outcome {
        if self.is_zero() && exponent.is_negative() {
            return Err("zero to a negative power is a division by zero".to_owned());
        }
        match self.exact_power(exponent) {
            Some(value) => Self::exact(value),
            None => Self::rounded_nonzero(self.to_f64().powf(exponent.to_f64())),
        }
    }

    /// The power, where it is a fraction of bearable length.
    fn exact_power(&self, exponent: &Self) -> Option<BigRational> {
        let (Self::Exact(base), Self::Exact(exponent)) = (self, exponent) else {
            return None;
        };
        if base.is_zero() || base.abs().is_one() {
            let odd = exponent.is_integer() && exponent.numer().is_odd();
            let sign_is_known = !base.is_negative() || exponent.is_integer();
            let one = if odd { base.clone() } else { base.abs() };
            let zero_to_zero = base.is_zero() && exponent.is_zero();
            return sign_is_known.then(|| if zero_to_zero { BigRational::one() } else { one });
        }
        let root = exact_root(base, exponent.denom().to_u32()?)?;
        let times = exponent.numer().to_i32()?;
        let bits =
            (root.numer().bits() + root.denom().bits()).checked_mul(times.unsigned_abs().into());
        // A power has about as many bits as its base has, times the exponent.
        bits.is_some_and(|bits| bits <= 2 * EXACT_BITS_MAX).then(|| root.pow(times))
    }

    pub(crate) fn root(&self, degree: u32) -> Outcome {
        if let Self::Exact(value) = self
            && let Some(root) = exact_root(value, degree)
        {
            return Self::exact(root);
        }
        let value = self.to_f64();
        let odd = !degree.is_multiple_of(2);
        let root = value.abs().powf(1.0 / f64::from(degree));
        let near = match degree {
            2 => value.sqrt(),
            3 => value.cbrt(),
            _ if value < 0.0 && !odd => f64::NAN,
            _ => root.copysign(value),
        };
        if self.is_zero() { Self::rounded(near) } else { Self::rounded_nonzero(near) }
    }

    /// The number in digits, and whether they are all of it.
    pub(crate) fn digits(&self) -> (String, bool) {
        match self {
            Self::Rounded(value) => (double(*value), false),
            Self::Exact(value) => match decimals(value.denom()) {
                Some(places) => (fixed(value, places), true),
                None => (short(&fixed(value, DECIMALS_OF_FRACTION), value), false),
            },
        }
    }

    /// The fraction, where its decimals do not end and it is short.
    pub(crate) fn fraction(&self) -> Option<String> {
        let Self::Exact(value) = self else { return None };
        let text = value.to_string();
        (decimals(value.denom()).is_none() && text.len() <= FRACTION_CHARS_MAX).then_some(text)
    }

    /// The nearest double, where there is one.
    pub(crate) fn double(&self) -> Option<f64> {
        Some(self.to_f64()).filter(|value| value.is_finite())
    }
}

/// The binary logarithm, of as many of its bits as a double tells apart.
fn log2(value: &BigInt) -> f64 {
    let beyond = value.bits().saturating_sub(u64::from(u64::BITS));
    #[expect(
        clippy::cast_precision_loss,
        reason = "a number here has no more bits than a double counts"
    )]
    let power = beyond as f64;
    (value >> beyond).to_f64().unwrap_or(f64::NAN).log2() + power
}

fn nonzero(divisor: &Number) -> Result<(), String> {
    if divisor.is_zero() { Err("division by zero".to_owned()) } else { Ok(()) }
}

/// The root, where it is a fraction.
fn exact_root(value: &BigRational, degree: u32) -> Option<BigRational> {
    if degree == 1 {
        return Some(value.clone());
    }
    if !(2..=ROOT_MAX).contains(&degree) || (value.is_negative() && degree.is_multiple_of(2)) {
        return None;
    }
    let root = BigRational::new(value.numer().nth_root(degree), value.denom().nth_root(degree));
    (root.clone().pow(i32::try_from(degree).ok()?) == *value).then_some(root)
}

/// How many decimals a fraction with this denominator has, where they end soon enough.
fn decimals(denominator: &BigInt) -> Option<u32> {
    let (mut rest, mut places) = (denominator.clone(), [0_u32; 2]);
    for (factor, count) in [2_u32, 5].into_iter().zip(&mut places) {
        while rest.is_multiple_of(&BigInt::from(factor)) {
            rest /= factor;
            *count += 1;
        }
    }
    let most = places.into_iter().max()?;
    (rest.is_one() && usize::try_from(most).ok()? <= DECIMALS_MAX).then_some(most)
}

/// The number with so many decimals, rounded half away from zero.
fn fixed(value: &BigRational, places: u32) -> String {
    let scaled = (value * BigInt::from(10).pow(places)).round().to_integer();
    let sign = if scaled.is_negative() { "-" } else { "" };
    let digits = scaled.abs().to_string();
    let places = usize::try_from(places).unwrap_or_default();
    if places == 0 {
        return format!("{sign}{digits}");
    }
    let padded = format!("{digits:0>width$}", width = places + 1);
    let (whole, part) = padded.split_at(padded.len() - places);
    format!("{sign}{whole}.{part}")
}

/// A fraction so small that its first decimals are all zeros is written as a double.
fn short(fixed: &str, value: &BigRational) -> String {
    let significant = fixed.bytes().filter(u8::is_ascii_digit).skip_while(|b| *b == b'0').count();
    match value.to_f64() {
        Some(near) if significant < 15 => double(near),
        _ => fixed.to_owned(),
    }
}

/// A double in the fewest digits that tell it from others.
fn double(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        value.to_string()
    } else {
        format!("{value:e}")
    }
}
