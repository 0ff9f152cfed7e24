//! Built-in tool `calculator`: exact where a result can be, and honest where it is not.

mod eval;
mod functions;
mod number;

use claw_tool::ToolError;

/// Arguments of `calculator`.
#[claw_tool::input]
struct Calculator {
    /// The expression, for example `(0.1 + 0.2) * 3`, `sqrt(2)^2`, `round(100/7, 2)` or
    /// `max(3, 2^10) % 7`. At most 4,096 characters.
    expression: String,
}

/// What an expression comes to.
#[claw_tool::output]
struct Answer {
    /// The result in decimal digits.
    result: String,
    /// Whether the digits are the whole truth; otherwise they are rounded.
    exact: bool,
    /// The exact value, where it is a fraction whose decimals do not end.
    #[serde(skip_serializing_if = "Option::is_none")]
    fraction: Option<String>,
    /// The nearest double, for programs; absent where the result is beyond it.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
}

fn calculator(args: &Calculator) -> Result<Answer, ToolError> {
    let number = eval::evaluate(&args.expression).map_err(ToolError::invalid_args)?;
    let (result, exact) = number.digits();
    Ok(Answer { result, exact, fraction: number.fraction(), value: number.double() })
}

claw_tool::export! {
    /// Works out an arithmetic expression. Whole numbers and decimals are exact (0.1 + 0.2 is
    /// 0.3, 2^200 has all its digits); roots, logarithms and angles that have no exact value are
    /// rounded, and the answer says so.
    ///
    /// Operators: + - * / % (remainder, with the sign of the left side) ^ (power, from the right;
    /// -2^2 is -4) and parentheses. Constants: pi, e, tau. Functions: abs, sign, floor, ceil,
    /// trunc, round(x, digits), sqrt, cbrt, root(x, n), pow, exp, ln, log(x, base), log2, log10,
    /// sin, cos, tan, asin, acos, atan, atan2, sinh, cosh, tanh (angles in radians), deg, rad,
    /// hypot, min, max, sum, mean, gcd, lcm, factorial. There are no variables and no units.
    calculator [read_only, idempotent, closed_world],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(expression: &str) -> Answer {
        calculator(&Calculator { expression: expression.to_owned() }).unwrap()
    }

    fn why(expression: &str) -> String {
        match calculator(&Calculator { expression: expression.to_owned() }) {
            Err(ToolError::InvalidArgs(why)) => why,
            other => panic!("{expression}: {other:?}"),
        }
    }

    #[test]
    fn whole_numbers_decimals_and_fractions_are_exact() {
        for (expression, result) in [
            ("0.1 + 0.2", "0.3"),
            ("1 + 2 * 3", "7"),
            ("(1 + 2) * 3", "9"),
            ("2^3^2", "512"),
            ("2**10", "1024"),
            ("-2^2", "-4"),
            ("(-2)^2", "4"),
            ("2^-2", "0.25"),
            ("2^200", "1606938044258990275541962092341162602522202993782792835301376"),
            ("7 % 3", "1"),
            ("-7 % 3", "-1"),
            ("7.5 % 2", "1.5"),
            ("1/3 + 2/3", "1"),
            ("1e3 / 8", "125"),
            ("1.5e-3", "0.0015"),
            ("0xff + .5", "255.5"),
            ("sqrt(144)", "12"),
            ("sqrt(2.25)", "1.5"),
            ("8^(1/3)", "2"),
            ("4^1.5", "8"),
            ("(-1)^1001", "-1"),
            ("1^999999999", "1"),
            ("factorial(20)", "2432902008176640000"),
            ("gcd(12, 18) + lcm(4, 6)", "18"),
            ("round(2.5) + round(-2.5)", "0"),
            ("round(1234.5678, 2)", "1234.57"),
            ("round(1250, -2)", "1300"),
            ("floor(-1.5) + ceil(1.2) + trunc(-1.9)", "-1"),
            ("MAX(1, 2, 3) - min(4, 5) + abs(-1) + sign(-9)", "-1"),
            ("sum(1, 2, 3) / mean(2, 4)", "2"),
            ("log10(1000) + log2(8) + log(81, 3)", "10"),
            ("6 × 7 ÷ 2 − 1", "20"),
            // No double is that small, or that large.
            ("abs(-1e-400) * 1e400 + sign(-1e-400)", "0"),
            ("max(1e-400, 2e-400) * 1e400 + min(-1e-400, -2e-400) * 1e400", "0"),
            ("log10(1e-400) + log10(1e400) + log2(2^-1500) + log(1e-400, 1e-200)", "-1498"),
        ] {
            let answer = answer(expression);
            assert_eq!((answer.result.as_str(), answer.exact), (result, true), "{expression}");
        }
    }

    #[test]
    fn what_has_no_end_is_rounded_and_says_so() {
        let third = answer("1/3");
        assert_eq!(third.result, "0.333333333333333333333333333333");
        assert_eq!((third.exact, third.fraction.as_deref()), (false, Some("1/3")));
        for (expression, begins) in [
            ("sqrt(2)", "1.414213562373095"),
            ("pi", "3.14159265358979"),
            ("sin(pi / 2)", "1"),
            ("ln(e)", "1"),
            ("exp(1)", "2.71828182845904"),
            ("ln(1e-400)", "-921.03403719761"),
            ("log(1e400, pi)", "804.58634703"),
            ("1e300 * pi", "3.14159265358979"),
        ] {
            let answer = answer(expression);
            assert!(answer.result.starts_with(begins), "{expression}: {}", answer.result);
            assert!(!answer.exact && answer.fraction.is_none(), "{expression}");
        }
    }

    #[test]
    fn nothing_takes_long_or_nests_without_end() {
        for (expression, says) in [
            ("9^9^9", "too large"),
            ("9^(9^9)", "too large"),
            ("10^400 * 10^400 * 10^4000", "too large"),
            ("factorial(1e9)", "too large"),
            ("1e999999", "exponent"),
            ("(1/3)^10000", "too small"),
            ("sqrt(2e-400)", "too small"),
        ] {
            assert!(why(expression).contains(says), "{expression}: {}", why(expression));
        }
        assert!(why(&"(".repeat(2_000)).contains("nested"));
        assert!(why(&"-".repeat(2_000)).contains("nested"));
        assert!(why(&"1^".repeat(2_000)).contains("nested"));
        assert!(why(&"1+".repeat(4_000)).contains("4096"));
        let long = "9".repeat(1_000);
        assert!(answer(&format!("{long} * {long}")).exact);
    }

    #[test]
    fn errors_say_where_and_what() {
        for (expression, says) in [
            ("", "empty"),
            ("1 +", "ends"),
            ("1 2", "character 3"),
            ("(1", "`)`"),
            ("1)", "character 2"),
            ("1 / 0", "by zero"),
            ("1 % 0", "by zero"),
            ("0^-1", "by zero"),
            ("sqrt(-1)", "real"),
            ("(-8)^0.5", "real"),
            ("ln(0)", "real"),
            ("50%", "remainder"),
            ("foo(1)", "unknown function `foo`"),
            ("x + 1", "unknown name `x`"),
            ("sin()", "takes 1"),
            ("root(1, 2, 3)", "takes 2"),
            ("gcd(1.5, 2)", "whole"),
            ("factorial(-1)", "whole"),
            ("1,000", "character 2"),
            ("2 $ 3", "`$`"),
            ("1..2", "character 3"),
        ] {
            let why = why(expression);
            assert!(why.contains(says), "{expression}: {why}");
        }
    }
}
