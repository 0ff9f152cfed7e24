//! Numbers of people: telephones, social security, cards and accounts.

use std::ops::Range;

use super::{CARD, IBAN, PHONE, SSN, ends, stands_alone, word_before};

/// Digits of an international number: E.164 has no more, and no country has fewer.
const PHONE_DIGITS: std::ops::RangeInclusive<usize> = 9..=15;

/// Digits of every number of North America (+1) and Russia (+7).
const FIXED_DIGITS: usize = 11;
/// How none of these begins: it may be a row of numbers that a patch adds, or a date.
const NO_AREAS: [&str; 5] = ["10", "11", "70", "71", "72"];

/// Lengths of the account numbers of countries (ISO 13616).
const IBAN_LENGTHS: &str = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 \
    DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 \
    IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 \
    MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 \
    SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30";

/// How the digits of a card are grouped where they are.
const CARD_GROUPS: [&[usize]; 4] = [&[4, 4, 4, 4, 3], &[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4]];

/// Names of numbers that are no card's, however they end.
const ID_WORDS: [&str; 10] =
    ["id", "ids", "offset", "time", "timestamp", "seq", "nonce", "ts", "hash", "span"];

pub(super) fn international(text: &str, at: Range<usize>) -> Option<(&'static str, Range<usize>)> {
    let mut found = text.get(at.clone())?;
    // North America and Russia have one length; a plus before a time is none.
    let is_fixed = found.starts_with("+1") || found.starts_with("+7");
    let most = if is_fixed { FIXED_DIGITS } else { *PHONE_DIGITS.end() };
    // What follows after a space may be another number.
    while digits(found).len() > most {
        found = found.get(..found.rfind(|c: char| !c.is_ascii_digit())?)?;
    }
    let found = found.trim_end_matches(|c: char| !c.is_ascii_digit());
    let digits = digits(found);
    let at = at.start..at.start + found.len();
    let is_planned = !is_fixed
        || (digits.len() == FIXED_DIGITS && !NO_AREAS.iter().any(|it| digits.starts_with(it)));
    let is_one = PHONE_DIGITS.contains(&digits.len())
        && is_planned
        && !is_fraction(found)
        && !is_far_date(found)
        && stands_alone(text, &at);
    is_one.then_some((PHONE, at))
}

/// `+6073641856.9`; some write `+44.2079460000`.
fn is_fraction(found: &str) -> bool {
    let parts = found.split_once('.').filter(|(whole, _)| is_digits(whole.trim_start_matches('+')));
    parts.is_some_and(|(_, rest)| rest.len() < 4 && is_digits(rest))
}

/// A date of ISO 8601 whose year has more than four digits, as `+999999-12-25`.
fn is_far_date(found: &str) -> bool {
    let parts: Vec<&str> = found.trim_start_matches('+').split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let is_two = |part: &str, most: &str| part.len() == 2 && is_digits(part) && *part <= *most;
    year.len() > 4 && is_digits(year) && is_two(month, "12") && is_two(day, "31")
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) fn american(text: &str, at: Range<usize>) -> Option<(&'static str, Range<usize>)> {
    let found = text.get(at.clone())?;
    let gap = |from_end: usize| found.bytes().rev().nth(from_end);
    let (first, last) = (gap(8), gap(4));
    // Columns of numbers have spaces as well, and a number with one dot is another.
    let is_even = found.contains('(') || first == last || (first, last) == (Some(b' '), Some(b'-'));
    let is_named = || is_phone_word(&word_before(text, at.start));
    let is_spaced = !found.contains(['(', '-', '.']);
    (is_even && stands_alone(text, &at) && (!is_spaced || is_named())).then_some((PHONE, at))
}

fn is_phone_word(word: &str) -> bool {
    ["phone", "tel", "call", "mobile", "cell", "fax", "dial", "sms"]
        .iter()
        .any(|it| word.ends_with(it))
}

pub(super) fn named_phone(text: &str, at: Range<usize>) -> Option<(&'static str, Range<usize>)> {
    let (value, at) = behind_name(text, at)?;
    let digits = digits(value);
    let is_date = value.as_bytes().get(4) == Some(&b'-') && value.as_bytes().get(7) == Some(&b'-');
    // A time in seconds or milliseconds begins with a 1, which no number here does.
    let is_time = value.len() == digits.len() && value.starts_with('1') && digits.len() != 11;
    let is_one = PHONE_DIGITS.contains(&digits.len()) && !is_date && !is_time && ends(text, at.end);
    is_one.then_some((PHONE, at))
}

