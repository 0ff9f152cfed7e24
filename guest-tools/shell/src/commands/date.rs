//! `date`, in UTC: there is no time zone here.

use crate::options::Options;
use crate::shell::Shell;
use crate::stop::{Done, failed};

const MONTHS: [&str; 12] = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
];

const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const DAY_SECONDS: i64 = 86_400;

/// Seconds since 1970 as a calendar shows them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    seconds: i64,
    year: i64,
    month: i64,
    day: i64,
}

impl Moment {
    pub(super) fn new(seconds: i64) -> Self {
        // Howard Hinnant's days-to-civil: years that begin in March, in eras of 400.
        let days = seconds.div_euclid(DAY_SECONDS) + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let march = (5 * of_year + 2) / 153;
        let month = if march < 10 { march + 3 } else { march - 9 };
        let year = year + era * 400 + i64::from(month <= 2);
        Self { seconds, year, month, day: of_year - (153 * march + 2) / 5 + 1 }
    }

    fn of_day(self) -> i64 {
        self.seconds.rem_euclid(DAY_SECONDS)
    }

    fn week_day(self) -> i64 {
        (self.seconds.div_euclid(DAY_SECONDS) + 4).rem_euclid(7)
    }

    fn year_day(self) -> i64 {
        (days(self.year, self.month, self.day) - days(self.year, 1, 1)) + 1
    }

    pub(super) fn format(self, format: &str, nanos: u32) -> String {
        let mut text = String::new();
        let mut rest = format.chars();
        while let Some(c) = rest.next() {
            if c != '%' {
                text.push(c);
                continue;
            }
            let plain = rest.clone().next() == Some('-');
            if plain {
                rest.next();
            }
            let field = self.field(rest.next().unwrap_or('%'), nanos);
            let trimmed = field.trim_start_matches(['0', ' ']);
            text.push_str(if plain && !trimmed.is_empty() { trimmed } else { &field });
        }
        text
    }

    fn field(self, letter: char, nanos: u32) -> String {
        let (hour, minute, second) =
            (self.of_day() / 3600, self.of_day() / 60 % 60, self.of_day() % 60);
        let twelve = (hour + 11) % 12 + 1;
        let short = |name: String| name.chars().take(3).collect::<String>();
        match letter {
            'Y' => self.year.to_string(),
            'y' => format!("{:02}", self.year % 100),
            'C' => format!("{:02}", self.year / 100),
            'm' => format!("{:02}", self.month),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'H' => format!("{hour:02}"),
            'I' => format!("{twelve:02}"),
            'M' => format!("{minute:02}"),
            'S' => format!("{second:02}"),
            'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            'N' => format!("{nanos:09}"),
            's' => self.seconds.to_string(),
            'F' => self.format("%Y-%m-%d", nanos),
            'T' => self.format("%H:%M:%S", nanos),
            'R' => self.format("%H:%M", nanos),
            'D' => self.format("%m/%d/%y", nanos),
            'c' => self.format("%a %b %e %H:%M:%S %Y", nanos),
            'j' => format!("{:03}", self.year_day()),
            'u' => ((self.week_day() + 6) % 7 + 1).to_string(),
            'w' => self.week_day().to_string(),
            'A' => name(&DAYS, self.week_day()),
            'a' => short(name(&DAYS, self.week_day())),
            'B' => name(&MONTHS, self.month - 1),
            'b' | 'h' => short(name(&MONTHS, self.month - 1)),
            'Z' => "UTC".to_owned(),
            'z' => "+0000".to_owned(),
            'n' => "\n".to_owned(),
            't' => "\t".to_owned(),
            '%' => "%".to_owned(),
            other => format!("%{other}"),
        }
    }
}

fn name(names: &[&str], at: i64) -> String {
    usize::try_from(at).ok().and_then(|at| names.get(at)).map_or(String::new(), |n| (*n).to_owned())
}

/// Days since 1970 of a date.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

pub(super) fn date(shell: &mut Shell, arguments: &[String]) -> Done {
    let long = [("date", 'd'), ("utc", 'u'), ("iso-8601", 'I'), ("reference", 'r')];
    let (options, operands) = Options::all("d:uIr:R", &long, arguments)?;
    let now = shell.clock.wall();
    let now_seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let (seconds, nanos) = match (options.value('d'), options.value('r')) {
        (Some(text), _) => match parse(text, now_seconds) {
            Some(seconds) => (seconds, 0),
            None => {
                return failed(format!(
                    "{text:?} is no date here: use @SECONDS or YYYY-MM-DD [HH:MM[:SS]]"
                ));
            }
        },
        (None, Some(name)) => {
            let stat = shell.files.stat(&shell.path(name)?, true)?;
            (i64::try_from(stat.modified.as_secs()).unwrap_or(0), stat.modified.subsec_nanos())
        }
        (None, None) => (now_seconds, now.subsec_nanos()),
    };
    let format = match operands.first() {
        Some(format) => match format.strip_prefix('+') {
            Some(format) => format,
            None => return failed("the date cannot be set; a format begins with +"),
        },
        None if options.has('I') => "%F",
        None if options.has('R') => "%a, %d %b %Y %T %z",
        None => "%a %b %e %H:%M:%S %Z %Y",
    };
    shell.line(&Moment::new(seconds).format(format, nanos))?;
    Ok(0)
}

/// `@seconds`, `now`, or a date with a time.
pub(super) fn parse(text: &str, now: i64) -> Option<i64> {
    if let Some(seconds) = text.strip_prefix('@') {
        return seconds.split('.').next()?.parse().ok();
    }
    match text {
        "now" | "today" => return Some(now),
        "yesterday" => return Some(now - DAY_SECONDS),
        "tomorrow" => return Some(now + DAY_SECONDS),
        _ => {}
    }
    let text = text.trim_end_matches('Z').trim_end_matches(" UTC");
    let (date, time) = text.split_once([' ', 'T']).unwrap_or((text, "00:00"));
    let numbers = |text: &str, by: char| -> Option<Vec<i64>> {
        text.split(by).map(|part| part.parse::<u32>().ok().map(i64::from)).collect()
    };
    let date = numbers(date, '-')?;
    let time = numbers(time, ':')?;
    match (&*date, &*time) {
        ([year, month @ 1..=12, day @ 1..=31], [hour @ 0..=23, minute @ 0..=59, rest @ ..])
            if *year < 100_000 =>
        {
            let second = rest.first().copied().unwrap_or(0);
            Some(days(*year, *month, *day) * DAY_SECONDS + hour * 3600 + minute * 60 + second)
        }
        _ => None,
    }
}