pub(super) fn ssn(text: &str, at: Range<usize>) -> Option<(&'static str, Range<usize>)> {
    let (value, at) = behind_name(text, at)?;
    let digits = digits(value);
    let (area, rest) = digits.split_at_checked(3)?;
    let is_one = !matches!(area, "000" | "666")
        && !area.starts_with('9')
        && !rest.starts_with("00")
        && !rest.ends_with("0000");
    (is_one && stands_alone(text, &at)).then_some((SSN, at))
}

/// Returns the number of a match that may begin with the number's name.
fn behind_name(text: &str, at: Range<usize>) -> Option<(&str, Range<usize>)> {
    let found = text.get(at.clone())?;
    let is_value = |c: char| c.is_ascii_digit() || " ()-.".contains(c);
    let value = found.get(found.rfind(|c| !is_value(c)).map_or(0, |last| last + 1)..)?;
    let value = value.trim_start_matches([' ', '.', '-', ')']);
    let start = at.end - value.len();
    let value = value.trim_end_matches(|c: char| !c.is_ascii_digit());
    Some((value, start..start + value.len()))
}

pub(super) fn card(text: &str, at: Range<usize>) -> Option<(&'static str, Range<usize>)> {
    let groups: Vec<usize> = text.get(at.clone())?.split([' ', '-']).map(str::len).collect();
    let grouped = CARD_GROUPS.iter().filter(|of| groups.starts_with(of));
    let grouped = grouped.map(|of| of.iter().sum::<usize>() + of.len() - 1);
    // What follows after a space may be another number: when the card ends, or the digits on its back.
    let mut lengths = grouped.chain(groups.first().copied());
    lengths.find_map(|len| one_card(text, at.start..at.start + len))
}

fn one_card(text: &str, at: Range<usize>) -> Option<(&'static str, Range<usize>)> {
    let found = text.get(at.clone())?;
    let (is_spaced, is_dashed) = (found.contains(' '), found.contains('-'));
    let word = word_before(text, at.start);
    let is_id = || ID_WORDS.contains(&word.rsplit('_').next().unwrap_or_default());
    let digits = digits(found);
    let is_one = !(is_spaced && is_dashed)
        && is_issued(&digits)
        && luhn(&digits)
        && stands_alone(text, &at)
        && (is_spaced || is_dashed || !is_id());
    is_one.then_some((CARD, at))
}

/// Says whether an issuer gives out numbers of that beginning and length.
fn is_issued(digits: &str) -> bool {
    let first = |len: usize| digits.get(..len).and_then(|first| first.parse().ok()).unwrap_or(0);
    match digits.len() {
        14 => matches!(first(2), 36 | 38 | 39) || matches!(first(3), 300..=305),
        15 => matches!(first(2), 34 | 37),
        16 => {
            first(1) == 4
                || matches!(first(2), 51..=55 | 62 | 65)
                || matches!(first(3), 644..=649)
                || matches!(first(4), 2221..=2720 | 3528..=3589 | 6011)
        }
        19 => first(1) == 4 || first(2) == 62,
        _ => false,
    }
}

/// Luhn's sum: every second digit from the end counts twice.
fn luhn(digits: &str) -> bool {
    let value = |(at, digit): (usize, char)| {
        let digit = digit.to_digit(10).unwrap_or(0);
        let twice = if at % 2 == 1 { digit * 2 } else { digit };
        twice / 10 + twice % 10
    };
    digits.chars().rev().enumerate().map(value).sum::<u32>().is_multiple_of(10)
}

pub(super) fn iban(text: &str, at: Range<usize>) -> Option<(&'static str, Range<usize>)> {
    let found = text.get(at.clone())?;
    let lengths = IBAN_LENGTHS.split_whitespace().map(|entry| entry.split_at(2));
    let length = lengths
        .into_iter()
        .find_map(|(country, length)| found.starts_with(country).then_some(length))?;
    let last = length.parse::<usize>().ok()?.checked_sub(1)?;
    let letters = || found.char_indices().filter(|(_, c)| *c != ' ');
    let end = at.start + letters().nth(last)?.0 + 1;
    let account: String = letters().map(|(_, c)| c).take(last + 1).collect();
    let at = at.start..end;
    (stands_alone(text, &at) && is_iban(&account)).then_some((IBAN, at))
}

/// The remainder of 97 that ISO 13616 asks for: the country comes last, letters are two digits.
fn is_iban(account: &str) -> bool {
    let (country, rest) = account.split_at_checked(4).unwrap_or_default();
    let digits = rest.chars().chain(country.chars()).filter_map(|c| c.to_digit(36));
    let rest = |sum: u32, digit: u32| (sum * if digit > 9 { 100 } else { 10 } + digit) % 97;
    digits.fold(0, rest) == 1
}

fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}
